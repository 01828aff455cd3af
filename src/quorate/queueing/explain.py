"""Why a workload is pending: its last outcome, the workloads ahead of it, and the users of the quota.

A cluster queue may have 100,000 pending workloads, and a tree as many reservations.  ``pending_facts``
therefore yields between steps of bounded cost, at which a process may do other work.  The model may change at
these points: a count is then between its values before and after the changes.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import nullcontext
from heapq import nsmallest
from typing import Any, Final, TypeVar

import msgspec

from quorate.api.kueue import Workload
from quorate.api.meta import Key, find_condition
from quorate.queueing import conditions as c
from quorate.queueing import inadmissible_reasons as r
from quorate.queueing.decisions import Hold
from quorate.queueing.limits import MAX_LISTED, STEP
from quorate.queueing.pending.entry import Entry
from quorate.queueing.remedies import Remedies, find_remedies
from quorate.queueing.restored_history import stored_preemption
from quorate.queueing.scheduling.nomination import could_ever_fit
from quorate.queueing.state import State
from quorate.quota import tree
from quorate.quota.amount import FlavorResource

# Reasons of workloads that do not keep others of a StrictFIFO queue waiting.
_PASSED: Final = r.BackingOff | r.NamespaceMismatched | r.QueueInactive

T = TypeVar("T")
Steps = Generator[None, None, T]


class QuotaHolder(msgspec.Struct, frozen=True):
    """A workload that uses quota which a pending workload is short of."""

    key: Key
    cluster_queue: str
    pair: FlavorResource
    amount: int  # in base units
    evicted: bool  # it is about to release the quota


class PendingFacts(msgspec.Struct, frozen=True):
    hold: Hold | None  # None: not evaluated yet
    can_never_fit: bool  # not even with its minimum counts in an empty tree
    ahead: int | None = None  # pending workloads that precede it in its cluster queue; None: not counted
    first_ahead: tuple[Key, ...] = ()  # the first of them
    blocked: bool = False  # its queue is StrictFIFO, and the first workload there starts only after a change
    holders: tuple[QuotaHolder, ...] = ()  # the largest, in its cluster queue and cohorts
    exceeds_nodes: bool = False  # it fits the tree, and the nodes that exist never hold its pods
    preemptor: Key | None = None  # for which it was preempted last, if that still exists
    remedies: Remedies | None = None  # None: not searched

    @property
    def is_evaluated(self) -> bool:
        """True unless the workload waits for its first evaluation by this process."""
        hold = self.hold
        return hold is not None and (hold.evaluated_at is not None or hold.condition_reason != "Waiting")


def run(steps: Steps[T]) -> T:
    """Return the result of all ``steps`` at once."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def pending_facts(state: State, key: Key) -> Steps[PendingFacts | None]:
    """Return why the workload ``key`` is pending, with the quota that is available now; None if it is not."""
    entry, facts = state.ledger.entries.get(key), outcome_of(state, key)
    if entry is None or facts is None:
        return None
    yield
    reasons = facts.hold.reasons if facts.hold is not None else ()
    ahead, first_ahead = yield from _ahead(state, entry)
    holders = yield from _holders(state, entry, reasons)
    preemptor = yield from _preemptor(state, entry.workload)
    if state.ledger.entries.get(key) is not entry:  # it changed meanwhile
        return (yield from pending_facts(state, key))
    facts = of_turn(state, key, facts, blocked=_is_blocked(state, entry, first_ahead))
    reasons = facts.hold.reasons if facts.hold is not None else ()
    remedies = yield from find_remedies(state, entry, reasons, ahead or 0, blocked=facts.blocked)
    return msgspec.structs.replace(
        facts,
        ahead=ahead,
        first_ahead=first_ahead,
        holders=holders,
        preemptor=preemptor,
        remedies=remedies,
    )


