"""A test cluster: API server, built-in controllers, simulated nodes and the queueing controllers.

All requests use HTTP.  Stories wait for a state with a deadline and never for a fixed time.
"""

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import (
    AbstractAsyncContextManager,
    AsyncExitStack,
    asynccontextmanager,
    nullcontext,
    suppress,
)
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from quorate.api import codec
from quorate.api.batch import Job
from quorate.api.configuration import Configuration
from quorate.api.kueue import Workload
from quorate.api.meta import Key, find_condition
from quorate.controllers.process import run_queueing
from quorate.install.crds import gang_definitions, queueing_definitions
from quorate.kube.cancellation import end_tasks
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import Invalid, NotFound, Unreachable
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    PODS,
    RESOURCE_FLAVORS,
    VOLCANO_JOBS,
    WORKLOADS,
    Json,
    Resource,
)
from quorate.kube.rest.config import RestConfig
from quorate.kube.rest.credentials import Token
from quorate.local.controllers.start import run_controllers
from quorate.local.nodes import NodePool, run_nodes
from quorate.observe.replica import Replica
from quorate.processes.local.apply import install_definitions
from tests.e2e import shared_clusters
from tests.e2e.shared_clusters import StartedCluster, shared_cluster
from tests.local import clusters
from tests.witnessed import GRACE_S, Witnessed, witnessed

T = TypeVar("T")

WITHIN_S = 60.0
POLL_S = (0.02, 0.1)  # the first pause, and the longest
SERVERS_AT_ONCE = 8  # the most servers of one test
NAMESPACE = "default"


