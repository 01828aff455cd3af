"""A metadata cache of all objects: one watch per kind in the discovery documents.

Discovery is repeated whenever a CustomResourceDefinition changes.
"""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from quorate.api.meta import Key, ObjectMeta, OwnerReference, Struct, Uid, epoch
from quorate.kube.cancellation import start_task
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.named_kinds import served_groups
from quorate.kube.resources import Resource

REQUIRED_VERBS: Final = {"list", "watch", "delete"}
# Events have no dependents and no owners, and outnumber all other objects.
UNWATCHED: Final = {("", "events"), ("events.k8s.io", "events")}
DEFINITIONS: Final = ("apiextensions.k8s.io", "customresourcedefinitions")
DISCOVERY_KEY: Final = Key("", "discovery")
# A server lists a new kind a moment after its CRD appears, without any further change of the CRD.
DISCOVERY_DELAY_S: Final = 30.0
REDISCOVER_S: Final = 0.5


class PartialObjectMetadata(Struct):
    """An object of any kind, with metadata only."""

    metadata: ObjectMeta


@dataclass(frozen=True, slots=True)
class CachedObject:
    resource: Resource[PartialObjectMetadata]
    metadata: ObjectMeta

    @property
    def uid(self) -> Uid:
        return self.metadata.uid


async def discover(client: Client) -> tuple[Resource[PartialObjectMetadata], ...]:
    """Return the kinds that support list, watch and delete, each in one version.

    That is the first version in the group's order of preference which has the kind; Kubeflow's job kinds have
    no version in common.  Left out are the kinds of an aggregated API server that is down.
    """
    resources: dict[tuple[str, str], Resource[PartialObjectMetadata]] = {}
    for served in await served_groups(client):
        group = served.metadata.name
        for version in served.versions:
            for kind in version.resources if version.freshness == "Current" else ():
                if REQUIRED_VERBS.issubset(kind.verbs):
                    resource = Resource(
                        group,
                        version.version,
                        kind.resource,
                        kind.response_kind.kind,
                        kind.scope == "Namespaced",
                        PartialObjectMetadata,
                    )
                    resources.setdefault((group, kind.resource), resource)
    return tuple(resources.values())


class MetadataCache:
    def __init__(self, client: Client, clock: Clock) -> None:
        self.synced = asyncio.Event()  # set when all objects that existed at startup are known
        self.kinds: tuple[Resource[PartialObjectMetadata], ...] = ()  # as last discovered
        self._kind_by_name: dict[tuple[str, str], Resource[PartialObjectMetadata]] = {}  # by group and kind
        self._discovered = asyncio.Event()
        self._client = client
        self._clock = clock
        self._entries: dict[Uid, CachedObject] = {}
        self._dependents: dict[Uid, set[Uid]] = {}  # by owner, which need not exist; no set is empty
        self._by_namespace: dict[str, set[Uid]] = {}  # no set is empty
        self._watches: dict[
            Resource[PartialObjectMetadata], tuple[Informer[PartialObjectMetadata], asyncio.Task[None]]
        ] = {}
        self._subscribers: list[Callable[[Change[CachedObject]], None]] = []
        self._reconciler = Reconciler("discovery", self._rediscover, clock, workers=1)
        self._tasks: asyncio.TaskGroup | None = None
        self._log = logger(__name__)

    def get(self, uid: Uid) -> CachedObject | None:
        return self._entries.get(uid)

    def dependents(self, owner: Uid) -> list[CachedObject]:
        """Return the objects that reference ``owner`` as an owner, by uid."""
        return [self._entries[uid] for uid in sorted(self._dependents.get(owner, ()))]

    def in_namespace(self, namespace: str) -> list[CachedObject]:
        return [self._entries[uid] for uid in sorted(self._by_namespace.get(namespace, ()))]

    def __iter__(self) -> Iterator[CachedObject]:
        return iter(list(self._entries.values()))

    def kind_of(self, owner: OwnerReference) -> Resource[PartialObjectMetadata] | None:
        """Return the kind of an owner, in whatever version the reference names."""
        return self._kind_by_name.get((owner.api_version.rpartition("/")[0], owner.kind))

    def subscribe(self, on_change: Callable[[Change[CachedObject]], None]) -> None:
        """Call ``on_change`` for every change of an object of any kind."""
        self._subscribers.append(on_change)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            self._reconciler.enqueue(DISCOVERY_KEY)
            tasks.create_task(self._reconciler.run())
            await self._discovered.wait()
            for informer, _ in list(self._watches.values()):
                await informer.synced.wait()
            self.synced.set()

    async def _rediscover(self, _: Key) -> float | None:
        self.kinds = await discover(self._client)
        self._kind_by_name = {(kind.group, kind.kind): kind for kind in reversed(self.kinds)}
        watched = {kind for kind in self.kinds if (kind.group, kind.plural) not in UNWATCHED}
        for kind in [kind for kind in self._watches if kind not in watched]:
            self._watches.pop(kind)[1].cancel()
            for entry in self:
                if entry.resource == kind:
                    self._replace(entry, None)
        assert self._tasks is not None, "discovery runs within run()"
        for kind in watched - self._watches.keys():
            informer = Informer(self._client, kind)
            informer.subscribe(self._on_change_of(kind))
            self._watches[kind] = (informer, start_task(self._tasks, informer.run()))
        self._discovered.set()
        return self._clock.now() + REDISCOVER_S if self._misses_recent_crd() else None

    def _misses_recent_crd(self) -> bool:
        """Return True if a recent CRD's kind is missing in the discovery documents."""
        listed = {f"{kind.plural}.{kind.group}" for kind in self.kinds}
        recent = self._clock.now() - DISCOVERY_DELAY_S
        return any(
            definition.metadata.name not in listed
            and definition.metadata.creation_timestamp is not None
            and epoch(definition.metadata.creation_timestamp) > recent
            for kind, (definitions, _) in self._watches.items()
            if (kind.group, kind.plural) == DEFINITIONS
            for definition in definitions
        )

    def _on_change_of(
        self, kind: Resource[PartialObjectMetadata]
    ) -> Callable[[Change[PartialObjectMetadata]], None]:
        def on_change(change: Change[PartialObjectMetadata]) -> None:
            old = CachedObject(kind, change.old.metadata) if change.old else None
            new = CachedObject(kind, change.new.metadata) if change.new else None
            self._replace(old, new)
            if (kind.group, kind.plural) == DEFINITIONS:
                self._reconciler.enqueue(DISCOVERY_KEY)

        return on_change

    def _replace(self, old: CachedObject | None, new: CachedObject | None) -> None:
        if old is not None:
            self._entries.pop(old.uid, None)
            _unlink(self._by_namespace, old.metadata.namespace, old.uid)
            for owner in old.metadata.owner_references:
                _unlink(self._dependents, owner.uid, old.uid)
        if new is not None:
            self._entries[new.uid] = new
            self._by_namespace.setdefault(new.metadata.namespace, set()).add(new.uid)
            for owner in new.metadata.owner_references:
                self._dependents.setdefault(owner.uid, set()).add(new.uid)
        for on_change in self._subscribers:
            on_change(Change(old, new))


def _unlink(index: dict[str, set[Uid]] | dict[Uid, set[Uid]], key: str, uid: Uid) -> None:
    members = index.get(Uid(key), set())
    members.discard(uid)
    if not members:
        index.pop(Uid(key), None)
