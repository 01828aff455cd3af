"""Writes of the pod condition PodScheduled=False, which users and autoscalers read.

The reason is Unschedulable only if more nodes would help, because autoscalers act on that word.  A shortage
that nodes do not cure (the share of a queue, the quota of a namespace) has a reason of its own, and
a gang that waits for evicted pods to leave its nodes has the reason Schedulable.  A pod with scheduling gates
keeps the API server's SchedulingGated: nodes do not help it either.

All pods of a gang, possibly thousands, wait for one reason, and its numbers may change with every session.
A pod's condition is therefore written when the pod is new and when the reason changes, for another text at
most once per ``CONDITION_REWORDED_S``, and for other numbers or names in it at most once per
``CONDITION_REPEATED_S``.  What is not written at once is written then, whether or not there are sessions.
"""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from quorate.api.core.pod import Pod
from quorate.api.events import ObjectReference
from quorate.api.meta import Key, ObjectMeta, at_epoch
from quorate.api.names.volcano import GROUP_NAME
from quorate.api.volcano import PodGroup, Queue
from quorate.gang import pending_reasons as r
from quorate.gang.cache.from_objects import pod_group_key
from quorate.gang.cache.model import Model
from quorate.gang.cache.native_groups import native_name
from quorate.gang.cache.task import TaskStatus
from quorate.kube.client import Client, PatchKind
from quorate.kube.clock import Clock
from quorate.kube.controller.latest import LatestValueWriter
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import Conflict, NotFound
from quorate.kube.events import EventRecorder
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import PLACEABLE_PODS, POD_GROUPS, reference_to
from quorate.scheduler.limits import CONDITION_REPEATED_S, CONDITION_REWORDED_S, FEW_WORKERS, REPORT_DELAY_S

UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULABLE: Final = "Schedulable"
SCHEDULED: Final = "PodScheduled"
_NUMBERS_AND_NAMES: Final = re.compile(r'"[^"]*"|\d+')


@dataclass(frozen=True, slots=True)
class GangCondition:
    reason: str
    message: str
    pending: int  # pods without a node at that time
    at: float  # when it is or was written


class PodConditionWriter:
    def __init__(
        self, client: Client, clock: Clock, events: EventRecorder, pods: Informer[Pod], model: Model
    ) -> None:
        self._client = client
        self._clock = clock
        self._events = events
        self._pods = pods
        self._model = model
        self._conditions: dict[Key, GangCondition] = {}  # by gang that waits
        # By pod: its gang.  The condition of the gang is read when the pod is written.
        self._writer = LatestValueWriter("pod conditions", self._write, clock, workers=FEW_WORKERS)

    async def run(self) -> None:
        await self._writer.run()

    def write(self, pending_reasons: Mapping[Key, r.PendingReason]) -> None:
        """Write the reason of each gang to its pending pods; a gang without a reason no longer waits."""
        now = self._clock.now()
        for key in self._conditions.keys() - pending_reasons.keys():
            del self._conditions[key]
        for key, pending_reason in pending_reasons.items():
            gang = self._model.gangs.get(key)
            pending = 0 if gang is None else gang.task_counts.by_status[TaskStatus.PENDING]
            if gang is None or not pending:
                self._conditions.pop(key, None)
                continue
            old = self._conditions.get(key)
            new = GangCondition(reason_of(pending_reason), str(pending_reason), pending, now)
            at = write_at(old, new)
            if at is None:
                continue
            self._conditions[key] = replace(new, at=at)
            if old is None or at != old.at:
                for task in gang.with_status(TaskStatus.PENDING):
                    self._writer.put(task.key, key, delay_s=at - now)

    async def _write(self, key: Key, gang: Key) -> None:
        pod, wanted = self._pods.get(key), self._conditions.get(gang)
        if pod is None or wanted is None or pod.node_name or pod.spec.scheduling_gates:
            return
        if await self.write_one(pod, wanted.reason, wanted.message):
            regarding = reference_to(PLACEABLE_PODS, pod.metadata)
            self._events.event(regarding, "Warning", "FailedScheduling", wanted.message, action="Scheduling")

    async def write_one(self, pod: Pod, reason: str, message: str) -> bool:
        """Write the condition of ``pod``; return False if it has it, or no longer exists."""
        stored = next((other for other in pod.status.conditions if other.type == SCHEDULED), None)
        if stored is not None and (stored.status, stored.reason, stored.message) == (
            "False",
            reason,
            message,
        ):
            return False
        condition = {
            "type": SCHEDULED,
            "status": "False",
            "reason": reason,
            "message": message,
            "lastTransitionTime": at_epoch(self._clock.now()).isoformat().replace("+00:00", "Z"),
        }
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(
                PLACEABLE_PODS, pod.metadata.key, patch, subresource="status", kind=PatchKind.STRATEGIC
            )
        except (NotFound, Conflict):
            return False  # deleted, or another pod with the same name
        return True


def write_at(old: GangCondition | None, new: GangCondition) -> float | None:
    """Return when to write ``new``; None if it has the same text.  ``new.at`` is the time of the session."""
    if old is None or (old.reason, old.pending) != (new.reason, new.pending):
        return new.at
    if old.message == new.message:
        return None
    reworded = _NUMBERS_AND_NAMES.sub("", old.message) != _NUMBERS_AND_NAMES.sub("", new.message)
    wait_s = CONDITION_REWORDED_S if reworded else CONDITION_REPEATED_S
    return min(old.at, new.at + wait_s) if new.at < old.at else max(new.at, old.at + wait_s)


def reason_of(pending_reason: r.PendingReason) -> str:
    match pending_reason:
        case (
            r.NotEnoughResources()
            | r.NotEnoughNodes()
            | r.AwaitsPlannedStart()
            | r.AwaitsUnplannedStart()
            | r.AwaitsVictimSearch()
            | r.GangUnschedulable()
            | r.FurtherMembersWait()
        ):
            return UNSCHEDULABLE
        case r.AwaitsEvictions():
            return SCHEDULABLE
        case _:
            return pending_reason.reason


class MissingReferences:
    """Reports references to objects that do not exist: the queue of a pod group, the pod group of a pod.

    Sessions ignore such groups and pods, so that nothing else reports why they wait: an event does, and the
    condition of the pod, which otherwise tells what its deleted group waited for.  The report is delayed,
    because the missing object is often created at the same time and seen a moment later.

    Create it after the feeds of ``model`` are subscribed, and run it once the informers have synced.
    """

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
