"""``quorate controllers`` as a process that a scenario starts, measures and ends by SIGKILL."""

import asyncio
import json
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from tests.e2e.test_controllers_command import kubeconfig

Json = dict[str, Any]
MIB: Final = 2**20
KILLED: Final = -9


class Controllers:
    """Processes with one configuration; each has a log in ``directory``."""

    def __init__(self, directory: Path, server: str, token: str, configuration: Json) -> None:
        self._directory = directory
        self._kubeconfig = kubeconfig(directory, server, token)
        self._configuration = directory / "configuration.yaml"
        head = {"apiVersion": "config.kueue.x-k8s.io/v1beta2", "kind": "Configuration"}
        self._configuration.write_text(json.dumps(head | configuration))  # JSON is YAML
        self._started = 0

    @asynccontextmanager
    async def running(self) -> AsyncIterator["Running"]:
        """Run a process for the duration of the block, then kill it."""
        self._started += 1
        log = self._directory / f"controllers-{self._started}.log"
        command = (sys.executable, "-m", "quorate", "controllers", "--no-webhooks", "--log-format", "json")
        files = ("--kubeconfig", str(self._kubeconfig), "--config", str(self._configuration))
        with log.open("wb") as output:
            process = await asyncio.create_subprocess_exec(
                *command, *files, stdin=DEVNULL, stdout=DEVNULL, stderr=output
            )
        running = Running(process, log)
        try:
            yield running
        finally:
            await running.kill()

    def findings(self) -> list[str]:
        """Return the internal errors that any of the processes logged."""
        logs = sorted(self._directory.glob("controllers-*.log"))
        return [f"{log.name}: {line[:2000]}" for log in logs for line in _tracebacks(log)]


def _tracebacks(log: Path) -> list[str]:
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if "Traceback" in line]


class Running:
    def __init__(self, process: Process, log: Path) -> None:
        self._process = process
        self._log = log
        self._killed = False

    async def kill(self) -> None:
        """End the process by SIGKILL.  Raises ``AssertionError`` if it ended by itself."""
        if self._killed:
            return
        self.must_run()
        self._killed = True
        self._process.kill()
        await self._process.wait()

    def must_run(self) -> None:
        if not self._killed and self._process.returncode is not None:
            self._killed = True
            log = self._log.read_text(encoding="utf-8", errors="replace")[-3000:]
            raise AssertionError(f"the controllers ended with {self._process.returncode}: {log}")

    def logged(self, text: str) -> bool:
        return text in self._log.read_text(encoding="utf-8", errors="replace")

    @property
    def resident_bytes(self) -> int:
        """Return the resident memory of the process."""
        status = Path(f"/proc/{self._process.pid}/status").read_text(encoding="utf-8")
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")) * 1024
