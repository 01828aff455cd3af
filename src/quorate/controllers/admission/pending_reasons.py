"""When workloads that wait are told why: once they have waited a while, and then not at every new reason.

Under load whoever is first in its queue is judged several times a second, for another reason each time as
others come and go, and mostly admitted a moment later.  To write each verdict would cost more than all the
admissions, and nobody could read them.  So while others are admitted, verdicts wait until they have not been
overtaken for long.

Who looks like one that was judged is not judged as well, and there may be thousands of them: newcomers among
these are told what the other was told, a few each second, and fewer still while others are being admitted,
since it may be their turn next.
"""

from collections import deque
from typing import Final

from quorate.api.meta import Key
from quorate.kube.work_queue import WorkQueue

SETTLES_WITHIN_S: Final = 1.0  # a verdict that is overtaken sooner is never told
REPEATED_AFTER_S: Final = 5.0  # to tell another one to who was told one already
OVERTAKEN_WITHIN_S: Final = 8.0  # what is not told for so long because others are admitted all the time, is
NEWCOMERS_AT_ONCE: Final = 20  # of those that were not judged themselves, when nobody was admitted lately
NEWCOMERS_EVERY_S: Final = 1.0  # also the pause in admissions that counts as "not lately"


class PendingReasonThrottle:
    """Who is to be told the verdict that then holds, and when.  Each may be waiting no longer by then.

    All moments are those of one steady clock.
    """

    def __init__(self) -> None:
        self._due = WorkQueue()
        self._told_at: dict[
            Key, float
        ] = {}  # of those that were told one and are not known to wait no longer
        self._untold_since: dict[Key, float] = {}  # of those with a verdict that they were not told
        self._newcomers: set[Key] = set()
        self._arrivals: deque[tuple[float, Key]] = deque()  # when each may be told; some are told or gone
        self._next_newcomers_at = 0.0
        self._moved_at = -NEWCOMERS_EVERY_S  # when somebody was last admitted or preempted

    def came(self, key: Key, now: float) -> None:
        """``key`` waits and was never told a verdict, of its own or of another like it."""
        if key not in self._told_at and key not in self._newcomers:
            self._newcomers.add(key)
            self._arrivals.append((now + SETTLES_WITHIN_S, key))

    def passed(self, key: Key, now: float) -> None:
        """There is a new verdict on ``key``."""
        self._newcomers.discard(key)
        told_at = self._told_at.get(key)
        moment = now + SETTLES_WITHIN_S
        self._due.add_at(key, moment if told_at is None else max(moment, told_at + REPEATED_AFTER_S))
        self._untold_since.setdefault(key, now)

    def moved(self, now: float) -> None:
        """Somebody is admitted, or preempted."""
        self._moved_at = now

    def over(self, key: Key) -> None:
        """``key`` waits no longer, or was not told after all: its next verdict is its first."""
        self._told_at.pop(key, None)
        self._untold_since.pop(key, None)
        self._newcomers.discard(key)

    def take_due(self, now: float) -> list[Key]:
        """Those that are to be told now."""
        keys: list[Key] = []
        while (key := self._due.get(now)) is not None:
            self._due.done(key)
            if self._is_busy(now) and now < self._untold_since.get(key, now) + OVERTAKEN_WITHIN_S:
                self._due.add_at(key, now + SETTLES_WITHIN_S)
                continue
            self._told_at[key] = now
            self._untold_since.pop(key, None)
            keys.append(key)
        return keys

    def take_newcomers(self, now: float) -> list[Key]:
        """Those that are to be told now what was told to others like them, if anything was."""
        keys: list[Key] = []
        most = 1 if self._is_busy(now) else NEWCOMERS_AT_ONCE
        while (due := self._newcomers_due()) is not None and due <= now and len(keys) < most:
            _, key = self._arrivals.popleft()
            self._newcomers.remove(key)
            self._told_at[key] = now
            keys.append(key)
        if keys:
            self._next_newcomers_at = now + NEWCOMERS_EVERY_S
        return keys

    def _is_busy(self, now: float) -> bool:
        return now < self._moved_at + NEWCOMERS_EVERY_S

    def _newcomers_due(self) -> float | None:
        while self._arrivals and self._arrivals[0][1] not in self._newcomers:
            self._arrivals.popleft()
        return max(self._arrivals[0][0], self._next_newcomers_at) if self._arrivals else None

    def next_due(self) -> float | None:
        moments = (self._due.next_due(), self._newcomers_due())
        return min((moment for moment in moments if moment is not None), default=None)
