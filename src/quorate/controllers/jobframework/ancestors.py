"""Ancestors of jobs: jobs that create jobs.

Kueue's rule: the topmost managed job in the chain of controllers manages all its descendants, which get no
workload of their own.  The chain leads through kinds that are queued here, through kinds that another
controller queues according to the configuration, and through intermediate kinds: frameworks that are not
enabled, and ReplicaSets.  A StatefulSet may also be owned by a pod: LeaderWorkerSets make workers of leaders.
Any other kind ends the chain, also the pod that creates a Job: its own job does not count the pods of that.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from quorate.api.configuration.integrations import ExternalFramework
from quorate.api.meta import Key, ObjectMeta, OwnerReference, Struct, Uid
from quorate.controllers.jobframework.construct_workload import queue_name_of
from quorate.controllers.jobframework.interface import JobObject
from quorate.controllers.limits import MAX_DEPTH, MAX_REMEMBERED_OWNERS
from quorate.kube.client import Client
from quorate.kube.discovery import plural_of
from quorate.kube.resources import PODS, Resource

Find = Callable[[Key], JobObject | None]
_KindName = tuple[str, str]  # apiVersion and kind
_STATEFUL_SET: Final[_KindName] = ("apps/v1", "StatefulSet")
_POD: Final[_KindName] = ("v1", "Pod")


class Owner(Struct):
    """An object of any kind in the chain; only its metadata is read."""

    metadata: ObjectMeta


@dataclass(frozen=True, slots=True)
class OwnerNotFound:
    """An owner of a known kind that does not exist, or does not exist yet."""

    owner: OwnerReference


@dataclass(frozen=True, slots=True)
class BrokenOwnerChain:
    """A circular or too long chain of owners; nothing is decided about its first object."""

    problem: str
    circular: bool


class AncestorFinder:
    def __init__(
        self,
        client: Client,
        queued: Iterable[Resource[Any]],
        intermediate_kinds: Iterable[Resource[Any]],
        external: Iterable[ExternalFramework],
        manage_jobs_without_queue_name: bool,
    ) -> None:
        """``intermediate_kinds``: kinds that can own jobs but are not managed themselves."""
        self._client = client
        self._queued = _by_name(queued)
        self._intermediate_kinds = _by_name(intermediate_kinds)
        self._external = {(framework.api_version, framework.kind): framework for framework in external}
        self._finders: dict[_KindName, Find] = {}  # of the kinds with an informer
        self._looked_up: dict[_KindName, Resource[Owner]] = {}  # kinds without an informer
        self._remembered: OrderedDict[Uid, ObjectMeta] = (
            OrderedDict()
        )  # of the intermediate objects looked up last
        self._manage_all = manage_jobs_without_queue_name

    def add(self, resource: Resource[Any], find: Find) -> None:
        """Look up jobs of this kind in a cache from now on, not at the API server."""
        self._finders[resource.api_version, resource.kind] = find

    def is_owned_by_queued_kind(self, metadata: ObjectMeta) -> bool:
        """Return True if the controller of an object is of a kind that is queued, here or elsewhere."""
        return metadata.controller is not None and self._is_managed(_kind_of(metadata.controller))

    async def managing_ancestor(
        self, metadata: ObjectMeta, resource: Resource[Any] | None = None
    ) -> Uid | OwnerNotFound | BrokenOwnerChain | None:
        """Return the uid of the topmost managed ancestor of an object; None if there is none.

        ``resource`` is the kind of the object; it matters only for StatefulSets.
        """
        topmost: Uid | None = None
        visited = {metadata.uid}
        kind = None if resource is None else (resource.api_version, resource.kind)
        for _ in range(MAX_DEPTH):
            owner = metadata.controller
            if owner is None or not self._continues(kind, _kind_of(owner)):
                return topmost
            ancestor = await self._find(owner, metadata.namespace)
            if ancestor is None:
                return OwnerNotFound(owner)
            if ancestor.uid != owner.uid:
                return topmost  # the owner was deleted; another object has its name
            if ancestor.uid in visited:
                return BrokenOwnerChain(
                    f"its owners form a circle through {owner.kind} {owner.name}", circular=True
                )
            visited.add(ancestor.uid)
            metadata, kind = ancestor, _kind_of(owner)
            if self._is_managed(_kind_of(owner)) and (self._manage_all or queue_name_of(metadata)):
                topmost = metadata.uid
        owner = metadata.controller
        if owner is None or not self._continues(kind, _kind_of(owner)):
            return topmost
        text = f"Terminated search for Kueue-managed Job because ancestor depth exceeded limit of {MAX_DEPTH}"
        return BrokenOwnerChain(text, circular=False)

    def _is_managed(self, kind: _KindName) -> bool:
        return kind in self._queued or kind in self._external

    def _continues(self, child: _KindName | None, owner: _KindName) -> bool:
        """Return True if the chain leads from an object of the kind ``child`` to an ``owner``."""
        is_worker = (child, owner) == (_STATEFUL_SET, _POD)
        return is_worker or self._is_managed(owner) or owner in self._intermediate_kinds

    async def _find(self, owner: OwnerReference, namespace: str) -> ObjectMeta | None:
        kind, key = _kind_of(owner), Key(namespace, owner.name)
        if (find := self._finders.get(kind)) is not None:
            cached = find(key)
            return None if cached is None else cached.metadata
        if (visited := self._remembered.get(owner.uid)) is not None:
            return visited
        resource = await self._resource(kind)
        if resource is None:
            return None
        stored: Owner | None = await self._client.find(resource, key)
        if stored is None:
            return None
        if kind in self._intermediate_kinds or kind == _POD:
            self._remember(stored.metadata)
        return stored.metadata

    def _remember(self, visited: ObjectMeta) -> None:
        """Keep the owner of an intermediate object, which may have many pods."""
        lean = ObjectMeta(name=visited.name, namespace=visited.namespace, uid=visited.uid)
        owner = visited.controller
        if owner is not None:
            lean = msgspec.structs.replace(lean, owner_references=(owner,))
        self._remembered[visited.uid] = lean
        if len(self._remembered) > MAX_REMEMBERED_OWNERS:
            self._remembered.popitem(last=False)

    async def _resource(self, kind: _KindName) -> Resource[Owner] | None:
        """Return the resource of a kind without an informer; None: it is not served (yet)."""
        if kind not in self._looked_up:
            queued = self._queued.get(kind) or self._intermediate_kinds.get(kind)
            queued = PODS if kind == _POD else queued
            plural = await plural_of(self._client, *kind) if queued is None else queued.plural
            if not plural:
                return None
            group, _, version = kind[0].rpartition("/")
            self._looked_up[kind] = Resource(group, version, plural, kind[1], True, Owner)
        return self._looked_up[kind]


def _by_name(resources: Iterable[Resource[Any]]) -> Mapping[_KindName, Resource[Any]]:
    return {(resource.api_version, resource.kind): resource for resource in resources}


def _kind_of(owner: OwnerReference) -> _KindName:
    return (owner.api_version, owner.kind)
