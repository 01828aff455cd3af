"""Telling of what is named and is not there: the queue of a pod group, the pod group of a pod.

No session looks at such groups and pods, so that nothing else would ever say why they wait.  What they name
may be about to come: it is made at the same time, and heard of a moment later.
"""

from collections.abc import Collection, Iterator
from typing import Final

from quorate.api.core.scheduling import Pod
from quorate.api.events import ObjectReference
from quorate.api.meta import Key, ObjectMeta
from quorate.api.volcano import DEFAULT_QUEUE, PodGroup, Queue
from quorate.api.volcano.annotations import GROUP_NAME
from quorate.gang.model import Model
from quorate.gang.reading import group_of
from quorate.gang.task import Standing
from quorate.kube.clock import Clock
from quorate.kube.events import EventRecorder
from quorate.kube.informer import Change, Informer
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import PLACEABLE_PODS, POD_GROUPS, reference_to

TOLD_AFTER_S: Final = 2.0


class MissingReferences:
    """To be made after those who feed ``model`` from the informers, and run once they have synced."""

    def __init__(
        self,
        clock: Clock,
        events: EventRecorder,
        model: Model,
        pods: Informer[Pod],
        groups: Informer[PodGroup],
        queues: Informer[Queue],
        schedulers: Collection[str],
    ) -> None:
        self._events = events
        self._model = model
        self._pods = pods
        self._groups = groups
        self._schedulers = schedulers
        self._of_groups = Reconciler("queues that are missed", self._tell_group, clock, workers=1)
        self._of_pods = Reconciler("pod groups that are missed", self._tell_pod, clock, workers=1)
        pods.subscribe(self._on_pod)
        groups.subscribe(self._on_group)
        queues.subscribe(self._on_queue)

    @property
    def reconcilers(self) -> tuple[Reconciler, ...]:
        """Which are to be run."""
        return (self._of_groups, self._of_pods)

    def _on_pod(self, change: Change[Pod]) -> None:
        if change.new is not None and self._missed_by(change.new) is not None:
            self._of_pods.enqueue_in(change.key, TOLD_AFTER_S)

    def _on_group(self, change: Change[PodGroup]) -> None:
        if change.new is not None:
            if _queue_of(change.new) not in self._model.queues:
                self._of_groups.enqueue_in(change.key, TOLD_AFTER_S)
        elif (left := self._model.gangs.get(change.key)) is not None:
            for task in left.with_standing(Standing.PENDING):
                self._of_pods.enqueue_in(task.key, TOLD_AFTER_S)

    def _on_queue(self, change: Change[Queue]) -> None:
        if change.new is None:
            for group in self._groups:
                if _queue_of(group) == change.key.name:
                    self._of_groups.enqueue_in(group.metadata.key, TOLD_AFTER_S)

    def _missed_by(self, pod: Pod) -> Key | None:
        """The pod group that ``pod`` waits for, if there is none of that name."""
        group = group_of(pod, self._schedulers)
        if group is None or pod.node_name or pod.metadata.deletion_timestamp is not None:
            return None
        return group if self._groups.get(group) is None else None

    async def _tell_pod(self, key: Key) -> None:
        pod = self._pods.get(key)
        group = None if pod is None else self._missed_by(pod)
        if pod is not None and group is not None:
            about = reference_to(PLACEABLE_PODS, pod)
            said = (
                f"pod group {group} does not exist, and this pod is placed with it "
                f"(create it, or take away the annotation {GROUP_NAME})"
            )
            self._events.event(about, "Warning", "FailedScheduling", said, "Scheduling", unique=True)

    async def _tell_group(self, key: Key) -> None:
        group = self._groups.get(key)
        if group is None or (queue := _queue_of(group)) in self._model.queues:
            return
        said = f"queue {queue} does not exist (create it, or name one that kubectl get queues lists)"
        for about in (reference_to(POD_GROUPS, group), *_owners(group.metadata)):
            self._events.event(about, "Warning", "QueueNotFound", said, unique=True)


def _queue_of(group: PodGroup) -> str:
    return group.spec.queue or DEFAULT_QUEUE


def _owners(metadata: ObjectMeta) -> Iterator[ObjectReference]:
    """Whom users look at: the job that the group was made for."""
    for owner in metadata.owner_references:
        if owner.controller:
            yield ObjectReference(
                api_version=owner.api_version,
                kind=owner.kind,
                name=owner.name,
                namespace=metadata.namespace,
                uid=owner.uid,
            )
