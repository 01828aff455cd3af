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


class Alarm:
    """Sets an event when the clock reaches the moment it was last set for.

    To be set anew costs nothing while the moment stays, so a loop may do so at every turn.
    """

    def __init__(self, clock: Clock, event: asyncio.Event) -> None:
        self._clock = clock
        self._event = event
        self._moment: float | None = None  # when it is to ring; None: not at all
        self._sleep: asyncio.Task[None] | None = None  # there exactly while there is a moment

    def set_for(self, moment: float | None) -> None:
        """Ring at ``moment`` and at no other; None: not at all."""
        if moment == self._moment:
            return
        if self._sleep is not None:
            self._sleep.cancel()
            self._sleep = None
        self._moment = moment
        if moment is not None:
            self._sleep = asyncio.create_task(self._ring_at(moment))

    async def _ring_at(self, moment: float) -> None:
        await self._clock.sleep_until(moment)
        self._moment = self._sleep = None
        self._event.set()
