"""Functions that the workload and Job controllers share, and ownership of pods by selectors.

A controller adopts orphans that it selects, and releases pods that it no longer selects (the rules of
Kubernetes' controller reference manager).
"""

import asyncio
import hashlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, Final, Generic, Protocol, TypeVar

import msgspec

from quorate.api.codec import Json
from quorate.api.core import Pod
from quorate.api.meta import Key, LabelSelector, ObjectMeta, Uid, is_true, matches_selector
from quorate.kube.client import Client, PatchKind
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import Invalid, NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import PODS, Resource, T, metadata_of
from quorate.local.own_writes import MutationCache

REVISION_LABEL: Final = "controller-revision-hash"
BURST_REPLICAS: Final = 500  # pods of one set created or deleted per reconciliation, as in Kubernetes


def controller_key(metadata: ObjectMeta, kind: str) -> Key | None:
    """Return the key of the controlling owner if that is of ``kind``."""
    owner = metadata.controller
    return Key(metadata.namespace, owner.name) if owner is not None and owner.kind == kind else None


def is_controlled_by(metadata: ObjectMeta, owner: Uid) -> bool:
    return metadata.controller is not None and metadata.controller.uid == owner


def enqueue_controllers(dependents: Informer[T], kind: str, reconciler: Reconciler) -> None:
    """Enqueue the controlling owners of ``kind`` whenever one of ``dependents`` changes."""

    def on_change(change: Change[T]) -> None:
        for dependent in (change.old, change.new):
            key = None if dependent is None else controller_key(metadata_of(dependent), kind)
            if key is not None:
                reconciler.enqueue(key)

    dependents.subscribe(on_change)


async def delete_pod(client: Client, pod: Pod) -> None:
    """Delete ``pod``, which may be deleted already."""
    with suppress(NotFound):
        await client.delete(PODS, pod.metadata.key, uid=pod.metadata.uid)


