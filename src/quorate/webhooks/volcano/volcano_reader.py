"""The reads of the Volcano webhooks: queues, pod groups, quotas and their usage.

These are cached while the cluster serves the kinds, whether the replica is the leader or not, so that the
creation of a pod costs no request.  A cache may lag.  A refusal because of a queue is therefore checked
against the API server.  Recent usage of a quota counts only as far as our own count of pods agrees, since the
status of the quota and the pod may be delivered in either order.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from quorate.api.core import Namespace, ResourceQuota
from quorate.api.core.quota_scopes import ScopeAttributes
from quorate.api.meta import Key
from quorate.api.names.volcano import REPLACES_FAILED
from quorate.api.scheduler_configuration import in_force
from quorate.api.volcano import PodGroup, Queue
from quorate.gang.cache.from_objects import quota_amounts, quota_from_object
from quorate.gang.namespace_quota.evaluation import (
    ACTIVE_PHASES,
    Amounts,
    QuotaTotals,
    group_minimum,
    unsupported_scopes,
)
from quorate.gang.namespace_quota.ledger import GroupQuotaMinimum, QuotaLedger
from quorate.gang.namespace_quota.quota import NamespaceQuota
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.discovery import wait_until_served
from quorate.kube.errors import NotFound, RequestFailed
from quorate.kube.feed import Feed
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.resources import CONFIG_MAPS, POD_GROUPS, QUEUES, RESOURCE_QUOTAS
from quorate.webhooks.limits import DISCOVERY_INTERVAL_S, SCHEDULER_INTERVAL_S
from quorate.webhooks.volcano.quota_pod import QUOTA_PODS, pod_quota_usage

_BY_NAMESPACE: Final = "by namespace"  # index of pod groups and quotas
_BY_QUEUE: Final = "by queue"  # index of pod groups

Queues = Mapping[str, Queue]


class QuotaView(Protocol):
    """The quotas of one namespace, and the reservations in them."""

    @property
    def quotas(self) -> Sequence[NamespaceQuota]: ...

    @property
    def reserved(self) -> QuotaTotals: ...

    @property
    def claims(self) -> Mapping[str, tuple[ScopeAttributes, Amounts]]:
        """The reservation of each active pod group, by the group's name."""
        ...


class VolcanoReader(Protocol):
    """The reads of the webhooks; the coroutines may raise the errors of API requests."""

    def queues(self) -> Queues | None:
        """Return the cached queues; None before the cache has synced."""
        ...

    async def list_queues(self) -> Queues: ...

    def pod_group(self, key: Key) -> PodGroup | None: ...

    def pod_groups(self, namespace: str) -> Sequence[PodGroup]:
        """Return the cached pod groups of a namespace; none before the cache has synced."""
        ...

    def pod_groups_in_queue(self, queue: str) -> Sequence[PodGroup]: ...

    def quota(self, namespace: str) -> QuotaView | None:
        """Return the quotas of a namespace; None before all caches have synced."""
        ...

    async def namespace(self, name: str) -> Namespace | None: ...

    def delays_pod_creation(self) -> bool:
        """Return False if the scheduler admits groups without a check, so that they reserve nothing."""
        ...


class _NamespaceQuotaView:
    def __init__(self, quotas: Sequence[NamespaceQuota], ledger: QuotaLedger, namespace: str) -> None:
        self.quotas = quotas
        self.reserved = ledger.reserved(namespace)
        self.claims = ledger.claims(namespace)


