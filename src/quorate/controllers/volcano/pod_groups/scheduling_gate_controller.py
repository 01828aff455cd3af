"""Taking the gates off pods that were made too early, once their pod group is admitted.

By what is stored, whoever set the gates and whenever: a group may be admitted while nobody looks.
"""

from collections.abc import Sequence
from typing import Final

from quorate.api.meta import Key
from quorate.api.volcano import PodGroup
from quorate.controllers.context import ControllerContext
from quorate.controllers.volcano.job.job_pod_group import is_waiting
from quorate.controllers.volcano.pod_groups.group_pod import GROUP_PODS, GroupPod
from quorate.controllers.volcano.pod_groups.scheduling_gates import is_gated, ungate
from quorate.kube.errors import NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.reconcile import Reconciler
from quorate.kube.writes import send

WORKERS: Final = 16
_HELD: Final = "held back"  # index of pods with a gate of ours by the key of their group


class SchedulingGateController:
    """Looks after the pods of several schedulers' names, each with an informer of its own."""

    def __init__(
        self, context: ControllerContext, pods: Sequence[Informer[GroupPod]], groups: Informer[PodGroup]
    ) -> None:
        self._client = context.client
        self._pods = pods
        self._groups = groups
        workers = context.workers_for(GROUP_PODS, WORKERS)
        self.reconciler = Reconciler("volcano.gates", self.reconcile, context.clock, workers)
        for informer in pods:
            informer.add_index(_HELD, lambda pod: (pod.group_key,) if is_gated(pod) else ())
            informer.subscribe(self._pod_changed)
        groups.subscribe(self._group_changed)

    def _pod_changed(self, change: Change[GroupPod]) -> None:
        if change.new is not None and is_gated(change.new):
            self.reconciler.enqueue(change.key)

    def _group_changed(self, change: Change[PodGroup]) -> None:
        if is_waiting(change.new):
            return
        for informer in self._pods:
            for pod in informer.by_index(_HELD, change.key):
                self.reconciler.enqueue(pod.metadata.key)

    async def reconcile(self, key: Key) -> None:
        pod = next((pod for each in self._pods if (pod := each.get(key)) is not None), None)
        patch = None if pod is None else ungate(pod, self._groups.get(pod.group_key))
        if patch is None:
            return
        try:
            await send(self._client, (patch,))
        except NotFound:
            return  # it went meanwhile
