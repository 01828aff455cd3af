"""A running job that changes its size, over HTTP, with pods of the job controller."""

import pytest

from quorate.api.configuration import Configuration
from quorate.api.core.pod import Pod
from quorate.api.kueue import Workload
from quorate.api.meta import Key, find_condition
from quorate.controllers.jobframework.podset_info import read_template
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    JOBS,
    NODES,
    PLACEABLE_PODS,
    RESOURCE_FLAVORS,
    WORKLOAD_PRIORITY_CLASSES,
    WORKLOADS,
)
from quorate.local.nodes import NodePool
from quorate.queueing.conditions import has_quota_reservation
from tests.e2e.test_elastic_ray import of_zones
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

KEY = Key(NAMESPACE, "train")
PRIORITY = "kueue.x-k8s.io/priority-class"


async def create(world: World, pods: int, name: str = KEY.name, **labels: str) -> None:
    """Create a suspended job: no pod of it runs for a moment before its admission."""
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {"simulate.quorate.dev/duration": "forever"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    metadata = {
        "name": name,
        "labels": {"kueue.x-k8s.io/queue-name": "queue", **labels},
        "annotations": {"kueue.x-k8s.io/elastic-job": "true"},
    }
    spec = {"suspend": True, "parallelism": pods, "template": template}
    await world.client.create(JOBS, {"metadata": metadata, "spec": spec}, NAMESPACE)


async def resize(world: World, pods: int) -> None:
    await world.client.patch(JOBS, KEY, {"spec": {"parallelism": pods}})


async def running(world: World) -> list[Pod]:
    pods = (await world.client.list(PLACEABLE_PODS, NAMESPACE)).items
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
        await world.until(f"slices {want}", find)
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

    run_story(story, Configuration(), NodePool(1, cpu="8"))


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

    run_story(story, Configuration(), NodePool(1, cpu="8"))


async def priority_classes(world: World) -> None:
    for name, value in (("low", 10), ("high", 1000)):
        await world.create(WORKLOAD_PRIORITY_CLASSES, name, value=value)


def test_both_slices_of_a_growing_job_follow_its_priority() -> None:
    async def story(world: World) -> None:
        await priority_classes(world)
        await world.queues(cpu="4", preemption={"withinClusterQueue": "LowerPriority"})
        await create(world, 2, **{PRIORITY: "low"})
        await create(world, 2, "other", **{PRIORITY: "low"})
        await until_running(world, 4)
        await resize(world, 4)
        await until_slices(world, (2, "Admitted"), (2, "Admitted"), (4, "Pending"))
        await world.client.patch(JOBS, KEY, {"metadata": {"labels": {PRIORITY: "high"}}})
        # The new slice has the priority to preempt the other job.
        await until_slices(world, (2, "Pending"), (2, "WorkloadSliceReplaced"), (4, "Admitted"))
        workloads = (await world.client.list(WORKLOADS, NAMESPACE)).items
        of_job = [each for each in workloads if each.metadata.name.startswith("job-train")]
        assert {each.spec.priority for each in of_job} == {1000}

    run_story(story, Configuration(), NodePool(1, cpu="8"))


def test_an_elastic_job_that_waits_to_grow_is_preempted_and_its_quota_held_until_its_pods_have_stopped() -> (
    None
):
    async def story(world: World) -> None:
        await priority_classes(world)
        await world.queues(cpu="4", preemption={"withinClusterQueue": "LowerPriority"})
        await create(world, 3, **{PRIORITY: "low"})
        await until_running(world, 3)
        await resize(world, 6)
        await until_slices(world, (3, "Admitted"), (6, "Pending"))
        await world.job("intruder", pods=2, runs="forever", labels={PRIORITY: "high"})
        await world.until_admitted("intruder")
        await until_slices(world, (2, "Admitted"), (3, "OutOfSync"), (6, "Pending"))

    run_story(story, Configuration(), NodePool(1, cpu="8"))


def test_a_job_without_pods_grows_and_may_get_another_flavor_than_at_its_start() -> None:
    async def story(world: World) -> None:
        for number, zone in enumerate("aabb", 1):
            labels = {"metadata": {"labels": {"zone": zone}}}
            await world.client.patch(NODES, Key("", f"node-{number}"), labels)
        for zone in "ab":
            await world.create(RESOURCE_FLAVORS, f"zone-{zone}", spec={"nodeLabels": {"zone": zone}})
        await world.create(CLUSTER_QUEUES, "research", **of_zones(a="4", b="4"))
        await world.local_queue()
        await create(world, 0)
        await until_slices(world, (0, "Admitted"))
        await world.job("filler", cpu="4", runs="forever")
        await world.until_admitted("filler")
        await resize(world, 2)
        await until_running(world, 3)
        assert (await world.get_job(KEY.name)).spec.suspend is False
        workloads = (await world.client.list(WORKLOADS, NAMESPACE)).items
        (grown,) = [each for each in workloads if each.spec.pod_sets[0].count == 2]
        assert grown.status.admission is not None
        assert grown.status.admission.pod_set_assignments[0].flavors == {"cpu": "zone-b"}

    run_story(story, Configuration(), NodePool(4, cpu="8"))


def test_a_job_that_has_grown_may_get_another_flavor_after_its_eviction() -> None:
    """Its newest workload has the templates of the user, without what the first admission added."""

    async def story(world: World) -> None:
        toleration = {"key": "spot", "operator": "Exists"}
        for zone in "ab":
            labels = {"kubernetes.io/os": "linux", "zone": zone}
            await world.flavor(f"zone-{zone}", nodeLabels=labels, tolerations=[toleration])
            await world.client.patch(
                NODES, Key("", f"node-{'ab'.index(zone) + 1}"), {"metadata": {"labels": labels}}
            )
        await world.create(CLUSTER_QUEUES, "research", **of_zones(a="2", b="2"))
        await world.local_queue()
        await create(world, 1)
        await until_running(world, 1)
        await resize(world, 2)
        await until_running(world, 2)
        await until_slices(world, (1, "WorkloadSliceReplaced"), (2, "Admitted"))
        grown = next(
            each for each in (await world.client.list(WORKLOADS)).items if each.spec.pod_sets[0].count == 2
        )
        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), of_zones(a="1", b="2"))
        await world.client.patch(WORKLOADS, grown.metadata.key, {"spec": {"active": False}})

        async def is_released() -> bool:  # the replaced workload of the job stays reserved
            return not has_quota_reservation(await world.client.get(WORKLOADS, grown.metadata.key))

        await world.until("the quota of the grown job is released", is_released)
        await world.client.patch(WORKLOADS, grown.metadata.key, {"spec": {"active": True}})
        await until_running(world, 2)
        template = read_template((await world.get_job(KEY.name)).spec.template)
        assert template["spec"]["nodeSelector"]["zone"] == "b"
        assert template["spec"]["tolerations"] == [toleration]

    run_story(story, Configuration(), NodePool(2, cpu="8"))


def test_a_job_starts_without_pods_and_grows() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="4")
        await create(world, 0)
        await until_slices(world, (0, "Admitted"))
        await resize(world, 2)
        await until_running(world, 2)
        await resize(world, 3)
        await until_running(world, 3)
        await until_slices(world, (0, "OutOfSync"), (2, "WorkloadSliceReplaced"), (3, "Admitted"))

    run_story(story, Configuration(), NodePool(1, cpu="8"))
