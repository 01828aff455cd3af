"""The measured process, and the CPU and memory usage of it and its children from /proc."""

import asyncio
import os
from asyncio.subprocess import DEVNULL, Process
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")
_SAMPLE_EVERY_S: Final = 0.2


@asynccontextmanager
async def running(command: Sequence[str], kubeconfig: Path, log: Path) -> AsyncIterator[Process]:
    """Run ``command`` for the cluster of ``kubeconfig``; terminate it at the end of the block."""
    environment = os.environ | {"KUBECONFIG": str(kubeconfig)}
    with log.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            *command, stdin=DEVNULL, stdout=output, stderr=output, env=environment
        )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()


class Usage:
    """Usage sampled while ``follow`` runs, including processes that have ended."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._cpu_s: dict[int, float] = {}
        self._initial_s: dict[int, float] = {}
        self.peak_bytes = 0  # total resident memory

    @property
    def cpu_s(self) -> float:
        """Return the CPU time since ``begin``, or since the start of a later process."""
        return sum(cpu_s - self._initial_s.get(pid, 0.0) for pid, cpu_s in self._cpu_s.items())

    def begin(self) -> None:
        """Count only from now on, for processes that ran before the benchmark."""
        self.sample()
        self._initial_s = dict(self._cpu_s)

    async def follow(self) -> None:
        """Until cancelled."""
        while True:
            self.sample()
            await asyncio.sleep(_SAMPLE_EVERY_S)

    def sample(self) -> None:
        resident = 0
        for pid in _process_tree(self._pid):
            try:
                stat = (_PROC / str(pid) / "stat").read_text()
                status = (_PROC / str(pid) / "status").read_text()
            except (FileNotFoundError, ProcessLookupError):
                continue  # the process has ended
            user, system = stat.rpartition(")")[2].split()[11:13]
            self._cpu_s[pid] = (int(user) + int(system)) * _TICK_S
            resident += sum(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))
        self.peak_bytes = max(self.peak_bytes, resident * 1024)


def _process_tree(pid: int) -> Iterator[int]:
    yield pid
    try:
        children = (_PROC / str(pid) / "task" / str(pid) / "children").read_text().split()
    except (FileNotFoundError, ProcessLookupError):
        return
    for child in children:
        yield from _process_tree(int(child))
