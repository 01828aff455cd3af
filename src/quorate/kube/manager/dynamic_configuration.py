"""A configuration that can be replaced at run time, and work that restarts with each new one."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Generic, TypeVar

from quorate.kube.cancellation import run_cancellable
from quorate.kube.log import logger

C = TypeVar("C")


class ConfigurationChanged(Exception):
    """The configuration was replaced: state built from the previous one must be rebuilt."""


class DynamicConfiguration(Generic[C]):
    def __init__(self, configuration: C) -> None:
        self.current = configuration
        self._changed = asyncio.Event()

    def update(self, configuration: C) -> None:
        self.current = configuration
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()

    async def until_changed(self, configuration: C) -> None:
        """Raise ``ConfigurationChanged`` once ``configuration`` is not the current one."""
        while self.current is configuration:
            await self._changed.wait()
        raise ConfigurationChanged


async def run_with_current(
    dynamic: DynamicConfiguration[C], run: Callable[[C], Coroutine[None, None, None]]
) -> None:
    """Run with the current configuration, and restart with each new one."""
    while True:
        configuration = dynamic.current
        try:
            await run_cancellable(_until_changed(dynamic, configuration, run))
        except* ConfigurationChanged:
            logger(__name__).info("configuration changed: rebuilding the model")


async def _until_changed(
    dynamic: DynamicConfiguration[C], configuration: C, run: Callable[[C], Coroutine[None, None, None]]
) -> None:
    """Run until the end or until ``ConfigurationChanged`` is raised."""
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(run(configuration), name="run with the current configuration")
        tasks.create_task(dynamic.until_changed(configuration), name="until the configuration changes")
