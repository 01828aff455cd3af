"""The informer: a cache of all objects of one kind, kept up to date by a list and a watch.

``run`` lists, then watches from the version of the list; or the watch begins with the existing objects.  A
watch that breaks or ends is resumed at the last version; when that version is no longer kept, all objects are
compared with the cache, so that no final state is missed, deletions included (intermediate states are).

A server that did not respond may come back with a store that was restored from a backup, and versions that
are older than the cache.  So after a failure the version is checked before it is watched.  Subscribers see an
object that went back to an older version as deleted and created again, because models ignore older versions.

Subscribers are called synchronously in order of subscription, after the cache is updated.

No object ends ``run``.  An object that cannot be decoded into its type is absent from the cache.  An object
on which an index or a subscriber raises is absent from that index, or for that subscriber.  The subscriber
next sees the removal of the object, so that each view is consistent, and a model drops what it had taken in
part.  Either is an ``ObjectFault``, reported to the client, and the next version of the object is tried like
any other.
"""

import asyncio
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Generic

import msgspec

from quorate.api.interning import share_unchanged_metadata
from quorate.api.meta import Key, is_older
from quorate.kube.errors import ApiError, Forbidden, Gone, RequestFailed, Unreachable, Unreadable
from quorate.kube.flowcontrol import Backoff
from quorate.kube.limits import STABLE_WATCH_S, WATCH_SLICE_S
from quorate.kube.log import logger
from quorate.kube.object_faults import ObjectFault, Stage, fault_of, problem_of
from quorate.kube.resources import Resource, T, metadata_of
from quorate.kube.rest.decoding import Bookmark, WatchEvent
from quorate.kube.rest.encoding import selectors_query

if TYPE_CHECKING:
    from quorate.kube.client import Client

RECONNECT = Backoff(first_s=0.1, cap_s=10.0)


class Change(msgspec.Struct, Generic[T], frozen=True):
    """One object before and after; None means absent.  Not both are None."""

    old: T | None
    new: T | None

    @property
    def key(self) -> Key:
        version = self.new if self.new is not None else self.old
        assert version is not None, "a change from nothing to nothing"
        return metadata_of(version).key

    @property
    def versions(self) -> tuple[T, ...]:
        """Return the object before and after the change, as far as it exists."""
        old, new = self.old, self.new
        if old is None:
            return () if new is None else (new,)
        return (old,) if new is None else (old, new)


