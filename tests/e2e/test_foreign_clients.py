"""Workloads without a job that foreign clients write to: the Workload API is public."""

import pytest

from quorate.api.configuration import Configuration, load_configuration
from quorate.api.configuration.queueing import Scheduling
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.kube.resources import NAMESPACES
from quorate.local.nodes import NodePool
from tests.e2e.bare_workloads import (
    apply,
    finish,
    read,
    release_quota,
    reserve,
    submit,
    until_admitted,
    until_pending,
    until_workload_condition,
)
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

PLAIN = Configuration()
WAITING = load_configuration(
    "{apiVersion: config.kueue.x-k8s.io/v1beta2, kind: Configuration, "
    "waitForPodsReady: {timeout: 5m}, scheduling: {enabled: false}}"
).configuration
NODES = NodePool(1, cpu="8")


def test_server_side_apply_releases_the_quota_of_a_preempted_workload() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="4", preemption={"withinClusterQueue": "LowerPriority"})
        await submit(world, "low", requests={"cpu": "2"}, priority=-1)
        await until_admitted(world, "low")
        await submit(world, "high", requests={"cpu": "3"}, priority=1)
        await release_quota(world, "low")
        await until_admitted(world, "high")
        await until_pending(world, "low")

        async def without_admission() -> bool:
            return (await read(world, "low")).status.admission is None

        await world.until("the admission is removed", without_admission)
        await finish(world, "high")
        await until_admitted(world, "low")

    run_story(story, PLAIN)


def test_an_update_with_only_the_finished_condition_finishes_a_preempted_workload() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="4", preemption={"withinClusterQueue": "LowerPriority"})
        await submit(world, "low", requests={"cpu": "4"}, priority=-1)
        await until_admitted(world, "low")
        await submit(world, "high", requests={"cpu": "4"}, priority=1)
        await until_workload_condition(world, "low", "Evicted")
        await finish(world, "low")
        await until_admitted(world, "high")

    run_story(story, PLAIN)


def test_a_partial_reservation_by_a_foreign_client_is_ignored() -> None:
    async def story(world: World) -> None:
        await submit(world, "one", requests={"cpu": "1"})
        await until_workload_condition(world, "one", "QuotaReserved", "False")
        await apply(world, "one", {"admission": {"podSetAssignments": [{"name": "main"}]}})
        await world.queues(cpu="4")
        await until_admitted(world, "one")

    run_story(story, PLAIN)


def test_equal_pending_workloads_all_get_the_pending_reason() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="1")
        await submit(world, "first", requests={"cpu": "1"})
        await until_admitted(world, "first")
        equal = ("second", "third", "fourth")
        for name in equal:
            await submit(world, name, requests={"cpu": "1"})
        await until_pending(world, *equal)
        messages = {
            (await until_workload_condition(world, name, "QuotaReserved", "False")).message for name in equal
        }
        assert len(messages) == 1, messages

    run_story(story, PLAIN)


def test_without_scheduling_quota_is_reserved_by_another_client_only() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="4")
        await world.job("first", runs="1s")
        await world.job("second", runs="1s")

        async def names_of_workloads() -> list[str]:
            found = [await world.workload(job) for job in ("first", "second")]
            return [] if None in found else [each.metadata.name for each in found if each is not None]

        names = await world.until("both jobs have workloads", names_of_workloads)
        await reserve(world, names[0], {"cpu": "1"})
        await world.until_finished("first")
        second = await read(world, names[1])
        assert second.status.admission is None
        assert second.status.conditions == ()  # it would have been admitted, or would have got a reason

    run_story(story, Configuration(scheduling=Scheduling(enabled=False)), NODES)


def test_without_scheduling_a_workload_that_its_queue_never_admits_says_why() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="4", namespaceSelector={"matchLabels": {"team": "a"}})
        await submit(world, "elsewhere", requests={"cpu": "1"})
        await submit(world, "nowhere", queue="absent", requests={"cpu": "1"})
        missing = await until_workload_condition(world, "nowhere", "QuotaReserved", "False", "Misconfigured")
        assert missing.message == "LocalQueue absent doesn't exist"
        refused = await until_workload_condition(
            world, "elsewhere", "QuotaReserved", "False", "Misconfigured"
        )
        assert refused.message == "workload namespace doesn't match ClusterQueue selector"
        labels = {"metadata": {"labels": {"team": "a"}}}
        await world.client.patch(NAMESPACES, Key("", NAMESPACE), labels)
        await until_workload_condition(world, "elsewhere", "QuotaReserved", "False", "PendingEvaluation")

    run_story(story, Configuration(scheduling=Scheduling(enabled=False)))


def test_without_scheduling_jobs_report_pods_that_are_not_ready() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="4")
        await world.job("train", runs="60s", starts="60s")

        async def has_workload() -> Workload | None:
            return await world.workload("train")

        name = (await world.until("the job has a workload", has_workload)).metadata.name
        await until_workload_condition(world, name, "PodsReady", "False", "WaitForStart")
        await reserve(world, name, {"cpu": "1"})
        await until_admitted(world, name)
        await until_workload_condition(world, name, "PodsReady", "False", "WaitForStart")

    run_story(story, WAITING, NODES)
