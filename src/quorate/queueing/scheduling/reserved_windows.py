"""What windows keep: whether a workload that would be admitted now takes quota that a window needs.

A window keeps amounts in the quota trees of its owners, its *pool*; one for maintenance, in all trees.  Until
it ends, all workloads of the pool use at most the nominal quota of the pool, and what the owners do not use
of their amounts stays free.  A workload that may run into a window, by its bound, is checked at the beginning
of the window, beside the workloads that still run then, by their bounds.  An owner passes its own window.
"""

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from itertools import accumulate, groupby
from typing import NamedTuple

from quorate.api.meta import Key
from quorate.api.quorate.occurrences import Interval
from quorate.queueing.assignment import Assignment
from quorate.queueing.cluster_queue import ClusterQueueState, Reservation
from quorate.queueing.inadmissible_reasons import ReservedWindow, Shortage
from quorate.queueing.ledger import Ledger
from quorate.queueing.limits import MAX_BREAKS
from quorate.queueing.pending.entry import Entry
from quorate.queueing.scheduling.nomination import Nomination
from quorate.queueing.scheduling.timeline import ends_at
from quorate.queueing.window_usage import Pool, nominal_quota, outside_of_quota, pool_of, queues_of
from quorate.queueing.windows import Window
from quorate.quota.amount import FlavorResource
from quorate.quota.tree import Node


class _Holder(NamedTuple):
    """A workload with quota, and until when it runs at most."""

    ends: float
    queue: ClusterQueueState
    reservation: Reservation

    def is_owner_of(self, window: Window) -> bool:
        return window.owns(self.reservation.local_queue, self.queue.name)


class _Reached(NamedTuple):
    """A window with an occurrence that a workload may run into."""

    window: Window
    interval: Interval
    pool: Pool
    number: int  # of the window


class _Upcoming:
    """The occurrences of some windows, in the order in which they begin."""

    def __init__(self, windows: Iterable[tuple[Window, Pool]], now: float) -> None:
        reached = [
            _Reached(window, interval, pool, number)
            for number, (window, pool) in enumerate(windows)
            for interval in window.occurrences(now)
        ]
        self._reached = sorted(reached, key=lambda opening: opening.interval.opens)
        self._opens = [opening.interval.opens for opening in self._reached]
        # When all up to each have ended
        self._closed = list(accumulate((opening.interval.closes for opening in self._reached), max))
        self.until = min((opening.interval.closes for opening in reached), default=math.inf)

    def between(self, starts: float, ends: float) -> list[_Reached]:
        """Return the occurrences that something meets which runs between two times."""
        first, last = bisect_right(self._closed, starts), bisect_left(self._opens, ends)
        return [reached for reached in self._reached[first:last] if reached.interval.closes > starts]


