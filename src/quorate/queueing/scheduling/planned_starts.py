"""Planned starts: quota and places for the first workloads that wait in a queue, and what may pass them.

The first workload of a queue that does not fit gets a plan: the earliest time at which enough is free, by the
bounds of the workloads that hold quota.  A later workload is admitted if it ends before that time, by its own
bound, or uses nothing that the plan needs (EASY backfilling: Lifka, The ANL/IBM SP Scheduling System, 1995).
With ``Conservative`` the first ones get plans, each beside those before it (Mu'alem and Feitelson,
Utilization, Predictability, Workloads, and User Runtime Estimates in Scheduling the IBM SP2, 2001).

A workload without a bound frees nothing by a known time: if the plan needs it to end, nothing that the plan
needs is given to workloads without a bound.

A plan is a function of the state and the time, so a new process makes the same plans.
"""

import math
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import Final

from quorate.api.meta import Key
from quorate.queueing import conditions as c
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.decisions import Evict
from quorate.queueing.inadmissible_reasons import ReservedForEarlierWorkload
from quorate.queueing.limits import OVERDUE_S
from quorate.queueing.pending.entry import Entry
from quorate.queueing.planning.announced_starts import AnnouncedStart, as_read_in
from quorate.queueing.planning.bounds import Origin
from quorate.queueing.scheduling.announcing import announced_start, overrunning
from quorate.queueing.scheduling.flavor_assigner import Assignment, AssignmentMode
from quorate.queueing.scheduling.nomination import Nomination, Supposition, evaluate_supposing
from quorate.queueing.scheduling.reserved_windows import ReservedWindows
from quorate.queueing.scheduling.reserving import shortages_at
from quorate.queueing.scheduling.timeline import End, PlannedStart, Timeline
from quorate.queueing.state import State
from quorate.queueing.topology.placing import fits
from quorate.quota.tree import Node

_WITHOUT_PREEMPTION: Final = Supposition(preempts=False)  # of what has ended by then
_CERTAINTY: Final[Sequence[Origin]] = ("Learned", "Default", "Declared")

Plans = tuple[PlannedStart, ...]  # of one queue, in queueing order
_MadeFrom = tuple[int, int, tuple[Entry, ...]]


