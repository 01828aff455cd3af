"""Filling a cluster with a world, and clearing it away again."""

import asyncio
from typing import Any

from bench.admission import objects
from bench.worlds import WorkloadClass, World
from quorate.api.kueue import ClusterQueue
from quorate.api.meta import Key, is_true
from quorate.kube.client import Client
from quorate.kube.errors import NotFound
from quorate.kube.informer import Informer
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    WORKLOADS,
    Resource,
)


async def create_queues(client: Client, world: World) -> None:
    await client.create(RESOURCE_FLAVORS, objects.flavor())

    async def create_queue(name: str) -> None:
        await client.create(CLUSTER_QUEUES, objects.cluster_queue(world, name))
        await client.create(NAMESPACES, objects.namespace(name))
        await client.create(LOCAL_QUEUES, objects.local_queue(name))

    async with asyncio.TaskGroup() as tasks:
        for name in objects.queue_names(world):
            tasks.create_task(create_queue(name))


async def until_active(client: Client, world: World) -> None:
    """Return once the controllers have taken up every cluster queue, so that they are known to work."""
    awaited = set(objects.queue_names(world))
    done = asyncio.Event()
    queues = Informer(client, CLUSTER_QUEUES)

    def look(queue: ClusterQueue) -> None:
        if is_true(queue.status.conditions, "Active"):
            awaited.discard(queue.metadata.name)
            if not awaited:
                done.set()

    queues.subscribe(lambda change: look(change.new) if change.new is not None else None)
    watching = asyncio.create_task(queues.run())
    await done.wait()
    watching.cancel()


async def create_workloads(client: Client, world: World) -> None:
    """All of them, class by class in every queue, each its interval after the one before."""

    async def create_class(queue: str, class_: WorkloadClass) -> None:
        await asyncio.sleep(class_.from_ms / 1000)
        for number in range(class_.per_queue):
            await asyncio.sleep(class_.every_ms / 1000)
            await client.create(WORKLOADS, objects.workload(queue, class_, number))

    async with asyncio.TaskGroup() as tasks:
        for queue in objects.queue_names(world):
            for class_ in world.classes:
                tasks.create_task(create_class(queue, class_))


async def clear_away(client: Client, world: World) -> None:
    """Delete what was created; namespaces and queues may take a while to follow."""

    async def delete_queue(name: str) -> None:
        await client.request("DELETE", WORKLOADS.path(name))
        await _delete(client, LOCAL_QUEUES, Key(name, name))
        await _delete(client, CLUSTER_QUEUES, Key("", name))
        await _delete(client, NAMESPACES, Key("", name))

    async with asyncio.TaskGroup() as tasks:
        for name in objects.queue_names(world):
            tasks.create_task(delete_queue(name))
    await _delete(client, RESOURCE_FLAVORS, Key("", objects.FLAVOR))


async def _delete(client: Client, resource: Resource[Any], key: Key) -> None:
    try:
        await client.delete(resource, key)
    except NotFound:
        return
