"""Local clusters that stories use one after another: a start takes half of the processor time of a story.

``run`` is ``asyncio.run`` in an event loop that keeps its clusters.  A cluster is the API server, the
built-in controllers and the witness; nodes, clients and our controllers belong to one story.  After a story
that succeeded the objects of the cluster become those of its start again.  After any other story the loop
and all its clusters end.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from threading import Lock
from typing import Any, Final, TypeVar

from quorate.kube.rest.config import RestConfig
from quorate.local.server.storage.store import Entry, Key, StaleRevision
from tests.local.clusters import RestorableStore
from tests.witnessed import Witnessed

T = TypeVar("T")

MOST_IDLE: Final = 8  # clusters of a loop: as many as one test uses at a time
IDLE_S: Final = 30.0  # less than the time after which servers and clients close idle connections
QUIET_S: Final = 0.1  # without a write: the controllers have nothing left to do
QUIET_AT_START_S: Final = 0.3  # the controllers list all kinds before their first write
MOST_ATTEMPTS: Final = 6
STARTED_WITHIN_S: Final = 60.0


@dataclass(frozen=True)
class StartedCluster:
    config: RestConfig
    witnessed: Witnessed
    store: RestorableStore | None  # None: of another server, which is not shared


Start = Callable[[], AbstractAsyncContextManager[StartedCluster]]


@dataclass
class _SharedCluster:
    name: Hashable
    cluster: StartedCluster
    store: RestorableStore
    objects: dict[Key, Entry]  # of the start
    running: AsyncExitStack
    last_used: float = 0.0

    async def restore(self) -> bool:
        """Return True once the objects are those of the start and the controllers leave them alone."""
        for _ in range(MOST_ATTEMPTS):
            if not await self._write_differences():
                self.last_used = time.monotonic()
                return True
            await _until_quiet(self.store)
        return False

    async def _write_differences(self) -> bool:
        """Return False if there is no difference."""
        writes: list[Coroutine[Any, Any, object]] = []
        current = self.store.objects()
        writes += [
            self.store.delete(key, entry.revision)
            for key, entry in current.items()
            if key not in self.objects
        ]
        for key, entry in self.objects.items():
            if key not in current:
                writes.append(self.store.create(key, entry.decode()))
            elif current[key].revision == entry.revision:
                continue
            elif _uid(current[key]) == _uid(entry):
                writes.append(self.store.update(key, entry.decode(), current[key].revision))
            else:  # another object of this name: the next attempt creates the first one again
                writes.append(self.store.delete(key, current[key].revision))
        for outcome in await asyncio.gather(*writes, return_exceptions=True):
            if isinstance(outcome, Entry):
                self.objects[outcome.key] = outcome
            elif isinstance(outcome, BaseException) and not isinstance(outcome, StaleRevision):
                raise outcome
        return bool(writes)


def _uid(entry: Entry) -> str:
    return str(entry.decode()["metadata"].get("uid", ""))


async def _until_started(store: RestorableStore) -> None:
    """Return once the controllers have created what every cluster has."""
    async with asyncio.timeout(STARTED_WITHIN_S):
        while len(store.entries("serviceaccounts")) < len(store.entries("namespaces")):
            await store.changed("serviceaccounts").wait()
    await _until_quiet(store, QUIET_AT_START_S)


async def _until_quiet(store: RestorableStore, quiet_s: float = QUIET_S) -> None:
    revision = -1
    while store.revision != revision:
        revision = store.revision
        await asyncio.sleep(quiet_s)
        await store.written()


@dataclass
class _Loop:
    runner: asyncio.Runner = field(default_factory=asyncio.Runner)
    idle: list[_SharedCluster] = field(default_factory=list)

    def close(self) -> None:
        with self.runner:
            self.runner.run(self._end())

    async def _end(self) -> None:
        for shared in self.idle:
            await shared.running.aclose()

    async def take(self, name: Hashable, start: Start) -> _SharedCluster:
        """Return an idle cluster with this name, or a new one."""
        oldest = time.monotonic() - IDLE_S
        while self.idle and (self.idle[0].last_used < oldest or len(self.idle) > MOST_IDLE):
            await self.idle.pop(0).running.aclose()
        for shared in self.idle:
            if shared.name == name:
                self.idle.remove(shared)
                shared.cluster.witnessed.forget()
                return shared
        async with AsyncExitStack() as stack:
            cluster = await stack.enter_async_context(start())
            assert cluster.store is not None
            await _until_started(cluster.store)
            return _SharedCluster(name, cluster, cluster.store, cluster.store.objects(), stack.pop_all())


_loops: Final[list[_Loop]] = []  # without a story
_running: Final[dict[asyncio.AbstractEventLoop, _Loop]] = {}
_lock: Final = Lock()  # stories run in several threads


def run(story: Coroutine[Any, Any, T]) -> T:
    with _lock:
        loop = _loops.pop() if _loops else _Loop()
        events = loop.runner.get_loop()
        _running[events] = loop
    try:
        result = loop.runner.run(story)
    except BaseException:
        loop.close()
        raise
    else:
        with _lock:
            _loops.append(loop)
        return result
    finally:
        with _lock:
            del _running[events]


def end_all() -> None:
    """End the clusters of all loops without a story."""
    while _loops:
        _loops.pop().close()


@asynccontextmanager
async def shared_cluster(name: Hashable, start: Start) -> AsyncIterator[StartedCluster]:
    """Use a cluster with this name that another story in this loop has left, or ``start`` one.

    A loop that ``run`` did not make has no such clusters.
    """
    loop = _running.get(asyncio.get_running_loop())
    if loop is None:
        async with start() as cluster:
            yield cluster
        return
    shared = await loop.take(name, start)
    is_restored = False
    try:
        yield shared.cluster
        is_restored = await shared.restore()
    finally:
        if is_restored:
            loop.idle.append(shared)
        else:
            await shared.running.aclose()
