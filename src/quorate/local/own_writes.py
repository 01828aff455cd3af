"""An informer cache that includes the results of our own writes.

A watch lags behind.  A controller that just created ten pods and reconciles again would not see them, and
would create ten more.  Like client-go's MutationCache, this cache keeps the server's answers to writes
until the watch has delivered them.  ``kube.controller.expectations`` differs: it delays a decision until
the watch has caught up, and needs no results of writes.
"""

from collections.abc import Callable, Hashable, Iterable
from heapq import heappop, heappush
from typing import Generic, Protocol

from quorate.api.meta import Key
from quorate.kube.informer import Change
from quorate.kube.resources import T, metadata_of


class IndexedCache(Protocol[T]):
    """The methods of an informer that ``MutationCache`` uses."""

    def get(self, key: Key) -> T | None: ...
    def add_index(self, name: str, values_of: Callable[[T], Iterable[Hashable]]) -> None: ...
    def by_index(self, name: str, value: Hashable) -> list[T]: ...
    def subscribe(self, on_change: Callable[[Change[T]], None]) -> None: ...


class MutationCache(Generic[T]):
    """The objects of a cache, or newer versions of them from our own writes.

    Resource versions must be numbers in the order of the writes, which the API guarantees since 1.35.
    """

    def __init__(
        self, cache: IndexedCache[T], group_of: Callable[[T], Hashable], index: str = "group"
    ) -> None:
        """``index``: a name that no other index of ``cache`` has."""
        self._cache = cache
        self._group_of = group_of
        self._index = index
        # Versions from our own writes that are newer than any version the watch has delivered, by key.
        self._newer: dict[Key, T] = {}
        # A heap of the versions in _newer, and some that were removed from it.
        self._versions: list[tuple[int, Key]] = []
        self._observed_version = 0  # newest version of any object that the watch has delivered
        cache.add_index(index, lambda obj: (group_of(obj),))
        cache.subscribe(self._on_change)

    def get(self, key: Key) -> T | None:
        return self._newer[key] if key in self._newer else self._cache.get(key)

    def by_group(self, value: Hashable) -> list[T]:
        """Return the objects of one group, sorted by key."""
        members = {metadata_of(obj).key: obj for obj in self._cache.by_index(self._index, value)}
        for key, obj in self._newer.items():
            members.pop(key, None)
            if self._group_of(obj) == value:
                members[key] = obj
        return [members[key] for key in sorted(members)]

    def record(self, written: T) -> None:
        """Keep the server's answer to a write unless the watch has delivered it.

        An object that was deleted and has no finalizers is not kept: the watch delivers its deletion, not
        this last version.
        """
        metadata = metadata_of(written)
        version = int(metadata.resource_version)
        if version <= self._observed_version or (metadata.deletion_timestamp and not metadata.finalizers):
            return
        self._newer[metadata.key] = written
        heappush(self._versions, (version, metadata.key))

    def _on_change(self, change: Change[T]) -> None:
        if change.new is None:
            assert change.old is not None, "a change of nothing"
            self._newer.pop(metadata_of(change.old).key, None)
            return
        self._observed_version = max(self._observed_version, int(metadata_of(change.new).resource_version))
        while self._versions and self._versions[0][0] <= self._observed_version:
            version, key = heappop(self._versions)
            newer = self._newer.get(key)
            if newer is not None and int(metadata_of(newer).resource_version) <= version:
                del self._newer[key]
