"""Why a workload waits: the last verdict, who is ahead of it, and who holds what it lacks."""

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

_LISTED: Final = 10


class QuotaHolder(msgspec.Struct, frozen=True):
    """A workload that holds some of what another one lacks."""

    key: Key
    cluster_queue: str
    pair: FlavorResource
    amount: int  # in base units
    evicted: bool  # it is about to give it back


class Explanation(msgspec.Struct, frozen=True):
    hold: Hold | None  # None: it was not judged yet
    can_never_fit: bool  # not even with its fewest pods, and nothing else running
    ahead: int  # pending workloads before it in its cluster queue
    first_ahead: tuple[Key, ...]  # the first of these
    holders: tuple[QuotaHolder, ...]  # of what it lacks, in its cluster queue and cohorts; the largest


def explain(state: State, key: Key) -> Explanation | None:
    """Why the workload ``key`` waits; None if it does not wait."""
    entry = state.ledger.entries.get(key)
    if entry is None:
        return None
    hold = why_pending(state, key)
    reasons = hold.reasons if hold is not None else ()
    ahead = _ahead(state, entry)
    never = _can_never_fit(state, entry)
    return Explanation(hold, never, len(ahead), ahead[:_LISTED], _holders(state, entry, reasons))


def why_pending(state: State, key: Key) -> Hold | None:
    """The last verdict on a pending workload; None while there is none, or if it does not wait."""
    entry = state.ledger.entries.get(key)
    if entry is None:
        return None
    cause = _obstacle(state, entry)
    if cause is not None:
        return Hold(
            **_identity(entry.workload),
            condition_reason="Pending" if isinstance(cause, BackingOff) else "Inadmissible",
            reasons=(cause,),
            requests=entry.shape.requests,
        )
    hold = state.ledger.cluster_queues[entry.cluster_queue].pending.hold_of(entry)
    return None if hold is None else msgspec.structs.replace(hold, **_identity(entry.workload))


def _obstacle(state: State, entry: Entry) -> InadmissibleReason | None:
    """What keeps ``entry`` from being tried at all."""
    local_queue = state.ledger.local_queues[entry.local_queue]
    queue = state.ledger.cluster_queues.get(local_queue.cluster_queue)
    if local_queue.object is None:
        return QueueMissing("LocalQueue", entry.local_queue.name)
    if not local_queue.is_running:
        return QueueInactive("LocalQueue", entry.local_queue.name)
    if queue is None:
        return QueueMissing("ClusterQueue", local_queue.cluster_queue)
    if not state.ledger.is_active(queue):
        return QueueInactive("ClusterQueue", queue.name)
    if entry.key in queue.pending.backing_off:
        evicted = find_condition(entry.workload.status.conditions, c.EVICTED)
        return BackingOff(c.requeue_at(entry.workload), evicted.reason if evicted is not None else "")
    return None


def _can_never_fit(state: State, entry: Entry) -> bool:
    queue = state.ledger.cluster_queues.get(entry.cluster_queue)
    return queue is not None and state.ledger.is_active(queue) and not could_ever_fit(state, queue, entry)


def _ahead(state: State, entry: Entry) -> tuple[Key, ...]:
    """Who is before ``entry`` in its cluster queue, whether it is being tried or set aside."""
    queue = state.ledger.cluster_queues.get(entry.cluster_queue)
    if queue is None:
        return ()
    rank = queue.pending.rank
    all_entries = (*queue.pending.active(), *queue.pending.inadmissible())
    ahead = [other for other in all_entries if rank(other) < rank(entry)]
    return tuple(other.key for other in sorted(ahead, key=rank))


def _holders(state: State, entry: Entry, reasons: tuple[InadmissibleReason, ...]) -> tuple[QuotaHolder, ...]:
    queue = state.ledger.cluster_queues.get(entry.cluster_queue)
    pairs = {
        FlavorResource(cause.flavor, cause.resource) for cause in reasons if isinstance(cause, QuotaShort)
    }
    if queue is None or not pairs:
        return ()
    holders = [
        QuotaHolder(other.key, other_queue.name, pair, other.usage[pair], other.evicted)
        for other_queue in state.ledger.queues_below(queue.node.root)
        for other in other_queue.reservations.values()
        for pair in pairs & other.usage.keys()
    ]
    holders.sort(key=lambda holder: (holder.pair, -holder.amount, holder.key))
    return tuple(holders[:_LISTED])


def _identity(workload: Workload) -> dict[str, Any]:
    metadata = workload.metadata
    return {"key": metadata.key, "uid": metadata.uid, "resource_version": metadata.resource_version}
