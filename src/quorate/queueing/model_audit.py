"""Whether the model says what the stored objects say: who holds quota, how much, and who waits.

Usage is a pure function of the stored objects and of the reservations that are decided and not yet seen
written.  The model keeps it by differences; here it is computed from scratch.
"""

from collections.abc import Iterable

import msgspec

from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.queueing.cluster_queue import usage_of
from quorate.queueing.pending.ordering import may_queue
from quorate.queueing.state import State, counts_quota
from quorate.quota import audit
from quorate.quota.amount import Usage, total
from quorate.quota.tree import Node


class ReservationRecord(msgspec.Struct, frozen=True):
    cluster_queue: str
    usage: Usage


class ReservationMismatch(msgspec.Struct, frozen=True):
    """A workload that the model has otherwise than it is stored; None: it holds no quota there."""

    key: Key
    kept: ReservationRecord | None
    stored: ReservationRecord | None


class UntrackedWorkload(msgspec.Struct, frozen=True):
    """A workload that may wait for quota, and that the model does not know."""

    key: Key


ModelDifference = ReservationMismatch | UntrackedWorkload | audit.Difference


def audit_model(state: State, workloads: Iterable[Workload]) -> tuple[ModelDifference, ...]:
    """All differences, given all workloads as they are stored; the order is that of their keys.

    Costs a pass over all workloads, and one over each tree for each flavor and resource.
    """
    stored: dict[Key, ReservationRecord] = {}
    waiting: list[Key] = []
    for workload in workloads:
        admission = workload.status.admission
        if counts_quota(workload) and admission is not None:
            replaced = workload.metadata.key in state.ledger.replacement_slices
            usage = {} if replaced else usage_of(workload, admission)
            stored[workload.metadata.key] = ReservationRecord(admission.cluster_queue, usage)
        elif may_queue(workload, state.configuration.gates):
            waiting.append(workload.metadata.key)
    kept = {
        key: ReservationRecord(each.admission.cluster_queue, each.usage)
        for key, each in state.ledger.reservations.items()
        if each.assumed is None
    }
    misjudged = [
        ReservationMismatch(key, kept.get(key), stored.get(key))
        for key in sorted(kept.keys() | stored.keys())
        if kept.get(key) != stored.get(key)
    ]
    known = state.ledger.entries.keys() | state.ledger.reservations.keys()
    lost = [UntrackedWorkload(key) for key in sorted(waiting) if key not in known]
    return (*misjudged, *lost, *audit.audit(_usage_by_queue(state)))


def _usage_by_queue(state: State) -> dict[Node, Usage]:
    return {
        queue.node: total(reservation.usage for reservation in queue.reservations.values())
        for queue in state.ledger.cluster_queues.values()
    }
