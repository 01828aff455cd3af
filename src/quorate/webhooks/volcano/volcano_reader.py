"""What reviews must know besides the object: queues, pod groups, quotas and what is left of them.

Copies of these are kept in memory while the cluster serves the kinds, whether the replica leads or not, so
that creating a pod costs no request.  A copy may lag: what it refuses of queues is judged again by what is
stored, and of what a quota was charged just now no more counts as used than our own count says, too, as
either may have heard of a new member first.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Protocol

from quorate.api import volcano
from quorate.api.core import Namespace, ResourceQuota
from quorate.api.meta import Key
from quorate.api.volcano import DEFAULT_QUEUE, PodGroup, Queue
from quorate.gang.queue import NamespaceQuota
from quorate.gang.quota import ACTIVE_PHASES, Amounts, QuotaSums, Subject, unevaluable_scopes
from quorate.gang.quota_ledger import GroupWants, QuotaLedger
from quorate.gang.reading import quota_of, quota_units
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import ApiError, Unreachable, Unreadable
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.resources import POD_GROUPS, QUEUES, RESOURCE_QUOTAS
from quorate.kube.rest.discovery import served_resources
from quorate.webhooks.volcano.quota_pod import QUOTA_PODS, QuotaPod, pod_use

LOOK_AGAIN_S: Final = 30.0  # whether the kinds are served by now
NAMESPACE: Final = "namespace"  # an index, as the next
QUEUE: Final = "queue"

Queues = Mapping[str, Queue]


class QuotaView(Protocol):
    """The quotas of one namespace, and what is reserved of them."""

    @property
    def quotas(self) -> Sequence[NamespaceQuota]: ...

    @property
    def reserved(self) -> QuotaSums: ...

    @property
    def claims(self) -> Mapping[str, tuple[Subject, Amounts]]:
        """Those of active groups one by one, by the name of the group."""
        ...


class VolcanoReader(Protocol):
    """All of it.  Whatever is awaited may raise what requests to the API server raise."""

    def queues(self) -> Queues | None:
        """``None`` while no copy is there."""
        ...

    async def queues_now(self) -> Queues: ...

    def pod_group(self, key: Key) -> PodGroup | None: ...

    def pod_groups(self, namespace: str) -> Sequence[PodGroup]:
        """As far as a copy is there; so are those of a queue."""
        ...

    def pod_groups_of(self, queue: str) -> Sequence[PodGroup]: ...

    def quota(self, namespace: str) -> QuotaView | None:
        """``None`` while no copy is there."""
        ...

    async def namespace(self, name: str) -> Namespace | None: ...


class _View:
    def __init__(self, quotas: Sequence[NamespaceQuota], ledger: QuotaLedger, namespace: str) -> None:
        self.quotas = quotas
        self.reserved = ledger.reserved(namespace)
        self.claims = ledger.claims(namespace)


class CachedVolcanoReader:
    """As they are in the cluster; ``run`` keeps them true."""

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
        self._quota_of: dict[Key, NamespaceQuota] = {}  # of every quota
        self._told: set[Key] = set()  # quotas that are ignored, and said to be
        self._queues = Informer(client, QUEUES)
        self._groups = Informer(client, POD_GROUPS)
        self._quotas = Informer(client, RESOURCE_QUOTAS)
        self._pods = Informer(client, QUOTA_PODS)
        self._groups.add_index(NAMESPACE, lambda group: (group.metadata.namespace,))
        self._groups.add_index(QUEUE, lambda group: (group.spec.queue or DEFAULT_QUEUE,))
        self._quotas.add_index(NAMESPACE, lambda quota: (quota.metadata.namespace,))
        self._groups.subscribe(self._on_group)
        self._quotas.subscribe(self._on_quota)
        self._pods.subscribe(self._on_pod)

    @property
    def _informers(self) -> tuple[Informer[Any], ...]:
        return (self._queues, self._groups, self._quotas, self._pods)

    async def run(self) -> None:
        await self._until_served()
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers:
                tasks.create_task(informer.run(), name=f"watch {informer.resource.plural} for reviews")

    async def _until_served(self) -> None:
        """A cluster without the kinds has no use for copies, and lists of them would fail again and again."""
        log, said = logger(__name__), False
        while True:
            try:
                served = {each.name for each in await served_resources(self._client, POD_GROUPS.api_version)}
            except (ApiError, Unreachable, Unreadable) as error:
                log.warning("cannot tell whether pod groups are served", problem=str(error))
                served = set()
            if {POD_GROUPS.plural, QUEUES.plural} <= served:
                return
            if not said:
                log.info("pod groups are not served, their webhooks wait", group=volcano.GROUP)
                said = True
            await self._clock.sleep_until(self._clock.now() + LOOK_AGAIN_S)

    def _on_pod(self, change: Change[QuotaPod]) -> None:
        if change.new is None:
            self._ledger.remove_pod(change.key)
        else:
            self._ledger.set_pod(change.key, pod_use(change.new, self._names))

    def _on_group(self, change: Change[PodGroup]) -> None:
        if change.new is None:
            self._ledger.remove_group(change.key)
        else:
            self._ledger.set_group(change.key, group_requirements(change.new))

    def _on_quota(self, change: Change[ResourceQuota]) -> None:
        before = self._quota_of.pop(change.key, None)
        if change.new is not None:
            new = quota_of(change.new)
            now = self._clock.now()
            self._quota_of[change.key] = new if before is None else new.following(before, now)
        scopes = () if change.new is None else unevaluable_scopes(change.new.spec)
        if not scopes:
            self._told.discard(change.key)
        elif change.key not in self._told:
            self._told.add(change.key)
            logger(__name__).warning(
                "quota ignored: its scopes are not known", quota=change.key, scopes=scopes
            )

    def queues(self) -> Queues | None:
        if not self._queues.synced.is_set():
            return None
        return {queue.metadata.name: queue for queue in self._queues}

    async def queues_now(self) -> Queues:
        return {queue.metadata.name: queue for queue in (await self._client.list(QUEUES)).items}

    def pod_group(self, key: Key) -> PodGroup | None:
        return self._groups.get(key)

    def pod_groups(self, namespace: str) -> Sequence[PodGroup]:
        return self._groups.by_index(NAMESPACE, namespace)

    def pod_groups_of(self, queue: str) -> Sequence[PodGroup]:
        return self._groups.by_index(QUEUE, queue)

    def quota(self, namespace: str) -> QuotaView | None:
        if not all(informer.synced.is_set() for informer in self._informers):
            return None
        stored = self._quotas.by_index(NAMESPACE, namespace)
        counted, now = self._ledger.used(namespace), self._clock.now()
        quotas = [agreed(self._quota_of[quota.metadata.key], counted, now) for quota in stored]
        return _View(quotas, self._ledger, namespace)

    async def namespace(self, name: str) -> Namespace | None:
        return await self._namespace(name)


def agreed(quota: NamespaceQuota, counted: QuotaSums, now: float) -> NamespaceQuota:
    """``quota`` with what is surely used at ``now``, and more as far as ``counted``, our own count, agrees.

    Either may have heard first of a member that is claimed for as well, which would count it twice.
    """
    ours, sure = counted.of(quota.spec), quota.surely_used(now)
    used = {
        name: max(sure.get(name, 0), min(amount, ours.get(name.removeprefix("requests."), 0)))
        for name, amount in quota.used.items()
    }
    return replace(quota, used=used)


def group_requirements(group: PodGroup) -> GroupWants:
    minimum = group.spec.min_resources
    return GroupWants(
        subject=Subject(group.spec.priority_class_name),
        minimum=None if minimum is None else quota_units(minimum),
        active=group.status.phase in ACTIVE_PHASES and group.metadata.deletion_timestamp is None,
    )
