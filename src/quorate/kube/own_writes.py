"""The writes of one client to each object: at most one is in flight, and its result is known at once.

Two writes decided on one version exclude each other: the server refuses the write that arrives second.  If
both are ours, the order of arrival must not decide which of them is lost.  So the writes to an object take
turns, first come, first served, and a writer that can decide anew on the result of the write before it, finds
it here, also before a watch delivers it.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from quorate.api.meta import Key, ObjectMeta, is_older
from quorate.kube.resources import HasMetadata, Resource

Known = TypeVar("Known", bound=HasMetadata)
_Object = tuple[str, str, Key]  # group and plural of its kind, and its key


class OwnWrites:
    def __init__(self) -> None:
        # Objects with a write in flight, and the turns that wait for its end, in order.
        self._waiting: dict[_Object, list[asyncio.Future[None]]] = {}
        # The caches of the kinds of which the stored objects are kept.
        self._kept: dict[Resource[Any], Callable[[Key], HasMetadata | None]] = {}
        self._stored: dict[_Object, HasMetadata] = {}  # by our last write, until a watch delivers it

    @asynccontextmanager
    async def turn(self, resource: Resource[Any], key: Key) -> AsyncIterator[None]:
        """Enter when no other write to the object is in flight."""
        name = _name(resource, key)
        waiting = self._waiting.get(name)
        if waiting is None:
            self._waiting[name] = []
        else:
            mine = asyncio.get_running_loop().create_future()
            waiting.append(mine)
            try:
                await mine
            except asyncio.CancelledError:
                if not mine.cancelled():
                    self._end_turn(name)  # it was this turn when it was cancelled
                raise
        try:
            yield
        finally:
            self._end_turn(name)

    def _end_turn(self, name: _Object) -> None:
        waiting = self._waiting[name]
        while waiting:
            following = waiting.pop(0)
            if not following.done():
                following.set_result(None)
                return
        del self._waiting[name]

    def keep(
        self, resource: Resource[Any], cached: Callable[[Key], HasMetadata | None]
    ) -> Callable[[HasMetadata | None, Key], None]:
        """Keep what is stored of a kind from now on; return the function to call at each delivered change.

        ``cached`` returns an object as the watch has delivered it, which may be before the write is answered.
        """
        self._kept[resource] = cached

        def delivered(newest: HasMetadata | None, key: Key) -> None:
            name = _name(resource, key)
            stored = self._stored.get(name)
            if stored is not None and (newest is None or not is_older(newest.metadata, stored.metadata)):
                del self._stored[name]

        return delivered

    def record(self, resource: Resource[Any], key: Key, stored: HasMetadata) -> None:
        """Record the object as the write of this turn has stored it."""
        if resource in self._kept:
            delivered = self._kept[resource](key)
            if delivered is None or is_older(delivered.metadata, stored.metadata):
                self._stored[_name(resource, key)] = stored

    def newest(self, resource: Resource[Any], cached: Known) -> Known:
        """Return the object as our last write stored it, or ``cached`` if that is not older."""
        stored: Any = self._stored.get(_name(resource, cached.metadata.key))
        return stored if stored is not None and is_older(cached.metadata, stored.metadata) else cached

    def has_replaced(self, resource: Resource[Any], key: Key, version: str) -> bool:
        """Return True if our last write replaced ``version``, which no further write can expect."""
        stored = self._stored.get(_name(resource, key))
        return stored is not None and is_older(ObjectMeta(resource_version=version), stored.metadata)


def _name(resource: Resource[Any], key: Key) -> _Object:
    return (resource.group, resource.plural, key)
