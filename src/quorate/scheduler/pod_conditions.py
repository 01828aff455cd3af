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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from quorate.api.core.pod import Pod
from quorate.api.meta import Key, at_epoch
from quorate.gang import pending_reasons as r
from quorate.gang.cache.model import Model
from quorate.gang.cache.task import TaskStatus
from quorate.kube.client import Client, PatchKind
from quorate.kube.clock import Clock
from quorate.kube.controller.latest import LatestValueWriter
from quorate.kube.errors import Conflict, NotFound
from quorate.kube.events import EventRecorder
from quorate.kube.informer import Informer
from quorate.kube.resources import PLACEABLE_PODS, reference_to
from quorate.scheduler.limits import CONDITION_REPEATED_S, CONDITION_REWORDED_S, FEW_WORKERS

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
