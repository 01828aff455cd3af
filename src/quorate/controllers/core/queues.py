"""The statuses of queues and cohorts, and the finalizer of cluster queues.

The values come from ``queueing.State``.  They change with every workload, so a queue is reconciled at most
once a second, and its status is written only if it differs from the stored one.  While each reconcile finds
a difference, the interval grows, the more so the more queues there are: no user can follow values that
change all the time, and each write is a request.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from quorate.api.kueue import ClusterQueue, Cohort, LocalQueue, Workload
from quorate.api.meta import Key
from quorate.controllers import limits
from quorate.controllers.context import ControllerContext
from quorate.controllers.finalizers import add_finalizer, remove_finalizer
from quorate.controllers.informers import POINTS_TO
from quorate.kube.controller.expectations import Expectations, versions
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import CLUSTER_QUEUES, COHORTS, LOCAL_QUEUES
from quorate.kube.writes import Patch, send, status_patch
from quorate.queueing.state import State

_ALL: Final = ""  # instead of the name of a cohort

Queue = ClusterQueue | LocalQueue


@dataclass(frozen=True, slots=True)
class QueuePace:
    """When a queue was last reconciled, and how many consecutive reconciles found a difference."""

    at: float = 0.0
    writes: int = 0

    def next_at(self, queues: int, write_s: float) -> float:
        """Return when to reconcile one of ``queues`` again, of which one write takes ``write_s``.

        The first two writes are not delayed.
        """
        shortest, longest = limits.MAX_STATUS_INTERVAL_S
        interval_s = min(longest, max(shortest, queues * write_s / limits.STATUS_WRITE_SHARE))
        return self.at + min(
            interval_s, limits.STATUS_PACE_S * limits.INTERVAL_FACTOR ** min(10, max(0, self.writes - 2))
        )

    def then(self, now: float, *, writes: bool) -> "QueuePace":
        return QueuePace(now, self.writes + 1 if writes else 0)


class QueueController:
    """Reconciles cluster queues and local queues, because most changes affect the statuses of both.

    The key of a cluster queue has no namespace, the key of a local queue has one.
    """

    def __init__(self, context: ControllerContext, state: State) -> None:
        self._client = context.client
        self._clock = context.clock
        self._steady = context.clock.steady
        self._informers = informers = context.informers
        self._state = state
        self._expectations = Expectations(context.clock)
        self._paces: dict[Key, QueuePace] = {}  # of the queues reconciled so far, in steady time
        self._paced: set[Key] = set()  # queues with a reconcile to come, at their pace or earlier
        self._write_s = 0.0  # the mean duration of a write
        workers = max(
            context.workers_for(kind, limits.FEW_WORKERS) for kind in (CLUSTER_QUEUES, LOCAL_QUEUES)
        )
        self.reconciler = Reconciler("queues", self.reconcile, context.clock, workers, report=self._report)
        informers.workloads.subscribe(self._workload_changed)
        informers.local_queues.subscribe(self._local_queue_changed)
        informers.cluster_queues.subscribe(self._cluster_queue_changed)
        informers.flavors.subscribe(self._activity_may_differ)
        informers.checks.subscribe(self._activity_may_differ)
        informers.topologies.subscribe(self._activity_may_differ)
        informers.cohorts.subscribe(self._cohort_changed)

    def _workload_changed(self, change: Change[Workload]) -> None:
        queues: dict[Key, None] = {}  # in order
        old, new = change.old, change.new
        for workload in change.versions:
            if workload is old and new is not None and _has_queues_of(new, old):
                continue  # as mostly
            local = Key(workload.metadata.namespace, workload.spec.queue_name)
            queues[local] = None
            queue = self._informers.local_queues.get(local)
            if queue is not None:
                queues[Key("", queue.spec.cluster_queue)] = None
            if workload.status.admission is not None:
                queues[Key("", workload.status.admission.cluster_queue)] = None
        for key in queues:
            self._enqueue_at_pace(key)

    def _local_queue_changed(self, change: Change[LocalQueue]) -> None:
        if is_equivalent(change.old, change.new):
            self._enqueue_at_pace(change.key)
            return
        for queue in change.versions:
            self._enqueue_soon(queue.metadata.key)
            self._enqueue_soon(Key("", queue.spec.cluster_queue))

    def _cluster_queue_changed(self, change: Change[ClusterQueue]) -> None:
        if is_equivalent(change.old, change.new):
            self._enqueue_at_pace(change.key)
            return
        for queue in change.versions:
            self._enqueue_soon(queue.metadata.key)
            for local in self._informers.local_queues.by_index(POINTS_TO, queue.metadata.name):
                self._enqueue_soon(local.metadata.key)

    def _cohort_changed(self, change: Change[Cohort]) -> None:
        """Reconcile all queues if a parent changed: cohorts may form a cycle, or no longer."""
        parents = {"" if cohort is None else cohort.spec.parent_name for cohort in (change.old, change.new)}
        if len(parents) > 1:
            self._activity_may_differ(change)

    def _activity_may_differ(self, change: Change[Any]) -> None:
        for queue in self._informers.cluster_queues:
            self._enqueue_soon(queue.metadata.key)

    def consumed_usage_sampled(self, local_queues: Iterable[Key]) -> None:
        """Write the consumed usage of local queues before the next sample."""
        for key in local_queues:
            self._enqueue_soon(key)

    def _enqueue_at_pace(self, key: Key) -> None:
        """Reconcile a queue of which only counts and usage may differ.

        A queue that is being deleted may lose its finalizer with its last workload, which waits for no pace.
        """
        queue = self._queue(key)
        if queue is not None and queue.metadata.deletion_timestamp is not None:
            self._enqueue_soon(key)
            return
        if key in self._paced:
            return
        self._paced.add(key)
        next_at = self._paces.get(key, QueuePace()).next_at(len(self._paces), self._write_s)
        self.reconciler.enqueue_in(key, next_at - self._steady.now())

    def _enqueue_soon(self, key: Key) -> None:
        """Reconcile a queue if its conditions may differ."""
        last_at = self._paces.get(key, QueuePace()).at
        self.reconciler.enqueue_in(key, last_at + limits.STATUS_PACE_S - self._steady.now())

    def _report(self, key: Key, error: Exception) -> None:
        informers = self._informers
        queues: Informer[Any] = informers.local_queues if key.namespace else informers.cluster_queues
        queues.reconcile_failed(key, error)

    async def reconcile(self, key: Key) -> float | None:
        self._paced.discard(key)
        queue = self._queue(key)
        if queue is None:
            self._paces.pop(key, None)
            self._expectations.forget(key)
            return None
        resource = LOCAL_QUEUES if key.namespace else CLUSTER_QUEUES
        until = self._expectations.pending_until(key, versions(resource, (queue,)))
        if until is not None:
            return until  # or earlier, once the watch delivers the last write
        started_at = self._steady.now()
        writes = self._writes(queue, self._clock.now())
        self._paces[key] = self._paces.get(key, QueuePace()).then(started_at, writes=bool(writes))
        if writes:
            stored = await send(self._client, writes)
            self._expectations.expect(key, writes, versions(resource, stored[:-1]))
            duration_s = (self._steady.now() - started_at) / len(writes)
            self._write_s += limits.WRITE_SMOOTHING * (duration_s - self._write_s)
        return None

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


def _has_queues_of(new: Workload, old: Workload) -> bool:
    """Return True if ``new`` counts in each queue in which ``old`` counts."""
    before, after = old.status.admission, new.status.admission
    return old.spec.queue_name == new.spec.queue_name and (
        before is None or (after is not None and before.cluster_queue == after.cluster_queue)
    )


def is_equivalent(old: Queue | None, new: Queue | None) -> bool:
    """Return True if two versions of a queue differ at most in counts and usage."""
    if old is None or new is None:
        return False
    return _without_counts(old) == _without_counts(new)


def _without_counts(queue: Queue) -> tuple[object, ...]:
    metadata = queue.metadata
    return queue.spec, queue.status.conditions, metadata.annotations, metadata.deletion_timestamp


class CohortController:
    """Writes the weighted share of cohorts, if fair sharing is configured.

    Each workload of a queue counts in the share of every cohort above it.
    """

    def __init__(self, context: ControllerContext, state: State) -> None:
        self._client = context.client
        self._expectations = Expectations(context.clock)
        self._informers = informers = context.informers
        self._state = state
        self.reconciler = Reconciler(
            "cohorts", self.reconcile, context.clock, report=informers.cohorts.reconcile_failed
        )
        self._has_shares = context.configuration.fair_sharing is not None
        informers.cohorts.subscribe(self._cohort_changed)
        if self._has_shares:
            informers.cluster_queues.subscribe(self._cluster_queue_changed)
            informers.workloads.subscribe(self._workload_changed)

    def _cohort_changed(self, change: Change[Cohort]) -> None:
        """Reconcile a cohort, or all: the quota of a cohort counts in the shares of its whole tree."""
        self._enqueue(_ALL if self._has_shares else change.key.name)

    def _cluster_queue_changed(self, change: Change[ClusterQueue]) -> None:
        if change.old is None or change.new is None or change.old.spec != change.new.spec:
            self._enqueue(_ALL)

    def _workload_changed(self, change: Change[Workload]) -> None:
        for workload in change.versions:
            if workload.status.admission is None:
                continue
            queue = self._state.ledger.cluster_queues.get(workload.status.admission.cluster_queue)
            node = queue.node.parent if queue is not None else None
            while node is not None:
                self._enqueue(node.name)
                node = node.parent

    def _enqueue(self, name: str) -> None:
        self.reconciler.enqueue_in(Key("", name), limits.STATUS_PACE_S)

    async def reconcile(self, key: Key) -> float | None:
        if key.name == _ALL:
            for cohort in self._informers.cohorts:
                self.reconciler.enqueue(cohort.metadata.key)
            return None
        stored = self._informers.cohorts.get(key)
        if stored is None:
            self._expectations.forget(key)
            return None
        until = self._expectations.pending_until(key, versions(COHORTS, (stored,)))
        if until is not None:
            return until
        writes = status_patch(COHORTS, stored, self._state.cohort_status(key.name))
        await send(self._client, writes)
        self._expectations.expect(key, writes)
        return None
