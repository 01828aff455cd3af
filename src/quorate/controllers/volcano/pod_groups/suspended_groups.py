"""The end of a suspended pod group: its pods that have a node are deleted, and the stop is marked complete.

Pods without a node stay: they wait, and a plain pod would be lost.
"""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Final

from quorate.api.configuration.integrations import VOLCANO_JOB
from quorate.api.core.pod import Pod
from quorate.api.meta import Key
from quorate.api.names.volcano import SUSPENDED
from quorate.api.volcano import PodGroup
from quorate.api.volcano.job import GROUP as JOB_GROUP
from quorate.controllers.context import ControllerContext
from quorate.controllers.limits import FEW_WORKERS
from quorate.controllers.volcano.job.quota_admission import is_stopping, stop_completed
from quorate.controllers.volcano.pod_groups.pod_group_builder import POD_GROUP_PREFIX
from quorate.controllers.volcano.pod_groups.pod_group_controller import BY_GROUP
from quorate.kube.errors import NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import PLACEABLE_PODS
from quorate.kube.selection import Selection
from quorate.kube.writes import Delete, send

_PLACED: Final = "placed pods"  # index of pods with a node that have not finished, by the key of their group


class SuspendedGroupController:
    """Deletes the placed pods of suspended groups; ``pods``: the informers of the pod group controller."""

    def __init__(
        self, context: ControllerContext, pods: Sequence[Selection[Pod]], groups: Informer[PodGroup]
    ) -> None:
        self._client = context.client
        self._pods = pods
        self._groups = groups
        self.reconciler = context.reconciler("volcano.suspended", self.reconcile, groups, FEW_WORKERS)
        jobs_are_queued = VOLCANO_JOB in context.configuration.integrations.frameworks
        for informer in pods:
            informer.add_index(_PLACED, partial(group_of_placed, jobs_are_queued=jobs_are_queued))
            informer.subscribe(self._pod_changed)
        groups.subscribe(self._group_changed)

    def _group_changed(self, change: Change[PodGroup]) -> None:
        if change.new is not None and _is_suspended(change.new):
            self.reconciler.enqueue(change.key)

    def _pod_changed(self, change: Change[Pod]) -> None:
        for pod in change.versions:
            group = self._groups.get(pod.group_key)
            if group is not None and _is_suspended(group):
                self.reconciler.enqueue(group.metadata.key)

    async def reconcile(self, key: Key) -> None:
        group = self._groups.get(key)
        if group is None or not _is_suspended(group):
            return
        pods = [pod for informer in self._pods for pod in _placed_pods(informer, key)]
        for pod in pods:
            metadata = pod.metadata
            if metadata.deletion_timestamp is None:
                await self._send(Delete(PLACEABLE_PODS, metadata.key, metadata.uid))
        if not pods and is_stopping(group):
            await self._send(stop_completed(group))

    async def _send(self, write: Any) -> None:
        with suppress(NotFound):  # deleted in the meantime
            await send(self._client, (write,))


def _is_suspended(group: PodGroup) -> bool:
    return group.metadata.annotations.get(SUSPENDED) == "true"


def _placed_pods(pods: Selection[Pod], group: Key) -> Iterator[Pod]:
    yield from pods.by_index(_PLACED, group)
    if group.name.startswith(POD_GROUP_PREFIX):
        yield from (pod for pod in pods.by_index(BY_GROUP, group) if pod.uses_node)


def group_of_placed(pod: Pod, *, jobs_are_queued: bool) -> tuple[Key, ...]:
    """Return the group of a placed pod.

    None for pods of groups that are made for plain pods: they have an index already.  None for pods of
    Volcano Jobs that are queued themselves: their groups are never suspended.
    """
    if not pod.group_name or not pod.uses_node or pod.group_name.startswith(POD_GROUP_PREFIX):
        return ()
    owner = pod.metadata.controller
    is_of_job = owner is not None and owner.api_version.startswith(f"{JOB_GROUP}/")
    return () if is_of_job and jobs_are_queued else (pod.group_key,)
