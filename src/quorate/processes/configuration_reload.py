"""Reload the configuration file while the process runs.

The whole file is read once a second.  That works for a mounted ConfigMap too, where the kubelet swaps
symbolic links.  A text counts as complete when it is the same twice in a row.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Final, Generic, TypeVar

from quorate.api.configuration import Configuration, apply_reload, load_configuration
from quorate.api.scheduler_configuration import SchedulerConfiguration, load_scheduler_configuration
from quorate.inspect.configuration_files import InvalidFiles, configuration_in, read_text
from quorate.kube.clock import Clock
from quorate.kube.log import logger
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration

C = TypeVar("C")

POLL_INTERVAL_S: Final = 1.0


async def follow(path: Path, clock: Clock, apply: Callable[[str], None]) -> None:
    """Call ``apply`` with each new text of ``path``, until cancelled.

    ``apply`` raises ``InvalidFiles`` for an invalid text, which is logged.
    """
    applied: str | InvalidFiles | None = None
    latest: str | InvalidFiles | None = None
    while True:
        await clock.sleep_until(clock.now() + POLL_INTERVAL_S)
        before, latest = latest, (now := _read(path))
        if now == before and now != applied:
            applied = now
            try:
                if isinstance(now, InvalidFiles):
                    raise now
                apply(now)
            except InvalidFiles as invalid:
                log = logger(__name__).bind(file=path)
                for finding in invalid.findings:
                    log.error("invalid configuration ignored", finding=finding)


def _read(path: Path) -> str | InvalidFiles:
    try:
        return read_text(path)
    except InvalidFiles as invalid:
        return invalid


class FollowedFile(ABC, Generic[C]):
    """The configuration by which a process decides: its file at the start, and every valid change of it."""

    def __init__(self, path: Path | None, text: str, configuration: C) -> None:
        """``text`` is the content of ``path``."""
        self.configured = DynamicConfiguration(configuration)
        self.text = text  # as last applied
        self._path = path
        self._log = logger(__name__).bind(file=path)

    async def follow(self, clock: Clock) -> None:
        """Apply changes of the file until cancelled; ignore an invalid file."""
        if self._path is not None:
            await follow(self._path, clock, partial(self._apply, self._path))

    @abstractmethod
    def _apply(self, path: Path, text: str) -> None:
        """Apply a changed text.  Raises ``InvalidFiles``."""

    def _warn(self, warnings: Iterable[str]) -> None:
        for warning in warnings:
            self._log.warning("configuration", finding=warning)


class SchedulerConfigurationInForce(FollowedFile[SchedulerConfiguration]):
    """The configuration of a gang scheduler."""

    def _apply(self, path: Path, text: str) -> None:
        loaded = configuration_in(path, text, load_scheduler_configuration)
        self.text = text
        if loaded.configuration != self.configured.current:
            self._warn(loaded.warnings)
            self.configured.update(loaded.configuration)


class ConfigurationInForce(FollowedFile[Configuration]):
    """The Configuration of the queueing controllers, or of a process that decides by it as well."""

    def __init__(
        self,
        path: Path | None,
        text: str,
        configuration: Configuration,
        adapt: Callable[[Configuration], Configuration] = lambda new: new,
    ) -> None:
        """``text`` is the content of ``path``; ``adapt`` applies the options of the command line."""
        super().__init__(path, text, adapt(configuration))
        self.needs_restart: tuple[str, ...] = ()  # fields of ``text`` that keep their value until a restart
        self._adapt = adapt

    def _apply(self, path: Path, text: str) -> None:
        """Apply the fields that can change at runtime.  Raises ``InvalidFiles``."""
        loaded = configuration_in(path, text, load_configuration)
        running = self.configured.current
        new, needs_restart = apply_reload(running, self._adapt(loaded.configuration))
        self.text, self.needs_restart = text, needs_restart
        if new == running and not needs_restart:
            return
        self._warn(loaded.warnings)
        if needs_restart:
            self._log.warning("configuration fields need a restart", fields=", ".join(needs_restart))
        if new != running:
            self._log.info("configuration reloaded")
            self.configured.update(new)
