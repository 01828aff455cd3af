"""Following the file of the configuration while the process runs.

The file is read now and then, whole: that also sees a mounted ConfigMap, whose files are links that are
swapped.  A text that is the same twice in a row is taken to be complete.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from quorate.api.configuration import Configuration
from quorate.api.configuration_changes import taken_over
from quorate.cli.files import InvalidFiles, configuration_in, text_of
from quorate.controllers.configured import Configured
from quorate.kube.clock import Clock
from quorate.kube.log import logger

EVERY_S: Final = 1.0


class ConfigurationFile:
    def __init__(
        self,
        path: Path,
        configured: Configured,
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
        judged: str | InvalidFiles | None = None
        latest: str | InvalidFiles | None = None
        while True:
            await self._clock.sleep_until(self._clock.now() + EVERY_S)
            before, latest = latest, (now := self._read())
            if now == before and now != judged:
                judged = now
                self._judge(now)

    def _read(self) -> str | InvalidFiles:
        try:
            return text_of(self._path)
        except InvalidFiles as invalid:
            return invalid

    def _judge(self, text: str | InvalidFiles) -> None:
        try:
            if isinstance(text, InvalidFiles):
                raise text
            loaded = configuration_in(self._path, text)
        except InvalidFiles as invalid:
            for finding in invalid.findings:
                self._log.error("configuration refused, the last one stays in force", finding=finding)
            return
        running = self._configured.current
        new, waiting = taken_over(running, self._adapt(loaded.configuration))
        if new == running and not waiting:
            return
        for warning in loaded.warnings:
            self._log.warning("configuration", finding=warning)
        if waiting:
            self._log.warning("configuration needs a restart for some fields", fields=", ".join(waiting))
        if new != running:
            self._log.info("configuration taken over")
            self._configured.renew(new)
