"""Whether a pending workload fits at a later time, beside planned starts and windows.

The usage of a workload does not depend on the time if each of its resources can come from one flavor only and
its pods need no places.  Then its amounts are compared with the free amounts, without a search for flavors.
"""

import math
from collections.abc import Container, Iterable, Sequence
from contextlib import nullcontext
from typing import Final, NamedTuple

from quorate.queueing.assignment import Assignment, AssignmentMode, KeptAssignment
from quorate.queueing.cluster_queue import ClusterQueueState, Reservation
from quorate.queueing.inadmissible_reasons import ReservedForEarlierWorkload
from quorate.queueing.nodes.places import Place, without_places
from quorate.queueing.pending.entry import Entry
from quorate.queueing.pending.shape import Shape
from quorate.queueing.scheduling.nomination import Supposition, evaluate_supposing
from quorate.queueing.scheduling.pod_sets_to_place import may_need_places
from quorate.queueing.scheduling.reserved_windows import ReservedWindows
from quorate.queueing.scheduling.reserving import shortages_at
from quorate.queueing.scheduling.timeline import PlannedStart, Timeline
from quorate.queueing.state import State
from quorate.queueing.topology.placing import fits
from quorate.queueing.workload_slices import replaced_slice
from quorate.quota.amount import FlavorResource, Usage

_WITHOUT_PREEMPTION: Final = Supposition(preempts=False)  # of what has ended by then


class PendingStart(NamedTuple):
    """A pending workload of which the start is searched for, beside the planned starts of its queue."""

    timeline: Timeline
    queue: ClusterQueueState
    entry: Entry
    others: Sequence[PlannedStart]


