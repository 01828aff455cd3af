"""The history: it records what the model sees, and answers for a caller.

The disk is used by two threads, one that writes and one that reads, so the event loop never waits for it.
"""

import asyncio
import hashlib
import os
import sqlite3
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from quorate.api.kueue import Workload
from quorate.api.meta import Key, Uid, at_epoch
from quorate.api.volcano import PodGroup
from quorate.dashboard.history.recorder import OVERVIEW, Recorder, queue_subject
from quorate.dashboard.history.series import Range, first_interval, series_of, sum_of_queues
from quorate.dashboard.history.store import RAW_S, HistoryStore, StoredSample, StoredTransition
from quorate.dashboard.limits import COMPACT_EVERY, MAX_LISTED_TRANSITIONS, MAX_RECENT, MAX_UNWRITTEN
from quorate.dashboard.model.cluster_data import ClusterData
from quorate.dashboard.model.informers import as_volcano_change
from quorate.dashboard.model.model import DashboardModel
from quorate.dashboard.queries import Viewer
from quorate.dashboard.schema import Series, Transition
from quorate.kube.clock import Clock
from quorate.kube.informer import Change
from quorate.kube.log import logger
from quorate.kube.manager.restart import restarting
from quorate.kube.resources import NATIVE_POD_GROUPS, POD_GROUPS, WORKLOADS
from quorate.kube.selection import Watched

T = TypeVar("T")

LOSSES: Final = ("Preempted", "Evicted", "Deactivated")


class UnusableHistory(Exception):
    """The file cannot be used; the text says why."""


class History:
    """Records the changes of the model, and answers callers; ``open_history`` creates it."""

    def __init__(
        self, clock: Clock, writer: "Disk", reader: "Disk", recent: Sequence[StoredTransition]
    ) -> None:
        self._clock = clock
        self._recorder = Recorder()
        self._writer = writer
        self._reader = reader
        self._recent = deque(recent, maxlen=MAX_RECENT)  # the oldest first
        self._known = {(transition.uid, transition.step, transition.at) for transition in recent}
        self._log = logger(__name__)

    # Recording.

    def follow(self, informers: Iterable[Watched], data: ClusterData) -> None:
        """Record the changes of workloads and pod groups, after ``data`` has them."""
        for informer in informers:
            if informer.resource is WORKLOADS:
                informer.subscribe(partial(self.on_workload, data))
            elif informer.resource is POD_GROUPS:
                informer.subscribe(self.on_pod_group)
            elif informer.resource is NATIVE_POD_GROUPS:
                informer.subscribe(lambda change: self.on_pod_group(as_volcano_change(change)))

    def on_workload(self, data: ClusterData, change: Change[Workload]) -> None:
        if change.new is not None:
            first = len(self._recorder.pending)
            self._recorder.workload_changed(data, change.old, change.new)
            self._remember(self._recorder.pending[first:])

    def on_pod_group(self, change: Change[PodGroup]) -> None:
        if change.new is not None:
            self._recorder.group_changed(change.old, change.new, self._clock.now())

    def _remember(self, transitions: Sequence[StoredTransition]) -> None:
        """Keep the losses in memory, each once: after a restart the first list shows known ones again."""
        for transition in transitions:
            identity = (transition.uid, transition.step, transition.at)
            if transition.step not in LOSSES or identity in self._known:
                continue
            if len(self._recent) == MAX_RECENT:
                oldest = self._recent[0]
                self._known.discard((oldest.uid, oldest.step, oldest.at))
            self._recent.append(transition)
            self._known.add(identity)

    async def run(self, data: Callable[[], ClusterData]) -> None:
        """Record a sample every ten seconds until cancelled; ``data`` returns the current data."""
        steady, number = self._clock.steady, 0
        while True:
            await self.record(data(), compact=number % COMPACT_EVERY == 0)
            number += 1
            await steady.sleep_until(steady.now() + RAW_S)

    async def record(self, data: ClusterData, *, compact: bool) -> None:
        """Write a sample and the transitions since the last one."""
        now = self._clock.now()
        samples = list(self._recorder.samples(data, now))
        transitions = self._recorder.pending[-MAX_UNWRITTEN:]
        self._recorder.pending = []

        def write(store: HistoryStore) -> None:
            store.write(samples, transitions)
            if compact:
                store.compact(now)

        try:
            await self._writer.run(write)
        except sqlite3.Error as error:
            self._log.warning("history not written", problem=str(error), transitions=len(transitions))
            self._recorder.pending = [*transitions, *self._recorder.pending]

    # Answers.

    async def overview(self, data: ClusterData, viewer: Viewer, range_: Range) -> Series:
        """Return the series of what the viewer may see: the cluster, or the sum of its cluster queues."""
        if viewer.scope.namespaces is None and viewer.scope.cluster_queues:
            return series_of(await self._samples([OVERVIEW], range_), range_)
        subjects = [queue_subject(name) for name in data.cluster_queues(viewer)]
        return sum_of_queues(await self._samples(subjects, range_), range_)

    async def cluster_queue(
        self, data: ClusterData, viewer: Viewer, name: str, range_: Range
    ) -> Series | None:
        """Return the series of a cluster queue; None if the viewer may not see its totals."""
        if name not in data.cluster_queues(viewer):
            return None
        return series_of(await self._samples([queue_subject(name)], range_), range_)

    async def _samples(self, subjects: Sequence[str], range_: Range) -> list[StoredSample]:
        since = first_interval(range_, self._clock.now())
        return await self._reader.run(lambda store: store.samples(subjects, since))

    async def transitions(
        self, data: ClusterData, viewer: Viewer, cluster_queue: str, limit: int
    ) -> tuple[Transition, ...]:
        """Return the latest evictions and preemptions of workloads that the viewer may read.

        ``cluster_queue`` limits them to one cluster queue; "": transitions of all cluster queues.
        """
        namespaces = viewer.scope.namespaces
        readable = None if namespaces is None else sorted(namespaces)
        stored = await self._reader.run(
            lambda store: store.transitions(
                cluster_queue=cluster_queue,
                namespaces=readable,
                steps=LOSSES,
                limit=max(1, min(MAX_LISTED_TRANSITIONS, limit)),
            )
        )
        return tuple(as_read_by(viewer, data, transition) for transition in stored)

    async def of_object(self, data: ClusterData, viewer: Viewer, uid: Uid) -> tuple[Transition, ...]:
        """Return the recorded transitions of one object that the viewer may read."""
        stored = await self._reader.run(
            lambda store: store.transitions(uid=uid, limit=MAX_LISTED_TRANSITIONS)
        )
        return tuple(as_read_by(viewer, data, transition) for transition in stored)

    def losses(
        self, data: ClusterData, viewer: Viewer, cluster_queue: str, limit: int
    ) -> tuple[Transition, ...]:
        """Return the latest evictions and preemptions in a cluster queue, newest first, from memory."""
        losses = sorted(
            (
                transition
                for transition in self._recent
                if transition.cluster_queue == cluster_queue and viewer.reads_namespace(transition.namespace)
            ),
            key=lambda transition: transition.at,
            reverse=True,
        )
        return tuple(as_read_by(viewer, data, transition) for transition in losses[:limit])


