"""``python -m bench.admission.server DIR``: run only the local API server, in a separate process.

As in an envtest environment, no other component runs: no job controller, no garbage collection,
no nodes.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import uvloop

from quorate.api.kueue import GROUP
from quorate.api.kueue.conversion import convert_version
from quorate.kube.clock import WallClock
from quorate.local.cluster import run_server
from quorate.local.directory import ClusterDirectory
from quorate.processes.process_setup import new_uid, tune_garbage_collection, wait_for_signal


@asynccontextmanager
async def local_server(directory: Path) -> AsyncIterator[Path]:
    """Run a server with its state in ``directory`` for the duration of the block; yield its kubeconfig."""
    command = (sys.executable, "-m", "bench.admission.server", str(directory))
    process = await asyncio.create_subprocess_exec(*command, stdout=PIPE)
    try:
        assert process.stdout is not None
        if not await process.stdout.readline():
            raise RuntimeError("the local API server did not start; see its output above")
        yield ClusterDirectory(directory).kubeconfig
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


async def _serve(directory: Path) -> None:
    clock = WallClock()
    with ClusterDirectory(directory).lock(clock.now()) as held:
        async with run_server(held, 0, clock, new_uid, {GROUP: convert_version}):
            await wait_for_signal(lambda: print("ready", flush=True))  # noqa: T201  the parent process reads it


if __name__ == "__main__":
    tune_garbage_collection()
    uvloop.run(_serve(Path(sys.argv[1])))
