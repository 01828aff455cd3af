"""The configuration in force, and word of the next one."""

import asyncio

from quorate.api.configuration import Configuration


class Renewed(Exception):
    """Another configuration is in force: what was built on the last one must be built anew."""


class Configured:
    def __init__(self, configuration: Configuration) -> None:
        self.current = configuration
        self._changed = asyncio.Event()

    def renew(self, configuration: Configuration) -> None:
        self.current = configuration
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def while_current(self, configuration: Configuration) -> None:
        """Raises ``Renewed`` once ``configuration`` is no longer the one in force."""
        while self.current is configuration:
            await self._changed.wait()
        raise Renewed
