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

    @property
    def steady(self) -> "Clock":
        """A clock of the same pace that nobody sets, for how long something lasts: its zero means nothing.

        Any wait that began when it began must end when it ends, whatever an administrator or NTP does to
        the time of day meanwhile.
        """
        ...


class WallClock:
    """The time of this machine."""

    def now(self) -> float:
        return time.time()  # noqa: TID251  the one place that may ask

    async def sleep_until(self, moment: float) -> None:
        while (left := moment - self.now()) > 0:  # noqa: ASYNC110  the machine may have slept
            await asyncio.sleep(left)

    @property
    def steady(self) -> "Clock":
        return _STEADY


class SteadyClock:
    """Seconds since some moment or other; it never goes back."""

    def now(self) -> float:
        return time.monotonic()

    async def sleep_until(self, moment: float) -> None:
        while (left := moment - self.now()) > 0:  # noqa: ASYNC110  a timer may be a hair early
            await asyncio.sleep(left)

    @property
    def steady(self) -> Clock:
        return self


_STEADY = SteadyClock()


class Timer:
    """Sets an event when the clock reaches the moment it was last set for.

    To be set anew costs nothing while the moment stays, so a loop may do so at every turn.  How long it takes
    until that moment is asked when it is set: it rings then even if the clock is set back meanwhile.
    """

    def __init__(self, clock: Clock, event: asyncio.Event) -> None:
        self._clock = clock
        self._event = event
        self._moment: float | None = None  # when it is to ring; None: not at all
        self._sleep: asyncio.Task[None] | None = None  # there exactly while there is a moment

    def reset(self, moment: float | None) -> None:
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
        steady = self._clock.steady
        await steady.sleep_until(steady.now() + moment - self._clock.now())
        self._moment = self._sleep = None
        self._event.set()
