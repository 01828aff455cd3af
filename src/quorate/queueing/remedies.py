"""Remedies: changes of queues, turns and quota that would let a pending workload start."""

from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from typing import Final

import msgspec
from msgspec.structs import replace

from quorate.api.explanation import Change, ObjectName, Remedy
from quorate.api.meta import Key, at_epoch
from quorate.api.names.kueue import QUEUE_NAME
from quorate.api.suggestions import similar_names, suggestion
from quorate.queueing import conditions as c
from quorate.queueing import inadmissible_reasons as r
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.limits import MAX_NAMED_QUEUES, MAX_TRIED_QUEUES
from quorate.queueing.pending.entry import Entry
from quorate.queueing.planning.bounds import maximum_execution_time_s
from quorate.queueing.scheduling.pod_sets_to_place import may_need_places
from quorate.queueing.scheduling.remedy_search import RemedySearch
from quorate.queueing.state import State

TURN: Final = Change(action="Wait", text="wait for the workloads ahead of it")
BLOCKED_TURN: Final = Change(
    action="Wait",
    text="wait until the first workload of its queue, which can never start as it is, is changed or deleted",
)
KEPT: Final = Change(
    action="Wait", text="wait until the pending workload has started for which the free quota is kept"
)
_END_PODS: Final = Change(action="EndPods", text="the pods of the evicted workloads must end")
_READY_PODS: Final = Change(action="ReadyPods", text="all workloads with quota must have ready pods, or end")


def selection_of(state: State, name: str, namespace: str) -> str:
    """Return what to change so that the cluster queue ``name`` selects a namespace."""
    queue = state.ledger.cluster_queues.get(name)
    if queue is not None and queue.spec.namespace_selector is None:
        return f"set the namespaceSelector of cluster queue {name}: {{}} selects all namespaces"
    return f"change the namespaceSelector of cluster queue {name} to match namespace {namespace}"


class Remedies(msgspec.Struct, frozen=True):
    any_of: tuple[Remedy, ...] = ()
    is_searched: bool = False  # for changes of quota and of the workload
    rivals: int = 0  # other pending workloads of the cluster queue and its cohorts


def find_remedies(
    state: State, entry: Entry, reasons: Sequence[r.InadmissibleReason], ahead: int, *, blocked: bool = False
) -> Generator[None, None, Remedies]:
    """Return the remedies of a pending workload with ``ahead`` others before it in its cluster queue.

    ``blocked``: the first of these starts only after a change, and the queue is StrictFIFO.
    Yields between steps of bounded cost.
    """
    queue = _cluster_queue(state, entry)
    replaced_by = state.ledger.replacement_slices.get(entry.key)
    if replaced_by in state.ledger.reservations:  # then it will be finished
        return Remedies()
    if queue is None:
        return (yield from _with_another_queue(state, entry))
    rivals = yield from _rivals(state, queue, entry)
    if state.ledger.entries.get(entry.key) is not entry:  # it changed meanwhile, or was deleted
        return Remedies()
    if any(isinstance(reason, r.AwaitingPreemption | r.AwaitingOtherPreemption) for reason in reasons):
        preempting = entry.preempting_assignment  # which may be for fewer pods than all
        counts = [pod_set.count for pod_set in entry.shape.pod_sets]
        pods = sum(counts if preempting is None else preempting.counts)
        return Remedies((Remedy(all_of=(_END_PODS,), pods=pods),), rivals=rivals)
    planned = state.ledger.planned.get(queue.name) if queue.backfills else None
    changes = _queue_changes(state, queue, entry) if planned is None or planned[0] is entry else None
    if changes is None or _has_used_its_time(queue, entry):
        return Remedies(rivals=rivals)
    if ahead and queue.is_strict:
        changes = (*changes, BLOCKED_TURN if blocked else TURN)
    any_of = yield from RemedySearch(state, queue, entry).find()
    is_kept = any(isinstance(reason, r.NoLongerFits) and reason.is_kept for reason in reasons)
    alone = KEPT if is_kept else TURN
    any_of = tuple(replace(remedy, all_of=(*changes, *remedy.all_of) or (alone,)) for remedy in any_of)
    return Remedies(any_of, is_searched=True, rivals=rivals)


