"""JobSets and LeaderWorkerSets with pods in Kubernetes' own pod groups: counted once, over HTTP.

The tests imitate the controllers of both.
"""

from collections.abc import Mapping

import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.integrations import Integrations
from quorate.api.core.pod import Pod
from quorate.controllers.pods.defaulting import NOT_GATED
from quorate.controllers.pods.queued_pod import is_gated
from quorate.kube.resources import EVENTS, WORKLOADS, Json
from quorate.local.nodes import NodePool
from quorate.processes.local.apply import install_definitions
from tests.e2e import test_sets
from tests.e2e.job_sets import (
    QUEUE_LABEL,
    SET,
    SET_NAME,
    create_job_set,
    make_jobs,
    pod_template,
    report_jobs,
)
from tests.e2e.minimal_definitions import definition
from tests.e2e.stock_kubernetes import create_group
from tests.e2e.test_native_pod_groups import set_quota, until_event_text
from tests.e2e.test_pods import FOREVER, GATE, has, pods_of, until_workload
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

GROUP = "ring"
FLEET = NodePool(count=2, cpu="4")
MEMBER: Json = {"schedulingGroup": {"podGroupName": GROUP}}
JOB_SETS = Configuration(integrations=Integrations(frameworks=("batch/job", "pod", SET_NAME)))


async def gang(world: World, least: int) -> None:
    await create_group(world.client, GROUP, {"gang": {"minCount": least}})


async def counts(world: World) -> list[list[int]]:
    """Return how many pods each pod set of each workload has."""
    found = (await world.client.list(WORKLOADS, NAMESPACE)).items
    return [[pod_set.count for pod_set in workload.spec.pod_sets] for workload in found]


async def start(world: World, configuration: Configuration, cpu: str) -> None:
    await install_definitions(world.client, [definition(SET)])
    await world.start_queueing(configuration)
    await world.queues(cpu)


async def until_member_pods(world: World, count: int) -> Mapping[str, Pod]:
    """Return the pods once ``count`` run, in the group, none of them gated."""

    async def run() -> Mapping[str, Pod]:
        await make_jobs(world)
        await report_jobs(world)
        pods = await pods_of(world)
        return pods if [each.status.phase for each in pods.values()] == ["Running"] * count else {}

    pods = await world.until(f"{count} pods run", run)
    names = [each.spec.scheduling_group for each in pods.values()]
    assert [name.pod_group_name for name in names if name is not None] == [GROUP] * count
    assert not any(map(is_gated, pods.values()))
    return pods


@pytest.mark.parametrize("pod_labels", [{}, QUEUE_LABEL], ids=["label of the set", "and of the pods"])
def test_a_queued_job_set_and_the_group_of_its_pods_are_counted_once(pod_labels: Json) -> None:
    async def story(world: World) -> None:
        await start(world, JOB_SETS, "3")
        await create_job_set(world, pod_template("3s", pod_labels, **MEMBER), QUEUE_LABEL)
        await until_event_text(world, f"pod group {GROUP} of scheduling.k8s.io does not exist")
        assert await counts(world) == []
        await gang(world, 4)
        await world.until_condition("train", "QuotaReserved", status="False")
        await make_jobs(world)
        await world.stop_queueing()
        await world.start_queueing(JOB_SETS)
        assert await pods_of(world) == {}
        await set_quota(world, "4")
        await until_member_pods(world, 4)
        await world.stop_queueing()
        await world.start_queueing(JOB_SETS)
        assert await counts(world) == [[4]]
        await until_finished(world)
        assert await counts(world) == [[4]]
        events = (await world.client.list(EVENTS, NAMESPACE)).items
        assert NOT_GATED not in {event.reason for event in events}, "no pod is queued by itself"

    run_story(story, fleet=FLEET)


async def until_finished(world: World) -> None:
    async def is_finished() -> bool:
        await report_jobs(world)
        workload = await world.workload("train")
        return workload is not None and has("Finished", reason="Succeeded")(workload)

    await world.until("the workload of the set is finished", is_finished)


