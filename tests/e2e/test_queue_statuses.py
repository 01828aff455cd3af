"""Statuses of queues, flavors and cohorts, independent of the order of creation and deletion."""

from typing import Any

import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.queueing import AdmissionFairSharing, FairSharing
from quorate.api.meta import Key, find_condition
from quorate.api.quantity import NANOS
from quorate.kube.errors import NotFound
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    COHORTS,
    LOCAL_QUEUES,
    RESOURCE_FLAVORS,
    untyped,
)
from tests.e2e.bare_workloads import get_condition, submit, until_admitted
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

RAW_LOCAL_QUEUES = untyped("kueue.x-k8s.io", "v1beta2", "localqueues", "LocalQueue", True)


async def until_local_queue_status(world: World, want: dict[str, Any]) -> None:
    """Wait for the status ``want``, without timestamps and workload counts, which are written as 0."""

    async def find() -> bool:
        stored = await world.client.get(RAW_LOCAL_QUEUES, Key(NAMESPACE, "queue"))
        status = dict(stored.get("status", {}))
        for condition in status.get("conditions", []):
            del condition["lastTransitionTime"]
        for number in ("pendingWorkloads", "reservingWorkloads", "admittedWorkloads"):
            if status.pop(number, None) != 0:
                return False
        return bool(status == want)

    await world.until(f"the status of the local queue is {want}", find)


def active(status: str, reason: str, message: str) -> list[dict[str, str]]:
    return [{"type": "Active", "status": status, "reason": reason, "message": message}]


def test_a_local_queue_reports_its_cluster_queue_and_drops_deleted_flavors() -> None:
    async def story(world: World) -> None:
        closed = "Can't submit new workloads to clusterQueue"
        unused = [{"name": "default", "resources": [{"name": "cpu", "total": "0"}]}]
        use = {"flavorsReservation": unused, "flavorsUsage": unused}
        missing = {"conditions": active("False", "ClusterQueueDoesNotExist", closed)}
        await world.local_queue()
        await until_local_queue_status(world, missing)
        await world.cluster_queue("5")
        inactive = {"conditions": active("False", "ClusterQueueIsInactive", closed), **use}
        await until_local_queue_status(world, inactive)
        await world.flavor()
        ready = {"conditions": active("True", "Ready", "Can submit new workloads to localQueue"), **use}
        await until_local_queue_status(world, ready)

        await world.client.delete(RESOURCE_FLAVORS, Key("", "default"))
        await world.client.delete(CLUSTER_QUEUES, Key("", "research"))
        await until_local_queue_status(world, missing)

        async def flavor_gone() -> bool:
            try:
                await world.client.get(RESOURCE_FLAVORS, Key("", "default"))
            except NotFound:
                return True
            return False

        await world.until("the flavor has no finalizer", flavor_gone)

    run_story(story, Configuration())


def test_cohorts_report_their_weighted_share_with_fair_sharing() -> None:
    async def story(world: World) -> None:
        await world.flavor()
        quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "3"}]}
        groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
        await world.create(COHORTS, "lab", spec={"parentName": "root"})
        await world.create(COHORTS, "bank", spec={"parentName": "root", "resourceGroups": groups})
        await world.cluster_queue("1", cohortName="lab")
        await world.local_queue()

        async def until_share(cohort: str, share: int) -> None:
            async def find() -> bool:
                fair_sharing = (await world.client.get(COHORTS, Key("", cohort))).status.fair_sharing
                return fair_sharing is not None and fair_sharing.weighted_share == share

            await world.until(f"{cohort} has a share of {share}", find)

        await until_share("lab", 0)
        await submit(world, "borrower", requests={"cpu": "3"})
        await until_admitted(world, "borrower")
        await until_share("lab", 500)  # two of the four of the root
        await until_share("bank", 0)

    run_story(story, Configuration(fair_sharing=FairSharing(preemption_strategies=("LessThanInitialShare",))))


def test_consumed_usage_accrues_and_is_shown_while_no_workload_is_pending() -> None:
    async def story(world: World) -> None:
        await world.queues("4")
        await world.local_queue("unused")
        await submit(world, "w", requests={"cpu": "4"})
        await until_admitted(world, "w")

        async def until_consumed(queue: str, least: float, most: float) -> None:
            async def find() -> bool:
                stored = await world.client.get(LOCAL_QUEUES, Key(NAMESPACE, queue))
                sharing = stored.status.fair_sharing
                usage = sharing.admission_fair_sharing_status if sharing is not None else None
                if usage is None or "cpu" not in usage.consumed_resources:
                    return False
                return least <= usage.consumed_resources["cpu"].nanos / NANOS <= most

            await world.until(f"{queue} has consumed at least {least} cpus, at most {most}", find)

        await until_consumed("unused", 0.0, 0.0)
        await until_consumed("queue", 3.0, 4.0)  # after two half-lives

    sharing = AdmissionFairSharing(usage_half_life_s=2.0, usage_sampling_interval_s=1.0)
    run_story(story, Configuration(admission_fair_sharing=sharing))