class PlannedStarts:
    """The planned starts in the queues that backfill; each is computed again when its tree has changed.

    With ``announces`` it also records in the ledger what is told of them.
    """

    def __init__(self, state: State, *, announces: bool = False) -> None:
        self._state = state
        self._announces = announces
        self._changed: dict[Key, AnnouncedStart | None] = {}  # what changed since the last review
        self._plans: dict[str, tuple[_MadeFrom, Plans]] = {}  # by queue
        self._windows = ReservedWindows(state.ledger)
        self._timelines: dict[Node, tuple[tuple[int, int], Timeline]] = {}  # by root
        self._overdue: dict[str, float] = {}  # by queue: when its first planned start is late
        self._overdue_at = math.inf  # the first of these times, or before it
        self._refused: Entry | None = None  # a head that nothing lets start now, while its plan is made
        self._due: dict[str, float] = {}  # by queue: when another workload has waited ``reserveAfter``

    # Which workloads get a planned start.

    def wake(self, now: float) -> None:
        """Try again what has waited long enough for a planned start, or what a plan kept from starting."""
        ledger = self._state.ledger
        for name in [name for name, due in self._due.items() if due <= now]:
            del self._due[name]
            if name in ledger.cluster_queues:
                ledger.schedule_requeue(ledger.cluster_queues[name].node)
        for key in ledger.take_unevaluated():
            entry = ledger.entries.get(key)
            queue = None if entry is None else ledger.cluster_queues.get(entry.cluster_queue)
            if entry is not None and queue is not None:
                self.offer(queue, entry, now)

    def next_at(self) -> float | None:
        """Return when a workload has waited long enough, or a planned start is due; None: never."""
        at = min(self._overdue_at, *self._due.values(), math.inf)
        return at if at < math.inf else None

    def _known(self, name: str) -> Plans:
        return self._plans[name][1] if name in self._plans else ()

    def offer(self, queue: ClusterQueueState, entry: Entry, now: float) -> None:
        """Plan the start of ``entry``, which does not fit, unless enough workloads before it have plans.

        Other workloads of its shape, which are not evaluated themselves, do not fit either.
        """
        rules = queue.planned_start_rules
        if rules.planned_workloads == 0:
            return
        offered = [entry]
        if rules.planned_workloads > 1 or rules.reserve_after_s:
            offered += queue.pending.next_of_shape(entry, rules.planned_workloads)
        for each in offered:
            self._offer(queue, each, now)

    def _offer(self, queue: ClusterQueueState, entry: Entry, now: float) -> None:
        ledger, rules = self._state.ledger, queue.planned_start_rules
        former = [plan.entry for plan in self.of_queue(queue, now)]  # all of which would fit an empty cluster
        is_full = len(former) >= rules.planned_workloads
        order = queue.pending.order
        if entry in former or (is_full and order(former[-1]) <= order(entry)):
            return
        due = c.queued_since(entry.workload) + rules.reserve_after_s
        if due > now:
            self._due[queue.name] = min(due, self._due.get(queue.name, math.inf))
            return
        ledger.planned[queue.name] = sorted((*former, entry), key=order)[: rules.planned_workloads]
        planned = [plan.entry for plan in self.of_queue(queue, now)]
        if entry not in planned:  # it would not fit an empty cluster, or not beside earlier plans
            planned = former
        elif len(planned) <= len(former) and len(planned) < rules.planned_workloads:
            ledger.schedule_requeue(queue.node)  # one has lost its plan beside this: others may get one
        if planned:
            ledger.planned[queue.name] = planned
        else:
            del ledger.planned[queue.name]

    def offer_refused(self, heads: Iterable[Nomination], now: float) -> set[Key]:
        """Plan the starts of the heads that nothing lets start, in queues that backfill; return these heads.

        All heads keep to the plans.
        """
        offered: set[Key] = set()
        for head in heads:
            assignment = head.assignment if head.queue.backfills else None
            if assignment is not None and assignment.mode is not AssignmentMode.FIT and not head.targets:
                self._refused = head.entry
                self.offer(head.queue, head.entry, now)
                offered.add(head.entry.key)
        self._refused = None
        return offered

    def _late(self, now: float) -> list[str]:
        """Return the queues of which a planned start has passed."""
        if self._overdue_at > now:
            return []
        return [name for name, due in self._overdue.items() if due <= now]

    def evict_overruns(self, now: float) -> Iterator[Evict]:
        """Evict what keeps a planned workload waiting that it passed, if its queue says ``onOverrun: Evict``.

        It runs longer than its bound, which was learned or is a default that is not enforced.
        """
        ledger = self._state.ledger
        for name in self._late(now):
            if name not in ledger.planned:
                continue
            queue = ledger.cluster_queues[name]
            if queue.planned_start_rules.on_overrun != "Evict":
                continue
            for plan in self._known(name):
                if plan.at + OVERDUE_S > now or plan.entry not in ledger.planned[name]:
                    continue
                order = queue.pending.order(plan.entry)
                for reservation in overrunning(plan, self.timeline(queue, now)):
                    workload = reservation.workload
                    if reservation.order > order and reservation.is_readable:
                        ledger.expected_evictions.add(workload.metadata.uid)
                        ledger.schedule_requeue(queue.node)
                        metadata = workload.metadata
                        yield Evict(
                            metadata.key,
                            metadata.uid,
                            metadata.resource_version,
                            c.BOUND_OVERRUN,
                            "It runs longer than expected, and "
                            f"{as_read_in(metadata.namespace, plan.entry.key)} waits for its planned start",
                        )

    def review(self, roots: Container[Node], now: float) -> tuple[Key, ...]:
        """Return the pending workloads of which something else is to be told than before the last call.

        Plans are made again in the trees of ``roots``, and those that are late: what they wait for runs
        longer than its bound.
        """
        ledger = self._state.ledger
        for name in self._late(now):
            queue, known = ledger.cluster_queues.get(name), self._known(name)
            plans = () if queue is None else self.of_queue(queue, now)
            if queue is None or not plans:
                del self._overdue[name]
            elif [plan.at for plan in plans] != [plan.at for plan in known]:
                ledger.schedule_requeue(queue.node)  # what was held back may start before the new time
        if self._overdue_at <= now:
            self._overdue_at = min(self._overdue.values(), default=math.inf)
        for name in ledger.planned:
            queue = ledger.cluster_queues[name]
            if queue.node.root in roots:
                self.of_queue(queue, now)
        if len(ledger.announced) > sum(map(len, ledger.planned.values())):
            planned = {entry.key for entries in ledger.planned.values() for entry in entries}
            for key in ledger.announced.keys() - planned:
                self._changed.setdefault(key, ledger.announced.pop(key))
        changed, self._changed = self._changed, {}
        return tuple(key for key, former in changed.items() if _differs(former, ledger.announced.get(key)))

    # When they start.

    def of_queue(self, queue: ClusterQueueState, now: float) -> Plans:
        """Return the planned starts in a queue, in queueing order."""
        ledger, root = self._state.ledger, queue.node.root
        entries = ledger.planned.get(queue.name)
        if entries is None:
            return ()
        entries = sorted(entries, key=queue.pending.order)
        made_from = ledger.version(root), ledger.reservation_changes(root), tuple(entries)
        known = self._plans.get(queue.name)
        if known is None or known[0] != made_from or any(plan.at < now for plan in known[1]):
            known = self._plans[queue.name] = made_from, self._plan_all(queue, entries, now)
            later = (plan.at + OVERDUE_S for plan in known[1] if plan.at > now)
            self._overdue[queue.name] = min(later, default=math.inf)
            self._overdue_at = min(self._overdue_at, self._overdue[queue.name])
        return known[1]

    def timeline(self, queue: ClusterQueueState, now: float) -> Timeline:
        """Return what ends when in the tree of a queue."""
        ledger, root = self._state.ledger, queue.node.root
        made_from = ledger.version(root), ledger.reservation_changes(root)
        known = self._timelines.get(root)
        if known is None or known[0] != made_from or known[1].is_past(now):
            known = self._timelines[root] = made_from, Timeline(ledger, queue, now)
        return known[1]

    def _plan_all(self, queue: ClusterQueueState, entries: Sequence[Entry], now: float) -> Plans:
        """Return a plan for each of ``entries`` that can have one, beside those before it.

        What has ended early lets a workload start earlier than announced, but not at the cost of a later one.
        """
        ledger, timeline, plans = self._state.ledger, self.timeline(queue, now), list[PlannedStart]()
        for number, entry in enumerate(entries):
            later = self._as_announced(timeline, queue, entries[number + 1 :], plans, now)
            plan = self._plan(timeline, queue, entry, (*plans, *later), now)
            announced = ledger.announced.get(entry.key)
            if later and (plan is None or (announced is not None and plan.at > announced.planned_at)):
                plan = self._plan(timeline, queue, entry, plans, now)
            if plan is None:
                continue
            if self._announces:
                self._announce(entry.key, announced_start(ledger, queue, plan, plans, timeline, now))
            plans.append(plan)
        return tuple(plans)

    def _as_announced(
        self,
        timeline: Timeline,
        queue: ClusterQueueState,
        entries: Iterable[Entry],
        earlier: Sequence[PlannedStart],
        now: float,
    ) -> Plans:
        """Return the starts of ``entries`` as they are announced, if these can be kept beside ``earlier``."""
        plans = list(earlier)
        for entry in entries:
            announced = self._state.ledger.announced.get(entry.key)
            if announced is None or not now <= announced.planned_at < math.inf:
                continue
            at = announced.planned_at
            assignment = self._assignment_at(at, timeline, queue, entry, plans)
            if assignment is not None:
                plans.append(self._planned_start(timeline, queue, entry, at, assignment))
        return tuple(plans[len(earlier) :])

    def _announce(self, key: Key, announced: AnnouncedStart) -> None:
        by_workload = self._state.ledger.announced
        self._changed.setdefault(key, by_workload.get(key))
        by_workload[key] = announced

    def _plan(
        self,
        timeline: Timeline,
        queue: ClusterQueueState,
        entry: Entry,
        others: Sequence[PlannedStart],
        now: float,
    ) -> PlannedStart | None:
        """Return the earliest start of ``entry`` beside ``others``; None if it would never fit."""
        bound_s = queue.bound(entry.workload).seconds
        announced = self._state.ledger.announced.get(entry.key)
        starts_later = entry is self._refused and not timeline.ended(now)
        former = -math.inf if announced is None else announced.planned_at
        windows = self._windows.breaks(queue.node.root, bound_s)
        for moments in _stretches(timeline, others, windows, bound_s, now):
            # More is free at each moment than at those before it.
            least, most = int(moments[0] == now and starts_later), len(moments)
            best: Assignment | None = None
            likely = bisect_left(moments, former)  # mostly a plan stays as it was
            for probe in (likely, likely - 1, most - 1):
                if least <= probe < most:
                    assignment = self._assignment_at(moments[probe], timeline, queue, entry, others)
                    least, most, best = _narrowed(least, most, best, probe, assignment)
            while best is not None and least < most:
                middle = (least + most) // 2
                assignment = self._assignment_at(moments[middle], timeline, queue, entry, others)
                least, most, best = _narrowed(least, most, best, middle, assignment)
            if best is not None:
                return self._planned_start(timeline, queue, entry, moments[most], best)
        return None

    def _planned_start(
        self,
        timeline: Timeline,
        queue: ClusterQueueState,
        entry: Entry,
        at: float,
        assignment: Assignment,
    ) -> PlannedStart:
        ended = [end for end in timeline.ended(at) if end.reservation.usage.keys() & assignment.usage.keys()]
        replaced = self._state.ledger.replaced_reservation(entry.workload, queue)
        ends = at + queue.bound(entry.workload).seconds
        return PlannedStart(entry, at, ends, assignment, _origin(ended), len(ended), replaced)

    def _assignment_at(
        self,
        at: float,
        timeline: Timeline,
        queue: ClusterQueueState,
        entry: Entry,
        others: Sequence[PlannedStart],
    ) -> Assignment | None:
        """Return what ``entry`` would use if it starts at a time; None if it does not fit then."""
        ledger = self._state.ledger
        counts = [pod_set.count for pod_set in entry.shape.pod_sets]
        replaced = ledger.replaced_reservation(entry.workload, queue)
        with timeline.moved_to(at, queue, others, replaced):
            assignment, _ = evaluate_supposing(self._state, queue, entry, _WITHOUT_PREEMPTION, counts)
        if assignment.mode is not AssignmentMode.FIT:
            return None
        if ledger.windows and at < math.inf and self._windows.refusal_at(queue, entry, assignment, at):
            return None
        ends = at + queue.bound(entry.workload).seconds
        for plan in others:
            if (
                at < plan.at
                and _reaches(ends, plan)
                and self._missing(plan, timeline, queue, others, queue, entry, assignment) is not None
            ):
                return None
        return assignment

    # What may start before them.

    def precede(self, nomination: Nomination, assignment: Assignment) -> bool:
        """Return True if a workload before a nominated one, which this may delay, has a planned start."""
        order = nomination.queue.pending.order(nomination.entry)
        return any(
            queue.pending.order(self._state.ledger.planned[queue.name][0]) < order
            for queue in self._concerned(nomination.queue, assignment)
        )

    def refusal(
        self, nomination: Nomination, assignment: Assignment, now: float
    ) -> ReservedForEarlierWorkload | None:
        """Return the plan that a nomination would delay, with what is missing beside it.

        A workload of another queue delays a plan only if it borrows: what its own queue has is its own.
        """
        entry, queue = nomination.entry, nomination.queue
        ends = now + queue.bound(entry.workload).seconds
        for other in self._concerned(queue, assignment):
            order_of, order = other.pending.order, queue.pending.order(entry)
            plans = [plan for plan in self.of_queue(other, now) if order_of(plan.entry) < order]
            for plan in plans:
                if not _reaches(ends, plan) or not _may_compete(plan, assignment):
                    continue
                timeline = self.timeline(other, now)
                missing = self._missing(plan, timeline, other, plans, queue, entry, assignment)
                if missing is not None:
                    return missing
        return None

    def _concerned(self, queue: ClusterQueueState, assignment: Assignment) -> Iterator[ClusterQueueState]:
        """Yield the queues with plans that an assignment in ``queue`` may delay."""
        ledger = self._state.ledger
        if queue.name in ledger.planned:
            yield queue
        if assignment.borrowing_level:
            root = queue.node.root
            for name in ledger.planned:
                other = ledger.cluster_queues[name]
                if other is not queue and other.node.root is root:
                    yield other

    def _missing(
        self,
        plan: PlannedStart,
        timeline: Timeline,
        planning: ClusterQueueState,
        plans: Iterable[PlannedStart],
        queue: ClusterQueueState,
        entry: Entry,
        assignment: Assignment,
    ) -> ReservedForEarlierWorkload | None:
        """Return what ``entry`` of ``queue`` lacks at a planned start, beside ``plans`` of ``planning``."""
        ledger = self._state.ledger
        replaced = ledger.replaced_reservation(entry.workload, queue)
        with (
            timeline.moved_to(plan.at, planning, plans, replaced),
            nullcontext() if replaced is None else ledger.without_replaced_slice(replaced),
        ):
            shortages = shortages_at(queue.node, assignment.usage)
            if shortages or not fits(ledger.topology, assignment.placement):
                at = plan.at if math.isfinite(plan.at) else None
                return ReservedForEarlierWorkload(plan.entry.key, at, shortages)
        return None