def is_pod_finished(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def is_active(pod: Pod) -> bool:
    """Return True if a pod is neither finished nor terminating."""
    return pod.metadata.deletion_timestamp is None and not is_pod_finished(pod)


def is_ready(pod: Pod) -> bool:
    return is_true(pod.status.conditions, "Ready")


def template_hash(template: msgspec.Raw) -> str:
    """Return a short hash of a pod template, equal for equal content."""
    document = msgspec.json.decode(template)
    text = msgspec.json.encode(document, order="deterministic")
    return hashlib.sha1(text, usedforsecurity=False).hexdigest()[:10]


def owner_references(resource: Resource[Any], metadata: ObjectMeta) -> list[Json]:
    """Return the owner references of objects created for an owner."""
    return [
        {
            "apiVersion": resource.api_version,
            "kind": resource.kind,
            "name": metadata.name,
            "uid": metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }
    ]


def pod_from_template(template: msgspec.Raw, owner: list[Json], **named: str) -> Json:
    """Return a pod from ``template``; ``named`` sets name or generateName, and namespace."""
    document: Json = msgspec.json.decode(template)
    described = document.get("metadata") or {}
    metadata = {
        "labels": dict(described.get("labels") or {}),
        "annotations": dict(described.get("annotations") or {}),
        "finalizers": list(described.get("finalizers") or ()),
        "ownerReferences": owner,
        **named,
    }
    return {"metadata": metadata, "spec": document["spec"]}


ORPHANS = "orphans by namespace"


def index_orphans(pods: Informer[Pod]) -> None:
    """Add the index that the claims of all kinds share."""
    pods.add_index(ORPHANS, lambda pod: (pod.metadata.namespace,) if pod.metadata.controller is None else ())


class SelectingSpec(Protocol):
    @property
    def selector(self) -> LabelSelector: ...


class PodOwner(Protocol):
    @property
    def metadata(self) -> ObjectMeta: ...

    @property
    def spec(self) -> SelectingSpec: ...


Owner = TypeVar("Owner", bound=PodOwner)


class PodClaims(Generic[Owner]):
    """Sets the controller of pods for the objects of ``kind``, such as ReplicaSets.

    An object adopts the pods that its selector selects and that have no controller.  It releases pods that
    the selector no longer selects.
    """

    def __init__(
        self,
        client: Client,
        kind: Resource[Owner],
        owners: Informer[Owner],
        pods: Informer[Pod],
        reconciler: Reconciler,
        *,
        is_member: Callable[[Owner, Pod], bool] = lambda owner, pod: True,
    ) -> None:
        """``is_member``: whether an owner may adopt a pod that it selects."""
        self._client = client
        self._kind = kind
        self._owners = owners
        self._pods = pods
        self._is_member = is_member
        self._reconciler = reconciler
        owners.add_index("namespace", lambda owner: (owner.metadata.namespace,))
        pods.subscribe(self._on_pod)

    def _on_pod(self, change: Change[Pod]) -> None:
        """Enqueue the owners that may adopt an orphan."""
        pod = change.new
        if pod is None or pod.metadata.controller is not None or not is_active(pod):
            return
        for owner in self._owners.by_index("namespace", pod.metadata.namespace):
            if self._selects(owner, pod) and self._is_member(owner, pod):
                self._reconciler.enqueue(owner.metadata.key)

    def _selects(self, owner: Owner, pod: Pod) -> bool:
        selector = owner.spec.selector
        is_empty = not (selector.match_labels or selector.match_expressions)
        return not is_empty and matches_selector(selector, pod.metadata.labels)

    async def claim(
        self, owner: Owner, candidates: Iterable[Pod], cache: MutationCache[Pod] | None = None
    ) -> list[Pod]:
        """Return the pods of an owner, adopted ones included.

        ``candidates``: the pods with a controller of this kind and name.  ``cache`` records the writes.
        """
        metadata = owner.metadata
        owned = [pod for pod in candidates if is_controlled_by(pod.metadata, metadata.uid)]
        kept = [pod for pod in owned if self._selects(owner, pod)]
        orphans = [
            pod
            for pod in self._pods.by_index(ORPHANS, metadata.namespace)
            if is_active(pod) and self._selects(owner, pod) and self._is_member(owner, pod)
        ]
        if orphans and not await self._exists(owner):
            orphans = []
        changed = await asyncio.gather(
            *(self._release(owner, pod) for pod in owned if pod not in kept),
            *(self._adopt(owner, pod) for pod in orphans),
        )
        written = [pod for pod in changed if pod is not None]
        for pod in written if cache is not None else ():
            cache.record(pod)  # type: ignore[union-attr]
        adopted = [pod for pod in written if is_controlled_by(pod.metadata, metadata.uid)]
        kept_uids = {pod.metadata.uid for pod in kept}
        return [*kept, *(pod for pod in adopted if pod.metadata.uid not in kept_uids)]

    async def _exists(self, owner: Owner) -> bool:
        """Return True unless the owner is deleted, which the watch may not have delivered yet."""
        metadata = owner.metadata
        try:
            stored = (await self._client.get(self._kind, metadata.key)).metadata
        except NotFound:
            return False
        return stored.uid == metadata.uid and stored.deletion_timestamp is None

    async def _adopt(self, owner: Owner, pod: Pod) -> Pod | None:
        return await self._patch(pod, owner_references(self._kind, owner.metadata))

    async def _release(self, owner: Owner, pod: Pod) -> Pod | None:
        return await self._patch(pod, [{"$patch": "delete", "uid": owner.metadata.uid}])

    async def _patch(self, pod: Pod, references: list[Json]) -> Pod | None:
        """Merge owner references; return None if the pod is gone, or another controller was faster."""
        patch: dict[str, Any] = {"metadata": {"uid": pod.metadata.uid, "ownerReferences": references}}
        try:
            return await self._client.patch(PODS, pod.metadata.key, patch, kind=PatchKind.STRATEGIC)
        except (NotFound, Invalid):
            return None
