"""Ownership of pods by selectors: a controller adopts orphans that it selects, and releases pods that it no
longer selects (the rules of Kubernetes' controller reference manager).
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any, Generic

from quorate.api.codec import Json
from quorate.api.core import Pod
from quorate.api.meta import LabelSelector, matches_selector
from quorate.kube.client import Client, PatchKind
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import Invalid, NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import PODS, Resource, T, metadata_of
from quorate.local.controllers.pod_control import is_active, is_controlled_by, owner_references
from quorate.local.own_writes import MutationCache

ORPHANS = "orphans by namespace"


def index_orphans(pods: Informer[Pod]) -> None:
    """Add the index that the claims of all kinds share."""
    pods.add_index(ORPHANS, lambda pod: (pod.metadata.namespace,) if pod.metadata.controller is None else ())


class PodClaims(Generic[T]):
    """Sets the controller of pods for the objects of ``kind``, such as ReplicaSets.

    An object adopts the pods that its selector selects and that have no controller.  It releases pods that
    the selector no longer selects.
    """

    def __init__(
        self,
        client: Client,
        kind: Resource[T],
        owners: Informer[T],
        pods: Informer[Pod],
        selector_of: Callable[[T], LabelSelector],
        reconciler: Reconciler,
        *,
        is_member: Callable[[T, Pod], bool] = lambda owner, pod: True,
    ) -> None:
        """``is_member``: whether an owner may adopt a pod that it selects."""
        self._client = client
        self._kind = kind
        self._owners = owners
        self._pods = pods
        self._selector_of = selector_of
        self._is_member = is_member
        self._reconciler = reconciler
        owners.add_index("namespace", lambda owner: (metadata_of(owner).namespace,))
        pods.subscribe(self._on_pod)

    def _on_pod(self, change: Change[Pod]) -> None:
        """Enqueue the owners that may adopt an orphan."""
        pod = change.new
        if pod is None or pod.metadata.controller is not None or not is_active(pod):
            return
        for owner in self._owners.by_index("namespace", pod.metadata.namespace):
            if self._selects(owner, pod) and self._is_member(owner, pod):
                self._reconciler.enqueue(metadata_of(owner).key)

    def _selects(self, owner: T, pod: Pod) -> bool:
        selector = self._selector_of(owner)
        is_empty = not (selector.match_labels or selector.match_expressions)
        return not is_empty and matches_selector(selector, pod.metadata.labels)

    async def claim(
        self, owner: T, candidates: Iterable[Pod], cache: MutationCache[Pod] | None = None
    ) -> list[Pod]:
        """Return the pods of an owner, adopted ones included.

        ``candidates``: the pods with a controller of this kind and name.  ``cache`` records the writes.
        """
        metadata = metadata_of(owner)
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
        known = {pod.metadata.uid for pod in kept}
        return [*kept, *(pod for pod in adopted if pod.metadata.uid not in known)]

    async def _exists(self, owner: T) -> bool:
        """Return True unless the owner is deleted, which the watch may not have delivered yet."""
        metadata = metadata_of(owner)
        try:
            newest = await self._client.get(self._kind, metadata.key)
        except NotFound:
            return False
        stored = metadata_of(newest)
        return stored.uid == metadata.uid and stored.deletion_timestamp is None

    async def _adopt(self, owner: T, pod: Pod) -> Pod | None:
        return await self._patch(pod, owner_references(self._kind, metadata_of(owner)))

    async def _release(self, owner: T, pod: Pod) -> Pod | None:
        return await self._patch(pod, [{"$patch": "delete", "uid": metadata_of(owner).uid}])

    async def _patch(self, pod: Pod, references: list[Json]) -> Pod | None:
        """Merge owner references; return None if the pod is gone, or another controller was faster."""
        patch: dict[str, Any] = {"metadata": {"uid": pod.metadata.uid, "ownerReferences": references}}
        try:
            return await self._client.patch(PODS, pod.metadata.key, patch, kind=PatchKind.STRATEGIC)
        except (NotFound, Invalid):
            return None