def _stretches(
    timeline: Timeline,
    others: Iterable[PlannedStart],
    windows: Iterable[float],
    bound_s: float,
    now: float,
) -> Iterator[list[float]]:
    """Yield the moments at which a workload may start, in stretches in which more and more is free.

    Other plans and windows take something when they begin, and count for a workload that would run into their
    start.
    """
    breaks = {now, math.inf, *(at for at in windows if now < at < math.inf)}
    for plan in others:
        breaks.update(at for at in (plan.at, plan.ends, plan.at - bound_s) if now < at < math.inf)
    for begin, end in pairwise(sorted(breaks)):
        moments = timeline.moments(begin, end)
        if len(breaks) == 2:
            yield [begin, *moments]
        else:
            yield [begin]
            if moments:
                yield moments
    yield [math.inf]


def _narrowed(
    least: int, most: int, best: Assignment | None, probe: int, assignment: Assignment | None
) -> tuple[int, int, Assignment | None]:
    """Return the bounds of a search, and what fits at the upper one, after a probe between them."""
    return (probe + 1, most, best) if assignment is None else (least, probe, assignment)


def _reaches(ends: float, plan: PlannedStart) -> bool:
    """Return True if a workload that runs until ``ends`` at most may still run at a planned start."""
    return ends > plan.at or math.isinf(ends)


