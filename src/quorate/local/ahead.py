"""Reading one's own writes.

A watch is always a little behind.  A controller that has just created ten pods and looks again at once would
see none of them, and create ten more.  So the answers to its writes are kept until the watch has come as far.
"""

from collections.abc import Callable, Hashable
from heapq import heappop, heappush
from typing import Generic

from quorate.api.meta import Key
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import T, metadata_of


class Ahead(Generic[T]):
    """The objects of an informer, or as our own writes left them where those are newer.

    Relies on versions that are numbers in the order of the writes, as the API has promised since 1.35.
    """

    def __init__(self, informer: Informer[T], group_of: Callable[[T], Hashable]) -> None:
        self._informer = informer
        self._group_of = group_of
        # By key, objects newer than all that the watch has shown.
        self._newer: dict[Key, T] = {}
        # The versions in _newer, and some that have left it; the smallest first.
        self._versions: list[tuple[int, Key]] = []
        informer.add_index("group", lambda obj: (group_of(obj),))
        informer.subscribe(self._catch_up)

    def get(self, key: Key) -> T | None:
        return self._newer[key] if key in self._newer else self._informer.get(key)

    def group(self, value: Hashable) -> list[T]:
        """The objects of one group, by key."""
        members = {metadata_of(obj).key: obj for obj in self._informer.by_index("group", value)}
        for key, obj in self._newer.items():
            members.pop(key, None)
            if self._group_of(obj) == value:
                members[key] = obj
        return [members[key] for key in sorted(members)]

    def put(self, written: T) -> None:
        """Keep what the server answered to a write."""
        metadata = metadata_of(written)
        version = int(metadata.resource_version)
        for known in (self._informer.get(metadata.key), self._newer.get(metadata.key)):
            if known is not None and int(metadata_of(known).resource_version) >= version:
                return
        self._newer[metadata.key] = written
        heappush(self._versions, (version, metadata.key))

    def _catch_up(self, change: Change[T]) -> None:
        shown = change.new if change.new is not None else change.old
        assert shown is not None, "a change of nothing"
        seen = int(metadata_of(shown).resource_version)
        while self._versions and self._versions[0][0] <= seen:
            version, key = heappop(self._versions)
            newer = self._newer.get(key)
            if newer is not None and int(metadata_of(newer).resource_version) <= version:
                del self._newer[key]
