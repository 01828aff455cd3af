"""What a cohort tree uses at a later time: what has not ended, and planned starts that have begun."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Final, NamedTuple

from quorate.api.configuration.planned_starts import PlannedStartRules
from quorate.api.meta import Key
from quorate.queueing.assignment import Assignment
from quorate.queueing.cluster_queue import ClusterQueueState, Reservation
from quorate.queueing.ledger import Ledger
from quorate.queueing.nodes.places import Places
from quorate.queueing.pending.entry import Entry
from quorate.queueing.pending.ordering import QueueOrder
from quorate.queueing.planning.bounds import LONGEST, LearnedBounds, Origin
from quorate.quota import tree
from quorate.quota.amount import FlavorResource, Usage
from quorate.quota.tree import Node

FEW_ENDS: Final = 64  # that change at once; of more all are sorted again
UsedAfter = dict[Node, dict[FlavorResource, int]]  # nodes below which nothing ends are missing
_CERTAINTY: Final[Sequence[Origin]] = ("Learned", "Default", "Declared")


class Rest(NamedTuple):
    """What must end before a start."""

    ended: int  # workloads
    origin: Origin  # of the least certain bound
    latest: float  # when all have ended, even if they run ``LONGEST`` times what was learned


class PlannedStart(NamedTuple):
    """When a pending workload starts at the latest, and the quota and places that are kept for it."""

    entry: Entry
    at: float  # epoch seconds; infinite: a workload without a bound must end first
    latest: float  # if work before it runs ``LONGEST`` times what was learned
    ends: float  # by its own bound, if it starts then
    assignment: Assignment
    origin: Origin  # of the least certain bound that it rests on
    ended: int  # workloads with quota of its flavors that end before
    replaced: Reservation | None = None  # the slice that it replaces

    def runs_at(self, at: float) -> bool:
        """Return True if the workload may run at a time, if it starts as planned."""
        return self.at <= at and (at < self.ends or math.isinf(self.ends))


class End(NamedTuple):
    """Until when a workload with quota runs at most."""

    at: float  # epoch seconds; infinite without a bound
    order: QueueOrder
    reservation: Reservation
    usage: dict[FlavorResource, int]  # of the reservation, and where it counts
    node: Node
    origin: Origin | None
    latest: float  # the same with ``LONGEST`` times its bound, if that was learned
    is_overdue: bool  # it has run longer than a bound that is not enforced
    is_known: bool  # otherwise it depends on the time now: of what is not admitted, or being evicted


def _end_of(ledger: Ledger, queue: ClusterQueueState, reservation: Reservation, now: float) -> End:
    """Return when a workload ends; one that is being evicted ends at any moment."""
    of = reservation.order, reservation, reservation.usage, queue.node
    if reservation.evicted or reservation.workload.metadata.uid in ledger.expected_evictions:
        return End(now, *of, "Declared", now, False, False)
    since = now if reservation.admitted_at is None else reservation.admitted_at
    bound = queue.bound(reservation.workload)
    is_overdue = not bound.is_enforced and since + bound.seconds < now
    is_known = reservation.admitted_at is not None
    at = bound.ends_at(since, now)
    latest = since + LONGEST * (at - since) if bound.origin == "Learned" else at
    return End(at, *of, bound.origin, latest, is_overdue, is_known)


def ends_at(ledger: Ledger, queue: ClusterQueueState, reservation: Reservation, now: float) -> float:
    """Return until when a reservation of ``queue`` lasts at most, epoch seconds; infinite if unknown."""
    return _end_of(ledger, queue, reservation, now).at


class _Ended:
    """The first of some ends, counted as ended: the sum of their usage at each node."""

    def __init__(self) -> None:
        self.number = 0
        self.usage: dict[Node, dict[FlavorResource, int]] = {}
        self.placed: list[tuple[int, Reservation]] = []  # with the index of the end

    def add(self, ends: Iterable[End], sign: int) -> None:
        """Count ``ends`` as ended (``sign`` 1), or as running (-1); a sum, as there may be thousands."""
        for end in ends:
            of_node = self.usage.setdefault(end.node, {})
            for pair, amount in end.usage.items():
                of_node[pair] = of_node.get(pair, 0) + sign * amount

    def count(self, sign: int) -> None:
        """Count the ended reservations (``sign`` 1), or leave them out (-1)."""
        change = tree.add_usage if sign > 0 else tree.remove_usage
        for node, usage in self.usage.items():
            change(node, usage)
        for index, reservation in self.placed:
            if index < self.number:
                reservation.places.count(sign)


class _EndsOfQueue(NamedTuple):
    """When the admitted workloads of one cluster queue end, and what these times were computed from.

    The times are computed again when the rules for planned starts or the learned bounds differ from these.
    """

    ends: dict[Key, End]
    rules: PlannedStartRules | None
    learned: LearnedBounds
    changes: int  # ``ClusterQueueState.reservation_changes``
    are_known: bool  # all of them


_NO_ENDS: Final = _EndsOfQueue({}, None, {}, -1, are_known=False)


def _position(end: End) -> tuple[float, QueueOrder]:
    return end.at, end.order


class Timeline:
    """The workloads with quota in a cohort tree, by the times until which they run at most."""

    def __init__(self, ledger: Ledger, root: Node) -> None:
        self._ledger = ledger
        self._root = root
        self.ends: list[End] = []  # the first end first
        self._times: list[float] = []  # of ``ends``
        self._moments: list[float] = []  # the same, each once
        self._of_queues: dict[ClusterQueueState, _EndsOfQueue] = {}
        self._ended = _Ended()
        self._usage_after: dict[float, UsedAfter] = {}  # by the last end that counts
        self._former_usage_after: dict[float, UsedAfter] = {}  # before the last update
        self._rests: dict[tuple[int, tuple[FlavorResource, ...]], Rest] = {}

    def update(self, now: float) -> None:
        """Follow the changes of reservations and bounds since the last call."""
        ledger, former = self._ledger, self._of_queues
        learned, leaving = ledger.bound_inputs.learned, ledger.expected_evictions
        may_skip = not (leaving or self.is_past(now))
        removed: list[End] = []
        added: list[End] = []
        self._of_queues = {}
        for queue in ledger.queues_below(self._root):
            of_queue = former.pop(queue, _NO_ENDS)
            rules, changes = queue.planned_start_rules, queue.reservation_changes
            are_same = of_queue.rules is rules and of_queue.learned is learned
            if may_skip and are_same and of_queue.changes == changes and of_queue.are_known:
                self._of_queues[queue] = of_queue
                continue
            ends: dict[Key, End] = {}
            for key, reservation in queue.reservations.items():
                end = of_queue.ends.get(key)
                if end is None or not (
                    are_same
                    and end.is_known
                    and end.at >= now
                    and end.reservation is reservation
                    and end.usage is reservation.usage
                    and end.order is reservation.order
                    and not (leaving and reservation.workload.metadata.uid in leaving)
                ):
                    end = _end_of(ledger, queue, reservation, now)
                    added.append(end)
                ends[key] = end
            removed += [end for key, end in of_queue.ends.items() if ends.get(key) is not end]
            are_known = all(end.is_known for end in ends.values())
            self._of_queues[queue] = _EndsOfQueue(ends, rules, learned, changes, are_known)
        for of_queue in former.values():
            removed += of_queue.ends.values()
        self._replace(removed, added)

    def _replace(self, removed: Sequence[End], added: Sequence[End]) -> None:
        """Replace ends, each of which costs a search as long as they are few."""
        ended = self._ended
        self._former_usage_after, self._usage_after = self._usage_after, {}
        self._rests.clear()
        if len(removed) + len(added) > FEW_ENDS:
            self._ended = ended = _Ended()
            ends = (end for of_queue in self._of_queues.values() for end in of_queue.ends.values())
            self.ends = sorted(ends, key=_position)
        else:
            for end in removed:
                index = bisect_left(self.ends, _position(end), key=_position)
                index = self.ends.index(end, index)
                del self.ends[index]
                if index < ended.number:
                    ended.add((end,), -1)
                    ended.number -= 1
            for end in added:
                index = bisect_left(self.ends, _position(end), key=_position)
                self.ends.insert(index, end)
                if index < ended.number:
                    ended.add((end,), 1)
                    ended.number += 1
        self._times = [end.at for end in self.ends]
        self._moments = list(dict.fromkeys(self._times))
        ended.placed = [
            (index, end.reservation) for index, end in enumerate(self.ends) if end.reservation.places.all
        ]

    def is_past(self, now: float) -> bool:
        """Return True if a workload should have ended before ``now``: it may run longer."""
        return bool(self._times) and self._times[0] < now

    def has_ended(self, at: float) -> bool:
        """Return True if something has ended at a time."""
        return bool(self._times) and self._times[0] <= at

    def rest(self, at: float, usage: Usage) -> Rest:
        """Return on what a start at a time rests that needs ``usage``."""
        number = bisect_right(self._times, at)
        key = number, tuple(usage)
        rest = self._rests.get(key)
        if rest is None:
            ends = [end for end in self.ends[:number] if not usage.keys().isdisjoint(end.usage)]
            origins = {end.origin for end in ends}
            least: Origin = next((origin for origin in _CERTAINTY if origin in origins), "Declared")
            latest = max([end.latest for end in ends], default=-math.inf)
            rest = self._rests[key] = Rest(len(ends), least, latest)
        return rest

    def passed(self, queue: ClusterQueueState, order: QueueOrder, since: float) -> list[Reservation]:
        """Return the reservations without a bound, of workloads after ``order``, made at ``since`` or later.

        Workloads of another queue in the tree count only if that queue borrows.
        """
        return [
            end.reservation
            for end in self.ends[bisect_left(self._times, math.inf) :]
            if end.order > order
            and end.reservation.reserved_at >= since
            and (end.node is queue.node or tree.borrows_any(end.node, dict.fromkeys(end.usage, 0)))
        ]

    def stretches(
        self, plans: Iterable[PlannedStart], windows: Sequence[float], bound_s: float, now: float
    ) -> Iterator[list[float]]:
        """Yield the moments at which a workload may start, in stretches in which more and more is free.

        Plans and windows take something when they begin, and count for a workload that would run into their
        start.  ``windows``: when they begin and end, in order.
        """
        breaks = {now, math.inf, *windows[bisect_right(windows, now) :]}
        for plan in plans:
            breaks.update(at for at in (plan.at, plan.ends, plan.at - bound_s) if now < at < math.inf)
        for begin, end in pairwise(sorted(breaks)):
            moments = self.moments(begin, end)
            if len(breaks) == 2:
                yield [begin, *moments]
            else:
                yield [begin]
                if moments:
                    yield moments
        yield [math.inf]

    def moments(self, after: float, before: float) -> list[float]:
        """Return the times between two times, excluded both, at which something ends, ascending."""
        return self._moments[bisect_right(self._moments, after) : bisect_left(self._moments, before)]

    def moment_before(self, at: float, now: float) -> float | None:
        """Return the last moment before ``at``, or ``now`` if it is later; None if nothing ends at ``at``."""
        index = bisect_left(self._moments, at)
        if index == len(self._moments) or self._moments[index] != at:
            return None
        return max(now, self._moments[index - 1]) if index else now

    def fits(self, at: float, node: Node, usage: Usage) -> bool:
        """Return True if ``usage`` fits at ``node`` once all has ended that ends by a time."""
        return tree.fits_while(node, usage, self.used_after(at))

    def used_after(self, at: float) -> UsedAfter:
        """Return what nodes use once all has ended that ends by a time; one object while that is equal."""
        number = self._set_number(at)
        last = self._times[number - 1] if number else -math.inf
        after = self._usage_after.get(last)
        if after is None:
            after, former = tree.usage_without(self._ended.usage), self._former_usage_after.get(last)
            after = self._usage_after[last] = after if former is None or former != after else former
        return after

    def _set_number(self, at: float) -> int:
        """Let those be ended that end by a time; return how many these are."""
        number, ended = bisect_right(self._times, at), self._ended
        if number != ended.number:
            ended.add(self.ends[ended.number : number], 1)
            ended.add(self.ends[number : ended.number], -1)
            ended.number = number
        return number

    @contextmanager
    def moved_to(
        self,
        at: float,
        queue: ClusterQueueState,
        plans: Iterable[PlannedStart],
        kept: Sequence[Reservation] = (),
    ) -> Iterator[None]:
        """Count the usage at the time ``at``, with the ``plans`` of ``queue`` that have begun by then.

        At an infinite time all running workloads have ended.  The reservations in ``kept`` count as if they
        had not ended.
        """
        number = self._set_number(at)
        running = [plan for plan in plans if plan.runs_at(at)]
        replaced = [plan.replaced for plan in running if plan.replaced is not None]
        if kept or replaced:
            ended = {end.reservation.key for end in self.ends[:number]}
            replaced = [reservation for reservation in replaced if reservation.key not in ended]
            kept = [reservation for reservation in kept if reservation.key in ended]
        usages = [(queue.node, plan.assignment.usage) for plan in running]
        places = [Places(self._ledger.topology, plan.assignment.placement.places()) for plan in running]
        for reservation in kept:
            usages.append((self._node(reservation), reservation.usage))
            places.append(reservation.places)
        self._ended.count(-1)
        self._count(replaced, -1)
        for node, usage in usages:
            tree.add_usage(node, usage)
        for place in places:
            place.count(1)
        try:
            yield
        finally:
            for place in places:
                place.count(-1)
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
