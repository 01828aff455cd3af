"""Scheduling gates on pods of pending pod groups, and their removal on admission.

The controller decides by the stored objects, independently of when the gates were set and by which component:
a group may be admitted while no controller runs.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from quorate.api.core.pod import Pod
from quorate.api.meta import Key
from quorate.api.names import volcano as names
from quorate.api.volcano import PodGroup
from quorate.controllers.context import ControllerContext
from quorate.controllers.limits import WORKERS
from quorate.controllers.volcano.job.job_pod_group import awaits_admission
from quorate.kube.errors import NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import PLACEABLE_PODS
from quorate.kube.selection import Selection
from quorate.kube.writes import Patch, send

_GATED: Final = "gated pods"  # index of pods with a gate to remove, by the key of their group


def gate_for(annotations: Mapping[str, str], group: PodGroup | None) -> str:
    """Return the gate to add to a new pod of a gang scheduler; empty if it needs none.

    ``group``: the pod group that the pod names, if it exists.  A pod that requests Volcano's gate need not
    name a group: one is created for it.
    """
    requests_gate = names.requests_queue_allocation_gate(annotations)
    if not awaits_admission(group) or not (requests_gate or annotations.get(names.GROUP_NAME)):
        return ""
    return names.QUEUE_ALLOCATION_GATE if requests_gate else names.POD_GROUP_GATE


def is_gated(pod: Pod) -> bool:
    """Return True if the pod has a gate that is removed when its group is admitted."""
    annotations = pod.metadata.annotations
    return any(names.is_removed_on_admission(gate.name, annotations) for gate in pod.spec.scheduling_gates)


def ungate(pod: Pod, group: PodGroup | None) -> Patch | None:
    """Return the patch that removes the pod's gates if its group is admitted; other gates stay.

    The gates are also removed if the group is completed: without gates, its pods would be scheduled as well.
    """
    if awaits_admission(group) or not is_gated(pod):
        return None
    metadata = pod.metadata
    left = [
        gate
        for gate in pod.spec.scheduling_gates
        if not names.is_removed_on_admission(gate.name, metadata.annotations)
    ]
    body = {"spec": {"schedulingGates": left or None}}
    return Patch(PLACEABLE_PODS, metadata.key, metadata.resource_version, body)


class SchedulingGateController:
    """Removes the gates of pods once their group is admitted."""

    def __init__(
        self, context: ControllerContext, pods: Sequence[Selection[Pod]], groups: Informer[PodGroup]
    ) -> None:
        self._client = context.client
        self._pods = pods
        self._groups = groups
        self.reconciler = context.reconciler("volcano.gates", self.reconcile, groups, WORKERS, PLACEABLE_PODS)
        for informer in pods:
            informer.add_index(_GATED, lambda pod: (pod.group_key,) if is_gated(pod) else ())
            informer.subscribe(self._pod_changed)
        groups.subscribe(self._group_changed)

    def _pod_changed(self, change: Change[Pod]) -> None:
        if change.new is not None and is_gated(change.new):
            self.reconciler.enqueue(change.key)

    def _group_changed(self, change: Change[PodGroup]) -> None:
        if awaits_admission(change.new):
            return
        for informer in self._pods:
            for pod in informer.by_index(_GATED, change.key):
                self.reconciler.enqueue(pod.metadata.key)

    async def reconcile(self, key: Key) -> None:
        pod = next((pod for informer in self._pods if (pod := informer.get(key)) is not None), None)
        patch = None if pod is None else ungate(pod, self._groups.get(pod.group_key))
        if patch is None:
            return
        with suppress(NotFound):  # deleted in the meantime
            await send(self._client, (patch,))
