"""Taints of nodes by their conditions, expiry of nodes that are silent, and readiness of their pods.

The rules are those of the node lifecycle controller of kube-controller-manager, without its rate limits.
Only nodes that have a lease expire, and a node without a condition ``Ready`` keeps its taints: other nodes of
a local cluster have no kubelet that could report them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from enum import Enum
from typing import Any, Final

from quorate.api.codec import Json
from quorate.api.core import Node, Pod
from quorate.api.events import Lease
from quorate.api.meta import Condition, Key, at_epoch, find_condition
from quorate.kube.client import PatchKind
from quorate.kube.errors import Conflict, NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import PODS, reference_to, untyped
from quorate.local.controllers.controller import Controller, ControllerContext
from quorate.local.nodes.fleet import NOT_READY

GRACE_S: Final = 50.0  # --node-monitor-grace-period
SETTLE_S: Final = 0.5  # a kubelet that registers its node removes the taint of new nodes itself
SMALL_ZONE: Final = 50  # --large-cluster-size-threshold
UNHEALTHY_SHARE: Final = 0.55  # --unhealthy-zone-threshold
_NODE: Final = "node.kubernetes.io/"
UNREACHABLE: Final = _NODE + "unreachable"
UNSCHEDULABLE: Final = _NODE + "unschedulable"
TAINT_KEYS: Final[Mapping[tuple[str, str], str]] = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): _NODE + "memory-pressure",
    ("DiskPressure", "True"): _NODE + "disk-pressure",
    ("PIDPressure", "True"): _NODE + "pid-pressure",
    ("NetworkUnavailable", "True"): _NODE + "network-unavailable",
}
REPORTED_BY_KUBELET: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
EXCLUDED: Final = _NODE + "exclude-disruption"  # a label: the node does not count for the health of its zone
NODES: Final = untyped("", "v1", "nodes", "Node", False)
Taints = frozenset[tuple[str, str]]  # keys and effects


class Evictions(Enum):
    """Whether nodes of a zone that are not ready get NoExecute taints."""

    STARTED = "started"
    PAUSED = "paused"  # most nodes of a small zone are lost: taints stay, and none is added
    CANCELLED = "cancelled"  # no node of the cluster is ready: the fault may be the cluster's own


def evictions(ready: int, not_ready: int, ready_elsewhere: int) -> Evictions:
    """Return the mode of a zone with these numbers of nodes, and of ready nodes in other zones."""
    if not ready and not ready_elsewhere:
        return Evictions.CANCELLED
    nodes = ready + not_ready
    is_lost = bool(ready) and not_ready > 2 and not_ready >= UNHEALTHY_SHARE * nodes
    return Evictions.PAUSED if is_lost and nodes <= SMALL_ZONE else Evictions.STARTED


def taint_changes(node: Node, mode: Evictions) -> tuple[Taints, Taints]:
    """Return the taints to add to a node, and the taints to remove from it."""
    conditions = {condition.type: condition.status for condition in node.status.conditions}
    if "Ready" not in conditions:
        return frozenset(), frozenset()
    wanted = {(TAINT_KEYS[row], "NoSchedule") for row in conditions.items() if row in TAINT_KEYS}
    if node.spec.unschedulable:
        wanted.add((UNSCHEDULABLE, "NoSchedule"))
    existing = {(taint.key, taint.effect) for taint in node.spec.taints}
    owned = {(key, "NoSchedule") for key in (*TAINT_KEYS.values(), UNSCHEDULABLE)}
    evicting = {(NOT_READY, "NoExecute"), (UNREACHABLE, "NoExecute")}
    key = TAINT_KEYS.get(("Ready", conditions["Ready"]))
    if key and (mode is Evictions.STARTED or (mode is Evictions.PAUSED and existing & evicting)):
        wanted.add((key, "NoExecute"))
    return frozenset(wanted - existing), frozenset((existing & (owned | evicting)) - wanted)


def unknown_conditions(conditions: Iterable[Json], created: str, now: str) -> list[Json]:
    """Return the conditions of a node with a silent kubelet; ``created``: the time of its creation."""
    result = {condition["type"]: condition for condition in conditions}
    for type_ in REPORTED_BY_KUBELET:
        if type_ not in result:
            result[type_] = {
                "type": type_, "status": "Unknown", "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": created, "lastTransitionTime": now,
            }  # fmt: skip
        elif result[type_]["status"] != "Unknown":
            result[type_] = {
                **result[type_], "status": "Unknown", "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.", "lastTransitionTime": now,
            }  # fmt: skip
    return list(result.values())


class NodeLifecycleController(Controller):
    """A key is a node, or a pod on a node that has expired.  ``pods`` has the index ``node``.

    Pods on a node that reports itself not ready keep their conditions: its kubelet reports them.
    """

    def __init__(
        self,
        context: ControllerContext,
        pods: Informer[Pod],
        nodes: Informer[Node],
        leases: Informer[Lease],
        grace_s: float = GRACE_S,
    ) -> None:
        """``leases``: of ``LEASE_NAMESPACE``.  ``grace_s``: for how long a kubelet may be silent."""
        super().__init__("node-lifecycle", context, pods, nodes, leases, component="node-controller")
        self._pods = pods
        self._nodes = nodes
        self._grace_s = grace_s
        self._seen: dict[str, float] = {}  # when the kubelet of a node that has a lease was last heard of
        self._ready: Counter[str] = Counter()  # nodes by zone
        self._not_ready: Counter[str] = Counter()
        nodes.subscribe(self._on_node)
        leases.subscribe(self._on_lease)

    def _on_lease(self, change: Change[Lease]) -> None:
        if change.new is not None and (change.old is None or change.old.spec != change.new.spec):
            if change.key.name not in self._seen:
                self._reconciler.enqueue(Key("", change.key.name))
            self._seen[change.key.name] = self._clock.now()

    def _on_node(self, change: Change[Node]) -> None:
        zones = {_zone(node) for node in change.versions}
        before = [self._mode(zone) for zone in zones]
        self._count(change.old, -1)
        self._count(change.new, 1)
        if before != [self._mode(zone) for zone in zones]:
            for other in self._nodes:
                if _is_lost(other):
                    self._reconciler.enqueue(other.metadata.key)
        node = change.new
        if node is None:
            self._seen.pop(change.key.name, None)
            self._reconciler.forget(change.key)
            return
        if _ready_status(change.old) != _ready_status(node) and change.key.name in self._seen:
            self._seen[change.key.name] = self._clock.now()
            self._reconciler.enqueue(change.key)
        if taint_changes(node, self._mode(_zone(node))) != (frozenset(), frozenset()):
            self._reconciler.enqueue_in(change.key, SETTLE_S if _ready_status(node) == "True" else 0.0)

    def _count(self, node: Node | None, number: int) -> None:
        if node is not None and EXCLUDED not in node.metadata.labels:
            counter = self._ready if _ready_status(node) == "True" else self._not_ready
            counter[_zone(node)] += number

    def _mode(self, zone: str) -> Evictions:
        ready = self._ready[zone]
        return evictions(ready, self._not_ready[zone], self._ready.total() - ready)

    async def reconcile(self, key: Key) -> float | None:
        if key.namespace:
            await self._mark_not_ready(key)
            return None
        node = self._nodes.get(key)
        if node is None:
            return None
        due = self._seen.get(key.name, float("inf")) + self._grace_s
        is_silent = _ready_status(node) != "Unknown" and self._clock.now() >= due
        if is_silent:
            stored = await self._client.get(NODES, key)
            created, now = stored["metadata"]["creationTimestamp"], self._now()
            conditions = unknown_conditions(stored["status"].get("conditions", ()), created, now)
            await self._patch(key, stored, {"status": {"conditions": conditions}}, "status")
            message = f"Node {key.name} status is now: NodeNotReady"
            self._events.event(reference_to(NODES, node.metadata), "Normal", "NodeNotReady", message)
            for pod in self._pods.by_index("node", key.name):
                self._reconciler.enqueue(pod.metadata.key)
        elif any(taint_changes(node, self._mode(_zone(node)))):
            await self._change_taints(node)
        return None if is_silent or due == float("inf") or _ready_status(node) == "Unknown" else due

    async def _change_taints(self, node: Node) -> None:
        added, removed = taint_changes(node, self._mode(_zone(node)))
        stored = await self._client.get(NODES, node.metadata.key)
        if stored["metadata"]["resourceVersion"] != node.metadata.resource_version:
            return  # the change that the cache does not have yet enqueues the node again
        kept = [
            taint for taint in stored["spec"].get("taints", ())
            if (taint["key"], taint["effect"]) not in removed
        ]  # fmt: skip
        new = [{"key": key, "effect": effect, "timeAdded": self._now()} for key, effect in sorted(added)]
        await self._patch(node.metadata.key, stored, {"spec": {"taints": [*kept, *new] or None}})

    async def _patch(self, key: Key, stored: Json, patch: Json, subresource: str = "") -> None:
        """Patch a node as it was read.  Raises Conflict, after which the key is retried."""
        version = {"metadata": {"resourceVersion": stored["metadata"]["resourceVersion"]}}
        await self._client.patch(NODES, key, {**version, **patch}, subresource=subresource)

    async def _mark_not_ready(self, key: Key) -> None:
        pod = self._pods.get(key)
        ready = pod and find_condition(pod.status.conditions, "Ready")
        if pod is None or ready is None or ready.status == "False":
            return
        condition = {"type": "Ready", "status": "False", "lastTransitionTime": self._now()}
        body = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        with suppress(NotFound, Conflict):  # deleted, or replaced by another pod with that name
            await self._client.patch(PODS, key, body, subresource="status", kind=PatchKind.STRATEGIC)
            about = reference_to(PODS, pod.metadata)
            self._events.event(about, "Warning", "NodeNotReady", "Node is not ready")

    def _now(self) -> Any:
        return at_epoch(float(int(self._clock.now())))


def _ready_status(node: Node | None) -> str:
    """Return the status of the condition ``Ready``; empty without it."""
    ready: Condition | None = find_condition(node.status.conditions, "Ready") if node else None
    return ready.status if ready else ""


def _is_lost(node: Node) -> bool:
    """Return True if a node says that it is not ready, or is not heard of."""
    return _ready_status(node) in ("False", "Unknown")


def _zone(node: Node) -> str:
    labels = node.metadata.labels
    return "/".join(labels.get(f"topology.kubernetes.io/{level}", "") for level in ("region", "zone"))