def _may_compete(plan: PlannedStart, assignment: Assignment) -> bool:
    """Return False if a plan and an assignment have neither a flavor's resource nor places in common."""
    planned = plan.assignment
    return bool(
        planned.usage.keys() & assignment.usage.keys()
        or (planned.placement.pod_sets and assignment.placement.pod_sets)
    )


def _origin(ended: Iterable[End]) -> Origin:
    """Return the origin of the least certain bound."""
    origins = {end.origin for end in ended}
    return next((origin for origin in _CERTAINTY if origin in origins), "Declared")


def _differs(former: AnnouncedStart | None, announced: AnnouncedStart | None) -> bool:
    """Return True if a planned start is announced in other words."""
    if former is None or announced is None:
        return former is not announced
    return (former.reason, former.message) != (announced.reason, announced.message)


def planned_start(state: State, key: Key) -> PlannedStart | None:
    """Return the planned start of a pending workload; None if it has none."""
    entry = state.ledger.entries.get(key)
    if entry is None or entry not in state.ledger.planned.get(entry.cluster_queue, ()):
        return None
    queue = state.ledger.cluster_queues[entry.cluster_queue]
    plans = PlannedStarts(state).of_queue(queue, state.ledger.now)
    return next((plan for plan in plans if plan.entry is entry), None)
