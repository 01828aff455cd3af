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

import asyncio
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Any, Final

from quorate.api import codec
from quorate.api.meta import Condition, Key, Uid, condition_at
from quorate.api.native_groups import (
    DISRUPTION_TARGET,
    POD_GROUP_SCHEDULED,
    PREEMPTION_BY_SCHEDULER,
    SCHEDULED_TYPES,
    SCHEDULER_ERROR,
)
from quorate.api.native_groups import PodGroup as NativePodGroup
from quorate.api.volcano import INQUEUE, PENDING, PodGroup, PodGroupStatus
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.model import Model
from quorate.gang.cache.native_groups import native_name, scheduled_condition
from quorate.gang.cache.task import TaskStatus
from quorate.gang.outcome import Eviction, GangStatus
from quorate.kube.client import Client, PatchKind
from quorate.kube.clock import Clock
from quorate.kube.controller.latest import LatestValueWriter
from quorate.kube.errors import Conflict, NotFound
from quorate.kube.informer import Informer
from quorate.kube.patches import merge_patch
from quorate.kube.resources import NATIVE_POD_GROUPS, POD_GROUPS, Resource
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


MAX_MESSAGE_BYTES: Final = 32_768


class NativeGroupStatusWriter:
    """Writes the conditions of Kubernetes' own pod groups: PodGroupScheduled and DisruptionTarget.

    As kube-scheduler's, PodGroupScheduled stays True once a group was placed.  Its reason while a group waits
    is ``Unschedulable``, and the message begins with our own reason.  Conditions are written by strategic
    merge patches, which keep those of other types.  A gang is named by its key in the model.
    """

    def __init__(self, client: Client, clock: Clock, gate: BindGate) -> None:
        self._client = client
        self._clock = clock
        self._written: dict[Key, tuple[Uid, Condition]] = {}  # by gang, the last PodGroupScheduled
        self.resource: Resource[NativePodGroup] = NATIVE_POD_GROUPS  # in the version that the API server has
        self._writer = LatestValueWriter("native pod groups", self._write, clock, workers=GROUP_WORKERS)
        self._after_binds = WritesAfterBinds(self._writer, gate)
        self._disruptions = LatestValueWriter("disrupted pod groups", self._write, clock, workers=1)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._writer.run())
            tasks.create_task(self._disruptions.run())

    def write(self, statuses: Iterable[GangStatus]) -> None:
        """Write whether each native group is placed, and if not why."""
        for status in statuses:
            condition = scheduled_condition(status.conditions)
            if native_name(status.gang) is None or condition is None:
                continue
            value = status.uid, condition
            if self._written.get(status.gang) != value:
                self._written[status.gang] = value
                self._after_binds.put(status.gang, value, STATUS_DELAY_S)

    def disrupted(self, evictions: Iterable[Eviction]) -> None:
        """Write that native groups are evicted as a whole, each named by any of its evictions."""
        now = self._clock.now()
        for eviction in {eviction.gang: eviction for eviction in evictions}.values():
            message = f"evicted so that pod group {eviction.beneficiary} can be placed"
            condition = condition_at(now, DISRUPTION_TARGET, "True", PREEMPTION_BY_SCHEDULER, message)
            self._disruptions.put(eviction.gang, (None, condition))

    def failed(self, gang: Gang, problem: str) -> None:
        """Write that sessions leave a group out because they fail on it, unless it was placed before."""
        stored = scheduled_condition(gang.conditions)
        if stored is not None and stored.status == "True":
            return
        condition = condition_at(self._clock.now(), POD_GROUP_SCHEDULED, "False", SCHEDULER_ERROR, problem)
        self._written.pop(gang.key, None)  # the reason for which it waited is written again afterwards
        self._writer.put(gang.key, (gang.uid, condition))

    def forget(self, gang: Key) -> None:
        """Forget a group that is deleted."""
        self._written.pop(gang, None)

    async def _write(self, gang: Key, value: tuple[Uid | None, Condition]) -> None:
        uid, condition = value
        key = native_name(gang)
        assert key is not None, f"{gang} is no native group"
        body: dict[str, Any] = codec.to_builtins(condition)
        if condition.type == POD_GROUP_SCHEDULED:
            body["type"] = SCHEDULED_TYPES[self.resource.version]
        body["message"] = body.get("message", "").encode()[:MAX_MESSAGE_BYTES].decode(errors="ignore")
        patch: dict[str, Any] = {"status": {"conditions": [body]}}
        if uid is not None:
            patch["metadata"] = {"uid": uid}
        with suppress(NotFound, Conflict):  # deleted, or another group with the same name
            await self._client.patch(
                self.resource, key, patch, subresource="status", kind=PatchKind.STRATEGIC
            )