class ReservedWindows:
    """The windows of a ledger; what is known of them is kept until the time, quota or a queue changes."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._known_at = 0.0, -1  # ``Ledger.now`` and how often a queue changed
        self._pools: dict[str, Pool] = {}  # by window
        self._totals: dict[tuple[Pool, FlavorResource], int] = {}
        self._breaks: dict[tuple[Node, float], list[float]] = {}  # by bound
        self._of_root: dict[Node, _Upcoming] = {}
        self._upcoming: dict[tuple[tuple[Window, Pool], ...], _Upcoming] = {}
        self._former_upcoming: dict[tuple[tuple[Window, Pool], ...], _Upcoming] = {}
        # Until reservations change as well: holders by root, sums of what they use, and what windows leave
        # free of a pool at a moment.
        self._changes = -1
        self._holders: dict[Node, list[_Holder]] = {}
        self._sums: dict[tuple[Pool, FlavorResource, float, str], int] = {}
        self._free: dict[tuple[Node, Pool, FlavorResource, float], int] = {}

    def _forget_changed(self) -> None:
        known_at, changes = (self._ledger.now, self._ledger.requeues), self._ledger.changes()
        if self._known_at != known_at:
            self._pools.clear()
            self._totals.clear()
            self._breaks.clear()
            self._of_root.clear()
            self._former_upcoming, self._upcoming = self._upcoming, {}
        if (self._known_at, self._changes) != (known_at, changes):
            self._holders.clear()
            self._sums.clear()
            self._free.clear()
        self._known_at, self._changes = known_at, changes

    def forget(self) -> None:
        """Drop what is known of windows: there are none."""
        for cache in (self._pools, self._totals, self._breaks, self._of_root, self._holders, self._sums):
            cache.clear()
        for kept in (self._free, self._upcoming, self._former_upcoming):
            kept.clear()

    def refusal(self, nomination: Nomination, assignment: Assignment, now: float) -> ReservedWindow | None:
        """Return the window that needs what a nomination would use at ``now``; None if no window does."""
        leaving = {target.reservation.key for target in nomination.targets}
        return self.refusal_at(nomination.queue, nomination.entry, assignment, now, leaving)

    def refusal_at(
        self,
        queue: ClusterQueueState,
        entry: Entry,
        assignment: Assignment,
        at: float,
        leaving: AbstractSet[Key] = frozenset(),
    ) -> ReservedWindow | None:
        """Return the window that needs what ``entry`` would use if it starts at a time, now or later.

        ``leaving``: workloads that it preempts.
        """
        self._forget_changed()
        root = queue.node.root
        ends = at + queue.bound(entry.workload).seconds
        reached = self._upcoming_of(root).between(at, ends)
        local_queue = entry.local_queue
        refusing = [
            window
            for window in reached
            if not window.window.owns(local_queue, queue.name)
            and not window.window.amounts.keys().isdisjoint(assignment.usage)
        ]
        if not refusing or all(self._has_enough(window, reached, assignment) for window in refusing):
            return None
        replaced = queue.reservations.get(entry.shape.replaces)
        if replaced is not None:
            leaving = {*leaving, replaced.key}
        relevant = {window.window for window in refusing}
        open_: list[_Reached] = []
        by_moment = sorted(reached, key=lambda window: (max(at, window.interval.opens), window.number))
        for moment, opening in groupby(by_moment, key=lambda window: max(at, window.interval.opens)):
            new = list(opening)
            open_ = [window for window in open_ if moment < window.interval.closes] + new
            if not any(window.window in relevant for window in new):
                continue
            for window in open_:
                if window.window not in relevant or (
                    not leaving and self._is_enough(window, open_, root, assignment, moment)
                ):
                    continue
                shortages = self._shortages(window, open_, queue, entry, assignment, leaving, moment)
                if shortages:
                    return ReservedWindow(window.window.name, *window.interval, shortages)
        return None

    def _upcoming_of(self, root: Node) -> _Upcoming:
        """Return the occurrences of the windows that keep amounts in a tree."""
        upcoming = self._of_root.get(root)
        if upcoming is None:
            windows = tuple(
                (window, pool)
                for window in self._ledger.windows
                if window.amounts and root in (pool := self.pool(window))
            )
            upcoming = self._upcoming.get(windows, self._former_upcoming.get(windows))
            if upcoming is None or upcoming.until <= self._ledger.now:
                upcoming = _Upcoming(windows, self._ledger.now)
            self._of_root[root] = self._upcoming[windows] = upcoming
        return upcoming

    def breaks(self, root: Node, bound_s: float) -> list[float]:
        """Return the times, in order, at which windows begin and end that may concern a workload of a tree.

        With each, when a workload with a bound begins to reach into the window.
        """
        self._forget_changed()
        breaks = self._breaks.get((root, bound_s))
        if breaks is None:
            intervals = {
                interval
                for window in self._ledger.windows
                if window.spec.nodes is not None or (window.amounts and root in self.pool(window))
                for interval in window.occurrences(self._ledger.now)[:MAX_BREAKS]
            }
            times = {at for opens, closes in intervals for at in (opens - bound_s, opens, closes)}
            breaks = self._breaks[root, bound_s] = sorted(times)
        return breaks

    def _has_enough(self, refusing: _Reached, reached: Iterable[_Reached], assignment: Assignment) -> bool:
        """Return True if a window has enough even if none of its pool ends before; this costs least."""
        pool, windows = refusing.pool, {other.window for other in reached if other.pool <= refusing.pool}
        return all(
            assignment.usage[pair]
            + self._held(pool, pair, -math.inf)
            + sum(window.amounts.get(pair, 0) for window in windows)
            <= self.total(pool, pair)
            for pair in refusing.window.amounts.keys() & assignment.usage.keys()
        )

    def _is_enough(
        self, refusing: _Reached, open_: Iterable[_Reached], root: Node, assignment: Assignment, moment: float
    ) -> bool:
        """Return True if what windows leave is enough at ``moment``, even for a workload that owns none."""
        pool = refusing.pool
        for pair in refusing.window.amounts.keys() & assignment.usage.keys():
            key = root, pool, pair, moment
            if key not in self._free:
                kept = sum(
                    max(0, other.window.amounts.get(pair, 0) - self._held(pool, pair, moment, other.window))
                    for other in open_
                    if other.pool <= pool
                )
                self._free[key] = self.total(pool, pair) - self._held(pool, pair, moment) - kept
            if assignment.usage[pair] > self._free[key]:
                return False
        return True

    def _shortages(
        self,
        refusing: _Reached,
        open_: Iterable[_Reached],
        queue: ClusterQueueState,
        entry: Entry,
        assignment: Assignment,
        leaving: AbstractSet[Key],
        moment: float,
    ) -> tuple[Shortage, ...]:
        """Return what ``entry`` lacks at ``moment`` beside a window, and beside those in its pool."""
        pool = refusing.pool
        gone = [
            holder
            for root in (pool if leaving else ())
            for holder in self._holders_of(root)
            if holder.reservation.key in leaving and self._holds(holder, moment)
        ]
        others = [other.window for other in open_ if other.pool <= pool]
        shortages: list[Shortage] = []
        for pair in sorted(refusing.window.amounts.keys() & assignment.usage.keys()):
            needed = assignment.usage[pair]
            held = self._held(pool, pair, moment) - sum(one.reservation.usage.get(pair, 0) for one in gone)
            kept = 0
            for window in others:
                own = self._held(pool, pair, moment, window) - sum(
                    one.reservation.usage.get(pair, 0) for one in gone if one.is_owner_of(window)
                )
                own += needed if window.owns(entry.local_queue, queue.name) else 0
                kept += max(0, window.amounts.get(pair, 0) - own)
            total = self.total(pool, pair)
            available = max(0, total - held - kept)
            if needed > available:
                at_most = max(0, total - refusing.window.amounts[pair])
                shortages.append(Shortage(pair.flavor, pair.resource, needed, available, at_most))
        return tuple(shortages)

    def pool(self, window: Window) -> Pool:
        """Return the roots of the trees of which a window keeps amounts."""
        if window.name not in self._pools:
            self._pools[window.name] = pool_of(self._ledger, window)
        return self._pools[window.name]

    def total(self, pool: Pool, pair: FlavorResource) -> int:
        """Return the nominal quota of all queues and cohorts of a pool."""
        amount = self._totals.get((pool, pair))
        if amount is None:
            amount = self._totals[pool, pair] = nominal_quota(pool, pair)
        return amount

    def _held(self, pool: Pool, pair: FlavorResource, moment: float, owned: Window | None = None) -> int:
        """Return what is used of a pool after ``moment``, with ``owned`` only by the owners of a window.

        At a moment before all times, return the use of all workloads, including workloads that end soon.
        """
        key = pool, pair, moment, "" if owned is None else owned.name
        if key not in self._sums:
            if moment == -math.inf:
                used = [queue.totals.reserved_usage.get(pair, 0) for queue in queues_of(self._ledger, pool)]
            else:
                used = [
                    holder.reservation.usage.get(pair, 0)
                    for root in pool
                    for holder in self._holders_of(root)
                    if self._holds(holder, moment) and (owned is None or holder.is_owner_of(owned))
                ]
            self._sums[key] = sum(used) + (outside_of_quota(self._ledger, pool, pair) if owned is None else 0)
        return self._sums[key]

    def _holds(self, holder: _Holder, moment: float) -> bool:
        """Return True if a workload uses its quota after ``moment``; now also if it outlives its bound."""
        return holder.ends > moment or moment <= self._ledger.now

    def _holders_of(self, root: Node) -> list[_Holder]:
        if root not in self._holders:
            self._holders[root] = [
                _Holder(ends_at(self._ledger, queue, reservation, self._ledger.now), queue, reservation)
                for queue in self._ledger.queues_below(root)
                for reservation in queue.reservations.values()
            ]
        return self._holders[root]
