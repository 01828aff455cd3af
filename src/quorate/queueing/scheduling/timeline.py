"""What a cohort tree uses at a later time: what has not ended, and planned starts that have begun."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from quorate.queueing.cluster_queue import ClusterQueueState, Reservation
from quorate.queueing.ledger import Ledger
from quorate.queueing.nodes.places import Places
from quorate.queueing.pending.entry import Entry
from quorate.queueing.planning.bounds import Origin
from quorate.queueing.scheduling.flavor_assigner import Assignment
from quorate.quota import tree
from quorate.quota.amount import FlavorResource
from quorate.quota.tree import Node


class PlannedStart(NamedTuple):
    """When a pending workload starts at the latest, and the quota and places that are kept for it."""

    entry: Entry
    at: float  # epoch seconds; infinite: a workload without a bound must end first
    ends: float  # by its own bound, if it starts then
    assignment: Assignment
    origin: Origin  # of the least certain bound that it rests on
    ended: int  # workloads with quota of its flavors that end before
    replaced: Reservation | None = None  # the slice that it replaces


class End(NamedTuple):
    """Until when a workload with quota runs at most."""

    at: float  # epoch seconds; infinite without a bound
    reservation: Reservation
    origin: Origin | None
    is_overdue: bool  # it has run longer than a bound that is not enforced


def ends_of(ledger: Ledger, queue: ClusterQueueState, now: float) -> list[End]:
    """Return until when the workloads with quota in the tree of ``queue`` run at most, the first end first.

    One that is being evicted ends at any moment.
    """
    ends = [
        _end_of(ledger, member, reservation, now)
        for member in ledger.queues_below(queue.node.root)
        for reservation in member.reservations.values()
    ]
    return sorted(ends, key=lambda end: (end.at, end.reservation.order))


def _end_of(ledger: Ledger, queue: ClusterQueueState, reservation: Reservation, now: float) -> End:
    if reservation.evicted or reservation.workload.metadata.uid in ledger.expected_evictions:
        return End(now, reservation, "Declared", False)
    since = now if reservation.admitted_at is None else reservation.admitted_at
    bound = queue.bound(reservation.workload)
    is_overdue = not bound.is_enforced and since + bound.seconds < now
    return End(bound.ends_at(since, now), reservation, bound.origin, is_overdue)


def ends_at(ledger: Ledger, queue: ClusterQueueState, reservation: Reservation, now: float) -> float:
    """Return until when a reservation of ``queue`` lasts at most, epoch seconds; infinite if unknown."""
    return _end_of(ledger, queue, reservation, now).at


class _Ended:
    """The first of some reservations, counted as ended: the sum of their usage at each node."""

    def __init__(self, ledger: Ledger, reservations: Sequence[Reservation]) -> None:
        self._reservations = reservations
        self._queues = ledger.cluster_queues
        self._number = 0
        self._usage: dict[Node, dict[FlavorResource, int]] = {}
        self._placed = [item for item in enumerate(reservations) if item[1].places.all]

    def set_number(self, number: int) -> None:
        """Let as many of the reservations be ended; a sum, as there may be thousands of them."""
        self._sum(self._reservations[self._number : number], 1)
        self._sum(self._reservations[number : self._number], -1)
        self._number = number

    def _sum(self, reservations: Iterable[Reservation], sign: int) -> None:
        for reservation in reservations:
            node = self._queues[reservation.admission.cluster_queue].node
            of_node = self._usage.setdefault(node, {})
            for pair, amount in reservation.usage.items():
                of_node[pair] = of_node.get(pair, 0) + sign * amount

    def count(self, sign: int) -> None:
        """Count the ended reservations (``sign`` 1), or leave them out (-1)."""
        change = tree.add_usage if sign > 0 else tree.remove_usage
        for node, usage in self._usage.items():
            change(node, usage)
        for index, reservation in self._placed:
            if index < self._number:
                reservation.places.count(sign)


class Timeline:
    """The workloads with quota in a cohort tree, by the times until which they run at most."""

    def __init__(self, ledger: Ledger, queue: ClusterQueueState, now: float) -> None:
        self._ledger = ledger
        self.ends = ends_of(ledger, queue, now)
        self._times = [end.at for end in self.ends]
        self._ended = _Ended(ledger, [end.reservation for end in self.ends])

    def is_past(self, now: float) -> bool:
        """Return True if a workload should have ended before ``now``: it may run longer."""
        return bool(self._times) and self._times[0] < now

    def ended(self, at: float) -> list[End]:
        """Return what has ended at a time."""
        return self.ends[: bisect_right(self._times, at)]

    def moments(self, after: float, before: float) -> list[float]:
        """Return the times between two times, excluded both, at which something ends, ascending."""
        times = self._times[bisect_right(self._times, after) : bisect_left(self._times, before)]
        return list(dict.fromkeys(times))

    @contextmanager
    def moved_to(
        self,
        at: float,
        queue: ClusterQueueState,
        plans: Iterable[PlannedStart],
        kept: Reservation | None = None,
    ) -> Iterator[None]:
        """Count what is used at a later time, and those of ``plans`` of ``queue`` that have begun by then.

        An infinite time is when all that runs now has ended.  ``kept`` counts as if it had not ended.
        """
        number = bisect_right(self._times, at)
        self._ended.set_number(number)
        running = [plan for plan in plans if plan.at <= at and (at < plan.ends or math.isinf(plan.ends))]
        replaced = [plan.replaced for plan in running if plan.replaced is not None]
        if kept is not None or replaced:
            ended = {end.reservation.key for end in self.ends[:number]}
            replaced = [reservation for reservation in replaced if reservation.key not in ended]
            kept = kept if kept is not None and kept.key in ended else None
        usages = [(queue.node, plan.assignment.usage) for plan in running]
        places = [Places(self._ledger.topology, plan.assignment.placement.places()) for plan in running]
        if kept is not None:
            usages.append((self._node(kept), kept.usage))
            places.append(kept.places)
        self._ended.count(-1)
        self._count(replaced, -1)
        for node, usage in usages:
            tree.add_usage(node, usage)
        for each in places:
            each.count(1)
        try:
            yield
        finally:
            for each in places:
                each.count(-1)
            for node, usage in usages:
                tree.remove_usage(node, usage)
            self._count(replaced, 1)
            self._ended.count(1)

    def _count(self, reservations: Iterable[Reservation], sign: int) -> None:
        change = tree.add_usage if sign > 0 else tree.remove_usage
        for reservation in reservations:
            change(self._node(reservation), reservation.usage)
            reservation.places.count(sign)

    def _node(self, reservation: Reservation) -> Node:
        return self._ledger.cluster_queues[reservation.admission.cluster_queue].node
