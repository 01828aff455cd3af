"""One round: the heads of cluster queues, nominated on one state and processed one after the other.

A round may take long, so it can pause after each head that it processed.  What happens meanwhile is in the
state when it goes on: heads that changed are tried in another round, and quota and places are compared again
in any case.
"""

from collections.abc import Callable, Iterable, Mapping

from msgspec.structs import replace

from quorate.api.meta import Key
from quorate.queueing import inadmissible_reasons as r
from quorate.queueing.assignment import Assignment, AssignmentMode
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.conditions import has_closed_preemption_gate
from quorate.queueing.decisions import (
    ConditionReason,
    CycleFault,
    Decision,
    Hold,
    Recomputation,
    RecomputationResult,
)
from quorate.queueing.pending.entry import Entry, PreemptingAssignment, RequeueReason
from quorate.queueing.preemption.candidates import preemption_decision
from quorate.queueing.scheduling.earlier_heads import EarlierHeads
from quorate.queueing.scheduling.nomination import (
    Nomination,
    assign_again,
    hold,
    is_outdated,
    most_rounds,
    nominate,
    pass_over,
    replace_lost_places,
)
from quorate.queueing.scheduling.planned_starts import PlannedStarts
from quorate.queueing.scheduling.processing_order import (
    ClassicalOrder,
    FairSharingOrder,
    ProcessingOrder,
    precedes_as_preemptor,
)
from quorate.queueing.scheduling.reserving import quota_to_reserve, reserve
from quorate.queueing.state import State
from quorate.quota.tree import Node

Pauses = Callable[[], bool]  # asked after each head: whether to pause


