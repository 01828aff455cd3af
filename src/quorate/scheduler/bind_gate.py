"""Priority of binds over writes that can wait: statuses that no controller acts on, and events.

The API server that takes both has a limited capacity.  While more binds are queued than may be in flight, the
other writes wait; but only for a bounded time, because binds may never cease.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Generic, TypeVar

from quorate.api.meta import Key
from quorate.kube.controller.latest import LatestValueWriter
from quorate.scheduler.limits import MAX_STATUS_DELAY_S, MAX_WAIT_S

T = TypeVar("T")


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


class WritesAfterBinds(Generic[T]):
    """Values for ``writer`` that wait while binds are queued, and are replaced by later ones meanwhile."""

    def __init__(self, writer: LatestValueWriter[T], gate: BindGate) -> None:
        self._writer = writer
        self._gate = gate
        self._delays: dict[Key, float] = {}  # once no binds are queued: within how many seconds
        gate.on_open(self._opened)

    def put(self, key: Key, value: T, delay_s: float, *, can_wait: bool = True) -> None:
        """Write ``value`` within ``delay_s``, or that long after the binds; at most after a few seconds."""
        if self._gate.is_closed and can_wait:
            self._delays[key] = min(delay_s, self._delays.get(key, delay_s))
            delay_s = MAX_STATUS_DELAY_S
        self._writer.put(key, value, delay_s=delay_s)

    def _opened(self) -> None:
        for key, delay_s in self._delays.items():
            self._writer.flush(key, within_s=delay_s)
        self._delays.clear()
