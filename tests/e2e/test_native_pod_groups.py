"""Plain pods in Kubernetes' own pod groups: one workload for each group, over HTTP."""

from typing import Any

import pytest

from quorate.api.meta import Key
from quorate.controllers.pods.queued_pod import is_gated
from quorate.kube.resources import CLUSTER_QUEUES, EVENTS, NATIVE_POD_GROUPS, WORKLOADS
from tests.e2e.test_pods import FLEET, FOREVER, PODS_QUEUED, has, pod, pods_of, until_pod, until_workload
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

GROUP = "ring"
MEMBER: dict[str, Any] = {"schedulingGroup": {"podGroupName": GROUP}}


async def native_group(world: World, policy: dict[str, Any]) -> None:
    await world.create(NATIVE_POD_GROUPS, GROUP, NAMESPACE, spec={"schedulingPolicy": policy})


async def gated(world: World) -> set[str]:
    return {name for name, member in (await pods_of(world)).items() if is_gated(member)}


async def set_quota(world: World, cpu: str) -> None:
    quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
    spec = {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quota]}]}
    await world.client.patch(CLUSTER_QUEUES, Key("", "research"), {"spec": spec})


def test_a_native_group_gets_quota_for_all_its_pods_or_none() -> None:
    async def story(world: World) -> None:
        await world.queues("2")
        await native_group(world, {"gang": {"minCount": 3}})
        for name in ("a", "b", "c"):
            await pod(world, name, **MEMBER)
        workload = await until_workload(world, GROUP, "waits", has("QuotaReserved", "False"))
        assert [pod_set.count for pod_set in workload.spec.pod_sets] == [3]
        assert await gated(world) == {"a", "b", "c"}
        await set_quota(world, "3")
        await until_workload(world, GROUP, "is finished", has("Finished", reason="Succeeded"))

    run_story(story, PODS_QUEUED, FLEET)


def test_a_group_is_queued_once_it_exists_and_has_enough_pods() -> None:
    async def story(world: World) -> None:
        await world.queues("8")
        await pod(world, "a", **MEMBER)

        async def is_told() -> bool:
            events = (await world.client.list(EVENTS, NAMESPACE)).items
            return any(
                f"pod group {GROUP} of scheduling.k8s.io does not exist" in event.note for event in events
            )

        await world.until("an event says what is missing", is_told)
        await native_group(world, {"gang": {"minCount": 2}})
        await pod(world, "b", runs=FOREVER, **MEMBER)
        await until_workload(world, GROUP, "is admitted", has("Admitted"))
        await until_pod(world, "b", "is ungated", lambda member: not is_gated(member))

    run_story(story, PODS_QUEUED, FLEET)


def test_a_pod_that_joins_later_stays_gated_and_is_not_deleted() -> None:
    async def story(world: World) -> None:
        await world.queues("8")
        await native_group(world, {"gang": {"minCount": 2}})
        for name in ("a", "b"):
            await pod(world, name, runs=FOREVER, **MEMBER)
        await until_workload(world, GROUP, "is admitted", has("Admitted"))
        await pod(world, "late", **MEMBER)
        await world.stop_queueing()
        await world.start_queueing(PODS_QUEUED)  # and the restart counts the same pods
        await pod(world, "alone")
        await until_pod(world, "alone", "has run", lambda member: member.has_ended)
        assert await gated(world) == {"late"}

    run_story(story, PODS_QUEUED, FLEET)


def test_pods_of_a_basic_group_are_queued_one_by_one() -> None:
    async def story(world: World) -> None:
        await world.queues("1")
        await native_group(world, {"basic": {}})
        for name in ("a", "b"):
            await pod(world, name, **MEMBER)
        for name in ("a", "b"):
            await until_pod(world, name, "has run", lambda member: member.has_ended)
        workloads = (await world.client.list(WORKLOADS, NAMESPACE)).items
        assert len(workloads) == 2

    run_story(story, PODS_QUEUED, FLEET)
