"""The reasons why a workload is pending in the form of the API, with numbers and a remedy for each."""

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import assert_never

from msgspec.structs import replace

from quorate.api.explanation import Holder, ObjectName, Reason, alternatives
from quorate.api.kueue import Workload
from quorate.api.meta import Key, at_epoch, utc_text
from quorate.api.names.kueue import QUEUE_NAME
from quorate.api.suggestions import suggestion
from quorate.queueing import inadmissible_reasons as r
from quorate.queueing.explain import PendingFacts, QuotaHolder
from quorate.queueing.explanation.planned import planned_start
from quorate.queueing.pending.device_sources import UNREADABLE
from quorate.queueing.pending.shape import PodSetShape
from quorate.queueing.remedies import BLOCKED_TURN, KEPT, TURN, selection_of
from quorate.queueing.scheduling.pod_sets_to_place import may_need_places
from quorate.queueing.state import State
from quorate.queueing.typed_reasons import reason_of
from quorate.quota.amount import as_quantity


def pending_reason(state: State, key: Key, reason: r.InadmissibleReason, facts: PendingFacts) -> Reason:
    """Return the reason with its object, what would be enough, and the workloads that hold what is short."""
    explained = reason_with_remedy(state, key, reason)
    held_by = tuple(
        holder_of(holder) for holder in facts.holders if holder.pair == (explained.flavor, explained.resource)
    )
    return replace(explained, held_by=held_by) if isinstance(reason, r.QuotaShort) else explained


def reason_with_remedy(state: State, key: Key, reason: r.InadmissibleReason) -> Reason:
    """Return the reason with its object and what would be enough."""
    enough = _remedy(state, key, reason)
    return replace(reason_of(reason), object=_object_of(state, key, reason), enough=enough)


def code_of(reasons: Sequence[Reason]) -> str:
    """Return the code that stands for all of ``reasons``; empty without reasons.

    A reason that needs a change comes first, then one with the numbers of nodes.
    """
    numbers = [reason for reason in reasons if reason.code == "NodesLackRoom"]
    ranked = (*(reason for reason in reasons if reason.needs_change), *numbers, *reasons)
    return ranked[0].code if ranked else ""


def holder_of(holder: QuotaHolder) -> Holder:
    return Holder(
        workload=str(holder.key) if holder.key.namespace else "",
        cluster_queue=holder.cluster_queue,
        amount=str(as_quantity(holder.pair.resource, holder.amount)),
        evicted=holder.evicted,
    )


def _object_of(state: State, key: Key, reason: r.InadmissibleReason) -> ObjectName | None:
    match reason:
        case r.QuotaShort() | r.QuotaExceeded() | r.ResourceUncovered():
            return ObjectName(kind="ClusterQueue", name=_cluster_queue(state, key))
        case r.FlavorMissing(_, flavor) | r.AffinityMismatched(_, flavor):
            return ObjectName(kind="ResourceFlavor", name=flavor)
        case r.TaintUntolerated(_, flavor) | r.TopologyMismatched(_, flavor):
            return ObjectName(kind="ResourceFlavor", name=flavor)
        case r.QueueMissing(kind, name) | r.QueueInactive(kind, name):
            return ObjectName(kind=kind, name=name, namespace=key.namespace if kind == "LocalQueue" else "")
        case r.NamespaceMismatched(namespace):
            return ObjectName(kind="Namespace", name=namespace)
        case r.AwaitingPodsReady(blocking):
            return _workload(blocking)
        case r.TargetsOverlap(_, preemptor):
            return _workload(preemptor)
        case r.NoLongerFits(preceded_by) if preceded_by is not None:
            return _workload(preceded_by)
        case _:
            return None


def _workload(key: Key) -> ObjectName:
    """Return the name of a workload; one without a namespace may not be read."""
    shown = {"name": key.name, "namespace": key.namespace} if key.namespace else {}
    return ObjectName(kind="Workload", **shown)


_Flavorless = r.ResourceUncovered | r.PlacementRefused | r.NodesLackRoom


def remedies(
    state: State, key: Key, reasons: Sequence[r.InadmissibleReason], facts: PendingFacts
) -> tuple[str, ...]:
    """Return what would let the workload start, one sentence each.

    The flavors of a pod set are alternatives, so the remedies of one flavor are enough.
    """
    by_pod_set: dict[str, dict[str, list[str]]] = {}
    sentences: list[str] = []
    if (plan := planned_start(state, key)) is not None and math.isfinite(plan.latest):
        sentences.append(f"wait until {utc_text(plan.latest)} at the latest: its start is planned")
    for reason in reasons:
        remedy = _remedy(state, key, reason)
        if isinstance(reason, r.PodSetReason):
            flavor = "" if isinstance(reason, _Flavorless) else reason.flavor
            by_pod_set.setdefault(reason.pod_set, {}).setdefault(flavor, []).append(remedy)
        else:
            sentences.append(remedy)
    for flavors in by_pod_set.values():
        sentences += alternatives([" and ".join(dict.fromkeys(way)) for way in flavors.values()])
    if facts.hold is None:
        sentences.append(_wait_for_turn(facts))
    return tuple(dict.fromkeys(sentences))


