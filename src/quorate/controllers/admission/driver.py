"""The driver of the admission cycle: updates the model, runs cycles, starts writes.

Informers deliver changes in order, and each change goes to ``queueing.State`` at once. A decision is
therefore made on exactly the object that is cached until the next change. A cycle runs after a change, or at
the time that the core asked for; never for another reason. Cycles in quick succession are spaced, so that one
cycle decides about several changes.
"""

import asyncio
import math
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from quorate.api.kueue import ClusterQueue, Cohort, Workload
from quorate.api.meta import Key, find_condition, is_true
from quorate.controllers.admission.pending_reasons import PendingReasonThrottle
from quorate.controllers.admission.writer import AdmissionWriter
from quorate.controllers.context import ControllerContext
from quorate.controllers.feeds import queueing_feeds
from quorate.controllers.limits import (
    CYCLE_SHARE,
    CYCLE_SLICE_S,
    EDIT_BATCH_S,
    MAX_CYCLE_PAUSE_S,
    REBUILD_SLICE,
    WRITES_IN_ONE_TURN,
)
from quorate.controllers.topology.node_feeds import NodeFeeds
from quorate.kube.clock import Timer
from quorate.kube.feed import Feed
from quorate.kube.informer import Change
from quorate.kube.object_faults import fault_of
from quorate.kube.resources import WORKLOADS, Resource
from quorate.observe.recorder import Recorder
from quorate.queueing.conditions import BLOCKED_ON_PREEMPTION_GATES, QUOTA_RESERVED
from quorate.queueing.decisions import Decision, Hold
from quorate.queueing.explain import why_pending
from quorate.queueing.inadmissible_reasons import BackingOff, PreemptionGated
from quorate.queueing.planning.bounds import LearnedBounds
from quorate.queueing.restored_history import restore_preemption_history
from quorate.queueing.scheduling.cycle import AdmissionCycle
from quorate.queueing.state import State

_Write = tuple[Decision, Workload]  # the workload that a decision was made on


def cycle_pause_s(cycle_s: float) -> float:
    """Return how long to collect changes after a cycle that took ``cycle_s``.

    A busy server delivers changes one by one, and each cycle evaluates the heads of all queues of a cohort.
    A cycle after an idle time is never delayed.
    """
    return min(MAX_CYCLE_PAUSE_S, cycle_s * (1 / CYCLE_SHARE - 1))


