"""The search for planned starts: the earliest time at which each of some workloads fits beside the others."""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence

from quorate.queueing.assignment import Assignment
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.pending.entry import Entry
from quorate.queueing.planning.bounds import LONGEST
from quorate.queueing.scheduling.announcing import slack_left_s
from quorate.queueing.scheduling.later_fits import LaterFits, PendingStart
from quorate.queueing.scheduling.reserved_windows import ReservedWindows
from quorate.queueing.scheduling.timeline import PlannedStart, Timeline
from quorate.queueing.state import State

Plans = tuple[PlannedStart, ...]  # of one queue, in queueing order


class StartSearch:
    """Searches for the starts of the first workloads of a queue, and keeps what is announced of them."""

    def __init__(self, state: State, windows: ReservedWindows) -> None:
        self._state = state
        self._windows = windows
        self.fits = LaterFits(state, windows)
        self.refused: Entry | None = None  # a head that nothing lets start now, while its plan is made

    def plans(
        self, timeline: Timeline, queue: ClusterQueueState, entries: Sequence[Entry], now: float
    ) -> Plans:
        """Return a plan for each of ``entries`` that can have a plan, each beside the plans before it.

        A workload starts earlier than announced if other workloads end early, unless that delays a later
        workload.
        """
        announced_starts, plans = self._state.ledger.announced, list[PlannedStart]()
        keys = [entry.key for entry in entries if entry.key in announced_starts]
        latest = {key: announced_starts[key].latest for key in keys}
        slack_s = slack_left_s(self._state.ledger, queue, latest)
        self.fits.keep(queue.name, entries)
        for number, entry in enumerate(entries):
            is_last = number == len(entries) - 1
            needs_no_places = is_last and self.fits.known_assignment(queue, entry) is not None
            kept: Plans = ()
            if not needs_no_places:
                kept = self._as_announced(timeline, queue, entries[number:], plans, slack_s, now)
            own = next((plan for plan in kept if plan.entry is entry), None)
            later = [plan for plan in kept if plan is not own]
            plan = self._plan(PendingStart(timeline, queue, entry, (*plans, *later)), now)
            former = announced_starts.get(entry.key)
            if own is not None and (plan is None or plan.at > own.at or (plan.at == own.at and not is_last)):
                plan = own  # after the last one there is no plan that needs it to keep its places
            elif later and (plan is None or (former is not None and plan.at > former.planned_at + slack_s)):
                plan = self._plan(PendingStart(timeline, queue, entry, plans), now)
            if plan is not None:
                plans.append(plan)
        return tuple(plans)

    def _as_announced(
        self,
        timeline: Timeline,
        queue: ClusterQueueState,
        entries: Iterable[Entry],
        earlier: Sequence[PlannedStart],
        slack_s: float,
        now: float,
    ) -> Plans:
        """Return the starts of ``entries`` as they are announced, if these can be kept beside ``earlier``.

        Pods keep the places that are planned for them: with others, a plan might leave no places for the
        plans after it.  New places are chosen only for plans of which the places are not free any more.
        What has used slack ends within it, so that all plans can be kept if all are later by ``slack_s``.
        """
        announced, starts = self._state.ledger.announced, dict[Entry, float]()
        for entry in entries:
            if entry.key in announced and now <= announced[entry.key].planned_at < math.inf:
                starts[entry] = announced[entry.key].planned_at
        kept = self._delayed(timeline, queue, starts, earlier, 0.0)
        if len(kept) < len(starts) and slack_s:
            kept = max(kept, self._delayed(timeline, queue, starts, earlier, slack_s), key=len)
        return kept

    def _delayed(
        self,
        timeline: Timeline,
        queue: ClusterQueueState,
        starts: Mapping[Entry, float],
        earlier: Sequence[PlannedStart],
        delay_s: float,
    ) -> Plans:
        """Return ``starts`` that can be kept beside ``earlier``, all of them later by ``delay_s``."""
        plans, left = list(earlier), {entry: at + delay_s for entry, at in starts.items()}
        self.fits.begin(beside_windows=True)
        for assignment_at in (self.fits.as_planned, self.fits.assignment_at):
            for entry, at in list(left.items()):
                start = PendingStart(timeline, queue, entry, plans)
                assignment = assignment_at(at, start)
                if assignment is not None:
                    plans.append(self._planned_start(start, at, assignment))
                    del left[entry]
        return tuple(plans[len(earlier) :])

    def _plan(self, start: PendingStart, now: float) -> PlannedStart | None:
        """Return the earliest start of a workload beside the others; None if it would never fit."""
        plan = self._search(start, now, now)
        if plan is None or not self._state.ledger.windows:
            return plan
        bound_s = start.queue.bound(start.entry.workload).seconds
        windows = self._windows.breaks(start.queue.node.root, bound_s)
        return self._search(start, now, plan.at, windows) if windows else plan

    def _search(
        self, start: PendingStart, now: float, after: float, windows: Sequence[float] | None = None
    ) -> PlannedStart | None:
        """Return the earliest start from ``after`` on; without ``windows`` as if there were none."""
        timeline, queue, entry, others = start
        bound_s = queue.bound(entry.workload).seconds
        announced = self._state.ledger.announced.get(entry.key)
        if windows is None and self._state.ledger.windows:
            starts_later = False  # perhaps only a window has refused it
        else:
            starts_later = entry is self.refused and not timeline.has_ended(now)
        former = -math.inf if announced is None else announced.planned_at
        self.fits.begin(beside_windows=windows is not None)
        for moments in timeline.stretches(others, windows or (), bound_s, after):
            # More is free at each moment than at those before it.
            least, most = bisect_right(moments, self.fits.refused_until), len(moments)
            least = max(least, int(moments[0] == now and starts_later))
            best: Assignment | None = None
            likely = bisect_left(moments, former)  # mostly a plan stays as it was
            for probe in (likely, likely - 1, most - 1):
                if least <= probe < most:
                    assignment = self.fits.assignment_at(moments[probe], start)
                    least, most, best = _narrowed(least, most, best, probe, assignment)
            while best is not None and least < most:
                middle = (least + most) // 2
                assignment = self.fits.assignment_at(moments[middle], start)
                least, most, best = _narrowed(least, most, best, middle, assignment)
            if best is not None:
                return self._planned_start(start, moments[most], best)
        return None

    def _planned_start(self, start: PendingStart, at: float, assignment: Assignment) -> PlannedStart:
        timeline, queue, entry, others = start
        rest = timeline.rest(at, assignment.usage)
        before = [other for other in others if other.ends <= at < math.inf]
        latest = max(at, rest.latest, *(_latest_end(queue, other) for other in before))
        replaced = queue.reservations.get(entry.shape.replaces)
        ends = at + queue.bound(entry.workload).seconds
        return PlannedStart(entry, at, latest, ends, assignment, rest.origin, rest.ended, replaced)


def _narrowed(
    least: int, most: int, best: Assignment | None, probe: int, assignment: Assignment | None
) -> tuple[int, int, Assignment | None]:
    """Return the bounds of a search, and what fits at the upper one, after a probe between them."""
    return (probe + 1, most, best) if assignment is None else (least, probe, assignment)


def _latest_end(queue: ClusterQueueState, plan: PlannedStart) -> float:
    """Return when a planned workload ends that runs ``LONGEST`` times what was learned."""
    factor = LONGEST if queue.bound(plan.entry.workload).origin == "Learned" else 1
    return plan.latest + factor * (plan.ends - plan.at)
