"""Saying on pods why they have no node: the condition PodScheduled, which people and autoscalers look at.

Nodes that are short are said in the word that autoscalers wait for, Unschedulable.  What more nodes would not
help (a queue's share, a namespace's quota) has the word of its verdict, so that nobody adds nodes for it; and
who is promised nodes that others have still to leave is Schedulable.

A gang of thousands waits for one reason, and the numbers in it may be others at every session.  So its pods
are told when they come, when the word changes, and of other numbers once a minute at most.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from quorate.api.core.scheduling import Pod
from quorate.api.meta import Key, at_epoch
from quorate.gang.model import Model
from quorate.gang.task import Standing
from quorate.gang.verdicts import AwaitsRoom, GangUnschedulable, NotEnoughResources, Verdict
from quorate.kube.client import Client, PatchKind
from quorate.kube.clock import Clock
from quorate.kube.errors import Conflict, NotFound
from quorate.kube.events import EventRecorder
from quorate.kube.informer import Informer
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import PLACEABLE_PODS, reference_to

REPEATED_AFTER_S: Final = 60.0
WORKERS: Final = 4  # few: binds go before
UNSCHEDULABLE: Final = "Unschedulable"
SCHEDULABLE: Final = "Schedulable"
SCHEDULED: Final = "PodScheduled"


@dataclass(frozen=True, slots=True)
class _Said:
    reason: str
    text: str
    members: int  # pending ones when it was said
    at: float


class PodConditionWriter:
    def __init__(
        self, client: Client, clock: Clock, events: EventRecorder, pods: Informer[Pod], model: Model
    ) -> None:
        self._client = client
        self._clock = clock
        self._events = events
        self._pods = pods
        self._model = model
        self._said: dict[Key, _Said] = {}  # of each gang that waits: what its pods are to be told
        self._gang_of: dict[Key, Key] = {}  # of each pod that is to be told and was not yet
        self._reconciler = Reconciler("pod conditions", self._tell, clock, workers=WORKERS)

    async def run(self) -> None:
        await self._reconciler.run()

    def say(self, verdicts: Mapping[Key, Verdict]) -> None:
        """Have the pending pods of each gang told its verdict; who has none waits no longer."""
        now = self._clock.now()
        for key in self._said.keys() - verdicts.keys():
            del self._said[key]
        for key, verdict in verdicts.items():
            gang = self._model.gangs.get(key)
            members = 0 if gang is None else gang.tally.of[Standing.PENDING]
            if gang is None or not members:
                self._said.pop(key, None)
                continue
            before = self._said.get(key)
            said = _Said(reason_of(verdict), str(verdict), members, now)
            if before is not None and before.reason == said.reason:
                if before.text == said.text and before.members == members:
                    continue
                if before.members == members and now < before.at + REPEATED_AFTER_S:
                    continue
            self._said[key] = said
            for task in gang.with_standing(Standing.PENDING):
                self._gang_of[task.key] = key
                self._reconciler.enqueue(task.key)

    async def _tell(self, key: Key) -> None:
        gang = self._gang_of.pop(key, None)
        pod = self._pods.get(key)
        said = None if gang is None else self._said.get(gang)
        if pod is None or said is None or pod.node_name:
            return
        told = next((each for each in pod.status.conditions if each.type == SCHEDULED), None)
        if told is not None and (told.status, told.reason, told.message) == ("False", said.reason, said.text):
            return
        condition = {
            "type": SCHEDULED,
            "status": "False",
            "reason": said.reason,
            "message": said.text,
            "lastTransitionTime": at_epoch(self._clock.now()).isoformat().replace("+00:00", "Z"),
        }
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch(
                PLACEABLE_PODS, key, patch, subresource="status", kind=PatchKind.STRATEGIC
            )
        except (NotFound, Conflict):
            return  # gone, or another pod by the name
        about = reference_to(PLACEABLE_PODS, pod)
        self._events.event(about, "Warning", "FailedScheduling", said.text, action="Scheduling")


def reason_of(verdict: Verdict) -> str:
    match verdict:
        case NotEnoughResources() | GangUnschedulable():
            return UNSCHEDULABLE
        case AwaitsRoom():
            return SCHEDULABLE
        case _:
            return verdict.reason
