"""The processes of the benchmarks: each runs within a block, from the line with which it says it is ready."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple


class Dashboard(NamedTuple):
    pid: int
    base: str  # its URL


@asynccontextmanager
async def running_dashboard(
    kubeconfig: Path, history: Path, cores: Collection[int] = ()
) -> AsyncIterator[Dashboard]:
    """Run the dashboard of a cluster, without forecasts, on ``cores`` only if they are given."""
    command = (
        "quorate", "dashboard", "--kubeconfig", str(kubeconfig), "--address", "127.0.0.1:0",
        "--without-forecasts", "--history", str(history),
    )  # fmt: skip
    async with started(command, "http://", cores) as (process, line):
        yield Dashboard(process.pid, line[line.index("http://") :].split("/login")[0])


@asynccontextmanager
async def started(
    module: Sequence[str], ready: str, cores: Collection[int] = ()
) -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """Run a module with its arguments; yield the process and its first line with ``ready``."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *module, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    try:
        if cores:
            os.sched_setaffinity(process.pid, cores)
        assert process.stdout is not None
        async with asyncio.timeout(120):
            while ready not in (line := (await process.stdout.readline()).decode()):
                assert line, f"{' '.join(module)} ended"
        yield process, line
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()
