"""A limit on how fast the API server is asked: so many requests at once, then one by one, evenly."""

import asyncio
from typing import Protocol


class Turns(Protocol):
    """Whoever says when the next request may be sent."""

    async def turn(self) -> None:
        """Return when it may."""
        ...


class Throttle:
    """At most ``burst`` requests at once and ``per_second`` in the long run, in the order they came."""

    def __init__(self, per_second: float, burst: int) -> None:
        self._interval_s = 1.0 / per_second
        self._ahead_s = (burst - 1) * self._interval_s
        self._next = 0.0  # when the next request were due if all came evenly, on the loop's clock

    async def turn(self) -> None:
        """Return when the next request may be sent."""
        now = asyncio.get_running_loop().time()
        # Who was silent for a while may catch up, but by no more than a burst.
        self._next = max(self._next, now - self._ahead_s) + self._interval_s
        wait_s = self._next - self._interval_s - now
        if wait_s > 0:
            await asyncio.sleep(wait_s)
