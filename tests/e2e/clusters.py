"""A manager and worker clusters: each with its own API server, controllers, nodes and witness.

The manager reaches each worker through a ``Link``, which a story can cut.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from msgspec.structs import replace

from quorate.api.batch import Job
from quorate.api.configuration import Configuration
from quorate.api.configuration.multikueue import MultiKueue
from quorate.api.core import Pod
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.kube.clock import WallClock
from quorate.kube.errors import NotFound
from quorate.kube.resources import JOBS, KUBECONFIG_SECRETS, MULTIKUEUE_CLUSTERS, PODS, WORKLOADS
from quorate.local.nodes import NodePool
from tests.e2e import shared_clusters
from tests.e2e.worker_clusters import (
    CONTROLLERS,
    create_check,
    create_cluster,
    create_namespace,
    create_secret,
    kubeconfig,
    until_active,
)
from tests.e2e.world import NAMESPACE, World, running_cluster

T = TypeVar("T")

MANAGER: Final = "kueue.x-k8s.io/multikueue"  # spec.managedBy of jobs that the manager dispatches
CHECK: Final = "remote"
NODES: Final = NodePool(1, cpu="8")
GRACE_S: Final = 15.0  # of the witnesses: the clusters share a process
PROMPT: Final = Configuration(multikueue=MultiKueue(gc_interval_s=1.0, worker_lost_timeout_s=2.0))


class Link:
    """A TCP connection to an API server that can be cut, stay open without an answer, or be slow."""

    def __init__(self, server: str) -> None:
        self._server = urlsplit(server)
        self._open = asyncio.Event()  # bytes pass
        self._open.set()
        self._refuses = False
        self.delay_s = 0.0  # of whatever passes
        self._writers: set[asyncio.StreamWriter] = set()
        self.url = ""

    @asynccontextmanager
    async def listening(self) -> AsyncIterator["Link"]:
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}{self._server.path}"
        try:
            yield self
        finally:
            server.close()
            self.cut()

    def cut(self) -> None:
        """Close all connections, and each that is opened later."""
        self._refuses = True
        for writer in self._writers:
            writer.transport.abort()

    def stall(self) -> None:
        """Let all connections stay open and carry nothing."""
        self._open.clear()

    def repair(self) -> None:
        self._refuses = False
        self.delay_s = 0.0
        self._open.set()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._refuses:
            writer.transport.abort()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection(self._server.hostname, self._server.port)
        except OSError:  # the server has stopped
            writer.transport.abort()
            return
        ends = {writer, far_writer}
        self._writers |= ends
        try:
            await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))
        finally:
            self._writers -= ends

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        try:
            while data := await source.read(65_536):
                await self._open.wait()
                await asyncio.sleep(self.delay_s)  # sleeps: a slow connection is the fault itself
                target.write(data)
                await target.drain()
        except OSError:
            pass  # one of the two ends has closed the connection
        finally:
            target.close()


class Clusters:
    def __init__(self, manager: World, workers: Mapping[str, World], links: Mapping[str, Link]) -> None:
        self.manager = manager
        self.workers = workers
        self.links = links

    async def submit(
        self,
        name: str,
        pods: int = 1,
        runs: str = "300ms",
        labels: Mapping[str, str] | None = None,
        **job: Any,
    ) -> None:
        """Create a job in the manager that it dispatches."""
        await self.manager.job(name, pods, runs=runs, labels=labels, suspend=True, managed_by=MANAGER, **job)

    async def copies(self, job: str) -> dict[str, Workload]:
        """Return the copies of the workload of a job by worker."""
        workload = await self.manager.workload(job)
        return {} if workload is None else await self.copies_of(workload.metadata.key)

    async def copies_of(self, workload: Key) -> dict[str, Workload]:
        found = {}
        for name, worker in self.workers.items():
            try:
                found[name] = await worker.client.get(WORKLOADS, workload)
            except NotFound:
                continue
        return found

    async def remote_jobs(self, job: str) -> dict[str, Job]:
        found = {}
        for name, worker in self.workers.items():
            for each in (await worker.client.list(JOBS, NAMESPACE)).items:
                if each.metadata.name == job:
                    found[name] = each
        return found

    async def pods(self, job: str) -> dict[str, list[Pod]]:
        """Return the pods of a job that have not ended, by worker."""
        found = {}
        for name, worker in self.workers.items():
            pods = [
                pod
                for pod in (await worker.client.list(PODS, NAMESPACE)).items
                if pod.metadata.labels.get("job-name") == job
                and pod.status.phase not in ("Succeeded", "Failed")
            ]
            if pods:
                found[name] = pods
        return found

    async def until_running(self, job: str) -> str:
        """Return the worker in which the job runs, once its pods do and no other worker has a copy."""

        async def find() -> str | None:
            workload = await self.manager.workload(job)
            running = await self.pods(job)
            chosen = None if workload is None else workload.status.cluster_name
            is_settled = bool(chosen) and [*running] == [chosen] and [*await self.copies(job)] == [chosen]
            phases = {pod.status.phase for pods in running.values() for pod in pods}
            return chosen if is_settled and phases == {"Running"} else None

        return await self.until(f"{job} runs in one worker", find)

    async def until_removed(self, job: str) -> None:
        """Return once no worker has a job, a pod or a copy of the job's workload."""

        async def nothing_left() -> bool:
            if await self.remote_jobs(job):
                return False
            left = [
                each.metadata.name
                for worker in self.workers.values()
                for each in (await worker.client.list(WORKLOADS, NAMESPACE)).items
                if each.metadata.name.startswith(f"job-{job}-")
            ]
            return not left and not await self.pods(job)

        await self.until(f"nothing of {job} is left in the workers", nothing_left)

    async def until(self, what: str, find: Callable[[], Awaitable[T | bool | None]]) -> T:
        try:
            return await self.manager.until(what, find)
        except AssertionError as error:
            for name, worker in self.workers.items():
                error.add_note(f"{name}:\n{await worker.describe()}")
            raise

    async def connect(self, name: str) -> None:
        """Store in the manager how it reaches a worker."""
        await create_secret(self.manager, name, kubeconfig(self.links[name].url))
        await create_cluster(self.manager, name)

    async def until_connected(self, name: str) -> None:
        await until_active(self.manager, MULTIKUEUE_CLUSTERS, name, "True", "Active")

    async def replace_kubeconfig(self, name: str, content: str) -> None:
        await self.manager.client.patch(
            KUBECONFIG_SECRETS, Key(CONTROLLERS, name), {"stringData": {"kubeconfig": content}}
        )


