"""Hostile objects do not delay other admissions, and events report their errors."""

import asyncio
import logging
from typing import Any

import pytest

from quorate.api.configuration import Configuration
from quorate.api.configuration.integrations import Integrations
from quorate.api.meta import Key, find_condition
from quorate.kube.errors import Invalid
from quorate.kube.resources import CLUSTER_QUEUES, EVENTS, LOCAL_QUEUES, WORKLOADS, Resource, untyped
from quorate.local.nodes import NodePool
from tests.e2e.hostile import Hostile, definitions_without_schema, hostile_objects
from tests.e2e.world import NAMESPACE, World, running_cluster

pytestmark = [
    pytest.mark.slow,
    pytest.mark.no_cover,  # long stories of code that other tests measure
]

MESSAGES = {  # pending messages by workload, one of each group of equal requests
    "asks-negative": "asks for -5 of cpu, must be at least 0",
    "asks-nonsense": "resources validation failed: pod set main: template: 'lots' is not a quantity",
    "count-int32": "current podset request (2147483647) > maximum capacity (4)",
    "count-negative": "resources validation failed: pod set main is of -3 pods, must be of at least 0",
    "product": "current podset request (19807040619342712359383728129) > maximum capacity (4)",
    "text-template": "resources validation failed: pod set main: template: Expected `object`, got `str`",
    "unicode-queue": "LocalQueue Übung/../😀 doesn't exist",
}
INACTIVE = {
    "checks": "False AdmissionCheckNotFound",
    "missing-flavor": "False FlavorNotFound",
    "quota-negative": "False Misconfigured",
    "selector": "False Misconfigured",
    "twice": "False Misconfigured",
    "uncovered": "False Misconfigured",
    "weight-negative": "False Misconfigured",
}
CONFIGURATION = Configuration(integrations=Integrations(frameworks=("batch/job", "pod")))


async def store(world: World, hostile: Hostile) -> None:
    """Create the object with its status."""
    resource, body = hostile
    raw = untyped(resource.group, resource.version, resource.plural, resource.kind, resource.namespaced)
    namespace = NAMESPACE if resource.namespaced else ""
    status = body.pop("status", None)
    stored = await world.client.create(raw, body, namespace)
    if status is not None:
        key = Key(namespace, stored["metadata"]["name"])
        await world.client.patch(raw, key, {"status": status}, subresource="status")


async def run_to_completion(world: World, name: str) -> None:
    await world.job(name, queue="valid")
    await world.until_finished(name)


async def reported_as_undecodable(world: World) -> set[tuple[str, str]]:
    """Return the objects with an Unreadable event."""
    listed = (await world.client.list(EVENTS)).items
    return {
        (each.regarding.kind, each.regarding.name)
        for each in listed
        if each.reason == "Unreadable" and each.regarding is not None
    }


async def unreadable(world: World, resource: Resource[Any]) -> set[tuple[str, str]]:
    listing = await world.client.list(resource)
    return {(resource.kind, misfit.key.name) for misfit in listing.undecodable}


async def pending_message(world: World, workload: str) -> str:
    async def find() -> str:
        found = await world.client.get(WORKLOADS, Key(NAMESPACE, workload))
        reserved = find_condition(found.status.conditions, "QuotaReserved")
        return reserved.message if reserved is not None else ""

    return await world.until(f"{workload} has a pending message", find)


async def inactive_message(world: World, queue: str) -> str:
    async def find() -> str:
        found = await world.client.get(CLUSTER_QUEUES, Key("", queue))
        active = find_condition(found.status.conditions, "Active")
        return f"{active.status} {active.reason}" if active is not None else ""

    return await world.until(f"{queue} has an Active condition", find)


def test_hostile_objects_do_not_stop_other_work(caplog: pytest.LogCaptureFixture) -> None:
    async def story(world: World) -> None:
        await world.queues("4")
        await world.cluster_queue("4", "valid")
        await world.local_queue("valid", "valid")
        await world.start_queueing(CONFIGURATION)
        answers = await asyncio.gather(
            *(store(world, each) for each in hostile_objects()), return_exceptions=True
        )
        rejected = [each for each in answers if each is not None]
        assert [type(each) for each in rejected] == [Invalid]  # an invalid label
        await run_to_completion(world, "after")
        await check_events(world)
        await world.stop_queueing()
        await world.start_queueing(CONFIGURATION)  # now the informers receive all objects in lists
        await run_to_completion(world, "again")

    async def check_events(world: World) -> None:
        expected: set[tuple[str, str]] = set()
        for resource in (WORKLOADS, CLUSTER_QUEUES, LOCAL_QUEUES):
            expected |= await unreadable(world, resource)
        assert len(expected) > 30

        async def all_reported() -> bool:
            return expected <= await reported_as_undecodable(world)

        await world.until("all undecodable objects have an event", all_reported)
        for workload, message in MESSAGES.items():
            assert message in await pending_message(world, workload)
        for queue, message in INACTIVE.items():
            assert await inactive_message(world, queue) == message

    async def run() -> None:
        async with running_cluster(NodePool(1, cpu="8"), definitions_without_schema()) as world:
            await story(world)

    asyncio.run(run())
    assert [record for record in caplog.records if _is_our_mistake(record)] == []


def _is_our_mistake(record: logging.LogRecord) -> bool:
    """Return errors of reconcilers that must not raise, without those of the local cluster."""
    return record.exc_info is not None and "quorate/controllers" in _formatted(record)


def _formatted(record: logging.LogRecord) -> str:
    return logging.Formatter().format(record)
