"""A clock that a test advances."""

import asyncio
import heapq


class VirtualClock:
    """``off_s`` is the difference of the wall clock to the steady clock: setting it sets the wall clock."""

    def __init__(self, now: float = 1000.0) -> None:
        self.off_s = 0.0
        self._now = now
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._tickets = 0
        self.slept = asyncio.Event()  # set when a sleep begins

    def now(self) -> float:
        return self._now + self.off_s

    async def sleep_until(self, moment: float) -> None:
        await self._sleep(moment - self.off_s)

    async def _sleep(self, moment: float) -> None:
        if moment > self._now:
            woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._tickets += 1
            heapq.heappush(self._sleepers, (moment, self._tickets, woken))
            self.slept.set()
            await woken

    @property
    def steady(self) -> "_Steady":
        return _Steady(self)

    def pass_time(self, seconds: float) -> None:
        """Advance the time without waking what sleeps."""
        self._now += seconds

    async def advance_to(self, moment: float) -> None:
        self._now = moment
        while self._sleepers and self._sleepers[0][0] <= moment:
            woken = heapq.heappop(self._sleepers)[2]
            if not woken.done():
                woken.set_result(None)
        await settle()


class _Steady:
    def __init__(self, clock: VirtualClock) -> None:
        self._clock = clock

    def now(self) -> float:
        return self._clock.now() - self._clock.off_s

    async def sleep_until(self, moment: float) -> None:
        await self._clock._sleep(moment)

    @property
    def steady(self) -> "_Steady":
        return self


async def settle() -> None:
    """Run every task until it waits for time to pass or for a socket."""
    for _ in range(20):
        await asyncio.sleep(0)
