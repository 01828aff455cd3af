"""One run of a manager and three workers, with faults in each connection of the manager.

The manager's controllers reach their own API server and those of the workers through proxies, and the workers
through links that are cut as well.  Findings as in ``runs``.
"""

import asyncio
import itertools
import random
import traceback
from collections.abc import Coroutine, Iterator
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any, Final

import msgspec

from quorate.api.configuration.multikueue import MultiKueue
from quorate.api.core import Pod
from quorate.api.kueue import Workload
from quorate.api.kueue.multikueue import MultiKueueCluster
from quorate.api.meta import Key, find_condition, is_true
from quorate.controllers.process import run_queueing
from quorate.kube.client import Client
from quorate.kube.clock import WallClock
from quorate.kube.errors import Conflict, NotFound
from quorate.kube.manager.dynamic_configuration import DynamicConfiguration
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    JOBS,
    MULTIKUEUE_CLUSTERS,
    PODS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
    Resource,
)
from quorate.kube.rest.config import RestConfig
from quorate.observe.replica import Replica
from tests.e2e.clusters import MANAGER as MANAGED_BY
from tests.e2e.clusters import Clusters, Link, create_queues, empty_clusters
from tests.e2e.worker_clusters import kubeconfig
from tests.e2e.world import NAMESPACE, World
from tests.faults.cluster_promises import ClusterPromises
from tests.faults.cluster_scene import (
    MANAGER,
    WORKERS,
    ClusterScene,
    Event,
    RemoteJob,
    generate_cluster_scene,
)
from tests.faults.history import History, Step, recorded
from tests.faults.plan import Plan
from tests.faults.promises import Promises
from tests.faults.proxy import Proxy
from tests.faults.scene import PRIORITIES
from tests.faults.trials import Report, Trial

FAULTS_S: Final = 1.0  # duration of the faults after the last event
SETTLE_TIMEOUT_S: Final = 30.0  # the longest time without a stored change before all jobs complete
DEADLINE_S: Final = 2.5  # of the requests of controllers to their own server: four clusters share a process
DEBOUNCE_S: Final = 2.0
POLL_S: Final = 0.5  # each time asks for eleven lists
RUNNING_WITHIN_S: Final = 30.0  # how long an event waits for a job that runs
SLOW_S: Final = 0.3  # in each direction
LOSS_SLACK_S: Final = 10.0  # until a connection is established again: attempts wait for each other
REMOVES_S: Final = 8.0  # jobs are removed for so much longer than other faults last
UNSEEN_S: Final = 5.0  # until a worker knows of a deletion, on a busy machine
STARTS: Final = ("starts without admission", "is created without a reservation")  # findings of promises
REMOTE_RATE: Final = 0.05  # of requests to workers: a connection has few of them


class ShiftedClock(WallClock):
    """A wall clock that is wrong by ``by_s``."""

    def __init__(self, by_s: float) -> None:
        self._by_s = by_s

    def now(self) -> float:
        return super().now() + self._by_s


@dataclass
class _Cluster:
    """One cluster of a run: how its controllers run, and what was stored in it."""

    name: str
    world: World
    proxy: Proxy  # of its controllers; the manager's requests to a worker have another
    history: History
    may_run: asyncio.Event = field(default_factory=asyncio.Event)
    running: asyncio.Task[None] | None = None


async def run_clusters(trial: Trial, report: Report) -> None:
    scene = generate_cluster_scene(trial.seed)
    async with empty_clusters(len(WORKERS)) as (manager, workers), AsyncExitStack() as stack:

        async def through_proxy(world: World, plan: Plan) -> Proxy:
            proxy = await stack.enter_async_context(Proxy(world.client.config, plan, DEBOUNCE_S))
            proxy.injected = report.injected
            return proxy

        links, remote_proxies, clusters = {}, [], []
        for number, (name, world) in enumerate({MANAGER: manager, **workers}.items()):
            plan = trial.plan() if name == MANAGER else Plan(trial.seed, rate=0.0)
            history = await stack.enter_async_context(recorded(world.client))
            clusters.append(_Cluster(name, world, await through_proxy(world, plan), history))
            if name != MANAGER:
                remote = await through_proxy(world, Plan(trial.seed * 10 + number, rate=REMOTE_RATE))
                remote_proxies.append(remote)
                links[name] = await stack.enter_async_context(Link(remote.endpoint().url).listening())
        connections = await stack.enter_async_context(recorded(manager.client, (MULTIKUEUE_CLUSTERS,)))
        api = Clusters(manager, workers, links)
        report.histories = {each.name: each.history for each in clusters} | {"connections": connections}
        run = _Run(trial, scene, api, clusters, connections, remote_proxies, report)
        await run.run()