_CHANGEABLE = (
    r.QueueMissing | r.QueueInactive | r.NamespaceMismatched | r.BackingOff
)  # a remedy contains what removes them


def sufficient(state: State, workload: Workload, facts: PendingFacts) -> tuple[str, ...]:
    """Return the remedies of ``facts`` in words, or without any what would remove the reasons.

    Nothing if they were not searched: what removes a reason that is known may not be enough.
    """
    key, searched = workload.metadata.key, facts.remedies
    if searched is None:
        return ()
    reasons = facts.hold.reasons if facts.hold is not None else ()
    is_known = all(isinstance(reason, r.PodSetReason | _CHANGEABLE) for reason in reasons)
    of_turn = ((TURN,), (BLOCKED_TURN,), (KEPT,))
    if not is_known or all(remedy.all_of in of_turn for remedy in searched.any_of):
        sentences = remedies(state, key, reasons, facts)
        if searched.is_searched and not searched.any_of and sentences:
            sentences = (*sentences, "this removes the reasons that are known: others may follow")
        return sentences
    requested = sum(pod_set.count for pod_set in workload.spec.pod_sets)
    ways = [
        remedy.text
        + (f": then it starts with {remedy.pods} of {requested} pods" if remedy.pods < requested else "")
        for remedy in searched.any_of
    ]
    ways += [
        f"create the ClusterQueue {reason.name}, with quota for what it requests"
        for reason in reasons
        if isinstance(reason, r.QueueMissing) and reason.kind == "ClusterQueue"
    ]
    return (*alternatives(ways), *_conditions(state, key, facts, searched.rivals))


def _conditions(state: State, key: Key, facts: PendingFacts, rivals: int) -> Iterator[str]:
    """Yield what the remedies depend on, and whether a higher priority cannot be a remedy."""
    if rivals:
        others = "other workload" if rivals == 1 else f"{rivals} other workloads"
        entry = state.ledger.entries.get(key)
        where = "" if entry is None or may_need_places(state, entry) else " in its cluster queue or cohorts"
        yield f"provided that the {others} pending{where} cannot start first"
    name = _cluster_queue(state, key)
    queue = state.ledger.cluster_queues.get(name)
    if queue is None or queue.spec.preemption.within_cluster_queue != "Never":
        return
    if any(holder.cluster_queue == name for holder in facts.holders):
        yield f"a higher priority does not help: withinClusterQueue of cluster queue {name} is Never"


