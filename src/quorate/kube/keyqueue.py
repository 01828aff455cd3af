"""Which key is worked on next: the rules of a controller's queue, without I/O or waiting.

A key is a name, never an event: however often it is put, one run looks at everything there is to see.
So a waiting key is there once; a key put while it runs runs once more afterwards, never at the same time;
and of several moments asked for, the earliest counts, as that run answers anew when to look again.
"""

import heapq
from collections import deque

from quorate.api.meta import Key


class KeyQueue:
    def __init__(self) -> None:
        self._ready: deque[Key] = deque()  # exactly the keys of _waiting, in the order they came
        self._waiting: set[Key] = set()  # disjoint from _running
        self._running: set[Key] = set()
        self._again: set[Key] = set()  # put while running; a subset of _running
        self._due: dict[Key, float] = {}  # the one moment that counts for a delayed key
        # Has (moment, key) for each entry of _due, and outdated pairs, which are dropped when they come up:
        # cheaper than finding them.  Each pair is pushed and popped once.
        self._heap: list[tuple[float, Key]] = []

    def put(self, key: Key) -> None:
        if key in self._running:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.add(key)
            self._ready.append(key)

    def put_at(self, key: Key, moment: float) -> None:
        """``put`` it once ``moment`` (epoch seconds) has come, or at an earlier moment asked for already."""
        if moment < self._due.get(key, float("inf")):
            self._due[key] = moment
            heapq.heappush(self._heap, (moment, key))

    def take(self, now: float) -> Key | None:
        """The next key to run, which runs until ``done``; None when none is ready."""
        while (moment := self.next_due()) is not None and moment <= now:
            _, key = heapq.heappop(self._heap)
            del self._due[key]
            self.put(key)
        if not self._ready:
            return None
        key = self._ready.popleft()
        self._waiting.remove(key)
        self._running.add(key)
        return key

    def done(self, key: Key) -> None:
        self._running.remove(key)
        if key in self._again:
            self._again.remove(key)
            self.put(key)

    def next_due(self) -> float | None:
        """The earliest moment a delayed key becomes ready; None when none is delayed."""
        while self._heap:
            moment, key = self._heap[0]
            if self._due.get(key) == moment:
                return moment
            heapq.heappop(self._heap)
        return None

    @property
    def idle(self) -> bool:
        """Nothing runs and nothing is ready; delayed keys may be waiting for their moment."""
        return not self._running and not self._ready