class LaterFits:
    """Evaluates workloads at later times; an assignment is kept as long as it depends on quota alone."""

    def __init__(self, state: State, windows: ReservedWindows) -> None:
        self._state = state
        self._windows = windows
        self._known: dict[str, dict[Shape, KeptAssignment]] = {}  # by queue
        self._beside_windows = True
        self.refused_until = -math.inf  # since ``begin``: at no earlier time a window lets a workload start

    def begin(self, *, beside_windows: bool) -> None:
        """Begin a search for the start of one workload."""
        self._beside_windows, self.refused_until = beside_windows, -math.inf

    def keep(self, queue: str, entries: Iterable[Entry]) -> None:
        """Drop the assignments of a queue for all shapes but the shapes of ``entries``."""
        if (of_queue := self._known.get(queue)) is not None:
            self._known[queue] = {
                entry.shape: of_queue[entry.shape] for entry in entries if entry.shape in of_queue
            }

    def keep_queues(self, queues: Container[str]) -> None:
        """Forget the assignments of all queues but ``queues``."""
        self._known = {queue: of_queue for queue, of_queue in self._known.items() if queue in queues}

    def assignment_at(self, at: float, start: PendingStart) -> Assignment | None:
        """Return what the workload would use if it starts at a time; None if it does not fit then."""
        timeline, queue, entry, others = start
        assignment = self.known_assignment(queue, entry)
        if assignment is None or any(plan.replaced for plan in others):
            assignment = self._evaluated(at, start)
        elif not timeline.fits(at, queue.node, _with_running(assignment.usage, others, at)):
            return None
        return assignment if assignment is not None and self._is_beside(assignment, at, start) else None

    def as_planned(self, at: float, start: PendingStart) -> Assignment | None:
        """Return what the workload was planned to use, with its places, if that is free at a time.

        None also if it needs no places: then the places of no other plan depend on where its pods are.
        """
        timeline, queue, entry, others = start
        ledger = self._state.ledger
        kept = ledger.planned_assignments.get(entry.key)
        if (
            kept is None
            or not kept.assignment.placement.pod_sets
            or not kept.is_of(queue, self._state.flavors)
            or queue.reservations.get(entry.shape.replaces) is not None
        ):
            return None
        with timeline.moved_to(at, queue, others):
            usage, placement = kept.assignment.usage, kept.assignment.placement
            if shortages_at(queue.node, usage) or not fits(ledger.topology, placement):
                return None
        return kept.assignment if self._is_beside(kept.assignment, at, start) else None

    def _is_beside(self, assignment: Assignment, at: float, start: PendingStart) -> bool:
        """Return True if the workload, from a time on, delays no other plan and enters no window."""
        ledger, queue, entry = self._state.ledger, start.queue, start.entry
        if self._beside_windows and ledger.windows and at < math.inf:
            refusal = self._windows.refusal_at(queue, entry, assignment, at)
            if refusal is not None:
                if self.known_assignment(queue, entry) is assignment:
                    # Also a later start would run into the beginning of the window, with the same flavors.
                    self.refused_until = max(self.refused_until, at, refusal.opens)
                return False
        ends = at + queue.bound(entry.workload).seconds
        return not any(
            at < plan.at and reaches(ends, plan) and self._delays(plan, start, assignment)
            for plan in start.others
        )

    def known_assignment(self, queue: ClusterQueueState, entry: Entry) -> Assignment | None:
        """Return what ``entry`` uses at any time at which it fits; None if that depends on the time."""
        of_queue = self._known.get(queue.name)
        later = None if of_queue is None else of_queue.get(entry.shape)
        if later is None or may_need_places(self._state, entry):
            return None
        return later.assignment if later.is_of(queue, self._state.flavors) else None

    def _evaluated(self, at: float, start: PendingStart) -> Assignment | None:
        timeline, queue, entry, others = start
        ledger = self._state.ledger
        counts = [pod_set.count for pod_set in entry.shape.pod_sets]
        replaced = queue.reservations.get(entry.shape.replaces)
        windows_at = at if self._beside_windows else math.inf
        kept = () if replaced is None else (replaced,)
        with timeline.moved_to(at, queue, others, kept), ledger.windows.starting_at(windows_at):
            assignment, _ = evaluate_supposing(self._state, queue, entry, _WITHOUT_PREEMPTION, counts)
        if assignment.mode is not AssignmentMode.FIT:
            return None
        if (
            replaced_slice(entry.workload, self._state.configuration.gates) is None
            and all(len(group.flavors) == 1 for group in queue.groups.values())
            and not may_need_places(self._state, entry)
        ):
            by_shape = self._known.setdefault(queue.name, {})
            by_shape[entry.shape] = KeptAssignment.of(assignment, queue, self._state.flavors)
        return assignment

    def _delays(self, plan: PlannedStart, start: PendingStart, assignment: Assignment) -> bool:
        """Return True if the workload uses what ``plan`` of its queue needs."""
        timeline, queue, entry, plans = start
        if (
            math.isinf(plan.at)
            or self.known_assignment(queue, entry) is not assignment
            or any(other.replaced for other in plans)
        ):
            return self.missing(plan, timeline, queue, plans, queue, entry, assignment) is not None
        usage = _with_running(assignment.usage, plans, plan.at)
        return not timeline.fits(plan.at, queue.node, usage)

    def missing(
        self,
        plan: PlannedStart,
        timeline: Timeline,
        planning: ClusterQueueState,
        plans: Iterable[PlannedStart],
        queue: ClusterQueueState,
        entry: Entry,
        assignment: Assignment,
    ) -> ReservedForEarlierWorkload | None:
        """Return what ``entry`` of ``queue`` lacks at a planned start, beside ``plans`` of ``planning``.

        If no time is known for the start, what passed the planned workload before is not expected to end.
        """
        ledger = self._state.ledger
        replaced = queue.reservations.get(entry.shape.replaces)
        kept = self._not_ended(plan, timeline, planning, replaced)
        with (
            timeline.moved_to(plan.at, planning, plans, kept),
            nullcontext() if replaced is None else ledger.without_replaced_slice(replaced),
        ):
            shortages = shortages_at(queue.node, assignment.usage)
            if shortages or not fits(ledger.topology, assignment.placement):
                at = plan.at if math.isfinite(plan.at) else None
                return ReservedForEarlierWorkload(plan.entry.key, at, shortages)
        return None

    def _not_ended(
        self,
        plan: PlannedStart,
        timeline: Timeline,
        planning: ClusterQueueState,
        replaced: Reservation | None,
    ) -> list[Reservation]:
        """Return what is not expected to end before a planned start, whatever its bound."""
        kept = [] if replaced is None else [replaced]
        announced = self._state.ledger.announced.get(plan.entry.key)
        if math.isinf(plan.at) and announced is not None:
            since = math.floor(announced.made_at)  # stored times are whole seconds
            passed = timeline.passed(planning, planning.pending.order(plan.entry), since)
            kept += [reservation for reservation in passed if reservation is not replaced]
        return kept

    def needed_places(
        self,
        plan: PlannedStart,
        timeline: Timeline,
        planning: ClusterQueueState,
        plans: Iterable[PlannedStart],
        replaced: Reservation | None,
    ) -> list[Place]:
        """Return what ``plans`` need of each leaf at a planned start beyond what ends there before."""
        kept = {reservation.key for reservation in self._not_ended(plan, timeline, planning, replaced)}
        needed = [
            place
            for planned in plans
            if planned.runs_at(plan.at)
            for place in planned.assignment.placement.places()
        ]
        ended = [
            place
            for end in timeline.ends
            if end.at <= plan.at and end.reservation.key not in kept
            for place in end.reservation.places.all
        ]
        return without_places(needed, ended)


def _with_running(usage: Usage, plans: Iterable[PlannedStart], at: float) -> Usage:
    """Return ``usage`` with what the planned workloads use that run at a time."""
    total: dict[FlavorResource, int] | None = None
    for plan in plans:
        if plan.runs_at(at):
            total = dict(usage) if total is None else total
            for pair in total:
                total[pair] += plan.assignment.usage.get(pair, 0)
    return usage if total is None else total


def reaches(ends: float, plan: PlannedStart) -> bool:
    """Return True if a workload that runs until ``ends`` at most may still run at a planned start."""
    return ends > plan.at or math.isinf(ends)


def may_compete(plan: PlannedStart, assignment: Assignment) -> bool:
    """Return False if a plan and an assignment have neither a flavor's resource nor places in common."""
    planned = plan.assignment
    return bool(
        planned.usage.keys() & assignment.usage.keys()
        or (planned.placement.pod_sets and assignment.placement.pod_sets)
    )
