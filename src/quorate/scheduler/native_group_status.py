"""Writes of the conditions of Kubernetes' own pod groups: PodGroupScheduled and DisruptionTarget.

As kube-scheduler's, PodGroupScheduled stays True once a group was placed.  Its reason while a group waits is
``Unschedulable``, and the message begins with our own reason.  Conditions are written by strategic merge
patches, which keep those of other types.
"""

import asyncio
from collections.abc import Iterable
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
    PodGroup,
)
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.native_groups import native_name, scheduled_condition
from quorate.gang.outcome import Eviction, GangStatus
from quorate.kube.client import Client, PatchKind
from quorate.kube.clock import Clock
from quorate.kube.controller.latest import LatestValueWriter
from quorate.kube.errors import Conflict, NotFound
from quorate.kube.resources import NATIVE_POD_GROUPS, Resource
from quorate.scheduler.bind_gate import BindGate, WritesAfterBinds
from quorate.scheduler.limits import GROUP_WORKERS, STATUS_DELAY_S

MAX_MESSAGE_BYTES: Final = 32_768


class NativeGroupStatusWriter:
    """Writes what changes; a gang is named by its key in the model."""

    def __init__(self, client: Client, clock: Clock, gate: BindGate) -> None:
        self._client = client
        self._clock = clock
        self._written: dict[Key, tuple[Uid, Condition]] = {}  # by gang, the last PodGroupScheduled
        self.resource: Resource[PodGroup] = NATIVE_POD_GROUPS  # in the version that the API server has
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
