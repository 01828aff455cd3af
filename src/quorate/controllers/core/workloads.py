"""The life of workloads: conditions, evictions by the clock, backoffs that end, deactivation, orphans.

What must happen is decided by ``queueing.lifecycle``; this writes it.
"""

from quorate.api.kueue import ClusterQueue, LocalQueue, Workload
from quorate.api.meta import Key
from quorate.controllers.context import ControllerContext
from quorate.controllers.core.queues import mean_the_same
from quorate.controllers.finalizers import remove_finalizer
from quorate.controllers.informers import POINTS_TO, UnscheduledPod, unscheduled_since, workloads_of
from quorate.kube.informer import Change
from quorate.kube.log import logger
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import WORKLOADS, reference_to
from quorate.kube.writes import Delete, Patch, Write, send, status_patch
from quorate.queueing.lifecycle.rules import decide_workload
from quorate.queueing.lifecycle.transition import Transition
from quorate.queueing.state import State

WORKERS = 16  # a run mostly waits for the answer to its one write
_LOCAL_QUEUE = "submitted to"
_CLUSTER_QUEUE = "holds quota of"


class WorkloadController:
    def __init__(self, context: ControllerContext, state: State) -> None:
        self._client = context.client
        self._clock = context.clock
        self._events = context.events
        self._configuration = context.configuration
        self._rng = context.rng
        self._informers = informers = context.informers
        self._state = state
        self._log = logger(__name__)
        workers = context.workers_for(WORKLOADS, WORKERS)
        self.reconciler = Reconciler("workloads", self.reconcile, context.clock, workers)
        informers.workloads.add_index(_LOCAL_QUEUE, _local_queue_of)
        informers.workloads.add_index(_CLUSTER_QUEUE, _cluster_queue_of)
        informers.workloads.subscribe(self._workload_changed)
        informers.local_queues.subscribe(self._local_queue_changed)
        informers.cluster_queues.subscribe(self._cluster_queue_changed)
        informers.unscheduled_pods.subscribe(self._unplaced_pod_changed)

    def _workload_changed(self, change: Change[Workload]) -> None:
        if change.new is not None:
            self.reconciler.enqueue(change.new.metadata.key)

    def _unplaced_pod_changed(self, change: Change[UnscheduledPod]) -> None:
        if change.old is None and change.new is not None:  # a clock may start; none does when one leaves
            for workload in workloads_of(change.new):
                self.reconciler.enqueue(workload)

    def _local_queue_changed(self, change: Change[LocalQueue]) -> None:
        old, new = change.old, change.new
        if mean_the_same(old, new):
            return
        for queue in (old, new):
            if queue is not None:
                self._enqueue_all(_LOCAL_QUEUE, queue.metadata.key)

    def _cluster_queue_changed(self, change: Change[ClusterQueue]) -> None:
        old, new = change.old, change.new
        if mean_the_same(old, new):
            return
        name = next(queue.metadata.name for queue in (old, new) if queue is not None)
        self._enqueue_all(_CLUSTER_QUEUE, name)
        for queue in self._informers.local_queues.by_index(POINTS_TO, name):
            self._enqueue_all(_LOCAL_QUEUE, queue.metadata.key)

    def _enqueue_all(self, index: str, value: Key | str) -> None:
        for workload in self._informers.workloads.by_index(index, value):
            self.reconciler.enqueue(workload.metadata.key)

    async def reconcile(self, key: Key) -> float | None:
        workload = self._informers.workloads.get(key)
        if workload is None:
            return None
        transition = decide_workload(
            workload,
            self._state.queue_view(workload),
            self._configuration,
            self._clock.now(),
            self._rng.random(),
            unscheduled_since(self._informers.unscheduled_pods, key),
        )
        await send(self._client, _writes(workload, transition))
        regarding = reference_to(WORKLOADS, workload)
        for event in transition.events:
            self._events.event(regarding, event.type, event.reason, event.message)
            self._log.info("workload", key=key, became=event.reason, note=event.message)
        return transition.wake_at


def _writes(workload: Workload, transition: Transition) -> list[Write]:
    metadata = workload.metadata
    writes: list[Write] = [*status_patch(WORKLOADS, workload, transition.status)]
    if transition.deactivate:
        body = {"spec": {"active": False}}
        writes.append(Patch(WORKLOADS, metadata.key, metadata.resource_version, body))
    if transition.release:
        writes += remove_finalizer(WORKLOADS, metadata)
    if transition.delete:
        writes.append(Delete(WORKLOADS, metadata.key, metadata.uid))
    return writes


def _local_queue_of(workload: Workload) -> tuple[Key, ...]:
    return (Key(workload.metadata.namespace, workload.spec.queue_name),)


def _cluster_queue_of(workload: Workload) -> tuple[str, ...]:
    admission = workload.status.admission
    return (admission.cluster_queue,) if admission is not None else ()
