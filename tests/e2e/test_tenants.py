"""What a tenant with edit rights in one namespace tries in order to run more pods than quota allows."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quorate.api.configuration import Configuration
from quorate.api.events import Event
from quorate.api.meta import Key, is_true
from quorate.controllers.jobframework.elastic_gates import GATED_PODS
from quorate.controllers.pods import constants
from quorate.controllers.pods.queued_pod import PODS, is_gated
from quorate.kube.resources import CLUSTER_QUEUES, EVENTS, JOBS
from quorate.local.nodes import Fleet
from tests.e2e import test_elastic as elastic
from tests.e2e.test_pods import FAILS, FOREVER, PODS_QUEUED, pod, until_pod
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

FLEET = Fleet(2, cpu="16")


def event(world: World, reason: str, about: str) -> Callable[[], Awaitable[Event | None]]:
    async def find() -> Event | None:
        for each in (await world.client.list(EVENTS)).items:
            if each.reason == reason and each.regarding is not None and each.regarding.name == about:
                return each
        return None

    return find


def used_cpu(world: World, amount: str) -> Callable[[], Awaitable[bool]]:
    """Return True once the queue reports that ``amount`` of its cpu is used."""

    async def find() -> bool:
        queue = await world.client.get(CLUSTER_QUEUES, Key("", "research"))
        return [str(each.total) for flavor in queue.status.flavors_usage for each in flavor.resources] == [
            amount
        ]

    return find


def test_a_replacement_with_the_role_of_a_smaller_pod_stays_gated() -> None:
    async def story(world: World) -> None:
        await world.queues("4")
        await pod(world, "a", group="g", total=2, runs=FOREVER)
        await pod(world, "b", group="g", total=2, annotations=FAILS)
        ended = await until_pod(world, "b", "failed", lambda it: it.status.phase == "Failed")
        role = {constants.ROLE_HASH: ended.metadata.annotations[constants.ROLE_HASH]}
        await pod(world, "large", group="g", total=2, cpu="8", annotations=role)
        told = await world.until("the event", event(world, "OutsideQuota", "large"))
        assert told.note == "it stays gated, it requests more than quota is charged for: cpu 8, charged 1"
        large = await until_pod(world, "large", "exists", lambda _: True)
        assert is_gated(large)

    run_story(story, PODS_QUEUED, FLEET)


def test_a_deleted_job_that_a_finalizer_keeps_holds_its_quota_while_its_pods_run() -> None:
    async def story(world: World) -> None:
        await world.queues("2")
        await world.job("kept", pods=2, runs="1h")
        await world.until_admitted("kept")
        key = Key(NAMESPACE, "kept")

        async def runs() -> bool:
            return (await world.get_job("kept")).status.active == 2

        await world.until("two pods run", runs)
        await world.client.patch(JOBS, key, {"metadata": {"finalizers": ["example.com/mine"]}})
        await world.client.delete(JOBS, key, propagation="Background")
        await world.job("next", pods=1, runs="1h")
        await world.until_condition("next", "QuotaReserved", "False")
        kept = await world.workload("kept")
        assert kept is not None
        assert not is_true(kept.status.conditions, "Finished")
        assert await world.admitted() == {"kept"}
        for each in (await world.client.list(PODS, NAMESPACE)).items:
            await world.client.delete(PODS, each.metadata.key, grace_period_s=0)
        await world.until_admitted("next")
        await world.client.patch(JOBS, key, {"metadata": {"finalizers": None}})

    run_story(story, Configuration(), FLEET)


@pytest.mark.provokes("OverLimit")
def test_elastic_pods_that_the_tenant_ungates_are_shown() -> None:
    async def story(world: World) -> None:
        await world.queues("4")
        await elastic.create(world, 4)
        await elastic.until_running(world, 4)
        await elastic.resize(world, 12)

        async def gated() -> list[Any]:
            pods = (await world.client.list(GATED_PODS, NAMESPACE)).items
            found = [each for each in pods if each.spec.scheduling_gates]
            return found if len(found) == 8 else []

        for each in await world.until("eight pods wait", gated):
            await world.client.patch(GATED_PODS, each.metadata.key, {"spec": {"schedulingGates": None}})
        await elastic.until_running(world, 12)

        async def is_found() -> bool:
            return any(each.excess == 8 * 10**9 for each in world.witnessed.report.differences)

        await world.until("the witness sees eight cpus too many", is_found)

    run_story(story, Configuration(), FLEET)
