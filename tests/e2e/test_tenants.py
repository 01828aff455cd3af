"""What a tenant with edit rights in one namespace tries in order to run more pods than quota allows."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.queueing import OutsideQuota
from quorate.api.events import Event
from quorate.api.kueue import Workload
from quorate.api.meta import Key, find_condition, is_true
from quorate.controllers.pods import constants
from quorate.controllers.pods.queued_pod import is_gated
from quorate.kube.resources import CLUSTER_QUEUES, EVENTS, JOBS, PLACEABLE_PODS, WORKLOADS
from quorate.local.nodes import NodePool
from tests.e2e import test_elastic as elastic
from tests.e2e.test_pods import FAILS, FOREVER, PODS_QUEUED, pod, until_pod
from tests.e2e.world import NAMESPACE, World, run_story

pytestmark = pytest.mark.slow

FLEET = NodePool(2, cpu="16")


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
        for each in (await world.client.list(PLACEABLE_PODS, NAMESPACE)).items:
            await world.client.delete(PLACEABLE_PODS, each.metadata.key, grace_period_s=0)
        await world.until_admitted("next")
        await world.client.patch(JOBS, key, {"metadata": {"finalizers": None}})

    run_story(story, Configuration(), FLEET)


async def grow_without_quota(world: World) -> None:
    """Run an elastic job of four pods, let it request twelve, and remove the gates of the other eight."""
    await elastic.create(world, 4)
    await elastic.until_running(world, 4)
    await ungate(world, 12)


async def ungate(world: World, pods: int) -> None:
    """Let the elastic job of four pods request ``pods``, and remove the gates of the new ones."""
    await elastic.resize(world, pods)

    async def gated() -> list[Any]:
        listed = (await world.client.list(PLACEABLE_PODS, NAMESPACE)).items
        found = [each for each in listed if each.spec.scheduling_gates]
        return found if len(found) == pods - 4 else []

    for each in await world.until("the new pods wait", gated):
        await world.client.patch(PLACEABLE_PODS, each.metadata.key, {"spec": {"schedulingGates": None}})


def outside(world: World, text: str) -> Callable[[], Awaitable[Workload | None]]:
    """Return the workload of which the condition says that its pods use ``text`` more than is charged."""

    async def find() -> Workload | None:
        for each in (await world.client.list(WORKLOADS, NAMESPACE)).items:
            shown = find_condition(each.status.conditions, "quorate.dev/OutsideQuota")
            if shown is not None and f"use {text} more than" in shown.message:
                return each
        return None

    return find


def none_outside(world: World) -> Callable[[], Awaitable[bool]]:
    async def find() -> bool:
        workloads = (await world.client.list(WORKLOADS, NAMESPACE)).items
        conditions = [each.type for workload in workloads for each in workload.status.conditions]
        return "quorate.dev/OutsideQuota" not in conditions

    return find


@pytest.mark.provokes("OverLimit", "OutsideQuota")
def test_elastic_pods_that_the_tenant_ungates_use_quota() -> None:
    async def story(world: World) -> None:
        await world.queues("11")
        await grow_without_quota(world)
        found = await world.until("the use is shown", outside(world, "8 cpu of flavor default"))
        await world.until("it is an event", event(world, "OutsideQuota", found.metadata.name))
        await world.until("the queue counts it", used_cpu(world, "12"))
        await world.job("next", pods=1, runs="1h")
        await world.until_condition("next", "QuotaReserved", "False")
        await elastic.resize(world, 4)  # the Job controller deletes eight pods
        await world.until_admitted("next")
        await world.until("nothing is shown", none_outside(world))

    run_story(story, Configuration(), FLEET)


@pytest.mark.provokes("OverLimit", "OutsideQuota")
def test_the_quota_that_ungated_pods_use_is_that_of_their_next_slice() -> None:
    async def story(world: World) -> None:
        await world.queues("4")
        await grow_without_quota(world)
        await world.until("the use is shown", outside(world, "8 cpu of flavor default"))
        quota = {"name": "default", "resources": [{"name": "cpu", "nominalQuota": "12"}]}
        groups = [{"coveredResources": ["cpu"], "flavors": [quota]}]
        await world.client.patch(CLUSTER_QUEUES, Key("", "research"), {"spec": {"resourceGroups": groups}})

        async def is_replaced() -> bool:
            return await elastic.slices(world) == [(4, "WorkloadSliceReplaced"), (12, "Admitted")]

        await world.until("the next slice is admitted", is_replaced)
        await world.until("nothing is shown", none_outside(world))
        await world.until("each pod is counted once", used_cpu(world, "12"))

    run_story(story, Configuration(), FLEET)


async def child_of(world: World, parent: str, pods: int) -> None:
    """Create a Job with ``pods`` pods that the Job ``parent`` owns."""
    owner = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "name": parent,
        "uid": (await world.get_job(parent)).metadata.uid,
        "controller": True,
    }
    container = {"name": "main", "image": "busybox", "resources": {"requests": {"cpu": "1"}}}
    template = {
        "metadata": {"annotations": {"simulate.quorate.dev/duration": "forever"}},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }
    metadata = {"name": "child", "ownerReferences": [owner]}
    spec = {"parallelism": pods, "template": template}
    await world.client.create(JOBS, {"metadata": metadata, "spec": spec}, NAMESPACE)


@pytest.mark.provokes("OverLimit", "OutsideQuota")
def test_pods_of_a_job_that_an_admitted_job_owns_use_quota() -> None:
    async def story(world: World) -> None:
        await world.queues("4")
        await world.job("parent", pods=1, runs="1h")
        await world.until_admitted("parent")
        await child_of(world, "parent", 10)
        await world.until("the use is shown", outside(world, "10 cpu of flavor default"))
        await world.until("the queue counts it", used_cpu(world, "11"))
        await world.stop_queueing()
        await world.start_queueing(Configuration())  # the next leader counts it at once
        await world.job("next", pods=1, runs="1h")
        await world.until_condition("next", "QuotaReserved", "False")
        await world.client.delete(JOBS, Key(NAMESPACE, "child"), propagation="Background")
        await world.until_admitted("next")
        await world.until("nothing is shown", none_outside(world))

    run_story(story, Configuration(), FLEET)


@pytest.mark.provokes("OverLimit", "OutsideQuota")
def test_pods_outside_of_quota_are_deleted_if_that_is_configured() -> None:
    async def story(world: World) -> None:
        await world.queues("4")
        await elastic.create(world, 4)
        first = await elastic.until_running(world, 4)
        await ungate(world, 8)
        assert first < await elastic.until_running(world, 8)
        assert await elastic.until_running(world, 4) == first

    run_story(story, Configuration(outside_quota=OutsideQuota(mode="Delete")), FLEET)
