"""Retention over HTTP: finished objects are deleted later, also those finished before the start."""

import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.integrations import Integrations
from quorate.api.configuration.pods_ready import RequeuingStrategy, WaitForPodsReady
from quorate.api.configuration.queueing import ObjectRetention
from quorate.api.meta import Key
from quorate.kube.errors import NotFound
from quorate.kube.resources import JOBS, PODS, WORKLOADS
from quorate.local.nodes import NodePool
from tests.e2e.test_two_phases import answer, checked_queues
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

NODES = NodePool(1, cpu="8")


async def until_no_workload_is_left(world: World) -> None:
    async def is_deleted() -> bool:
        return not (await world.client.list(WORKLOADS, NAMESPACE)).items

    await world.until("no workload", is_deleted)


def test_finished_workloads_are_deleted_and_their_jobs_stay() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="4")
        await world.job("early")
        await world.until_finished("early")
        await world.stop_queueing()
        await world.start_queueing(Configuration(retention=ObjectRetention(finished_s=1.0)))
        await until_no_workload_is_left(world)
        await world.job("late")
        await until_finished_job(world, "late")
        await until_no_workload_is_left(world)
        assert [job.metadata.name for job in (await world.client.list(JOBS, NAMESPACE)).items] == [
            "early",
            "late",
        ]

    run_story(story, Configuration(), NODES)


async def until_finished_job(world: World, name: str) -> None:
    async def finished() -> bool:
        return (await world.get_job(name)).status.succeeded == 1

    await world.until(f"{name} succeeded", finished)


SHORT_RETENTION = Configuration(
    wait_for_pods_ready=WaitForPodsReady(
        timeout_s=1.0,
        recovery_timeout_s=None,
        block_admission=None,
        requeuing_strategy=RequeuingStrategy(backoff_limit_count=0),
    ),
    retention=ObjectRetention(deactivated_s=1.0),
)


def test_a_job_deactivated_by_the_controllers_is_deleted() -> None:
    run_story(stuck_job_is_deleted, SHORT_RETENTION, NODES)


async def stuck_job_is_deleted(world: World) -> None:
    await world.queues(cpu="4")
    await world.job("stuck", starts="1h")
    await world.until_condition("stuck", "Evicted", reason="DeactivatedDueToRequeuingLimitExceeded")

    async def is_deleted() -> bool:
        try:
            await world.client.get(JOBS, Key(NAMESPACE, "stuck"))
        except NotFound:
            return True
        return False

    await world.until("the job is deleted", is_deleted)
    await until_no_workload_is_left(world)


def test_pods_deactivated_by_the_controllers_are_deleted() -> None:
    """The check rejects the workload, so its pods never run."""
    configuration = Configuration(
        retention=ObjectRetention(deactivated_s=1.0), integrations=Integrations(frameworks=("pod",))
    )

    async def story(world: World) -> None:
        await checked_queues(world)
        labels = {"kueue.x-k8s.io/queue-name": "queue", "kueue.x-k8s.io/managed": "true"}
        gates = [{"name": "kueue.x-k8s.io/admission"}]
        container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
        spec = {"schedulingGates": gates, "containers": [container]}
        await world.client.create(
            PODS, {"metadata": {"name": "alone", "labels": labels}, "spec": spec}, NAMESPACE
        )
        await answer(world, "alone", "Rejected", "no such nodes")

        async def is_deleted() -> bool:
            return not (await world.client.list(PODS, NAMESPACE)).items

        await world.until("the pod is deleted", is_deleted)
        await until_no_workload_is_left(world)

    run_story(story, configuration, NODES)
