"""Taints by the conditions of nodes, nodes that expire, and pods of nodes that are not ready."""

import asyncio
from typing import Any

import pytest

from quorate.api.core import Node, NodeSpec, NodeStatus, Taint
from quorate.api.meta import Condition, Key, ObjectMeta
from quorate.kube.client import PatchKind
from quorate.kube.resources import NODES
from quorate.local.controllers.node_lifecycle import (
    Evictions,
    evictions,
    taint_changes,
    unknown_conditions,
)
from quorate.local.nodes import NodePool
from tests.local.controllers.running_cluster import LocalCluster, local_cluster

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
MEMORY = "node.kubernetes.io/memory-pressure"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"


def a_node(conditions: str, taints: str = "", *, unschedulable: bool = False) -> Node:
    rows = [row.split("=") for row in conditions.split()]
    pairs = [taint.split(":") for taint in taints.split()]
    return Node(
        metadata=ObjectMeta(name="n"),
        spec=NodeSpec(
            taints=tuple(Taint(key=key, effect=effect) for key, effect in pairs), unschedulable=unschedulable
        ),
        status=NodeStatus(conditions=tuple(Condition(type=t, status=s) for t, s in rows)),  # type: ignore[arg-type]
    )


def texts(taints: frozenset[tuple[str, str]]) -> str:
    return " ".join(":".join(taint) for taint in sorted(taints))


@pytest.mark.parametrize(
    ("node", "mode", "added", "removed"),
    [
        pytest.param(
            a_node("Ready=False"),
            "started",
            f"{NOT_READY}:NoExecute {NOT_READY}:NoSchedule",
            "",
            id="not ready",
        ),
        pytest.param(
            a_node("Ready=Unknown", f"{NOT_READY}:NoExecute {NOT_READY}:NoSchedule x:NoSchedule"),
            "started",
            f"{UNREACHABLE}:NoExecute {UNREACHABLE}:NoSchedule",
            f"{NOT_READY}:NoExecute {NOT_READY}:NoSchedule",
            id="not heard of any more: the two keys exclude each other, other taints stay",
        ),
        pytest.param(
            a_node("Ready=True", f"{UNREACHABLE}:NoExecute {NOT_READY}:NoSchedule x:NoExecute"),
            "started",
            "",
            f"{NOT_READY}:NoSchedule {UNREACHABLE}:NoExecute",
            id="ready again",
        ),
        pytest.param(a_node("Ready=True"), "started", "", "", id="ready"),
        pytest.param(
            a_node("Ready=True MemoryPressure=True DiskPressure=Unknown"),
            "started",
            f"{MEMORY}:NoSchedule",
            "",
            id="pressure",
        ),
        pytest.param(
            a_node("Ready=True", unschedulable=True),
            "started",
            f"{UNSCHEDULABLE}:NoSchedule",
            "",
            id="cordoned",
        ),
        pytest.param(
            a_node("Ready=True", f"{UNSCHEDULABLE}:NoSchedule {MEMORY}:NoExecute"),
            "started",
            "",
            f"{UNSCHEDULABLE}:NoSchedule",
            id="uncordoned; another effect is not the controller's",
        ),
        pytest.param(
            a_node("Ready=False"),
            "paused",
            f"{NOT_READY}:NoSchedule",
            "",
            id="a zone that is lost evicts no more",
        ),
        pytest.param(
            a_node("Ready=Unknown", f"{NOT_READY}:NoExecute {UNREACHABLE}:NoSchedule"),
            "paused",
            f"{UNREACHABLE}:NoExecute",
            f"{NOT_READY}:NoExecute",
            id="but changes what it began",
        ),
        pytest.param(
            a_node("Ready=False", f"{NOT_READY}:NoExecute {NOT_READY}:NoSchedule"),
            "cancelled",
            "",
            f"{NOT_READY}:NoExecute",
            id="a cluster that is lost evicts nothing",
        ),
        pytest.param(
            a_node("", f"{NOT_READY}:NoSchedule"), "started", "", "", id="a node that was never reported"
        ),
    ],
)
def test_taint_changes(node: Node, mode: str, added: str, removed: str) -> None:
    assert tuple(texts(taints) for taints in taint_changes(node, Evictions(mode))) == (added, removed)


@pytest.mark.parametrize(
    ("ready", "not_ready", "elsewhere", "want"),
    [
        pytest.param(0, 1, 0, "cancelled", id="the only node"),
        pytest.param(0, 3, 1, "started", id="a whole zone, while another is well"),
        pytest.param(1, 2, 0, "started", id="two nodes are too few to doubt them"),
        pytest.param(2, 3, 0, "paused", id="60 % of a small zone"),
        pytest.param(3, 3, 0, "started", id="50 %"),
        pytest.param(21, 30, 0, "started", id="a large zone goes on"),
    ],
)
def test_evictions(ready: int, not_ready: int, elsewhere: int, want: str) -> None:
    assert evictions(ready, not_ready, elsewhere) is Evictions(want)


def test_conditions_of_a_silent_node() -> None:
    before = [
        {"type": "Ready", "status": "True", "lastHeartbeatTime": "h", "lastTransitionTime": "t"},
        {"type": "MemoryPressure", "status": "Unknown", "reason": "R", "lastTransitionTime": "t"},
        {"type": "NetworkUnavailable", "status": "False"},
    ]
    result = {row.pop("type"): row for row in unknown_conditions(before, "created", "now")}
    assert result["Ready"] == {
        "status": "Unknown",
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastHeartbeatTime": "h",
        "lastTransitionTime": "now",
    }
    assert result["MemoryPressure"] == {"status": "Unknown", "reason": "R", "lastTransitionTime": "t"}
    assert result["NetworkUnavailable"] == {"status": "False"}
    assert result["PIDPressure"]["reason"] == "NodeStatusNeverUpdated"
    assert result["PIDPressure"]["lastHeartbeatTime"] == "created"


@pytest.mark.slow
def test_pods_of_a_node_that_is_not_ready_are_not_ready_until_it_is() -> None:
    async def scenario(cluster: LocalCluster) -> None:
        await cluster.run_job("j", 1, {"duration": "forever"})

        async def readiness() -> str:
            rows = [row for pod in await cluster.pods("j") for row in pod["status"].get("conditions", ())]
            return next((row["status"] for row in rows if row["type"] == "Ready"), "")

        async def is_ready() -> bool:
            return await readiness() == "True"

        async def is_not_ready() -> bool:
            return await readiness() == "False"

        await cluster.until("the pod is ready", is_ready)
        (pod,) = await cluster.pods("j")
        key = Key("", pod["spec"]["nodeName"])

        async def taints() -> set[tuple[str, str]]:
            return {(taint.key, taint.effect) for taint in (await cluster.client.get(NODES, key)).spec.taints}

        async def is_tainted() -> bool:
            return await taints() == {(NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute")}

        async def is_free() -> bool:
            return not await taints()

        async def report(status: str) -> None:
            body: Any = {"status": {"conditions": [{"type": "Ready", "status": status}]}}
            await cluster.client.patch(NODES, key, body, subresource="status", kind=PatchKind.STRATEGIC)

        await report("False")
        await cluster.until("the node has taints", is_tainted)
        await cluster.until("the pod is not ready", is_not_ready)
        await report("True")
        await cluster.until("the taints are gone", is_free)
        await cluster.until("the pod is ready again", is_ready)

    async def run() -> None:
        async with local_cluster(NodePool(2)) as cluster:
            await scenario(cluster)

    asyncio.run(run())
