"""The lifecycle of workloads: conditions, timeouts, backoffs, orphans; and priority.

``queueing.lifecycle`` decides what must happen; this module writes it.
"""

from collections.abc import Awaitable
from typing import Final

from quorate.api.core import LimitRange, Namespace
from quorate.api.core.pod import Pod
from quorate.api.kueue import GROUP, ClusterQueue, LocalQueue, Workload, WorkloadPriorityClass
from quorate.api.meta import Key
from quorate.api.names.multikueue import ORIGIN
from quorate.controllers.context import ControllerContext
from quorate.controllers.core.queues import is_equivalent
from quorate.controllers.finalizers import remove_finalizer
from quorate.controllers.informers import POINTS_TO, unscheduled_since, workloads_of
from quorate.controllers.limits import FEW_WORKERS, NEW_WORKLOAD_S, WORKERS
from quorate.kube.controller.reconcile import NextRun
from quorate.kube.informer import Change
from quorate.kube.log import logger
from quorate.kube.resources import WORKLOADS, reference_to
from quorate.kube.writes import Delete, Patch, Write, send, status_patch
from quorate.queueing.conditions import is_finished
from quorate.queueing.lifecycle.rules import decide_workload
from quorate.queueing.lifecycle.transition import Transition
from quorate.queueing.state import State
from quorate.queueing.workload_slices import replaced_slice

_LOCAL_QUEUE: Final = "local queue"  # index of workloads by the key of their local queue
_CLUSTER_QUEUE: Final = "cluster queue"  # index of workloads by the queue that reserved their quota
_NAMESPACE: Final = "namespace"  # index of workloads
_PRIORITY_CLASS: Final = "priority class"  # index of workloads by their WorkloadPriorityClass


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
        self.reconciler = context.reconciler("workloads", self.reconcile, informers.workloads, WORKERS)
        informers.workloads.add_index(_LOCAL_QUEUE, _local_queue_of)
        informers.workloads.add_index(_CLUSTER_QUEUE, _cluster_queue_of)
        informers.workloads.subscribe(self._workload_changed)
        informers.local_queues.subscribe(self._local_queue_changed)
        informers.cluster_queues.subscribe(self._cluster_queue_changed)
        informers.unscheduled_pods.subscribe(self._unscheduled_pod_changed)
        if not context.configuration.scheduling.enabled:  # otherwise the admission cycle evaluates them again
            informers.workloads.add_index(_NAMESPACE, lambda workload: (workload.metadata.namespace,))
            informers.namespaces.subscribe(self._namespace_changed)
            informers.limit_ranges.subscribe(self._limit_range_changed)

    def _workload_changed(self, change: Change[Workload]) -> None:
        if change.new is None:
            self.reconciler.forget(change.key)
        else:
            if change.old is None and self._is_evaluated_now(change.new):
                self.reconciler.enqueue_in(change.key, NEW_WORKLOAD_S)
            elif not self._is_at_rest(change.key, change.new):
                self.reconciler.enqueue(change.key)
            replaced = replaced_slice(change.new, self._configuration.gates)
            if replaced is not None:
                self.reconciler.enqueue(replaced)

    def _is_at_rest(self, key: Key, workload: Workload) -> bool:
        """Return True if nothing is to be written now, as after most changes: a run would only find that out.

        A later run is scheduled.  Before the controllers run, the model is not complete.
        """
        if not self.reconciler.is_running:
            return False
        try:
            transition = self._decide(workload)
        except Exception:  # of a bug: the run reports it
            return False
        wake_at = transition.wake_at
        if transition != Transition(wake_at=wake_at):
            return False
        if wake_at is not None:
            self.reconciler.enqueue_at(key, wake_at)
        return True

    def _is_evaluated_now(self, workload: Workload) -> bool:
        """Return True if a reservation may be written at this moment, which has the states of the checks."""
        if not self._configuration.scheduling.enabled or workload.status.conditions:
            return False
        cluster = self._state.queue_view(workload).cluster_queue
        return cluster is not None and cluster.active and bool(cluster.checks)

    def _unscheduled_pod_changed(self, change: Change[Pod]) -> None:
        """Reconcile the workload of a pod that needs a node; with a timeout, also once the pod has one."""
        pod = change.new if change.old is None else None
        if pod is None and change.new is None and self._reports_unscheduled:
            pod = change.old
        if pod is not None:
            for workload in workloads_of(pod):
                self.reconciler.enqueue(workload)

    @property
    def _reports_unscheduled(self) -> bool:
        rules = self._configuration.wait_for_pods_ready
        return rules is not None and rules.scheduling_timeout_s is not None

    def _local_queue_changed(self, change: Change[LocalQueue]) -> None:
        if not is_equivalent(change.old, change.new):
            self._enqueue_all(_LOCAL_QUEUE, change.key)

    def _cluster_queue_changed(self, change: Change[ClusterQueue]) -> None:
        if is_equivalent(change.old, change.new):
            return
        name = change.key.name
        self._enqueue_all(_CLUSTER_QUEUE, name)
        for queue in self._informers.local_queues.by_index(POINTS_TO, name):
            self._enqueue_all(_LOCAL_QUEUE, queue.metadata.key)

    def _namespace_changed(self, change: Change[Namespace]) -> None:
        self._enqueue_all(_NAMESPACE, change.key.name)

    def _limit_range_changed(self, change: Change[LimitRange]) -> None:
        self._enqueue_all(_NAMESPACE, change.key.namespace)

    def _enqueue_all(self, index: str, value: Key | str) -> None:
        for workload in self._informers.workloads.by_index(index, value):
            self.reconciler.enqueue(workload.metadata.key)

    def reconcile(self, key: Key) -> Awaitable[NextRun] | NextRun:
        workload = self._informers.workloads.get(key)
        if workload is None:
            return None
        transition = self._decide(workload)
        writes = _writes(workload, transition)  # after most changes there are none
        is_done = not writes and not transition.events
        return transition.wake_at if is_done else self._carry_out(workload, transition, writes)

    def _decide(self, workload: Workload) -> Transition:
        key, configuration = workload.metadata.key, self._configuration
        pods = self._informers.unscheduled_pods
        return decide_workload(
            workload,
            self._state.queue_view(workload),
            configuration,
            self._clock.now(),
            self._rng.random(),
            None if configuration.wait_for_pods_ready is None else unscheduled_since(pods, key),
            self._state.replaced_by(key),
        )

    async def _carry_out(self, workload: Workload, transition: Transition, writes: list[Write]) -> NextRun:
        await send(self._client, writes)
        for event in transition.events:
            regarding = reference_to(WORKLOADS, workload.metadata)
            self._events.event(regarding, event.type, event.reason, event.message)
            self._log.info("event", key=workload.metadata.key, reason=event.reason, detail=event.message)
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


