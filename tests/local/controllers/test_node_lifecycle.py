"""Taints by the conditions of nodes, nodes that expire, and readiness of their pods."""

import asyncio
import random
from typing import Any

import pytest

from quorate.api.core import Node, NodeSpec, NodeStatus, Taint
from quorate.api.meta import Condition, Key, ObjectMeta
from quorate.kube.client import PatchKind
from quorate.kube.clock import WallClock
from quorate.kube.informer import Informer
from quorate.kube.resources import LEASES, NODES, PODS
from quorate.local.controllers.controller import ControllerContext
from quorate.local.controllers.node_lifecycle import (
    Evictions,
    NodeLifecycleController,
    evictions,
    taint_changes,
    unknown_conditions,
)
from quorate.local.nodes import NodePool
from quorate.local.nodes.fleet import LEASE_NAMESPACE
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


def test_a_node_that_reports_itself_not_ready_is_tainted_until_it_is_ready() -> None:
    async def scenario(cluster: LocalCluster) -> None:
        key = Key("", (await cluster.client.list(NODES)).items[0].metadata.name)

        async def has(*want: tuple[str, str]) -> bool:
            taints = (await cluster.client.get(NODES, key)).spec.taints
            return {(taint.key, taint.effect) for taint in taints} == set(want)

        async def report(status: str) -> None:
            body: Any = {"status": {"conditions": [{"type": "Ready", "status": status}]}}
            await cluster.client.patch(NODES, key, body, subresource="status", kind=PatchKind.STRATEGIC)

        await report("False")
        effects = ((NOT_READY, "NoSchedule"), (NOT_READY, "NoExecute"))
        await cluster.until("the node has taints", lambda: has(*effects))
        await report("True")
        await cluster.until("the taints are gone", has)

    async def run() -> None:
        async with local_cluster(NodePool(2)) as cluster:
            await cluster.registered.wait()
            await scenario(cluster)

    asyncio.run(run())


def test_a_node_and_its_pods_are_not_ready_when_its_kubelet_is_silent() -> None:
    async def scenario(cluster: LocalCluster, tasks: asyncio.TaskGroup) -> None:
        client = cluster.client
        ready = {"conditions": [{"type": "Ready", "status": "True", "reason": "R"}]}
        for name in ("silent", "without-lease"):
            await client.create(NODES, {"metadata": {"name": name}, "status": ready})
        spec = {"nodeName": "silent", "containers": [{"name": "c", "image": "i"}]}
        await client.create(PODS, {"metadata": {"name": "p"}, "spec": spec}, "default")
        status: Any = {"status": {"phase": "Running", **ready}}
        await client.patch(PODS, Key("default", "p"), status, subresource="status")
        await client.create(LEASES, {"metadata": {"name": "silent"}, "spec": {}}, LEASE_NAMESPACE)
        pods, nodes = Informer(client, PODS), Informer(client, NODES)
        pods.add_index("node", lambda pod: (pod.spec.node_name,))
        leases = Informer(client, LEASES, LEASE_NAMESPACE)
        context = ControllerContext(client, WallClock(), random.Random(3))
        controller = NodeLifecycleController(context, pods, nodes, leases, grace_s=0.5)
        parts = [tasks.create_task(part.run()) for part in (pods, nodes, leases, controller)]

        async def pod_is_not_ready() -> bool:
            pod = await client.get(PODS, Key("default", "p"))
            return [(row.type, row.status) for row in pod.status.conditions] == [("Ready", "False")]

        await cluster.until("the pod is not ready", pod_is_not_ready)
        node = await client.get(NODES, Key("", "silent"))
        assert {row.type: row.status for row in node.status.conditions} == dict.fromkeys(
            ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"), "Unknown"
        )
        other = await client.get(NODES, Key("", "without-lease"))
        assert [(row.type, row.status) for row in other.status.conditions] == [("Ready", "True")]
        for part in parts:
            part.cancel()

    async def run() -> None:
        async with local_cluster() as cluster, asyncio.TaskGroup() as tasks:
            await scenario(cluster, tasks)

    asyncio.run(run())
