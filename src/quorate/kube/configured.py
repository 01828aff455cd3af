"""The configuration in force, word of the next one, and beginning anew by it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

from quorate.kube.log import logger
from quorate.kube.stopping import unless_stopped

C = TypeVar("C")


class Renewed(Exception):
    """Another configuration is in force: what was built on the last one must be built anew."""


class Configured(Generic[C]):
    def __init__(self, configuration: C) -> None:
        self.current = configuration
        self._changed = asyncio.Event()

    def renew(self, configuration: C) -> None:
        self.current = configuration
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def while_current(self, configuration: C) -> None:
        """Raises ``Renewed`` once ``configuration`` is no longer the one in force."""
        while self.current is configuration:
            await self._changed.wait()
        raise Renewed


async def run_as_configured(
    configured: Configured[C], run: Callable[[C], Coroutine[None, None, None]]
) -> None:
    """``run`` by the configuration in force, and anew by each that comes after it."""
    while True:
        configuration = configured.current
        try:
            await unless_stopped(_while_current(configured, configuration, run))
        except* Renewed:
            logger(__name__).info("building the model anew", by="the configuration that came into force")


async def _while_current(
    configured: Configured[C], configuration: C, run: Callable[[C], Coroutine[None, None, None]]
) -> None:
    """Raises ``Renewed``."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run(configuration), name="by the configuration in force")
        tasks.create_task(configured.while_current(configuration), name="while it is in force")
