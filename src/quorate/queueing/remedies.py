"""What would let a pending workload start: changes of its queues and of its turn, and those of its quota."""

from collections.abc import Generator, Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import replace

from quorate.api.explanation import Change, ObjectName, Remedy
from quorate.api.meta import at_epoch
from quorate.queueing import conditions as c
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.inactive_reasons import Stopped
from quorate.queueing.inadmissible_reasons import (
    AwaitingOtherPreemption,
    AwaitingPreemption,
    InadmissibleReason,
    NamespaceMismatched,
)
from quorate.queueing.pending.entry import Entry
from quorate.queueing.scheduling.pod_sets_to_place import may_need_places
from quorate.queueing.scheduling.remedy_search import RemedySearch
from quorate.queueing.state import State

TURN: Final = Change(action="Wait", text="wait for the workloads ahead of it")
_END_PODS: Final = Change(action="EndPods", text="the pods of the evicted workloads must end")
_READY_PODS: Final = Change(action="ReadyPods", text="all workloads with quota must have ready pods, or end")


class Remedies(msgspec.Struct, frozen=True):
    any_of: tuple[Remedy, ...] = ()
    is_searched: bool = False  # for changes of quota and of the workload
    rivals: int = 0  # other pending workloads of the cluster queue and its cohorts


def find_remedies(
    state: State, entry: Entry, reasons: Sequence[InadmissibleReason], ahead: int
) -> Generator[None, None, Remedies]:
    """Return the remedies of a pending workload with ``ahead`` others before it in its cluster queue.

    Yields between steps of bounded cost.
    """
    queue = _cluster_queue(state, entry)
    replaced_by = state.ledger.replacement_slices.get(entry.key)
    if queue is None or replaced_by in state.ledger.reservations:  # then it will be finished
        return Remedies()
    rivals = yield from _rivals(state, queue, entry)
    if state.ledger.entries.get(entry.key) is not entry:  # it changed meanwhile, or was deleted
        return Remedies()
    requested = sum(pod_set.count for pod_set in entry.shape.pod_sets)
    if any(isinstance(reason, AwaitingPreemption | AwaitingOtherPreemption) for reason in reasons):
        return Remedies((Remedy(all_of=(_END_PODS,), pods=requested),), rivals=rivals)
    planned = state.ledger.planned.get(queue.name) if queue.backfills else None
    changes = _queue_changes(state, queue, entry) if planned is None or planned is entry else None
    if changes is None:
        return Remedies(rivals=rivals)
    if ahead and queue.is_strict:
        changes = (*changes, TURN)
    any_of = yield from RemedySearch(state, queue, entry).find()
    any_of = tuple(replace(remedy, all_of=(*changes, *remedy.all_of) or (TURN,)) for remedy in any_of)
    return Remedies(any_of, is_searched=True, rivals=rivals)


def _cluster_queue(state: State, entry: Entry) -> ClusterQueueState | None:
    local_queue = state.ledger.local_queues.get(entry.local_queue)
    return None if local_queue is None else state.ledger.cluster_queues.get(local_queue.cluster_queue)


def _rivals(state: State, queue: ClusterQueueState, entry: Entry) -> Generator[None, None, int]:
    """Return how many other pending workloads may take what a change provides."""
    ledger = state.ledger
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
    if any(check.state in ("Retry", "Rejected") for check in entry.workload.status.admission_checks):
        return None
    if any(not isinstance(reason, Stopped) for reason in queue.inactive_reasons):
        return None
    if state.ledger.pod_misconfiguration(entry) is not None:
        return None
    mismatch = state.ledger.misconfiguration(queue, entry)
    assert mismatch is None or isinstance(mismatch, NamespaceMismatched), mismatch
    is_blocked = _blocks_admission(state) and bool(state.ledger.unready)
    if is_blocked and may_need_places(state, entry):
        return None  # the room on nodes that the pods of unready workloads will take is not known
    return tuple(_changes(state, queue, entry, mismatch, is_blocked=is_blocked))


def _blocks_admission(state: State) -> bool:
    """Return True if workloads without ready pods block the admission of others."""
    rules = state.configuration.wait_for_pods_ready
    return rules is not None and rules.block_admission is not None


def _changes(
    state: State,
    queue: ClusterQueueState,
    entry: Entry,
    mismatch: NamespaceMismatched | None,
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
        text = f"make cluster queue {queue.name} active again: is stopped (quorate queue resume {queue.name})"
        yield Change(action="ResumeQueue", text=text, object=name)
    if mismatch is not None:
        yield Change(
            action="SelectNamespace",
            text=(
                f"change the namespaceSelector of cluster queue {queue.name} to match namespace "
                f"{mismatch.namespace}"
            ),
            object=name,
        )
    if is_blocked:
        yield _READY_PODS
    if entry.key in queue.pending.backing_off and (until := c.requeue_at(entry.workload)) is not None:
        moment = at_epoch(until)
        yield Change(action="Wait", text=f"wait until {moment:%H:%M:%S} UTC", until=moment)