def _has_used_its_time(queue: ClusterQueueState, entry: Entry) -> bool:
    """Return True if the workload ran for all of its execution time: it would be deactivated at its start."""
    most_s = maximum_execution_time_s(entry.workload, queue.planned_start_rules)
    past_s = entry.workload.status.accumulated_past_execution_time_seconds or 0
    return most_s is not None and past_s >= most_s


def _with_another_queue(state: State, entry: Entry) -> Generator[None, None, Remedies]:
    """Return the remedies of a workload of which the local queue, or its cluster queue, does not exist."""
    ledger = state.ledger
    is_blocked = _blocks_admission(state) and bool(ledger.unready)
    if is_blocked or c.is_evicted(entry.workload) or ledger.pod_misconfiguration(entry) is not None:
        return Remedies()
    if _has_failed_checks(entry):
        return Remedies()
    remedies: list[Remedy] = []
    for change, name in _other_queues(state, entry.local_queue):
        queue = ledger.cluster_queues[name]
        if queue.inactive_reasons or queue.backfills or ledger.misconfiguration(queue, entry) is not None:
            continue
        turn = (TURN,) if queue.is_strict and len(queue.pending) else ()
        any_of = yield from RemedySearch(state, queue, entry).find()
        if ledger.entries.get(entry.key) is not entry:
            return Remedies()
        remedies += [replace(remedy, all_of=(change, *turn, *remedy.all_of)) for remedy in any_of[:1]]
    rivals = len(ledger.entries) - 1 + len(ledger.second_pass.waiting)
    return Remedies(tuple(_with_fewest_changes(remedies)), is_searched=True, rivals=rivals)


def _with_fewest_changes(remedies: Sequence[Remedy]) -> Iterator[Remedy]:
    """Yield for each action on the queue the remedies that need the fewest further changes."""
    ranked = sorted(remedies, key=lambda remedy: len(remedy.all_of))
    for action in dict.fromkeys(remedy.all_of[0].action for remedy in remedies):
        yield from islice(
            (candidate for candidate in ranked if candidate.all_of[0].action == action), MAX_NAMED_QUEUES
        )


def _other_queues(state: State, key: Key) -> list[tuple[Change, str]]:
    """Return changes that give workloads of local queue ``key`` a cluster queue, with its name each."""
    local_queues, cluster_queues = state.ledger.local_queues, state.ledger.cluster_queues
    others = {
        other.name: queue.cluster_queue
        for other, queue in local_queues.items()
        if other.namespace == key.namespace and queue.is_running and queue.cluster_queue in cluster_queues
    }
    near = similar_names(key.name, others, MAX_NAMED_QUEUES) or sorted(others)[:MAX_TRIED_QUEUES]
    changes: list[tuple[Change, str]] = []
    for name in near:
        text = f"set the label {QUEUE_NAME} of its job to {name}{suggestion(key.name, [name])}"
        other = ObjectName(kind="LocalQueue", name=name, namespace=key.namespace)
        changes.append((Change(action="SetQueue", text=text, object=other), others[name]))
    queue = local_queues[key]
    wanted = queue.cluster_queue or key.name
    existing = (
        similar_names(wanted, cluster_queues, 1) or [others[name] for name in near] or sorted(cluster_queues)
    )
    for name in list(dict.fromkeys(existing))[:MAX_TRIED_QUEUES]:
        own = ObjectName(kind="LocalQueue", name=key.name, namespace=key.namespace)
        text = f"create the LocalQueue {key} for cluster queue {name}"
        change = Change(action="CreateQueue", text=text, object=own, value=name)
        if queue.object is not None:  # its clusterQueue cannot change
            text = f"delete the LocalQueue {key}, and create it for cluster queue {name}"
            change = Change(action="ReplaceQueue", text=text, object=own, value=name)
        changes.append((change, name))
    return changes


