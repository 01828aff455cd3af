"""The informer: a cache of all objects of one kind, kept up to date by a list and a watch.

``run`` lists, then watches from the version of the list.  A watch that breaks or ends is resumed at the last
version; when that version is no longer kept, a new list is compared with the cache, so that no final state is
missed, deletions included (intermediate states are).

Subscribers are called synchronously in order of subscription, after the cache is updated.  A subscriber that
raises ends ``run`` with its exception: a model that missed a change is wrong and must be rebuilt.  An object
that cannot be decoded into its type is logged and treated as absent, because nothing can be decided about it.
"""

import asyncio
from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Generic

import msgspec

from quorate.api.interning import share_unchanged_metadata
from quorate.api.meta import Key
from quorate.kube.client import Client
from quorate.kube.errors import ApiError, Gone, Unreachable, Unreadable
from quorate.kube.flowcontrol import Backoff
from quorate.kube.log import logger
from quorate.kube.resources import Resource, T, metadata_of
from quorate.kube.rest.decoding import Bookmark, UndecodableObject, WatchEvent

RECONNECT = Backoff(first_s=0.1, cap_s=10.0)
STABLE_S = 5.0  # a watch of this length resets the backoff, even without events


class Change(msgspec.Struct, Generic[T], frozen=True):
    """One object before and after; None means absent.  Not both are None."""

    old: T | None
    new: T | None

    @property
    def key(self) -> Key:
        known = self.new if self.new is not None else self.old
        assert known is not None, "a change from nothing to nothing"
        return metadata_of(known).key


class Informer(Generic[T]):
    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        *,
        reconnect: Backoff = RECONNECT,
    ) -> None:
        self.resource = resource
        self.synced = asyncio.Event()  # set once subscribers have seen the first list
        self._client = client
        self._scope = (namespace, label_selector, field_selector)
        self._reconnect = reconnect
        self._failures = 0  # consecutive lists and watches without an event
        self._objects: dict[Key, T] = {}
        self._indexes: dict[str, _Index[T]] = {}
        self._subscribers: list[Callable[[Change[T]], None]] = []
        self._undecodable_subscribers: list[Callable[[UndecodableObject], None]] = []
        self._version = ""  # the version of the cache; "" when a list is required
        self._log = logger(__name__).bind(resource=resource.plural)

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        """Iterate in key order, which costs O(n log n), so that decisions are deterministic."""
        return iter([self._objects[key] for key in sorted(self._objects)])

    def add_index(self, name: str, values_of: Callable[[T], Iterable[Hashable]]) -> None:
        """Index the objects by each value of ``values_of(object)``, for ``by_index(name, value)``."""
        assert name not in self._indexes, f"index {name} of {self.resource.plural} exists"
        index = self._indexes[name] = _Index(values_of)
        for key, obj in self._objects.items():
            index.update(key, None, obj)

    def by_index(self, name: str, value: Hashable) -> list[T]:
        """Return the objects with that value in key order."""
        return [self._objects[key] for key in sorted(self._indexes[name].keys(value))]

    def subscribe(self, on_change: Callable[[Change[T]], None]) -> None:
        """Call ``on_change`` now with each cached object, and from now on with every change."""
        self._subscribers.append(on_change)
        for obj in self:
            on_change(Change(None, obj))

    def subscribe_undecodable(self, on_undecodable: Callable[[UndecodableObject], None]) -> None:
        """Call ``on_undecodable`` from now on with each object that cannot be decoded."""
        self._undecodable_subscribers.append(on_undecodable)

    async def run(self) -> None:
        """Keep the cache up to date until cancelled or until a subscriber raises."""
        clock = asyncio.get_running_loop().time
        while True:
            began = clock()
            problem = ""
            try:
                if not self._version:
                    await self._relist()
                await self._watch()
            except Gone:
                self._version = ""
            except Unreadable as error:
                self._version = ""  # the event is lost: compare with a list
                problem = str(error)
            except (ApiError, Unreachable) as error:
                problem = str(error)
            if clock() - began >= STABLE_S:
                self._failures = 0
            self._failures += 1
            if problem:
                self._log.warning("list or watch failed", problem=problem, failures=self._failures)
            if problem or self._failures > 1:
                await asyncio.sleep(self._reconnect.jittered_s(self._failures, self._client.rng))

    async def _relist(self) -> None:
        listing = await self._client.list(self.resource, *self._scope)
        for undecodable in listing.undecodable:
            self._report(undecodable)
        present = {metadata_of(obj).key: obj for obj in listing.items}
        for key in sorted(self._objects.keys() - present.keys()):
            self._put(key, None)
        for key, obj in present.items():
            self._put(key, obj)
        self._version = listing.resource_version
        if not self.synced.is_set():
            self._log.debug("synced", objects=len(self._objects))
            self.synced.set()

    async def _watch(self) -> None:
        async for event in self._client.watch(self.resource, self._version, *self._scope):
            self._failures = 0
            match event:
                case Bookmark(resource_version):
                    self._version = resource_version
                case UndecodableObject(key, resource_version):
                    self._report(event)
                    self._put(key, None)
                    self._version = resource_version
                case WatchEvent(type_, obj):
                    metadata = metadata_of(obj)
                    self._put(metadata.key, None if type_ == "DELETED" else obj)
                    self._version = metadata.resource_version

    def _put(self, key: Key, new: T | None) -> None:
        """Store ``new`` as the object of ``key``, and notify subscribers if it changed."""
        old = self._objects.get(key)
        if old is not None and new is not None:
            before, after = metadata_of(old), metadata_of(new)
            if before.uid != after.uid:  # deleted and created again, both unseen
                self._put(key, None)
                old = None
            elif before.resource_version == after.resource_version:
                return
            else:
                share_unchanged_metadata(before, after)
        if old is None and new is None:
            return
        if new is None:
            del self._objects[key]
        else:
            self._objects[key] = new
        for index in self._indexes.values():
            index.update(key, old, new)
        change = Change(old, new)
        for on_change in self._subscribers:
            try:
                on_change(change)
            except Exception as error:
                error.add_note(f"in {on_change}, for a change of {self.resource.plural} {key}")
                raise

    def _report(self, undecodable: UndecodableObject) -> None:
        self._log.error(
            "object ignored: it cannot be decoded", key=undecodable.key, problem=undecodable.problem
        )
        for on_undecodable in self._undecodable_subscribers:
            on_undecodable(undecodable)


class _Index(Generic[T]):
    def __init__(self, values_of: Callable[[T], Iterable[Hashable]]) -> None:
        self._values_of = values_of
        self._keys: dict[Hashable, set[Key]] = {}  # no set is empty

    def keys(self, value: Hashable) -> Iterable[Key]:
        return self._keys.get(value, ())

    def update(self, key: Key, old: T | None, new: T | None) -> None:
        before = set(self._values_of(old)) if old is not None else set()
        after = set(self._values_of(new)) if new is not None else set()
        for value in before - after:
            self._keys[value].discard(key)
            if not self._keys[value]:
                del self._keys[value]
        for value in after - before:
            self._keys.setdefault(value, set()).add(key)