class CountingClient(Client):
    """Count requests by kind, such as ``PATCH workloads/status``."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.succeeded: Counter[str] = Counter()  # successful requests; a rejected one writes nothing
        self.attempted: Counter[str] = Counter()  # writes by path, with any result

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        if method != "GET":
            self.attempted[f"{method} {path}"] += 1
        answer = await super().request(method, path, **options)
        self.succeeded[f"{method} {_kind_of(path)}"] += 1
        return answer

    @property
    def writes(self) -> dict[str, int]:
        """Return the number of successful writes by resource, without events."""
        return {
            what: count
            for what, count in sorted(self.succeeded.items())
            if not what.startswith("GET") and not what.endswith("events")
        }


class FaultyClient(CountingClient):
    """Lose one write in ``one_in``: half of the requests, half of the responses.

    While ``responding`` is not set, writes are executed but their responses wait for it.  Reservations are
    sent ``reservation_delay_s`` late.  Writes of a kind, or to a path, in ``refuses`` are refused
    with its message.
    """

    one_in = 0  # none
    lost = 0
    reservation_delay_s = 0.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.responding = asyncio.Event()
        self.responding.set()
        self.refuses: dict[str, str] = {}  # such as ``PATCH jobs``
        self.patching: set[str] = set()  # workloads with a patch in flight
        self.patched_twice: set[str] = set()  # workloads that had two patches in flight
        self.refused_statuses: list[str] = []  # answers of the API server to statuses that it refused

    async def request(self, method: str, path: str, **options: Any) -> bytes:
        if method != "PATCH" or "/workloads/" not in path:
            return await self._request(method, path, **options)
        workload = path.removesuffix("/status")
        if workload in self.patching:
            self.patched_twice.add(workload)
        self.patching.add(workload)
        try:
            if self.reservation_delay_s and b'"reason":"QuotaReserved"' in bytes(options["body"]):
                # sleeps: a late reservation is the fault itself
                await asyncio.sleep(self.reservation_delay_s)
            return await self._request(method, path, **options)
        finally:
            self.patching.discard(workload)

    async def _request(self, method: str, path: str, **options: Any) -> bytes:
        if refusal := self.refuses.get(f"{method} {_kind_of(path)}") or self.refuses.get(f"{method} {path}"):
            raise Invalid(f"{method} {path}", 422, "Invalid", refusal)
        fault = self.one_in and method != "GET" and self.rng.randrange(self.one_in) == 0
        loses_response = fault and self.rng.random() < 0.5
        self.lost += bool(fault)
        if fault and not loses_response:
            raise Unreachable(f"{method} {path}", self.config.server, "the request was lost")
        try:
            answer = await super().request(method, path, **options)
        except Invalid as error:
            if path.endswith("/status"):
                self.refused_statuses.append(f"{error}: {bytes(options['body']).decode()}")
            raise
        if loses_response:
            raise Unreachable(f"{method} {path}", self.config.server, "the response was lost")
        if method != "GET":
            await self.responding.wait()
        return answer


def _kind_of(path: str) -> str:
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if not parts:
        return "discovery"
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    return "/".join([parts[0], *parts[2:]])


async def poll_until_true(
    what: str,
    find: Callable[[], Awaitable[T | bool | None]],
    within_s: float,
    must_run: Callable[[], None],
    describe: Callable[[], Awaitable[str]],
) -> T:
    """Poll ``find`` and return its first true result; ``must_run`` raises if the process has ended.

    Pauses grow, because an attempt lists whole kinds and takes time from the awaited process.
    """
    pause_s, longest_s = POLL_S
    try:
        async with asyncio.timeout(within_s):
            while True:
                found = await find()
                if found:
                    return found  # type: ignore[return-value]
                must_run()
                await asyncio.sleep(pause_s)
                pause_s = min(pause_s * 1.5, longest_s)
    except TimeoutError:
        raise AssertionError(f"not within {within_s:g} s: {what}\n{await describe()}") from None


class World:
    def __init__(self, client: Client, queueing_client: FaultyClient, found: Witnessed) -> None:
        self.client = client
        self.queueing_client = queueing_client
        self.witnessed = found
        self.replica = Replica("standalone")  # the latest replica
        self._queueing: asyncio.Task[None] | None = None

    async def start_queueing(
        self, configuration: Configuration, seed: int = 1, clock: WallClock | None = None
    ) -> None:
        self.witnessed.resources = configuration.resources
        replica = self.replica = Replica("standalone", configuration.metrics.custom_labels)
        self._queueing = asyncio.create_task(
            run_queueing(
                self.queueing_client,
                clock or WallClock(),
                DynamicConfiguration(configuration),
                random.Random(seed),
                replica,
            )
        )
        started = asyncio.create_task(replica.ready.wait())
        await asyncio.wait([self._queueing, started], timeout=WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        if self._queueing.done():
            self._queueing.result()
        assert replica.ready.is_set(), "the queueing controllers are not ready"

    async def stop_queueing(self) -> None:
        if self._queueing is not None:
            self._queueing.cancel()
            (outcome,) = await asyncio.gather(self._queueing, return_exceptions=True)
            self._queueing = None
            if not isinstance(outcome, asyncio.CancelledError):
                raise outcome or AssertionError("the queueing controllers ended by themselves")

    async def until(
        self, what: str, find: Callable[[], Awaitable[T | bool | None]], within_s: float = WITHIN_S
    ) -> T:
        """Poll ``find`` and return its first true result."""

        def must_run() -> None:
            if self._queueing is not None and self._queueing.done():
                self._queueing.result()

        return await poll_until_true(what, find, within_s, must_run, self.describe)

    async def describe(self) -> str:
        lines = []
        for workload in (await self.client.list(WORKLOADS)).items:
            lines.append(f"workload {workload.metadata.key} active={workload.spec.active}")
            lines += [
                f"  {each.type}={each.status} {each.reason}: {each.message}"
                for each in workload.status.conditions
            ]
        for job in (await self.client.list(JOBS)).items:
            lines.append(f"job {job.metadata.key} suspend={job.spec.suspend} {job.status}")
        with suppress(NotFound):  # without the definitions of Volcano
            for volcano_job in (await self.client.list(VOLCANO_JOBS)).items:
                lines.append(f"volcano job {volcano_job.metadata.key} {volcano_job.status}")
        for pod in (await self.client.list(PODS)).items:
            ends = "" if pod.metadata.deletion_timestamp is None else ", is being deleted"
            lines.append(f"pod {pod.metadata.key} {pod.status.phase} on {pod.spec.node_name!r}{ends}")
        return "\n".join(lines)

    # Builders of objects.

    async def create(self, resource: Resource[Any], name: str, namespace: str = "", **fields: Any) -> None:
        await self.client.create(resource, {"metadata": {"name": name}, **fields}, namespace)

    async def flavor(self, name: str = "default", **spec: Any) -> None:
        await self.create(RESOURCE_FLAVORS, name, spec=spec)

    async def cluster_queue(
        self, cpu: str, name: str = "research", flavor: str = "default", **spec: Any
    ) -> None:
        quotas = {"name": flavor, "resources": [{"name": "cpu", "nominalQuota": cpu}]}
        groups = [{"coveredResources": ["cpu"], "flavors": [quotas]}]
        await self.create(
            CLUSTER_QUEUES, name, spec={"namespaceSelector": {}, "resourceGroups": groups, **spec}
        )

    async def local_queue(self, name: str = "queue", cluster_queue: str = "research") -> None:
        await self.create(LOCAL_QUEUES, name, NAMESPACE, spec={"clusterQueue": cluster_queue})

    async def queues(self, cpu: str, **spec: Any) -> None:
        """Create a flavor, a cluster queue with ``cpu`` of it and a local queue."""
        await self.flavor()
        await self.cluster_queue(cpu, **spec)
        await self.local_queue()

    async def job(
        self,
        name: str,
        pods: int = 1,
        cpu: str = "1",
        queue: str = "queue",
        runs: str = "200ms",
        starts: str = "50ms",
        stops: str = "0s",
        labels: Mapping[str, str] | None = None,
        annotations: Mapping[str, str] | None = None,
        pod_labels: Mapping[str, str] | None = None,
        suspend: bool = False,
        managed_by: str = "",
        spec: Mapping[str, Any] | None = None,
        **pod_spec: Any,
    ) -> None:
        """Create a batch Job; ``spec``: further fields of its specification."""
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
        delays = {"duration": runs, "start-delay": starts, "stop-delay": stops}
        simulated = {f"simulate.quorate.dev/{name}": value for name, value in delays.items()}
        template = {
            "metadata": {"annotations": simulated, "labels": dict(pod_labels or {})},
            "spec": {"restartPolicy": "Never", "containers": [container], **pod_spec},
        }
        metadata = {
            "name": name,
            "labels": {**({"kueue.x-k8s.io/queue-name": queue} if queue else {}), **(labels or {})},
            "annotations": dict(annotations or {}),
        }
        body: Json = {"parallelism": pods, "completions": pods, "suspend": suspend, "template": template}
        if managed_by:
            body["managedBy"] = managed_by
        await self.client.create(JOBS, {"metadata": metadata, "spec": {**body, **(spec or {})}}, NAMESPACE)

    async def get_job(self, name: str) -> Job:
        return await self.client.get(JOBS, Key(NAMESPACE, name))

    async def workload(self, job: str) -> Workload | None:
        for workload in (await self.client.list(WORKLOADS, NAMESPACE)).items:
            owner = workload.metadata.job_owner
            if owner is not None and owner.name == job:
                return workload
        return None

    async def until_condition(
        self,
        job: str,
        type_: str,
        status: str = "True",
        reason: str = "",
        message: str = "",
        within_s: float = WITHIN_S,
    ) -> Workload:
        """Return the workload of ``job`` once it has the condition; an empty reason or message is any."""

        async def find() -> Workload | None:
            workload = await self.workload(job)
            if workload is None:
                return None
            found = find_condition(workload.status.conditions, type_)
            fits = (
                found is not None
                and found.status == status
                and reason in ("", found.reason)
                and message in ("", found.message)
            )
            return workload if fits else None

        return await self.until(f"{job}: {type_}={status} {reason} {message!r}", find, within_s)

    async def until_admitted(self, *jobs: str) -> None:
        for job in jobs:
            await self.until_condition(job, "Admitted")

    async def until_finished(self, *jobs: str) -> None:
        for job in jobs:
            await self.until_condition(job, "Finished", reason="Succeeded")

    async def admitted(self) -> set[str]:
        """Return the names of the jobs that are admitted and not finished."""
        names = set()
        for workload in (await self.client.list(WORKLOADS, NAMESPACE)).items:
            true = {each.type for each in workload.status.conditions if each.status == "True"}
            owner = workload.metadata.job_owner
            if "Admitted" in true and "Finished" not in true and owner is not None:
                names.add(owner.name)
        return names


# None: the local API server; ``--real`` sets it.
SERVER: Callable[[], AbstractAsyncContextManager[RestConfig]] | None = None
Scheduler = Callable[[RestConfig], AbstractAsyncContextManager[None]]
CONTROLLERS: Scheduler | None = None  # None: those of the local cluster
SCHEDULER: Scheduler | None = None  # None: that of the local cluster; ``--kube-scheduler`` sets it


queueing_and_gang_definitions = cache(lambda: (*queueing_definitions(), *gang_definitions()))


@asynccontextmanager
async def api_server_with(
    definitions: Sequence[Json],
) -> AsyncIterator[tuple[RestConfig, clusters.RestorableStore | None]]:
    """Run an API server on which ``definitions`` are installed.

    Yield the administrator's configuration and the store of the local server.  Connections to the local
    server are socket pairs, which only clients in the same event loop can use.
    """
    if SERVER is None:
        async with clusters.api_server_with(definitions) as server:
            yield (
                RestConfig(server.url, credentials=Token(server.token), connect=server.connect),
                server.store,
            )
    else:
        async with SERVER() as cluster, Client(cluster, random.Random(1)) as client:
            await install_definitions(client, definitions)
            yield cluster, None


@asynccontextmanager
async def built_in_cluster(
    definitions: Sequence[Json], *, has_queues: bool, grace_s: float = GRACE_S
) -> AsyncIterator[StartedCluster]:
    """Run an API server with its controllers and the witness; the next story may use the local ones again."""

    @asynccontextmanager
    async def start() -> AsyncIterator[StartedCluster]:
        rng = random.Random(1)
        async with (
            api_server_with(definitions) as (cluster, store),
            Client(cluster, rng, streams_lists=True) as client,
            nullcontext() if SCHEDULER is None else SCHEDULER(cluster),
            nullcontext() if CONTROLLERS is None else CONTROLLERS(cluster),
            AsyncExitStack() as parts,
        ):
            if CONTROLLERS is None:
                run = run_controllers(client, WallClock(), rng, with_scheduler=SCHEDULER is None)
                parts.push_async_callback(end_tasks, [asyncio.create_task(run)])
            found = await parts.enter_async_context(
                witnessed(cluster, has_queues=has_queues, grace_s=grace_s)
            )
            yield StartedCluster(cluster, found, store)

    name = (codec.encode(definitions), has_queues, grace_s)
    async with start() if SERVER is not None else shared_cluster(name, start) as cluster:
        yield cluster


@asynccontextmanager
async def running_nodes(cluster: RestConfig, fleet: NodePool) -> AsyncIterator[None]:
    """Run simulated nodes for the duration of the block, which begins when they are registered."""
    registered = asyncio.Event()
    async with Client(cluster, random.Random(1), streams_lists=True) as client:
        running = asyncio.create_task(run_nodes(client, WallClock(), [fleet], 1.0, registered))
        try:
            async with asyncio.timeout(WITHIN_S):
                await registered.wait()
            yield
        finally:
            await end_tasks([running])


@asynccontextmanager
async def running_cluster(
    fleet: NodePool | None = None, definitions: Sequence[Json] | None = None, grace_s: float = GRACE_S
) -> AsyncIterator[World]:
    """Run a cluster with the queueing CRDs and a namespace, without queueing controllers.

    ``definitions``: the CRDs, by default those of this release.  ``grace_s``: of the witness.
    """
    rng = random.Random(1)
    definitions = definitions or queueing_and_gang_definitions()
    async with (
        built_in_cluster(definitions, has_queues=True, grace_s=grace_s) as cluster,
        Client(replace(cluster.config, connect=None), rng) as client,
        FaultyClient(cluster.config, rng, streams_lists=cluster.store is not None) as queueing_client,
        nullcontext() if fleet is None else running_nodes(cluster.config, fleet),
    ):
        world = World(client, queueing_client, cluster.witnessed)
        try:
            await world.until("the default namespace", world_has_namespace(client))
            yield world
            assert not queueing_client.patched_twice, "at most one write to a workload is in flight"
            assert not queueing_client.refused_statuses, "the API server accepts every status"
            await cluster.witnessed.check()
        finally:
            await world.stop_queueing()


def world_has_namespace(client: Client) -> Callable[[], Awaitable[bool]]:
    async def find() -> bool:
        names = {each.metadata.name for each in (await client.list(NAMESPACES)).items}
        return NAMESPACE in names

    return find


def run_story(
    story: Callable[[World], Awaitable[None]],
    configuration: Configuration | None = None,
    fleet: NodePool | None = None,
) -> None:
    """Run ``story`` in a cluster, with queueing controllers if there is a configuration."""

    async def run() -> None:
        async with running_cluster(fleet) as world:
            if configuration is not None:
                await world.start_queueing(configuration)
            await story(world)

    shared_clusters.run(run())
