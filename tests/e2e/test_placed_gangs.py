"""Queued gangs with an admission that holds places on nodes: the places are for their own pods."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
import pytest

from quorate.api.configuration import Configuration, default_configuration
from quorate.api.configuration.integrations import VOLCANO_JOB, VOLCANO_POD_GROUP, Integrations
from quorate.api.configuration.queueing import NodeFit, NodeFitMode
from quorate.api.scheduler_configuration import DEFAULT_FILE
from quorate.kube.resources import JOBS, POD_GROUPS, TOPOLOGIES, VOLCANO_JOBS
from quorate.local.nodes import NodePool
from tests.e2e import shared_clusters
from tests.e2e.gangs import NAME, GangWorld, settings
from tests.e2e.volcano import DEFINITIONS
from tests.e2e.world import NAMESPACE, World, running_cluster

pytestmark = pytest.mark.slow

LABELS: Final = {"kueue.x-k8s.io/queue-name": "queue"}
HOST: Final = "kubernetes.io/hostname"
PODS: Final = 12  # of 1 cpu, on two nodes of 8
RUNS: Final = {"simulate.quorate.dev/duration": "100ms", "simulate.quorate.dev/start-delay": "10ms"}

Json = dict[str, Any]


def a_template(**metadata: Any) -> Json:
    container = {"name": "main", "image": "i", "resources": {"requests": {"cpu": "1"}}}
    spec = {"schedulerName": NAME, "restartPolicy": "Never", "containers": [container]}
    return {"metadata": {"annotations": RUNS, **metadata}, "spec": spec}


async def a_volcano_job(world: World, gangs: GangWorld, name: str) -> None:
    tasks = [{"name": "worker", "replicas": PODS, "template": a_template()}]
    body = {
        "metadata": {"name": name, "labels": LABELS},
        "spec": {"minAvailable": PODS, "schedulerName": NAME, "tasks": tasks},
    }
    await world.client.create(VOLCANO_JOBS, body, NAMESPACE)


async def a_batch_job(world: World, gangs: GangWorld, name: str) -> None:
    spec = {"parallelism": PODS, "completions": PODS, "suspend": True, "template": a_template()}
    annotations = {"scheduling.volcano.sh/group-min-member": str(PODS)}
    metadata = {"name": name, "labels": LABELS, "annotations": annotations}
    await world.client.create(JOBS, {"metadata": metadata, "spec": spec}, NAMESPACE)


async def a_pod_group(
    world: World, gangs: GangWorld, name: str, pods: int = PODS, runs: str = "100ms"
) -> None:
    body = {
        "metadata": {"name": name, "labels": LABELS},
        "spec": {"minMember": pods, "minResources": {"cpu": str(pods)}},
    }
    await world.client.create(POD_GROUPS, body, NAMESPACE)
    await gangs.pods(name, pods, runs=runs)


KINDS: Final[Mapping[str, Callable[[World, GangWorld, str], Awaitable[None]]]] = {
    "volcano-job": a_volcano_job,
    "job": a_batch_job,
    "group": a_pod_group,
}


def a_configuration(node_fit: NodeFitMode) -> Configuration:
    configuration = default_configuration()
    frameworks = (*configuration.integrations.frameworks, VOLCANO_JOB, VOLCANO_POD_GROUP)
    return msgspec.structs.replace(
        configuration,
        node_fit=NodeFit(mode=node_fit),
        integrations=Integrations(frameworks=tuple(dict.fromkeys(frameworks))),
    )


@asynccontextmanager
async def a_queue_with_two_nodes(node_fit: NodeFitMode, *, has_topology: bool) -> AsyncIterator[World]:
    fleet = NodePool(2, cpu="8", labels={"pool": "tas"})
    async with running_cluster(fleet, definitions=DEFINITIONS) as world:
        await world.start_queueing(a_configuration(node_fit))
        flavor: Json = {}
        if has_topology:
            await world.create(TOPOLOGIES, "tree", spec={"levels": [{"nodeLabel": HOST}]})
            flavor = {"nodeLabels": {"pool": "tas"}, "topologyName": "tree"}
        await world.flavor(**flavor)
        await world.cluster_queue("99")
        await world.local_queue()
        yield world


@asynccontextmanager
async def a_scheduler(world: World, profile: str) -> AsyncIterator[GangWorld]:
    gangs = GangWorld(world.client, world.queueing_client)
    try:
        await gangs.start_scheduler(settings(f"profile: {profile}\n{DEFAULT_FILE}"))
        yield gangs
    finally:
        await gangs.stop_scheduler()


@pytest.mark.parametrize(
    ("node_fit", "has_topology"),
    [
        pytest.param("Report", False, id="no node is asked"),
        pytest.param("Require", False, id="the nodes are asked"),
        pytest.param("Report", True, id="the flavor has a topology"),
    ],
)
def test_a_placed_gang_of_each_kind_starts(node_fit: NodeFitMode, has_topology: bool) -> None:
    async def run() -> None:
        async with a_queue_with_two_nodes(node_fit, has_topology=has_topology) as world:
            for profile in ("design", "compat"):
                async with a_scheduler(world, profile) as gangs:
                    for kind, create in KINDS.items():
                        name = f"{profile}-{kind}"
                        await create(world, gangs, name)
                        await world.until_condition(name, "Finished", "True", "Succeeded")

    shared_clusters.run(run())


@pytest.mark.parametrize(
    ("node_fit", "has_topology"),
    [
        pytest.param("Require", False, id="the nodes are asked"),
        pytest.param("Report", True, id="the flavor has a topology"),
    ],
)
def test_pod_groups_that_fit_together_run_together(node_fit: NodeFitMode, has_topology: bool) -> None:
    """The pods of the first group are not counted beside the places that it was admitted with."""

    async def run() -> None:
        async with (
            a_queue_with_two_nodes(node_fit, has_topology=has_topology) as world,
            a_scheduler(world, "design") as gangs,
        ):
            for name in ("first", "second"):
                await a_pod_group(world, gangs, name, pods=8, runs="1h")
                await gangs.until_phase(name, "Running")

    shared_clusters.run(run())
