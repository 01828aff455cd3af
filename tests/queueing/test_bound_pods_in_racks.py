"""Topologies that end above hosts: bound pods count on their nodes, but not those that would have left."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.meta import Key
from quorate.queueing.inadmissible_reasons import AwaitingPreemption, ReservedForEarlierWorkload
from tests.queueing.notation import Json
from tests.queueing.test_planned_starts import planned, queue, reasons, run_cycle, started
from tests.queueing.world import World

LEVELS = ["rack"], ["block", "rack"], ["block", "rack", "kubernetes.io/hostname"]


def gang(name: str, created: int, pods: int, maximum_s: int | None, **others: Any) -> Json:
    pod_set = {"name": "main", "count": pods, "requests": {"cpu": 2}, "topology": {"required": "rack"}}
    return {
        "name": name,
        "queue": "q",
        "created": created,
        "maximumExecutionTimeSeconds": maximum_s,
        "podSets": [pod_set],
        **others,
    }


def a_world(levels: list[str], *jobs: Json, **rules: Any) -> World:
    """Return the world of one rack with two nodes of 2 cpus, in which the pods of ``first`` are bound."""
    nodes = {
        name: {"labels": {"pool": "tas", "block": "b", "rack": "r"}, "allocatable": {"cpu": 2, "pods": 9}}
        for name in ("n1", "n2")
    }
    given = {
        "topologies": {"racks": {"levels": levels}},
        "flavors": {"tas": {"topologyName": "racks", "nodeLabels": {"pool": "tas"}}},
        "nodes": nodes,
        "clusterQueues": {"q": queue(8, quota=[{"tas": {"cpu": 8}}], **rules)},
        "workloads": jobs,
        "now": 10,
    }
    world = World(given)
    run_cycle(world)
    assert started(world) == {"first"}
    for name in nodes:
        pod = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "annotations": {
                    "kueue.x-k8s.io/podset-required-topology": "rack",
                    "kueue.x-k8s.io/workload": "first",
                },
            },
            "spec": {
                "nodeName": name,
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "2"}}}],
            },
            "status": {"phase": "Running"},
        }
        world.state.nodes.put_pod(codec.convert(Pod, pod))
    world.run({"create": [job["name"] for job in jobs if job["name"] != "first"]})
    for _ in range(3):
        run_cycle(world)
    return world


@pytest.mark.parametrize("levels", LEVELS)
def test_the_pods_of_what_ends_by_then_leave_their_nodes_to_the_planned_workload(levels: list[str]) -> None:
    large, small = gang("large", 1, 2, 60, create="later"), gang("small", 2, 1, 1000, create="later")
    world = a_world(levels, gang("first", 0, 2, 100), large, small)
    assert started(world) == {"first"}
    assert planned(world) == ("large", 110)
    world.now = 111
    for name in ("n1", "n2"):
        world.state.nodes.remove_pod(Key("default", name))
    world.run({"finish": ["first"]})
    run_cycle(world)
    assert "large" in started(world)
    run_cycle(world)
    (reason,) = reasons(world, "small")
    assert not isinstance(reason, ReservedForEarlierWorkload)


@pytest.mark.parametrize("levels", LEVELS)
def test_a_workload_preempts_for_the_nodes_of_bound_pods(levels: list[str]) -> None:
    world = a_world(
        levels,
        gang("first", 0, 2, 100),
        gang("large", 1, 2, 60, create="later", priority=1),
        preemption={"withinClusterQueue": "LowerPriority"},
        annotations={},
    )
    assert AwaitingPreemption in map(type, reasons(world, "large"))
