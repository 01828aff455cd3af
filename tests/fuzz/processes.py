"""The processes under attack: their logs, their event loops, their memory and their ends."""

import asyncio
import json
import os
import re
import sys
from asyncio.subprocess import DEVNULL, Process
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.fuzz.findings import Findings
from tests.fuzz.probe import PROBE

MAX_RESTARTS: Final = 20
STOP_TIMEOUT_S: Final = 10.0
TAIL_CHARS: Final = 3000
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")
_FRAME: Final = re.compile(r'File "([^"]+)", line (\d+), in (\S+)')
_EXPECTED_ERRORS: Final = ("object ignored: it cannot be decoded",)


@dataclass
class ObservedProcess:
    """One process, started again whenever it ends."""

    name: str
    arguments: Sequence[str]
    directory: Path
    findings: Findings
    limit_ms: float
    restarts: int = 0
    worst_block_s: float = 0.0
    blocks: int = 0
    memory_mb: list[float] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)  # records of level error, by message
    _process: Process | None = None
    _read: dict[Path, int] = field(default_factory=dict)  # bytes read so far of each file

    @property
    def log(self) -> Path:
        return self.directory / f"{self.name}.log"

    @property
    def output(self) -> Path:
        return self.directory / f"{self.name}.out"

    async def start(self) -> None:
        report = self.directory / f"{self.name}.blocks"
        command = (sys.executable, "-m", "tests.fuzz.observed", str(report), str(self.limit_ms))
        with self.log.open("ab") as log, self.output.open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *command, *self.arguments, stdin=DEVNULL, stdout=output, stderr=log
            )

    async def stop(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            await asyncio.wait_for(process.wait(), STOP_TIMEOUT_S)
        except TimeoutError:
            process.kill()
            await process.wait()

    async def watch(self) -> None:
        """Observe the process until cancelled."""
        while True:
            await asyncio.sleep(0.5)
            self.observe()
            process = self._process
            if process is not None and process.returncode is not None:
                self.restarts += 1
                self.findings.add("restart", f"{self.name} ended", self._tail())
                if self.restarts > MAX_RESTARTS:
                    raise AssertionError(f"{self.name} ended {self.restarts} times\n{self._tail()}")
                await self.start()

    def observe(self) -> None:
        """Read what the process has written since the last call."""
        self._read_memory()
        for line in self._new_lines(self.directory / f"{self.name}.blocks"):
            self._on_block(json.loads(line))
        plain: list[str] = []
        for line in self._new_lines(self.log):
            record = _record(line)
            if record is None:
                plain.append(line)
            elif "traceback" in record:
                self._on_traceback(record["traceback"], line)
            elif record.get("level") == "error" and record.get("message") not in _EXPECTED_ERRORS:
                self.errors[record["message"]] += 1
            elif record.get("message") == "difference" and record.get("name") == PROBE:
                self.findings.add("difference", f"{record['reason']} of the probe's queue", line)
        if any("Traceback (most recent call last)" in line or "never retrieved" in line for line in plain):
            self._on_traceback("\n".join(plain), "\n".join(plain))

    def _on_traceback(self, traceback: str, context: str) -> None:
        frames = [frame for frame in _FRAME.findall(traceback) if "/quorate/" in frame[0]]
        path, line, function = (frames or [("?", "?", "?")])[-1]
        error = traceback.strip().splitlines()[-1][:120]
        where = f"{path.rpartition('/src/')[2]}:{line} {function}"
        self.findings.add(
            "traceback", f"{self.name}: {where}: {error.split(':')[0]}", f"{context[:600]}\n{traceback}"
        )

    def _on_block(self, block: dict[str, Any]) -> None:
        self.blocks += 1
        self.worst_block_s = max(self.worst_block_s, block["cpu_s"])
        ours = [frame for frame in block["stack"] if "/src/quorate/" in frame]
        place = ours[0].rpartition("/src/")[2] if ours else "in one call of a library"
        if block["collecting_s"] > block["cpu_s"] / 2:
            place = "garbage collection"
        cause = f"{self.name}: {re.sub(r':[0-9]+ ', ' ', place)}"
        stack = "\n".join(block["stack"])
        cpu_ms, wall_ms = block["cpu_s"] * 1000, block["wall_s"] * 1000
        detail = f"{cpu_ms:.0f} ms of CPU, {wall_ms:.0f} ms in all; {block['subject']}\n{stack}"
        self.findings.add("block", cause, detail, block["cpu_s"])

    def _read_memory(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        try:
            pages = int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
        except (FileNotFoundError, ProcessLookupError):
            return
        self.memory_mb.append(pages * _PAGE / 2**20)

    def _new_lines(self, path: Path) -> list[str]:
        if not path.exists():
            return []
        with path.open("rb") as file:
            file.seek(self._read.get(path, 0))
            text = file.read()
        complete = text[: text.rfind(b"\n") + 1]
        self._read[path] = self._read.get(path, 0) + len(complete)
        return complete.decode(errors="replace").splitlines()

    def _tail(self) -> str:
        return self.log.read_text(encoding="utf-8", errors="replace")[-TAIL_CHARS:]


def _record(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None
