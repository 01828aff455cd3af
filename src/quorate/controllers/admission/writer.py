"""Writes of admission decisions: one status patch each.

A patch expects the version decided on, or a later version if nothing that the decision rests on differs.

Many patches are in flight at once.  The patches of one workload take turns with the writes of all other
controllers to the workload.  Each write is based on the result of the write before, so a reservation is not
lost to another write of ours.  A reason that a later decision follows is not written.  A refused decision is
handed back to be undone: after a conflict once the newer version has been delivered, otherwise after a pause.
A write without a response is sent again until there is one.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import assert_never

from msgspec.structs import replace

from quorate.api.kueue import Workload
from quorate.api.meta import Key, ObjectMeta, is_older
from quorate.controllers.context import ControllerContext
from quorate.controllers.limits import WRITES_IN_FLIGHT
from quorate.kube.errors import Conflict, NotFound, RequestFailed, may_have_succeeded
from quorate.kube.flowcontrol import Backoff
from quorate.kube.limits import OWN_WRITE_TIMEOUT_S
from quorate.kube.log import logger
from quorate.kube.object_faults import fault_of
from quorate.kube.resources import WORKLOADS, reference_to
from quorate.kube.writes import send_for_version, status_patch
from quorate.queueing.decisions import (
    AssignTopology,
    Decision,
    Evict,
    Hold,
    Preempt,
    Reserve,
    SecondPassFailed,
)
from quorate.queueing.lifecycle.decided_status import decided_status, still_applies
from quorate.queueing.lifecycle.statuses import hold_reason
from quorate.queueing.lifecycle.transition import Event, eviction_events

RETRY = Backoff(first_s=0.1, cap_s=30.0)  # between attempts for one workload, except after a conflict


class AdmissionWriter:
    def __init__(
        self,
        context: ControllerContext,
        *,
        on_refusal: Callable[[Decision], None],
        on_written: Callable[[Decision], None],
    ) -> None:
        self._client = context.client
        self._clock = context.clock
        self._events = context.events
        self._configuration = context.configuration
        self._workloads = context.informers.workloads
        self._on_refusal = on_refusal
        self._on_written = on_written
        self._delivered = context.client.own_writes.keep(WORKLOADS, self._workloads.get)
        # The latest decision of each workload, until the watch has delivered its result.
        self._last: dict[Key, asyncio.Task[Workload | None]] = {}
        self._stale: dict[Key, Decision] = {}  # refused by a conflict, newer version not delivered yet
        self._in_flight = 0
        self._unwritten = 0  # decisions without a result that are no reasons
        self._has_capacity = asyncio.Event()  # set while fewer than WRITES_IN_FLIGHT are in flight
        self._has_capacity.set()
        self._failures: dict[Key, int] = {}  # consecutive failures other than conflicts
        self._log = logger(__name__)

    def start(self, writes: asyncio.TaskGroup, decision: Decision, workload: Workload) -> None:
        """Start to write ``decision``, which was made on ``workload``."""
        key = decision.key
        write = writes.create_task(self._write(writes, decision, workload, self._last.get(key)))
        self._last[key] = write
        self._unwritten += not isinstance(decision, Hold)
        write.add_done_callback(partial(self._completed, decision, workload.metadata))

    @property
    def is_admitting(self) -> bool:
        """Return True while an admission, eviction or assignment of places is on its way to the server."""
        return self._unwritten > 0

    async def wait_for_capacity(self) -> None:
        """Return once a new decision could be written soon.

        A decision that waits to be written holds quota that no pod uses, cannot be preempted, and excludes
        workloads of higher priority that arrive meanwhile.
        """
        await self._has_capacity.wait()

    def observe(self, key: Key) -> Decision | None:
        """Note a delivered change; return the refused decision that must be undone now."""
        last, newest = self._last.get(key), self._workloads.get(key)
        if last is not None and last.done():
            del self._last[key]
        self._delivered(newest, key)
        if newest is None:
            self._failures.pop(key, None)
        return self._stale.pop(key, None)

    def _completed(
        self, decision: Decision, decided_on: ObjectMeta, write: asyncio.Task[Workload | None]
    ) -> None:
        self._unwritten -= not isinstance(decision, Hold)
        newest = self._workloads.get(decided_on.key)
        delivered = newest is None or newest.metadata.resource_version != decided_on.resource_version
        if delivered and self._last.get(decided_on.key) is write:
            del self._last[decided_on.key]

    async def _write(
        self,
        writes: asyncio.TaskGroup,
        decision: Decision,
        workload: Workload,
        before: asyncio.Task[Workload | None] | None,
    ) -> Workload | None:
        """Return the workload as written; None if the write was refused."""
        if before is not None:
            # Its response may be late: the watch may have delivered a newer version before this decision.
            written = await before
            if written is not None and not is_older(written.metadata, workload.metadata):
                workload = written
        try:
            return await self._write_until_answered(writes, decision, workload)
        except Exception as error:  # of a bug: it must not end the writes of all other decisions
            self._client.faults.report(fault_of(WORKLOADS, "decide", decision.key, workload, error))
            await self._pause(decision, error)
            self._refuse(decision)
            return None

    async def _write_until_answered(
        self, writes: asyncio.TaskGroup, decision: Decision, decided_on: Workload
    ) -> Workload | None:
        """Return the workload as written; None if the write was refused and cannot take effect later.

        A write without a response may still arrive at the server, so its quota is not free.  It is sent
        again until the server responds: its resource version lets only one attempt take effect.
        """
        own_writes, may_arrive = self._client.own_writes, False
        while True:
            async with own_writes.turn(WORKLOADS, decision.key):
                if self._is_superseded(decision):
                    return decided_on
                workload = own_writes.newest(WORKLOADS, self._newest(decided_on))
                if not still_applies(decision, decided_on, workload):
                    self._handle_conflict(writes, decision, decided_on.metadata)
                    return None
                try:
                    return await self._send(decision, workload)
                except (Conflict, NotFound):
                    self._handle_conflict(writes, decision, workload.metadata)
                    return None
                except RequestFailed as error:
                    failure = error
            may_arrive = may_arrive or may_have_succeeded(failure)
            await self._pause(decision, failure)
            if not may_arrive:
                self._refuse(decision)
                return None

    def _newest(self, decided_on: Workload) -> Workload:
        """Return the workload as delivered, which another write may have changed since the decision."""
        delivered = self._workloads.get(decided_on.metadata.key)
        if delivered is None or delivered.metadata.uid != decided_on.metadata.uid:
            return decided_on
        return delivered

    def _is_superseded(self, decision: Decision) -> bool:
        """Return True for a reason that need not be written: there is a later decision."""
        return isinstance(decision, Hold) and self._last.get(decision.key) is not asyncio.current_task()

    async def _send(self, decision: Decision, workload: Workload) -> Workload:
        """Send one attempt in the turn of the decision; ``workload`` is the newest that we know."""
        status = decided_status(workload, decision, self._clock.now(), self._configuration)
        patches = status_patch(WORKLOADS, workload, status, is_sent_at_once=True)
        if status is None or not patches:
            if isinstance(decision, SecondPassFailed):
                self._record(decision, workload)
            return workload
        (patch,) = patches
        self._in_flight += 1
        if self._in_flight == WRITES_IN_FLIGHT:
            self._has_capacity.clear()
        try:
            version = await send_for_version(self._client, patch)
        finally:
            if self._in_flight == WRITES_IN_FLIGHT:
                self._has_capacity.set()
            self._in_flight -= 1
        metadata = replace(workload.metadata, resource_version=version)
        stored = replace(workload, metadata=metadata, status=status)
        self._client.own_writes.record(WORKLOADS, decision.key, stored)
        self._failures.pop(decision.key, None)
        self._on_written(decision)
        self._record(decision, workload)
        return stored

    def _handle_conflict(self, writes: asyncio.TaskGroup, decision: Decision, outdated: ObjectMeta) -> None:
        newest = self._workloads.get(decision.key)
        if newest is not None and not is_older(outdated, newest.metadata):
            self._stale[decision.key] = decision
            writes.create_task(self._expire_conflict(decision))
        else:
            self._refuse(decision)

    async def _expire_conflict(self, decision: Decision) -> None:
        """Undo the decision if there is no newer version; webhooks may report conflicts too.

        The conflict may be with an earlier attempt of the same write, which has taken effect: as long as the
        watch is late, its quota is not free.
        """
        steady = self._clock.steady
        while True:
            await steady.sleep_until(steady.now() + OWN_WRITE_TIMEOUT_S)
            if self._stale.get(decision.key) is not decision:
                return
            if not await self._is_outdated(decision.key):
                break
        if self._stale.get(decision.key) is decision:
            del self._stale[decision.key]
            self._log.warning("conflict without a newer version", key=decision.key)
            self._on_refusal(decision)

    async def _is_outdated(self, key: Key) -> bool:
        """Return True unless the server has the version that the cache has."""
        try:
            stored = await self._client.get(WORKLOADS, key)
        except RequestFailed:  # also if it is gone: the watch will tell
            return True
        newest = self._workloads.get(key)
        return newest is None or newest.metadata.resource_version != stored.metadata.resource_version

    def _refuse(self, decision: Decision) -> None:
        """Hand back the decision, unless a later decision about its workload has its quota by now."""
        last = self._last.get(decision.key)
        if last is None or last is asyncio.current_task():
            self._on_refusal(decision)

    async def _pause(self, decision: Decision, error: Exception) -> None:
        key = decision.key
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        again_in_s = RETRY.delay_s(failures)
        self._log.warning("decision not written", key=key, problem=str(error), again_in_s=again_in_s)
        steady = self._clock.steady
        await steady.sleep_until(steady.now() + again_in_s)

    def _record(self, decision: Decision, workload: Workload) -> None:
        match decision:
            case Reserve(cluster_queue=queue, waited_s=waited_s, admitted=admitted):
                self._log.info("quota reserved", key=decision.key, queue=queue, waited_s=waited_s)
                reserved = (
                    f"Quota reserved in ClusterQueue {queue}, wait time since queued was {waited_s:.0f}s"
                )
                self._event(workload, Event("Normal", "QuotaReserved", reserved))
                if admitted:
                    text = f"Admitted by ClusterQueue {queue}, wait time since reservation was 0s"
                    self._event(workload, Event("Normal", "Admitted", text))
            case Hold(message=message):
                reason = hold_reason(decision, self._configuration.gates)
                self._log.info("pending", key=decision.key, reason=reason, detail=message)
                self._event(workload, Event("Warning", reason, message))
            case Preempt(preemptor=preemptor, message=message):
                self._log.info("preempted", key=decision.key, preemptor=preemptor)
                self._event(workload, Event("Normal", "EvictedDueToPreempted", message))
                self._event(workload, Event("Normal", "Preempted", message))
                if (beneficiary := self._workloads.get(preemptor)) is not None:
                    self._event(
                        beneficiary, Event("Normal", "PreemptedWorkload", f"Preempted {decision.key}")
                    )
            case AssignTopology():
                self._log.info("places assigned", key=decision.key)
            case SecondPassFailed(message=message):
                self._log.info("no places", key=decision.key, detail=message)
                self._event(workload, Event("Warning", "SecondPassFailed", message))
            case Evict(reason=reason, message=message):
                self._log.info("evicted", key=decision.key, reason=reason, detail=message)
                for event in eviction_events(workload, reason, message):
                    self._event(workload, event)
            case _:
                assert_never(decision)

    def _event(self, workload: Workload, event: Event) -> None:
        regarding = reference_to(WORKLOADS, workload.metadata)
        self._events.event(regarding, event.type, event.reason, event.message)
