"""The protection of Kubernetes' own pod groups that are in use."""

from contextlib import suppress
from typing import Final

from quorate.api.core.scheduling import SchedulingGroup
from quorate.api.meta import Key, ObjectMeta, Struct
from quorate.api.native_groups import PROTECTION_FINALIZER, PodGroup
from quorate.kube.client import PatchKind
from quorate.kube.errors import NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import NATIVE_POD_GROUPS, Resource
from quorate.local.controllers.controller import Controller, ControllerContext


class GroupedPodSpec(Struct):
    scheduling_group: SchedulingGroup = SchedulingGroup()


class PodPhase(Struct):
    phase: str = ""


class GroupedPod(Struct):
    metadata: ObjectMeta
    spec: GroupedPodSpec = GroupedPodSpec()
    status: PodPhase = PodPhase()


PODS: Final = Resource("", "v1", "pods", "Pod", True, GroupedPod)


class PodGroupProtectionController(Controller):
    """Lets a deleted pod group go once no active pod refers to it.  The caller runs the informers."""

    def __init__(
        self, context: ControllerContext, groups: Informer[PodGroup], pods: Informer[GroupedPod]
    ) -> None:
        super().__init__("pod-group-protection", context, groups, pods)
        self._groups, self._pods = groups, pods
        pods.add_index("group", _active_group)
        groups.subscribe(lambda change: self._reconciler.enqueue(change.key))
        pods.subscribe(self._on_pod)

    def _on_pod(self, change: Change[GroupedPod]) -> None:
        for pod in change.versions:
            if name := pod.spec.scheduling_group.pod_group_name:
                self._reconciler.enqueue(Key(change.key.namespace, name))

    async def reconcile(self, key: Key) -> None:
        """Remove the finalizer of a group that is deleted and unused."""
        group = self._groups.get(key)
        if group is None or group.metadata.deletion_timestamp is None:
            return
        if PROTECTION_FINALIZER not in group.metadata.finalizers or self._pods.by_index("group", key):
            return
        removal = {"uid": group.metadata.uid, "$deleteFromPrimitiveList/finalizers": [PROTECTION_FINALIZER]}
        with suppress(NotFound):
            await self._client.patch(NATIVE_POD_GROUPS, key, {"metadata": removal}, kind=PatchKind.STRATEGIC)


def _active_group(pod: GroupedPod) -> list[Key]:
    name = pod.spec.scheduling_group.pod_group_name
    has_ended = pod.status.phase in ("Succeeded", "Failed")
    return [Key(pod.metadata.namespace, name)] if name and not has_ended else []
