"""The reads of the job webhooks: namespaces, default queues and classes, and owners.

The few objects that every review reads are cached, whether the replica is the leader or not, so that a review
costs no request.  Objects with owners are rare and a cache of all jobs would be large: owners are read from
the API server.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final, Protocol

from quorate.api.configuration import Configuration
from quorate.api.core import Namespace
from quorate.api.meta import Key, ObjectMeta, Uid, matches_selector
from quorate.api.names.multikueue import CONTROLLER as MULTIKUEUE
from quorate.api.native_groups import VERSIONS
from quorate.controllers.informers import synced
from quorate.controllers.integrations import intermediate_kinds
from quorate.controllers.jobframework.ancestors import AncestorFinder, BrokenOwnerChain, OwnerNotFound
from quorate.controllers.jobframework.construct_workload import queue_name_of
from quorate.kube.client import Client
from quorate.kube.errors import Forbidden, NotFound
from quorate.kube.informer import Informer
from quorate.kube.resources import (
    ADMISSION_CHECKS,
    CLUSTER_QUEUES,
    LOCAL_QUEUES,
    NAMESPACES,
    NATIVE_POD_GROUPS,
    NATIVE_WORKLOADS,
    PLACEABLE_PODS,
    WORKLOAD_PRIORITY_CLASSES,
    Resource,
)

DEFAULT_NAME: Final = "default"  # name of the default queue and the default priority class
_NAMED_DEFAULT: Final = f"metadata.name={DEFAULT_NAME}"


class ClusterReader(Protocol):
    async def manages_namespace(self, name: str) -> bool:
        """Return True if jobs in the namespace are managed."""
        ...

    async def managing_ancestor(
        self, metadata: ObjectMeta, resource: Resource[Any] | None = None
    ) -> Uid | None:
        """Return the managed job that owns an object of the kind ``resource``, directly or indirectly."""
        ...

    def has_job_owner(self, metadata: ObjectMeta) -> bool:
        """Return True if the controller of the object is of a queued kind, managed or not."""
        ...

    async def has_default_queue(self, namespace: str) -> bool: ...

    async def has_pods(self, uid: Uid, namespace: str) -> bool:
        """Return True if the object with ``uid`` is the controller of a pod."""
        ...

    async def has_default_priority_class(self) -> bool: ...

    async def is_delegated(self, namespace: str, queue: str) -> bool:
        """Return True if worker clusters run the jobs of a local queue (MultiKueue)."""
        ...

    async def native_queue(self, group: Key) -> str:
        """Return the queue of the native workload of a native pod group; empty if it has none."""
        ...


class CachedClusterReader:
    """Reads from informers, which ``run`` runs, and owners from the API server."""

    def __init__(self, client: Client, configuration: Configuration, kinds: Iterable[Resource[Any]]) -> None:
        self._client = client
        self._selector = configuration.managed_jobs_namespace_selector
        queued = tuple(kinds)
        self._kinds = {(kind.api_version, kind.kind) for kind in queued}
        self._ancestors = AncestorFinder(
            client,
            queued,
            intermediate_kinds(configuration.integrations),
            configuration.integrations.external,
            configuration.manage_jobs_without_queue_name,
        )
        self._namespaces = Informer(client, NAMESPACES)
        self._queues = Informer(client, LOCAL_QUEUES, field_selector=_NAMED_DEFAULT)
        self._checks = Informer(client, ADMISSION_CHECKS)
        self._classes = Informer(client, WORKLOAD_PRIORITY_CLASSES, field_selector=_NAMED_DEFAULT)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for informer in (self._namespaces, self._queues, self._classes, self._checks):
                tasks.create_task(informer.run(), name=f"watch {informer.resource.plural} for webhooks")

    async def manages_namespace(self, name: str) -> bool:
        namespace = await self.namespace(name)
        return namespace is not None and matches_selector(self._selector, namespace.metadata.labels)

    async def namespace(self, name: str) -> Namespace | None:
        await synced(self._namespaces)
        key = Key("", name)
        # A namespace may be too new for the cache.
        return self._namespaces.get(key) or await self._client.find(NAMESPACES, key)

    async def managing_ancestor(
        self, metadata: ObjectMeta, resource: Resource[Any] | None = None
    ) -> Uid | None:
        ancestor = await self._ancestors.managing_ancestor(metadata, resource)
        match ancestor:
            case OwnerNotFound() | BrokenOwnerChain():
                return None  # without its owner the object is treated as a job of its own
            case _:
                return ancestor

    def has_job_owner(self, metadata: ObjectMeta) -> bool:
        owner = metadata.controller
        return owner is not None and (owner.api_version, owner.kind) in self._kinds

    async def has_default_queue(self, namespace: str) -> bool:
        await synced(self._queues)
        return self._queues.get(Key(namespace, DEFAULT_NAME)) is not None

    async def has_pods(self, uid: Uid, namespace: str) -> bool:
        pods = (await self._client.list(PLACEABLE_PODS, namespace)).items
        return any(owner.uid == uid for pod in pods if (owner := pod.metadata.controller) is not None)

    async def has_default_priority_class(self) -> bool:
        await synced(self._classes)
        return self._classes.get(Key("", DEFAULT_NAME)) is not None

    async def is_delegated(self, namespace: str, queue: str) -> bool:
        """Return True if worker clusters run the jobs of a queue; a MultiKueue check costs two requests."""
        await synced(self._checks)
        checks = {check.metadata.name for check in self._checks if check.spec.controller_name == MULTIKUEUE}
        if not checks:
            return False
        try:
            local = await self._client.get(LOCAL_QUEUES, Key(namespace, queue))
            cluster = await self._client.get(CLUSTER_QUEUES, Key("", local.spec.cluster_queue))
        except NotFound:
            return False
        rules = cluster.spec.admission_checks_strategy.admission_checks
        return not checks.isdisjoint(rule.name for rule in rules)

    async def native_queue(self, group: Key) -> str:
        for version in VERSIONS:
            groups, workloads = (
                replace(NATIVE_POD_GROUPS, version=version), replace(NATIVE_WORKLOADS, version=version)
            )  # fmt: skip
            try:
                name = (await self._client.get(groups, group)).spec.workload_name
                if not name:
                    return ""
                workload = await self._client.get(workloads, Key(group.namespace, name))
            except (NotFound, Forbidden):
                continue
            return queue_name_of(workload.metadata)
        return ""
