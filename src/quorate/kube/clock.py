"""Clocks and timers of the processes; the pure cores get the time as an argument ``now``."""

import asyncio
import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch, UTC."""
        ...

    async def sleep_until(self, moment: float) -> None:
        """Return once ``now()`` is at least ``moment``."""
        ...

    @property
    def steady(self) -> "Clock":
        """A monotonic clock of the same rate, for durations; its zero is arbitrary.

        A wait must end on time although an administrator or NTP sets the wall clock meanwhile.
        """
        ...


class WallClock:
    """The wall clock of this machine."""

    def now(self) -> float:
        return time.time()  # noqa: TID251  the only allowed use

    async def sleep_until(self, moment: float) -> None:
        while (left := moment - self.now()) > 0:  # noqa: ASYNC110  the machine may be suspended
            await asyncio.sleep(left)

    @property
    def steady(self) -> "Clock":
        return _STEADY


if hasattr(time, "CLOCK_BOOTTIME"):

    def _steady_now() -> float:
        return time.clock_gettime(time.CLOCK_BOOTTIME)

else:
    _steady_now = time.monotonic


class SteadyClock:
    """Monotonic seconds since an arbitrary moment, where the platform can, with the time of suspension.

    A process must know after a suspension of its machine that its lease has expired meanwhile.
    """

    def now(self) -> float:
        return _steady_now()

    async def sleep_until(self, moment: float) -> None:
        while (left := moment - self.now()) > 0:  # noqa: ASYNC110  a timer may fire early
            await asyncio.sleep(left)

    @property
    def steady(self) -> Clock:
        return self


_STEADY = SteadyClock()


class Timer:
    """Sets an event when the clock reaches the moment of the last ``reset``.

    A reset to the same moment costs nothing, so a loop may reset in every iteration.  The remaining duration
    is computed at the reset: the timer fires on time even if the clock is set back meanwhile.
    """

    def __init__(self, clock: Clock, event: asyncio.Event) -> None:
        self._clock = clock
        self._event = event
        self._moment: float | None = None  # when to fire; None: never
        self._sleep: asyncio.Task[None] | None = None  # not None exactly while there is a moment

    def reset(self, moment: float | None) -> None:
        """Fire at ``moment`` only; None: never."""
        if moment == self._moment:
            return
        if self._sleep is not None:
            self._sleep.cancel()
            self._sleep = None
        self._moment = moment
        if moment is not None:
            self._sleep = asyncio.create_task(self._fire_at(moment))

    async def _fire_at(self, moment: float) -> None:
        steady = self._clock.steady
        await steady.sleep_until(steady.now() + moment - self._clock.now())
        self._moment = self._sleep = None
        self._event.set()
