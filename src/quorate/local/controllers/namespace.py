"""Namespaces: system namespaces, the objects that each namespace has, and deletion with all contents."""

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from typing import Final

from quorate.api import codec
from quorate.api.meta import (
    Condition,
    ConditionStatus,
    Key,
    ObjectMeta,
    Struct,
    condition_at,
    epoch,
    with_condition,
)
from quorate.kube.errors import AlreadyExists, Conflict, NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import Resource
from quorate.local.controllers.controller import Controller, ControllerContext
from quorate.local.controllers.metadata_cache import CachedObject, MetadataCache, PartialObjectMetadata

SYSTEM_NAMESPACES: Final = ("default", "kube-system", "kube-public", "kube-node-lease")
FINALIZER: Final = "kubernetes"
# Objects that were admitted just before the deletion must be visible before the namespace is emptied.
# kube-controller-manager, which may face several API servers, waits equally long.
DELETION_GRACE_S: Final = 5.0
CONTENT_RETRY_S: Final = 1.0  # while contents terminate; their changes enqueue the namespace earlier


class NamespaceSpec(Struct):
    finalizers: tuple[str, ...] = ()


class NamespaceStatus(Struct):
    conditions: tuple[Condition, ...] = ()


class Namespace(Struct):
    metadata: ObjectMeta
    spec: NamespaceSpec = NamespaceSpec()
    status: NamespaceStatus = NamespaceStatus()


NAMESPACES: Final = Resource("", "v1", "namespaces", "Namespace", False, Namespace)


class NamespaceController(Controller):
    """Deletes the contents of terminating namespaces and then removes their finalizer."""

    def __init__(
        self, context: ControllerContext, namespaces: Informer[Namespace], metadata_cache: MetadataCache
    ) -> None:
        super().__init__("namespace", context, namespaces, metadata_cache)
        self._namespaces = namespaces
        self._metadata_cache = metadata_cache
        namespaces.subscribe(self._on_namespace)
        metadata_cache.subscribe(self._on_content)
        for name in SYSTEM_NAMESPACES:
            self._reconciler.enqueue(Key("", name))

    def _on_namespace(self, change: Change[Namespace]) -> None:
        if change.new is None or change.new.metadata.deletion_timestamp is not None:
            self._reconciler.enqueue(change.key)

    def _on_content(self, change: Change[CachedObject]) -> None:
        namespace = self._namespaces.get(Key("", change.key.namespace))
        if namespace is not None and namespace.metadata.deletion_timestamp is not None:
            self._reconciler.enqueue(namespace.metadata.key)

    async def reconcile(self, key: Key) -> float | None:
        namespace = self._namespaces.get(key)
        if namespace is None and key.name in SYSTEM_NAMESPACES:
            await self._create(key.name)
        if namespace is None or namespace.metadata.deletion_timestamp is None:
            return None
        if FINALIZER not in namespace.spec.finalizers:
            return None
        due = epoch(namespace.metadata.deletion_timestamp) + DELETION_GRACE_S
        if self._clock.now() < due:
            return due
        left = self._metadata_cache.in_namespace(key.name)
        pods = [entry for entry in left if (entry.resource.group, entry.resource.plural) == ("", "pods")]
        if pods:  # they go before all that they may use
            await self._report_remaining(namespace, ())
            await asyncio.gather(*(self._delete(entry) for entry in pods))
            return self._clock.now() + CONTENT_RETRY_S
        remaining = [entry for entry in left if entry.metadata.deletion_timestamp is not None]
        if remaining:
            await self._report_remaining(namespace, remaining)
        await asyncio.gather(*(self._delete(entry) for entry in left))
        # Watches may lag: only a list shows that the namespace is empty.
        if left or await self._empty(key.name):
            return self._clock.now() + CONTENT_RETRY_S
        kept = [finalizer for finalizer in namespace.spec.finalizers if finalizer != FINALIZER]
        body = {"metadata": {"name": key.name}, "spec": {"finalizers": kept}}
        with suppress(NotFound):
            await self._client.replace(NAMESPACES, key, body, subresource="finalize")
        return None

    async def _report_remaining(self, namespace: Namespace, remaining: Collection[CachedObject]) -> None:
        """Write the conditions that say which objects keep the namespace, and which finalizers keep them."""
        conditions: tuple[Condition, ...] = namespace.status.conditions
        for condition in remaining_conditions(remaining, self._clock.now()):
            conditions = with_condition(conditions, condition)
        if _without_times(conditions) == _without_times(namespace.status.conditions):
            return
        status = {"status": {"conditions": codec.to_builtins(conditions)}}
        with suppress(NotFound, Conflict):
            await self._client.patch(NAMESPACES, namespace.metadata.key, status, subresource="status")

    async def _create(self, name: str) -> None:
        with suppress(AlreadyExists):  # the server created it itself
            await self._client.create(NAMESPACES, {"metadata": {"name": name}})

    async def _delete(self, entry: CachedObject) -> None:
        if entry.metadata.deletion_timestamp is not None:
            return
        with suppress(NotFound, Conflict):  # deleted, or replaced by an object that the watch will deliver
            await self._client.delete(
                entry.resource, entry.metadata.key, uid=entry.uid, propagation="Background"
            )

    async def _empty(self, namespace: str) -> int:
        """Delete all objects that a list of each kind returns; return their number."""
        kinds = [kind for kind in self._metadata_cache.kinds if kind.namespaced]
        return sum(await asyncio.gather(*(self._empty_kind(kind, namespace) for kind in kinds)))

    async def _empty_kind(self, kind: Resource[PartialObjectMetadata], namespace: str) -> int:
        try:
            listing = await self._client.list(kind, namespace)
        except NotFound:
            return 0  # the CRD was just deleted together with its objects
        if listing.items:
            await self._client.request("DELETE", kind.path(namespace))
        return len(listing.items)


def _without_times(conditions: Iterable[Condition]) -> list[tuple[str, str, str]]:
    return [(condition.type, condition.status, condition.message) for condition in conditions]


def remaining_conditions(remaining: Iterable[CachedObject], now: float) -> Iterator[Condition]:
    """Yield the conditions of a terminating namespace, in the words of kube-controller-manager."""
    objects, finalizers = Counter[str](), Counter[str]()
    for entry in remaining:
        objects[f"{entry.resource.plural}.{entry.resource.group}"] += 1
        finalizers.update(entry.metadata.finalizers)
    kept = ", ".join(f"{name} has {count} resource instances" for name, count in sorted(objects.items()))
    held = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
    rows: tuple[tuple[str, ConditionStatus, str, str], ...] = (
        (
            "NamespaceDeletionDiscoveryFailure", "False", "ResourcesDiscovered",
            "All resources successfully discovered",
        ),
        (
            "NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions",
            "All legacy kube types successfully parsed",
        ),
        (
            "NamespaceDeletionContentFailure", "False", "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining", "True" if kept else "False",
            "SomeResourcesRemain" if kept else "ContentRemoved",
            f"Some resources are remaining: {kept}" if kept else "All content successfully removed",
        ),
        (
            "NamespaceFinalizersRemaining", "True" if held else "False",
            "SomeFinalizersRemain" if held else "ContentHasNoFinalizers",
            f"Some content in the namespace has finalizers remaining: {held}"
            if held else "All content-preserving finalizers finished",
        ),
    )  # fmt: skip
    for type_, status, reason, message in rows:
        yield condition_at(now, type_, status, reason, message)
