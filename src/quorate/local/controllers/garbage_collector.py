"""The garbage collector: deletes objects without owners, and orders foreground deletion.

An object is deleted when none of its owners exists. With foreground deletion of an owner, its dependents are
deleted first; with orphaning, they lose the reference and stay.

Not supported: a dependent that is created so shortly before its owner's deletion that no watch has delivered
it is deleted with the owner instead of being orphaned.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final, assert_never

from msgspec.structs import replace

from quorate.api import codec
from quorate.api.meta import Key, ObjectMeta, OwnerReference, Uid
from quorate.kube.errors import Conflict, NotFound
from quorate.kube.informer import Change
from quorate.local.controllers.controller import Controller, ControllerContext
from quorate.local.controllers.metadata_cache import CachedObject, MetadataCache, PartialObjectMetadata

ORPHAN: Final = "orphan"
FOREGROUND: Final = "foregroundDeletion"
ABSENT_OWNER_CAPACITY: Final = 10_000
CONFLICT_RETRY_S: Final = 0.1
UNSEEN_OWNER_RETRY_S: Final = 1.0  # retry interval for owners that no watch has delivered


class OwnerState(Enum):
    """The state of one owner."""

    PRESENT = auto()
    WAITING = auto()  # being deleted in the foreground: waits for its dependents
    ABSENT = auto()


@dataclass(frozen=True, slots=True)
class Delete:
    propagation: str


@dataclass(frozen=True, slots=True)
class RemoveOwners:
    """Remove these owners from ``entry``."""

    entry: CachedObject
    owners: frozenset[Uid]


@dataclass(frozen=True, slots=True)
class RemoveFinalizer:
    finalizer: str


@dataclass(frozen=True, slots=True)
class UnblockOwners:
    """Let the owners of ``entry`` not wait for it."""

    entry: CachedObject


Action = Delete | RemoveOwners | RemoveFinalizer | UnblockOwners


def collection_actions(
    entry: CachedObject, owners: Mapping[Uid, OwnerState], dependents: Sequence[CachedObject]
) -> tuple[Action, ...]:
    """Return the actions for one object, given the state of each owner that it references."""
    metadata = entry.metadata
    if metadata.deletion_timestamp is not None:
        if ORPHAN in metadata.finalizers:
            orphans = tuple(RemoveOwners(dependent, frozenset({metadata.uid})) for dependent in dependents)
            return orphans or (RemoveFinalizer(ORPHAN),)
        blocked = any(_blocks_owner_deletion(dependent, metadata.uid) for dependent in dependents)
        if FOREGROUND in metadata.finalizers and not blocked:
            return (RemoveFinalizer(FOREGROUND),)
        return ()
    states = set(owners.values())
    if OwnerState.PRESENT in states:
        missing = frozenset(
            uid for uid, owner_state in owners.items() if owner_state is not OwnerState.PRESENT
        )
        return (RemoveOwners(entry, missing),) if missing else ()
    if not states:
        return ()
    if ORPHAN in metadata.finalizers:
        return (Delete("Orphan"),)
    if FOREGROUND in metadata.finalizers or (OwnerState.WAITING in states and dependents):
        waits = any(owner_state(dependent.metadata) is OwnerState.WAITING for dependent in dependents)
        if waits and any(reference.block_owner_deletion for reference in metadata.owner_references):
            return (UnblockOwners(entry),)  # perhaps a circle, in which each would wait for the next
        return (Delete("Foreground"),)
    return (Delete("Background"),)


def _blocks_owner_deletion(dependent: CachedObject, owner: Uid) -> bool:
    return any(
        reference.uid == owner and reference.block_owner_deletion
        for reference in dependent.metadata.owner_references
    )


def owner_state(metadata: ObjectMeta) -> OwnerState:
    waits = metadata.deletion_timestamp is not None and FOREGROUND in metadata.finalizers
    return OwnerState.WAITING if waits else OwnerState.PRESENT


OwnerName = tuple[str, OwnerReference]
"""The namespace of a dependent, and its reference: an owner must have all that the reference names."""


def _is_named_by(owner: CachedObject, reference: OwnerReference, namespace: str) -> bool:
    kind = owner.resource
    return (
        owner.metadata.name == reference.name
        and (kind.group, kind.kind) == (reference.api_version.rpartition("/")[0], reference.kind)
        and (not kind.namespaced or owner.metadata.namespace == namespace)
    )


class GarbageCollector(Controller):
    """Deletes dependents and removes finalizers.  The reconciler's keys are uids."""

    def __init__(self, context: ControllerContext, metadata_cache: MetadataCache) -> None:
        super().__init__("garbage-collector", context, metadata_cache, workers=8)
        self._metadata_cache = metadata_cache
        # Owners that do not exist, the latest last; a uid never comes back.
        self._absent: OrderedDict[OwnerName, None] = OrderedDict()
        metadata_cache.subscribe(self._on_change)

    def _on_change(self, change: Change[CachedObject]) -> None:
        old, new = change.old, change.new
        if old is not None and new is not None and _is_irrelevant_update(old.metadata, new.metadata):
            return
        first = change.versions[0]
        if new is not None and (new.metadata.owner_references or new.metadata.deletion_timestamp):
            self._enqueue(new.uid)
        if new is None or new.metadata.deletion_timestamp:
            for dependent in self._metadata_cache.dependents(first.uid):
                self._enqueue(dependent.uid)
        for reference in first.metadata.owner_references:
            owner = self._metadata_cache.get(reference.uid)
            if owner is not None and owner.metadata.deletion_timestamp:
                self._enqueue(owner.uid)

    def _enqueue(self, uid: Uid) -> None:
        self._reconciler.enqueue(Key("", uid))

    async def reconcile(self, key: Key) -> float | None:
        entry = self._metadata_cache.get(Uid(key.name))
        if entry is None:
            return None
        owners: dict[Uid, OwnerState] = {}
        requeue_at = None
        for reference in entry.metadata.owner_references:
            owner = self._metadata_cache.get(reference.uid)
            if owner is not None and not _is_named_by(owner, reference, entry.metadata.namespace):
                owner = None
            owners[reference.uid] = (
                owner_state(owner.metadata)
                if owner
                else await self._read_owner_state(reference, entry.metadata.namespace)
            )
            if owner is None and owners[reference.uid] is not OwnerState.ABSENT:
                # Check again until a watch delivers the owner, because nothing reports its deletion before.
                requeue_at = self._clock.now() + UNSEEN_OWNER_RETRY_S
        for action in collection_actions(entry, owners, self._metadata_cache.dependents(entry.uid)):
            await self._execute(entry, action)
        return requeue_at

    async def _read_owner_state(self, reference: OwnerReference, namespace: str) -> OwnerState:
        """Read the state of an owner that no watch has delivered from the server.

        A missing owner in a cache proves nothing, because watches of two kinds are not synchronized. An owner
        of an unknown kind counts as present, because its CRD may appear later, and so does an owner with a
        namespace that an object without one names.
        """
        kind = self._metadata_cache.kind_of(reference)
        owner_name = (namespace, reference)
        if owner_name in self._absent:
            return OwnerState.ABSENT
        if kind is None or (kind.namespaced and not namespace):
            return OwnerState.PRESENT
        key = Key(namespace if kind.namespaced else "", reference.name)
        owner: PartialObjectMetadata | None = await self._client.find(kind, key)
        if owner is not None and owner.metadata.uid == reference.uid:
            return owner_state(owner.metadata)
        self._absent[owner_name] = None
        if len(self._absent) > ABSENT_OWNER_CAPACITY:
            self._absent.popitem(last=False)
        return OwnerState.ABSENT

    async def _execute(self, entry: CachedObject, action: Action) -> None:
        metadata = entry.metadata
        try:
            match action:
                case Delete(propagation):
                    await self._client.delete(
                        entry.resource,
                        metadata.key,
                        propagation=propagation,
                        uid=metadata.uid,
                        resource_version=metadata.resource_version,
                    )
                case RemoveOwners(target, owners):
                    kept = [
                        reference
                        for reference in target.metadata.owner_references
                        if reference.uid not in owners
                    ]
                    await self._patch(target, {"ownerReferences": codec.to_builtins(kept) or None})
                case UnblockOwners(target):
                    free = [
                        replace(reference, block_owner_deletion=False)
                        for reference in target.metadata.owner_references
                    ]
                    await self._patch(target, {"ownerReferences": codec.to_builtins(free)})
                case RemoveFinalizer(finalizer):
                    left = [other for other in metadata.finalizers if other != finalizer]
                    await self._patch(entry, {"finalizers": left or None})
                case _:
                    assert_never(action)
        except NotFound:
            return  # already deleted
        except Conflict:
            # It changed since the last delivery by the watch, possibly in a way that does not enqueue it.
            self._reconciler.enqueue_at(Key("", metadata.uid), self._clock.now() + CONFLICT_RETRY_S)

    async def _patch(self, entry: CachedObject, fields: Mapping[str, object]) -> None:
        metadata = {"uid": entry.uid, "resourceVersion": entry.metadata.resource_version, **fields}
        await self._client.patch(entry.resource, entry.metadata.key, {"metadata": metadata})


def _is_irrelevant_update(old: ObjectMeta, new: ObjectMeta) -> bool:
    return (
        old.owner_references == new.owner_references
        and old.finalizers == new.finalizers
        and (old.deletion_timestamp is None) == (new.deletion_timestamp is None)
    )
