"""Reload the configuration file while the process runs.

The whole file is read once a second.  That works for a mounted ConfigMap too, where the kubelet swaps
symbolic links.  A text counts as complete when it is the same twice in a row.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from quorate.api.configuration import Configuration, apply_reload
from quorate.api.scheduler_configuration import SchedulerConfiguration
from quorate.inspect.configuration_files import (
    InvalidFiles,
    configuration_in,
    read_text,
    scheduler_configuration_in,
)
from quorate.kube.clock import Clock
from quorate.kube.log import logger
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration

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


class SchedulerConfigurationInForce:
    """The configuration by which a gang scheduler decides: its file, and every valid change of it."""

    def __init__(self, path: Path | None, text: str, configuration: SchedulerConfiguration) -> None:
        """``text`` is the content of ``path``."""
        self.configured = DynamicConfiguration(configuration)
        self.text = text  # as last applied
        self._path = path

    async def follow(self, clock: Clock) -> None:
        """Apply changes of the file until cancelled; ignore an invalid file."""
        if self._path is not None:
            await follow(self._path, clock, self._apply)

    def _apply(self, text: str) -> None:
        """Apply a changed text.  Raises ``InvalidFiles``."""
        assert self._path is not None
        loaded = scheduler_configuration_in(self._path, text)
        self.text = text
        if loaded.configuration == self.configured.current:
            return
        for warning in loaded.warnings:
            logger(__name__).warning("configuration", file=self._path, finding=warning)
        self.configured.update(loaded.configuration)


class ConfigurationInForce:
    """The Configuration by which a process decides: its file at the start, and every valid change of it."""

    def __init__(
        self,
        path: Path | None,
        text: str,
        configuration: Configuration,
        adapt: Callable[[Configuration], Configuration] = lambda new: new,
    ) -> None:
        """``text`` is the content of ``path``; ``adapt`` applies the options of the command line."""
        self.configured = DynamicConfiguration(adapt(configuration))
        self.text = text  # as last applied
        self.needs_restart: tuple[str, ...] = ()  # fields of ``text`` that keep their value until a restart
        self._path = path
        self._adapt = adapt
        self._log = logger(__name__).bind(file=path)

    async def follow(self, clock: Clock) -> None:
        """Apply changes of the file until cancelled; ignore an invalid file."""
        if self._path is not None:
            await follow(self._path, clock, self._apply)

    def _apply(self, text: str) -> None:
        """Apply the fields that can change at runtime.  Raises ``InvalidFiles``."""
        assert self._path is not None
        loaded = configuration_in(self._path, text)
        running = self.configured.current
        new, needs_restart = apply_reload(running, self._adapt(loaded.configuration))
        self.text, self.needs_restart = text, needs_restart
        if new == running and not needs_restart:
            return
        for warning in loaded.warnings:
            self._log.warning("configuration", finding=warning)
        if needs_restart:
            self._log.warning("configuration fields need a restart", fields=", ".join(needs_restart))
        if new != running:
            self._log.info("configuration reloaded")
            self.configured.update(new)
