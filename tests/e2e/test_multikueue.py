"""Jobs of a manager that run in worker clusters, over HTTP, with controllers in every cluster."""

import pytest
from msgspec.structs import replace

from quorate.api.kueue import Workload
from quorate.api.meta import Key, is_true
from quorate.api.names.multikueue import ORIGIN
from quorate.kube.resources import CLUSTER_QUEUES, JOBS, PODS, WORKLOAD_PRIORITY_CLASSES, WORKLOADS
from quorate.queueing.conditions import has_quota_reservation
from tests.e2e.clusters import PROMPT, Clusters, run_clusters_story
from tests.e2e.world import NAMESPACE, World

pytestmark = pytest.mark.slow

PREBUILT = "kueue.x-k8s.io/prebuilt-workload-name"
ENDLESS = "1h"


async def fill(worker: World, name: str = "local") -> None:
    """Use the whole quota of a worker with a job of its own."""
    await worker.job(name, pods=4, runs=ENDLESS)
    await worker.until_admitted(name)


async def free(worker: World, name: str = "local") -> None:
    await worker.client.delete(JOBS, Key(NAMESPACE, name), propagation="Background")


def test_a_job_runs_in_one_worker_and_its_status_comes_back() -> None:
    async def story(clusters: Clusters) -> None:
        await clusters.submit("train", pods=2, runs="2s")
        chosen = await clusters.until_running("train")
        (remote,) = (await clusters.remote_jobs("train")).values()
        workload = await clusters.manager.workload("train")
        assert workload is not None
        assert remote.metadata.labels[PREBUILT] == workload.metadata.name
        assert remote.metadata.labels[ORIGIN] == PROMPT.multikueue.origin
        assert not remote.spec.managed_by

        async def active() -> bool:
            return (await clusters.manager.get_job("train")).status.active == 2

        await clusters.until("the local job has two active pods", active)
        assert not (await clusters.manager.client.list(PODS, NAMESPACE)).items
        await clusters.manager.until_finished("train")
        job = await clusters.manager.get_job("train")
        assert job.status.succeeded == 2
        assert is_true(job.status.conditions, "Complete")
        await clusters.until_removed("train")
        finished = await clusters.manager.workload("train")
        assert finished is not None
        assert finished.status.cluster_name == chosen

    run_clusters_story(story)


def test_the_worker_that_admits_first_gets_the_job() -> None:
    async def story(clusters: Clusters) -> None:
        await fill(clusters.workers["worker1"])
        await clusters.submit("first", pods=3, runs=ENDLESS)
        assert await clusters.until_running("first") == "worker2"
        await clusters.submit("second", pods=3)

        async def waits_in_both() -> bool:
            return len(await clusters.copies("second")) == 2

        await clusters.until("both workers have a copy", waits_in_both)
        assert not await clusters.remote_jobs("second"), "a job follows the admission of its copy"
        await free(clusters.workers["worker1"])
        await clusters.manager.until_finished("second")
        await clusters.until_removed("second")
        assert await clusters.until_running("first") == "worker2"

    run_clusters_story(story)


def test_deletion_and_deactivation_stop_the_job_in_its_worker() -> None:
    async def story(clusters: Clusters) -> None:
        manager = clusters.manager
        await clusters.submit("deleted", runs=ENDLESS)
        await clusters.submit("deactivated", runs=ENDLESS)
        for name in ("deleted", "deactivated"):
            await clusters.until_running(name)
        await manager.client.delete(JOBS, Key(NAMESPACE, "deleted"), propagation="Background")
        await clusters.until_removed("deleted")

        workload = await manager.workload("deactivated")
        assert workload is not None
        await manager.client.patch(WORKLOADS, workload.metadata.key, {"spec": {"active": False}})
        await manager.until_condition("deactivated", "QuotaReserved", "False")
        await clusters.until_removed("deactivated")
        await manager.client.patch(WORKLOADS, workload.metadata.key, {"spec": {"active": True}})
        await clusters.until_running("deactivated")

    run_clusters_story(story)


def test_a_job_that_lost_its_workload_gets_another_one() -> None:
    async def story(clusters: Clusters) -> None:
        await clusters.submit("train", pods=2, runs=ENDLESS)
        await clusters.until_running("train")
        former = await clusters.manager.workload("train")
        assert former is not None
        await clusters.manager.client.delete(WORKLOADS, former.metadata.key)

        async def replaced() -> bool:
            workload = await clusters.manager.workload("train")
            return workload is not None and workload.metadata.uid != former.metadata.uid

        await clusters.until("the job has another workload", replaced)
        await clusters.until_running("train")

    run_clusters_story(story)


