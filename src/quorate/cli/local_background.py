"""Clusters that are processes of their own: ``quorate local up --detach``, its log, and worker clusters."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import typer
from rich.console import Console

from quorate.cli.exit_codes import Exit
from quorate.inspect.errors import UsageError
from quorate.local.directory import DESCRIPTION, ClusterDirectory, DirectoryInUse, RunningCluster

IN_BACKGROUND: Final = "--in-background"  # the hidden option of the process itself
_STOP_TIMEOUT_S: Final = 15.0
_POLL_S: Final = 0.05
_LAST_LINES: Final = 20

_READY_WITHIN_S: Final = 180.0  # several processes start at once, on a busy machine


def own_program() -> tuple[str, ...]:
    """Return the beginning of a command line that starts this program again."""
    path = Path(sys.argv[0])
    is_program = path.name == "quorate" and os.access(path, os.X_OK)
    return (str(path),) if is_program else (sys.executable, "-m", "quorate")


def start_in_background(
    directory: ClusterDirectory, within_s: float, is_announced: Callable[[str], bool]
) -> tuple[RunningCluster, str]:
    """Start this command line once more in the background; return the ready cluster and its log.

    The log must satisfy ``is_announced`` as well. Progress goes to standard error. A process that ends
    before it is ready, or is not ready after ``within_s`` seconds, raises ``typer.Exit`` with its last lines.
    """
    if (running := directory.running()) is not None:
        raise DirectoryInUse(directory.path, running)
    with directory.open_log() as log:
        process = subprocess.Popen(
            [*own_program(), *sys.argv[1:], IN_BACKGROUND],
            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
        )  # fmt: skip
    try:
        with _progress() as show:
            return _ready(directory, process, time.monotonic() + within_s, show, is_announced)
    except KeyboardInterrupt:
        process.terminate()
        process.wait(_STOP_TIMEOUT_S)
        typer.echo("stopped", err=True)
        raise typer.Exit(Exit.INTERRUPTED) from None


def _ready(
    directory: ClusterDirectory,
    process: subprocess.Popen[bytes],
    deadline: float,
    show: Callable[[str], None],
    is_announced: Callable[[str], bool],
) -> tuple[RunningCluster, str]:
    while True:
        ended = process.poll()  # before the record: a cluster that ended has none
        running = directory.running()
        if ended is not None:
            typer.echo(end_of_log(directory.log.read_text()), err=True)
            raise typer.Exit(ended if ended > 0 else Exit.FAILED)
        if running is not None and running.is_ready and is_announced(log := directory.log.read_text()):
            return running, log
        show("install the queueing kinds, start the controllers and register the nodes"
             if running and running.server else "start the API server")  # fmt: skip
        if time.monotonic() >= deadline:
            remedy = "quorate local logs --follow shows its progress, quorate local down stops it"
            typer.echo(f"error: process {process.pid} is not ready yet and goes on ({remedy})", err=True)
            raise typer.Exit(Exit.TIMED_OUT)
        time.sleep(_POLL_S)


def end_of_log(log: str) -> str:
    """Return the errors in the log of a process that ended early; its last lines if it has none."""
    lines = log.splitlines()
    return "\n".join([line for line in lines if line.startswith("error:")] or lines[-_LAST_LINES:])


@contextmanager
def _progress() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows the current step: in place on a terminal, else one line for each step."""
    console = Console(stderr=True)
    if console.is_terminal:
        with console.status("start the process") as status:
            yield status.update
        return
    shown: list[str] = []

    def show(step: str) -> None:
        if step not in shown:
            shown.append(step)
            typer.echo(f"# {step}", err=True)

    yield show


def stop(directory: ClusterDirectory) -> RunningCluster | None:
    """Stop the process that runs the cluster, and return it; None if none does.  Raises ``UsageError``."""
    stopped: RunningCluster | None = None
    within_s = _STOP_TIMEOUT_S * (1 + len(directory.workers))
    deadline = time.monotonic() + within_s
    while (running := directory.running()) is not None:
        if time.monotonic() >= deadline:
            raise UsageError(
                f"process {running.pid} has not stopped within {within_s:g} s (kill -9 {running.pid})"
            )
        if running.pid and stopped is None:  # a process that is starting has no record at first
            stopped = running
            with suppress(ProcessLookupError):  # it has just ended
                os.kill(running.pid, signal.SIGTERM)
        time.sleep(_POLL_S)
    return stopped


def print_log(
    path: Path, tail: int | None, is_running: Callable[[], bool] | None, show: Callable[[str], None]
) -> None:
    """Show the last ``tail`` lines of a log (None: all), then each that follows while ``is_running``."""
    with path.open() as log:
        *lines, begun = log.read().split("\n")
        for line in lines if tail is None else lines[max(len(lines) - tail, 0) :]:
            show(line)
        while is_running is not None:
            was_running = is_running()  # before the read: nothing is written after the end
            *lines, begun = (begun + log.read()).split("\n")
            for line in lines:
                show(line)
            if not was_running:
                break
            time.sleep(_POLL_S * 4)
        if begun:
            show(begun)


@dataclass(frozen=True, slots=True)
class WorkerProcess:
    """A worker cluster of ``quorate local up --clusters``: a process beside that of the manager."""

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