def of_turn(state: State, key: Key, facts: PendingFacts, *, blocked: bool) -> PendingFacts:
    """Return ``facts`` with what keeps a workload from its first evaluation, unless only its turn does.

    ``blocked``: the first workload of its StrictFIFO queue starts only when changed.  While all admissions
    wait for pods, workloads are not evaluated.
    """
    rules, unready = state.configuration.wait_for_pods_ready, state.ledger.unready
    if facts.hold is not None or blocked:
        return msgspec.structs.replace(facts, blocked=blocked)
    if rules is None or rules.block_admission != "AllQueues" or not unready:
        return facts
    entry = state.ledger.entries[key]
    hold = Hold(
        **_identity(entry.workload),
        condition_reason="Waiting",
        reasons=(r.AwaitingPodsReady(unready.first()),),
        requests=entry.shape.requests,
    )
    return msgspec.structs.replace(facts, hold=hold)


def _is_blocked(state: State, entry: Entry, first_ahead: tuple[Key, ...]) -> bool:
    """Return True if the first workload of a StrictFIFO queue, not ``entry``, starts only when changed."""
    queue = state.ledger.cluster_queues.get(entry.cluster_queue)
    return queue is not None and queue.is_strict and bool(first_ahead) and _blocks(state, first_ahead[0])


def blocking_workload(state: State, cluster_queue: str) -> Steps[Key | None]:
    """Return the first workload of a StrictFIFO queue if it starts only when changed; otherwise None."""
    queue = state.ledger.cluster_queues.get(cluster_queue)
    if queue is None or not queue.is_strict:
        return None
    first = yield from first_pending(state, cluster_queue)
    return first[0] if first and _blocks(state, first[0]) else None


def _blocks(state: State, key: Key) -> bool:
    first = outcome_of(state, key)
    if (
        first is None
        or first.hold is None
        or any(isinstance(reason, _PASSED) for reason in first.hold.reasons)
    ):
        return False
    is_misconfigured = any(isinstance(reason, r.Misconfiguration) for reason in first.hold.reasons)
    return first.can_never_fit or first.exceeds_nodes or is_misconfigured


def outcome_of(state: State, key: Key) -> PendingFacts | None:
    """Return why ``key`` is pending, without the workloads ahead and around it; None if it is not pending.

    The cost does not depend on the number of workloads.
    """
    entry = state.ledger.entries.get(key)
    if entry is None:
        return None
    hold = why_pending(state, key)
    if hold is not None:
        hold = msgspec.structs.replace(hold, reasons=_with_available_quota(state, entry, hold.reasons))
    return PendingFacts(
        hold,
        _can_never_fit(state, entry),
        exceeds_nodes=hold is not None and _exceeds_nodes(state, entry, hold),
    )


def can_never_fit(state: State, key: Key) -> bool:
    """Return True if ``key`` is pending and fits only after a change of its spec or of the configuration."""
    entry = state.ledger.entries.get(key)
    return entry is not None and _can_never_fit(state, entry)


def spare_quota(state: State, key: Key) -> float | None:
    """Return how many more workloads with the usage of ``key`` the quota holds beside it.

    The scarcest of several resources decides.  Return None if the workload has no quota reservation.
    """
    reservation = state.ledger.reservations.get(key)
    if reservation is None:
        return None
    queue = state.ledger.cluster_queues[reservation.admission.cluster_queue]
    return min(
        (max(0, tree.available(queue.node, pair)) / used for pair, used in reservation.usage.items()),
        default=None,
    )


def why_pending(state: State, key: Key) -> Hold | None:
    """Return the last outcome of a pending workload; None if it has no outcome yet or is not pending."""
    entry = state.ledger.entries.get(key)
    if entry is None:
        return None
    reason = _never_tried_reason(state, entry)
    if reason is not None:
        return Hold(
            **_identity(entry.workload),
            condition_reason="Pending" if isinstance(reason, r.BackingOff) else "Inadmissible",
            reasons=(reason,),
            requests=entry.shape.requests,
            announced=state.ledger.announced.get(key),
        )
    hold = state.ledger.cluster_queues[entry.cluster_queue].pending.hold_of(entry)
    if hold is None:
        return None
    announced = state.ledger.announced.get(key)
    return msgspec.structs.replace(hold, announced=announced, **_identity(entry.workload))