def test_a_preempted_job_leaves_its_worker_and_runs_later() -> None:
    async def story(clusters: Clusters) -> None:
        rule = {"spec": {"preemption": {"withinClusterQueue": "LowerPriority"}}}
        await clusters.manager.client.patch(CLUSTER_QUEUES, Key("", "research"), rule)
        for world in (clusters.manager, *clusters.workers.values()):
            await world.create(WORKLOAD_PRIORITY_CLASSES, "high", value=100)
        for name in ("low1", "low2"):
            await clusters.submit(name, pods=4, runs=ENDLESS)
        assert {await clusters.until_running(name) for name in ("low1", "low2")} == {"worker1", "worker2"}
        await clusters.submit("high", 4, "1s", labels={"kueue.x-k8s.io/priority-class": "high"})
        await clusters.manager.until_finished("high")
        for name in ("low1", "low2"):
            await clusters.until_running(name)
        workloads = [await clusters.manager.workload(name) for name in ("low1", "low2")]
        evictions = [
            each.reason
            for workload in workloads
            if workload is not None and workload.status.scheduling_stats is not None
            for each in workload.status.scheduling_stats.evictions
        ]
        assert evictions == ["Preempted"]

    run_clusters_story(story)


def test_a_job_that_its_worker_evicts_runs_in_another() -> None:
    async def story(clusters: Clusters) -> None:
        await clusters.submit("train", pods=2, runs=ENDLESS)
        first = await clusters.until_running("train")
        patch = {"spec": {"stopPolicy": "HoldAndDrain"}}
        await clusters.workers[first].client.patch(CLUSTER_QUEUES, Key("", "research"), patch)

        async def elsewhere() -> bool:
            return first not in await clusters.pods("train") and bool(await clusters.pods("train"))

        await clusters.until("it runs in the other worker", elsewhere)
        assert await clusters.until_running("train") != first

    run_clusters_story(story)


def test_a_changed_priority_reaches_the_copies() -> None:
    async def story(clusters: Clusters) -> None:
        for world in (clusters.manager, *clusters.workers.values()):
            await world.create(WORKLOAD_PRIORITY_CLASSES, "low", value=10)
        await clusters.manager.create(WORKLOAD_PRIORITY_CLASSES, "high", value=100)
        for worker in clusters.workers.values():
            await worker.create(WORKLOAD_PRIORITY_CLASSES, "high", value=7)
            await worker.job("local", pods=4, runs=ENDLESS, labels={"kueue.x-k8s.io/priority-class": "high"})
            await worker.until_admitted("local")
        await clusters.submit("train", pods=2, labels={"kueue.x-k8s.io/priority-class": "low"})

        async def copied() -> bool:
            return len(await clusters.copies("train")) == 2

        await clusters.until("both workers have a copy", copied)
        before = {name: each.metadata.uid for name, each in (await clusters.copies("train")).items()}
        labels = {"metadata": {"labels": {"kueue.x-k8s.io/priority-class": "high"}}}
        await clusters.manager.client.patch(JOBS, Key(NAMESPACE, "train"), labels)

        async def changed() -> bool:
            copies = await clusters.copies("train")
            return len(copies) == 2 and {each.spec.priority for each in copies.values()} == {100}

        await clusters.until("the copies have the priority", changed)
        specs = [each.metadata.generation for each in (await clusters.copies("train")).values()]
        for worker in clusters.workers.values():
            await worker.client.patch(WORKLOAD_PRIORITY_CLASSES, Key("", "high"), {"value": 8})

        async def followed() -> bool:
            found = [await worker.workload("local") for worker in clusters.workers.values()]
            return all(each is not None and each.spec.priority == 8 for each in found)

        await clusters.until("the workers have changed their own workloads", followed)
        assert await changed()
        assert specs == [each.metadata.generation for each in (await clusters.copies("train")).values()]
        assert before == {name: each.metadata.uid for name, each in (await clusters.copies("train")).items()}

    run_clusters_story(story)


def test_a_manager_runs_jobs_of_its_own() -> None:
    async def story(clusters: Clusters) -> None:
        manager = clusters.manager
        await manager.cluster_queue("2", name="own")
        await manager.local_queue("own", "own")
        await manager.job("here", pods=2, queue="own")
        await clusters.submit("there", runs=ENDLESS)
        await manager.until_finished("here")
        await clusters.until_running("there")
        owners = {pod.metadata.labels["job-name"] for pod in (await manager.client.list(PODS)).items}
        assert owners == {"here"}
        assert not await clusters.copies("here")

    run_clusters_story(story)


def test_another_program_nominates_the_workers() -> None:
    async def story(clusters: Clusters) -> None:
        await clusters.submit("train", runs=ENDLESS)

        async def queued() -> Workload | None:
            workload = await clusters.manager.workload("train")
            return workload if workload is not None and has_quota_reservation(workload) else None

        workload = await clusters.manager.until("quota is reserved", queued)
        nominated = {"status": {"nominatedClusterNames": ["worker2"]}}
        assert not await clusters.copies("train")
        await clusters.manager.client.patch(WORKLOADS, workload.metadata.key, nominated, subresource="status")
        assert await clusters.until_running("train") == "worker2"

    external = replace(PROMPT.multikueue, dispatcher="example.com/dispatcher")
    run_clusters_story(story, configuration=replace(PROMPT, multikueue=external))
