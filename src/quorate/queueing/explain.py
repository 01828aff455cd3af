"""Why a workload is pending: its last outcome, the workloads ahead of it, and those that use the quota."""

from typing import Any, Final

import msgspec

from quorate.api.kueue import Workload
from quorate.api.meta import Key, find_condition
from quorate.queueing import conditions as c
from quorate.queueing.decisions import Hold
from quorate.queueing.inadmissible_reasons import (
    BackingOff,
    InadmissibleReason,
    QueueInactive,
    QueueMissing,
    QuotaShort,
)
from quorate.queueing.pending.queue import Entry
from quorate.queueing.scheduling.nomination import could_ever_fit
from quorate.queueing.state import State
from quorate.quota.amount import FlavorResource

_MAX_LISTED: Final = 10


class QuotaHolder(msgspec.Struct, frozen=True):
    """A workload that uses quota which a pending workload is short of."""

    key: Key
    cluster_queue: str
    pair: FlavorResource
    amount: int  # in base units
    evicted: bool  # it is about to release the quota


class Explanation(msgspec.Struct, frozen=True):
    hold: Hold | None  # None: not evaluated yet
    can_never_fit: bool  # not even with its minimum counts in an empty tree
    ahead: int  # pending workloads that precede it in its cluster queue
    first_ahead: tuple[Key, ...]  # the first of them
    holders: tuple[QuotaHolder, ...]  # the largest, in its cluster queue and cohorts


def explain(state: State, key: Key) -> Explanation | None:
    """Return why the workload ``key`` is pending; None if it is not."""
    entry = state.ledger.entries.get(key)
    if entry is None:
        return None
    hold = why_pending(state, key)
    reasons = hold.reasons if hold is not None else ()
    ahead = _ahead(state, entry)
    can_never_fit = _can_never_fit(state, entry)
    first_ahead = ahead[:_MAX_LISTED]
    return Explanation(hold, can_never_fit, len(ahead), first_ahead, _holders(state, entry, reasons))


def why_pending(state: State, key: Key) -> Hold | None:
    """Return the last outcome of a pending workload; None if there is none or it is not pending."""
    entry = state.ledger.entries.get(key)
    if entry is None:
        return None
    reason = _never_tried_reason(state, entry)
    if reason is not None:
        return Hold(
            **_identity(entry.workload),
            condition_reason="Pending" if isinstance(reason, BackingOff) else "Inadmissible",
            reasons=(reason,),
            requests=entry.shape.requests,
        )
    hold = state.ledger.cluster_queues[entry.cluster_queue].pending.hold_of(entry)
    return None if hold is None else msgspec.structs.replace(hold, **_identity(entry.workload))


def _never_tried_reason(state: State, entry: Entry) -> InadmissibleReason | None:
    """Return what keeps ``entry`` from being nominated at all."""
    ledger = state.ledger
    local_queue = ledger.local_queues[entry.local_queue]
    queue = ledger.cluster_queues.get(local_queue.cluster_queue)
    if local_queue.object is None:
        return QueueMissing("LocalQueue", entry.local_queue.name)
    if not local_queue.is_running:
        return QueueInactive("LocalQueue", entry.local_queue.name)
    if queue is None:
        return QueueMissing("ClusterQueue", local_queue.cluster_queue)
    if not ledger.is_active(queue):
        return QueueInactive("ClusterQueue", queue.name)
    if entry.key in queue.pending.backing_off:
        evicted = find_condition(entry.workload.status.conditions, c.EVICTED)
        return BackingOff(c.requeue_at(entry.workload), evicted.reason if evicted is not None else "")
    return None


def _can_never_fit(state: State, entry: Entry) -> bool:
    queue = state.ledger.cluster_queues.get(entry.cluster_queue)
    return queue is not None and state.ledger.is_active(queue) and not could_ever_fit(state, queue, entry)


def _ahead(state: State, entry: Entry) -> tuple[Key, ...]:
    """Return the workloads that precede ``entry`` in its cluster queue, active or inadmissible."""
    queue = state.ledger.cluster_queues.get(entry.cluster_queue)
    if queue is None:
        return ()
    rank = queue.pending.rank
    entries = (*queue.pending.active(), *queue.pending.inadmissible())
    ahead = [other for other in entries if rank(other) < rank(entry)]
    return tuple(other.key for other in sorted(ahead, key=rank))


def _holders(state: State, entry: Entry, reasons: tuple[InadmissibleReason, ...]) -> tuple[QuotaHolder, ...]:
    ledger = state.ledger
    queue = ledger.cluster_queues.get(entry.cluster_queue)
    pairs = {
        FlavorResource(reason.flavor, reason.resource) for reason in reasons if isinstance(reason, QuotaShort)
    }
    if queue is None or not pairs:
        return ()
    holders = [
        QuotaHolder(holder.key, holder_queue.name, pair, holder.usage[pair], holder.evicted)
        for holder_queue in ledger.queues_below(queue.node.root)
        for holder in holder_queue.reservations.values()
        for pair in pairs & holder.usage.keys()
    ]
    holders.sort(key=lambda holder: (holder.pair, -holder.amount, holder.key))
    return tuple(holders[:_MAX_LISTED])


def _identity(workload: Workload) -> dict[str, Any]:
    metadata = workload.metadata
    return {"key": metadata.key, "uid": metadata.uid, "resource_version": metadata.resource_version}
