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
from collections.abc import Iterable, Iterator

import msgspec

from quorate.api.configuration.planned_starts import PlannedStartRules
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.queueing import conditions as c
from quorate.queueing.assignment import Assignment, AssignmentMode, KeptAssignment
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.decisions import Evict
from quorate.queueing.inadmissible_reasons import ReservedForEarlierWorkload
from quorate.queueing.limits import OVERDUE_S
from quorate.queueing.nodes.places import Place, Places, without_places
from quorate.queueing.pending.entry import Entry
from quorate.queueing.planning.announced_starts import AnnouncedStart, as_read_in
from quorate.queueing.planning.bounds import LearnedBounds
from quorate.queueing.scheduling.announcing import announced_start, overrunning, slack_left_s
from quorate.queueing.scheduling.later_fits import may_compete, reaches
from quorate.queueing.scheduling.nomination import Nomination, place_again
from quorate.queueing.scheduling.reserved_windows import ReservedWindows
from quorate.queueing.scheduling.start_search import Plans, StartSearch
from quorate.queueing.scheduling.timeline import PlannedStart, Timeline, UsedAfter
from quorate.queueing.state import State
from quorate.quota import tree
from quorate.quota.tree import Node


class _Made(msgspec.Struct):
    """The plans of a queue, and what they were made from."""

    changes: int  # see ``Ledger.changes``
    entries: list[Entry]  # in queueing order
    plans: Plans
    until: float  # the first planned start: if it has passed, plans are made again
    generation: int  # of the queue, see ``Ledger.generation``
    are_announced: bool = False
    used: UsedAfter | None = None  # at the only planned start, if that is known
    # What the bound of the only planned workload was of
    bound_by: tuple[Workload, PlannedStartRules, LearnedBounds] | None = None


