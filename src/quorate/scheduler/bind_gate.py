"""Priority of binds over writes that can wait: statuses that no controller acts on, and events.

The API server that takes both has a limited capacity.  While more binds are queued than may be in flight, the
other writes wait; but only for a bounded time, because binds may never cease.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from quorate.scheduler.limits import MAX_WAIT_S


class BindGate:
    """A rate limiter for other writes, closed exactly while binds are queued.

    A write waits at most ``max_wait_s``.
    """

    def __init__(self, max_wait_s: float = MAX_WAIT_S) -> None:
        self._max_wait_s = max_wait_s
        self._open = asyncio.Event()
        self._open.set()
        self._callbacks: list[Callable[[], None]] = []

    @property
    def is_closed(self) -> bool:
        return not self._open.is_set()

    def close(self) -> None:
        self._open.clear()

    def open(self) -> None:
        if self.is_closed:
            self._open.set()
            for callback in self._callbacks:
                callback()

    def on_open(self, callback: Callable[[], None]) -> None:
        """Call ``callback`` each time the gate opens."""
        self._callbacks.append(callback)

    async def wait(self) -> None:
        """Return when the gate is open, or after the longest wait of a write."""
        await self.wait_at_most(self._max_wait_s)

    async def wait_at_most(self, seconds: float) -> None:
        """Return when the gate is open, or after ``seconds``."""
        if self.is_closed:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._open.wait()
