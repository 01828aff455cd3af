"""The cycle driver: tells the queueing core what happened and hands on what it decides.

The core's ``State`` is told of every change, in order, as the informers see it, so between two changes the
object we know is exactly the one a decision was made on.  A cycle runs when something has changed since the
last one, or at the moment the core asked for; never for any other reason.
"""

import asyncio
from collections.abc import Callable

from quorate.api.core import LimitRange, Namespace
from quorate.api.kueue import LocalQueue, Workload
from quorate.api.meta import find_condition
from quorate.controllers.admission.pending_reasons import PendingReasonThrottle
from quorate.controllers.admission.writer import AdmissionWriter
from quorate.controllers.context import ControllerContext
from quorate.controllers.informers import Informers
from quorate.kube.clock import Timer
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import T, metadata_of
from quorate.observe.recorder import Recorder
from quorate.queueing.conditions import QUOTA_RESERVED
from quorate.queueing.decisions import Decision, Hold
from quorate.queueing.explain import why_pending
from quorate.queueing.scheduling.cycle import AdmissionCycle
from quorate.queueing.state import State


class Admission:
    """Runs the cycles over ``state``, which it alone changes."""

    def __init__(self, context: ControllerContext, recorder: Recorder) -> None:
        self.state = State(context.configuration)
        self._admission_cycle = AdmissionCycle(self.state)
        self._recorder = recorder
        self._workloads = context.informers.workloads
        self._clock = context.clock
        self._steady = context.clock.steady  # by which verdicts are told
        self._changed = asyncio.Event()  # set when the state has changed since the last cycle began
        self._timer = Timer(context.clock, self._changed)
        self._verdicts = PendingReasonThrottle()
        self._carrier = AdmissionWriter(
            context,
            on_refusal=self._undo,
            on_written=lambda decision: recorder.decision_written(decision, self.state),
        )
        self._feed_state(context.informers)

    def _feed_state(self, informers: Informers) -> None:
        state = self.state
        self._mirror(informers.namespaces, self._put_namespace, state.remove_namespace)
        self._mirror(informers.runtime_classes, state.put_runtime_class, state.remove_runtime_class)
        self._mirror(informers.flavors, state.put_flavor, state.remove_flavor)
        self._mirror(informers.cohorts, state.put_cohort, state.remove_cohort)
        self._mirror(informers.checks, state.put_admission_check, state.remove_admission_check)
        self._mirror(informers.cluster_queues, state.put_cluster_queue, state.remove_cluster_queue)
        informers.limit_ranges.subscribe(self._limit_range_changed)
        informers.local_queues.subscribe(self._local_queue_changed)
        informers.workloads.subscribe(self._workload_changed)

    def _mirror(self, informer: Informer[T], put: Callable[[T], None], remove: Callable[[str], None]) -> None:
        def on_change(change: Change[T]) -> None:
            if change.new is not None:
                put(change.new)
            elif change.old is not None:
                remove(metadata_of(change.old).name)
            self._changed.set()

        informer.subscribe(on_change)

    def _put_namespace(self, namespace: Namespace) -> None:
        self.state.put_namespace(namespace.metadata.name, namespace.metadata.labels)

    def _limit_range_changed(self, change: Change[LimitRange]) -> None:
        if change.new is not None:
            self.state.put_limit_range(change.new)
        else:
            self.state.remove_limit_range(change.key)
        self._changed.set()

    def _local_queue_changed(self, change: Change[LocalQueue]) -> None:
        if change.new is not None:
            self.state.put_local_queue(change.new)
        else:
            self.state.remove_local_queue(change.key)
        self._changed.set()

    def _workload_changed(self, change: Change[Workload]) -> None:
        refused = self._carrier.delivered(change.key)
        if change.new is not None:
            if refused is not None:
                self._undo(refused)
            self.state.put_workload(change.new, self._clock.now())
            if change.old is None and find_condition(change.new.status.conditions, QUOTA_RESERVED) is None:
                self._verdicts.came(change.key, self._steady.now())
        else:
            self._verdicts.over(change.key)
            self.state.remove_workload(change.key)
        self._changed.set()

    def _undo(self, decision: Decision) -> None:
        """A decision that was not written: give its quota back and decide again on the newest object."""
        self.state.forget(decision.key)
        newest = self._workloads.get(decision.key)
        if newest is None:
            return
        self.state.put_workload(newest, self._clock.now())
        if isinstance(decision, Hold):
            self._verdicts.over(decision.key)
            self._verdicts.passed(decision.key, self._steady.now())
        self._changed.set()

    async def run(self) -> None:
        """Decide until cancelled; the informers must have synced."""
        try:
            async with asyncio.TaskGroup() as writes:
                while True:
                    self._changed.clear()
                    self._timer.reset(self._decide(writes))
                    await asyncio.sleep(0)  # whatever else is ready to run may bring more to decide at once
                    await self._changed.wait()
                    await self._carrier.has_room()
        finally:
            self._timer.reset(None)

    def _decide(self, writes: asyncio.TaskGroup) -> float | None:
        """Run a cycle and begin to write what it decided; when to run the next if nothing changes before."""
        now, began = self._clock.now(), self._steady.now()
        cycle = self._admission_cycle.run(now)
        self._recorder.cycle_ended(cycle, self._steady.now() - began)
        for decision in cycle.decisions:
            if isinstance(decision, Hold):
                self._verdicts.passed(decision.key, began)
            else:
                self._verdicts.moved(began)
                self._verdicts.over(decision.key)
                self._carrier.carry_out(writes, decision)
        self._tell(writes, began)
        due = self._verdicts.next_due()
        moments = (cycle.wake_at, None if due is None else now + due - began)
        return min((moment for moment in moments if moment is not None), default=None)

    def _tell(self, writes: asyncio.TaskGroup, now: float) -> None:
        """Begin to write to workloads why they wait, where it is time; the reason is the one of now."""
        for key in self._verdicts.take_due(now):
            hold = why_pending(self.state, key)
            if hold is None:
                self._verdicts.over(key)
            else:
                self._carrier.carry_out(writes, hold)
        for key in self._verdicts.take_newcomers(now):
            hold = why_pending(self.state, key)
            if hold is None or hold.condition_reason != "Pending":  # not judged, or not by its shape
                self._verdicts.over(key)
            else:
                self._carrier.carry_out(writes, hold)
