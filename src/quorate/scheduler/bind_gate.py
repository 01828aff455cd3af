"""Binds go before what is only told: statuses nobody acts on, and events.

The server that takes both has only so much time.  So while more binds wait than may be under way, what is
only told makes way; but not for ever, as there may be no end of binds.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

PATIENCE_S: Final = 0.1  # how long whoever has something to tell makes way for binds


class BindGate:
    """``taken`` exactly while binds wait for others to be through."""

    def __init__(self) -> None:
        self._free = asyncio.Event()
        self._free.set()
        self._when_free: list[Callable[[], None]] = []

    @property
    def taken(self) -> bool:
        return not self._free.is_set()

    def take(self) -> None:
        self._free.clear()

    def give_back(self) -> None:
        if self.taken:
            self._free.set()
            for call in self._when_free:
                call()

    def when_free(self, call: Callable[[], None]) -> None:
        """Have ``call`` called each time it is given back."""
        self._when_free.append(call)

    async def wait(self) -> None:
        """Return when nobody goes before any more, or after making way for long enough."""
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE_S):
                await self._free.wait()