class Informer(Generic[T]):
    def __init__(
        self,
        client: "Client",
        resource: Resource[T],
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        *,
        reconnect: Backoff = RECONNECT,
        batched: bool = False,
    ) -> None:
        """``batched``: read changes in batches while they come fast, as those of a kind that ``is_busy``."""
        self.resource = resource
        self.synced = asyncio.Event()  # set once subscribers have seen the first list
        self.refused = asyncio.Event()  # set while no role allows to list or watch the kind
        self.watching = asyncio.Event()  # set once the server has accepted a watch after the first list
        self.is_running = False
        self._client = client
        self._scope = (namespace, label_selector, field_selector)
        self._reconnect = reconnect
        self._batched = batched
        self._failures = 0  # consecutive lists and watches without an event
        self._objects: dict[Key, T] = {}
        self._indexes: dict[str, _Index[T]] = {}
        self._subscribers: list[_Subscriber[T]] = []
        self._undecodable: dict[Key, ObjectFault] = {}  # the objects that exist and are not in the cache
        self._version = ""  # the version of the cache; "" when a list is required
        self._is_unchecked = False  # the store may not have that version
        self._log = logger(__name__).bind(resource=resource.plural)

    def get(self, key: Key) -> T | None:
        return self._objects.get(key)

    def keys(self) -> Iterable[Key]:
        """Return the keys in no particular order; the collection changes with the cache."""
        return self._objects.keys()

    def __len__(self) -> int:
        return len(self._objects)

    def __iter__(self) -> Iterator[T]:
        """Iterate in key order, which costs O(n log n), so that decisions are deterministic."""
        return iter([self._objects[key] for key in sorted(self._objects)])

    def add_index(
        self,
        name: str,
        values_of: Callable[[T], Iterable[Hashable]],
        among: Iterable[T] | None = None,
        *,
        of_metadata: bool = False,
    ) -> None:
        """Index the objects by each value of ``values_of(object)``, for ``by_index(name, value)``.

        ``among``: the cached objects that have values; None: any may have some.  ``of_metadata``: the values
        depend on ``DESCRIPTION`` only, and most changes keep it.
        """
        assert name not in self._indexes, f"index {name} of {self.resource.plural} exists"
        index = self._indexes[name] = _Index(values_of, of_metadata)
        for obj in self._objects.values() if among is None else among:
            self._update_index(index, metadata_of(obj).key, None, obj)

    def by_index(self, name: str, value: Hashable) -> list[T]:
        """Return the objects with that value in key order."""
        keys = self._indexes[name].keys(value)
        return [self._objects[key] for key in (keys if len(keys) < 2 else sorted(keys))]  # most have none

    def subscribe(
        self,
        on_change: Callable[[Change[T]], None],
        on_unusable: Callable[[Key, ObjectFault | None], None] | None = None,
        among: Iterable[T] | None = None,
    ) -> None:
        """Call ``on_change`` now with each cached object, and from now on with every change.

        ``on_unusable`` is called with each object that cannot be decoded or that ``on_change`` cannot use,
        after its removal; with None once it can be used, or is deleted.  ``among``: the cached objects that
        ``on_change`` does not ignore; None: all.
        """
        subscriber = _Subscriber(on_change, on_unusable)
        self._subscribers.append(subscriber)
        for obj in self if among is None else among:
            self._deliver(subscriber, metadata_of(obj).key, Change(None, obj))
        for fault in self._undecodable.values():
            self._set_aside(subscriber, fault)

    async def subscribe_in_slices(
        self,
        on_change: Callable[[Change[T]], None],
        on_unusable: Callable[[Key, ObjectFault | None], None] | None = None,
    ) -> None:
        """Subscribe, and return once ``on_change`` has been called with each cached object, in no order.

        Between two slices of them other tasks run, and changes are delivered at once.
        """
        subscriber = _Subscriber(on_change, on_unusable)
        subscriber.left_out.update(self._objects)
        self._subscribers.append(subscriber)
        for fault in self._undecodable.values():
            self._set_aside(subscriber, fault)
        clock = asyncio.get_running_loop().time
        began = clock()
        for key in list(self._objects):
            if key in subscriber.left_out and (obj := self._objects.get(key)) is not None:
                self._deliver(subscriber, key, Change(None, obj))
            if clock() - began > WATCH_SLICE_S:
                await asyncio.sleep(0)
                began = clock()

    def reconcile_failed(self, key: Key, error: Exception) -> None:
        """Report that a controller raised ``error`` on the object ``key``."""
        self._report("reconcile", key, self._objects.get(key), error)

    async def run(self) -> None:
        """Keep the cache up to date until cancelled."""
        with self._running():
            while True:
                if (failure := await self._list_and_watch()) is not None:
                    problem = str(failure) if isinstance(failure, RequestFailed) else problem_of(failure)
                    self._log.warning("list or watch failed", problem=problem, failures=self._failures)
                await self._pause(failure)

    async def run_until_failure(self) -> None:
        """Keep the cache up to date until a list or watch fails, and raise its error."""
        with self._running():
            while (failure := await self._list_and_watch()) is None:
                await self._pause(None)
            raise failure

    @contextmanager
    def _running(self) -> Iterator[None]:
        assert not self.is_running, f"the informer of {self.resource.plural} runs already"
        self.is_running = True
        try:
            yield
        finally:
            self.is_running = False

    async def _list_and_watch(self) -> Exception | None:
        """Follow changes until a watch ends; return its error, or None if it ended as expected."""
        clock = asyncio.get_running_loop().time
        began = clock()
        failure: Exception | None = None
        try:
            if self._is_unchecked and self._version:
                await self._check_version()
            self._is_unchecked = False
            if not self._version and not self._client.streams_lists:
                await self._relist()
            await self._watch()
        except Gone:
            self._version = ""
        except (ApiError, Unreachable) as error:
            failure, self._is_unchecked = error, True
            if isinstance(error, Forbidden):
                self.refused.set()
        except Exception as error:
            self._version = ""  # an event may be lost: compare with a list
            failure = error
            if not isinstance(error, Unreadable):
                self._log.fault("list or watch raised", error)
        if clock() - began >= STABLE_WATCH_S:
            self._failures = 0
        self._failures += 1
        return failure

    async def _pause(self, failure: Exception | None) -> None:
        """Wait before the next list or watch, after a failure or if watches end without an event."""
        if failure is not None or self._failures > 1:
            await asyncio.sleep(self._reconnect.jittered_s(self._failures, self._client.rng))

    async def _check_version(self) -> None:
        """Raise ``Gone`` if the store has not reached the version of the cache.

        A watch from such a version is accepted, and is silent until the store has reached it.
        """
        namespace, label_selector, field_selector = self._scope
        query = selectors_query(label_selector, field_selector) | {
            "limit": "1",
            "resourceVersion": self._version,
            "resourceVersionMatch": "NotOlderThan",
        }
        await self._client.request("GET", self.resource.path(namespace), query=query)

    async def _relist(self) -> None:
        listing = await self._client.list(self.resource, *self._scope)
        present = {metadata_of(obj).key: obj for obj in listing.items}
        for key in sorted((self._objects.keys() | self._undecodable.keys()) - present.keys()):
            self._put(key, None)
        for fault in listing.undecodable:
            self._put_undecodable(fault)
        clock = asyncio.get_running_loop().time
        began = clock()
        for key, obj in present.items():
            self._put(key, obj)
            if clock() - began > WATCH_SLICE_S:
                await asyncio.sleep(0)
                began = clock()
        self._end_list(listing.resource_version)

    def _end_list(self, version: str) -> None:
        self._version = version
        self.refused.clear()
        if not self.synced.is_set():
            self._log.debug("synced", objects=len(self._objects))
            self.synced.set()

    async def _watch(self) -> None:
        """Follow the events after the version of the cache; without one, first those of existing objects."""
        clock = asyncio.get_running_loop().time
        began = clock()
        is_listed = bool(self._version)
        unseen = set() if is_listed else self._objects.keys() | self._undecodable.keys()

        def on_open() -> None:
            if is_listed:
                self.watching.set()

        events = self._client.watch(
            self.resource, self._version, *self._scope, batched=self._batched, on_open=on_open
        )
        async for event in events:
            self._failures = 0
            match event:
                case Bookmark(version) if not is_listed:
                    for key in sorted(unseen):
                        self._put(key, None)
                    self._end_list(version)
                    self.watching.set()
                    is_listed = True
                case Bookmark(version):
                    self._version = version
                case ObjectFault(key=key, resource_version=version):
                    unseen.discard(key)
                    if event.deleted:
                        self._put(key, None)
                    else:
                        self._put_undecodable(event)
                    self._version = version if is_listed else ""
                case WatchEvent(type_, obj):
                    metadata = metadata_of(obj)
                    unseen.discard(metadata.key)
                    self._put(metadata.key, None if type_ == "DELETED" else obj)
                    self._version = metadata.resource_version if is_listed else ""
            if clock() - began > WATCH_SLICE_S:  # many events may have arrived together
                await asyncio.sleep(0)
                began = clock()

    def _put(self, key: Key, new: T | None) -> None:
        """Store ``new`` as the object of ``key``, and notify subscribers if it changed."""
        old, keeps_description = self._objects.get(key), False
        if old is not None and new is not None:
            before, after = metadata_of(old), metadata_of(new)
            # Deleted and created again, both unseen; or the store was restored.
            if before.uid != after.uid or is_older(after, before):
                self._put(key, None)
                old = None
            elif before.resource_version == after.resource_version:
                return
            else:
                keeps_description = share_unchanged_metadata(before, after)
        was_undecodable = self._undecodable.pop(key, None) is not None
        if old is None and new is None:
            if was_undecodable:
                for subscriber in self._subscribers:
                    self._end_fault(subscriber, key)
            return
        if new is None:
            del self._objects[key]
        else:
            self._objects[key] = new
        for index in self._indexes.values():
            if not (keeps_description and index.of_metadata):
                self._update_index(index, key, old, new)
        change = Change(old, new)
        for subscriber in self._subscribers:
            if subscriber.left_out:
                self._deliver(subscriber, key, change)
                continue
            try:
                subscriber.on_change(change)
            except Exception as error:
                self._leave_out(subscriber, key, change, error)

    def _put_undecodable(self, fault: ObjectFault) -> None:
        self._put(fault.key, None)
        self._undecodable[fault.key] = fault
        self._client.faults.report(fault)
        for subscriber in self._subscribers:
            self._set_aside(subscriber, fault)

    def _update_index(self, index: "_Index[T]", key: Key, old: T | None, new: T | None) -> None:
        try:
            index.update(key, old, new)
        except Exception as error:
            self._report("index", key, new, error)

    def _deliver(self, subscriber: "_Subscriber[T]", key: Key, change: Change[T]) -> None:
        """Pass on ``change`` as the subscriber sees it, to which an object it cannot use is absent."""
        old, new = change.old, change.new
        was_left_out = key in subscriber.left_out
        if was_left_out and old is not None:
            old, change = None, Change(None, new)
        if old is None and new is None:
            self._end_fault(subscriber, key)
            return
        try:
            subscriber.on_change(change)
        except Exception as error:
            self._leave_out(subscriber, key, change, error)
        else:
            if was_left_out:
                self._end_fault(subscriber, key)

    def _leave_out(self, subscriber: "_Subscriber[T]", key: Key, change: Change[T], error: Exception) -> None:
        """Report that ``on_change`` raised ``error``, and remove the object from the subscriber."""
        old, new = change.old, change.new
        fault = self._report("subscribe", key, new, error)
        if new is None:
            return
        try:
            subscriber.on_change(Change(new if old is None else old, None))
        except Exception as second:
            self._log.fault("removal of an unusable object raised", second, key=key)
        self._set_aside(subscriber, fault)

    def _set_aside(self, subscriber: "_Subscriber[T]", fault: ObjectFault) -> None:
        subscriber.left_out.add(fault.key)
        self._notify_unusable(subscriber, fault.key, fault)

    def _end_fault(self, subscriber: "_Subscriber[T]", key: Key) -> None:
        subscriber.left_out.discard(key)
        self._notify_unusable(subscriber, key, None)

    def _notify_unusable(self, subscriber: "_Subscriber[T]", key: Key, fault: ObjectFault | None) -> None:
        if subscriber.on_unusable is None:
            return
        try:
            subscriber.on_unusable(key, fault)
        except Exception as error:
            self._log.fault("report of an unusable object raised", error, key=key)

    def _report(self, stage: Stage, key: Key, obj: T | None, error: Exception) -> ObjectFault:
        fault = fault_of(self.resource, stage, key, obj, error)
        self._client.faults.report(fault)
        return fault