def pending_text(state: State, key: Key) -> str:
    """Return why ``key`` is pending: its last outcome, or the workloads that are evaluated before it.

    Return "" if it is not pending, or has no outcome although it is first.
    """
    hold = why_pending(state, key)
    if hold is not None and hold.message:
        return hold.message
    entry = state.ledger.entries.get(key)
    ahead, first_ahead = (0, ()) if entry is None else run(_ahead(state, entry))
    if entry is None or not ahead:
        return ""
    return f"not evaluated yet: {ahead} ahead of it in {entry.cluster_queue}, first {first_ahead[0].name}"


def _with_available_quota(
    state: State, entry: Entry, reasons: tuple[r.InadmissibleReason, ...]
) -> tuple[r.InadmissibleReason, ...]:
    """Return ``reasons`` with the quota that is available now instead of at the last evaluation.

    A workload that does not fit is not evaluated again when others take more quota, and one that can never
    fit not even when they release it.  A reason that no longer holds is not changed: the workload is
    evaluated next.
    """
    queue = state.ledger.cluster_queues.get(entry.cluster_queue)
    if queue is None or not any(isinstance(reason, r.QuotaShort | r.QuotaExceeded) for reason in reasons):
        return reasons
    replaced = queue.reservations.get(entry.shape.replaces)
    with nullcontext() if replaced is None else state.ledger.without_replaced_slice(replaced):
        return tuple(_with_available(queue.node, reason) for reason in reasons)


def _with_available(node: tree.Node, reason: r.InadmissibleReason) -> r.InadmissibleReason:
    if not isinstance(reason, r.QuotaShort | r.QuotaExceeded):
        return reason
    pair = FlavorResource(reason.flavor, reason.resource)
    available, maximum = max(0, tree.available(node, pair)), tree.potential_available(node, pair)
    holds = reason.needed > (available if isinstance(reason, r.QuotaShort) else maximum)
    return msgspec.structs.replace(reason, available=available, maximum=maximum) if holds else reason


def _never_tried_reason(state: State, entry: Entry) -> r.InadmissibleReason | None:
    """Return what keeps ``entry`` from being nominated at all."""
    closed = closed_queue_reason(state, entry.local_queue)
    if closed is not None:
        return closed
    if entry.key in state.ledger.cluster_queues[entry.cluster_queue].pending.backing_off:
        evicted = find_condition(entry.workload.status.conditions, c.EVICTED)
        return r.BackingOff(c.requeue_at(entry.workload), evicted.reason if evicted is not None else "")
    return None


def closed_queue_reason(state: State, key: Key) -> r.QueueMissing | r.QueueInactive | None:
    """Return what keeps every workload that names the local queue ``key`` from being nominated."""
    ledger = state.ledger
    local_queue = ledger.local_queues.get(key)
    if local_queue is None or local_queue.object is None:
        return r.QueueMissing("LocalQueue", key.name)
    if not local_queue.is_running:
        return r.QueueInactive("LocalQueue", key.name)
    queue = ledger.cluster_queues.get(local_queue.cluster_queue)
    if queue is None:
        return r.QueueMissing("ClusterQueue", local_queue.cluster_queue)
    return None if ledger.is_active(queue) else r.QueueInactive("ClusterQueue", queue.name)


def _can_never_fit(state: State, entry: Entry) -> bool:
    queue = state.ledger.cluster_queues.get(entry.cluster_queue)
    return queue is not None and state.ledger.is_active(queue) and not could_ever_fit(state, queue, entry)


