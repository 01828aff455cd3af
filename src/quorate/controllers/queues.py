"""The status of queues: counts, use, and whether they admit; and the finalizer of cluster queues.

The numbers come from ``queueing.State``.  They change with every workload, so a queue is looked at at most
once a second, and written only when they differ from what is stored.

Both kinds are looked after together, since what changes the numbers of one mostly changes those of the
other.  A key without a namespace names a cluster queue, one with a namespace a local queue.
"""

from collections.abc import Iterable
from typing import Any

from quorate.api.kueue import ClusterQueue, ClusterQueueStatus, LocalQueue, LocalQueueStatus, Workload
from quorate.api.meta import Key
from quorate.controllers.finalizers import held, released
from quorate.controllers.informers import POINTS_TO
from quorate.controllers.shell import Shell
from quorate.controllers.writes import Patch, send
from quorate.kube.informer import Change
from quorate.kube.patches import merge_patch
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import CLUSTER_QUEUES, LOCAL_QUEUES, Resource
from quorate.queueing.state import State

INTERVAL_S = 1.0

Queue = ClusterQueue | LocalQueue


class QueueController:
    def __init__(self, shell: Shell, state: State) -> None:
        self._client = shell.client
        self._clock = shell.clock
        self._informers = informers = shell.informers
        self._state = state
        self._last_look: dict[Key, float] = {}  # of each queue that is there and was looked at
        self.reconciler = Reconciler("queues", self.reconcile, shell.clock)
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
        for queue in _each(change):
            self._touch(queue.metadata.key)
            self._touch(Key("", queue.spec.cluster_queue))

    def _cluster_queue_changed(self, change: Change[ClusterQueue]) -> None:
        for queue in _each(change):
            self._touch(queue.metadata.key)
            for local in self._informers.local_queues.by_index(POINTS_TO, queue.metadata.name):
                self._touch(local.metadata.key)

    def _whether_active_may_differ(self, change: Change[Any]) -> None:
        for queue in self._informers.cluster_queues:
            self._touch(queue.metadata.key)

    def _touch(self, key: Key) -> None:
        self.reconciler.enqueue_at(key, self._last_look.get(key, 0.0) + INTERVAL_S)

    async def reconcile(self, key: Key) -> None:
        queue = self._queue(key)
        if queue is None:
            self._last_look.pop(key, None)
            return
        now = self._last_look[key] = self._clock.now()
        if isinstance(queue, LocalQueue):
            local = self._state.local_queue_status(key, now)
            await send(self._client, _status_patch(LOCAL_QUEUES, queue, local))
            return
        cluster = self._state.cluster_queue_status(key.name, now)
        metadata = queue.metadata
        if metadata.deletion_timestamp is not None and cluster.reserving_workloads == 0:
            await send(self._client, released(CLUSTER_QUEUES, metadata))
            return
        writes = (*held(CLUSTER_QUEUES, metadata), *_status_patch(CLUSTER_QUEUES, queue, cluster))
        await send(self._client, writes)

    def _queue(self, key: Key) -> Queue | None:
        informers = self._informers
        return informers.local_queues.get(key) if key.namespace else informers.cluster_queues.get(key)


def _each(change: Change[Any]) -> Iterable[Any]:
    return (queue for queue in (change.old, change.new) if queue is not None)


def _status_patch(
    resource: Resource[Any], queue: Queue, status: ClusterQueueStatus | LocalQueueStatus
) -> tuple[Patch, ...]:
    changed = merge_patch(queue.status, status)
    if not changed:
        return ()
    metadata = queue.metadata
    return (Patch(resource, metadata.key, metadata.resource_version, {"status": changed}, "status"),)
