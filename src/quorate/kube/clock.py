"""Time as the shell sees it.  The cores are told ``now``; only the shell asks a clock."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    async def sleep_until(self, moment: float) -> None:
        """Return once ``now()`` has reached ``moment``; at once if it already has."""
        ...


class WallClock:
    """The time of this machine."""

    def now(self) -> float:
        return time.time()  # noqa: TID251  the one place that may ask

    async def sleep_until(self, moment: float) -> None:
        while (left := moment - self.now()) > 0:  # noqa: ASYNC110  the machine may have slept
            await asyncio.sleep(left)
