"""Start clusters for tests, from the process that is kept ready for it."""

import os
import select
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from quorate.inspect.explain.summaries import unstarted
from quorate.kube.errors import RequestFailed
from quorate.kube.rest.kubeconfig import InvalidKubeconfig
from quorate.sdk.blocking import run_blocking
from quorate.sdk.cluster import Cluster
from quorate.testing.protocol import Failed, Request, Response, Start, Started, Stop

STARTS_WITHIN_S: Final = 60.0  # on a busy machine; an idle one takes a second


class CannotStart(Exception):
    """A cluster, or the process that starts clusters, did not start."""


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """The nodes of a cluster, its speed, and the Configuration of its controllers."""

    nodes: int
    cpu: str
    memory: str
    pods: int  # of each node
    speed: float  # of simulated pods, in multiples of real time
    configuration: Path | None  # None: all defaults


@dataclass(frozen=True)
class LocalCluster(Cluster):
    """A cluster of a test: API server, controllers, schedulers and simulated nodes in one process."""

    pid: int = 0
    log: Path = Path()  # warnings and errors of all its parts

    def unstarted(self) -> list[str]:
        """Return a line for each workload and pod group that does not run, with the reason.

        Return no lines if the cluster does not answer, or if the test has changed its kubeconfig.
        """

        async def read() -> list[str]:
            async with self.connect() as (client, _):
                return await unstarted(client)

        try:
            return run_blocking(read)
        except (RequestFailed, InvalidKubeconfig):
            return []


class ClusterServer:
    """Starts clusters; ``directory`` is for their data.  Close it at the end."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started = 0
        self._unread = b""
        directory.mkdir(parents=True, exist_ok=True)
        self._log = directory / "server.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "quorate.testing.cluster_process", str(directory)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, bufsize=0,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # a process that forks has no threads
            )  # fmt: skip
        self._response(STARTS_WITHIN_S)

    def start(self, settings: ClusterSettings) -> LocalCluster:
        """Return a fresh cluster that is ready.  Raises ``CannotStart``."""
        self._started += 1
        directory = self._directory / f"cluster-{self._started}"
        configuration = settings.configuration
        request = Start(
            directory=str(directory),
            nodes=settings.nodes,
            cpu=settings.cpu,
            memory=settings.memory,
            pods=settings.pods,
            speed=settings.speed,
            configuration="" if configuration is None else str(configuration.absolute()),
        )
        started = self._ask(request)
        assert isinstance(started, Started), started
        return LocalCluster(
            kubeconfig=directory / "kubeconfig",
            namespace="default",
            pid=started.pid,
            log=directory / "cluster.log",
        )

    def stop(self, cluster: LocalCluster) -> None:
        """Stop a cluster and delete its data."""
        self._ask(Stop(cluster.pid))
        shutil.rmtree(cluster.log.parent, ignore_errors=True)

    def close(self) -> None:
        """Stop all clusters and the process that starts them."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        self._process.terminate()
        self._process.wait()
        self._process.stdout.close()

    def _ask(self, request: Request) -> Response:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode(request) + b"\n")
        except BrokenPipeError as error:
            raise CannotStart(f"the process that starts clusters has ended (see {self._log})") from error
        return self._response(STARTS_WITHIN_S)

    def _response(self, within_s: float) -> Response:
        assert self._process.stdout is not None
        deadline = time.monotonic() + within_s
        while b"\n" not in self._unread:
            left_s = max(0.0, deadline - time.monotonic())
            if not select.select([self._process.stdout], [], [], left_s)[0]:
                raise CannotStart(f"no cluster within {within_s:g} s (see {self._log})")
            piece = os.read(self._process.stdout.fileno(), 65536)
            if not piece:
                self._process.wait()
                raise CannotStart(f"the process that starts clusters has ended: {self._log.read_text()}")
            self._unread += piece
        line, _, self._unread = self._unread.partition(b"\n")
        response: Response = msgspec.json.decode(line, type=Response)
        if isinstance(response, Failed):
            raise CannotStart(response.problem)
        return response
