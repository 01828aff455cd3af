"""The copies of our jobs in the worker clusters: informers that keep metadata and the encoded status only.

The informer of a kind in a worker cluster runs from its first use until the connection is lost.  Until it has
listed the copies, and in a worker cluster that does not serve the kind, a copy is read from the API server.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import msgspec

from quorate.api.batch import EMPTY_OBJECT
from quorate.api.meta import Key, ObjectMeta, Struct, Uid
from quorate.api.names.multikueue import ORIGIN, ORIGIN_UID
from quorate.controllers.jobframework.construct_workload import prebuilt_name_of, workload_name
from quorate.controllers.limits import MAX_REMOTE_GROUPS
from quorate.controllers.multikueue.jobs.remote_kinds import RemoteKind
from quorate.controllers.multikueue.workers import Worker, Workers
from quorate.kube.clock import Clock
from quorate.kube.discovery import wait_until_served
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import Resource

_WORKLOAD: Final = "workload"  # index of copies by the key of their workload
_MAX_REMOVED: Final = 1000  # copies that were deleted last


class RemoteSpec(Struct):
    suspend: Any = None
    replicas: Any = None


class RemoteJob(Struct):
    """The copy of a job."""

    metadata: ObjectMeta
    spec: RemoteSpec = RemoteSpec()
    status: msgspec.Raw = EMPTY_OBJECT

    def __post_init__(self) -> None:
        # A view would keep the whole response in memory.
        msgspec.structs.force_setattr(self, "status", self.status.copy())

    def is_of(self, origin: str) -> bool:
        """Return True if the manager with this origin made the copy."""
        return self.metadata.labels.get(ORIGIN) == origin

    @property
    def has_run(self) -> bool:
        """Return False if no controller has written a status: no pod was created."""
        return bytes(self.status) not in (b"{}", b"null", b"")

    def is_copy_of(self, uid: Uid) -> bool:
        """Return True unless the copy is of another job that had the same name; Kueue leaves the uid out."""
        return self.metadata.annotations.get(ORIGIN_UID, uid) == uid or not uid


def workload_keys(kind: RemoteKind, job: RemoteJob, *, short_names: bool) -> tuple[Key, ...]:
    """Return the workloads of the job with this copy: one for each replica of a LeaderWorkerSet."""
    metadata = job.metadata
    if kind.names_workload:
        name = prebuilt_name_of(metadata, by_annotation=True)
        return (Key(metadata.namespace, name),) if name else ()
    uid, replicas = metadata.annotations.get(ORIGIN_UID), job.spec.replicas
    count = 1 if replicas is None else replicas
    if uid is None or not isinstance(count, int):
        return ()
    resource, namespace = kind.resource, metadata.namespace
    name_of = partial(workload_name, resource.kind, resource.group, metadata.name, Uid(uid))
    indexes = range(min(count, MAX_REMOTE_GROUPS))
    return tuple(Key(namespace, name_of(str(index), short=short_names)) for index in indexes)


@dataclass(frozen=True, slots=True)
class _Watch:
    informer: Informer[RemoteJob]
    task: asyncio.Task[None]


@dataclass(slots=True)
class _OfWorker:
    worker: Worker
    watches: dict[str, _Watch] = field(default_factory=dict)


class RemoteJobs:
    """The copies in all connected worker clusters."""

    def __init__(self, workers: Workers, clock: Clock, origin: str, *, short_names: bool) -> None:
        self._workers = workers
        self._clock = clock
        self._origin = origin
        self._keys_of = partial(workload_keys, short_names=short_names)
        self._of: dict[str, _OfWorker] = {}
        # By cluster, kind and key, the last one at the end: how a job ended that was deleted then.
        self._removed: dict[tuple[str, str, Key], RemoteJob] = {}
        self._tasks: asyncio.TaskGroup | None = None
        workers.subscribe_workers(self._worker_changed)

    async def run(self) -> None:
        """Run the informers until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                await asyncio.Event().wait()
            finally:
                self._tasks = None  # no other informer starts

    async def get(self, worker: Worker, kind: RemoteKind, key: Key) -> RemoteJob | None:
        """Return the copy with this name; before the copies are listed, any object with this name."""
        informer = self._informer(worker, kind)
        if informer is not None and informer.synced.is_set():
            return informer.get(key)
        return await self.read(worker, kind, key)

    async def read(self, worker: Worker, kind: RemoteKind, key: Key) -> RemoteJob | None:
        """Return the object with this name, which may not be a copy, from the API server."""
        return await worker.client.find(_resource(kind), key)

    def cached(self, worker: Worker, kind: RemoteKind, key: Key) -> RemoteJob | None:
        """Return the copy with this name, as far as the copies are listed."""
        informer = self._informer(worker, kind)
        return None if informer is None else informer.get(key)

    def removed(self, worker: Worker, kind: RemoteKind, key: Key) -> RemoteJob | None:
        """Return the last version of a copy that has run and was deleted, unless that is long ago."""
        return self._removed.get((worker.name, kind.name, key))

    def of_workload(self, worker: Worker, kind: RemoteKind, workload: Key) -> Sequence[RemoteJob]:
        """Return the copies of a kind that name a workload, as far as they are listed."""
        informer = self._informer(worker, kind)
        return () if informer is None else informer.by_index(_WORKLOAD, workload)

    def is_listed(self, worker: Worker, kind: RemoteKind) -> bool:
        """Return True if all copies of a kind are listed."""
        informer = self._informer(worker, kind)
        return informer is not None and informer.synced.is_set()

    def _informer(self, worker: Worker, kind: RemoteKind) -> Informer[RemoteJob] | None:
        if self._tasks is None:
            return None
        of_worker = self._of.get(worker.name)
        if of_worker is None or of_worker.worker is not worker:
            if self._workers.get(worker.name) is not worker:
                return None
            self._stop(worker.name)
            of_worker = self._of[worker.name] = _OfWorker(worker)
        watch = of_worker.watches.get(kind.name)
        if watch is None:
            informer = Informer(worker.client, _resource(kind), label_selector=f"{ORIGIN}={self._origin}")
            informer.add_index(_WORKLOAD, partial(self._keys_of, kind))
            informer.subscribe(self._subscriber(worker, kind))
            name = f"watch {kind.resource.plural} of worker {worker.name}"
            task = self._tasks.create_task(self._watch(worker, informer), name=name)
            watch = of_worker.watches[kind.name] = _Watch(informer, task)
        return watch.informer

    async def _watch(self, worker: Worker, informer: Informer[RemoteJob]) -> None:
        await wait_until_served(informer.resource, worker.client, self._clock)
        await informer.run()

    def _subscriber(self, worker: Worker, kind: RemoteKind) -> Callable[[Change[RemoteJob]], None]:
        def on_change(change: Change[RemoteJob]) -> None:
            place = worker.name, kind.name, change.key
            self._removed.pop(place, None)
            if change.new is None and change.old is not None and change.old.has_run:
                self._removed[place] = change.old
                if len(self._removed) > _MAX_REMOVED:
                    del self._removed[next(iter(self._removed))]
            for key in {key for job in change.versions for key in self._keys_of(kind, job)}:
                self._workers.workload_changed(key)

        return on_change

    def _worker_changed(self, name: str) -> None:
        of_worker = self._of.get(name)
        if of_worker is not None and self._workers.get(name) is not of_worker.worker:
            self._stop(name)

    def _stop(self, name: str) -> None:
        of_worker = self._of.pop(name, None)
        for watch in () if of_worker is None else of_worker.watches.values():
            watch.task.cancel()


def _resource(kind: RemoteKind) -> Resource[RemoteJob]:
    original = kind.resource
    return Resource(original.group, original.version, original.plural, original.kind, True, RemoteJob)
