"""Pod groups of batch Jobs and of plain pods, over HTTP."""

from typing import Any

import pytest

from quorate.api.core import Pod
from quorate.api.core.pod_resources import quota_usage, sum_resources
from quorate.api.meta import Key
from quorate.api.volcano import PodGroup
from quorate.kube.resources import (
    JOBS,
    LIMIT_RANGES,
    POD_GROUPS,
    PODS,
    RUNTIME_CLASSES,
    VOLCANO_JOBS,
    untyped,
)
from tests.e2e.volcano import Gangs, run_story
from tests.e2e.world import NAMESPACE

pytestmark = pytest.mark.slow


def test_a_queued_job_starts_once_its_workload_and_its_group_are_admitted() -> None:
    async def scenario(gangs: Gangs) -> None:
        world = gangs.world
        await world.queues("4")
        await world.job("train", pods=2, suspend=True, schedulerName="quorate")
        group = await gangs.until_group("train")
        assert (group.spec.min_member, str((group.spec.min_resources or {})["cpu"])) == (2, "2")
        await world.until_admitted("train")
        assert (await world.get_job("train")).spec.suspend
        assert await gangs.pods() == {}

        await gangs.set_group_phase(group, "Inqueue")

        async def running() -> bool:
            return len(await gangs.pods()) == 2

        await world.until("both pods", running)
        names = {
            pod.metadata.annotations["scheduling.k8s.io/group-name"] for pod in (await gangs.pods()).values()
        }
        assert names == {group.metadata.name}

        await gangs.set_group_phase(group, "Pending", "InqueueTimeout")

        async def suspended() -> bool:
            return (await world.get_job("train")).spec.suspend and not await gangs.pods()

        await world.until("the job is suspended again", suspended)
        await world.until_admitted("train")  # it keeps its quota
        await gangs.set_group_phase(group, "Inqueue")
        await world.until("both pods again", running)

    run_story(scenario)


def test_a_job_without_quota_has_no_group() -> None:
    async def scenario(gangs: Gangs) -> None:
        await gangs.world.queues("1")
        await gangs.world.job("large", pods=2, suspend=True, schedulerName="volcano")
        await gangs.world.until_condition("large", "QuotaReserved", "False")
        await gangs.world.job("small", pods=1, suspend=True, schedulerName="volcano")
        await gangs.until_group("small")
        owners = {
            owner.name
            for group in (await gangs.client.list(POD_GROUPS, NAMESPACE)).items
            for owner in group.metadata.owner_references
        }
        assert owners == {"small"}

    run_story(scenario)


def test_a_suspended_job_that_is_not_queued_starts_with_its_group() -> None:
    async def scenario(gangs: Gangs) -> None:
        world = gangs.world
        annotations = {"scheduling.volcano.sh/group-min-member": "2"}
        await world.job(
            "train", pods=2, queue="", suspend=True, annotations=annotations, schedulerName="quorate"
        )
        group = await gangs.until_group("train")
        await gangs.set_group_phase(group, "Inqueue")

        async def running() -> bool:
            return len(await gangs.pods()) == 2

        await world.until("both pods", running)
        await gangs.client.patch(JOBS, Key(NAMESPACE, "train"), {"spec": {"suspend": True}})

        async def no_group() -> bool:
            return not (await gangs.client.list(POD_GROUPS, NAMESPACE)).items

        await world.until("the job suspended by a user has no group", no_group)

    run_story(scenario)


def test_plain_pods_get_their_own_groups() -> None:
    async def scenario(gangs: Gangs) -> None:
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
        spec = {"schedulerName": "volcano", "containers": [container]}
        await gangs.world.create(PODS, "alone", NAMESPACE, spec=spec)
        group = await gangs.until_group("alone")
        assert group.spec.min_member == 1

        async def named() -> bool:
            pod = (await gangs.pods())["alone"]
            return pod.metadata.annotations.get("scheduling.k8s.io/group-name") == group.metadata.name

        await gangs.world.until("the pod names its group", named)

    run_story(scenario)


def test_the_pods_of_a_set_share_a_group_that_is_deleted_at_zero_replicas() -> None:
    async def scenario(gangs: Gangs) -> None:
        sets = untyped("apps", "v1", "statefulsets", "StatefulSet", namespaced=True)
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
        labels = {"app": "web"}
        annotations = {"scheduling.volcano.sh/group-min-member": "2"}
        body = {
            "metadata": {"name": "web", "annotations": annotations},
            "spec": {
                "replicas": 2,
                "podManagementPolicy": "Parallel",
                "serviceName": "web",
                "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {"schedulerName": "quorate", "containers": [container]},
                },
            },
        }
        await gangs.client.create(sets, body, NAMESPACE)
        group = await gangs.until_group("web")
        assert (group.spec.min_member, str((group.spec.min_resources or {})["cpu"])) == (2, "2")

        async def both() -> bool:
            pods = (await gangs.pods()).values()
            names = [pod.metadata.annotations.get("scheduling.k8s.io/group-name") for pod in pods]
            return names == [group.metadata.name] * 2

        await gangs.world.until("both pods name their group", both)
        await gangs.client.patch(sets, Key(NAMESPACE, "web"), {"spec": {"replicas": 0}})

        async def no_group() -> bool:
            return not (await gangs.client.list(POD_GROUPS, NAMESPACE)).items

        await gangs.world.until("the group is deleted", no_group)

    run_story(scenario)


@pytest.mark.parametrize("kind", ["Volcano Job", "Job"])
def test_the_minimum_resources_of_a_group_are_what_its_pods_request_once_they_exist(kind: str) -> None:
    async def scenario(gangs: Gangs) -> None:
        world = gangs.world
        limits = {"type": "Container", "defaultRequest": {"cpu": "500m"}}
        await world.create(LIMIT_RANGES, "limits", NAMESPACE, spec={"limits": [limits]})
        overhead = {"podFixed": {"cpu": "250m"}}
        await world.create(RUNTIME_CLASSES, "sandbox", handler="h", overhead=overhead)
        limited = {"image": "busybox", "resources": {"limits": {"cpu": "1"}}}
        sidecar = {"name": "side", "restartPolicy": "Always", **limited}
        pod: dict[str, Any] = {
            "runtimeClassName": "sandbox",
            "restartPolicy": "Never",
            "initContainers": [sidecar],
            "containers": [{"name": "main", "image": "busybox"}],
        }
        if kind == "Job":
            await world.queues("9")
            await world.job("train", pods=2, suspend=True, schedulerName="quorate", **pod)
        else:
            task = {"name": "worker", "replicas": 2, "template": {"spec": pod}}
            await world.create(VOLCANO_JOBS, "train", NAMESPACE, spec={"tasks": [task]})

        async def until_requested(cpu: str) -> PodGroup:
            async def find() -> PodGroup | None:
                group = await gangs.until_group("train")
                return group if str((group.spec.min_resources or {}).get("cpu")) == cpu else None

            return await world.until(f"the group requests {cpu} cpus", find)

        await until_requested("3500m")
        more = {"spec": {"limits": [{**limits, "defaultRequest": {"cpu": "1"}}]}}
        await world.client.patch(LIMIT_RANGES, Key(NAMESPACE, "limits"), more)
        group = await until_requested("4500m")
        await gangs.set_group_phase(group, "Inqueue")

        async def are_created() -> list[Pod]:
            pods = list((await gangs.pods()).values())
            return pods if len(pods) == 2 else []

        pods = await world.until("both pods", are_created)
        assert sum_resources(quota_usage(pod.spec) for pod in pods) == group.spec.min_resources

    run_story(scenario)
