"""Reports of references to objects that do not exist: the queue of a pod group, the pod group of a pod.

Sessions ignore such groups and pods, so that nothing else reports why they wait: an event does, and the
condition of the pod, which otherwise tells what its deleted group waited for.  The report is delayed, because
the missing object is often created at the same time and seen a moment later.
"""

from collections.abc import Collection, Iterator

from quorate.api.core.pod import Pod
from quorate.api.events import ObjectReference
from quorate.api.meta import Key, ObjectMeta
from quorate.api.names.volcano import GROUP_NAME
from quorate.api.volcano import PodGroup, Queue
from quorate.gang.cache.from_objects import pod_group_key
from quorate.gang.cache.model import Model
from quorate.gang.cache.native_groups import native_name
from quorate.gang.cache.task import TaskStatus
from quorate.kube.clock import Clock
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.events import EventRecorder
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import PLACEABLE_PODS, POD_GROUPS, reference_to
from quorate.scheduler.limits import REPORT_DELAY_S
from quorate.scheduler.pod_conditions import PodConditionWriter


class MissingReferences:
    """Create it after the feeds of ``model`` are subscribed, and run it once the informers have synced."""

    def __init__(
        self,
        clock: Clock,
        events: EventRecorder,
        model: Model,
        pods: Informer[Pod],
        groups: Informer[PodGroup],
        queues: Informer[Queue],
        schedulers: Collection[str],
        conditions: PodConditionWriter,
    ) -> None:
        self._conditions = conditions
        self._events = events
        self._model = model
        self._pods = pods
        self._groups = groups
        self._schedulers = schedulers
        self._group_reports = Reconciler("missing queues", self._report_group, clock, workers=1)
        self._pod_reports = Reconciler("missing pod groups", self._report_pod, clock, workers=1)
        pods.subscribe(self._on_pod)
        groups.subscribe(self._on_group)
        queues.subscribe(self._on_queue)

    @property
    def reconcilers(self) -> tuple[Reconciler, ...]:
        """The reconcilers to run."""
        return (self._group_reports, self._pod_reports)

    def _on_pod(self, change: Change[Pod]) -> None:
        if change.new is not None and self._missing_group(change.new) is not None:
            self._pod_reports.enqueue_in(change.key, REPORT_DELAY_S)

    def _on_group(self, change: Change[PodGroup]) -> None:
        if change.new is not None:
            if change.new.queue_name not in self._model.queues:
                self._group_reports.enqueue_in(change.key, REPORT_DELAY_S)
        elif (orphaned := self._model.gangs.get(change.key)) is not None:
            for task in orphaned.with_status(TaskStatus.PENDING):
                self._pod_reports.enqueue_in(task.key, REPORT_DELAY_S)

    def _on_queue(self, change: Change[Queue]) -> None:
        if change.new is None:
            for group in self._groups:
                if group.queue_name == change.key.name:
                    self._group_reports.enqueue_in(group.metadata.key, REPORT_DELAY_S)

    def _missing_group(self, pod: Pod) -> Key | None:
        """Return the pod group that ``pod`` waits for, if it does not exist."""
        group = pod_group_key(pod, self._schedulers)
        if group is None or pod.node_name or pod.metadata.deletion_timestamp is not None:
            return None
        if native_name(group) is not None:
            gang = self._model.gangs.get(group)
            return None if gang is not None and gang.exists else group
        return group if self._groups.get(group) is None else None

    async def _report_pod(self, key: Key) -> None:
        pod = self._pods.get(key)
        group = None if pod is None else self._missing_group(pod)
        if pod is not None and group is not None:
            regarding = reference_to(PLACEABLE_PODS, pod.metadata)
            remedy = "" if native_name(group) else f", or remove the annotation {GROUP_NAME}"
            message = f"pod group {group} does not exist, and this pod is placed with it (create it{remedy})"
            self._events.event(regarding, "Warning", "FailedScheduling", message, "Scheduling", unique=True)
            if not pod.spec.scheduling_gates:
                await self._conditions.write_one(pod, "PodGroupNotFound", message)

    async def _report_group(self, key: Key) -> None:
        group = self._groups.get(key)
        if group is None or (queue := group.queue_name) in self._model.queues:
            return
        message = f"queue {queue} does not exist (create it, or name one that kubectl get queues lists)"
        for regarding in (reference_to(POD_GROUPS, group.metadata), *_owners(group.metadata)):
            self._events.event(regarding, "Warning", "QueueNotFound", message, unique=True)


def _owners(metadata: ObjectMeta) -> Iterator[ObjectReference]:
    """Yield the controller of a pod group: the job on which users look for events."""
    for owner in metadata.owner_references:
        if owner.controller:
            yield ObjectReference(
                api_version=owner.api_version,
                kind=owner.kind,
                name=owner.name,
                namespace=metadata.namespace,
                uid=owner.uid,
            )
