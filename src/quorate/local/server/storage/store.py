"""The object store: a log of revisions in SQLite, and the latest state of every object in memory.

Each committed write gets the next revision, which is also the resourceVersion of the object.  The log keeps
the latest revision of each object and all changes since the last compaction, so a watch or a list can start
in the past, also after a restart.

Writes are checked one after another against the latest state (compare-and-swap on the revision), committed
in groups by one thread, and published to readers and watches only after SQLite has committed them.
"""

import asyncio
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

import msgspec

from quorate.api.codec import Json
from quorate.kube.cancellation import end_tasks
from quorate.kube.log import logger
from quorate.local.objects.nesting import MAX_DEPTH, exceeds_depth
from quorate.local.server.storage.database import Database, StorageFailed

T = TypeVar("T")


class Key(NamedTuple):
    """Resource (``jobs.batch``), namespace (empty if cluster-scoped) and name of an object."""

    resource: str
    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One revision of an object, encoded once for all readers."""

    key: Key
    revision: int
    data: bytes
    """JSON without apiVersion and kind, which depend on the requested version."""
    labels: dict[str, str]

    def decode(self) -> Json:
        """Return a copy of the object that the caller may change."""
        decoded: Json = msgspec.json.decode(self.data)
        return decoded


@dataclass(frozen=True, slots=True)
class Change:
    """What a revision did to its object: created (no old), updated, or deleted (no new)."""

    revision: int
    key: Key
    old: Entry | None
    new: Entry | None


class StaleRevision(Exception):
    """The object is no longer at the revision that the write was computed from."""

    def __init__(self, key: Key, current: Entry | None) -> None:
        super().__init__(key, current)
        self.key, self.current = key, current


class Unstorable(Exception):
    """The object cannot be stored: it has no JSON form, or nests too deeply."""


MAX_OBJECT_BYTES = 1536 * 1024
"""the default limit of etcd"""


HISTORY_BYTES = 64 * 2**20
LEAST_HISTORY = 100  # changes that the log keeps whatever their size
REPORTED_MAX: Final = 10_000  # objects with a logged fault; beyond, the oldest is forgotten


class TooLarge(Exception):
    """The object is larger than MAX_OBJECT_BYTES."""


class RevisionCompacted(Exception):
    """The requested revision is older than the log."""

    def __init__(self, revision: int, oldest_revision: int) -> None:
        super().__init__(revision, oldest_revision)
        self.revision, self.oldest_revision = revision, oldest_revision


@dataclass(slots=True)
class _Write:
    key: Key
    object: Json | None  # None: delete
    expected_revision: int | None  # None: the object must not exist
    result: "asyncio.Future[Change]"


@dataclass(slots=True)
class _ResourceLog:
    """The latest objects of a resource, and the part of the log about them."""

    namespaces: dict[str, dict[str, Entry]] = field(default_factory=lambda: defaultdict(dict))
    changes: list[Change] = field(default_factory=list)  # by revision; none at or before the compaction
    changed: asyncio.Event = field(default_factory=asyncio.Event)  # set and replaced by each commit
    last_revision: int = 0  # the revision of the last change

    def get(self, key: Key) -> Entry | None:
        return self.namespaces[key.namespace].get(key.name) if key.namespace in self.namespaces else None

    def apply(self, change: Change) -> None:
        names = self.namespaces[change.key.namespace]
        if change.new is None:
            del names[change.key.name]
            if not names:
                del self.namespaces[change.key.namespace]
        else:
            names[change.key.name] = change.new
        self.changes.append(change)
        self.last_revision = change.revision

    def after(self, revision: int) -> list[Change]:
        return self.changes[bisect_right(self.changes, revision, key=lambda change: change.revision) :]


class Store:
    """Objects by key, with revisions, for one event loop.

    Call ``start`` before the first write and ``stop`` at the end.
    """

    def __init__(
        self, path: Path | str, min_history: int = 10_000, history_bytes: int = HISTORY_BYTES
    ) -> None:
        """``path``: the database file, or ":memory:".

        ``min_history``: the number of changes that the log keeps, or fewer if their objects exceed
        ``history_bytes``.  Raises DatabaseUnusable.
        """
        self._min_history = min_history
        self._max_history_bytes = history_bytes
        self._history_bytes = 0  # of the new objects of _history
        self._resources: dict[str, _ResourceLog] = defaultdict(_ResourceLog)
        self._history: list[Change] = []  # all changes in memory, by revision
        self._compacted_revision = 0  # the last revision with a compacted change
        self.revision = 0  # the latest revision that readers see
        self._reported: dict[tuple[Key, str], int] = {}  # the revision with the last logged fault, by part
        self._write_queue: asyncio.Queue[_Write] = asyncio.Queue()
        self._commit_task: asyncio.Task[None] | None = None
        with ExitStack() as on_failure:
            self._database = Database(path)
            on_failure.callback(self._database.close)
            self._load_rows()
            self._database.open_record(self.revision)
            on_failure.pop_all()

    async def start(self) -> None:
        self._commit_task = asyncio.create_task(self._commit_forever())

    async def stop(self) -> None:
        """Finish the pending writes and close the database."""
        if self._commit_task is not None:
            await self._write_queue.join()
            await end_tasks([self._commit_task])
        self._database.close()

    # Reads: the latest committed state, without waiting.

    @property
    def is_writable(self) -> bool:
        """False after a write that the database refused, until a write succeeds."""
        return self._database.is_writable

    @property
    def oldest_revision(self) -> int:
        """The earliest revision that reads and watches can start from."""
        return self._compacted_revision

    def get(self, key: Key) -> Entry | None:
        return self._resources[key.resource].get(key)

    def entries(self, resource: str, namespace: str = "") -> list[Entry]:
        """Return the objects of a resource, in one namespace or all, sorted by namespace and name."""
        spaces = self._resources[resource].namespaces
        if namespace:
            return [entry for _, entry in sorted(spaces[namespace].items())] if namespace in spaces else []
        return [entry for _, names in sorted(spaces.items()) for _, entry in sorted(names.items())]

    def usable(
        self, resource: str, read: Callable[[Entry], T], part: str, namespace: str = ""
    ) -> Iterator[T]:
        """Yield what ``read`` returns for each object, without the objects that it raises on.

        The objects on which ``read`` raises are logged, so that one object does not stop the ``part`` of the
        server that reads.
        """
        for entry in self.entries(resource, namespace):
            try:
                value = read(entry)
            except Exception as error:
                self.report(entry, part, error)
            else:
                yield value

    def report(self, entry: Entry, part: str, error: Exception) -> None:
        """Log, once a revision, that a part of the server cannot use an object."""
        subject = (entry.key, part)
        if self._reported.pop(subject, None) != entry.revision:
            key = "/".join(filter(None, entry.key))
            logger(__name__).fault("object cannot be used", error, object=key, part=part)
        self._reported[subject] = entry.revision
        if len(self._reported) > REPORTED_MAX:
            del self._reported[next(iter(self._reported))]

    def entries_at(self, revision: int, resource: str, namespace: str = "") -> list[Entry]:
        """Return the objects as they were at a revision.  Raises RevisionCompacted."""
        entries_then = {entry.key: entry for entry in self.entries(resource, namespace)}
        for change in reversed(self.changes(resource, revision)):
            if namespace and change.key.namespace != namespace:
                continue
            if change.old is None:
                del entries_then[change.key]
            else:
                entries_then[change.key] = change.old
        return [entry for _, entry in sorted(entries_then.items())]

    def changes(self, resource: str, after: int) -> Sequence[Change]:
        """Return the changes of a resource after a revision, in order.  Raises RevisionCompacted."""
        if after < self._compacted_revision:
            raise RevisionCompacted(after, self._compacted_revision)
        return self._resources[resource].after(after)

    def last_revision(self, resource: str) -> int:
        """Return the revision of the last change of a resource; 0 if it never had an object."""
        return self._resources[resource].last_revision

    def changed(self, resource: str) -> asyncio.Event:
        """Return an event that is set when the resource changes after this call."""
        return self._resources[resource].changed

    # Writes: each call returns when the change is durable and visible.

    async def create(self, key: Key, obj: Json) -> Entry:
        """Create an object.  Raises StaleRevision if it exists."""
        entry = (await self._write(key, obj, None)).new
        assert entry is not None
        return entry

    async def update(self, key: Key, obj: Json, expected_revision: int) -> Entry:
        """Update an object.  Raises StaleRevision if it is not at ``expected_revision``."""
        entry = (await self._write(key, obj, expected_revision)).new
        assert entry is not None
        return entry

    async def delete(self, key: Key, expected_revision: int) -> int:
        """Delete an object and return the revision.

        Raises StaleRevision if it is not at ``expected_revision``.
        """
        return (await self._write(key, None, expected_revision)).revision

    async def _write(self, key: Key, obj: Json | None, expected_revision: int | None) -> Change:
        write = _Write(key, obj, expected_revision, asyncio.get_running_loop().create_future())
        self._write_queue.put_nowait(write)
        return await write.result

    async def _commit_forever(self) -> None:
        """Commit all queued writes as one group; writes that arrive meanwhile form the next group."""
        while True:
            group = [await self._write_queue.get()]
            while not self._write_queue.empty():
                group.append(self._write_queue.get_nowait())
            await self._commit(group)
            for _ in group:
                self._write_queue.task_done()

    async def _commit(self, group: Sequence[_Write]) -> None:
        accepted, conflicts = self._assign_revisions(group)
        rows = [(c.revision, *c.key, c.new.data if c.new else None) for c, _ in accepted]
        try:
            await self._database.insert(rows)
        except StorageFailed as error:  # no write of the group took effect
            for write in group:
                _fail(write, error)
            return
        for change, write in accepted:
            self._publish(change)
            if not write.result.done():
                write.result.set_result(change)
        for write in conflicts:  # last, so that the client reads the state that caused the conflict
            _fail(write, StaleRevision(write.key, self.get(write.key)))
        for resource in {change.key.resource for change, _ in accepted}:
            changed, self._resources[resource].changed = self._resources[resource].changed, asyncio.Event()
            changed.set()
        if len(self._history) > 2 * self._min_history or self._history_bytes > 2 * self._max_history_bytes:
            await self._compact()

    def _assign_revisions(self, group: Sequence[_Write]) -> tuple[list[tuple[Change, _Write]], list[_Write]]:
        """Assign revisions to the writes of a group; return them, and the writes that conflict."""
        accepted: list[tuple[Change, _Write]] = []
        conflicts: list[_Write] = []
        newest: dict[Key, Entry | None] = {}  # written by this group, not yet visible
        revision = self.revision
        for write in group:
            old = newest.get(write.key) if write.key in newest else self.get(write.key)
            if (old.revision if old else None) != write.expected_revision:
                conflicts.append(write)
                continue
            try:
                new = _new_entry(write.key, revision + 1, write.object) if write.object is not None else None
            except TooLarge as error:
                _fail(write, error)
                continue
            except (ValueError, TypeError, OverflowError, RecursionError) as error:
                _fail(write, Unstorable(str(error)))
                continue
            revision += 1
            newest[write.key] = new
            accepted.append((Change(revision, write.key, old, new), write))
        return accepted, conflicts

    def _publish(self, change: Change) -> None:
        self._resources[change.key.resource].apply(change)
        self._history.append(change)
        self._history_bytes += _size(change)
        self.revision = change.revision

    async def _compact(self) -> None:
        """Drop all but the latest changes; the latest revision of each object stays."""
        first = self._first_kept()
        dropped, self._history = self._history[:first], self._history[first:]
        if not dropped:
            return
        self._history_bytes -= sum(map(_size, dropped))
        self._compacted_revision = dropped[-1].revision
        for resource in {change.key.resource for change in dropped}:
            self._resources[resource].changes = self._resources[resource].after(self._compacted_revision)
        # Revisions that a dropped change replaced, and deletion markers, are obsolete.
        replaced = [(change.old.revision,) for change in dropped if change.old]
        obsolete = replaced + [(change.revision,) for change in dropped if not change.new]
        await self._database.compact(self._compacted_revision, obsolete)

    def _first_kept(self) -> int:
        """Return the index of the oldest change that a compaction keeps."""
        first, size_bytes = len(self._history), 0
        while first and len(self._history) - first < self._min_history:
            size_bytes += _size(self._history[first - 1])
            if size_bytes > self._max_history_bytes and len(self._history) - first >= LEAST_HISTORY:
                break
            first -= 1
        return first

    def _load_rows(self) -> None:
        """Load the stored revisions.  Raises DatabaseUnusable."""
        rows = self._database.read_rows()
        self._compacted_revision = rows.compacted
        try:
            for revision, resource, namespace, name, data in rows.revisions:
                key = Key(resource, namespace, name)
                old = self.get(key)
                new = None if data is None else Entry(key, revision, data, _labels(msgspec.json.decode(data)))
                self._publish(Change(revision, key, old, new))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise self._database.unusable(error) from error
        self.revision = max(self.revision, self._compacted_revision)
        self._history = [change for change in self._history if change.revision > self._compacted_revision]
        self._history_bytes = sum(map(_size, self._history))
        for log in self._resources.values():
            log.changes = log.after(self._compacted_revision)


def _size(change: Change) -> int:
    return len(change.new.data) if change.new is not None else 0


class CompiledObjects(Generic[T]):
    """The objects of a resource as a part of the server uses them; each revision is compiled once."""

    def __init__(self, store: Store, resource: str, compile_object: Callable[[Json], T], part: str) -> None:
        """``compile_object``: may raise any exception for an object that the ``part`` cannot use."""
        self._store, self._resource, self._compile, self._part = store, resource, compile_object, part
        self._by_revision: dict[int, T] = {}
        self._revision = 0  # of the resource when the objects were compiled

    def all(self) -> Collection[T]:
        """Return what was compiled from each object, by name; an object that cannot be used is left out."""
        revision = self._store.last_revision(self._resource)
        if revision != self._revision:
            compiled = self._store.usable(self._resource, self._of, self._part)
            self._by_revision, self._revision = dict(compiled), revision
        return self._by_revision.values()

    def _of(self, entry: Entry) -> tuple[int, T]:
        if entry.revision in self._by_revision:
            return entry.revision, self._by_revision[entry.revision]
        return entry.revision, self._compile(entry.decode())


def with_contents(entry: Entry, obj: Json) -> Entry:
    """Return the same revision of an object with other contents."""
    return _encode_entry(entry.key, entry.revision, obj)


def _new_entry(key: Key, revision: int, obj: Json) -> Entry:
    obj["metadata"]["resourceVersion"] = str(revision)
    return _encode_entry(key, revision, obj)


def _encode_entry(key: Key, revision: int, obj: Json) -> Entry:
    body = {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}
    data = msgspec.json.encode(body)
    if len(data) > MAX_OBJECT_BYTES:
        raise TooLarge(len(data))
    if exceeds_depth(data):
        raise ValueError(f"exceeded max depth of {MAX_DEPTH}")
    return Entry(key, revision, data, _labels(obj))


def _labels(obj: Json) -> dict[str, str]:
    labels: dict[str, str] = obj["metadata"].get("labels") or {}
    return labels


def _fail(write: _Write, error: Exception) -> None:
    if not write.result.done():  # the client may have disconnected
        write.result.set_exception(error)


async def first_of(events: Iterable[asyncio.Event], timeout_s: float | None = None) -> None:
    """Wait until one of the events is set, or until the time is over."""
    waits = [asyncio.create_task(event.wait()) for event in events]
    try:
        await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
