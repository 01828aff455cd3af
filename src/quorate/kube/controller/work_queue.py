"""The work queue of a controller: which key is next, without I/O or waiting.

A key is a name, not an event: however often it is added, one run sees the latest state.  A key is therefore
queued at most once; a key added while it runs runs once more afterwards, never concurrently; and of several
delayed additions the earliest counts, because that run determines when to run again.

Urgent keys come first, such as of work that has begun while a burst of new work arrives; one of each
``URGENT_IN_A_ROW`` + 1 runs is of another key, so that neither kind waits for the end of the other.
"""

import heapq
from collections import deque
from typing import Final

from quorate.api.meta import Key
from quorate.kube.limits import OUTDATED_ENTRIES

URGENT_IN_A_ROW: Final = 3


class WorkQueue:
    def __init__(self) -> None:
        # The keys of _waiting in the order of arrival; a key that became urgent is in both, and skipped here.
        self._ready: deque[Key] = deque()
        self._urgent: deque[Key] = deque()
        self._in_a_row = 0  # urgent keys since the last other one
        self._waiting: dict[Key, bool] = {}  # whether a key is urgent; disjoint from _running
        self._running: set[Key] = set()
        self._again: dict[Key, bool] = {}  # added while running, and whether urgent; keys of _running
        self._due: dict[Key, float] = {}  # the earliest moment of each delayed key
        # (moment, key) of each entry of _due, and outdated pairs, which are skipped when they reach the top:
        # that is cheaper than searching for them.  They are removed together when there are too many.
        self._heap: list[tuple[float, Key]] = []

    def add(self, key: Key, *, urgent: bool = False) -> None:
        """Add a key; a key that waits already becomes urgent with its first urgent addition."""
        if key in self._running:
            self._again[key] = urgent or self._again.get(key, False)
        elif key not in self._waiting or (urgent and not self._waiting[key]):
            self._waiting[key] = urgent
            (self._urgent if urgent else self._ready).append(key)

    def add_at(self, key: Key, moment: float) -> bool:
        """Add ``key`` at ``moment``, unless an earlier moment is already set.

        Return True if no delayed key is due before, so that a timer must be set.
        """
        if moment >= self._due.get(key, float("inf")):
            return False
        self._due[key] = moment
        heapq.heappush(self._heap, (moment, key))
        return self._heap[0] == (moment, key)

    def forget(self, key: Key) -> None:
        """Drop the delayed addition of ``key``, such as of a deleted object."""
        if self._due.pop(key, None) is not None and len(self._heap) > 2 * len(self._due) + OUTDATED_ENTRIES:
            self._heap = [(moment, key) for key, moment in self._due.items()]
            heapq.heapify(self._heap)

    def get(self, now: float) -> Key | None:
        """Return the next key, which counts as running until ``done``; None when no key is ready."""
        while (moment := self.next_due()) is not None and moment <= now:
            _, key = heapq.heappop(self._heap)
            del self._due[key]
            self.add(key)
        while self._ready and self._waiting.get(self._ready[0]) is not False:
            self._ready.popleft()
        if self._urgent and not (self._ready and self._in_a_row >= URGENT_IN_A_ROW):
            key = self._urgent.popleft()
            self._in_a_row += 1
        elif self._ready:
            key = self._ready.popleft()
            self._in_a_row = 0
        else:
            return None
        del self._waiting[key]
        self._running.add(key)
        return key

    def done(self, key: Key) -> None:
        self._running.remove(key)
        urgent = self._again.pop(key, None)
        if urgent is not None:
            self.add(key, urgent=urgent)

    def next_due(self) -> float | None:
        """Return the earliest moment of a delayed key; None when no key is delayed."""
        while self._heap:
            moment, key = self._heap[0]
            if self._due.get(key) == moment:
                return moment
            heapq.heappop(self._heap)
        return None

    @property
    def idle(self) -> bool:
        """True when no key runs or is ready; delayed keys do not count."""
        return not self._running and not self._waiting