class AdmissionDriver:
    """Runs admission cycles over ``state``, which only the driver changes."""

    def __init__(self, context: ControllerContext, recorder: Recorder) -> None:
        self.state = State(context.configuration)
        self._admission_cycle = AdmissionCycle(self.state)
        self._recorder = recorder
        self._informers = context.informers
        self._workloads = context.informers.workloads
        self._faults = context.client.faults
        self._clock = context.clock
        self._steady = context.clock.steady  # the clock of the throttle
        self._changed = asyncio.Event()  # set when the state has changed since the last cycle began
        self._quota_edited = False  # since the last cycle began
        self._edits_decided_at = -math.inf  # when the last cycle began after a quota edit, in steady time
        self._timer = Timer(context.clock, self._changed)
        self._pending_reasons = PendingReasonThrottle()
        # Called with the local queues of which the consumed usage has just been sampled and changed.
        self.sample_listeners: list[Callable[[tuple[Key, ...]], None]] = []
        self._writer = AdmissionWriter(
            context,
            on_refusal=self._undo,
            on_written=lambda decision: recorder.decision_written(decision, self.state),
        )
        self.node_feeds = NodeFeeds(
            context.client,
            context.clock,
            context.informers.flavors,
            context.informers.workloads,
            context.informers.pods,
            self.state,
            self._changed.set,
        )
        # The feeds of the new model while it is built.
        self._rebuild_feeds: dict[Resource[Any], Feed[Any]] = {}
        self._workloads.subscribe(self._workload_changed)  # before the feed of the state
        context.informers.cluster_queues.subscribe(self._quota_changed)
        context.informers.cohorts.subscribe(self._quota_changed)
        for feed in queueing_feeds(self.state, self._clock.now):
            informer = context.informers.of(feed.resource)
            feed.subscribe(informer, self._changed.set)
            informer.subscribe(partial(self._apply_to_rebuild, feed.resource))

    def _workload_changed(self, change: Change[Workload]) -> None:
        refused = self._writer.observe(change.key)
        if change.new is None:
            self._pending_reasons.remove(change.key)
            return
        if refused is not None:
            self._undo(refused)
        decides = self.state.configuration.scheduling.enabled
        is_new = change.old is None and find_condition(change.new.status.conditions, QUOTA_RESERVED) is None
        if decides and is_new:
            self._pending_reasons.add(change.key, self._steady.now())

    def _quota_changed(self, change: Change[ClusterQueue] | Change[Cohort]) -> None:
        if change.old is not None and change.new is not None and change.old.spec != change.new.spec:
            self._quota_edited = True

    def learn(self, bounds: LearnedBounds) -> None:
        """Take over until when workloads run at most, as learned, and decide again if that has changed."""
        self.state.set_learned_bounds(bounds)
        if self.state.ledger.dirty_trees:
            self._changed.set()

    def set_unreadable(self, plural: str, is_unreadable: bool) -> None:
        """Note whether a kind that claims of devices depend on cannot be read, and decide again."""
        self.state.request_updates.set_unreadable(plural, is_unreadable)
        self._changed.set()

    def _undo(self, decision: Decision) -> None:
        """Release the quota of an unwritten decision, and decide again on the newest object."""
        self.state.forget(decision.key)
        newest = self._workloads.get(decision.key)
        if newest is None:
            return
        self.state.put_workload(newest, self._clock.now())
        if isinstance(decision, Hold):
            self._pending_reasons.remove(decision.key)
            self._pending_reasons.update(decision.key, self._steady.now())
        self._changed.set()

    def _apply_to_rebuild(self, resource: Resource[Any], change: Change[Any]) -> None:
        feed = self._rebuild_feeds.get(resource)
        if feed is None:
            return
        if change.new is None:
            feed.remove(change.key)
        else:
            self._put(feed, change.key, change.new)

    def _put(self, feed: Feed[Any], key: Key, newest: Any | None) -> None:
        """Put an object into the new model; leave out an object that cannot be used, as informers do."""
        try:
            if newest is not None:
                feed.put(newest)
        except Exception as error:
            feed.remove(key)
            self._faults.report(fault_of(feed.resource, "subscribe", key, newest, error))

    async def rebuild(self) -> None:
        """Build a new model from the cached objects beside the model in use, then replace the model in use.

        Other tasks run after every ``REBUILD_SLICE`` objects: cycles go on, and changes that arrive are
        applied to both models.
        """
        fresh = State(self.state.configuration)
        feeds = queueing_feeds(fresh, self._clock.now)
        self._rebuild_feeds = {feed.resource: feed for feed in feeds}
        try:
            for feed in feeds:
                informer = self._informers.of(feed.resource)
                keys = list(informer.keys())
                for start in range(0, len(keys), REBUILD_SLICE):
                    for key in keys[start : start + REBUILD_SLICE]:
                        self._put(feed, key, informer.get(key))
                    await asyncio.sleep(0)
            self.state.replace_with(fresh)
        finally:
            self._rebuild_feeds = {}
        self._admission_cycle = AdmissionCycle(self.state)
        self._changed.set()

    async def run(self) -> None:
        """Decide until cancelled; the informers must have synced."""
        if not self.state.configuration.scheduling.enabled:
            await self._run_without_decisions()
            return
        restore_preemption_history(self.state.ledger, self._workloads)
        try:
            async with asyncio.TaskGroup() as writes:
                decided_s = 0.0
                while True:
                    await self._prepare()
                    self._changed.clear()
                    began = self._steady.now()
                    if self._quota_edited:
                        self._quota_edited, self._edits_decided_at = False, began
                    is_paused, to_write = self._decide()
                    ended = self._steady.now()
                    decided_s += ended - began
                    await self._start_writes(writes, to_write)
                    if is_paused:
                        continue
                    await self._changed.wait()
                    await self._writer.wait_for_capacity()
                    await self._steady.sleep_until(ended + cycle_pause_s(decided_s))
                    if self._quota_edited:
                        await self._steady.sleep_until(self._edits_decided_at + EDIT_BATCH_S)
                    decided_s = 0.0
        finally:
            self._timer.reset(None)

    async def _prepare(self) -> None:
        """Read what pod constraints need, in parts between which other tasks run."""
        while True:
            if self.state.ledger.topology.prepare():
                return
            await asyncio.sleep(0)

    async def _run_without_decisions(self) -> None:
        """Keep the model and the consumed usage up to date; another scheduler reserves quota."""
        try:
            while True:
                self._changed.clear()
                now = self._clock.now()
                self.state.request_updates.run_slice()
                samples = self.state.ledger.sample_consumed_usage(now)
                self._report_samples(samples.changed)
                self._timer.reset(now if self.state.request_updates.are_pending else samples.next_at)
                await self._changed.wait()
                await self._steady.sleep_until(self._steady.now() + MAX_CYCLE_PAUSE_S)
        finally:
            self._timer.reset(None)

    def _report_samples(self, local_queues: tuple[Key, ...]) -> None:
        if local_queues:
            for listener in self.sample_listeners:
                listener(local_queues)

    def _decide(self) -> tuple[bool, list[_Write]]:
        """Run a cycle, or a slice of it; return True if it paused, and what is to be written.

        The timer is set to the time at which the next cycle is due.
        """
        now, began = self._clock.now(), self._steady.now()
        cycle = self._admission_cycle.run(now, lambda: self._steady.now() > began + CYCLE_SLICE_S)
        for fault in cycle.faults:
            workload = self._workloads.get(fault.key)
            self._faults.report(fault_of(WORKLOADS, "decide", fault.key, workload, fault.error))
            self.state.forget(fault.key)  # an assumed reservation that nothing will write
        self._recorder.cycle_ended(cycle, self._steady.now() - began)
        self._report_samples(cycle.sampled)
        to_write: list[_Write] = []
        for decision in cycle.decisions:
            if isinstance(decision, Hold) and not self._asks_for_gate(decision):
                self._pending_reasons.update(decision.key, began)
            else:
                self._pending_reasons.record_admission(began)
                self._pending_reasons.remove(decision.key)
                to_write.append(self._decided(decision))
        for key in cycle.announced:
            self._pending_reasons.update(key, began)
        for key in cycle.parked:
            self._pending_reasons.add(key, began)
        to_write += self._due_reasons(began)
        due = self._pending_reasons.next_due()
        times = (cycle.wake_at, None if due is None else now + due - began)
        self._timer.reset(min((time for time in times if time is not None), default=None))
        return cycle.is_paused, to_write

    def _asks_for_gate(self, hold: Hold) -> bool:
        """Return True for the first outcome that needs a preemption gate open: its owner waits for it."""
        workload = self._workloads.get(hold.key)
        blocked = workload is not None and is_true(workload.status.conditions, BLOCKED_ON_PREEMPTION_GATES)
        return not blocked and any(isinstance(reason, PreemptionGated) for reason in hold.reasons)

    def _decided(self, decision: Decision) -> _Write:
        """Return a decision with the workload that it was made on: nothing has changed that since."""
        workload = self._workloads.get(decision.key)
        assert workload is not None, f"decided on {decision.key}, which does not exist"
        return decision, workload

    async def _start_writes(self, writes: asyncio.TaskGroup, to_write: Sequence[_Write]) -> None:
        """Start to write decisions, a few in each turn of the event loop; at least one turn passes.

        Other tasks may have more changes ready for the next cycle.
        """
        for number, (decision, workload) in enumerate(to_write, 1):
            self._writer.start(writes, decision, workload)
            if number % WRITES_IN_ONE_TURN == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(0)

    def _why_pending(self, key: Key) -> Hold | None:
        try:
            return why_pending(self.state, key)
        except Exception as error:  # of a bug: all other workloads get their reasons
            self._faults.report(fault_of(WORKLOADS, "decide", key, self._workloads.get(key), error))
            return None

    def _due_reasons(self, now: float) -> Iterator[_Write]:
        """Yield the current reasons of the pending workloads that are due."""
        if self._writer.is_admitting:
            self._pending_reasons.record_admission(now)  # a slow server stores it long after the decision
        due = [(key, False) for key in self._pending_reasons.take_due(now)]
        # Neither the workload nor its shape has been evaluated.
        due += [(key, True) for key in self._pending_reasons.take_unevaluated(now)]
        for key, is_unevaluated in due:
            hold = self._why_pending(key)
            if hold is None or (
                is_unevaluated and hold.condition_reason == "Inadmissible" and hold.evaluated_at is None
            ):
                self._pending_reasons.remove(key)
                self.state.explain_later(key)
            elif not any(isinstance(reason, BackingOff) for reason in hold.reasons):
                yield self._decided(hold)  # during a backoff the condition keeps the reason of the eviction
