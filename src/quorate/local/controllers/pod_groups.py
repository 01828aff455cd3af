"""The protection of Kubernetes' own pod groups that are in use."""

from contextlib import suppress

from quorate.api.core import Pod
from quorate.api.meta import Key
from quorate.api.native_groups import PROTECTION_FINALIZER, PodGroup
from quorate.kube.client import PatchKind
from quorate.kube.errors import NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import NATIVE_POD_GROUPS
from quorate.local.controllers.controller import Controller, ControllerContext
from quorate.local.controllers.pod_control import is_pod_finished


class PodGroupProtectionController(Controller):
    """Removes the finalizer of a deleted pod group once no active pod refers to the group."""

    def __init__(self, context: ControllerContext, pods: Informer[Pod], groups: Informer[PodGroup]) -> None:
        super().__init__("pod-group-protection", context, groups, pods)
        self._groups, self._pods = groups, pods
        pods.add_index("group", lambda pod: () if is_pod_finished(pod) else _groups(pod))
        groups.subscribe(lambda change: self._reconciler.enqueue(change.key))
        pods.subscribe(self._on_pod)

    def _on_pod(self, change: Change[Pod]) -> None:
        for pod in change.versions:
            for group in _groups(pod):
                self._reconciler.enqueue(group)

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


def _groups(pod: Pod) -> tuple[Key, ...]:
    named = pod.spec.scheduling_group
    return () if named is None else (Key(pod.metadata.namespace, named.pod_group_name),)
