"""Planned starts: quota and places for the first workload that waits in a queue, and what may pass it (EASY).

The first workload of a queue that does not fit gets a plan: the earliest time at which enough is free, by the
bounds of the workloads that hold quota.  A later workload is admitted if it ends before that time, by its own
bound, or uses nothing that the plan needs (EASY backfilling: Lifka, The ANL/IBM SP Scheduling System, 1995).

A bound is ``maximumExecutionTimeSeconds``, which is enforced.  A workload without a bound frees nothing by a
known time: if the plan needs it to end, nothing that the plan needs is given to workloads without a bound.

A plan is a function of the state and the time, so a new process makes the same plans.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Final, NamedTuple

from quorate.api.meta import Key
from quorate.queueing.cluster_queue import ClusterQueueState, Reservation
from quorate.queueing.inadmissible_reasons import ReservedForEarlierWorkload
from quorate.queueing.ledger import Ledger
from quorate.queueing.nodes.places import Places
from quorate.queueing.pending.entry import Entry
from quorate.queueing.scheduling.flavor_assigner import Assignment, AssignmentMode
from quorate.queueing.scheduling.nomination import Nomination, Supposition, evaluate_supposing
from quorate.queueing.scheduling.reserving import shortages_at
from quorate.queueing.state import State
from quorate.queueing.topology.placing import fits
from quorate.quota import tree
from quorate.quota.amount import FlavorResource
from quorate.quota.tree import Node

_WITHOUT_PREEMPTION: Final = Supposition(preempts=False)  # of what has ended by then


class Ended:
    """The first of some reservations, which a plan counts as ended: the sum of their usage at each node."""

    def __init__(self, ledger: Ledger, reservations: Sequence[Reservation]) -> None:
        self.reservations = reservations
        self._queues = ledger.cluster_queues
        self._number = 0
        self._usage: dict[Node, dict[FlavorResource, int]] = {}
        self._placed = [item for item in enumerate(reservations) if item[1].places.all]

    def set_number(self, number: int) -> None:
        """Let as many of the reservations be ended; a sum, as there may be thousands of them."""
        self._sum(self.reservations[self._number : number], 1)
        self._sum(self.reservations[number : self._number], -1)
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


class PlannedStart(NamedTuple):
    """When a pending workload starts at the latest, and the quota and places that are kept for it."""

    entry: Entry
    at: float  # epoch seconds; infinite: a workload without a bound must end first
    assignment: Assignment
    ended: Ended  # by then, or replaced by it


class PlannedStarts:
    """The planned starts in the queues that backfill; each is computed again when its tree has changed."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._computed: dict[str, tuple[tuple[int, int, Entry], PlannedStart | None]] = {}  # by queue

    def offer(self, queue: ClusterQueueState, entry: Entry, now: float) -> None:
        """Plan the start of ``entry``, which does not fit, if no earlier workload of its queue has a plan."""
        if not queue.backfills:
            return
        planned = self._state.ledger.planned
        former = self.of_queue(queue, now)  # None, too, if it would not fit an empty cluster any more
        if former is not None and queue.pending.order(former.entry) <= queue.pending.order(entry):
            return
        planned[queue.name] = entry
        if self.of_queue(queue, now) is None:  # it would not fit an empty cluster
            del planned[queue.name]
            if former is not None:
                planned[queue.name] = former.entry

    def offer_refused(self, heads: Iterable[Nomination], now: float) -> None:
        """Plan the starts of the heads of a round that nothing lets start: all heads keep to these plans."""
        for head in heads:
            assignment = head.assignment
            if assignment is not None and assignment.mode is not AssignmentMode.FIT and not head.targets:
                self.offer(head.queue, head.entry, now)

    def of_queue(self, queue: ClusterQueueState, now: float) -> PlannedStart | None:
        """Return the planned start of the first workload that waits in a queue; None: there is none."""
        ledger = self._state.ledger
        entry = ledger.planned.get(queue.name)
        if entry is None:
            return None
        made_from = ledger.version(queue.node), ledger.reservation_changes, entry
        known = self._computed.get(queue.name)
        if known is None or known[0] != made_from or (known[1] is not None and known[1].at < now):
            known = self._computed[queue.name] = made_from, self._plan(queue, entry, now)
        return known[1]

    def refusal(
        self, nomination: Nomination, assignment: Assignment, now: float
    ) -> ReservedForEarlierWorkload | None:
        """Return the plan that a nomination would delay, with what is missing beside it.

        A workload of another queue delays a plan only if it borrows: what its own queue has is its own.
        """
        entry, queue = nomination.entry, nomination.queue
        ledger = self._state.ledger
        for name, planned in ledger.planned.items():
            other = ledger.cluster_queues[name]
            if (
                not other.backfills
                or planned is entry
                or queue.pending.order(entry) < other.pending.order(planned)
                or (other is not queue and not assignment.borrowing_level)
                or other.node.root is not queue.node.root
            ):
                continue
            plan = self.of_queue(other, now)
            ends = now + queue.bound(entry.workload).seconds
            if plan is None or (ends <= plan.at and math.isfinite(ends)):
                continue
            replaced = ledger.replaced_reservation(entry.workload, queue)
            with (
                self._at_planned_start(other, plan),
                nullcontext()
                if replaced is None or replaced in plan.ended.reservations
                else ledger.without_replaced_slice(replaced),
            ):
                shortages = shortages_at(queue.node, assignment.usage)
                if shortages or not fits(ledger.topology, assignment.placement):
                    return ReservedForEarlierWorkload(
                        planned.key, plan.at if math.isfinite(plan.at) else None, shortages
                    )
        return None

    @contextmanager
    def _at_planned_start(self, queue: ClusterQueueState, plan: PlannedStart) -> Iterator[None]:
        """Count what is used at a planned start, the planned workload included."""
        usage = plan.assignment.usage
        places = Places(self._state.ledger.topology, plan.assignment.placement.places())
        plan.ended.count(-1)
        tree.add_usage(queue.node, usage)
        places.count(1)
        try:
            yield
        finally:
            places.count(-1)
            tree.remove_usage(queue.node, usage)
            plan.ended.count(1)

    def _plan(self, queue: ClusterQueueState, entry: Entry, now: float) -> PlannedStart | None:
        """Return when enough is free for ``entry``; None: it is not even if every workload has ended."""
        ledger = self._state.ledger
        counts = [pod_set.count for pod_set in entry.shape.pod_sets]
        replaced = ledger.replaced_reservation(entry.workload, queue)  # which an evaluation leaves out
        ends = self._ends(queue, replaced, now)

        ended = Ended(ledger, [reservation for _, reservation in ends])

        def assignment_after(number: int) -> Assignment:
            ended.set_number(number)
            ended.count(-1)
            try:
                return evaluate_supposing(self._state, queue, entry, _WITHOUT_PREEMPTION, counts)[0]
            finally:
                ended.count(1)

        least, most = 0, len(ends)
        best = assignment_after(most)
        if best.mode is not AssignmentMode.FIT:
            return None
        while least < most:
            middle = (least + most) // 2
            assignment = assignment_after(middle)
            if assignment.mode is AssignmentMode.FIT:
                most, best = middle, assignment
            else:
                least = middle + 1
        at = max(now, ends[most - 1][0]) if most else now
        until_then = [reservation for end, reservation in ends if end <= at]
        if replaced is not None:
            until_then.append(replaced)
        ended = Ended(ledger, until_then)
        ended.set_number(len(until_then))
        return PlannedStart(entry, at, best, ended)

    def _ends(
        self, queue: ClusterQueueState, replaced: Reservation | None, now: float
    ) -> list[tuple[float, Reservation]]:
        """Return the reservations of the tree of ``queue``, with the times until which they last at most."""
        ends = [
            (ends_at(member, reservation, now), reservation)
            for member in self._state.ledger.queues_below(queue.node.root)
            for reservation in member.reservations.values()
            if reservation is not replaced
        ]
        return sorted(ends, key=lambda end: (end[0], end[1].order))


def planned_start(state: State, key: Key) -> PlannedStart | None:
    """Return the planned start of a pending workload; None if it has none."""
    entry = state.ledger.entries.get(key)
    if entry is None or state.ledger.planned.get(entry.cluster_queue) is not entry:
        return None
    queue = state.ledger.cluster_queues[entry.cluster_queue]
    return PlannedStarts(state).of_queue(queue, state.ledger.now)


def ends_at(queue: ClusterQueueState, reservation: Reservation, now: float) -> float:
    """Return until when a workload with quota in ``queue`` runs at most, epoch seconds; infinite: no bound.

    One that is being evicted ends at any moment.
    """
    if reservation.evicted:
        return now
    since = now if reservation.admitted_at is None else reservation.admitted_at
    return queue.bound(reservation.workload).ends_at(since, now)
