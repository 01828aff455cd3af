"""The DaemonSet controller: one pod on each node that fits, and rolling updates.

``next_changes`` decides; the controller reads caches, calls it and writes.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.codec import Json
from quorate.api.core import Node, Pod, PodSpec, Toleration, tolerates
from quorate.api.meta import Key, Struct, scaled_value
from quorate.kube.informer import Change, Informer
from quorate.local.controllers import pod_control as control
from quorate.local.controllers.apps.revisions import ControllerRevision, RevisionHistory
from quorate.local.controllers.apps.types import DAEMON_SETS, PODS, DaemonSet, DaemonSetStatus
from quorate.local.controllers.claims import pod_claims
from quorate.local.controllers.controller import Controller, ControllerContext
from quorate.local.controllers.scheduler_filters import matches_node_affinity
from quorate.local.own_writes import MutationCache

_NODE: Final = "node.kubernetes.io/"
NO_EXECUTE_TAINTS: Final = (f"{_NODE}not-ready", f"{_NODE}unreachable")
NO_SCHEDULE_TAINTS: Final = tuple(
    f"{_NODE}{name}" for name in ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable")
)
NETWORK_TAINT: Final = f"{_NODE}network-unavailable"


class _TemplateSpec(PodSpec):
    host_network: bool = False


class _Template(Struct):
    spec: _TemplateSpec = _TemplateSpec()


@dataclass(frozen=True, slots=True)
class DaemonChanges:
    """What to do now, and the status that the present pods give."""

    create: tuple[str, ...] = ()  # nodes
    delete: tuple[Pod, ...] = ()
    status: DaemonSetStatus = field(default_factory=DaemonSetStatus)
    wake_at: float | None = None  # when a ready pod becomes available


@dataclass(frozen=True, slots=True)
class NodeFit:
    """Whether a node gets a pod, and whether a pod that is there stays."""

    should_run: bool
    may_stay: bool


@dataclass(slots=True)
class _NodePods:
    """The pods of a set on one node, the oldest first."""

    node: str
    fit: NodeFit
    running: list[Pod] = field(default_factory=list)  # neither terminating nor ended
    ended: list[Pod] = field(default_factory=list)
    terminating: list[Pod] = field(default_factory=list)


def daemon_tolerations(host_network: bool) -> list[Toleration]:
    """Return the tolerations that every pod of a DaemonSet has."""
    no_schedule = (*NO_SCHEDULE_TAINTS, *((NETWORK_TAINT,) if host_network else ()))
    return [
        *(Toleration(key=key, operator="Exists", effect="NoExecute") for key in NO_EXECUTE_TAINTS),
        *(Toleration(key=key, operator="Exists", effect="NoSchedule") for key in no_schedule),
    ]


def _template_spec(daemon_set: DaemonSet) -> _TemplateSpec:
    return codec.decode(_Template, bytes(daemon_set.spec.template)).spec


def node_fits(daemon_set: DaemonSet, nodes: Iterable[Node]) -> dict[str, NodeFit]:
    """Return the fit of each node, by name: node name, node affinity and taints of the pod template."""
    spec = _template_spec(daemon_set)
    tolerations = (*spec.tolerations, *daemon_tolerations(spec.host_network))

    def fit(node: Node) -> NodeFit:
        if spec.node_name not in ("", node.metadata.name) or not matches_node_affinity(spec, node):
            return NodeFit(False, False)
        untolerated = {taint.effect for taint in node.spec.taints if not tolerates(tolerations, taint)}
        return NodeFit(not untolerated & {"NoSchedule", "NoExecute"}, "NoExecute" not in untolerated)

    return {node.metadata.name: fit(node) for node in nodes}


def target_node(pod: Pod) -> str:
    """Return the node of a pod of a DaemonSet, before and after it is bound."""
    affinity = pod.spec.affinity
    if pod.spec.node_name or affinity is None or affinity.node_affinity is None:
        return pod.spec.node_name
    required = affinity.node_affinity.required
    for term in required.node_selector_terms if required else ():
        for wanted in term.match_fields:
            if wanted.key == "metadata.name" and len(wanted.values) == 1:
                return wanted.values[0]
    return ""


def next_changes(
    daemon_set: DaemonSet, fits: Mapping[str, NodeFit], pods: Iterable[Pod], now: float
) -> DaemonChanges:
    """Return the changes that are allowed now.  ``pods``: all pods that the set controls."""
    hash_ = control.template_hash(daemon_set.spec.template)
    minimum_s = daemon_set.spec.min_ready_seconds
    on_nodes = _by_node(fits, pods)
    create: list[str] = []
    delete: list[Pod] = []
    surging = _surge(daemon_set, fits) > 0
    for on_node in on_nodes:
        if not on_node.fit.may_stay:
            delete += [*on_node.running, *on_node.ended]
            continue
        delete += on_node.ended
        occupied = on_node.running or on_node.ended or (on_node.terminating and not surging)
        if on_node.fit.should_run and not occupied:
            create.append(on_node.node)
        elif not surging:
            delete += on_node.running[1:]
        else:
            delete += _beyond_surge(on_node, hash_, minimum_s, now)
    if daemon_set.spec.update_strategy.type == "RollingUpdate":
        created, deleted = _update(daemon_set, fits, on_nodes, hash_, now)
        create += [node for node in created if node not in create]
        delete += [pod for pod in deleted if pod not in delete]
    return DaemonChanges(
        tuple(create[: control.BURST_REPLICAS]),
        tuple(delete[: control.BURST_REPLICAS]),
        _status(daemon_set, on_nodes, hash_, now),
        control.next_available_at((pod for on_node in on_nodes for pod in on_node.running), minimum_s, now),
    )


def _by_node(fits: Mapping[str, NodeFit], pods: Iterable[Pod]) -> list[_NodePods]:
    """Group the pods by node.  Pods of unknown nodes are for the pod garbage collector."""
    on_nodes = {name: _NodePods(name, fits[name]) for name in sorted(fits)}
    for pod in sorted(pods, key=lambda pod: (str(pod.metadata.creation_timestamp), pod.metadata.name)):
        on_node = on_nodes.get(target_node(pod))
        if on_node is None:
            continue
        if pod.metadata.deletion_timestamp is not None:
            on_node.terminating.append(pod)
        elif pod.status.phase in ("Failed", "Succeeded"):
            on_node.ended.append(pod)
        else:
            on_node.running.append(pod)
    return list(on_nodes.values())


def _is_new(pod: Pod, hash_: str) -> bool:
    return pod.metadata.labels.get(control.REVISION_LABEL) == hash_


def _surge(daemon_set: DaemonSet, fits: Mapping[str, NodeFit]) -> int:
    strategy = daemon_set.spec.update_strategy
    if strategy.type != "RollingUpdate":
        return 0
    return scaled_value(strategy.rolling_update.max_surge, _wanted(fits), round_up=True)


def _wanted(fits: Mapping[str, NodeFit]) -> int:
    return sum(fit.should_run for fit in fits.values())


def _beyond_surge(on_node: _NodePods, hash_: str, minimum_s: int, now: float) -> list[Pod]:
    """Return the surplus pods of a node; an old ready pod stays until the new pod is available."""
    new = [pod for pod in on_node.running if _is_new(pod, hash_)]
    old = [pod for pod in on_node.running if not _is_new(pod, hash_)]
    surplus = [*new[1:], *old[1:]]
    if new and old and (not control.is_ready(old[0]) or control.is_available(new[0], minimum_s, now)):
        surplus.append(old[0])
    return surplus


def _update(
    daemon_set: DaemonSet, fits: Mapping[str, NodeFit], on_nodes: Sequence[_NodePods], hash_: str, now: float
) -> tuple[list[str], list[Pod]]:
    """Return the nodes that get a new pod next to their old pod, and the old pods to delete."""
    minimum_s = daemon_set.spec.min_ready_seconds
    rolling = daemon_set.spec.update_strategy.rolling_update
    surge = _surge(daemon_set, fits)
    single = [(on_node.node, on_node.running[0]) for on_node in on_nodes if len(on_node.running) == 1]
    old = [(node, pod) for node, pod in single if not _is_new(pod, hash_)]
    broken = [(node, pod) for node, pod in old if not control.is_available(pod, minimum_s, now)]
    working = [pair for pair in old if pair not in broken]
    if surge:
        pairs = sum(len(on_node.running) > 1 for on_node in on_nodes)
        chosen = [*broken, *working[: max(surge - pairs, 0)]]
        return [node for node, _ in chosen if fits[node].should_run], []
    allowed = scaled_value(rolling.max_unavailable, _wanted(fits), round_up=True)
    fresh = {
        node for node, pod in single if _is_new(pod, hash_) and control.is_available(pod, minimum_s, now)
    }
    kept = fresh | {node for node, _ in working}
    unavailable = sum(
        on_node.node not in kept
        for on_node in on_nodes
        if on_node.fit.should_run or on_node.running or on_node.ended or on_node.terminating
    )
    chosen = [*broken, *working[: max(allowed - unavailable, 0)]]
    return [], [pod for _, pod in chosen]


def _status(daemon_set: DaemonSet, on_nodes: Sequence[_NodePods], hash_: str, now: float) -> DaemonSetStatus:
    minimum_s = daemon_set.spec.min_ready_seconds
    wanted = [on_node for on_node in on_nodes if on_node.fit.should_run]
    first = [
        pods[0] for on_node in wanted if (pods := [*on_node.running, *on_node.ended, *on_node.terminating])
    ]
    available = sum(control.is_available(pod, minimum_s, now) for pod in first)
    return DaemonSetStatus(
        desired_number_scheduled=len(wanted),
        current_number_scheduled=len(first),
        number_misscheduled=sum(
            bool(on_node.running or on_node.ended or on_node.terminating)
            for on_node in on_nodes
            if not on_node.fit.should_run
        ),
        number_ready=sum(map(control.is_ready, first)),
        updated_number_scheduled=sum(_is_new(pod, hash_) for pod in first),
        number_available=available,
        number_unavailable=len(wanted) - available,
        observed_generation=daemon_set.metadata.generation,
    )


TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"


class DaemonSetController(Controller):
    def __init__(
        self,
        context: ControllerContext,
        pods: Informer[Pod],
        nodes: Informer[Node],
        sets: Informer[DaemonSet],
        revisions: Informer[ControllerRevision],
    ) -> None:
        super().__init__(
            "daemon-set", context, sets, pods, nodes, revisions, component="daemonset-controller"
        )
        self._history = RevisionHistory(self._client, DAEMON_SETS, revisions)
        self._sets = sets
        self._nodes = nodes
        self._pods = MutationCache(
            pods, lambda pod: control.controller_key(pod.metadata, DAEMON_SETS.kind), "daemon set"
        )
        self._control = control.PodControl(self._client, DAEMON_SETS, PODS, self._events, self._pods.record)
        self._claims = pod_claims(self._client, DAEMON_SETS, sets, pods, self._reconciler)
        nodes.subscribe(self._on_node)

    def _on_node(self, change: Change[Node]) -> None:
        """Enqueue all sets if what a set reads of the node has changed."""
        if change.old is None or change.new is None or _fit_inputs(change.old) != _fit_inputs(change.new):
            for daemon_set in self._sets:
                self._reconciler.enqueue(daemon_set.metadata.key)

    async def reconcile(self, key: Key) -> float | None:
        daemon_set = self._sets.get(key)
        if daemon_set is None or daemon_set.metadata.deletion_timestamp is not None:
            return None
        pods = await self._claims.claim(daemon_set, self._pods.by_group(key), self._pods)
        used = {pod.metadata.labels.get(control.REVISION_LABEL, "") for pod in pods}
        limit = daemon_set.spec.revision_history_limit
        await self._history.record(daemon_set.metadata, daemon_set.spec.template, limit, used)
        changes = next_changes(daemon_set, node_fits(daemon_set, self._nodes), pods, self._clock.now())
        for pod in filter(control.is_pod_finished, changes.delete):
            failed = pod.status.phase == "Failed"
            what, verb = ("failed", "kill") if failed else ("succeeded", "delete")
            problem = f"Found {what} daemon pod {pod.metadata.key} on node {target_node(pod)}"
            message, reason = f"{problem}, will try to {verb} it", f"{what.title()}DaemonPod"
            self._events.report(DAEMON_SETS, daemon_set, reason, message, warning=failed)
        await self._control.delete(daemon_set, changes.delete)
        bodies = [daemon_pod(daemon_set, node) for node in changes.create]
        _, refusal = await self._control.create(daemon_set, bodies)
        await self._write_status(DAEMON_SETS, daemon_set, changes.status)
        if refusal is not None:
            raise refusal
        return changes.wake_at


def daemon_pod(daemon_set: DaemonSet, node: str) -> Json:
    """Return the pod of a node: the scheduler binds it to no other node."""
    body = control.pod_from_template(
        daemon_set.spec.template,
        control.owner_references(DAEMON_SETS, daemon_set.metadata),
        generateName=f"{daemon_set.metadata.name}-",
    )
    body["metadata"]["labels"] |= {
        control.REVISION_LABEL: control.template_hash(daemon_set.spec.template),
        "pod-template-generation": daemon_set.metadata.annotations.get(TEMPLATE_GENERATION, ""),
    }
    spec = body["spec"]
    own = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": [own]}
    tolerations = daemon_tolerations(_template_spec(daemon_set).host_network)
    spec["tolerations"] = [*spec.get("tolerations", ()), *map(msgspec.to_builtins, tolerations)]
    return body


def _fit_inputs(node: Node) -> tuple[object, ...]:
    return node.metadata.labels, node.spec.taints, node.spec.unschedulable
