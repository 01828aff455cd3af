"""The worker clusters of ``quorate local up --clusters``: each is a process beside that of the manager."""

import asyncio
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Final

from quorate.cli.local_background import IN_BACKGROUND, end_of_log, own_program, stop
from quorate.inspect.errors import UsageError
from quorate.local.directory import DESCRIPTION, ClusterDirectory, RunningCluster

_POLL_S: Final = 0.05
_READY_WITHIN_S: Final = 180.0  # several processes start at once, on a busy machine


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    directory: ClusterDirectory
    process: subprocess.Popen[bytes]

    @property
    def name(self) -> str:
        return self.directory.path.name

    async def until_ready(self) -> None:
        """Return once the cluster is ready.  Raises ``UsageError`` if its process ends before."""
        try:
            async with asyncio.timeout(_READY_WITHIN_S):
                while not ((running := self.directory.running()) and running.is_ready):
                    if self.process.poll() is not None:
                        log = end_of_log(self.directory.log.read_text())
                        raise UsageError(f"{self.name} has ended: {log}")
                    await asyncio.sleep(_POLL_S)
        except TimeoutError:
            raise UsageError(
                f"{self.name} is not ready within {_READY_WITHIN_S:g} s (its log: {self.directory.log})"
            ) from None


def start_worker(directory: ClusterDirectory, nodes: str, options: Sequence[str]) -> WorkerProcess:
    """Start the cluster of ``directory`` with these options of ``quorate local up``.

    ``nodes`` is the text of its description. The worker of a manager that was killed is stopped first.
    """
    stop(directory)
    port = str(directory.last_port or 0)  # the kubeconfigs of the worker stay valid
    command = [
        *own_program(), "local", "up", "--data-dir", str(directory.path), "--port", port, "--clusters", "1",
    ]  # fmt: skip
    with directory.open_log() as log:
        (directory.path / DESCRIPTION).write_text(nodes)
        process = subprocess.Popen(
            [*command, *options, IN_BACKGROUND],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    return WorkerProcess(directory, process)


def end_workers(workers: Sequence[WorkerProcess]) -> None:
    """Stop the clusters, also a cluster that a user has restarted; end a cluster that still starts."""
    for worker in workers:
        if worker.directory.running() is None:
            worker.process.terminate()
    stop_workers([worker.directory for worker in workers])
    for worker in workers:
        worker.process.wait()


def stop_workers(directories: Sequence[ClusterDirectory]) -> list[RunningCluster]:
    """Stop the clusters that run in ``directories`` at once, and return them.  Raises ``UsageError``."""
    if not directories:
        return []
    with ThreadPoolExecutor(len(directories)) as threads:
        return [stopped for stopped in threads.map(stop, directories) if stopped is not None]
