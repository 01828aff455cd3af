"""Ownership by selectors: a controller adopts orphans that it selects, and releases what it no longer selects
(the rules of Kubernetes' controller reference manager).
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from quorate.api.core import Pod
from quorate.api.meta import LabelSelector, ObjectMeta, matches_selector
from quorate.kube.client import Client, PatchKind
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import Invalid, NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import PODS, HasMetadata, Resource, metadata_of
from quorate.local.controllers import pod_control as control
from quorate.local.own_writes import MutationCache

Dependent = TypeVar("Dependent", bound=HasMetadata)


class SelectingSpec(Protocol):
    @property
    def selector(self) -> LabelSelector: ...


class SelectingOwner(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def spec(self) -> SelectingSpec: ...


Owner = TypeVar("Owner", bound=SelectingOwner)


ORPHANS = "orphans by label"
OWNERS = "owners by label"
Pair = tuple[str, str, str]  # namespace, label, value; without label: objects of any labels


def index_orphans(dependents: Informer[Dependent]) -> None:
    """Add the index that the claims of all kinds share."""
    dependents.add_index(ORPHANS, _orphan_pairs)


def _orphan_pairs(dependent: Dependent) -> tuple[Pair, ...]:
    metadata = metadata_of(dependent)
    if metadata.controller is not None:
        return ()
    labels = metadata.labels.items()
    return ((metadata.namespace, "", ""), *((metadata.namespace, name, value) for name, value in labels))


def _selected_pair(owner: SelectingOwner) -> Pair:
    """Return one of the labels that the owner's dependents have."""
    labels = owner.spec.selector.match_labels
    return (owner.metadata.namespace, *min(labels.items(), default=("", "")))


class Claims(Generic[Owner, Dependent]):
    """Sets the controller of dependents, such as pods, for the objects of ``kind``, such as ReplicaSets.

    An object adopts the dependents that its selector selects and that have no controller.  It releases
    dependents that the selector no longer selects.  The object is reconciled whenever it changes, or a
    dependent that it controls or may adopt.
    """

    def __init__(
        self,
        client: Client,
        kind: Resource[Owner],
        owners: Informer[Owner],
        resource: Resource[Dependent],
        dependents: Informer[Dependent],
        reconciler: Reconciler,
        *,
        may_adopt: Callable[[Owner, Dependent], bool],
        finalizer: str = "",
    ) -> None:
        """``dependents`` has the index of ``index_orphans``.

        ``may_adopt``: whether an owner may adopt an orphan that it selects.  ``finalizer``: adopted
        dependents get it, and released dependents lose it.
        """
        self._client = client
        self._kind = kind
        self._owners = owners
        self._resource = resource
        self._dependents = dependents
        self._may_adopt = may_adopt
        self._finalizer = finalizer
        self._reconciler = reconciler
        owners.add_index(OWNERS, lambda owner: (_selected_pair(owner),))
        owners.subscribe(lambda change: reconciler.enqueue(change.key))
        dependents.subscribe(self._on_change)
        control.enqueue_controllers(dependents, kind.kind, reconciler)

    def _on_change(self, change: Change[Dependent]) -> None:
        """Enqueue the owners that may adopt an orphan."""
        if change.new is None:
            return
        for pair in _orphan_pairs(change.new):
            for owner in self._owners.by_index(OWNERS, pair):
                if self._adopts(owner, change.new):
                    self._reconciler.enqueue(owner.metadata.key)

    def _selects(self, owner: Owner, dependent: Dependent) -> bool:
        selector = owner.spec.selector
        is_empty = not (selector.match_labels or selector.match_expressions)
        return not is_empty and matches_selector(selector, metadata_of(dependent).labels)

    def _adopts(self, owner: Owner, dependent: Dependent) -> bool:
        return (
            metadata_of(dependent).deletion_timestamp is None
            and self._selects(owner, dependent)
            and self._may_adopt(owner, dependent)
        )

    async def claim(
        self, owner: Owner, candidates: Iterable[Dependent], cache: MutationCache[Dependent] | None = None
    ) -> list[Dependent]:
        """Return the dependents of an owner, with the dependents that it adopts now.

        ``candidates``: the dependents with a controller of this kind and name.  ``cache`` records the writes.
        """
        metadata = owner.metadata
        owned = [
            candidate
            for candidate in candidates
            if control.is_controlled_by(metadata_of(candidate), metadata.uid)
        ]
        if metadata.deletion_timestamp is not None:
            return owned
        kept = [obj for obj in owned if self._selects(owner, obj)]
        orphans = [
            obj
            for obj in self._dependents.by_index(ORPHANS, _selected_pair(owner))
            if self._adopts(owner, obj)
        ]
        if orphans and not await self._exists(owner):
            orphans = []
        kept_uids = {metadata_of(obj).uid for obj in kept}
        changed = await asyncio.gather(
            *(self._release(owner, obj) for obj in owned if metadata_of(obj).uid not in kept_uids),
            *(self._adopt(owner, orphan) for orphan in orphans),
        )
        written = [obj for obj in changed if obj is not None]
        for obj in written if cache is not None else ():
            cache.record(obj)  # type: ignore[union-attr]
        adopted = [obj for obj in written if control.is_controlled_by(metadata_of(obj), metadata.uid)]
        return [*kept, *(obj for obj in adopted if metadata_of(obj).uid not in kept_uids)]

    async def _exists(self, owner: Owner) -> bool:
        """Return True unless the owner is deleted, which the watch may not have delivered yet."""
        metadata = owner.metadata
        try:
            stored = (await self._client.get(self._kind, metadata.key)).metadata
        except NotFound:
            return False
        return stored.uid == metadata.uid and stored.deletion_timestamp is None

    async def _adopt(self, owner: Owner, dependent: Dependent) -> Dependent | None:
        fields: dict[str, Any] = {"ownerReferences": control.owner_references(self._kind, owner.metadata)}
        return await self._patch(dependent, fields | self._finalizers("finalizers"))

    async def _release(self, owner: Owner, dependent: Dependent) -> Dependent | None:
        fields: dict[str, Any] = {"ownerReferences": [{"$patch": "delete", "uid": owner.metadata.uid}]}
        return await self._patch(dependent, fields | self._finalizers("$deleteFromPrimitiveList/finalizers"))

    def _finalizers(self, field: str) -> dict[str, Any]:
        return {field: [self._finalizer]} if self._finalizer else {}

    async def _patch(self, dependent: Dependent, fields: dict[str, Any]) -> Dependent | None:
        """Patch metadata; return None if the object is gone, or another controller was faster."""
        metadata = metadata_of(dependent)
        patch: dict[str, Any] = {"metadata": {"uid": metadata.uid, **fields}}
        try:
            return await self._client.patch(self._resource, metadata.key, patch, kind=PatchKind.STRATEGIC)
        except (NotFound, Invalid):
            return None


def pod_claims(
    client: Client,
    kind: Resource[Owner],
    owners: Informer[Owner],
    pods: Informer[Pod],
    reconciler: Reconciler,
    *,
    is_member: Callable[[Owner, Pod], bool] = lambda owner, pod: True,
) -> Claims[Owner, Pod]:
    """Return the claims of pods that have not finished.  ``is_member``: whether an owner may adopt a pod."""

    def may_adopt(owner: Owner, pod: Pod) -> bool:
        return control.is_active(pod) and is_member(owner, pod)

    return Claims(client, kind, owners, PODS, pods, reconciler, may_adopt=may_adopt)