class _Subscriber(Generic[T]):
    def __init__(
        self,
        on_change: Callable[[Change[T]], None],
        on_unusable: Callable[[Key, ObjectFault | None], None] | None,
    ) -> None:
        self.on_change = on_change
        self.on_unusable = on_unusable
        self.left_out: set[Key] = set()  # existing objects that it cannot use, or that are not decoded


class _Index(Generic[T]):
    def __init__(self, values_of: Callable[[T], Iterable[Hashable]], of_metadata: bool) -> None:
        self._values_of = values_of
        self.of_metadata = of_metadata
        # By value: most have one object, and a set of one takes 216 bytes.  No set is empty.
        self._keys: dict[Hashable, Key | set[Key]] = {}
        self._left_out: set[Key] = set()  # objects without values, because ``values_of`` raised

    def keys(self, value: Hashable) -> Collection[Key]:
        keys = self._keys.get(value, ())
        return (keys,) if isinstance(keys, Key) else keys

    def update(self, key: Key, old: T | None, new: T | None) -> None:
        """Replace the values of ``key``.  It has none if ``values_of`` raises, which is passed on."""
        before = () if old is None or key in self._left_out else tuple(self._values_of(old))
        after: tuple[Hashable, ...] = ()
        try:
            self._left_out.discard(key)
            if new is not None:
                after = tuple(self._values_of(new))
        except Exception:
            self._left_out.add(key)
            raise
        finally:
            if before != after:  # most changes keep the values
                self._replace(key, set(before), set(after))

    def _replace(self, key: Key, before: set[Hashable], after: set[Hashable]) -> None:
        for value in before - after:
            keys = self._keys[value]
            if isinstance(keys, set) and len(keys) > 1:
                keys.discard(key)
            else:
                del self._keys[value]
        for value in after - before:
            match self._keys.get(value):
                case None:
                    self._keys[value] = key
                case set() as keys:
                    keys.add(key)
                case Key() as first:
                    self._keys[value] = {first, key}
