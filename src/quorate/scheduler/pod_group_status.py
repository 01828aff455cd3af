"""Writes of pod groups: phase, conditions and counts in the status, and our annotations.

Each write carries the version of the object it was decided on, because the definition of a pod group has no
status subresource and the whole object is written.  A write of another client in between causes a conflict;
the latest decision is then patched onto the new version.  A status that is stored already is not written.

An admission and its withdrawal are written at once, because operators act on them.  Everything else
(running, conditions, counts) is delayed, because one write often covers several changes, and longer while
binds are queued: a status costs the server as much as a few binds.
The admission of a group with members that have nodes and wait to be bound is not urgent either: it
waits until no binds are queued, and is most often replaced by the write that reports the group as running.
No withdrawal is written while a member is being bound, as in place of one that failed (profile ``compat``):
the job controller deletes pods without a node of a group that is Pending.
"""

from collections.abc import Collection, Iterable
from typing import Any, Final

from quorate.api.meta import Key
from quorate.api.volcano import INQUEUE, PENDING, PodGroup, PodGroupStatus
from quorate.gang.cache.model import Model
from quorate.gang.cache.task import TaskStatus
from quorate.gang.outcome import GangStatus
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.controller.latest import LatestValueWriter
from quorate.kube.errors import NotFound
from quorate.kube.informer import Informer
from quorate.kube.patches import merge_patch
from quorate.kube.resources import POD_GROUPS
from quorate.scheduler.bind_gate import BindGate, WritesAfterBinds
from quorate.scheduler.limits import GROUP_WORKERS, STATUS_DELAY_S

URGENT_PHASES: Final = (INQUEUE, PENDING)


class PodGroupStatusWriter:
    """``subresource``: where the installed definition has the status ("" or "status")."""

    def __init__(
        self,
        client: Client,
        clock: Clock,
        groups: Informer[PodGroup],
        model: Model,
        gate: BindGate,
        *,
        subresource: str,
    ) -> None:
        self._client = client
        self._groups = groups
        self._model = model
        self._subresource = subresource
        self._writer = LatestValueWriter("pod group statuses", self._write, clock, workers=GROUP_WORKERS)
        self._after_binds = WritesAfterBinds(self._writer, gate)

    async def run(self) -> None:
        await self._writer.run()

    def write(self, statuses: Iterable[GangStatus], being_bound: Collection[Key]) -> None:
        """Write each status within its delay; ``being_bound``: groups with members that were just placed."""
        for status in statuses:
            key, group = status.gang, self._groups.get(status.gang)
            is_urgent = group is None or (
                status.phase in URGENT_PHASES and group.status.phase != status.phase
            )
            delay_s = 0.0 if is_urgent else STATUS_DELAY_S
            self._after_binds.put(key, status, delay_s, can_wait=not is_urgent or key in being_bound)

    async def _write(self, key: Key, status: GangStatus) -> None:
        group = self._groups.get(key)
        if group is None or group.metadata.uid != status.uid:
            return
        if status.phase == PENDING and self._is_being_bound(key):
            self._after_binds.put(key, status, STATUS_DELAY_S)
            return
        try:
            written = await self._patch(group, status)
        except NotFound:
            return  # the group was deleted
        self._model.assumed.status_written(status, written.metadata)

    def _is_being_bound(self, key: Key) -> bool:
        gang = self._model.gangs.get(key)
        return gang is not None and gang.task_counts.by_status[TaskStatus.BINDING] > 0

    async def _patch(self, group: PodGroup, status: GangStatus) -> PodGroup:
        """Return the group as stored, which is ``group`` itself if there is nothing to write."""
        key = group.metadata.key
        difference = _status_difference(group, status)
        body = {"status": difference} if difference else {}
        annotations = _changed_annotations(group, status)
        if self._subresource and body:
            group = await self._client.patch(
                POD_GROUPS, key, _versioned(group, body), subresource=self._subresource
            )
            body = {}
        if body or annotations:
            group = await self._client.patch(POD_GROUPS, key, _versioned(group, body, annotations))
        return group


def _versioned(
    group: PodGroup, body: dict[str, Any], annotations: dict[str, str | None] | None = None
) -> dict[str, Any]:
    metadata: dict[str, Any] = {"resourceVersion": group.metadata.resource_version}
    if annotations:
        metadata["annotations"] = annotations
    return {"metadata": metadata, **body}


def _status_difference(group: PodGroup, status: GangStatus) -> dict[str, Any]:
    counts = status.counts
    wanted = PodGroupStatus(
        phase=status.phase,
        conditions=status.conditions,
        running=counts.running,
        succeeded=counts.succeeded,
        failed=counts.failed,
    )
    return merge_patch(group.status, wanted)


def _changed_annotations(group: PodGroup, status: GangStatus) -> dict[str, str | None]:
    stored = group.metadata.annotations
    decided = status.admission.annotations()
    return {name: value for name, value in decided.items() if stored.get(name) != value}
