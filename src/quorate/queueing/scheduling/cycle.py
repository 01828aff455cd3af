"""The admission cycle: which workloads are admitted, which are preempted, and why the others stay pending.

A *round* is one scheduling cycle of Kueue.  It takes the head of every active cluster queue, nominates each
on the state at the beginning of the round, orders the nominations, and processes them one after the other,
each with the usage that the earlier ones left.  Heads that are not admitted are requeued, to be tried again
at once or after the next event.  ``AdmissionCycle.run`` repeats rounds until one changes nothing, so one run
admits exactly the workloads that as many single rounds would.

With ``blockAdmission`` a round is suspended before it admits a workload while another one is not ready.  It
is resumed, with the assignments made before, as soon as all workloads are ready.  An event before then ends
it: another round nominates all heads again, as others may come first now, or preempt.  If only workloads that
compete for the same flavors are held back, the round continues with the other heads instead (see
``pods_ready.UnreadyWorkloads``).
"""

import math
from collections.abc import Iterable

from msgspec.structs import replace

from quorate.api.meta import Key
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.decisions import CycleFault, CycleResult, Decision, Hold, Recomputation
from quorate.queueing.limits import MAX_DECISIONS
from quorate.queueing.scheduling.planned_starts import PlannedStarts
from quorate.queueing.scheduling.round import Pauses, Round
from quorate.queueing.scheduling.second_pass import SecondPass
from quorate.queueing.state import State
from quorate.quota.tree import Node


class AdmissionCycle:
    """Runs rounds over one state, and keeps the progress that a state itself does not have.

    A state has one cycle for its whole life: rounds are numbered, and a suspended round must be resumed.
    """

    def __init__(self, state: State) -> None:
        self._state = state
        self._plans = PlannedStarts(state, announces=True)
        self._rounds = 0
        self._round: Round | None = None  # the last one

    @property
    def suspended(self) -> Round | None:
        """The round that waits for admitted workloads to become ready."""
        return self._round if self._round is not None and self._round.is_suspended else None

    def run(self, now: float, pauses: Pauses | None = None) -> CycleResult:
        """Decide everything that can be decided, or a batch of it, in which case ``wake_at`` is ``now``.

        ``pauses`` is asked after each head whether to pause; another run goes on with the next head.
        """
        decisions: dict[Key, Decision] = {}
        preemption_skips: dict[Key, str] = {}
        faults: list[CycleFault] = []
        recomputations: list[Recomputation] = []
        is_paused, roots = False, dict[Node, None]()
        updates = self._state.request_updates
        updates.run_slice()
        self._plans.wake(now)
        decisions |= {decision.key: decision for decision in self._plans.evict_overruns(now)}
        samples = self._state.ledger.sample_consumed_usage(now)
        times = [samples.next_at, self._state.advance_windows(now), self._state.ledger.age(now)]
        with self.second_pass(now) as second_pass:
            decisions |= {decision.key: decision for decision in second_pass.decide()}
            faults += second_pass.faults
            times.append(second_pass.next_at)
            while (round_ := self._next_round()) is not None:
                roots |= round_.roots
                for decision in round_.run(now, pauses):
                    decisions.pop(decision.key, None)  # only the last decision about a workload is written
                    decisions[decision.key] = decision
                preemption_skips |= round_.preemption_skips
                faults += round_.pop_faults()
                recomputations += round_.pop_recomputations()
                is_paused = round_.is_paused or (pauses is not None and pauses())
                if is_paused or len(decisions) >= MAX_DECISIONS or updates.is_head_missing:
                    times.append(now)
                    break
        changed, announced = self._plans.review(roots, now), self._state.ledger.announced
        for key in decisions.keys() & announced.keys():
            decision = decisions[key]
            if isinstance(decision, Hold):
                decisions[key] = replace(decision, announced=announced[key])
        times.append(self._plans.next_at())
        wake_at = now if updates.are_pending else min(time for time in times if time is not None)
        skips, parked = tuple(preemption_skips.values()), self._state.ledger.take_parked()
        return CycleResult(
            tuple(decisions.values()),
            wake_at if math.isfinite(wake_at) else None,
            skips,
            tuple(faults),
            samples.changed,
            parked,
            is_paused,
            tuple(recomputations),
            changed,
        )

    def second_pass(self, now: float) -> SecondPass:
        """Return the second pass of a cycle; a round that runs before it ends does not take its places."""
        return SecondPass(self._state, now)

    def start_round(self, queues: Iterable[ClusterQueueState]) -> "Round":
        """Pop and nominate the heads of ``queues``."""
        self._rounds += 1
        self._round = Round(self._state, queues, self._rounds, self._plans)
        return self._round

    def _next_round(self) -> Round | None:
        """Return a round that may change something; None when every head was tried on the current state."""
        ledger = self._state.ledger
        if self._round is not None and self._round.is_paused:
            return self._round
        if (suspended := self.suspended) is not None:
            if not ledger.unready:
                return suspended
            if not ledger.dirty_trees:
                return None
            suspended.give_up()  # something happened: others may come first, or preempt
        ledger.flush_requeues()
        queues: list[ClusterQueueState] = []
        for root in list(ledger.dirty_trees):
            if with_pending := ledger.queues_with_pending(root):
                queues += with_pending
            else:
                del ledger.dirty_trees[root]
        if not queues:
            self._round = None  # it refers to what it has decided about
            return None
        return self.start_round(queues)