class _Run:
    def __init__(
        self,
        trial: Trial,
        scene: ClusterScene,
        api: Clusters,
        clusters: list[_Cluster],
        connections: History,
        remote_proxies: list[Proxy],
        report: Report,
    ) -> None:
        self._trial = trial
        self._scene = scene
        self._api = api
        self._clusters = {each.name: each for each in clusters}
        self._connections = connections
        self._remote_proxies = remote_proxies
        self._report = report
        self._rng = random.Random(f"cluster events {trial.seed}")
        self._restarts: list[int] = []  # the newest version of the manager at each restart
        self._removed: list[tuple[str, str, float]] = []  # worker, job and time of copies that were deleted
        self._cut: list[tuple[str, float, float]] = []  # workers without a connection, with begin and end

    async def run(self) -> None:
        await create_queues(self._api, self._scene.cpu, **self._scene.queue)
        for cluster in self._clusters.values():
            for name, value in PRIORITIES.items():
                await cluster.world.create(WORKLOAD_PRIORITY_CLASSES, name, value=value)
            cluster.may_run.set()
        tasks = [asyncio.create_task(self._keep_running(each)) for each in self._clusters.values()]
        try:
            for name in WORKERS:
                await self._api.until_connected(name)
            async with asyncio.TaskGroup() as users:
                for job in self._scene.jobs:
                    users.create_task(self._submit(job))
                for event in self._scene.events:
                    users.create_task(self._happen(event))
            await asyncio.sleep(FAULTS_S)  # sleeps: a storm of faults lasts for a time
            for proxy in (self._clusters[MANAGER].proxy, *self._remote_proxies):
                proxy.stop_faults()
            await self._until_settled(tasks)
            for cluster in self._clusters.values():
                await cluster.history.complete(cluster.world.client)
            self._check_jobs()
            await self._check_quota()
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    # The controllers and their restarts.

    async def _keep_running(self, cluster: _Cluster) -> None:
        """Restart the controllers of a cluster whenever they end, as a supervisor does."""
        for incarnation in itertools.count():
            await cluster.may_run.wait()
            endpoint = cluster.proxy.endpoint()
            rng = random.Random(f"{cluster.name} {self._trial.seed} {incarnation}")
            config = RestConfig(endpoint.url, credentials=cluster.world.client.config.credentials)
            try:
                async with Client(config, rng, deadline_s=DEADLINE_S) as client:
                    work = self._controllers(cluster.name, client, rng)
                    running = cluster.running = asyncio.create_task(work)
                    endpoint.on_kill = partial(_cancel, running)
                    try:
                        (outcome,) = await asyncio.gather(running, return_exceptions=True)
                    finally:
                        running.cancel()
                        endpoint.close()
            finally:
                endpoint.close()
            if not isinstance(outcome, asyncio.CancelledError):
                error = "".join(traceback.format_exception(outcome)) if outcome else ""
                self._report.findings.append(f"the controllers of {cluster.name} ended: {error}")
            await endpoint.idle.wait()
            self._report.restarts += 1
            if cluster.name == MANAGER:
                self._restarts.append(max(cluster.history.seen.values(), default=0))

    def _controllers(self, name: str, client: Client, rng: random.Random) -> Coroutine[Any, Any, None]:
        configuration = self._scene.configuration
        if name != MANAGER:
            configuration = msgspec.structs.replace(configuration, multikueue=MultiKueue())
        clock = ShiftedClock(self._scene.clocks_off_s[name])
        return run_queueing(client, clock, DynamicConfiguration(configuration), rng, Replica("standalone"))

    # What happens.

    async def _submit(self, job: RemoteJob) -> None:
        await asyncio.sleep(job.at_s)  # sleeps: the schedule of a trial
        labels = {"kueue.x-k8s.io/priority-class": job.priority} if job.priority else {}
        manager = self._api.manager
        await manager.job(
            job.name,
            job.pods,
            runs=job.runs,
            stops=job.stops,
            labels=labels,
            suspend=True,
            managed_by=MANAGED_BY,
        )
        if job.delete_at_s is not None:
            await asyncio.sleep(job.delete_at_s - job.at_s)  # sleeps: the schedule of a trial
            await manager.client.delete(JOBS, Key(NAMESPACE, job.name), propagation="Background")

    async def _happen(self, event: Event) -> None:
        """Wait until a job runs; what happens to a worker, happens to one that runs a job."""
        await asyncio.sleep(event.at_s)  # sleeps: the schedule of a trial
        clock = asyncio.get_running_loop().time
        deadline = clock() + RUNNING_WITHIN_S
        while not (running := self._running_workers()) and clock() < deadline:  # noqa: ASYNC110  a schedule
            await asyncio.sleep(0.1)  # sleeps: the schedule of a trial
        if event.cluster in WORKERS and event.cluster not in running and running:
            event = replace(event, cluster=self._rng.choice(running))
        match event.what:
            case "restart":
                self._restart(event.cluster)
            case "restart all":
                for name in self._clusters:
                    self._restart(name)
            case "remove ended":
                until = clock() + event.for_s + REMOVES_S
                while clock() < until:
                    await self._remove_ended(self._clusters[event.cluster].world.client)
                    await asyncio.sleep(POLL_S)
            case "remove copy":
                worker = self._clusters[event.cluster].world.client
                for copy in (await worker.list(WORKLOADS)).items:
                    with suppress(NotFound, Conflict):
                        await worker.patch(WORKLOADS, copy.metadata.key, {"metadata": {"finalizers": None}})
                        await worker.delete(WORKLOADS, copy.metadata.key)
                    job = copy.metadata.name.removeprefix("job-").rpartition("-")[0]
                    self._removed.append((event.cluster, job, clock()))
            case "expire":
                url, began = self._api.links[event.cluster].url, clock()
                await self._api.replace_kubeconfig(event.cluster, kubeconfig(url, {"token": "expired"}))
                await asyncio.sleep(event.for_s)  # sleeps: the schedule of a trial
                await self._api.replace_kubeconfig(event.cluster, kubeconfig(url))
                self._cut.append((event.cluster, began, clock()))
            case "cut" | "stall" | "slow" | "dead":
                link, cluster = self._api.links[event.cluster], self._clusters[event.cluster]
                began = clock()
                if event.what == "stall":
                    link.stall()
                elif event.what == "slow":
                    link.delay_s = SLOW_S
                else:
                    link.cut()
                if event.what == "dead":
                    cluster.may_run.clear()
                    self._restart(event.cluster)
                await asyncio.sleep(event.for_s)  # sleeps: the schedule of a trial
                cluster.may_run.set()
                link.repair()
                self._cut.append((event.cluster, began, clock()))

    async def _remove_ended(self, worker: Client) -> None:
        for job in (await worker.list(JOBS)).items:
            if is_true(job.status.conditions, "Complete"):
                with suppress(NotFound, Conflict):
                    await worker.delete(JOBS, job.metadata.key, propagation="Background")

    def _running_workers(self) -> list[str]:
        """Return the workers that have a running pod."""
        phases = {
            (name, step.object.metadata.uid): step.object.status.phase
            for name in WORKERS
            for step in self._clusters[name].history.steps
            if isinstance(step.object, Pod)
        }
        return sorted({name for (name, _), phase in phases.items() if phase == "Running"})

    def _restart(self, name: str) -> None:
        running = self._clusters[name].running
        if running is not None:
            running.cancel()

    # The final state.

    async def _until_settled(self, tasks: list[asyncio.Task[None]]) -> None:
        clock = asyncio.get_running_loop().time
        known, deadline = 0, 0.0
        while findings := await self._unsettled():
            for task in tasks:
                if task.done():
                    task.result()
            steps = sum(len(each.history.steps) for each in self._clusters.values())
            if steps > known:  # progress, even if slow on a busy machine
                known, deadline = steps, clock() + SETTLE_TIMEOUT_S
            if clock() > deadline:
                self._report.findings += [f"not settled: {each}" for each in findings]
                for name, cluster in self._clusters.items():
                    self._report.findings.append(f"{name}: {await cluster.world.describe()}")
                return
            await asyncio.sleep(POLL_S)

    async def _unsettled(self) -> list[str]:
        """Return the differences from the final state: each job is complete, and no worker has anything."""
        client = self._api.manager.client
        jobs = {job.metadata.name: job for job in (await client.list(JOBS)).items}
        workloads = (await client.list(WORKLOADS)).items
        findings = []
        for submitted in self._scene.jobs:
            job = jobs.get(submitted.name)
            owned = [
                each
                for each in workloads
                if each.metadata.controller is not None and each.metadata.controller.name == submitted.name
            ]
            if submitted.delete_at_s is not None:
                if job is not None or owned:
                    findings.append(f"{submitted.name} was deleted and is still in the manager")
                continue
            if job is None:
                findings.append(f"{submitted.name} is lost")
                continue
            finished = [find_condition(each.status.conditions, "Finished") for each in owned]
            if not is_true(job.status.conditions, "Complete"):
                findings.append(f"{submitted.name} is not complete")
            elif [each.reason for each in finished if each is not None] != ["Succeeded"]:
                findings.append(f"{submitted.name} is complete, its workloads are not finished: {finished}")
            elif job.status.succeeded != submitted.pods:
                findings.append(f"{submitted.name} reports {job.status.succeeded} pods that succeeded")
        for name, worker in self._api.workers.items():
            kinds: tuple[Resource[Any], ...] = (JOBS, WORKLOADS, PODS)
            for kind in kinds:
                left = [each.metadata.name for each in (await worker.client.list(kind)).items]
                if left:
                    findings.append(f"{name} has {', '.join(left)} left")
        return findings

    # The history.

    def _check_jobs(self) -> None:
        """Check that no job ran in two clusters at once, and that each ran to its end once."""
        promises = ClusterPromises(self._may_be_lost)
        steps = [(name, step) for name in WORKERS for step in self._clusters[name].history.steps]
        for name, step in sorted(steps, key=lambda each: each[1].at):
            self._report.findings += promises.step(name, step)
        manager = self._clusters[MANAGER].history
        for job, completed in promises.completed.items():
            evicted = manager.evictions_of(job)
            if len(completed) > 1 + evicted:
                self._report.findings.append(
                    f"{job} ran to its end {len(completed)} times, and was evicted {evicted} times"
                )

    def _may_be_lost(self, worker: str, job: str, since: float, until: float) -> bool:
        """Return True if the manager may have given up the worker in between.

        A loss is a fault of ours, or one that the manager reports of the worker or of the job: those of the
        proxies end connections too.
        """
        if not self._scene.gives_back:
            return False
        for cluster, began, ended in (*self._cut, *self._reported_losses()):
            if cluster == worker and began <= until and since <= ended + LOSS_SLACK_S:
                return True
        return any(
            isinstance(step.object, Workload) and _is_given_back(step.object, job)
            for step in self._clusters[MANAGER].history.steps
            if since <= step.at <= until
        )

    def _reported_losses(self) -> Iterator[tuple[str, float, float]]:
        """Yield the workers that were not Active, with begin and end."""
        began: dict[str, float] = {}
        for step in self._connections.steps:
            assert isinstance(step.object, MultiKueueCluster)
            name = step.object.metadata.name
            if not is_true(step.object.status.conditions, "Active"):
                began.setdefault(name, step.at)
            elif name in began:
                yield name, began.pop(name), step.at
        yield from ((name, at, inf) for name, at in began.items())

    async def _check_quota(self) -> None:
        """Check the promises of each cluster alone."""
        for cluster in self._clusters.values():
            client = cluster.world.client
            promises = Promises((await client.list(CLUSTER_QUEUES)).items, (await client.list(COHORTS)).items)
            outside = sorted(self._restarts) if cluster.name == MANAGER else []
            for step in cluster.history.in_order():
                self._report.states += 1
                while outside and outside[0] < step.version:
                    outside.pop(0)
                    promises.outside_event()
                for finding in promises.step(step):
                    if not (self._may_start(cluster.name, step) and any(each in finding for each in STARTS)):
                        self._report.findings.append(f"{cluster.name}: {finding}")

    def _may_start(self, cluster: str, step: Step) -> bool:
        """Return True if the copy of a job was deleted so shortly before that its worker may not know it."""
        metadata = step.object.metadata
        job = metadata.labels.get("job-name", metadata.name)
        return any(
            (cluster, job) == (worker, removed) and abs(step.at - at) < UNSEEN_S
            for worker, removed, at in self._removed
        )


def _is_given_back(workload: Workload, job: str) -> bool:
    owner = workload.metadata.job_owner
    states = workload.status.admission_checks
    return owner is not None and owner.name == job and any("remote lost" in each.message for each in states)


def _cancel(running: asyncio.Task[None]) -> None:
    running.cancel()
