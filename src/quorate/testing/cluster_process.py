"""``python -m quorate.testing.cluster_process DIRECTORY``: start clusters on request, each in a process.

Importing the parts of a cluster and installing the definitions takes three quarters of the time of a start.
This process does both once: each cluster is a fork of it, on a copy of a data directory with the definitions.
A cluster ends with this process, and this process at the end of its standard input.
"""

import asyncio
import logging
import os
import random
import shutil
import signal
import sys
import traceback
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final

import msgspec
import uvloop

from quorate.api.scheduler_configuration import DEFAULT_FILE, default_scheduler_configuration
from quorate.inspect.configuration_files import read_configuration_text
from quorate.inspect.errors import user_message
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.log import configure
from quorate.local.cluster import Settings
from quorate.local.directory import ClusterDirectory
from quorate.local.nodes import NodePool
from quorate.processes.configuration_reload import ConfigurationInForce
from quorate.processes.local.queueing_cluster import GangSchedulerSettings, run_queueing_cluster
from quorate.processes.process_setup import tune_garbage_collection
from quorate.scheduler.scheduler import Options
from quorate.testing.protocol import Failed, Request, Response, Start, Started, Stopped

LOG: Final = "cluster.log"
_STDOUT: Final = 1


def main(directory: Path) -> None:
    """Serve requests from standard input until its end; ``directory`` is for the data that clusters copy."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests; they end this process
    tune_garbage_collection()
    lifeline, held = os.pipe()  # a cluster reads the end of it when this process is gone
    template = directory / "template"
    with ClusterDirectory(template).lock(WallClock().now()) as locked:
        settings = Settings((), plain_scheduler=False)
        uvloop.run(_once_ready(run_queueing_cluster(locked, settings, None, WallClock(), random.Random())))
    _respond(_STDOUT, Started(0))
    for line in sys.stdin.buffer:
        match msgspec.json.decode(line, type=Request):
            case Start() as start:
                _respond(_STDOUT, _start(start, template, lifeline, held))
            case stop:
                os.kill(stop.pid, signal.SIGKILL)  # nothing needs its state
                os.waitpid(stop.pid, 0)
                _respond(_STDOUT, Stopped(stop.pid))


async def _once_ready(cluster: AbstractAsyncContextManager[Client]) -> None:
    async with cluster:
        pass


def _start(start: Start, template: Path, lifeline: int, held: int) -> Response:
    """Fork a cluster and return its response, once it is ready or has failed."""
    shutil.copytree(template, start.directory)
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(held)
        _run(start, lifeline, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as responses:
        line = responses.readline()
    if not line:
        os.waitpid(pid, 0)
        return Failed(f"the process of the cluster ended (see {Path(start.directory) / LOG})")
    response: Response = msgspec.json.decode(line, type=Response)
    if isinstance(response, Failed):
        os.waitpid(pid, 0)
    return response


def _run(start: Start, lifeline: int, writing: int) -> None:
    """Be the process of a cluster; never returns."""
    try:
        directory = Path(start.directory)
        log = os.open(directory / LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, _STDOUT)
        os.dup2(log, 2)
        configure("console", logging.WARNING)
        uvloop.run(_serve(start, directory, lifeline, writing))
    except BaseException as error:  # no code of the parent process may run here
        traceback.print_exc()
        _respond(writing, Failed(user_message(error) or f"{type(error).__name__}: {error}"))
    finally:
        os._exit(1)


async def _serve(start: Start, directory: Path, lifeline: int, writing: int) -> None:
    text, loaded = read_configuration_text(Path(start.configuration) if start.configuration else None)
    in_force = ConfigurationInForce(None, text, loaded.configuration)
    gang_scheduler = GangSchedulerSettings(default_scheduler_configuration(), DEFAULT_FILE, Options())
    pool = NodePool(start.nodes, start.cpu, start.memory, start.pods)
    settings = Settings((pool,), speed=start.speed)
    clock = WallClock()
    with ClusterDirectory(directory).lock(clock.now()) as locked:
        async with run_queueing_cluster(
            locked, settings, in_force, clock, random.Random(), gang_scheduler, is_installed=True
        ):
            parent_ended = asyncio.Event()
            asyncio.get_running_loop().add_reader(lifeline, parent_ended.set)
            _respond(writing, Started(os.getpid()))
            await parent_ended.wait()


def _respond(descriptor: int, response: Response) -> None:
    os.write(descriptor, msgspec.json.encode(response) + b"\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
