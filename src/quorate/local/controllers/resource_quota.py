"""The status of ResourceQuotas: limits and current usage.

The API server enforces quotas and adds usage; this controller recomputes it, so that deletions and smaller
requests release quota.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from quorate.api.core import Pod, ResourceQuota, ResourceQuotaStatus, Resources
from quorate.api.core.quota_scopes import CROSS_NAMESPACE, counted_until
from quorate.api.meta import Key
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import RESOURCE_QUOTAS, SERVICES, Resource, untyped
from quorate.local.controllers.controller import Controller, ControllerContext
from quorate.local.controllers.metadata_cache import CachedObject, MetadataCache
from quorate.local.controllers.pod_control import is_pod_finished
from quorate.local.resource_quota import (
    CLAIMS,
    counted_by,
    counts_pod,
    crosses_namespaces,
    is_object_amount,
    limited_usage,
    object_amounts,
    object_usage,
    pod_usage,
)

RESYNC_S: Final = 300.0
"""Then usage is recomputed in any case: the server may charge for an object that it then refuses."""
UNTYPED_PODS: Final = untyped("", "v1", "pods", "Pod", namespaced=True)
KINDS: Final = {
    "services": SERVICES,
    CLAIMS: untyped("", "v1", CLAIMS, "PersistentVolumeClaim", namespaced=True),
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

    async def reconcile(self, key: Key) -> float | None:
        quota = self._quotas.get(key)
        if quota is None or quota.metadata.deletion_timestamp is not None:
            return None
        entries = self._metadata_cache.in_namespace(key.namespace)
        counts = Counter(_name_of(entry.resource) for entry in entries)
        crossing = await self._crossing(quota)
        now = self._clock.now()
        pods = [
            pod
            for pod in self._pods.by_index("namespace", key.namespace)
            if counts_pod(quota.spec, pod, crosses=pod.metadata.name in crossing)
        ]
        usages = [pod_usage(pod, now) for pod in pods]
        usages += await self._listed(quota, counts)
        if not quota.spec.scope_requirements:
            usages += [object_usage(name, count) for name, count in counts.items() if name != "pods"]
        used = limited_usage(quota.spec.hard, usages)
        status = ResourceQuotaStatus(hard=quota.spec.hard, used=used)
        await self._write_status(RESOURCE_QUOTAS, quota, status)
        ends = (counted_until(pod.metadata) for pod in pods)
        return min((now + RESYNC_S, *(end for end in ends if end > now)))

    async def _crossing(self, quota: ResourceQuota) -> set[str]:
        """Return the pods for which ``crosses_namespaces`` returns True, if the quota counts only them."""
        if all(scope.scope_name != CROSS_NAMESPACE for scope in quota.spec.scope_requirements):
            return set()
        pods = (await self._client.list(UNTYPED_PODS, quota.metadata.namespace)).items
        return {pod["metadata"]["name"] for pod in pods if crosses_namespaces(pod)}

    async def _listed(self, quota: ResourceQuota, counts: Mapping[str, int]) -> list[Resources]:
        """Return what services and claims use besides their count; with scopes the counted claims, too."""
        has_scopes, hard = bool(quota.spec.scope_requirements), quota.spec.hard
        if not any(is_object_amount(name) or (has_scopes and name.endswith(CLAIMS)) for name in hard):
            return []
        return [
            object_amounts(name, obj) | (object_usage(name) if has_scopes else {})
            for name, kind in KINDS.items()
            if counts[name]
            for obj in (await self._client.list(kind, quota.metadata.namespace)).items
            if counted_by(quota.spec, name, obj)
        ]


def _name_of(kind: Resource[Any]) -> str:
    return f"{kind.plural}.{kind.group}" if kind.group else kind.plural


def _request(pod: Pod) -> tuple[object, ...]:
    """Return what decides which quotas count a pod, and with which amounts."""
    spec = pod.spec
    return spec.containers, spec.init_containers, spec.resources, spec.active_deadline_seconds
