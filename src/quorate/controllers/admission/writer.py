"""Carrying out what a cycle decided: one status patch each, for the version it was decided on.

Many patches are in flight at once; those for one workload go in order, each based on the answer to the one
before it.  A refused decision is handed back to be undone: one refused for its version when the newer
version has come, as every such refusal means that one is on its way, and any other after a pause.  One whose
answer was lost is sent again until there is one.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, assert_never

from msgspec.structs import replace

from quorate.api.kueue import Workload, WorkloadStatus
from quorate.api.meta import Key, ObjectMeta, is_older
from quorate.controllers.context import ControllerContext
from quorate.kube.errors import ApiError, Conflict, NotFound, Unreachable, Unreadable, may_have_succeeded
from quorate.kube.expectations import OWN_WRITE_TIMEOUT_S
from quorate.kube.flowcontrol import Backoff
from quorate.kube.log import logger
from quorate.kube.resources import WORKLOADS, reference_to
from quorate.kube.writes import Patch, send, status_patch
from quorate.queueing.conditions import with_conditions
from quorate.queueing.decisions import Decision, Hold, Preempt, Reserve
from quorate.queueing.lifecycle.statuses import admit_status, hold_reason, hold_status, preempt_status
from quorate.queueing.lifecycle.transition import Event
from quorate.queueing.pods_ready import pods_ready_condition

MOST_UNDER_WAY = 100  # writes, as many as the client sends at once
PAUSE = Backoff(first_s=0.1, cap_s=30.0)  # between tries for one workload, when not refused for its version


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
        self._gates = context.configuration.gates
        self._waits_for_pods = context.configuration.wait_for_pods_ready is not None
        self._workloads = context.informers.workloads
        self._on_refusal = on_refusal
        self._on_written = on_written
        # The last write of each workload, until the watch has delivered what came of it.
        self._last: dict[Key, asyncio.Task[Workload | None]] = {}
        self._stale: dict[Key, Decision] = {}  # refused for a version whose successor has yet to come
        self._under_way = 0
        self._room = asyncio.Event()  # set while fewer than MOST_UNDER_WAY are
        self._room.set()
        self._failures: dict[Key, int] = {}  # refusals in a row for another reason than the version
        self._log = logger(__name__)

    def carry_out(self, writes: asyncio.TaskGroup, decision: Decision) -> None:
        """Begin to write ``decision``, made on the object as the informer has it now."""
        key = decision.key
        workload = self._workloads.get(key)
        assert workload is not None, f"decided about {key}, which is not there"
        write = writes.create_task(self._write(writes, decision, workload, self._last.get(key)))
        self._last[key] = write
        write.add_done_callback(partial(self._landed, workload.metadata))

    async def has_room(self) -> None:
        """Return once what would be decided now could be written soon.

        Decisions that wait to be written hold quota that nobody uses, cannot be preempted, and keep out
        whoever comes meanwhile and is more important.
        """
        await self._room.wait()

    def delivered(self, key: Key) -> Decision | None:
        """Take note that the watch has brought a change; the decision it makes it time to undo, if any."""
        last = self._last.get(key)
        if last is not None and last.done():
            del self._last[key]
        if self._workloads.get(key) is None:
            self._failures.pop(key, None)
        return self._stale.pop(key, None)

    def _landed(self, decided_on: ObjectMeta, write: asyncio.Task[Workload | None]) -> None:
        known = self._workloads.get(decided_on.key)
        delivered = known is None or known.metadata.resource_version != decided_on.resource_version
        if delivered and self._last.get(decided_on.key) is write:
            del self._last[decided_on.key]

    async def _write(
        self,
        writes: asyncio.TaskGroup,
        decision: Decision,
        workload: Workload,
        before: asyncio.Task[Workload | None] | None,
    ) -> Workload | None:
        """The workload as written; None when the write was refused."""
        versions = {workload.metadata.resource_version}
        if before is not None:
            # Its answer may be late: the watch may have brought it, and more, before this was decided.
            written = await before
            if written is not None and not is_older(written.metadata, workload.metadata):
                workload = written
                versions.add(workload.metadata.resource_version)
        patches = status_patch(WORKLOADS, workload, self._status(decision, workload))
        if not patches:
            return workload
        answers = await self._sent(decision, patches, versions)
        if answers is None:
            if self._stale.get(decision.key) is decision:
                writes.create_task(self._doubt(decision))
            return None
        self._failures.pop(decision.key, None)
        self._on_written(decision)
        self._tell(decision, workload)
        answer: Workload = answers[0]
        return answer

    async def _send(self, patches: Iterable[Patch]) -> list[Any]:
        self._under_way += 1
        if self._under_way == MOST_UNDER_WAY:
            self._room.clear()
        try:
            return await send(self._client, patches)
        finally:
            if self._under_way == MOST_UNDER_WAY:
                self._room.set()
            self._under_way -= 1

    async def _sent(
        self, decision: Decision, patches: Sequence[Patch], versions: Collection[str]
    ) -> list[Any] | None:
        """The answers; None when the write was refused, and then it will not arrive late either.

        A write whose fate is unknown may still be on its way, held up by whatever made us give up waiting,
        and its quota is not free before that is known.  So it is sent again until the server has answered:
        the version it names lets only one of them in.
        """
        in_doubt = False
        while True:
            try:
                return await self._send(patches)
            except (Conflict, NotFound):
                self._refused_for_version(decision, versions)
                return None
            except (ApiError, Unreachable, Unreadable) as error:
                in_doubt = in_doubt or may_have_succeeded(error)
                await self._pause(decision, error)
            if not in_doubt:
                self._give_back(decision)
                return None

    def _status(self, decision: Decision, workload: Workload) -> WorkloadStatus | None:
        now = self._clock.now()
        match decision:
            case Reserve():
                return self._with_readiness(workload, admit_status(workload, decision, now), now)
            case Hold():
                status = hold_status(workload, decision, now, self._gates)
                return self._with_readiness(workload, status, now)
            case Preempt():
                return preempt_status(workload, decision, now)
        assert_never(decision)

    def _with_readiness(
        self, workload: Workload, status: WorkloadStatus | None, now: float
    ) -> WorkloadStatus | None:
        """A first status also says that no pod is ready, which saves a write of its own."""
        if status is None or not self._waits_for_pods or workload.status.conditions:
            return status
        waiting = pods_ready_condition(workload, False, now)
        assert waiting is not None, f"{workload.metadata.key} has no conditions, so none of PodsReady"
        return replace(status, conditions=with_conditions(status.conditions, waiting))

    def _refused_for_version(self, decision: Decision, outdated: Collection[str]) -> None:
        known = self._workloads.get(decision.key)
        if known is not None and known.metadata.resource_version in outdated:
            self._stale[decision.key] = decision
        else:
            self._give_back(decision)

    async def _doubt(self, decision: Decision) -> None:
        """Undo a decision refused for its version if none comes: webhooks may refuse in the same words."""
        steady = self._clock.steady
        await steady.sleep_until(steady.now() + OWN_WRITE_TIMEOUT_S)
        if self._stale.get(decision.key) is decision:
            del self._stale[decision.key]
            self._log.warning("refused as if for its version, which is the newest", key=decision.key)
            self._on_refusal(decision)

    def _give_back(self, decision: Decision) -> None:
        """Have the decision undone, unless it was overtaken: then what it took is no longer its own."""
        last = self._last.get(decision.key)
        if last is None or last is asyncio.current_task():
            self._on_refusal(decision)

    async def _pause(self, decision: Decision, error: Exception) -> None:
        key = decision.key
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        again_in_s = PAUSE.delay_s(failures)
        self._log.warning("decision not written", key=key, problem=str(error), again_in_s=again_in_s)
        steady = self._clock.steady
        await steady.sleep_until(steady.now() + again_in_s)

    def _tell(self, decision: Decision, workload: Workload) -> None:
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
                reason = hold_reason(decision, self._gates)
                self._log.info("held", key=decision.key, reason=reason, note=message)
                self._event(workload, Event("Warning", reason, message))
            case Preempt(preemptor=preemptor, message=message):
                self._log.info("preempted", key=decision.key, preemptor=preemptor)
                self._event(workload, Event("Normal", "EvictedDueToPreempted", message))
                self._event(workload, Event("Normal", "Preempted", message))
                if (for_whom := self._workloads.get(preemptor)) is not None:
                    self._event(for_whom, Event("Normal", "PreemptedWorkload", f"Preempted {decision.key}"))
            case _:
                assert_never(decision)

    def _event(self, workload: Workload, event: Event) -> None:
        regarding = reference_to(WORKLOADS, workload)
        self._events.event(regarding, event.type, event.reason, event.message)
