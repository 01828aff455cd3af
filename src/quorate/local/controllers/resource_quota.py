"""The status of ResourceQuotas: limits and current usage.

The API server enforces quotas and adds usage at creation; this controller recomputes it, so that deletions
release quota.
"""

import asyncio
from collections import Counter

from quorate.api.core import Pod, ResourceQuota, ResourceQuotaStatus
from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import RESOURCE_QUOTAS
from quorate.local.controllers.controller import Controller
from quorate.local.controllers.metadata_cache import CachedObject, MetadataCache
from quorate.local.resource_quota import has_scopes, matches_scopes, quota_usage


class QuotaController(Controller):
    """Recomputes usage after deletions.  The caller runs the informer of pods."""

    def __init__(
        self, client: Client, clock: Clock, pods: Informer[Pod], metadata_cache: MetadataCache
    ) -> None:
        super().__init__("resource-quota", client, clock, pods, metadata_cache)
        self._pods = pods
        self._metadata_cache = metadata_cache
        self._quotas = Informer(client, RESOURCE_QUOTAS)
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
        # Ignore status changes: the server updates the status at each creation.
        new, old = change.new, change.old
        if new is not None and (old is None or old.spec != new.spec):
            self._reconciler.enqueue(new.metadata.key)

    def _on_pod(self, change: Change[Pod]) -> None:
        pod = change.new or change.old
        assert pod is not None
        if change.new is None or change.new.status.phase in ("Succeeded", "Failed"):
            self._enqueue_all(pod.metadata.namespace)

    def _on_object(self, old: CachedObject | None, new: CachedObject | None) -> None:
        entry = old or new
        if entry is not None and new is None:
            self._enqueue_all(entry.metadata.namespace)

    def _enqueue_all(self, namespace: str) -> None:
        for quota in self._quotas.by_index("namespace", namespace):
            self._reconciler.enqueue(quota.metadata.key)

    async def reconcile(self, key: Key) -> None:
        quota = self._quotas.get(key)
        if quota is None or quota.metadata.deletion_timestamp is not None:
            return
        counts: Counter[str] = Counter()
        for entry in () if has_scopes(quota.spec) else self._metadata_cache.in_namespace(key.namespace):
            kind = entry.resource
            counts[f"{kind.plural}.{kind.group}" if kind.group else kind.plural] += 1
        pods = [
            pod for pod in self._pods.by_index("namespace", key.namespace) if matches_scopes(quota.spec, pod)
        ]
        status = ResourceQuotaStatus(hard=quota.spec.hard, used=quota_usage(quota.spec.hard, pods, counts))
        await self._write_status(RESOURCE_QUOTAS, quota, status)