class PriorityController:
    """Copies a changed value of a WorkloadPriorityClass to its workloads, pending or admitted."""

    def __init__(self, context: ControllerContext) -> None:
        self._client = context.client
        self._informers = informers = context.informers
        self.reconciler = context.reconciler(
            "priorities", self.reconcile, informers.workload_classes, FEW_WORKERS
        )
        informers.workloads.add_index(_PRIORITY_CLASS, _priority_class_of)
        informers.workload_classes.subscribe(self._class_changed)

    def _class_changed(self, change: Change[WorkloadPriorityClass]) -> None:
        self.reconciler.enqueue(change.key)

    async def reconcile(self, key: Key) -> None:
        priority_class = self._informers.workload_classes.get(key)
        if priority_class is None:
            return  # its workloads keep their priority
        body = {"spec": {"priority": priority_class.value}}
        for workload in self._informers.workloads.by_index(_PRIORITY_CLASS, key.name):
            if workload.spec.priority != priority_class.value and not is_finished(workload):
                metadata = workload.metadata
                await send(self._client, [Patch(WORKLOADS, metadata.key, metadata.resource_version, body)])


def _priority_class_of(workload: Workload) -> tuple[str, ...]:
    """Return the class that the priority follows; empty for a copy: its class is in the manager cluster."""
    ref = workload.spec.priority_class_ref
    is_copy = ORIGIN in workload.metadata.labels
    return (ref.name,) if ref is not None and ref.group == GROUP and not is_copy else ()
