"""One run: the clusters, their controllers, the jobs, and what they needed."""

import asyncio
import random
import shlex
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from bench.admission.processes import ProcessUsage, UsageSampler, running
from bench.admission.requests import CountingClient, RequestKind, read_counts
from bench.admission.run import require_kinds, within
from bench.admission.server import local_server
from bench.dispatch import objects
from quorate.api.batch import Job
from quorate.api.kueue import Workload
from quorate.api.meta import Key, at_epoch, is_true
from quorate.kube.clock import WallClock
from quorate.kube.errors import NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import JOBS, MULTIKUEUE_CLUSTERS, WORKLOADS, Json, Resource, untyped
from quorate.kube.rest.config import load_rest_config
from quorate.queueing import conditions as c

CONCURRENCY: Final = 24
CONTROLLERS: Final = f"{sys.executable} -m quorate controllers"
_READY_S: Final = 120.0
_CALM_S, _CALM_CORES = 5.0, 0.1
_JOB: Final = untyped("batch", "v1", "jobs", "Job", True)
_PLURALS: Final = {
    "Namespace": "namespaces", "Secret": "secrets", "ResourceFlavor": "resourceflavors",
    "ClusterQueue": "clusterqueues", "LocalQueue": "localqueues", "AdmissionCheck": "admissionchecks",
    "MultiKueueConfig": "multikueueconfigs", "MultiKueueCluster": "multikueueclusters",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Plan:
    workers: int
    jobs: int
    runs_s: float  # how long a job runs
    dispatcher: str
    within_s: float
    directory: Path
    held: bool = False  # worker clusters have no controllers: the run ends once they have all copies


class Outcome(msgspec.Struct):
    manager: ProcessUsage  # its controllers, from their start
    dispatched_s: float  # from the first job until all are admitted
    finished_s: float
    admitted_early: int  # jobs that were admitted before the last one was created
    in_manager: dict[str, int]  # successful requests to the API server of the manager, without ours
    in_workers: dict[str, int]  # and to those of all worker clusters

    def requests_per_admission(self, jobs: int) -> tuple[float, float]:
        """Return the requests to the manager's API server, and to all others, without events and leases."""
        counts = (
            sum(n for name, n in found.items() if name.split()[1] not in ("events", "leases", "metrics"))
            for found in (self.in_manager, self.in_workers)
        )
        first, second = (count / jobs for count in counts)
        return first, second


@dataclass(frozen=True, slots=True)
class _Cluster:
    name: str
    kubeconfig: Path
    client: CountingClient


async def run(plan: Plan, on_progress: Callable[[int, int], None]) -> Outcome:
    """Execute a run; ``on_progress`` gets how many jobs are admitted and finished.  Raises ``NotDone``."""
    async with AsyncExitStack() as stack:
        names = [f"worker-{number}" for number in range(1, plan.workers + 1)]
        clusters = [await stack.enter_async_context(_cluster(plan, name)) for name in ("manager", *names)]
        manager, *workers = clusters
        room = 0 if plan.held else -(-plan.jobs // plan.workers)
        for worker in workers:
            await _create(worker, *objects.queues(room))
        kubeconfigs = {worker.name: worker.kubeconfig.read_text() for worker in workers}
        await _create(manager, *objects.dispatch(kubeconfigs))
        await _create(manager, *objects.queues(plan.jobs, objects.QUEUE))
        controlled = (manager,) if plan.held else clusters
        samplers = [await _controllers(plan, cluster, stack) for cluster in controlled]
        await within(_READY_S, "the worker clusters are not connected", _until_connected(manager, names))
        if plan.held:
            return await _measure_held(plan, manager, workers, samplers[0], on_progress)
        return await _measure(plan, manager, workers, samplers[0], on_progress)


@asynccontextmanager
async def _cluster(plan: Plan, name: str) -> AsyncIterator[_Cluster]:
    async with local_server(plan.directory / name) as kubeconfig:
        config = await load_rest_config(kubeconfig)
        async with CountingClient(config, random.Random(), concurrency=CONCURRENCY) as client:
            await require_kinds(client)
            yield _Cluster(name, kubeconfig, client)


async def _controllers(plan: Plan, cluster: _Cluster, stack: AsyncExitStack) -> UsageSampler:
    configuration = plan.directory / f"{cluster.name}.yaml"
    configuration.write_text(
        "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\n"
        f"multiKueue: {{dispatcherName: {plan.dispatcher}}}\n"
        "integrations: {frameworks: [batch/job]}\n"
    )
    command = [*shlex.split(CONTROLLERS), "--config", str(configuration)]
    log = plan.directory / f"{cluster.name}.log"
    process = await stack.enter_async_context(running(command, cluster.kubeconfig, log))
    return UsageSampler(process.pid)


async def _create(cluster: _Cluster, *manifests: Json) -> None:
    for manifest in manifests:
        group, _, version = manifest["apiVersion"].rpartition("/")
        namespace = manifest["metadata"].get("namespace", "")
        kind = manifest["kind"]
        resource: Resource[Json] = untyped(group, version, _PLURALS[kind], kind, bool(namespace))
        body = {name: part for name, part in manifest.items() if name not in ("apiVersion", "kind")}
        await cluster.client.create(resource, body)


async def _until_connected(manager: _Cluster, names: list[str]) -> None:
    while True:
        listed = (await manager.client.list(MULTIKUEUE_CLUSTERS)).items
        if sum(is_true(each.status.conditions, "Active") for each in listed) == len(names):
            return
        await asyncio.sleep(0.5)


async def _measure(
    plan: Plan,
    manager: _Cluster,
    workers: list[_Cluster],
    sampler: UsageSampler,
    on_progress: Callable[[int, int], None],
) -> Outcome:
    clock = asyncio.get_running_loop().time
    progress = _Progress(plan.jobs, on_progress)
    workloads = Informer(manager.client, WORKLOADS)
    workloads.subscribe(progress.workload_changed)
    before = [await _counts(cluster) for cluster in (manager, *workers)]
    began = clock()
    async with asyncio.TaskGroup() as tasks:
        parts = [tasks.create_task(sampler.follow()), tasks.create_task(workloads.run())]
        parts += [tasks.create_task(_run_jobs(worker, plan.runs_s)) for worker in workers]
        creating = tasks.create_task(_create_jobs(manager, plan.jobs))
        creating.add_done_callback(lambda _: progress.all_created())
        parts.append(creating)
        await within(plan.within_s, "not all jobs were admitted", progress.all_admitted.wait())
        dispatched_s = clock() - began
        await within(plan.within_s, "not all jobs finished", progress.all_finished.wait())
        finished_s = clock() - began
        sampler.sample()
        after = [await _counts(cluster) for cluster in (manager, *workers)]
        for part in parts:
            part.cancel()
    found = [later - earlier for earlier, later in zip(before, after, strict=True)]
    in_workers: Counter[RequestKind] = Counter()
    for counts in found[1:]:
        in_workers.update(counts)
    early = progress.admitted_early
    return Outcome(sampler.usage, dispatched_s, finished_s, early, _named(found[0]), _named(in_workers))


async def _measure_held(
    plan: Plan,
    manager: _Cluster,
    workers: list[_Cluster],
    sampler: UsageSampler,
    on_progress: Callable[[int, int], None],
) -> Outcome:
    clock = asyncio.get_running_loop().time
    before, began = await _counts(manager), clock()

    async def until_copied() -> None:
        """Return once all copies exist, and each job says that it is suspended."""
        while True:
            copies = sum([await _requested(worker, "POST", "workloads") for worker in workers])
            suspended = await _requested(manager, "PATCH", "jobs/status")
            on_progress(copies // plan.workers, 0)
            if min(copies // plan.workers, suspended) >= plan.jobs:
                return
            await asyncio.sleep(2.0)

    async with asyncio.TaskGroup() as tasks:
        following = tasks.create_task(sampler.follow())
        tasks.create_task(_create_jobs(manager, plan.jobs))
        await within(plan.within_s, "not all copies were made", until_copied())
        copied_s = clock() - began
        await within(plan.within_s, "the manager has no rest", sampler.settled(_CALM_S, _CALM_CORES))
        following.cancel()
    in_manager = await _counts(manager) - before
    in_workers = {"POST workloads": plan.jobs * plan.workers}
    return Outcome(sampler.usage, copied_s, clock() - began, 0, _named(in_manager), in_workers)


async def _requested(cluster: _Cluster, *request: str) -> int:
    """Return how often the controllers of a cluster have made a request: a verb and a resource."""
    counts = await _counts(cluster)
    return sum(n for each, n in counts.items() if (each.verb, each.resource) == request)


class _Progress:
    """Which workloads were admitted, and which have finished."""

    def __init__(self, jobs: int, on_progress: Callable[[int, int], None]) -> None:
        self._jobs, self._on_progress = jobs, on_progress
        self._admitted: set[Key] = set()
        self._finished: set[Key] = set()
        self.admitted_early = 0
        self.all_admitted, self.all_finished = asyncio.Event(), asyncio.Event()

    def all_created(self) -> None:
        self.admitted_early = len(self._admitted)

    def workload_changed(self, change: Change[Workload]) -> None:
        workload = change.new
        if workload is None:
            return
        is_finished = c.is_finished(workload)  # a short job may have ended before its admission was written
        for is_so, done, event in (
            (is_finished or c.is_admitted(workload), self._admitted, self.all_admitted),
            (is_finished, self._finished, self.all_finished),
        ):
            if is_so:
                done.add(change.key)
            if len(done) == self._jobs:
                event.set()
        self._on_progress(len(self._admitted), len(self._finished))


async def _create_jobs(manager: _Cluster, jobs: int) -> None:
    numbers = iter(range(jobs))

    async def create() -> None:
        for number in numbers:
            await manager.client.create(_JOB, objects.job(number))

    await asyncio.gather(*(create() for _ in range(CONCURRENCY)))


async def _run_jobs(worker: _Cluster, runs_s: float) -> None:
    """End each started job of a worker cluster after ``runs_s``, as its job controller would."""
    started: set[Key] = set()
    clock = WallClock()

    async def end(key: Key) -> None:
        await asyncio.sleep(runs_s)
        now = at_epoch(clock.now())
        conditions = [
            {"type": type_, "status": "True", "lastTransitionTime": now, "lastProbeTime": now}
            for type_ in ("SuccessCriteriaMet", "Complete")
        ]
        status = {"succeeded": 1, "startTime": now, "completionTime": now, "conditions": conditions}
        await worker.client.patch(_JOB, key, {"status": status}, subresource="status")

    async with asyncio.TaskGroup() as tasks:

        def job_changed(change: Change[Job]) -> None:
            if change.new is not None and not change.new.spec.suspend and change.key not in started:
                started.add(change.key)
                tasks.create_task(_unless_gone(end(change.key)))

        jobs = Informer(worker.client, JOBS)
        jobs.subscribe(job_changed)
        await jobs.run()


async def _unless_gone(write: Awaitable[None]) -> None:
    """Await ``write``, which fails without effect if the job was deleted."""
    try:
        await write
    except NotFound:
        return


async def _counts(cluster: _Cluster) -> Counter[RequestKind]:
    return (await read_counts(cluster.client)).succeeded - cluster.client.succeeded


def _named(counts: Counter[RequestKind]) -> dict[str, int]:
    return {f"{request.verb} {request.resource}": count for request, count in sorted(counts.items())}