def _exceeds_nodes(state: State, entry: Entry, hold: Hold) -> bool:
    """Return True if pods have no room on empty nodes, and neither fewer pods nor other flavors help."""
    queue = state.ledger.cluster_queues.get(entry.cluster_queue)
    if queue is None:
        return False
    has_alternatives = any(pod_set.min_count < pod_set.count for pod_set in entry.shape.pod_sets) or any(
        len(group.flavors) > 1 for group in queue.groups.values()
    )
    return any(
        isinstance(reason, r.PlacementRefused | r.NodesLackRoom)
        and reason.never_fits
        and (not has_alternatives or (isinstance(reason, r.PlacementRefused) and reason.is_unsupported))
        for reason in hold.reasons
    )


def _ahead(state: State, entry: Entry) -> Steps[tuple[int | None, tuple[Key, ...]]]:
    """Return how many workloads precede ``entry`` in its cluster queue, and the first of these.

    The number is None if ``entry`` has no place: its local queue is stopped, or one of its queues does not
    exist.
    """
    queue = state.ledger.cluster_queues.get(entry.cluster_queue)
    if queue is None:
        return None, ()
    rank, count = queue.pending.rank, 0
    first: list[Entry] = []
    for entries in _slices(queue.pending.unordered()):
        yield
        own = rank(entry)
        ahead = [other for other in entries if rank(other) < own]
        count += len(ahead)
        first = nsmallest(MAX_LISTED, (*first, *ahead), key=rank)
    return count, tuple(other.key for other in first)


def first_pending(state: State, cluster_queue: str) -> Steps[tuple[Key, ...]]:
    """Return the first pending workloads of a cluster queue, active or inadmissible."""
    queue = state.ledger.cluster_queues.get(cluster_queue)
    first: list[Entry] = []
    for entries in _slices(queue.pending.unordered() if queue is not None else []):
        yield
        assert queue is not None
        first = nsmallest(MAX_LISTED, (*first, *entries), key=queue.pending.rank)
    return tuple(entry.key for entry in first)


def _holders(
    state: State, entry: Entry, reasons: tuple[r.InadmissibleReason, ...]
) -> Steps[tuple[QuotaHolder, ...]]:
    ledger = state.ledger
    queue = ledger.cluster_queues.get(entry.cluster_queue)
    pairs = {
        FlavorResource(reason.flavor, reason.resource)
        for reason in reasons
        if isinstance(reason, r.QuotaShort)
    }
    if queue is None or not pairs:
        return ()
    holders: list[QuotaHolder] = []
    for queues in _slices(list(ledger.queues_below(queue.node.root))):
        for holder_queue in queues:
            for reservations in _slices(list(holder_queue.reservations.values())):
                if len(reservations) == STEP:
                    yield
                occupying = [
                    QuotaHolder(holder.key, holder_queue.name, pair, holder.usage[pair], holder.evicted)
                    for holder in reservations
                    for pair in pairs & holder.usage.keys()
                ]
                holders = nsmallest(MAX_LISTED, (*holders, *occupying), key=_by_amount)
    return tuple(holders)


def _preemptor(state: State, workload: Workload) -> Steps[Key | None]:
    """Return the preemptor of ``workload``; None if it was not preempted, or its preemptor does not exist."""
    evicted = find_condition(workload.status.conditions, c.EVICTED)
    preempted = stored_preemption(workload)
    if preempted is None or evicted is None or evicted.status != "True" or evicted.reason != c.PREEMPTED:
        return None
    for reservations in (state.ledger.reservations, state.ledger.entries):
        for keys in _slices(list(reservations)):
            yield
            for key in keys:
                candidate = reservations.get(key)
                if candidate is not None and candidate.workload.metadata.uid == preempted.preemptor:
                    return key
    return None


def _by_amount(holder: QuotaHolder) -> tuple[FlavorResource, int, Key]:
    return holder.pair, -holder.amount, holder.key


def _slices(objects: Sequence[T]) -> Iterator[Sequence[T]]:
    return (objects[start : start + STEP] for start in range(0, len(objects), STEP))


def _identity(workload: Workload) -> dict[str, Any]:
    metadata = workload.metadata
    return {"key": metadata.key, "uid": metadata.uid, "resource_version": metadata.resource_version}