def _remedy(state: State, key: Key, reason: r.InadmissibleReason) -> str:
    """Return what removes the reason, in one sentence."""
    if isinstance(reason, r.PodSetReason):
        return _pod_set_remedy(state, key, reason)
    match reason:
        case r.QueueMissing("LocalQueue", ""):
            return f"set {QUEUE_NAME} to the name of a LocalQueue of namespace {key.namespace}"
        case r.QueueMissing("LocalQueue", name):
            return missing_local_queue(state, Key(key.namespace, name))
        case r.QueueMissing(_, name):
            hint = suggestion(name, state.ledger.cluster_queues)
            other = f"create the local queue again for another cluster queue{hint}"
            return f"create the ClusterQueue {name}, or {other}"
        case r.QueueInactive(kind, name):
            return _resumption(state, key, kind, name)
        case r.NamespaceMismatched(namespace, name):
            return selection_of(state, name, namespace)
        case r.RequestsAboveLimits():
            return (
                "change the requests of the containers: at most their limits, not negative, and not of pods"
            )
        case r.DevicesUncounted(_, short_by) if short_by:
            return (
                f"wait until ResourceSlices publish the devices that are missing ({short_by}), or change the "
                "selectors or the count in the ResourceClaimTemplate"
            )
        case r.DevicesUncounted(findings) if any(UNREADABLE in finding for finding in findings):
            return (
                "apply the current roles of the controllers (manifests or chart): they may read "
                "resourceclaimtemplates, deviceclasses and resourceslices of resource.k8s.io"
            )
        case r.DevicesUncounted():
            return (
                "claim devices by a ResourceClaimTemplate, a number of each class in "
                "resources.deviceClassMappings of the Configuration"
            )
        case r.LimitRangeViolated():
            return f"change the requests of the pods to fit the LimitRanges of namespace {key.namespace}"
        case r.ChecksFailed():
            return "wait until its admission checks are retried (quorate workload describe shows them)"
        case r.NoLongerFits(by, _, True):
            return f"wait until {by} starts or is deleted: it waits too, and the free quota is kept for it"
        case r.NoLongerFits(by, _):
            return f"wait: it is retried at once; {by or 'another workload'} took the quota"
        case r.TargetsOverlap(victim, preemptor):
            return f"wait until {victim} is preempted by {preemptor}: then it is retried"
        case r.AwaitingPreemption(victims, True):
            named = ", ".join(map(str, victims))
            return f"the API server refuses to evict {named}; see the log of the controllers"
        case r.AwaitingPreemption(victims) | r.AwaitingOtherPreemption(victims):
            return f"wait until the pods of these workloads are deleted: {', '.join(map(str, victims))}"
        case r.PreemptionGated():
            return "wait until its preemption gates are open (status.preemptionGates): then it preempts"
        case r.AwaitingPodsReady(blocking):
            return f"wait until the pods of {blocking} are ready, or its timeout expires"
        case r.ReservedForEarlierWorkload(workload, starts_at):
            end = "" if starts_at is None else f" that ends before {utc_text(starts_at)}"
            return f"wait until {workload} has started, or set a maximumExecutionTimeSeconds{end}"
        case r.ReservedWindow(reservation, opens, closes):
            start, end = map(utc_text, (opens, closes))
            way = f"wait until the window of reservation {reservation} ends at {end}"
            is_open = opens <= state.ledger.now
            return way if is_open else f"{way}, or set a maximumExecutionTimeSeconds that ends before {start}"
        case r.BackingOff(until, _):
            moment = "its backoff ends" if until is None else at_epoch(until).strftime("%H:%M:%S UTC")
            return f"wait until {moment}: then it is retried"
        case r.EvaluationFailed():
            return "report the traceback in the log of the controllers; a changed workload is tried again"
    assert_never(reason)


def _pod_set_remedy(state: State, key: Key, reason: r.PodSetReason) -> str:
    match reason:
        case r.QuotaShort(_, flavor, resource):
            short_by = as_quantity(resource, reason.short_by)
            return f"{short_by} more {resource} of flavor {flavor} must become free"
        case r.QuotaExceeded(_, flavor, resource):
            over = as_quantity(resource, reason.needed - reason.maximum)
            less = f"request {over} less {resource} of flavor {flavor}, or " if reason.maximum else ""
            return (
                f"{less}raise the quota of the queue (its nominalQuota, its borrowingLimit, "
                "or what its cohort lends)"
            )
        case r.ResourceUncovered(pod_set, resource):
            return (
                f"add {resource} to a resource group of cluster queue {_cluster_queue(state, key)}, or "
                f"remove the request for it from pod set {pod_set}"
            )
        case r.FlavorMissing(_, flavor):
            return f"create the ResourceFlavor {flavor}, or remove it from the cluster queue"
        case r.TaintUntolerated(pod_set, flavor, taint, value, effect):
            return f"add a toleration of {taint}={value}:{effect} to pod set {pod_set} or flavor {flavor}"
        case r.AffinityMismatched(pod_set, flavor):
            labels = ", ".join(_labels(state, flavor)) or "no labels"
            own = _selector(state, key, pod_set)
            return (
                f"change node selector{own} and affinity of pod set {pod_set} to match flavor {flavor} "
                f"({labels})"
            )
        case r.TopologyMismatched(pod_set, flavor, problem):
            return _topology_remedy(pod_set, flavor, problem)
        case r.PlacementRefused():
            return _placement_remedy(reason)
        case r.NodesLackRoom():
            return _room_remedy(state, key, reason)
    assert_never(reason)


def _placement_remedy(refusal: r.PlacementRefused) -> str:
    request = f"change the topology request of pod set {refusal.pod_set}"
    if not refusal.requested:
        return f"{request}, or the flavors of its cluster queue"
    if refusal.never_fits:
        room = f"without other pods they have room for {refusal.at_most} of its {refusal.requested} pods"
        return f"{request}, or add nodes: {room}"
    if refusal.is_beside_others:
        return f"wait for pods to end that are not of workloads with places, {request}, or add nodes"
    if refusal.is_no_fit:
        return f"{request} or of another pod set, or add nodes: without other pods not all of them have room"
    return f"wait for room in the topology, or {request}"


