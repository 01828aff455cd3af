"""Reading one's own writes.

A watch is always a little behind.  A controller that has just created ten pods and looks again at once would
see none of them, and create ten more.  So the answers to its writes are kept until the watch has come as far.
"""

from collections.abc import Callable, Hashable, Iterable
from heapq import heappop, heappush
from typing import Generic, Protocol

from quorate.api.meta import Key
from quorate.kube.informer import Change
from quorate.kube.resources import T, metadata_of


class IndexedCache(Protocol[T]):
    """What is needed of an informer."""

    def get(self, key: Key) -> T | None: ...
    def add_index(self, name: str, values_of: Callable[[T], Iterable[Hashable]]) -> None: ...
    def by_index(self, name: str, value: Hashable) -> list[T]: ...
    def subscribe(self, on_change: Callable[[Change[T]], None]) -> None: ...


class MutationCache(Generic[T]):
    """The objects of a cache, or as our own writes left them where those are newer.

    Relies on versions that are numbers in the order of the writes, as the API has promised since 1.35.
    """

    def __init__(self, cache: IndexedCache[T], group_of: Callable[[T], Hashable]) -> None:
        self._cache = cache
        self._group_of = group_of
        # By key, objects newer than all that the watch has shown.
        self._newer: dict[Key, T] = {}
        # The versions in _newer, and some that have left it; the smallest first.
        self._versions: list[tuple[int, Key]] = []
        self._seen = 0  # the newest version the watch has shown, of any object
        cache.add_index("group", lambda obj: (group_of(obj),))
        cache.subscribe(self._catch_up)

    def get(self, key: Key) -> T | None:
        return self._newer[key] if key in self._newer else self._cache.get(key)

    def by_group(self, value: Hashable) -> list[T]:
        """The objects of one group, by key."""
        members = {metadata_of(obj).key: obj for obj in self._cache.by_index("group", value)}
        for key, obj in self._newer.items():
            members.pop(key, None)
            if self._group_of(obj) == value:
                members[key] = obj
        return [members[key] for key in sorted(members)]

    def record(self, written: T) -> None:
        """Keep what the server answered to a write, unless the watch has shown it already.

        An object that is only waiting to be removed is not kept: the watch shows no such last version, it
        shows that the object is gone.
        """
        metadata = metadata_of(written)
        version = int(metadata.resource_version)
        if version <= self._seen or (metadata.deletion_timestamp and not metadata.finalizers):
            return
        self._newer[metadata.key] = written
        heappush(self._versions, (version, metadata.key))

    def _catch_up(self, change: Change[T]) -> None:
        if change.new is None:
            assert change.old is not None, "a change of nothing"
            self._newer.pop(metadata_of(change.old).key, None)
            return
        self._seen = max(self._seen, int(metadata_of(change.new).resource_version))
        while self._versions and self._versions[0][0] <= self._seen:
            version, key = heappop(self._versions)
            newer = self._newer.get(key)
            if newer is not None and int(metadata_of(newer).resource_version) <= version:
                del self._newer[key]
