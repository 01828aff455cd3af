"""Create the objects of a scenario in a cluster, and delete them."""

import asyncio
from typing import Any, Final

from bench.admission import objects
from bench.worlds import WorkloadClass, World, flavor_object
from quorate.api.kueue import ClusterQueue
from quorate.api.meta import Key, is_true
from quorate.controllers.topology.node_feeds import HOST_NODES
from quorate.kube.client import Client
from quorate.kube.errors import NotFound, ServerError
from quorate.kube.informer import Informer
from quorate.kube.resources import (
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    NAMESPACES,
    RESOURCE_FLAVORS,
    TOPOLOGIES,
    WORKLOADS,
    Resource,
)

_TIMEOUT: Final = 504


class Generator:
    """Create the objects of ``world``; ``tag`` distinguishes them from those of other runs."""

    def __init__(self, client: Client, world: World, tag: str) -> None:
        self._client = client
        self._world = world
        self._flavor = f"bench-{tag}"
        self.queues = tuple(f"bench-{tag}-{name}" for name in world.queue_names())

    async def create_queues(self) -> None:
        """Create the nodes of the world, if it has some, the flavor and the queues."""
        nodes = self._world.nodes
        if nodes is not None:
            await self._client.create(TOPOLOGIES, nodes.topology(self._flavor))
            for node in nodes.node_objects(self._flavor):
                await self._client.create(HOST_NODES, node)
        flavor = flavor_object(self._flavor, nodes, self._flavor)
        await self._client.create(RESOURCE_FLAVORS, flavor)
        async with asyncio.TaskGroup() as tasks:
            for name in self.queues:
                tasks.create_task(self._create_queue(name))

    async def _create_queue(self, name: str) -> None:
        body = objects.cluster_queue(self._world, name, self._flavor)
        await self._client.create(CLUSTER_QUEUES, body)
        await self._client.create(NAMESPACES, objects.named(name))
        await self._client.create(LOCAL_QUEUES, objects.local_queue(name))

    async def until_active(self) -> None:
        """Return once the controllers have reconciled every cluster queue."""
        inactive = set(self.queues)
        done = asyncio.Event()
        queues = Informer(self._client, CLUSTER_QUEUES)

        def observe(queue: ClusterQueue) -> None:
            if is_true(queue.status.conditions, "Active"):
                inactive.discard(queue.metadata.name)
                if not inactive:
                    done.set()

        queues.subscribe(lambda change: observe(change.new) if change.new is not None else None)
        watching = asyncio.create_task(queues.run())
        await done.wait()
        watching.cancel()

    async def create_workloads(self) -> None:
        """Create all workloads: per queue and class in sequence, with the interval of the class."""
        async with asyncio.TaskGroup() as tasks:
            for queue in self.queues:
                for class_ in self._world.classes:
                    tasks.create_task(self._create_class(queue, class_))

    async def _create_class(self, queue: str, class_: WorkloadClass) -> None:
        await asyncio.sleep(class_.from_ms / 1000)
        for number in range(class_.per_queue):
            await asyncio.sleep(class_.every_ms / 1000)
            await self._client.create(WORKLOADS, objects.workload(queue, class_, number))

    async def delete_all(self) -> None:
        """Delete the created objects; namespaces and queues may terminate later."""
        async with asyncio.TaskGroup() as tasks:
            for name in self.queues:
                tasks.create_task(self._delete_queue(name))
        await self._delete(RESOURCE_FLAVORS, Key("", self._flavor))
        if self._world.nodes is not None:
            await self._delete(TOPOLOGIES, Key("", self._flavor))
            for node in self._world.nodes.node_objects(self._flavor):
                await self._delete(HOST_NODES, Key("", node["metadata"]["name"]))

    async def _delete_queue(self, name: str) -> None:
        await delete_collection(self._client, WORKLOADS.path(name))
        await self._delete(LOCAL_QUEUES, Key(name, name))
        await self._delete(CLUSTER_QUEUES, Key("", name))
        await self._delete(NAMESPACES, Key("", name))

    async def _delete(self, resource: Resource[Any], key: Key) -> None:
        try:
            await self._client.delete(resource, key)
        except NotFound:
            return


async def delete_collection(client: Client, path: str) -> None:
    """Delete all objects of ``path``, however many: the server ends a request after a minute, with 504."""
    while True:
        try:
            await client.request("DELETE", path)
        except ServerError as error:
            if error.status_code != _TIMEOUT:
                raise
        else:
            return
