"""What a review of a job must know besides the job: its namespace, the queues there, who made the job.

The few objects that every review looks at are kept in memory, whether the replica leads or not, so that
admitting a job costs no request.  Owners are rare, and a copy of all jobs would be large: they are asked for.
"""

import asyncio
from collections.abc import Iterable
from typing import Any, Final, Protocol

from quorate.api.configuration import Configuration
from quorate.api.core import Namespace
from quorate.api.meta import Key, ObjectMeta, Uid, matches_selector
from quorate.controllers.informers import synced
from quorate.controllers.jobframework.ancestors import AncestorFinder, BrokenOwnerChain, OwnerNotFound
from quorate.controllers.jobs.integrations import intermediate_kinds
from quorate.controllers.pods.queued_pod import PODS
from quorate.kube.client import Client
from quorate.kube.errors import NotFound
from quorate.kube.informer import Informer
from quorate.kube.resources import LOCAL_QUEUES, NAMESPACES, WORKLOAD_PRIORITY_CLASSES, Resource

DEFAULT_NAME: Final = "default"  # of the queue, and of the priority class, that jobs get which name none
_NAMED_DEFAULT: Final = f"metadata.name={DEFAULT_NAME}"


class ClusterReader(Protocol):
    async def manages_namespace(self, name: str) -> bool:
        """Whether jobs in the namespace are ours to manage."""
        ...

    async def managing_ancestor(self, metadata: ObjectMeta) -> Uid | None:
        """The managed job that the object is a part of, if any."""
        ...

    def has_job_owner(self, metadata: ObjectMeta) -> bool:
        """Whether it has an owner of a kind that is queued, managed or not."""
        ...

    async def has_default_queue(self, namespace: str) -> bool: ...

    async def has_parts(self, uid: Uid, namespace: str) -> bool:
        """Whether there are pods of which the object with ``uid`` is the controller."""
        ...

    async def has_default_priority_class(self) -> bool: ...


class CachedClusterReader:
    """As they are in the cluster; ``run`` keeps them true."""

    def __init__(self, client: Client, configuration: Configuration, kinds: Iterable[Resource[Any]]) -> None:
        self._client = client
        self._selector = configuration.managed_jobs_namespace_selector
        queued = tuple(kinds)
        self._kinds = {(kind.api_version, kind.kind) for kind in queued}
        self._ancestry = AncestorFinder(
            client,
            queued,
            intermediate_kinds(configuration.integrations),
            configuration.integrations.external,
            configuration.manage_jobs_without_queue_name,
        )
        self._namespaces = Informer(client, NAMESPACES)
        self._queues = Informer(client, LOCAL_QUEUES, field_selector=_NAMED_DEFAULT)
        self._classes = Informer(client, WORKLOAD_PRIORITY_CLASSES, field_selector=_NAMED_DEFAULT)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in (self._namespaces, self._queues, self._classes):
                tasks.create_task(informer.run(), name=f"watch {informer.resource.plural} for reviews")

    async def manages_namespace(self, name: str) -> bool:
        namespace = await self.namespace(name)
        return namespace is not None and matches_selector(self._selector, namespace.metadata.labels)

    async def namespace(self, name: str) -> Namespace | None:
        await synced(self._namespaces)
        return self._namespaces.get(Key("", name)) or await self._read_namespace(name)

    async def _read_namespace(self, name: str) -> Namespace | None:
        """A namespace that was made a moment ago: its first objects may be here before it is."""
        try:
            return await self._client.get(NAMESPACES, Key("", name))
        except NotFound:
            return None

    async def managing_ancestor(self, metadata: ObjectMeta) -> Uid | None:
        found = await self._ancestry.managing_ancestor(metadata)
        match found:
            case OwnerNotFound() | BrokenOwnerChain():
                return None  # gone with all it managed, or never found: who is left stands for itself
            case _:
                return found

    def has_job_owner(self, metadata: ObjectMeta) -> bool:
        owner = metadata.controller
        return owner is not None and (owner.api_version, owner.kind) in self._kinds

    async def has_default_queue(self, namespace: str) -> bool:
        await synced(self._queues)
        return self._queues.get(Key(namespace, DEFAULT_NAME)) is not None

    async def has_parts(self, uid: Uid, namespace: str) -> bool:
        pods = (await self._client.list(PODS, namespace)).items
        return any(owner.uid == uid for pod in pods if (owner := pod.metadata.controller) is not None)

    async def has_default_priority_class(self) -> bool:
        await synced(self._classes)
        return self._classes.get(Key("", DEFAULT_NAME)) is not None