def test_a_local_queue_has_a_status_before_its_usage_is_sampled() -> None:
    async def story(world: World) -> None:
        await world.queues("0")
        await submit(world, "w", requests={"cpu": "9"})
        for cpu in ("1", "2", "3"):  # decided about together, and usage is sampled with decisions
            quotas = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": cpu}]}
            body = {"spec": {"resourceGroups": [{"coveredResources": ["cpu"], "flavors": [quotas]}]}}
            await world.client.patch(CLUSTER_QUEUES, Key("", "research"), body)
        await world.local_queue("late")

        async def is_shown() -> bool:
            stored = await world.client.get(LOCAL_QUEUES, Key(NAMESPACE, "late"))
            return find_condition(stored.status.conditions, "Active") is not None

        await world.until("the local queue has a status", is_shown)

    run_story(story, Configuration(admission_fair_sharing=AdmissionFairSharing()))


def test_workloads_of_a_restarted_local_queue_lose_the_reason_of_the_stop() -> None:
    async def story(world: World) -> None:
        await world.queues("1")
        await world.local_queue("other")
        await submit(world, "running", "other", requests={"cpu": "1"})
        await until_admitted(world, "running")
        names = ("w1", "w2", "w3")
        await submit(world, "same", "other", requests={"cpu": "1"})
        for name in names:
            await submit(world, name, requests={"cpu": "1"})

        async def until_each_says(text: str) -> None:
            async def find() -> bool:
                found = [await get_condition(world, name, "QuotaReserved") for name in (*names,)]
                return all(one is not None and text in one.message for one in found)

            await world.until(f"each workload says: {text}", find)

        async def set_stop_policy(policy: str) -> None:
            await world.client.patch(LOCAL_QUEUES, Key(NAMESPACE, "queue"), {"spec": {"stopPolicy": policy}})

        await until_each_says("insufficient unused quota")
        await set_stop_policy("Hold")
        await until_each_says("LocalQueue queue is inactive")
        await set_stop_policy("None")
        await until_each_says("insufficient unused quota")

    run_story(story, Configuration())


def test_queues_tell_of_a_cycle_of_cohorts_until_it_is_resolved() -> None:
    async def story(world: World) -> None:
        await world.flavor()
        for name, parent in (("x", "y"), ("y", "z"), ("z", "")):
            await world.create(COHORTS, name, spec={"parentName": parent} if parent else {})
        await world.cluster_queue("2", cohortName="x")
        await world.local_queue()

        async def until_active(reason: str) -> None:
            async def find() -> bool:
                statuses = (
                    (await world.client.get(CLUSTER_QUEUES, Key("", "research"))).status,
                    (await world.client.get(LOCAL_QUEUES, Key(NAMESPACE, "queue"))).status,
                )
                found = [find_condition(status.conditions, "Active") for status in statuses]
                return all(each is not None and each.reason == reason for each in found)

            await world.until(f"both queues have the reason {reason}", find)

        await until_active("Ready")
        await world.client.patch(COHORTS, Key("", "z"), {"spec": {"parentName": "x"}})
        await until_active("CohortCycleDetected")
        await submit(world, "w", requests={"cpu": "1"})
        await world.client.patch(COHORTS, Key("", "z"), {"spec": {"parentName": None}})
        await until_active("Ready")
        await until_admitted(world, "w")

    run_story(story, Configuration())


def test_a_finalizer_that_an_administrator_removes_is_not_added_again() -> None:
    async def story(world: World) -> None:
        await world.queues("1")

        async def has_finalizer(name: str) -> bool:
            return bool((await world.client.get(RESOURCE_FLAVORS, Key("", name))).metadata.finalizers)

        await world.until("the flavor has its finalizer", lambda: has_finalizer("default"))
        await world.client.patch(RESOURCE_FLAVORS, Key("", "default"), {"metadata": {"finalizers": None}})
        await world.flavor("later")
        await world.until("a later flavor has its finalizer", lambda: has_finalizer("later"))
        assert not await has_finalizer("default")
        await world.client.delete(RESOURCE_FLAVORS, Key("", "default"))
        with pytest.raises(NotFound):
            await world.client.get(RESOURCE_FLAVORS, Key("", "default"))

    run_story(story, Configuration())
