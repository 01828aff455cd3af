"""Pod groups and queues of the API versions before v1beta1 (``--legacy-apis``): each gets a v1beta1 object.

The v1beta1 object has the same name and the converted spec, and the old object owns it, so that both are
deleted together.  All writes go to the v1beta1 object; the old one is only read.  A v1beta1 object of the
same name that has another origin is not changed.
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
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import AlreadyExists
from quorate.kube.flowcontrol import until_answered
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.patches import merge_patch
from quorate.kube.resources import LEGACY_POD_GROUPS, LEGACY_QUEUES, Resource
from quorate.kube.rest.discovery import plural_of

WORKERS: Final = 4

Old = TypeVar("Old", bound=LegacyPodGroup | IncubatorQueue | SigsQueue)
New = TypeVar("New", bound=PodGroup | Queue)


async def follow_legacy(
    client: Client, clock: Clock, groups: Informer[PodGroup], queues: Informer[Queue]
) -> None:
    """Run until cancelled; ``groups`` and ``queues`` are the synced informers of v1beta1."""
    incubator, sigs = LEGACY_QUEUES
    converters: tuple[_Converter[Any, Any], ...] = (
        _Converter(client, clock, incubator, queues, queue_of),
        _Converter(client, clock, sigs, queues, queue_of),
        *(_Converter(client, clock, each, groups, pod_group_of) for each in LEGACY_POD_GROUPS),
    )
    async with asyncio.TaskGroup() as tasks:
        for converter in converters:
            tasks.create_task(converter.run())


class _Converter(Generic[Old, New]):
    """Keeps the v1beta1 objects of one old kind."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        old: Resource[Old],
        new_objects: Informer[New],
        convert: Callable[[Old], New],
    ) -> None:
        self._client = client
        self._clock = clock
        self._old = old
        self._old_objects = Informer(client, old)
        self._new_objects = new_objects
        self._convert = convert
        self._reconciler = Reconciler(f"{old.plural} of {old.group}", self._reconcile, clock, WORKERS)
        self._old_objects.subscribe(lambda change: self._reconciler.enqueue(change.key))
        new_objects.subscribe(self._on_new)

    async def run(self) -> None:
        """Run until cancelled; return at once if the old kind is not served."""
        if not await self._is_served():
            return
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._old_objects.run())
            await self._old_objects.synced.wait()
            tasks.create_task(self._reconciler.run())

    async def _is_served(self) -> bool:
        old, client = self._old, self._client
        plural = await until_answered(
            lambda: plural_of(client, old.api_version, old.kind), self._clock, client.rng
        )
        if plural:
            logger(__name__).info("older API version is read", resource=plural, version=old.api_version)
        return bool(plural)

    def _on_new(self, change: Change[New]) -> None:
        if self._old_objects.get(change.key) is not None:
            self._reconciler.enqueue(change.key)

    async def _reconcile(self, key: Key) -> None:
        old = self._old_objects.get(key)
        if old is None or old.metadata.deletion_timestamp is not None:
            return
        wanted, present = self._convert(old), self._new_objects.get(key)
        resource = self._new_objects.resource
        if present is None:
            metadata, initial = self._metadata_of(old.metadata), type(wanted.status)()
            new = msgspec.structs.replace(wanted, metadata=metadata, status=initial)
            try:
                await self._client.create(resource, new, key.namespace)
            except AlreadyExists:
                return  # the watch will deliver it
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