def _room_remedy(state: State, key: Key, reason: r.NodesLackRoom) -> str:
    pod_set, resource = reason.pod_set, reason.resource
    if not resource and reason.rejecting:
        return (
            "wait for other pods to end, or change host ports, volumes, pod affinity and topology "
            f"spread constraints of pod set {pod_set}"
        )
    if not resource:
        own = _selector(state, key, pod_set)
        return f"change node selector{own}, affinity or tolerations of pod set {pod_set}, or add nodes"
    if reason.needed > reason.at_most:
        at_most = as_quantity(resource, reason.at_most)
        nodes = nodes_with_room(reason, reason.requested - reason.fitting)
        less = f"request at most {at_most} {resource}, or add larger nodes: {nodes} would do"
        return f"let each pod of pod set {pod_set} {less}"
    if reason.never_fits and reason.fitting_at_most is not None:
        nodes = nodes_with_room(reason, reason.requested - reason.fitting_at_most)
        return f"add {nodes}, or let each pod of pod set {pod_set} request less"
    return f"wait for {resource} on one node, or let each pod of pod set {pod_set} request less of it"


def missing_local_queue(state: State, key: Key) -> str:
    """Return what to do about a job that names the local queue ``key``, which does not exist."""
    existing = (
        other.name
        for other, queue in state.ledger.local_queues.items()
        if other.namespace == key.namespace and queue.object is not None
    )
    hint = suggestion(key.name, existing)
    return f"create the LocalQueue {key}, or set another one in the label {QUEUE_NAME}{hint}"


def _topology_remedy(pod_set: str, flavor: str, problem: r.TopologyProblem) -> str:
    match problem:
        case r.TopologyProblem.NO_REQUEST:
            return f"add a topology request to pod set {pod_set}, or to the queue a flavor without a topology"
        case r.TopologyProblem.NO_TOPOLOGY:
            return f"remove the topology request of pod set {pod_set}, or set topologyName of flavor {flavor}"
        case r.TopologyProblem.UNKNOWN_TOPOLOGY:
            return f"create the Topology that flavor {flavor} names, or correct its topologyName"
        case r.TopologyProblem.NO_LEVEL:
            return f"change the topology request of pod set {pod_set} to levels of the topology of {flavor}"
    assert_never(problem)


def _selector(state: State, key: Key, pod_set: str) -> str:
    """Return the node selector of a pod set in parentheses; empty without one."""
    entry = state.ledger.entries.get(key)
    shapes = entry.shape.pod_sets if entry is not None else ()
    return next((selector_text(shape) for shape in shapes if shape.name == pod_set), "")


def selector_text(shape: PodSetShape) -> str:
    """Return the node selector of a pod set in parentheses; empty without one."""
    pairs = ", ".join(f"{name}={value}" for name, value in sorted(shape.node_selector.items()))
    return f" ({pairs})" if pairs else ""


def nodes_with_room(lack: r.NodesLackRoom, pods: int) -> str:
    """Return how many more nodes would hold ``pods``, with one pod on each."""
    nodes = "1 more node" if pods == 1 else f"{pods} more nodes"
    return f"{nodes} with {as_quantity(lack.resource, lack.needed)} {lack.resource} free"


def _cluster_queue(state: State, key: Key) -> str:
    entry = state.ledger.entries.get(key)
    return "" if entry is None else entry.cluster_queue


def _labels(state: State, flavor: str) -> Iterable[str]:
    stored = state.flavors.get(flavor)
    return (
        () if stored is None else (f"{key}={value}" for key, value in sorted(stored.spec.node_labels.items()))
    )


def _resumption(state: State, key: Key, kind: str, name: str) -> str:
    if kind == "LocalQueue" and state.ledger.local_queues[Key(key.namespace, name)].is_terminating:
        return f"create local queue {name} again after it is gone, or use another one"
    if kind == "LocalQueue":
        return f"resume the local queue (quorate queue resume lq/{name} --namespace {key.namespace})"
    queue = state.ledger.cluster_queues.get(name)
    if queue is None:
        return f"create the ClusterQueue {name}"
    details = [reason.text for reason in queue.inactive_reasons if reason.code != "Stopped"]
    stopped = f"resume cluster queue {name}, which is stopped (quorate queue resume {name})"
    ways = [stopped] if len(details) < len(queue.inactive_reasons) else []
    if details:
        ways.append(f"correct what makes cluster queue {name} inactive: {'; '.join(details)}")
    return " and ".join(ways)


def _wait_for_turn(facts: PendingFacts) -> str:
    if facts.ahead is None:
        return "wait until it is evaluated: workloads ahead of it are evaluated first"
    if not facts.first_ahead:
        return "wait: it is the first of its queue"
    if facts.blocked:
        return (
            f"change or delete {facts.first_ahead[0]}, the first of its queue, which can never start as it is"
        )
    return f"wait for the workloads ahead of it, {facts.first_ahead[0]} first"
