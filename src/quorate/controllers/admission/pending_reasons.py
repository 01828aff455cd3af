"""Throttling of the reasons that are written to pending workloads.

Under load the head of a queue is evaluated several times a second, each time with another reason, and mostly
admitted a moment later.  Writing every reason would cost more requests than all admissions, and no user
could read them.  So a reason is written only after a delay, later still while workloads are being admitted,
and rarely more than once.

A workload of the same shape as an evaluated one is not evaluated itself.  Thousands of such workloads may be
pending.  They get the reason of the evaluated one, a few each second, and only one every five seconds while
workloads are being admitted, because they may be admitted next.
"""

from collections import deque

from quorate.api.meta import Key
from quorate.controllers import limits
from quorate.kube.controller.work_queue import WorkQueue


class PendingReasonThrottle:
    """Selects the workloads that get their current reason; they may no longer be pending then.

    All times are steady times of one clock.
    """

    def __init__(self) -> None:
        self._due = WorkQueue()
        self._written_at: dict[Key, float] = {}  # workloads with a written reason, until they are removed
        self._unwritten_since: dict[Key, float] = {}  # evaluated workloads without a written reason
        self._unevaluated: set[Key] = set()
        # When each unevaluated workload is due; some entries are outdated.
        self._arrivals: deque[tuple[float, Key]] = deque()
        self._next_unevaluated_at = 0.0
        self._admission_at = -limits.UNEVALUATED_INTERVAL_S  # the last admission or preemption

    def add(self, key: Key, now: float) -> None:
        """Add a pending workload that has no reason, or a reason that is no longer true."""
        if key not in self._unwritten_since and key not in self._unevaluated:
            self._unevaluated.add(key)
            self._arrivals.append((now + limits.REASON_DELAY_S, key))

    def update(self, key: Key, now: float) -> None:
        """Record that ``key`` was evaluated and has a new reason."""
        self._unevaluated.discard(key)
        written_at = self._written_at.get(key)
        due = now + limits.REASON_DELAY_S
        self._due.add_at(
            key, due if written_at is None else max(due, written_at + limits.REPEATED_REASON_DELAY_S)
        )
        self._unwritten_since.setdefault(key, now)

    def record_admission(self, now: float) -> None:
        """Record that a workload is being admitted or preempted."""
        self._admission_at = now

    def remove(self, key: Key) -> None:
        """Forget a workload that is no longer pending, or that did not get its reason after all."""
        self._written_at.pop(key, None)
        self._unwritten_since.pop(key, None)
        self._unevaluated.discard(key)
        self._due.forget(key)

    def take_due(self, now: float) -> list[Key]:
        """Return the evaluated workloads that get their reason now."""
        keys: list[Key] = []
        while (key := self._due.get(now)) is not None:
            self._due.done(key)
            if self._is_busy(now) and now < self._unwritten_since[key] + limits.MAX_REASON_DELAY_S:
                self._due.add_at(key, now + limits.REASON_DELAY_S)
                continue
            self._written_at[key] = now
            del self._unwritten_since[key]
            keys.append(key)
        return keys

    def take_unevaluated(self, now: float) -> list[Key]:
        """Return the unevaluated workloads that get the reason of their shape now."""
        keys: list[Key] = []
        is_busy = self._is_busy(now)
        limit = 1 if is_busy else limits.UNEVALUATED_AT_ONCE
        while (due := self._unevaluated_due()) is not None and due <= now and len(keys) < limit:
            _, key = self._arrivals.popleft()
            self._unevaluated.remove(key)
            self._written_at[key] = now
            keys.append(key)
        if keys:
            self._next_unevaluated_at = now + (
                limits.BUSY_INTERVAL_S if is_busy else limits.UNEVALUATED_INTERVAL_S
            )
        return keys

    def _is_busy(self, now: float) -> bool:
        return now < self._admission_at + limits.UNEVALUATED_INTERVAL_S

    def _unevaluated_due(self) -> float | None:
        while self._arrivals and self._arrivals[0][1] not in self._unevaluated:
            self._arrivals.popleft()
        return max(self._arrivals[0][0], self._next_unevaluated_at) if self._arrivals else None

    def next_due(self) -> float | None:
        times = (self._due.next_due(), self._unevaluated_due())
        return min((time for time in times if time is not None), default=None)
