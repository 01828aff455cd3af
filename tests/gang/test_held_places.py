"""Room that admitted workloads hold: of 8 cpus on node a, two places of 3 cpus."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node
from quorate.api.kueue.placed_workload import PlacedWorkload
from quorate.api.kueue.topology import topology_assignment
from quorate.api.meta import Key
from quorate.gang.cache.model import Model
from quorate.placement.cluster.audit import audit_cluster

HOST = "kubernetes.io/hostname"
GATE = {"name": "kueue.x-k8s.io/topology"}


def a_node(name: str = "a") -> Node:
    node = {"metadata": {"name": name, "labels": {HOST: name}}, "status": {"allocatable": {"cpu": "8"}}}
    return codec.convert(Node, node)


def a_workload(
    host: str = "a", pods: int = 2, usage: str = "6", hosts: dict[str, int] | None = None, **status: Any
) -> PlacedWorkload:
    container = {"name": "main", "resources": {"requests": {"cpu": "3"}}}
    pod_set = {"name": "main", "count": pods, "template": {"spec": {"containers": [container]}}}
    domains = [((name,), count) for name, count in (hosts or {host: pods}).items()]
    places = codec.decode(dict[str, Any], codec.encode(topology_assignment((HOST,), domains)))
    assigned = {"name": "main", "count": pods, "resourceUsage": {"cpu": usage}, "topologyAssignment": places}
    body = {
        "metadata": {"name": "w", "namespace": "ns"},
        "spec": {"podSets": [pod_set]},
        "status": {"admission": {"podSetAssignments": [assigned]}, **status},
    }
    return codec.decode(PlacedWorkload, codec.encode(body))


def a_pod(node: str = "", host: str = "a", gated: bool = False, phase: str = "Pending", **spec: Any) -> Pod:
    container = {"name": "main", "resources": {"requests": {"cpu": "3"}}}
    body = {
        "metadata": {
            "name": "p",
            "namespace": "ns",
            "uid": "p",
            "labels": {"kueue.x-k8s.io/podset": "main"},
            "annotations": {"kueue.x-k8s.io/workload": "w", "scheduling.k8s.io/group-name": "g"},
        },
        "spec": {
            "containers": [container],
            "nodeName": node,
            "nodeSelector": {HOST: host} if host else {},
            "schedulingGates": [GATE] if gated else [],
            **spec,
        },
        "status": {"phase": phase},
    }
    return codec.decode(Pod, codec.encode(body))


def idle(model: Model, node: str = "a") -> int:
    assert not any(audit_cluster(model.cluster)), "sums differ from what is on the nodes"
    index, row = model.cluster.index(node), model.cluster.row("cpu")
    assert index is not None
    return int(model.cluster.allocatable[row, index] - model.cluster.used[row, index]) // 1000


@pytest.mark.parametrize(
    ("pod", "left"),
    [
        pytest.param(None, 2, id="the pods do not exist"),
        pytest.param(a_pod(gated=True, host=""), 2, id="a pod is gated"),
        pytest.param(a_pod(), 2, id="a pod waits for another scheduler"),
        pytest.param(a_pod(node="a", phase="Running"), 2, id="a pod runs in its place"),
        pytest.param(a_pod(node="a", phase="Succeeded"), 5, id="a pod has ended in its place"),
        pytest.param(a_pod(node="a", phase="Failed"), 2, id="a pod failed, and is replaced"),
        pytest.param(a_pod(schedulerName="volcano"), 5, id="a pod is to be placed by this scheduler"),
        pytest.param(a_pod(schedulerName="volcano", gated=True), 2, id="a pod will be"),
        pytest.param(a_pod(node="b", host="b", phase="Running"), 2, id="a pod runs elsewhere"),
    ],
)
def test_a_place_is_held_until_its_pod_has_arrived(pod: Pod | None, left: int) -> None:
    model = Model(("volcano",))
    for name in ("a", "b"):
        model.set_node(a_node(name))
    if pod is not None:
        model.set_pod(pod)
    model.set_workload(a_workload())
    assert idle(model) == left
    model.remove_workload(Key("ns", "w"))
    if pod is not None:
        model.remove_pod(Key("ns", "p"))
    assert (idle(model), idle(model, "b")) == (8, 8)


@pytest.mark.parametrize(
    ("pod", "left"),
    [
        pytest.param(None, (5, 5), id="the other pod may come to either host"),
        pytest.param(a_pod(node="a", phase="Running"), (5, 8), id="it runs"),
        pytest.param(a_pod(node="a", phase="Succeeded"), (8, 5), id="it is the one that has ended"),
        pytest.param(a_pod(node="a", phase="Failed"), (5, 5), id="it failed, and may be replaced anywhere"),
    ],
)
def test_no_place_is_held_for_a_pod_that_has_ended_for_good(pod: Pod | None, left: tuple[int, int]) -> None:
    """Of one pod on each host, one has ended."""
    model = Model(("volcano",))
    for name in ("a", "b"):
        model.set_node(a_node(name))
    workload = a_workload(hosts={"a": 1, "b": 1}, reclaimablePods=[{"name": "main", "count": 1}])
    model.set_workload(workload)
    if pod is not None:
        model.set_pod(pod)
    assert (idle(model), idle(model, "b")) == left
    if pod is not None:
        model.remove_pod(Key("ns", "p"))
    assert (idle(model), idle(model, "b")) == (5, 5)
    model.set_workload(a_workload(hosts={"a": 1, "b": 1}))
    assert (idle(model), idle(model, "b")) == (5, 5)


@pytest.mark.parametrize(
    ("changed", "left"),
    [
        pytest.param(a_workload(host="b"), (8, 2), id="to another host"),
        pytest.param(a_workload(pods=1, usage="3"), (5, 8), id="to fewer pods"),
        pytest.param(a_workload(usage="8"), (0, 8), id="to larger pods"),
        pytest.param(
            a_workload(conditions=[{"type": "Finished", "status": "True"}]), (8, 8), id="as it finished"
        ),
    ],
)
def test_places_change(changed: PlacedWorkload, left: tuple[int, int]) -> None:
    model = Model(("volcano",))
    for name in ("a", "b"):
        model.set_node(a_node(name))
    model.set_workload(a_workload())
    model.set_workload(changed)
    assert (idle(model), idle(model, "b")) == left


def test_a_selector_that_arrives_changes_no_amount() -> None:
    model = Model(("volcano",))
    model.set_node(a_node())
    model.set_workload(a_workload())
    term = {"topologyKey": HOST, "labelSelector": {"matchLabels": {"app": "x"}}}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    model.set_pod(a_pod(node="a", host="", affinity=affinity))
    model.refresh_shapes()
    assert idle(model) == -1  # two places and the pod, which has none of them
    model.remove_workload(Key("ns", "w"))
    assert idle(model) == 5