def test_a_job_set_that_is_evicted_starts_again_in_its_group() -> None:
    async def story(world: World) -> None:
        await start(world, JOB_SETS, "4")
        await gang(world, 4)
        await create_job_set(world, pod_template(FOREVER, QUEUE_LABEL, **MEMBER), QUEUE_LABEL)
        before = await until_member_pods(world, 4)
        (workload,) = (await world.client.list(WORKLOADS, NAMESPACE)).items
        await world.client.patch(WORKLOADS, workload.metadata.key, {"spec": {"active": False}})

        async def has_no_pods() -> bool:
            await make_jobs(world)
            await report_jobs(world)
            return not await pods_of(world)

        await world.until("its pods are gone", has_no_pods)
        await world.until_condition("train", "QuotaReserved", status="False")
        await world.stop_queueing()
        await world.start_queueing(JOB_SETS)
        await world.client.patch(WORKLOADS, workload.metadata.key, {"spec": {"active": True}})
        after = await until_member_pods(world, 4)
        assert {each.metadata.uid for each in before.values()}.isdisjoint(
            each.metadata.uid for each in after.values()
        )
        assert await counts(world) == [[4]]

    run_story(story, fleet=FLEET)


def test_the_pods_of_a_job_set_without_a_queue_are_queued_with_their_group() -> None:
    """Their Jobs and the set name no queue: the pods of both Jobs are one workload."""

    async def story(world: World) -> None:
        await start(world, JOB_SETS, "3")
        await gang(world, 4)
        template = pod_template("1s", QUEUE_LABEL, schedulingGates=[GATE], **MEMBER)
        await create_job_set(world, template, {}, suspend=False)
        await make_jobs(world)
        workload = await until_workload(world, GROUP, "waits", has("QuotaReserved", "False"))
        assert [pod_set.count for pod_set in workload.spec.pod_sets] == [4]
        assert all(map(is_gated, (await pods_of(world)).values()))
        await set_quota(world, "4")
        await until_workload(world, GROUP, "is finished", has("Finished", reason="Succeeded"))
        assert await counts(world) == [[4]]

    run_story(story, fleet=FLEET)


SETS = Configuration(
    integrations=Integrations(frameworks=("pod", "leaderworkerset.x-k8s.io/leaderworkerset"))
)


async def start_sets(world: World, cpu: str, least: int) -> None:
    await install_definitions(world.client, [definition(test_sets.LWS)])
    await world.start_queueing(SETS)
    await world.queues(cpu)
    await gang(world, least)


async def until_gated(world: World, count: int) -> None:
    """Imitate the controller of LeaderWorkerSets until four pods are there, ``count`` of them gated."""

    async def find() -> bool:
        await test_sets.imitate(world)
        pods = await pods_of(world)
        return len(pods) == 4 and await test_sets.gated_are(world, count)

    await world.until(f"{count} of 4 pods are gated", find)


def test_the_groups_of_a_leader_worker_set_are_counted_once_in_a_native_group() -> None:
    """The set has two groups of two pods, in one native group."""

    async def story(world: World) -> None:
        await start_sets(world, "2", 2)
        await test_sets.create_set(world, {"workerTemplate": pod_template(FOREVER, **MEMBER)})
        await until_gated(world, 2)
        await set_quota(world, "4")
        await until_gated(world, 0)
        await world.stop_queueing()
        await world.start_queueing(SETS)
        assert await counts(world) == [[2], [2]]
        (evicted, _) = (await world.client.list(WORKLOADS, NAMESPACE)).items
        await world.client.patch(WORKLOADS, evicted.metadata.key, {"spec": {"active": False}})
        await until_gated(world, 2)
        await world.client.patch(WORKLOADS, evicted.metadata.key, {"spec": {"active": True}})
        await until_gated(world, 0)
        pods = (await pods_of(world)).values()
        names = [each.spec.scheduling_group for each in pods]
        assert [name.pod_group_name for name in names if name is not None] == [GROUP] * 4
        assert await counts(world) == [[2], [2]]

    run_story(story, fleet=FLEET)


def test_the_pods_of_a_leader_worker_set_without_a_queue_are_queued_with_their_group() -> None:
    async def story(world: World) -> None:
        await start_sets(world, "3", 4)
        template = pod_template(FOREVER, QUEUE_LABEL, schedulingGates=[GATE], **MEMBER)
        spec = {"replicas": 2, "leaderWorkerTemplate": {"size": 2, "workerTemplate": template}}
        await world.create(test_sets.LWS, "serve", NAMESPACE, spec=spec)
        await test_sets.imitate(world)
        await until_workload(world, GROUP, "waits", has("QuotaReserved", "False"))
        await until_gated(world, 4)
        await set_quota(world, "4")
        await until_gated(world, 0)
        assert await counts(world) == [[4]]

    run_story(story, fleet=FLEET)
