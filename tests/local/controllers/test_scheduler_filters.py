"""Filters and scores of the plain scheduler, in a one-line notation."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core import Node, Pod, Taint, Toleration, tolerates
from quorate.local.controllers.scheduler_filters import (
    FitError,
    NodeInfo,
    SelectedNode,
    pod_amounts,
    select_node,
)


def a_node(name: str, cpu: str = "4", memory: str = "8Gi", **more: Any) -> NodeInfo:
    """``more``: labels, taints, unschedulable, ready, and resources by name."""
    allocatable = {"cpu": cpu, "memory": memory, "pods": "3", **more.get("resources", {})}
    wire = {
        "metadata": {"name": name, "labels": more.get("labels", {})},
        "spec": {"taints": more.get("taints", []), "unschedulable": more.get("unschedulable", False)},
        "status": {
            "allocatable": allocatable,
            "conditions": [{"type": "Ready", "status": more.get("ready", "True")}],
        },
    }
    return NodeInfo(codec.decode(Node, codec.encode(wire)))


def a_pod(cpu: str = "1", memory: str = "1Gi", **spec: Any) -> Pod:
    requests = {"cpu": cpu, "memory": memory, **spec.pop("requests", {})}
    wire = {
        "metadata": {"name": "p", "namespace": "ns"},
        "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}], **spec},
    }
    return codec.decode(Pod, codec.encode(wire))


def affinity(*terms: dict[str, Any]) -> dict[str, Any]:
    required = {"nodeSelectorTerms": list(terms)}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


GPU_TAINT = {"key": "gpu", "value": "t4", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("pod", "nodes", "want"),
    [
        pytest.param(a_pod(), [], "no nodes available to schedule pods", id="no nodes"),
        pytest.param(a_pod("4", "8Gi"), [a_node("a")], "a", id="an exact fit is a fit"),
        pytest.param(
            a_pod(memory="9Gi"),
            [a_node("a"), a_node("b")],
            "0/2 nodes are available: 2 Insufficient memory",
            id="too little memory",
        ),
        pytest.param(
            a_pod("5", "9Gi"),
            [a_node("a"), a_node("b", cpu="8")],
            "0/2 nodes are available: 1 Insufficient cpu, 2 Insufficient memory",
            id="every insufficient resource is listed",
        ),
        pytest.param(
            a_pod(requests={"nvidia.com/gpu": "2"}),
            [a_node("a", resources={"nvidia.com/gpu": "1"}), a_node("b", resources={"nvidia.com/gpu": "2"})],
            "b",
            id="extended resources",
        ),
        pytest.param(
            a_pod(requests={"nvidia.com/gpu": "0"}), [a_node("a")], "a", id="a resource that the node lacks"
        ),
        pytest.param(a_pod(), [a_node("a"), a_node("b", cpu="8")], "b", id="the largest free share"),
        pytest.param(a_pod(), [a_node("b"), a_node("a")], "a", id="equal nodes: by name"),
        pytest.param(
            a_pod(nodeSelector={"zone": "x"}),
            [a_node("a"), a_node("b", labels={"zone": "x"})],
            "b",
            id="node selector",
        ),
        pytest.param(
            a_pod(affinity=affinity({"matchExpressions": [expression("zone", "In", "x")]})),
            [a_node("a", labels={"zone": "y"})],
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector",
            id="required affinity",
        ),
        pytest.param(
            a_pod(
                affinity=affinity(
                    {"matchExpressions": [expression("zone", "In", "x")]},
                    {"matchFields": [expression("metadata.name", "In", "b")]},
                )
            ),
            [a_node("a"), a_node("b")],
            "b",
            id="one matching term suffices",
        ),
        pytest.param(
            a_pod(affinity=affinity({})),
            [a_node("a")],
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector",
            id="an empty term matches nothing",
        ),
        pytest.param(
            a_pod(),
            [a_node("a", taints=[GPU_TAINT])],
            "0/1 nodes are available: 1 node(s) had untolerated taint {gpu: t4}",
            id="a taint",
        ),
        pytest.param(
            a_pod(tolerations=[{"key": "gpu", "operator": "Exists"}]),
            [a_node("a", taints=[GPU_TAINT])],
            "a",
            id="a tolerated taint",
        ),
        pytest.param(
            a_pod(),
            [a_node("a", taints=[GPU_TAINT | {"effect": "PreferNoSchedule"}])],
            "a",
            id="a preference is no filter",
        ),
        pytest.param(
            a_pod(),
            [a_node("a", unschedulable=True), a_node("b", ready="False")],
            "0/2 nodes are available: 1 node(s) were not ready, 1 node(s) were unschedulable",
            id="unschedulable and not ready nodes",
        ),
        pytest.param(
            a_pod(tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
            [a_node("a", unschedulable=True)],
            "a",
            id="a pod that tolerates unschedulable nodes",
        ),
    ],
)
def test_select_node(pod: Pod, nodes: list[NodeInfo], want: str) -> None:
    choice = select_node(pod, nodes)
    match choice:
        case SelectedNode(node):
            assert node == want
        case FitError():
            assert str(choice) == want


def test_resources_are_used_and_released() -> None:
    node_info, pod = a_node("a"), a_pod("3")
    node_info.add_pod(pod_amounts(pod.spec))
    assert str(select_node(pod, [node_info])) == "0/1 nodes are available: 1 Insufficient cpu"
    node_info.remove_pod(pod_amounts(pod.spec))
    assert select_node(pod, [node_info]) == SelectedNode("a")


def test_a_node_holds_a_limited_number_of_pods() -> None:
    node_info, pod = a_node("a"), a_pod("0", "0")
    for _ in range(3):
        assert select_node(pod, [node_info]) == SelectedNode("a")
        node_info.add_pod(pod_amounts(pod.spec))
    assert str(select_node(pod, [node_info])) == "0/1 nodes are available: 1 Too many pods"


def test_equal_pods_spread_over_equal_nodes() -> None:
    rooms = {name: a_node(name) for name in ("a", "b")}
    chosen = []
    for _ in range(4):
        choice = select_node(a_pod(), rooms.values())
        assert isinstance(choice, SelectedNode)
        rooms[choice.node].add_pod(pod_amounts(a_pod().spec))
        chosen.append(choice.node)
    assert chosen == ["a", "b", "a", "b"]


@pytest.mark.parametrize(
    ("toleration", "want"),
    [
        pytest.param(Toleration(key="gpu", value="t4"), True, id="Equal is the default"),
        pytest.param(Toleration(key="gpu", value="a100"), False, id="another value"),
        pytest.param(Toleration(operator="Exists"), True, id="no key tolerates every taint"),
        pytest.param(
            Toleration(key="gpu", operator="Exists", effect="NoExecute"), False, id="another effect"
        ),
    ],
)
def test_tolerates(toleration: Toleration, want: bool) -> None:
    assert tolerates([toleration], Taint(key="gpu", value="t4", effect="NoSchedule")) is want
