"""Audit of the model against the stored objects: reservations, usage, places, pod constraints, pending ones.

Usage is a pure function of the stored objects and the assumed reservations.  The ledger updates it
incrementally; the audit computes it from scratch.

The audit of a large model takes seconds, so it is made in slices.  Each slice compares what belongs to one
moment: some workloads with their reservations, some cluster queues with theirs, or one flavor and resource of
one tree with the usage of its cluster queues.  Objects and model may change between two
slices, provided that they change together.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

import msgspec

from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.placement.topology.tree import Path
from quorate.queueing.cluster_queue import ClusterQueueState, counts_quota
from quorate.queueing.limits import AUDIT_SLICE, QUEUE_AUDIT_SLICE
from quorate.queueing.nodes.audit import NodeDifference, audit_nodes
from quorate.queueing.nodes.places import Amounts, Places
from quorate.queueing.outside_quota import OutsideUse, recorded_use
from quorate.queueing.pending.ordering import may_queue
from quorate.queueing.state import State
from quorate.quota import audit
from quorate.quota.amount import Usage, total
from quorate.quota.tree import Node


class StoredWorkloads(Protocol):
    """The newest stored objects."""

    def keys(self) -> Iterable[Key]: ...
    def get(self, key: Key, /) -> Workload | None: ...


class ReservationRecord(msgspec.Struct, frozen=True):
    cluster_queue: str
    usage: Usage
    # By the flavors and the leaf of each place: what its pods use.
    places: tuple[tuple[tuple[str, ...], Path, Amounts], ...] = ()


class ReservationMismatch(msgspec.Struct, frozen=True):
    """A workload with different reservations; None if it has no reservation on that side."""

    key: Key
    in_model: ReservationRecord | None
    stored: ReservationRecord | None


class OutsideMismatch(msgspec.Struct, frozen=True):
    """A workload of which other amounts count than are recorded as used outside of quota."""

    key: Key
    in_model: OutsideUse | None
    stored: OutsideUse | None


class UntrackedWorkload(msgspec.Struct, frozen=True):
    """A workload that may queue and that the model does not know."""

    key: Key


ModelDifference = (
    ReservationMismatch | OutsideMismatch | UntrackedWorkload | audit.Difference | NodeDifference
)


def audit_model(
    state: State, workloads: StoredWorkloads, queue_slice: int = QUEUE_AUDIT_SLICE
) -> Iterator[tuple[ModelDifference, ...]]:
    """Yield the differences of one slice after the other, given all stored workloads.

    A slice of queues has ``queue_slice`` reservations, or all of one queue if it has more.
    """
    keys = list(workloads.keys())
    counted = {**state.ledger.reservations, **state.ledger.outside}
    keys += [key for key in counted if workloads.get(key) is None]
    for start in range(0, len(keys), AUDIT_SLICE):
        differences: list[ModelDifference | None] = []
        for key in keys[start : start + AUDIT_SLICE]:
            differences.append(_difference(state, key, workloads.get(key) or state.unreadable.get(key)))
            differences.append(_outside_difference(state, key, workloads.get(key)))
        yield tuple(difference for difference in differences if difference is not None)
    yield from _queue_slices(state, queue_slice)
    roots = {queue.node.root: None for queue in state.ledger.cluster_queues.values()}
    for root in roots:
        for pair in sorted(audit.pairs_of(_usage(state, root))):
            # A tree that has become part of another one meanwhile is left to the next audit.
            yield audit.audit(_usage(state, root), (pair,)) if root.parent is None else ()
    yield from audit_nodes(state.ledger.topology, lambda: _places(state), lambda: _counted_places(state))


def _places(state: State) -> dict[Key, Places]:
    reservations = state.ledger.reservations
    return {
        key: reservation.places
        for key, reservation in reservations.items()
        if state.ledger.holds_places(reservation)
    }


def _counted_places(state: State) -> dict[Key, Places]:
    """Return the places of workloads of which the cluster queue exists."""
    return {
        key: reservation.places
        for queue in state.ledger.cluster_queues.values()
        for key, reservation in queue.reservations.items()
        if reservation.places.all
    }


def _queue_slices(state: State, queue_slice: int) -> Iterator[tuple[audit.Difference, ...]]:
    """Compare the usage of each cluster queue with the sum of what is counted in it."""
    differences: list[audit.Difference] = []
    size = 0
    for name in list(state.ledger.cluster_queues):
        queue = state.ledger.cluster_queues.get(name)
        if queue is None:
            continue  # deleted since the last slice
        differences += _usage_differences(queue)
        size += 1 + len(queue.reservations)
        if size >= queue_slice:
            yield tuple(differences)
            differences, size = [], 0
    yield tuple(differences)


def _usage_differences(queue: ClusterQueueState) -> Iterator[audit.Difference]:
    counted = total(
        (*(reservation.usage for reservation in queue.reservations.values()), *queue.outside.values())
    )
    usage = queue.node.usage
    for pair in sorted(counted.keys() | usage.keys()):
        stored, computed = usage.get(pair, 0), counted.get(pair, 0)
        if stored != computed:
            yield audit.Difference(queue.node.name, pair, "usage", stored, computed)


def _difference(
    state: State, key: Key, workload: Workload | None
) -> ReservationMismatch | UntrackedWorkload | None:
    """Compare what the model and the stored object of one workload say."""
    ledger = state.ledger
    reservation = ledger.reservations.get(key)
    # Its places are counted with old requests, until these are updated, or a second pass is not written yet.
    has_other_places = state.request_updates.concern(key.namespace) or (
        reservation is not None and reservation.replaced_admission is not None
    )
    stored: ReservationRecord | None = None
    if workload is not None:
        admission = workload.status.admission
        if counts_quota(workload) and admission is not None:
            usage = ledger.usage_of(workload, admission)
            places = () if has_other_places else _record(ledger.places_of(workload, admission))
            stored = ReservationRecord(admission.cluster_queue, _without_zeros(usage), places)
        elif (
            reservation is None
            and key not in ledger.entries
            and may_queue(workload, state.configuration.gates)
        ):
            return UntrackedWorkload(key)
    in_model: ReservationRecord | None = None
    if reservation is not None and reservation.assumed is None:
        in_model = ReservationRecord(
            reservation.admission.cluster_queue,
            _without_zeros(reservation.usage),
            () if has_other_places else _record(reservation.places),
        )
    return ReservationMismatch(key, in_model, stored) if in_model != stored else None


def _outside_difference(state: State, key: Key, workload: Workload | None) -> OutsideMismatch | None:
    in_model = state.ledger.outside.get(key)
    stored = None if workload is None else recorded_use(workload)
    return OutsideMismatch(key, in_model, stored) if in_model != stored else None


def _record(places: Places) -> tuple[tuple[tuple[str, ...], Path, Amounts], ...]:
    return tuple((place.flavors, place.values, place.amounts) for place in places.all)


def _without_zeros(usage: Usage) -> Usage:
    """Return ``usage`` without amounts of 0, which change no sum."""
    return {pair: amount for pair, amount in usage.items() if amount}


def _usage(state: State, root: Node) -> Mapping[Node, Usage]:
    """Return the usage of each cluster queue of a tree."""
    return {queue.node: queue.node.usage for queue in state.ledger.queues_below(root)}
