"""Following the file of the configuration while the process runs.

The file is read now and then, whole: that also sees a mounted ConfigMap, whose files are links that are
swapped.  A text that is the same twice in a row is taken to be complete.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from quorate.api.configuration import Configuration, apply_reload
from quorate.cli.files import InvalidFiles, configuration_in, read_text
from quorate.kube.clock import Clock
from quorate.kube.log import logger
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration

EVERY_S: Final = 1.0


async def follow(path: Path, clock: Clock, take_over: Callable[[str], None]) -> None:
    """Have ``take_over`` called with each text that ``path`` comes to hold, until cancelled.

    It raises ``InvalidFiles`` for one that is wrong: that is logged, and changes nothing.
    """
    judged: str | InvalidFiles | None = None
    latest: str | InvalidFiles | None = None
    while True:
        await clock.sleep_until(clock.now() + EVERY_S)
        before, latest = latest, (now := _read(path))
        if now == before and now != judged:
            judged = now
            try:
                if isinstance(now, InvalidFiles):
                    raise now
                take_over(now)
            except InvalidFiles as invalid:
                log = logger(__name__).bind(file=path)
                for finding in invalid.findings:
                    log.error("configuration refused, the last one stays in force", finding=finding)


def _read(path: Path) -> str | InvalidFiles:
    try:
        return read_text(path)
    except InvalidFiles as invalid:
        return invalid


class ConfigurationFile:
    def __init__(
        self,
        path: Path,
        configured: DynamicConfiguration[Configuration],
        clock: Clock,
        adapt: Callable[[Configuration], Configuration],
    ) -> None:
        """``configured`` holds what the file said at the start; ``adapt`` what the command line changes."""
        self._path = path
        self._configured = configured
        self._clock = clock
        self._adapt = adapt
        self._log = logger(__name__).bind(file=path)

    async def follow(self) -> None:
        """Take over what the file comes to say, until cancelled; what is wrong with it changes nothing."""
        await follow(self._path, self._clock, self._take_over)

    def _take_over(self, text: str) -> None:
        """Raises ``InvalidFiles``."""
        loaded = configuration_in(self._path, text)
        running = self._configured.current
        new, waiting = apply_reload(running, self._adapt(loaded.configuration))
        if new == running and not waiting:
            return
        for warning in loaded.warnings:
            self._log.warning("configuration", finding=warning)
        if waiting:
            self._log.warning("configuration needs a restart for some fields", fields=", ".join(waiting))
        if new != running:
            self._log.info("configuration taken over")
            self._configured.update(new)
