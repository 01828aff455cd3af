"""Quantities beyond 64 bits in the objects of tenants: one job waits, everything else goes on."""

from typing import Any

import pytest

from quorate.api.configuration import Configuration
from quorate.api.meta import Key, find_condition
from quorate.kube.events import UNREADABLE, UNUSABLE
from quorate.kube.resources import CLUSTER_QUEUES, EVENTS, JOBS, untyped
from tests.e2e import volcano
from tests.e2e.volcano import Gangs
from tests.e2e.world import NAMESPACE, World, run_story

Json = dict[str, Any]

pytestmark = pytest.mark.slow

RAW_CLUSTER_QUEUES = untyped(
    CLUSTER_QUEUES.group, CLUSTER_QUEUES.version, "clusterqueues", "ClusterQueue", False
)


def test_a_job_that_asks_for_more_than_everything_waits_alone() -> None:
    async def story(world: World) -> None:
        await world.queues(cpu="4")
        await world.job("huge", cpu="1E400", runs="forever")
        await world.job("small", runs="forever")
        await world.until_admitted("small")

        async def reason_of_huge() -> bool:
            workload = await world.workload("huge")
            conditions = () if workload is None else workload.status.conditions
            reserved = find_condition(conditions, "QuotaReserved")
            return reserved is not None and "> maximum capacity (4)" in reserved.message

        await world.until("the reason of the huge job", reason_of_huge)

    run_story(story, Configuration())


def job_with_limit(name: str, memory: str, label: str, scheduler: str) -> Json:
    container = {"name": "main", "image": "busybox", "resources": {"limits": {"memory": memory}}}
    pod = {"restartPolicy": "Never", "containers": [container], "schedulerName": scheduler}
    template = {"metadata": {"labels": {"made-for": label}}, "spec": pod}
    annotations = {"scheduling.volcano.sh/group-min-member": "1"}
    return {
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"suspend": True, "template": template},
    }


def test_jobs_without_a_queue_that_name_a_gang_scheduler_and_a_huge_limit_stop_nothing() -> None:
    """The text of a template decides whether it is decoded; any client may store such a job."""
    jobs = [
        job_with_limit(f"{label}-{number}", memory, label, scheduler)
        for label, scheduler in (("volcano", "volcano"), ("quorate", "quorate"), ("volcano", "other"))
        for number, memory in enumerate(("1E310", "1e-400", "9" * 400, "9223372036854775807Ei"))
    ]

    async def story(gangs: Gangs) -> None:
        world = gangs.world
        await world.queues(cpu="4")
        for number, job in enumerate(jobs):
            job["metadata"]["name"] = f"hostile-{number}"
            await gangs.client.create(JOBS, job, NAMESPACE)
        await world.job("before")
        await world.until_admitted("before")
        await world.stop_queueing()  # raises what ended the controllers
        await world.start_queueing(Configuration())  # now the jobs arrive in a list
        await world.job("after")
        await world.until_admitted("after")
        for number, job in enumerate(jobs):
            if job["spec"]["template"]["spec"]["schedulerName"] != "other":
                group = await gangs.until_group(f"hostile-{number}")
                assert group.spec.min_member == 1
        assert [
            each for each in (await gangs.client.list(EVENTS)).items if each.reason in (UNREADABLE, UNUSABLE)
        ] == []

    volcano.run_story(story)


def groups_with_quota(quota: str) -> list[Json]:
    quotas = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": quota}]}
    return [{"coveredResources": ["cpu"], "flavors": [quotas]}]


def test_a_queue_with_a_quantity_that_only_the_pattern_allows_shows_it_and_heals() -> None:
    async def active(world: World, message: str) -> bool:
        status = (await world.client.get(RAW_CLUSTER_QUEUES, Key("", "odd"))).get("status", {})
        return any(
            each["type"] == "Active" and message in f"{each['status']} {each['reason']}: {each['message']}"
            for each in status.get("conditions", ())
        )

    async def story(world: World) -> None:
        await world.queues("4")
        spec = {"namespaceSelector": {}, "resourceGroups": groups_with_quota("1e1.5")}
        await world.client.create(RAW_CLUSTER_QUEUES, {"metadata": {"name": "odd"}, "spec": spec})
        await world.local_queue("odd", "odd")
        await world.job("other")
        await world.until_admitted("other")
        await world.until("the queue is not active", lambda: active(world, "False Unreadable: left out"))
        await world.until("it says why", lambda: active(world, "'1e1.5' is not a quantity"))
        healed = {"spec": {"resourceGroups": groups_with_quota("1e1")}}
        await world.client.patch(RAW_CLUSTER_QUEUES, Key("", "odd"), healed)
        await world.until("the queue is active", lambda: active(world, "True Ready"))
        await world.job("later", queue="odd")
        await world.until_admitted("later")

    run_story(story, Configuration())
