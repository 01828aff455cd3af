"""Putting off what may wait, so that one write can tell of much that happened shortly after each other."""

from quorate.api.meta import Key
from quorate.kube.clock import Clock


class Patience:
    """Puts off the work on each key once, for ``patience_s`` by a clock that nobody sets."""

    def __init__(self, clock: Clock, patience_s: float) -> None:
        self._clock = clock
        self._steady = clock.steady
        self._patience_s = patience_s
        self._until: dict[Key, float] = {}  # by the steady clock; only of what is put off

    def put_off(self, key: Key) -> float | None:
        """Until when (epoch seconds) work on ``key`` may wait; None: it has waited long enough."""
        now = self._steady.now()
        left_s = self._until.setdefault(key, now + self._patience_s) - now
        return self._clock.now() + left_s if left_s > 0 else None

    def forget(self, key: Key) -> None:
        """Nothing of ``key`` is put off any more: it was done, or there is nothing left to do."""
        self._until.pop(key, None)