def _cluster_queue(state: State, entry: Entry) -> ClusterQueueState | None:
    local_queue = state.ledger.local_queues.get(entry.local_queue)
    return None if local_queue is None else state.ledger.cluster_queues.get(local_queue.cluster_queue)


def _rivals(state: State, queue: ClusterQueueState, entry: Entry) -> Generator[None, None, int]:
    """Return how many other pending workloads may take what a change provides."""
    ledger = state.ledger
    if may_need_places(state, entry):
        return len(ledger.entries) - 1 + len(ledger.second_pass.waiting)  # for nodes of any queue
    if _blocks_admission(state):
        return len(ledger.entries) - 1  # each admission blocks all others until its pods are ready
    own, rivals = ledger.local_queues[entry.local_queue], 0
    for member in list(ledger.queues_below(queue.node.root)):
        yield
        rivals += len(member.pending)
    if entry.cluster_queue:
        return rivals - 1
    for name in list(ledger.local_queues) if queue.inactive_reasons else ():  # they wait beside the queue
        local_queue = ledger.local_queues.get(name)
        if local_queue is not None and local_queue is not own and local_queue.cluster_queue == queue.name:
            yield
            rivals += len(local_queue.entries)
    return rivals + len(own.entries) - 1


def _queue_changes(state: State, queue: ClusterQueueState, entry: Entry) -> tuple[Change, ...] | None:
    """Return what lets the queues nominate ``entry``; None if no change is known to."""
    if _has_failed_checks(entry):
        return None
    if any(reason.code != "Stopped" for reason in queue.inactive_reasons):
        return None
    if state.ledger.local_queues[entry.local_queue].is_terminating:
        return None
    if state.ledger.pod_misconfiguration(entry) is not None:
        return None
    mismatch = state.ledger.misconfiguration(queue, entry)
    assert mismatch is None or isinstance(mismatch, r.NamespaceMismatched), mismatch
    is_blocked = _blocks_admission(state) and bool(state.ledger.unready)
    if is_blocked and may_need_places(state, entry):
        return None  # the room on nodes that the pods of unready workloads will take is not known
    return tuple(_changes(state, queue, entry, mismatch, is_blocked=is_blocked))


def _has_failed_checks(entry: Entry) -> bool:
    return any(check.state in ("Retry", "Rejected") for check in entry.workload.status.admission_checks)


def _blocks_admission(state: State) -> bool:
    """Return True if workloads without ready pods block the admission of others."""
    rules = state.configuration.wait_for_pods_ready
    return rules is not None and rules.block_admission is not None


def _changes(
    state: State,
    queue: ClusterQueueState,
    entry: Entry,
    mismatch: r.NamespaceMismatched | None,
    *,
    is_blocked: bool,
) -> Iterator[Change]:
    local = entry.local_queue
    if not state.ledger.local_queues[local].is_running:
        yield Change(
            action="ResumeQueue",
            text=f"resume the local queue (quorate queue resume lq/{local.name} -n {local.namespace})",
            object=ObjectName(kind="LocalQueue", name=local.name, namespace=local.namespace),
        )
    name = ObjectName(kind="ClusterQueue", name=queue.name)
    if queue.inactive_reasons:
        text = f"resume cluster queue {queue.name}, which is stopped (quorate queue resume {queue.name})"
        yield Change(action="ResumeQueue", text=text, object=name)
    if mismatch is not None:
        yield Change(
            action="SelectNamespace", text=selection_of(state, queue.name, mismatch.namespace), object=name
        )
    if is_blocked:
        yield _READY_PODS
    if entry.key in queue.pending.backing_off and (until := c.requeue_at(entry.workload)) is not None:
        moment = at_epoch(until)
        yield Change(action="Wait", text=f"wait until {moment:%H:%M:%S} UTC", until=moment)
