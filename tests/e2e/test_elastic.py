"""A running job that changes its size, over HTTP, with pods of the job controller."""

import pytest

from quorate.api.configuration import Configuration
from quorate.api.kueue import Workload
from quorate.api.meta import Key, find_condition
from quorate.controllers.jobframework.elastic_gates import GATED_PODS, GatedPod
from quorate.kube.resources import JOBS, WORKLOADS
from quorate.local.nodes import Fleet
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

KEY = Key(NAMESPACE, "train")


async def create(world: World, pods: int) -> None:
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {"simulate.quorate.dev/duration": "forever"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    metadata = {
        "name": KEY.name,
        "labels": {"kueue.x-k8s.io/queue-name": "queue"},
        "annotations": {"kueue.x-k8s.io/elastic-job": "true"},
    }
    await world.client.create(
        JOBS, {"metadata": metadata, "spec": {"parallelism": pods, "template": template}}, NAMESPACE
    )


async def resize(world: World, pods: int) -> None:
    await world.client.patch(JOBS, KEY, {"spec": {"parallelism": pods}})


async def running(world: World) -> list[GatedPod]:
    pods = (await world.client.list(GATED_PODS, NAMESPACE)).items
    return [pod for pod in pods if pod.status.phase == "Running" and not pod.spec.scheduling_gates]


async def until_running(world: World, count: int) -> set[str]:
    async def find() -> set[str] | None:
        names = {pod.metadata.name for pod in await running(world)}
        return names if len(names) == count else None

    return await world.until(f"{count} pods run", find)


async def slices(world: World) -> list[tuple[int, str]]:
    """Return the pod count and state of each workload, smallest first."""
    workloads = (await world.client.list(WORKLOADS, NAMESPACE)).items
    return sorted((each.spec.pod_sets[0].count, _state(each)) for each in workloads)


def _state(workload: Workload) -> str:
    finished = find_condition(workload.status.conditions, "Finished")
    if finished is not None and finished.status == "True":
        return finished.reason
    admitted = find_condition(workload.status.conditions, "Admitted")
    return "Admitted" if admitted is not None and admitted.status == "True" else "Pending"


async def until_slices(world: World, *want: tuple[int, str]) -> None:
    async def find() -> bool:
        return await slices(world) == list(want)

    try:
        await world.until(f"slices {want}", find, within_s=10)
    except AssertionError as error:
        raise AssertionError(f"{await slices(world)}") from error


def test_a_job_grows_and_shrinks_within_quota_without_a_restart() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="3")
        await create(world, 1)
        first = await until_running(world, 1)
        await resize(world, 3)  # one of three is used: it fits because the quota of the old slice is reused
        assert await until_running(world, 3) > first
        await until_slices(world, (1, "WorkloadSliceReplaced"), (3, "Admitted"))
        await resize(world, 2)
        await until_running(world, 2)
        await until_slices(world, (1, "WorkloadSliceReplaced"), (2, "Admitted"))
        await world.job("other", runs="forever")
        await world.until_admitted("other")  # with the released quota
        assert not (await world.get_job(KEY.name)).spec.suspend

    run_story(story, Configuration(), Fleet(1, cpu="8"))


def test_a_job_without_quota_to_grow_keeps_running_at_its_size() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="2")
        await create(world, 2)
        before = await until_running(world, 2)
        await resize(world, 3)
        await until_slices(world, (2, "Admitted"), (3, "Pending"))
        assert {pod.metadata.name for pod in await running(world)} == before
        await resize(world, 2)
        await until_slices(world, (2, "Admitted"))

    run_story(story, Configuration(), Fleet(1, cpu="8"))
