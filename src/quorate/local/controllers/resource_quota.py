"""The status of ResourceQuotas: limits and current usage.

The API server enforces quotas and adds usage; this controller recomputes it, so that deletions and smaller
requests release quota.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from quorate.api.core import Pod, ResourceQuota, ResourceQuotaStatus, Resources
from quorate.api.core.pod_resources import sum_resources
from quorate.api.meta import Key
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import RESOURCE_QUOTAS, SERVICES, Resource, untyped
from quorate.local.controllers.controller import Controller, ControllerContext
from quorate.local.controllers.metadata_cache import CachedObject, MetadataCache
from quorate.local.controllers.pod_control import is_pod_finished
from quorate.local.resource_quota import (
    counts_crossing,
    crosses_namespaces,
    has_scopes,
    is_object_amount,
    matches_scopes,
    object_amounts,
    quota_usage,
)

UNTYPED_PODS: Final = untyped("", "v1", "pods", "Pod", namespaced=True)
KINDS: Final = {
    "services": SERVICES,
    "persistentvolumeclaims": untyped(
        "", "v1", "persistentvolumeclaims", "PersistentVolumeClaim", namespaced=True
    ),
    "resourceclaims.resource.k8s.io": untyped(
        "resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", namespaced=True
    ),
}
"""By plural and group, the kinds of which objects use more than their count."""


class QuotaController(Controller):
    """Recomputes usage after deletions and changes.  The caller runs the informer of pods."""

    def __init__(
        self, context: ControllerContext, pods: Informer[Pod], metadata_cache: MetadataCache
    ) -> None:
        super().__init__("resource-quota", context, pods, metadata_cache)
        self._pods = pods
        self._metadata_cache = metadata_cache
        self._quotas = Informer(self._client, RESOURCE_QUOTAS)
        pods.add_index("namespace", lambda pod: (pod.metadata.namespace,))
        self._quotas.add_index("namespace", lambda quota: (quota.metadata.namespace,))
        self._quotas.subscribe(self._on_quota)
        pods.subscribe(self._on_pod)
        metadata_cache.subscribe(self._on_object)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._quotas.run())
            tasks.create_task(super().run())

    def _on_quota(self, change: Change[ResourceQuota]) -> None:
        # Ignore changes of the usage: the server updates it at each creation.
        new, old = change.new, change.old
        if new is not None and (old is None or old.spec != new.spec or new.status.hard != new.spec.hard):
            self._reconciler.enqueue(new.metadata.key)

    def _on_pod(self, change: Change[Pod]) -> None:
        new, old = change.new, change.old
        if new is None or is_pod_finished(new) or (old is not None and _request(old) != _request(new)):
            self._enqueue_all(change.key.namespace)

    def _on_object(self, change: Change[CachedObject]) -> None:
        if change.new is None or _name_of(change.new.resource) in KINDS:
            self._enqueue_all(change.key.namespace)

    def _enqueue_all(self, namespace: str) -> None:
        for quota in self._quotas.by_index("namespace", namespace):
            self._reconciler.enqueue(quota.metadata.key)

    async def reconcile(self, key: Key) -> None:
        quota = self._quotas.get(key)
        if quota is None or quota.metadata.deletion_timestamp is not None:
            return
        counts: Counter[str] = Counter()
        for entry in () if has_scopes(quota.spec) else self._metadata_cache.in_namespace(key.namespace):
            counts[_name_of(entry.resource)] += 1
        crossing = await self._crossing(quota)
        pods = [
            pod
            for pod in self._pods.by_index("namespace", key.namespace)
            if matches_scopes(quota.spec, pod, crosses=pod.metadata.name in crossing)
        ]
        amounts = {} if has_scopes(quota.spec) else await self._amounts(quota, counts)
        used = quota_usage(quota.spec.hard, pods, counts, amounts)
        status = ResourceQuotaStatus(hard=quota.spec.hard, used=used)
        await self._write_status(RESOURCE_QUOTAS, quota, status)

    async def _crossing(self, quota: ResourceQuota) -> set[str]:
        """Return the pods for which ``crosses_namespaces`` returns True, if the quota counts only them."""
        if not counts_crossing(quota.spec):
            return set()
        pods = (await self._client.list(UNTYPED_PODS, quota.metadata.namespace)).items
        return {pod["metadata"]["name"] for pod in pods if crosses_namespaces(pod)}

    async def _amounts(self, quota: ResourceQuota, counts: Mapping[str, int]) -> Resources:
        """Return the sums of what services and claims use, if the quota limits such amounts."""
        if not any(map(is_object_amount, quota.spec.hard)):
            return {}
        objects = [
            object_amounts(name, obj)
            for name, kind in KINDS.items()
            if counts[name]
            for obj in (await self._client.list(kind, quota.metadata.namespace)).items
        ]
        return sum_resources(objects)


def _name_of(kind: Resource[Any]) -> str:
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def _request(pod: Pod) -> tuple[object, ...]:
    """Return what decides which quotas count a pod, and with which amounts."""
    spec = pod.spec
    return spec.containers, spec.init_containers, spec.resources, spec.active_deadline_seconds
