"""Pod groups and queues of the versions before v1beta1 (``--legacy-apis``): each is given one of v1beta1.

It has the name and what the old version says, and is owned by the old object, with which it goes.  All that
is decided is written to the new one; the old one is only read.  A v1beta1 object of the name that somebody
else made is left as it is: it is the newer word.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

import msgspec

from quorate.api.meta import Key, ObjectMeta, OwnerReference
from quorate.api.volcano import PodGroup, Queue
from quorate.api.volcano.legacy import IncubatorQueue, LegacyPodGroup, SigsQueue, pod_group_of, queue_of
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import AlreadyExists, ApiError, Unreachable, Unreadable
from quorate.kube.flowcontrol import Backoff
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.patches import merge_patch
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import LEGACY_POD_GROUPS, LEGACY_QUEUES, Resource
from quorate.kube.rest.discovery import plural_of

WORKERS: Final = 4
AGAIN: Final = Backoff(first_s=0.5, cap_s=10.0)

Old = TypeVar("Old", bound=LegacyPodGroup | IncubatorQueue | SigsQueue)
New = TypeVar("New", bound=PodGroup | Queue)


async def follow_legacy(
    client: Client, clock: Clock, groups: Informer[PodGroup], queues: Informer[Queue]
) -> None:
    """Run until cancelled; ``groups`` and ``queues`` are of v1beta1, and have synced."""
    incubator, sigs = LEGACY_QUEUES
    every: tuple[_Successors[Any, Any], ...] = (
        _Successors(client, clock, incubator, queues, queue_of),
        _Successors(client, clock, sigs, queues, queue_of),
        *(_Successors(client, clock, each, groups, pod_group_of) for each in LEGACY_POD_GROUPS),
    )
    async with asyncio.TaskGroup() as tasks:
        for successors in every:
            tasks.create_task(successors.run())


class _Successors(Generic[Old, New]):
    """The v1beta1 objects of one old kind."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        old: Resource[Old],
        news: Informer[New],
        successor_of: Callable[[Old], New],
    ) -> None:
        self._client = client
        self._clock = clock
        self._old = old
        self._olds = Informer(client, old)
        self._news = news
        self._successor_of = successor_of
        self._reconciler = Reconciler(f"{old.plural} of {old.group}", self._reconcile, clock, WORKERS)
        self._olds.subscribe(lambda change: self._reconciler.enqueue(change.key))
        news.subscribe(self._on_new)

    async def run(self) -> None:
        """Ends at once where the old kind is not served."""
        if not await self._is_served():
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._olds.run())
            await self._olds.synced.wait()
            tasks.create_task(self._reconciler.run())

    async def _is_served(self) -> bool:
        """As soon as the cluster says so."""
        old, steady, log = self._old, self._clock.steady, logger(__name__)
        failures = 0
        while True:
            try:
                plural = await plural_of(self._client, old.api_version, old.kind)
            except (ApiError, Unreachable, Unreadable) as error:
                failures += 1
                again_in_s = AGAIN.jittered_s(failures, self._client.rng)
                log.warning("waiting for the cluster", problem=str(error), again_in_s=again_in_s)
                await steady.sleep_until(steady.now() + again_in_s)
            else:
                break
        if plural:
            log.info("older version read", resource=plural, version=old.api_version)
        return bool(plural)

    def _on_new(self, change: Change[New]) -> None:
        if self._olds.get(change.key) is not None:
            self._reconciler.enqueue(change.key)

    async def _reconcile(self, key: Key) -> None:
        old = self._olds.get(key)
        if old is None or old.metadata.deletion_timestamp is not None:
            return
        wanted, present = self._successor_of(old), self._news.get(key)
        resource = self._news.resource
        if present is None:
            metadata, begun = self._metadata_of(old.metadata), type(wanted.status)()
            new = msgspec.structs.replace(wanted, metadata=metadata, status=begun)
            try:
                await self._client.create(resource, new, key.namespace)
            except AlreadyExists:
                return  # the watch is about to show it
        elif any(owner.uid == old.metadata.uid for owner in present.metadata.owner_references):
            changed = merge_patch(present.spec, wanted.spec)
            known = {field.encode_name for field in msgspec.structs.fields(old.spec)}
            if spec := {name: value for name, value in changed.items() if name in known}:
                version = {"resourceVersion": present.metadata.resource_version}
                await self._client.patch(resource, key, {"metadata": version, "spec": spec})

    def _metadata_of(self, old: ObjectMeta) -> ObjectMeta:
        owner = OwnerReference(
            api_version=self._old.api_version,
            kind=self._old.kind,
            name=old.name,
            uid=old.uid,
            controller=True,
        )
        return ObjectMeta(
            name=old.name, labels=old.labels, annotations=old.annotations, owner_references=(owner,)
        )