@asynccontextmanager
async def empty_clusters(count: int) -> AsyncIterator[tuple[World, dict[str, World]]]:
    """Run a manager and ``count`` workers by name, without controllers and queues."""
    async with AsyncExitStack() as stack:
        worlds = [
            await stack.enter_async_context(running_cluster(NODES, grace_s=GRACE_S)) for _ in range(count + 1)
        ]
        yield worlds[0], {f"worker{number}": worlds[number] for number in range(1, count + 1)}


async def create_queues(clusters: Clusters, cpu: Mapping[str, int], **queue: Any) -> None:
    """Create the queue of each cluster with this much ``cpu``, that of the manager with the check.

    ``queue``: more fields of every cluster queue.
    """
    for name, world in clusters.workers.items():
        await world.queues(str(cpu[name]), **queue)
    await create_namespace(clusters.manager)
    await create_check(clusters.manager, *clusters.workers, name=CHECK)
    checks = {"admissionChecks": [{"name": CHECK}]}
    await clusters.manager.queues(str(cpu["manager"]), admissionChecksStrategy=checks, **queue)
    for name in clusters.workers:
        await clusters.connect(name)


@asynccontextmanager
async def running_clusters(
    count: int = 2,
    configuration: Configuration = PROMPT,
    clocks: Mapping[str, WallClock] | None = None,
    **queue: Any,
) -> AsyncIterator[Clusters]:
    """Run a manager with a queue of 8 cpu and ``count`` connected workers with a queue of 4.

    ``clocks``: those of the controllers by cluster, of the manager as ``manager``. ``queue``: more fields of
    every cluster queue.
    """
    clocks = clocks or {}
    async with empty_clusters(count) as (manager, workers), AsyncExitStack() as stack:
        links = {
            name: await stack.enter_async_context(Link(world.client.config.server).listening())
            for name, world in workers.items()
        }
        clusters = Clusters(manager, workers, links)
        await create_queues(clusters, {"manager": 8, **dict.fromkeys(workers, 4)}, **queue)
        for name, world in workers.items():
            await world.start_queueing(
                replace(configuration, multikueue=MultiKueue()), clock=clocks.get(name)
            )
        await manager.start_queueing(configuration, clock=clocks.get("manager"))
        for name in workers:
            await clusters.until_connected(name)
        yield clusters


def run_clusters_story(
    story: Callable[[Clusters], Awaitable[None]], count: int = 2, configuration: Configuration = PROMPT
) -> None:
    async def run() -> None:
        async with running_clusters(count, configuration) as clusters:
            await story(clusters)

    shared_clusters.run(run())
