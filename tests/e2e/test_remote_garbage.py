"""The garbage collection of a MultiKueue manager in its worker clusters, over HTTP."""

from typing import Any

import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.multikueue import MultiKueue
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.api.names.kueue import RESOURCE_IN_USE
from quorate.api.names.multikueue import ORIGIN, ORIGIN_UID
from quorate.kube.resources import JOBS, MULTIKUEUE_CLUSTERS, WORKLOADS, Resource
from tests.e2e.worker_clusters import (
    WorkerCluster,
    create_cluster,
    create_namespace,
    create_secret,
    kubeconfig,
    until_active,
    worker_cluster,
)
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

OURS = {ORIGIN: "multikueue"}
POD = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "busybox"}]}
FREQUENT = Configuration(multikueue=MultiKueue(gc_interval_s=0.3))


def workload(name: str, **metadata: Any) -> dict[str, Any]:
    pod_sets = [{"name": "main", "count": 1, "template": {"spec": POD}}]
    return {"metadata": {"name": name, **metadata}, "spec": {"podSets": pod_sets}}


async def create_copy(
    worker: WorkerCluster, name: str, job: str = "", local_job_uid: str = "", **metadata: Any
) -> None:
    """Create a remote workload with our label, and a remote job that owns it."""
    metadata = {"labels": OURS, **metadata}
    if job:
        annotations = {ORIGIN_UID: local_job_uid}
        body = {
            "metadata": {"name": job, "labels": metadata["labels"], "annotations": annotations},
            "spec": {"suspend": True, "template": {"spec": POD}},
        }
        owner = (await worker.client.create(JOBS, body, NAMESPACE)).metadata.uid
        reference = {"apiVersion": "batch/v1", "kind": "Job", "name": job, "uid": owner, "controller": True}
        metadata["ownerReferences"] = [reference]
    await worker.client.create(WORKLOADS, workload(name, **metadata), NAMESPACE)


async def names(worker: WorkerCluster, resource: Resource[Any]) -> set[str]:
    return {stored.metadata.name for stored in (await worker.client.list(resource, NAMESPACE)).items}


async def connect(world: World, worker: WorkerCluster) -> None:
    await create_namespace(world)
    await create_secret(world, "a", kubeconfig(worker.url))
    await create_cluster(world, "a")
    await until_active(world, MULTIKUEUE_CLUSTERS, "a", "True", "Active")


def test_copies_without_a_local_workload_are_removed_with_their_jobs() -> None:
    async def scenario(world: World) -> None:
        async with worker_cluster() as worker:
            await world.client.create(WORKLOADS, workload("alive"), NAMESPACE)
            await create_copy(worker, "alive", job="job-of-alive")
            await create_copy(worker, "foreign", job="job-of-foreign", labels={ORIGIN: "another-manager"})
            await create_copy(worker, "orphan", job="job-of-orphan", finalizers=[RESOURCE_IN_USE])
            await create_copy(worker, "alone")
            await connect(world, worker)

            async def collected() -> bool:
                return await names(worker, WORKLOADS) == {"alive", "foreign"}

            await world.until("the copies of deleted workloads are removed", collected)
            assert await names(worker, JOBS) == {"job-of-alive", "job-of-foreign"}
            await world.client.delete(WORKLOADS, Key(NAMESPACE, "alive"))

            async def all_collected() -> bool:
                return await names(worker, WORKLOADS) == {"foreign"}

            await world.until("the copy is removed after its workload", all_collected)
            assert await names(worker, JOBS) == {"job-of-foreign"}

    run_story(scenario, FREQUENT)


def test_a_job_is_kept_while_another_of_its_workloads_is_alive() -> None:
    async def scenario(world: World) -> None:
        async with worker_cluster() as worker:
            await world.job("elastic", queue="queue")

            async def find() -> Workload | None:
                return await world.workload("elastic")

            local = await world.until("the job has a workload", find)
            uid = (await world.get_job("elastic")).metadata.uid
            await create_copy(worker, "former-size", job="elastic", local_job_uid=uid)
            await worker.client.create(WORKLOADS, workload(local.metadata.name, labels=OURS), NAMESPACE)
            await connect(world, worker)

            async def collected() -> bool:
                return await names(worker, WORKLOADS) == {local.metadata.name}

            await world.until("the copy of the former size is removed", collected)
            assert await names(worker, JOBS) == {"elastic"}

    run_story(scenario, FREQUENT)


def test_a_job_that_took_the_name_of_a_deleted_one_is_kept() -> None:
    async def scenario(world: World) -> None:
        async with worker_cluster() as worker:
            reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "former"}
            await create_copy(worker, "current", job="train")
            await world.client.create(WORKLOADS, workload("current"), NAMESPACE)
            await create_copy(worker, "former", ownerReferences=[reference])
            await connect(world, worker)

            async def collected() -> bool:
                return await names(worker, WORKLOADS) == {"current"}

            await world.until("the copy of the former job is removed", collected)
            assert await names(worker, JOBS) == {"train"}

    run_story(scenario, FREQUENT)


def test_without_an_interval_nothing_is_collected() -> None:
    async def scenario(world: World) -> None:
        async with worker_cluster() as worker:
            await create_copy(worker, "orphan")
            await connect(world, worker)
            await create_cluster(world, "b", locationType="Secret", location="a")
            await until_active(world, MULTIKUEUE_CLUSTERS, "b", "True", "Active")
            assert await names(worker, WORKLOADS) == {"orphan"}

    run_story(scenario, Configuration(multikueue=MultiKueue(gc_interval_s=0.0)))
