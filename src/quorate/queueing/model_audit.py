"""Audit of the model against the stored objects: reservations, usage, and pending workloads.

Usage is a pure function of the stored objects and the assumed reservations.  The ledger updates it
incrementally; the audit computes it from scratch.
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
    """A workload with different reservations; None if it has no reservation on that side."""

    key: Key
    in_model: ReservationRecord | None
    stored: ReservationRecord | None


class UntrackedWorkload(msgspec.Struct, frozen=True):
    """A workload that may queue and that the model does not know."""

    key: Key


ModelDifference = ReservationMismatch | UntrackedWorkload | audit.Difference


def audit_model(state: State, workloads: Iterable[Workload]) -> tuple[ModelDifference, ...]:
    """Return all differences, sorted by key, given all stored workloads.

    Costs a pass over all workloads, and a pass over each tree per flavor and resource.
    """
    stored: dict[Key, ReservationRecord] = {}
    pending: list[Key] = []
    for workload in workloads:
        admission = workload.status.admission
        if counts_quota(workload) and admission is not None:
            replaced = workload.metadata.key in state.ledger.replacement_slices
            usage = {} if replaced else usage_of(workload, admission)
            stored[workload.metadata.key] = ReservationRecord(admission.cluster_queue, usage)
        elif may_queue(workload, state.configuration.gates):
            pending.append(workload.metadata.key)
    in_model = {
        key: ReservationRecord(each.admission.cluster_queue, each.usage)
        for key, each in state.ledger.reservations.items()
        if each.assumed is None
    }
    mismatches = [
        ReservationMismatch(key, in_model.get(key), stored.get(key))
        for key in sorted(in_model.keys() | stored.keys())
        if in_model.get(key) != stored.get(key)
    ]
    known = state.ledger.entries.keys() | state.ledger.reservations.keys()
    untracked = [UntrackedWorkload(key) for key in sorted(pending) if key not in known]
    return (*mismatches, *untracked, *audit.audit(_usage_by_queue(state)))


def _usage_by_queue(state: State) -> dict[Node, Usage]:
    return {
        queue.node: total(reservation.usage for reservation in queue.reservations.values())
        for queue in state.ledger.cluster_queues.values()
    }
