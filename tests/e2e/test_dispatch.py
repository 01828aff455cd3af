"""Workloads of a manager that run in worker clusters, over HTTP: dispatch, loss, eviction and restarts."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from quorate.api.configuration import Configuration
from quorate.api.configuration.multikueue import MultiKueue
from quorate.api.kueue import Workload
from quorate.api.meta import Key, is_true
from quorate.api.names.kueue import ELASTIC_JOB, PRIORITY_CLASS, QUEUE_NAME
from quorate.api.names.multikueue import CONTROLLER, INCREMENTAL
from quorate.controllers.multikueue.connection import connection
from quorate.controllers.multikueue.dispatch.remote_writes import WRITES_TO_ONE_CLUSTER
from quorate.kube.errors import NotFound
from quorate.kube.resources import (
    ADMISSION_CHECKS,
    EVENTS,
    JOBS,
    LOCAL_QUEUES,
    MULTIKUEUE_CLUSTERS,
    NAMESPACES,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from quorate.local.nodes import NodePool
from tests.e2e import shared_clusters
from tests.e2e.worker_clusters import (
    create_check,
    create_cluster,
    create_namespace,
    create_secret,
    forwarder,
    kubeconfig,
    until_active,
)
from tests.e2e.world import NAMESPACE, WITHIN_S, World, running_cluster

pytestmark = pytest.mark.slow

FAST = MultiKueue(gc_interval_s=0.5, worker_lost_timeout_s=2.0)
FLEET = NodePool(count=2, cpu="8")


class Clusters:
    def __init__(
        self,
        manager: World,
        workers: dict[str, World],
        configuration: Configuration,
        freeze: dict[str, Callable[[], None]],
    ) -> None:
        self.manager, self.workers, self.configuration = manager, workers, configuration
        self.freeze = freeze  # after a call the manager gets no answer of the worker cluster any more

    async def submit(
        self,
        name: str,
        cpu: str = "1",
        runs: str = "60s",
        *,
        elastic: bool = False,
        priority: str = "",
        namespace: str = NAMESPACE,
    ) -> None:
        """Create a job that only a worker cluster runs, with one pod."""
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": cpu}}}
        labels = {QUEUE_NAME: "queue", **({PRIORITY_CLASS: priority} if priority else {})}
        metadata = {
            "name": name,
            "labels": labels,
            "annotations": {ELASTIC_JOB: "true"} if elastic else {},
        }
        spec = {
            "suspend": True,
            "managedBy": CONTROLLER,
            "parallelism": 1,
            "template": {
                "metadata": {"annotations": {"simulate.quorate.dev/duration": runs}},
                "spec": {"restartPolicy": "Never", "containers": [container]},
            },
        }
        await self.manager.client.create(JOBS, {"metadata": metadata, "spec": spec}, namespace)

    async def copies(self, workload: Workload) -> dict[str, Workload]:
        """Return the copies of a workload by cluster."""
        found = {}
        for name, worker in self.workers.items():
            try:
                found[name] = await worker.client.get(WORKLOADS, workload.metadata.key)
            except NotFound:
                continue
        return found

    async def jobs(self, name: str) -> set[str]:
        """Return the clusters that have the job."""
        found = set()
        for cluster, worker in self.workers.items():
            try:
                await worker.client.get(JOBS, Key(NAMESPACE, name))
            except NotFound:
                continue
            found.add(cluster)
        return found

    async def until_in(self, name: str, *clusters: str, within_s: float = WITHIN_S) -> Workload:
        """Return the workload once it is admitted in one of the clusters and its job exists there only."""

        async def find() -> Workload | None:
            workload = await self.manager.workload(name)
            if workload is None or workload.status.cluster_name not in clusters:
                return None
            if not is_true(workload.status.conditions, "Admitted"):
                return None
            return workload if await self.jobs(name) == {workload.status.cluster_name} else None

        return await self.manager.until(f"{name} runs in one of {clusters}", find, within_s)

    async def until_gone(self, workload: Workload) -> None:
        async def gone() -> bool:
            return not await self.copies(workload)

        await self.manager.until("no copies are left", gone)

    async def until_no_job(self, name: str) -> None:
        async def gone() -> bool:
            return not await self.jobs(name)

        await self.manager.until("no job is left in a worker cluster", gone)


@asynccontextmanager
async def clusters(
    multikueue: MultiKueue = FAST, cpus: tuple[str, ...] = ("4", "4")
) -> AsyncIterator[Clusters]:
    """Run a manager and worker clusters ``a``, ``b``, …, each with a queue of so many cpus."""
    async with AsyncExitStack() as stack:
        manager = await stack.enter_async_context(running_cluster())
        workers: dict[str, World] = {}
        freeze: dict[str, Callable[[], None]] = {}
        await create_namespace(manager)
        for name, cpu in zip("abc", cpus, strict=False):
            worker = workers[name] = await stack.enter_async_context(running_cluster(FLEET))
            await worker.queues(cpu, preemption={"withinClusterQueue": "LowerPriority"})
            await worker.start_queueing(Configuration())
            forwarding = forwarder(worker.client.config.server)
            url, freeze[name] = await stack.enter_async_context(forwarding)
            await create_secret(manager, name, kubeconfig(url))
            await create_cluster(manager, name)
        await create_check(manager, *workers)
        rules = {"admissionChecks": [{"name": "remote"}]}
        await manager.queues("100", admissionChecksStrategy=rules)
        configuration = replace(Configuration(), multikueue=multikueue)
        await manager.start_queueing(configuration)
        await until_active(manager, ADMISSION_CHECKS, "remote", "True", "Active")
        yield Clusters(manager, workers, configuration, freeze)


def run(story: Callable[[Clusters], Awaitable[None]], *args: Any, **options: Any) -> None:
    async def with_clusters() -> None:
        async with clusters(*args, **options) as found:
            await story(found)

    shared_clusters.run(with_clusters())


def test_a_job_runs_in_one_worker_cluster_and_its_status_comes_back() -> None:
    async def story(world: Clusters) -> None:
        await world.submit("train", runs="1s")
        workload = await world.until_in("train", "a", "b")
        await world.manager.until_finished("train")
        job = await world.manager.get_job("train")
        assert job.status.succeeded == 1
        await world.until_gone(workload)
        await world.until_no_job("train")

    run(story)


def test_a_job_goes_where_there_is_quota() -> None:
    async def story(world: Clusters) -> None:
        await world.submit("train", cpu="3", runs="300ms")
        await world.until_in("train", "b")
        await world.manager.until_finished("train")

    run(story, cpus=("1", "4"))


def test_incremental_nominates_the_first_cluster_first() -> None:
    async def story(world: Clusters) -> None:
        await world.submit("train")
        await world.until_in("train", "a")

    run(story, with_dispatcher(INCREMENTAL, 1))


def with_dispatcher(name: str, step: int) -> MultiKueue:
    return replace(FAST, dispatcher=name, step_size=step)


def test_an_eviction_in_the_worker_cluster_dispatches_the_job_again() -> None:
    async def story(world: Clusters) -> None:
        await world.submit("train")
        workload = await world.until_in("train", "a", "b")
        first = world.workers[workload.status.cluster_name]
        await first.client.patch(WORKLOADS, workload.metadata.key, {"spec": {"active": False}})
        evicted = await world.manager.until_condition("train", "Requeued")
        assert evicted.metadata.uid == workload.metadata.uid
        await world.until_in("train", "a", "b")

    run(story)


def test_a_stopped_queue_of_the_manager_stops_the_job_in_the_worker_cluster() -> None:
    async def story(world: Clusters) -> None:
        await world.submit("train")
        workload = await world.until_in("train", "a", "b")
        await world.manager.client.patch(WORKLOADS, workload.metadata.key, {"spec": {"active": False}})
        await world.manager.until_condition("train", "QuotaReserved", "False")
        await world.until_gone(workload)
        await world.until_no_job("train")

    run(story)


def test_a_deleted_job_leaves_nothing_in_the_worker_clusters() -> None:
    async def story(world: Clusters) -> None:
        await world.submit("train")
        workload = await world.until_in("train", "a", "b")
        await world.manager.client.delete(JOBS, Key(NAMESPACE, "train"))
        await world.until_gone(workload)
        await world.until_no_job("train")

    run(story)


def test_a_new_manager_process_follows_the_job_where_it_runs() -> None:
    async def story(world: Clusters) -> None:
        await world.submit("train", runs="2s")
        workload = await world.until_in("train", "a", "b")
        await world.manager.stop_queueing()
        await world.manager.start_queueing(world.configuration)
        await world.manager.until_finished("train")
        now = await world.manager.workload("train")
        assert now is not None
        assert now.status.cluster_name == workload.status.cluster_name
        assert now.status.scheduling_stats is None, "it was never evicted"

    run(story)


def test_the_workloads_of_a_removed_worker_cluster_run_in_another() -> None:
    async def story(world: Clusters) -> None:
        await world.submit("train")
        workload = await world.until_in("train", "a", "b")
        lost = workload.status.cluster_name
        await world.manager.client.delete(MULTIKUEUE_CLUSTERS, Key("", lost))
        (other,) = set(world.workers) - {lost}

        async def moved() -> bool:
            found = await world.manager.workload("train")
            return found is not None and found.status.cluster_name == other

        await world.manager.until(f"it runs in {other}", moved)

    run(story)


def test_a_worker_cluster_that_does_not_answer_delays_no_other() -> None:
    async def story(world: Clusters) -> None:
        world.freeze["b"]()
        for number in range(20):
            await world.submit(f"job-{number}", cpu="100m")
        for number in range(20):
            await world.until_in(f"job-{number}", "a", within_s=8.0)

    run(story)


def test_the_workloads_of_a_lost_worker_cluster_run_in_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "PROBE_S", 0.2)
    monkeypatch.setattr(connection, "REQUEST_S", 1.0)

    async def story(world: Clusters) -> None:
        await world.submit("train")
        workload = await world.until_in("train", "a", "b")
        lost = workload.status.cluster_name
        world.freeze[lost]()
        (other,) = set(world.workers) - {lost}

        async def moved() -> bool:
            found = await world.manager.workload("train")
            return found is not None and found.status.cluster_name == other

        await world.manager.until(f"it runs in {other}", moved)

    run(story)


def test_one_worker_cluster_preempts_at_a_time() -> None:
    async def story(world: Clusters) -> None:
        for worker in world.workers.values():
            await worker.job("low", cpu="4", runs="60s")
            await worker.until_admitted("low")
        for cluster in (world.manager, *world.workers.values()):
            await cluster.create(WORKLOAD_PRIORITY_CLASSES, "high", value=1000)
        await world.submit("train", cpu="3", priority="high")
        workload = await world.until_in("train", "a", "b")
        evicted = [name for name, worker in world.workers.items() if "low" not in await worker.admitted()]
        assert evicted == [workload.status.cluster_name]

    run(story)


def test_a_growing_and_shrinking_job_stays_in_its_worker_cluster() -> None:
    async def story(world: Clusters) -> None:
        await world.submit("train", elastic=True)
        first = await world.until_in("train", "a", "b")
        cluster = first.status.cluster_name

        async def has_pods(count: int) -> bool:
            copy = await world.workers[cluster].client.get(JOBS, Key(NAMESPACE, "train"))
            job = await world.manager.get_job("train")
            return copy.spec.parallelism == count and (copy.status.active, job.status.active) == (
                count,
                count,
            )

        for count in (1, 2, 1):
            body = {"spec": {"parallelism": count}}
            await world.manager.client.patch(JOBS, Key(NAMESPACE, "train"), body)
            await world.manager.until(f"{count} pods run in {cluster}", partial(has_pods, count))
        assert await world.jobs("train") == {cluster}

    run(story)


def test_a_changed_priority_follows_into_the_worker_cluster() -> None:
    async def story(world: Clusters) -> None:
        for cluster in (world.manager, *world.workers.values()):
            for number, name in enumerate(("low", "high")):
                await cluster.create(WORKLOAD_PRIORITY_CLASSES, name, value=number)
        await world.submit("train", priority="low")
        workload = await world.until_in("train", "a", "b")
        body = {"metadata": {"labels": {PRIORITY_CLASS: "high"}}}
        await world.manager.client.patch(JOBS, Key(NAMESPACE, "train"), body)

        async def follows() -> bool:
            copies = await world.copies(workload)
            return [copy.spec.priority for copy in copies.values()] == [1]

        await world.manager.until("the copy has the new priority", follows)
        now = await world.until_in("train", workload.status.cluster_name)
        assert now.status.scheduling_stats is None, "it was never evicted"

    run(story)


def test_an_event_tells_that_a_worker_cluster_lacks_the_namespace() -> None:
    async def story(world: Clusters) -> None:
        manager = world.manager
        await manager.create(NAMESPACES, "team")
        await manager.create(LOCAL_QUEUES, "queue", "team", spec={"clusterQueue": "research"})
        await world.submit("train", namespace="team")

        async def is_told() -> bool:
            notes = [event.note for event in (await manager.client.list(EVENTS, "team")).items]
            return any('cluster "a" refuses it' in note and '"team" not found' in note for note in notes)

        await manager.until("the event exists", is_told)

    run(story)


def test_a_manager_stops_while_a_worker_cluster_does_not_answer() -> None:
    async def story(world: Clusters) -> None:
        world.freeze["b"]()
        for number in range(WRITES_TO_ONE_CLUSTER + 8):  # some writes wait for the others
            await world.submit(f"job-{number}", cpu="10m")
        await world.until_in("job-0", "a")
        await world.manager.stop_queueing()

    run(story)
