"""Debouncing: delay work that can wait, so that one write covers several changes in short succession."""

from quorate.api.meta import Key
from quorate.kube.clock import Clock


class Debounce:
    """Defers the work on each key once, for ``delay_s`` on the steady clock."""

    def __init__(self, clock: Clock, delay_s: float) -> None:
        self._clock = clock
        self._steady = clock.steady
        self._delay_s = delay_s
        self._until: dict[Key, float] = {}  # steady time; only keys with deferred work

    def defer_until(self, key: Key) -> float | None:
        """Return until when (epoch seconds) to defer work on ``key``; None: the delay is over."""
        now = self._steady.now()
        left_s = self._until.setdefault(key, now + self._delay_s) - now
        return self._clock.now() + left_s if left_s > 0 else None

    def clear(self, key: Key) -> None:
        """End the deferral of ``key``: its work is done or no longer needed."""
        self._until.pop(key, None)