class PlannedStarts:
    """The planned starts in the queues that backfill; plans are made again when their tree has changed.

    With ``announces`` the announcements of the plans are also recorded in the ledger.
    """

    def __init__(self, state: State, *, announces: bool = False) -> None:
        self._state = state
        self._announces = announces
        self._changed: dict[Key, AnnouncedStart | None] = {}  # what changed since the last review
        self._plans: dict[str, _Made] = {}  # by queue
        self.windows = ReservedWindows(state.ledger)
        self._search = StartSearch(state, self.windows)
        self._fits = self._search.fits
        self._timelines: dict[Node, tuple[int, Timeline]] = {}  # by root
        self._overdue: dict[str, float] = {}  # by queue: when its first planned start is late
        self._overdue_at = math.inf  # the first of these times, or before it
        self._due: dict[str, float] = {}  # by queue: when its workloads are to be evaluated again

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
        return self._plans[name].plans if name in self._plans else ()

    def offer(self, queue: ClusterQueueState, entry: Entry, now: float) -> None:
        """Plan the start of ``entry``, which does not fit, unless enough workloads before it have plans.

        Other workloads of its shape, which are not evaluated themselves, do not fit either.
        """
        rules, number = queue.planned_start_rules, queue.planned_workloads
        if number == 0:
            return
        if number == 1 and (plans := self.of_queue(queue, now)):
            planned = plans[0].entry
            if planned is entry or queue.pending.precedes(planned, entry):
                return
        self._offer(queue, entry, now)
        if number > 1 or rules.reserve_after_s:
            for other in queue.pending.next_of_shape(entry, number):
                self._offer(queue, other, now)

    def _offer(self, queue: ClusterQueueState, entry: Entry, now: float) -> None:
        ledger, rules = self._state.ledger, queue.planned_start_rules
        former = [plan.entry for plan in self.of_queue(queue, now)]  # all of which would fit an empty cluster
        if entry in former:
            return
        is_full = len(former) >= queue.planned_workloads
        turn = queue.pending.turn
        if is_full and turn(former[-1]) <= turn(entry):
            return
        due = c.queued_since(entry.workload) + rules.reserve_after_s
        if due > now:
            self._due[queue.name] = min(due, self._due.get(queue.name, math.inf))
            return
        ledger.set_planned(queue, sorted((*former, entry), key=turn)[: queue.planned_workloads])
        made = self._made(queue, now)  # announced only if it stays
        planned = [] if made is None else [plan.entry for plan in made.plans]
        if entry not in planned:  # it would not fit an empty cluster, or not beside earlier plans
            planned = former
        elif len(planned) <= len(former) and len(planned) < queue.planned_workloads:
            ledger.schedule_requeue(queue.node)  # one has lost its plan beside this: others may get one
        ledger.set_planned(queue, planned)
        self.of_queue(queue, now)

    def offer_refused(self, heads: Iterable[Nomination], now: float) -> set[Key]:
        """Plan the starts of the heads that nothing lets start, in queues that backfill; return these heads.

        All heads keep to the plans.
        """
        offered: set[Key] = set()
        for head in heads:
            assignment = head.assignment if head.queue.backfills else None
            if assignment is not None and assignment.mode is not AssignmentMode.FIT and not head.targets:
                self._search.refused = head.entry
                self.offer(head.queue, head.entry, now)
                offered.add(head.entry.key)
        self._search.refused = None
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

    def review(self, roots: Iterable[Node], now: float) -> tuple[Key, ...]:
        """Return the pending workloads with another plan or explanation than at the last call.

        Plans are made again in the trees of ``roots``, and for late plans: the workloads before them run
        longer than their bounds.
        """
        ledger = self._state.ledger
        for name in self._late(now):
            queue = ledger.cluster_queues.get(name)
            if queue is None or not self.of_queue(queue, now):
                del self._overdue[name]
        if self._overdue_at <= now:
            self._overdue_at = min(self._overdue.values(), default=math.inf)
        for root in roots if ledger.planned else ():
            for queue in ledger.queues_with_pending(root):
                if queue.name in ledger.planned:
                    self.of_queue(queue, now)
        self._forget_unplanned()
        for key in ledger.take_unplanned():
            self._changed.setdefault(key, ledger.announced.pop(key))
            ledger.planned_assignments.pop(key, None)
        changed, self._changed = self._changed, {}
        return tuple(key for key, former in changed.items() if _differs(former, ledger.announced.get(key)))

    def _forget_unplanned(self) -> None:
        """Drop plans, times and fits of queues and trees that have no planned workloads any more."""
        ledger, planned = self._state.ledger, self._state.ledger.planned
        if len(self._plans) > len(planned):
            self._plans = {name: made for name, made in self._plans.items() if name in planned}
            self._overdue = {name: due for name, due in self._overdue.items() if name in planned}
            self._fits.keep_queues(planned)
        if len(self._timelines) > len(planned):
            roots = {ledger.cluster_queues[name].node.root for name in planned}
            self._timelines = {root: timeline for root, timeline in self._timelines.items() if root in roots}
        if not ledger.windows:
            self.windows.forget()

    # When they start.

    def of_queue(self, queue: ClusterQueueState, now: float) -> Plans:
        """Return the planned starts in a queue, in queueing order."""
        made = self._made(queue, now)
        if made is None:
            return ()
        if self._announces and not made.are_announced:
            made.are_announced = True
            self._announce(queue, made.plans, now)
        return made.plans

    def _made(self, queue: ClusterQueueState, now: float) -> _Made | None:
        """Return the planned starts in a queue, which need not be announced; None if nothing is planned."""
        ledger, root = self._state.ledger, queue.node.root
        entries = ledger.planned.get(queue.name)
        if entries is None:
            return None
        if queue.planned_workloads > 1:
            entries = sorted(entries, key=queue.pending.turn)
        changes, made = ledger.changes(root), self._plans.get(queue.name)
        if made is None or made.changes != changes or made.entries != entries or made.until < now:
            used = None if made is None else self._still_used(queue, entries, made, now)
            if made is not None and used is not None:
                made.changes, made.used = changes, used
                return made
            timeline = self.timeline(queue, now)
            plans, generation = self._search.plans(timeline, queue, entries, now), ledger.generation(queue)
            until = min((plan.at for plan in plans), default=math.inf)
            made = self._plans[queue.name] = _Made(changes, entries, plans, until, generation)
            later = (plan.at + OVERDUE_S for plan in plans if plan.at > now)
            self._overdue[queue.name] = min(later, default=math.inf)
            self._overdue_at = min(self._overdue_at, self._overdue[queue.name])
        return made

    def _still_used(
        self, queue: ClusterQueueState, entries: list[Entry], made: _Made, now: float
    ) -> UsedAfter | None:
        """Return the usage at the only planned start of a queue, if that start is the earliest one as before.

        Return None if only a search can tell.
        """
        ledger = self._state.ledger
        if queue.planned_workloads > 1 or made.entries != entries or not made.plans or ledger.windows:
            return None
        plan = made.plans[0]
        entry, at, usage = plan.entry, plan.at, plan.assignment.usage
        bound_by = entry.workload, queue.planned_start_rules, ledger.bound_inputs.learned
        if (
            not now < at < math.inf
            or (made.bound_by != bound_by and plan.ends != at + queue.bound(entry.workload).seconds)
            or made.generation != ledger.generation(queue)
            or (self._announces and entry.key not in ledger.announced)
            or self._fits.known_assignment(queue, entry) is not plan.assignment
        ):
            return None
        made.bound_by = bound_by
        timeline, node = self.timeline(queue, now), queue.node
        before = timeline.moment_before(at, now)
        ended, origin, latest = timeline.rest(at, usage)
        if before is None or (ended, origin, max(at, latest)) != (plan.ended, plan.origin, plan.latest):
            return None
        used = timeline.used_after(at)
        if (used is not made.used or node not in used) and not tree.fits_while(node, usage, used):
            return None
        if before == now and entry is self._search.refused and not timeline.has_ended(now):
            return used
        return None if timeline.fits(before, node, usage) else used

    def timeline(self, queue: ClusterQueueState, now: float) -> Timeline:
        """Return what ends when in the tree of a queue."""
        ledger, root = self._state.ledger, queue.node.root
        changes, cached = ledger.changes(root), self._timelines.get(root)
        timeline = Timeline(ledger, root) if cached is None else cached[1]
        if cached is None or cached[0] != changes or timeline.is_past(now):
            timeline.update(now)
            self._timelines[root] = changes, timeline
        return timeline

    def _announce(self, queue: ClusterQueueState, plans: Plans, now: float) -> None:
        """Record in the ledger what is told of the plans of a queue, and what they use."""
        ledger, timeline = self._state.ledger, self.timeline(queue, now)
        for number, plan in enumerate(plans):
            key = plan.entry.key
            former = ledger.announced.get(key)
            if former is not None and plan.at > former.planned_at:
                self._due[queue.name] = now  # what was held back may start before the new time
            self._changed.setdefault(key, former)
            ledger.announced[key] = announced_start(ledger, queue, plan, plans[:number], timeline, now)
            ledger.planned_assignments[key] = KeptAssignment.of(plan.assignment, queue, self._state.flavors)

    # What may start before them.

    def precede(self, nomination: Nomination, assignment: Assignment) -> bool:
        """Return True if a workload before a nominated one, which this may delay, has a planned start."""
        entry, queue, planned = nomination.entry, nomination.queue, self._state.ledger.planned
        return any(
            _precedes(other, planned[other.name][0], queue, entry)
            for other in self._concerned(queue, assignment)
        )

    def refusal(
        self, nomination: Nomination, assignment: Assignment, now: float
    ) -> ReservedForEarlierWorkload | None:
        """Return the plan that a nomination would delay, with what is missing beside it.

        A workload of another queue delays a plan only if it borrows: what its own queue has is its own.
        """
        entry, queue = nomination.entry, nomination.queue
        for other, plan, plans in self._reached(nomination, assignment, now):
            timeline = self.timeline(other, now)
            missing = self._fits.missing(plan, timeline, other, plans, queue, entry, assignment)
            if missing is not None:
                return missing
        return None

    def placed_elsewhere(
        self, nomination: Nomination, assignment: Assignment, now: float
    ) -> Assignment | None:
        """Return an assignment with places that no plan needs; None if there are not enough of them."""
        if nomination.targets or not assignment.placement.pod_sets:
            return None
        ledger, needed = self._state.ledger, list[Place]()
        replaced = nomination.queue.reservations.get(nomination.entry.shape.replaces)
        for other, plan, plans in self._reached(nomination, assignment, now):
            of_plan = self._fits.needed_places(plan, self.timeline(other, now), other, plans, replaced)
            needed += without_places(of_plan, needed)
        places = Places(ledger.topology, needed)
        places.count(1)
        placed, _ = place_again(self._state, nomination, assignment)
        places.count(-1)
        return placed if placed.mode is AssignmentMode.FIT else None

    def _reached(
        self, nomination: Nomination, assignment: Assignment, now: float
    ) -> Iterator[tuple[ClusterQueueState, PlannedStart, Plans]]:
        """Yield the plans that a nomination may delay, with their queue and those that count beside them."""
        entry, queue = nomination.entry, nomination.queue
        ends = now + queue.bound(entry.workload).seconds
        for other in self._concerned(queue, assignment):
            of_other = self.of_queue(other, now)
            plans = tuple(plan for plan in of_other if _precedes(other, plan.entry, queue, entry))
            latest = {plan.entry.key: plan.latest for plan in of_other}
            until = ends - slack_left_s(self._state.ledger, other, latest)
            for plan in plans:
                if reaches(until, plan) and may_compete(plan, assignment):
                    yield other, plan, plans

    def _concerned(self, queue: ClusterQueueState, assignment: Assignment) -> Iterator[ClusterQueueState]:
        """Yield the queues with plans that an assignment in ``queue`` may delay."""
        ledger = self._state.ledger
        if queue.name in ledger.planned:
            yield queue
        if assignment.borrowing_level:
            for other in ledger.queues_with_pending(queue.node.root):
                if other is not queue and other.name in ledger.planned:
                    yield other


def _precedes(planning: ClusterQueueState, planned: Entry, queue: ClusterQueueState, entry: Entry) -> bool:
    """Return True if a planned workload comes before ``entry``; consumed usage counts within one queue."""
    if planning is queue:
        return queue.pending.turn(planned) < queue.pending.turn(entry)
    return planning.pending.order(planned) < queue.pending.order(entry)


def _differs(former: AnnouncedStart | None, announced: AnnouncedStart | None) -> bool:
    """Return True if a planned start is announced in other words."""
    if former is None or announced is None or former == announced:
        return (former is None) is not (announced is None)
    return (former.reason, former.message) != (announced.reason, announced.message)