class CachedVolcanoReader:
    """Reads from informers, which ``run`` runs."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        scheduler_names: Collection[str],
        namespace: Callable[[str], Awaitable[Namespace | None]],
    ) -> None:
        self._client = client
        self._clock = clock
        self._names = frozenset(scheduler_names)
        self._namespace = namespace
        self._ledger = QuotaLedger()
        self._quota_of: dict[Key, NamespaceQuota] = {}  # by the key of the ResourceQuota
        self._delays_pod_creation = True  # as long as the scheduler's configuration is not known
        self._ignored: set[Key] = set()  # quotas with unknown scopes, which were logged
        self._queues = Informer(client, QUEUES)
        self._groups = Informer(client, POD_GROUPS)
        self._quotas = Informer(client, RESOURCE_QUOTAS)
        self._pods = Informer(client, QUOTA_PODS)
        self._groups.add_index(_BY_NAMESPACE, lambda group: (group.metadata.namespace,))
        self._groups.add_index(_BY_QUEUE, lambda group: (group.queue_name,))
        self._quotas.add_index(_BY_NAMESPACE, lambda quota: (quota.metadata.namespace,))
        ledger = self._ledger
        Feed(
            POD_GROUPS,
            lambda group: ledger.set_group(group.metadata.key, group_quota_minimum(group)),
            ledger.remove_group,
        ).subscribe(self._groups)
        Feed(
            QUOTA_PODS,
            lambda pod: ledger.set_pod(pod.metadata.key, pod_quota_usage(pod, self._names)),
            ledger.remove_pod,
        ).subscribe(self._pods)
        self._quotas.subscribe(self._quota_changed)

    @property
    def _informers(self) -> tuple[Informer[Any], ...]:
        return (self._queues, self._groups, self._quotas, self._pods)

    async def run(self) -> None:
        for resource in (POD_GROUPS, QUEUES):  # before that, every list would fail
            await wait_until_served(resource, self._client, self._clock, interval_s=DISCOVERY_INTERVAL_S)
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run(), name=f"watch {informer.resource.plural} for webhooks")
            tasks.create_task(self._follow_scheduler(), name="configuration of the scheduler for webhooks")

    async def _follow_scheduler(self) -> None:
        """Read the scheduler's configuration in force again and again; without one, the defaults count."""
        while True:
            try:
                stored = (await self._client.get(CONFIG_MAPS, in_force.KEY)).data
                self._delays_pod_creation = in_force.admits_groups(stored)
            except NotFound:
                self._delays_pod_creation = True
            except RequestFailed as error:
                logger(__name__).debug("configuration of the scheduler not read", error=str(error))
            await self._clock.sleep_until(self._clock.now() + SCHEDULER_INTERVAL_S)

    def delays_pod_creation(self) -> bool:
        return self._delays_pod_creation

    def _quota_changed(self, change: Change[ResourceQuota]) -> None:
        before = self._quota_of.pop(change.key, None)
        if change.new is not None:
            new = quota_from_object(change.new)
            now = self._clock.now()
            self._quota_of[change.key] = new if before is None else new.following(before, now)
        scopes = () if change.new is None else unsupported_scopes(change.new.spec)
        if not scopes:
            self._ignored.discard(change.key)
        elif change.key not in self._ignored:
            self._ignored.add(change.key)
            logger(__name__).warning("quota ignored: unknown scopes", quota=change.key, scopes=scopes)

    def queues(self) -> Queues | None:
        if not self._queues.synced.is_set():
            return None
        return {queue.metadata.name: queue for queue in self._queues}

    async def list_queues(self) -> Queues:
        return {queue.metadata.name: queue for queue in (await self._client.list(QUEUES)).items}

    def pod_group(self, key: Key) -> PodGroup | None:
        return self._groups.get(key)

    def pod_groups(self, namespace: str) -> Sequence[PodGroup]:
        return self._groups.by_index(_BY_NAMESPACE, namespace)

    def pod_groups_in_queue(self, queue: str) -> Sequence[PodGroup]:
        return self._groups.by_index(_BY_QUEUE, queue)

    def quota(self, namespace: str) -> QuotaView | None:
        if not all(informer.synced.is_set() for informer in self._informers):
            return None
        stored = self._quotas.by_index(_BY_NAMESPACE, namespace)
        counted, now = self._ledger.used(namespace), self._clock.now()
        quotas = [with_agreed_usage(self._quota_of[quota.metadata.key], counted, now) for quota in stored]
        return _NamespaceQuotaView(quotas, self._ledger, namespace)

    async def namespace(self, name: str) -> Namespace | None:
        return await self._namespace(name)


def with_agreed_usage(quota: NamespaceQuota, counted: QuotaTotals, now: float) -> NamespaceQuota:
    """Return ``quota`` with its certain usage, and more as far as ``counted`` agrees.

    ``counted`` is our own count of pods.  A new member of a group may be in only one of the two, and its
    group's reservation includes it as well: without the comparison it would count twice.
    """
    own, certain = counted.of(quota.spec), quota.confirmed_used(now)
    used = {
        name: max(certain.get(name, 0), min(amount, own.get(name.removeprefix("requests."), 0)))
        for name, amount in quota.used.items()
    }
    return replace(quota, used=used)


def group_quota_minimum(group: PodGroup) -> GroupQuotaMinimum:
    minimum = group.spec.min_resources
    return GroupQuotaMinimum(
        attributes=ScopeAttributes(group.spec.priority_class_name),
        minimum=None if minimum is None else group_minimum(quota_amounts(minimum), group.spec.min_member),
        active=group.status.phase in ACTIVE_PHASES and group.metadata.deletion_timestamp is None,
        replaces_failed=group.metadata.annotations.get(REPLACES_FAILED) != "false",
    )
