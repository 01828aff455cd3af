"""The status of queues: counts, use, and whether they admit; and the finalizer of cluster queues.

The numbers come from ``queueing.State``.  They change with every workload, so a queue is looked at at most
once a second, and written only when they differ from what is stored.  Where they differ at look after look,
looks become rarer, the more so the more queues there are: nobody can follow numbers that change all the time,
and each write is a request.

Both kinds are looked after together, since what changes the numbers of one mostly changes those of the
other.  A key without a namespace names a cluster queue, one with a namespace a local queue.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from quorate.api.kueue import ClusterQueue, LocalQueue, Workload
from quorate.api.meta import Key
from quorate.controllers.context import ControllerContext
from quorate.controllers.finalizers import add_finalizer, remove_finalizer
from quorate.controllers.informers import POINTS_TO
from quorate.kube.informer import Change
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES
from quorate.kube.writes import Patch, send, status_patch
from quorate.queueing.state import State

INTERVAL_S: Final = 1.0  # between looks at one queue
WORKERS: Final = 4
BUSY_INTERVAL_S: Final = (5.0, 30.0)  # to which that grows while each look finds something to write
WRITES_PER_S: Final = 6.0  # of all queues together; where it can be kept to by an interval among these

Queue = ClusterQueue | LocalQueue


@dataclass(frozen=True, slots=True)
class Look:
    """One look at a queue, and how many in a row, up to it, found something to write."""

    at: float = 0.0
    writes: int = 0

    def next_at(self, queues: int) -> float:
        """When to look again, as one of ``queues``.

        The first changes after a pause are shown quickly, one and what follows it.
        """
        shortest, longest = BUSY_INTERVAL_S
        busy_s = min(longest, max(shortest, queues / WRITES_PER_S))
        return self.at + min(busy_s, INTERVAL_S * 2.0 ** min(10, max(0, self.writes - 2)))

    def then(self, now: float, *, writes: bool) -> "Look":
        return Look(now, self.writes + 1 if writes else 0)


class QueueController:
    def __init__(self, context: ControllerContext, state: State) -> None:
        self._client = context.client
        self._clock = context.clock
        self._steady = context.clock.steady
        self._informers = informers = context.informers
        self._state = state
        self._looks: dict[Key, Look] = {}  # the last at each queue that was looked at, by the steady clock
        workers = max(context.workers_for(each, WORKERS) for each in (CLUSTER_QUEUES, LOCAL_QUEUES))
        self.reconciler = Reconciler("queues", self.reconcile, context.clock, workers)
        informers.workloads.subscribe(self._workload_changed)
        informers.local_queues.subscribe(self._local_queue_changed)
        informers.cluster_queues.subscribe(self._cluster_queue_changed)
        informers.flavors.subscribe(self._whether_active_may_differ)
        informers.checks.subscribe(self._whether_active_may_differ)

    def _workload_changed(self, change: Change[Workload]) -> None:
        for workload in _each(change):
            local = Key(workload.metadata.namespace, workload.spec.queue_name)
            self._touch(local)
            queue = self._informers.local_queues.get(local)
            if queue is not None:
                self._touch(Key("", queue.spec.cluster_queue))
            if workload.status.admission is not None:
                self._touch(Key("", workload.status.admission.cluster_queue))

    def _local_queue_changed(self, change: Change[LocalQueue]) -> None:
        if mean_the_same(change.old, change.new):
            self._touch(change.key)
            return
        for queue in _each(change):
            self._look_soon(queue.metadata.key)
            self._look_soon(Key("", queue.spec.cluster_queue))

    def _cluster_queue_changed(self, change: Change[ClusterQueue]) -> None:
        if mean_the_same(change.old, change.new):
            self._touch(change.key)
            return
        for queue in _each(change):
            self._look_soon(queue.metadata.key)
            for local in self._informers.local_queues.by_index(POINTS_TO, queue.metadata.name):
                self._look_soon(local.metadata.key)

    def _whether_active_may_differ(self, change: Change[Any]) -> None:
        for queue in self._informers.cluster_queues:
            self._look_soon(queue.metadata.key)

    def _touch(self, key: Key) -> None:
        """Its numbers may have changed."""
        moment = self._looks.get(key, Look()).next_at(len(self._looks))
        self.reconciler.enqueue_in(key, moment - self._steady.now())

    def _look_soon(self, key: Key) -> None:
        """More than its numbers may have changed."""
        self.reconciler.enqueue_in(key, self._looks.get(key, Look()).at + INTERVAL_S - self._steady.now())

    async def reconcile(self, key: Key) -> None:
        queue = self._queue(key)
        if queue is None:
            self._looks.pop(key, None)
            return
        looked_at = self._steady.now()
        writes = self._writes(queue, self._clock.now())
        self._looks[key] = self._looks.get(key, Look()).then(looked_at, writes=bool(writes))
        await send(self._client, writes)

    def _writes(self, queue: Queue, now: float) -> Sequence[Patch]:
        metadata = queue.metadata
        if isinstance(queue, LocalQueue):
            return status_patch(LOCAL_QUEUES, queue, self._state.local_queue_status(metadata.key, now))
        status = self._state.cluster_queue_status(metadata.name, now)
        if metadata.deletion_timestamp is not None and status.reserving_workloads == 0:
            return remove_finalizer(CLUSTER_QUEUES, metadata)
        return (*add_finalizer(CLUSTER_QUEUES, metadata), *status_patch(CLUSTER_QUEUES, queue, status))

    def _queue(self, key: Key) -> Queue | None:
        informers = self._informers
        return informers.local_queues.get(key) if key.namespace else informers.cluster_queues.get(key)


def mean_the_same(old: Queue | None, new: Queue | None) -> bool:
    """Whether two versions of a queue mean the same for its workloads, to whom its numbers do not matter."""
    if old is None or new is None:
        return False
    return _meaning(old) == _meaning(new)


def _meaning(queue: Queue) -> tuple[object, ...]:
    metadata = queue.metadata
    return queue.spec, queue.status.conditions, metadata.annotations, metadata.deletion_timestamp


def _each(change: Change[Any]) -> Iterable[Any]:
    return (queue for queue in (change.old, change.new) if queue is not None)