class Round:
    """The heads of ``queues``, popped and nominated; ``run`` processes them."""

    def __init__(
        self, state: State, queues: Iterable[ClusterQueueState], number: int, plans: PlannedStarts
    ) -> None:
        self._state = state
        self._plans = plans
        self._number = number
        self._configuration = state.configuration
        self._ledger = state.ledger
        self._gates = state.ledger.topology.gates
        self.is_suspended = False
        self.is_paused = False
        self.preemption_skips: dict[Key, str] = {}  # by workload its cluster queue; see ``CycleResult``
        self._recomputed: dict[Key, Recomputation] = {}  # by workload
        self.roots: dict[Node, None] = {}  # of the trees that take part
        self._changed_roots: set[Node] = set()  # of the trees in which the round changed something
        self._to_requeue: list[tuple[Nomination, RequeueReason]] = []  # processed and not admitted
        self._windows = plans.windows
        self._earlier = EarlierHeads(state.ledger)  # counted only while the round is processed
        self._now = 0.0  # of ``process``, epoch seconds
        self._was_suspended = False  # then events may have happened since the nomination
        self._faults: list[CycleFault] = []
        self._offered: set[Key] = set()  # heads that were refused before any was processed
        self._was_paused = False
        self._disturbed_roots: set[Node] = set()  # of the trees in which something happened during a pause
        self._paused_roots: dict[Node, int] = {}  # during a pause: the dirty ones of ``_roots``
        nominations: list[Nomination] = []
        for queue in queues:
            self.roots[queue.node.root] = None
            entry = state.request_updates.pop_head(queue) if self._ledger.is_active(queue) else None
            if entry is None and state.request_updates.is_head_missing:
                self._changed_roots.add(queue.node.root)  # to be looked at in another round
            elif entry is not None:
                nominations.append(self._nominate(state, queue, entry, number))
        self._unprocessed = {nomination.entry.key: nomination for nomination in nominations}
        self._order = self._ordered()

    def _ordered(self) -> ProcessingOrder:
        order = FairSharingOrder if self._configuration.fair_sharing is not None else ClassicalOrder
        return order(self._unprocessed.values(), self._configuration.gates)

    def run(self, now: float, pauses: Pauses | None = None) -> list[Decision]:
        """Process the nominations and requeue; run a round again that was suspended or paused."""
        decisions = self.process(now, pauses)
        if not (self.is_suspended or self.is_paused):
            self.requeue()
        return decisions

    def process(self, now: float, pauses: Pauses | None = None) -> list[Decision]:
        """Decide about each head in order; ``requeue`` must follow, unless it is suspended or paused."""
        decisions: list[Decision] = []
        self.is_suspended, self._now = False, now
        if self.is_paused:
            self._resume()
        if self._was_paused or self._was_suspended:
            self._order = self._ordered()  # cohorts may have other parents
        self._offered = self._plans.offer_refused(self._unprocessed.values(), now)
        self._earlier.count()
        while (nomination := self._order.next()) is not None:
            try:
                decisions.extend(self._process(nomination, now))
            except Exception as error:  # of a bug: it must not keep all other workloads pending
                self._faults.append(CycleFault(nomination.entry.key, error))
                reason = _evaluation_failed(error)
                decisions.append(self._keep_pending(nomination, RequeueReason.FAULT, (reason,)))
            if self.is_suspended:
                self._set_dirty_trees_aside()
                break
            self._order.done(nomination)
            del self._unprocessed[nomination.entry.key]
            if pauses is not None and pauses():
                self._pause()
                break
        self._earlier.uncount()
        return decisions

    def _pause(self) -> None:
        self.is_paused = self._was_paused = True
        self._paused_roots = self._set_dirty_trees_aside()

    def _set_dirty_trees_aside(self) -> dict[Node, int]:
        """Return the dirty trees of the round with their counts, which only an event makes dirty again."""
        dirty = self._ledger.dirty_trees
        return {root: dirty.pop(root) for root in self.roots if root in dirty}

    def _resume(self) -> None:
        self.is_paused = False
        dirty = self._ledger.dirty_trees
        self._disturbed_roots.update(root for root in self.roots if root in dirty)
        self._changed_roots |= self._disturbed_roots
        for root, unchanged_rounds in self._paused_roots.items():
            dirty.setdefault(root, unchanged_rounds)

    def pop_faults(self) -> list[CycleFault]:
        """Return the faults since the last call."""
        faults, self._faults = self._faults, []
        return faults

    def _nominate(self, state: State, queue: ClusterQueueState, entry: Entry, number: int) -> Nomination:
        try:
            return nominate(state, queue, entry, number)
        except Exception as error:  # of a bug: it must not keep all other workloads pending
            self._faults.append(CycleFault(entry.key, error))
            entry.last_assignment = None
            reason = _evaluation_failed(error)
            requests, version = entry.requests_version, self._ledger.version(queue.node)
            return Nomination(
                entry, queue, queue.groups, entry.workload, requests, version, None, (), (reason,)
            )

    def _process(self, nomination: Nomination, now: float) -> list[Decision]:
        if is_outdated(nomination, self._ledger.shapes) or (
            self._was_paused and self._is_changed(nomination)
        ):
            self._changed_roots.add(nomination.queue.node.root)
            nomination.entry.last_assignment = None  # the flavor that was found was not used
            self._to_requeue.append((nomination, RequeueReason.FAILED_AFTER_NOMINATION))
            return []
        blocker = self._pods_ready_blocker(nomination)
        if blocker is None:
            return self._decide(nomination, now)
        if blocker.flavor is None:
            self.is_suspended = self._was_suspended = True
            return [hold(nomination, "Waiting", (blocker,), now)]
        if self._lost_places(nomination):  # with other places it may not need that flavor
            return [self._skip(nomination, self._earlier.loss(nomination))]
        self._offer_plan(nomination)
        self._ledger.unready.block(nomination.queue, blocker.flavor)
        pass_over(nomination, blocker.flavor)
        return [self._keep_pending(nomination, RequeueReason.AWAITING_PODS_READY, (blocker,), "Waiting")]

    def _lost_places(self, nomination: Nomination) -> bool:
        """Return True if the places that were found are no longer free."""
        assignment = nomination.assignment
        if assignment is None or not assignment.placement.pod_sets:
            return False
        return self._earlier.lost_places(nomination, assignment)

    def _is_changed(self, nomination: Nomination) -> bool:
        """Return True if the queue of a nomination has other flavors by now, or may not admit."""
        queue = nomination.queue
        return nomination.groups is not queue.groups or not self._ledger.is_active(queue)

    def give_up(self) -> None:
        """End a suspended round: the heads that it has not processed are nominated again."""
        self.is_suspended = False
        for nomination in self._unprocessed.values():
            nomination.entry.last_assignment = None  # the flavor that was found was not used
            self._to_requeue.append((nomination, RequeueReason.FAILED_AFTER_NOMINATION))
        self.requeue()

    def requeue(self) -> None:
        """Requeue the heads that were not admitted, and update which trees need another round."""
        ledger = self._ledger
        ledger.flush_requeues()
        untried: dict[Node, int] = {}  # by root with flavors left to try: the most rounds of a search
        # Last those that lost to others: these are tried again if one of the others becomes inadmissible.
        self._to_requeue.sort(key=lambda requeued: requeued[0].has_lost)
        are_retried = False  # heads that others lost to: what they leave is not known yet
        # Nor is what a head with flavors left to try will take: those that lost do not become inadmissible.
        searching = [candidate for candidate, _ in self._to_requeue if candidate.is_searching]
        rounds = max((most_rounds(candidate.queue, candidate.entry) for candidate in searching), default=0)
        for nomination, reason in self._to_requeue:
            entry, root, last = nomination.entry, nomination.queue.node.root, nomination.entry.last_assignment
            is_searching, has_lost = nomination.is_searching, nomination.has_lost
            is_void = (
                is_outdated(nomination, ledger.shapes)
                or ledger.is_void(nomination.queue, nomination.version, last)
                or (are_retried and has_lost and not is_searching)
            )
            are_retried = are_retried or is_void
            if root in self._disturbed_roots:
                entry.last_assignment = None  # flavors that were tried before may have quota by now
            tries_again = is_void or is_searching or (has_lost and bool(searching))
            is_active = ledger.requeue(entry, reason, tries_again=tries_again)
            if is_void or not is_active:
                self._changed_roots.add(root)
            elif tries_again:
                untried[root] = rounds
        for root in self.roots:
            has_changed = self._was_suspended or root in self._changed_roots
            unchanged_rounds = 0 if has_changed else ledger.dirty_trees.get(root, 0) + 1
            if unchanged_rounds <= untried.get(root, 0):
                ledger.dirty_trees[root] = unchanged_rounds
            else:
                ledger.dirty_trees.pop(root, None)

    def _pods_ready_blocker(self, nomination: Nomination) -> r.AwaitingPodsReady | None:
        """Return the unready workload that blocks an admission which is otherwise possible now.

        If only workloads of the same flavors are blocked, these do not preempt others either: they could not
        start then.  But an unready workload does not block its own preemption.
        """
        rules, unready = self._configuration.wait_for_pods_ready, self._ledger.unready
        assignment = nomination.assignment
        if rules is None or rules.block_admission is None or assignment is None or not unready:
            return None
        of_all_queues = rules.block_admission == "AllQueues"
        if assignment.mode is not AssignmentMode.FIT and (of_all_queues or not nomination.targets):
            return None
        if self._earlier.shortages(nomination, assignment):
            return None
        if of_all_queues:
            return r.AwaitingPodsReady(unready.first())
        leaving = {target.reservation.key for target in nomination.targets}
        return unready.blocker({pair.flavor for pair in assignment.usage}, leaving)

    def _decide(self, nomination: Nomination, now: float) -> list[Decision]:
        root = nomination.queue.node.root
        preemptors = self._earlier.preemptors.get(root, {})
        is_deferred = bool(preemptors) and self._assign_after_preemptions(nomination, preemptors)
        assignment = nomination.assignment
        if assignment is None:
            return [self._keep_inadmissible(nomination)]
        if assignment.mode is AssignmentMode.NO_FIT:
            return [self._refuse(nomination, RequeueReason.NO_FIT)]
        if assignment.mode.needs_preemption and not nomination.targets:
            is_preemptor = precedes_as_preemptor(nomination, self._configuration.gates)
            usage = quota_to_reserve(nomination.queue, assignment, is_preemptor=is_preemptor)
            self._earlier.reserve(nomination, usage)
            return [self._refuse(nomination, RequeueReason.NO_CANDIDATES)]
        if nomination.targets and self._is_gated(nomination):
            nomination.entry.last_assignment = None
            gated = r.PreemptionGated(len(nomination.targets))
            return [self._keep_pending(nomination, RequeueReason.GENERIC, (*nomination.reasons, gated))]
        if is_deferred:
            return [self._defer(nomination, assignment, preemptors)]
        for target in nomination.targets:
            key = target.reservation.key
            if key in preemptors:
                return [self._skip(nomination, r.TargetsOverlap(key, preemptors[key]))]
        shortages = self._earlier.shortages(nomination, assignment)
        if shortages:
            return [self._skip(nomination, self._earlier.loss(nomination, shortages))]
        if self._lost_places(nomination):
            if nomination.is_recomputed or not self._gates.recompute_in_cycle:
                return [self._skip(nomination, self._earlier.loss(nomination))]
            replace_lost_places(self._state, nomination, assignment, self._number)
            nomination.is_recomputed = True
            return self._decide(nomination, now)
        if self._ledger.planned:
            reserved = self._reserved(nomination, assignment, now)
            if reserved is not None and not reserved.shortages:
                elsewhere = self._plans.placed_elsewhere(nomination, assignment, now)
                if elsewhere is not None:
                    nomination.assignment = assignment = elsewhere
                    reserved = self._reserved(nomination, assignment, now)
            if reserved is not None:
                return [self._await_planned_start(nomination, reserved)]
        if self._ledger.windows and (kept := self._windows.refusal(nomination, assignment, now)):
            return [self._await_window(nomination, assignment, kept)]
        if nomination.targets:
            return self._preempt(nomination, assignment)
        self._changed_roots.add(root)
        self._earlier.last_served[root] = nomination.entry.key
        return [reserve(self._state, nomination.queue, nomination.entry, assignment, now)]

    def _await_planned_start(self, nomination: Nomination, reserved: r.ReservedForEarlierWorkload) -> Hold:
        """Keep a head pending that would delay the planned start of an earlier workload."""
        nomination.entry.last_assignment = None  # the flavor that was found was not used
        planned = self._ledger.planned.get(nomination.queue.name, ())
        if any(entry.key == reserved.workload for entry in planned):
            self._offer_plan(nomination)
        return self._keep_pending(nomination, RequeueReason.RESERVED, (reserved,))

    def _await_window(self, nomination: Nomination, assignment: Assignment, kept: r.ReservedWindow) -> Hold:
        """Keep a head pending that may run into a window, which keeps what the head needs."""
        self._ledger.awaiting_windows[nomination.queue.node.root] = None
        self._offer_plan(nomination)
        flavors = {flavor for pods in assignment.pod_sets for flavor in pods.flavors.values()}
        if len(assignment.pod_sets) == len(flavors) == 1:
            pass_over(nomination, *flavors)
        else:  # other pod sets or resources may have passed flavors that they need then
            nomination.entry.last_assignment = None
        # Of the same shape and queue a workload of another namespace may be an owner.
        return self._keep_pending(nomination, RequeueReason.GENERIC, (kept,))

    def _is_gated(self, nomination: Nomination) -> bool:
        is_obeyed = self._configuration.multikueue_gates.orchestrated_preemption
        return is_obeyed and has_closed_preemption_gate(nomination.workload)

    def _assign_after_preemptions(self, nomination: Nomination, preemptors: Mapping[Key, Key]) -> bool:
        """Assign again if targets overlap with those of earlier heads, as if these were gone already.

        Return True if the workload fits then.  Only with Kueue's gate
        RecomputeAssignmentUponPreemptionTargetsOverlap.
        """
        assignment = nomination.assignment
        if (
            not self._configuration.gates.recompute_assignment_upon_preemption_targets_overlap
            or assignment is None
            or not any(target.reservation.key in preemptors for target in nomination.targets)
        ):
            return False
        victims = (self._ledger.reservations.get(key) for key in preemptors)
        with self._ledger.without([reservation for reservation in victims if reservation is not None]):
            assignment = assign_again(self._state, nomination, assignment, self._number)
        fits_later = assignment.mode is AssignmentMode.FIT
        self._note_recomputation(nomination, "deferred_fit" if fits_later else "new_targets")
        return fits_later

    def _note_recomputation(self, nomination: Nomination, result: RecomputationResult) -> None:
        self._recomputed[nomination.entry.key] = Recomputation(nomination.queue.name, result)

    def pop_recomputations(self) -> tuple[Recomputation, ...]:
        """Return the assignments that were computed again since the last call."""
        recomputed, self._recomputed = self._recomputed, {}
        return tuple(recomputed.values())

    def _defer(self, nomination: Nomination, assignment: Assignment, preemptors: Mapping[Key, Key]) -> Hold:
        """Keep a head pending that fits as soon as the targets of earlier heads are gone."""
        entry, queue = nomination.entry, nomination.queue
        self._earlier.reserve(nomination, assignment.usage)
        entry.last_assignment = None
        queue.pending.set_preemptor(entry, sticky=queue.keeps_preemptor_first)
        reason = r.AwaitingOtherPreemption(tuple(preemptors))
        return self._keep_pending(nomination, RequeueReason.PENDING_PREEMPTION, (reason,))

    def _reserved(
        self, nomination: Nomination, assignment: Assignment, now: float
    ) -> r.ReservedForEarlierWorkload | None:
        """Return the planned start that the admission of a head would delay."""
        if not self._plans.precede(nomination, assignment):
            return None
        with self._earlier.uncounted():
            return self._plans.refusal(nomination, assignment, now)

    def _preempt(self, nomination: Nomination, assignment: Assignment) -> list[Decision]:
        """Evict the targets that are not being evicted yet; no other head may take their quota this round."""
        ledger, queue, entry = self._ledger, nomination.queue, nomination.entry
        self._earlier.reserve(nomination, assignment.usage, assignment.placement)
        keys = tuple(target.reservation.key for target in nomination.targets)
        self._earlier.preemptors.setdefault(queue.node.root, {}).update(dict.fromkeys(keys, entry.key))
        issued = [
            target
            for target in nomination.targets
            if ledger.expect_eviction(target.reservation, entry.workload.metadata.uid)
        ]
        if issued:
            self._changed_roots.add(queue.node.root)
        entry.last_assignment = None
        counts = tuple(pods.count for pods in assignment.pod_sets)
        entry.preempting_assignment = PreemptingAssignment(counts, assignment.borrowing_level)
        queue.pending.set_preemptor(entry, sticky=queue.keeps_preemptor_first)
        is_refused = all(
            target.workload.metadata.uid in ledger.refused_evictions for target in nomination.targets
        )
        reasons = (*nomination.reasons, r.AwaitingPreemption(keys, is_refused))
        hold = self._keep_pending(nomination, RequeueReason.PENDING_PREEMPTION, reasons)
        return [*(preemption_decision(entry.workload, queue, target) for target in issued), hold]

    def _skip(self, nomination: Nomination, reason: r.InadmissibleReason) -> Hold:
        """Keep a head pending that an earlier head of the round prevents from starting or preempting."""
        self._note_loss(nomination.entry)
        if nomination.targets:
            self.preemption_skips[nomination.entry.key] = nomination.queue.name
        if nomination.entry.key in self._recomputed:
            self._note_recomputation(nomination, "skipped")
        return self._keep_pending(nomination, RequeueReason.FAILED_AFTER_NOMINATION, (reason,))

    def _note_loss(self, entry: Entry) -> None:
        """Record that another head took what the search of ``entry`` had found; see ``Ledger.is_void``."""
        last = entry.last_assignment
        if last is not None:
            preserves = self._configuration.gates.flavor_fungibility_preserve_scan_progress
            tried = last.last_tried_flavors if preserves else ()
            entry.last_assignment = replace(last, last_tried_flavors=tried, has_lost=True)

    def _keep_pending(
        self,
        nomination: Nomination,
        requeue_reason: RequeueReason,
        reasons: tuple[r.InadmissibleReason, ...],
        condition_reason: ConditionReason = "Pending",
    ) -> Hold:
        self._to_requeue.append((nomination, requeue_reason))
        return hold(nomination, condition_reason, reasons, self._now)

    def _keep_inadmissible(self, nomination: Nomination) -> Hold:
        """Keep a workload pending that is inadmissible whatever the quota."""
        self._ledger.end_plan(nomination.queue, nomination.entry)
        requeue_reason = RequeueReason.GENERIC
        condition_reason: ConditionReason = "Pending"
        match nomination.reasons:
            case (r.NamespaceMismatched(),):
                requeue_reason = RequeueReason.NAMESPACE_MISMATCH
            case (r.EvaluationFailed(),):
                requeue_reason = RequeueReason.FAULT
            case (r.DevicesUncounted(),):
                condition_reason = "Inadmissible"
        return self._keep_pending(nomination, requeue_reason, nomination.reasons, condition_reason)

    def _offer_plan(self, nomination: Nomination) -> None:
        if nomination.queue.backfills and nomination.entry.key not in self._offered:
            with self._earlier.uncounted():
                self._plans.offer(nomination.queue, nomination.entry, self._now)

    def _refuse(self, nomination: Nomination, requeue_reason: RequeueReason) -> Hold:
        """Keep a workload pending; the constraints of its pods are no part of its shape."""
        if nomination.entry.key in self._recomputed:
            self._note_recomputation(nomination, "skipped")
        assignment, reasons = nomination.assignment, nomination.reasons
        if assignment is not None and assignment.needs_room:
            self._ledger.awaiting_room[nomination.queue.node.root] = None
            is_of_shape = not assignment.fewer_need_room and not any(
                isinstance(reason, r.ReservedWindow)
                or (isinstance(reason, r.NodesLackRoom) and reason.rejecting)
                for reason in reasons
            )
            requeue_reason = requeue_reason if is_of_shape else RequeueReason.GENERIC
        self._offer_plan(nomination)  # it may have lost what it had found
        if nomination.is_recomputed:  # with the same counts: fewer pods may have places
            self._note_loss(nomination.entry)
            requeue_reason = RequeueReason.FAILED_AFTER_NOMINATION
        return self._keep_pending(nomination, requeue_reason, reasons)


def _evaluation_failed(error: Exception) -> r.EvaluationFailed:
    return r.EvaluationFailed(f"{type(error).__name__}: {error}")