def as_read_by(viewer: Viewer, data: ClusterData, stored: StoredTransition) -> Transition:
    """Return a transition without names that the viewer may not read."""
    namespaces = viewer.scope.namespaces
    if stored.kind == "PodGroup":
        namespaces = viewer.namespaces_of_group(stored.name)
    preemptor = Key(*stored.preemptor.split("/", 1)) if "/" in stored.preemptor else None
    return Transition(
        at=at_epoch(stored.at),
        namespace=stored.namespace,
        name=stored.name,
        step=stored.step,
        reason=stored.reason,
        message=data.readable_text(stored.message, namespaces),
        preemptor=stored.preemptor if preemptor is not None and viewer.reads(preemptor) else "",
        cluster_queue=stored.cluster_queue,
    )


class Disk:
    """A store that belongs to one thread."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="history")
        self._store: HistoryStore | None = None

    async def run(self, use: Callable[[HistoryStore], T]) -> T:
        """Call ``use`` in the thread of the store."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._use, use)

    def _use(self, use: Callable[[HistoryStore], T]) -> T:
        if self._store is None:
            self._store = HistoryStore(self._path)
        return use(self._store)

    def close(self) -> None:
        """Close the store after what was begun."""
        self._thread.submit(self._close).result()
        self._thread.shutdown()

    def _close(self) -> None:
        if self._store is not None:
            self._store.__exit__(None, None, None)


def default_file(server: str) -> Path:
    """Return the file of the history of one API server, in the state directory of the user."""
    base = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
    return base / "quorate" / f"dashboard-{hashlib.sha256(server.encode()).hexdigest()[:12]}.db"


@asynccontextmanager
async def open_history(path: Path, clock: Clock) -> AsyncIterator[History]:
    """Open the history in the file ``path``; a file that is damaged is moved aside and a new one begun.

    Raises ``UnusableHistory``.
    """
    try:
        await asyncio.to_thread(_prepare, path, clock.now())
    except (OSError, sqlite3.OperationalError) as error:
        raise UnusableHistory(f"{path}: {error} (--history names another file)") from error
    writer, reader = Disk(path), Disk(path)
    try:
        recent = await reader.run(lambda store: store.transitions(steps=LOSSES, limit=MAX_RECENT))
        yield History(clock, writer, reader, recent[::-1])
    finally:
        await asyncio.to_thread(writer.close)
        await asyncio.to_thread(reader.close)


@asynccontextmanager
async def recording(history: History, model: DashboardModel, clock: Clock) -> AsyncIterator[None]:
    """Record samples of ``model`` within the block, once it is ready."""

    async def record() -> None:
        await model.ready.wait()
        await history.run(lambda: model.data)

    async with restarting("history of the dashboard", record, clock):
        yield


def _prepare(path: Path, now: float) -> None:
    """Create the folder of the file, and move the file aside if it is damaged."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)  # it has names of all tenants
    try:
        with HistoryStore(path) as store:
            store.counts()
    except sqlite3.OperationalError:  # it cannot be opened or written: a new file would have the same fault
        raise
    except sqlite3.DatabaseError as error:
        aside = path.with_name(f"{path.name}.unreadable-{int(now)}")
        logger(__name__).warning(
            "history cannot be read", file=str(path), moved_to=str(aside), problem=str(error)
        )
        path.rename(aside)
        for suffix in ("-wal", "-shm"):
            path.with_name(f"{path.name}{suffix}").unlink(missing_ok=True)
