"""The scheduling cycle: who is admitted now, who is preempted for whom, and why the others wait.

A *round* is the cycle of Kueue: it takes the head of every active cluster queue, judges each against the
state as it is (``nominate``), orders them, and carries them out one after the other, each seeing what those
before it took.  Heads that were not admitted go back, to be tried again at once or when something changes.
``run_cycle`` repeats rounds until one changes nothing, so a cycle admits exactly the workloads that as many
single rounds would.

With ``blockAdmission`` a round stops before it admits a workload while another is not ready.  The state
keeps it as it is; it goes on, with the assignments made before, as soon as all are ready, and no other round
runs meanwhile.  Where only those are held back that compete for the same flavors, the round goes on with
the others instead (see ``queueing.pods_ready``).
"""

from collections.abc import Iterable
from typing import Final, Literal

from quorate.api.kueue import Admission, PodSetAssignment
from quorate.api.meta import Key
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.conditions import queued_since
from quorate.queueing.decisions import CycleResult, Decision, Hold, Reserve
from quorate.queueing.inadmissible_reasons import (
    AwaitingPodsReady,
    AwaitingPreemption,
    InadmissibleReason,
    NamespaceMismatched,
    NoLongerFits,
    Shortage,
    TargetsOverlap,
)
from quorate.queueing.pending.ordering import affects_scheduling
from quorate.queueing.pending.queue import PreemptingAssignment, RequeueReason
from quorate.queueing.preemption.classical import preemption_decision, quota_to_reserve
from quorate.queueing.preemption.simulation import UsageSimulation
from quorate.queueing.scheduling.flavor_assigner import Assignment, AssignmentMode
from quorate.queueing.scheduling.nomination import Nomination, nominate
from quorate.queueing.scheduling.processing_order import ClassicalOrder, FairSharingOrder, ProcessingOrder
from quorate.queueing.state import State
from quorate.quota import tree
from quorate.quota.amount import Usage, as_quantity
from quorate.quota.tree import Node

# Decisions of one run: enough to keep many writes in flight, few enough to keep the shell responsive.
MAX_DECISIONS: Final = 100


def run_cycle(state: State, now: float) -> CycleResult:
    """Decide all that can be decided now, or a good batch of it; then ``wake_at`` asks to go on at once."""
    decisions: dict[Key, Decision] = {}
    preemption_skips: dict[Key, str] = {}
    sample_at = state.sample_consumed_usage(now)
    while (round_ := next_round(state)) is not None:
        for decision in round_.run(now):
            decisions.pop(decision.key, None)  # only the last word about a workload is worth writing
            decisions[decision.key] = decision
        preemption_skips |= round_.preemption_skips
        if len(decisions) >= MAX_DECISIONS:
            return CycleResult(tuple(decisions.values()), now, tuple(preemption_skips.values()))
    return CycleResult(tuple(decisions.values()), sample_at, tuple(preemption_skips.values()))


def next_round(state: State) -> "Round | None":
    """The round that may change something; None when everything has been judged as things are."""
    if state.suspended is not None:
        return None if state.unready else state.suspended
    state.flush_requeues()
    queues = [queue for root in state.dirty_trees for queue in state.queues_with_pending(root)]
    if not queues:
        state.dirty_trees.clear()
        return None
    return Round(state, queues)


class Round:
    """One head of each of ``queues``, popped and judged; ``run`` carries them out."""

    def __init__(self, state: State, queues: Iterable[ClusterQueueState]) -> None:
        self._state = state
        self._roots: dict[Node, None] = {}  # of the trees that take part
        self._busy: set[Node] = set()  # of those in which the round changed something
        self._back: list[tuple[Nomination, RequeueReason]] = []  # carried out and not admitted
        self.preemption_skips: dict[Key, str] = {}  # the cluster queue of each; see ``Cycle``
        self._held: list[tuple[Node, Usage]] = []  # counted for the rest of the round only
        # By the root of each tree: who was served last, and whom preemptors evict, each with its preemptor.
        self._served: dict[Node, Key] = {}
        self._victims: dict[Node, dict[Key, Key]] = {}
        self._waited = False  # whether it was suspended, so that much may have happened since it judged
        state.cycles += 1
        nominations: list[Nomination] = []
        for queue in queues:
            self._roots[queue.node.root] = None
            entry = queue.pending.pop() if state.is_active(queue) else None
            if entry is not None:
                nominations.append(nominate(state, queue, entry))
        turns = FairSharingOrder if state.configuration.fair_sharing is not None else ClassicalOrder
        self._turns: ProcessingOrder = turns(nominations, state.configuration.gates)

    def run(self, now: float) -> list[Decision]:
        """Carry out what was nominated.  A round that is suspended is to be run again."""
        decisions = self.process(now)
        if self._state.suspended is not self:
            self.requeue()
        return decisions

    def process(self, now: float) -> list[Decision]:
        """Decide on each head in its turn; ``requeue`` must follow unless the round got suspended."""
        decisions: list[Decision] = []
        self._state.suspended = None
        for node, usage in self._held:
            tree.add_usage(node, usage)
        while (nomination := self._turns.next()) is not None:
            if _is_outdated(nomination):
                self._back.append((nomination, RequeueReason.FAILED_AFTER_NOMINATION))
            elif (awaiting := self._awaiting(nomination)) is None:
                decisions.extend(self._decide(nomination, now))
            elif awaiting.flavor is None:
                decisions.append(_hold(nomination, "Waiting", (awaiting,)))
                self._state.suspended = self
                self._waited = True
                break
            else:
                self._state.unready.hold_back(nomination.queue, awaiting.flavor)
                decisions.append(self._refuse(nomination, RequeueReason.AWAITING_PODS_READY, (awaiting,)))
            self._turns.done(nomination)
        for node, usage in self._held:
            tree.remove_usage(node, usage)
        return decisions

    def requeue(self) -> None:
        """Put the heads that were not admitted back, and note which trees are at rest now."""
        state = self._state
        state.flush_requeues()
        searching: dict[Node, int] = {}  # trees with flavors left to try, and how many that could be
        for nomination, reason in self._back:
            entry, root = nomination.entry, nomination.queue.node.root
            if not state.requeue(entry, reason, nomination.requeues_before):
                self._busy.add(root)
            elif entry.last_assignment is not None and entry.last_assignment.has_untried_flavors:
                most = sum(len(group.flavors) for group in nomination.queue.groups.values())
                searching[root] = max(searching.get(root, 0), most)
        for root in self._roots:
            news = self._waited or root in self._busy
            rounds = 0 if news else state.dirty_trees.get(root, 0) + 1
            if rounds <= searching.get(root, 0):
                state.dirty_trees[root] = rounds
            else:
                state.dirty_trees.pop(root, None)

    def _awaiting(self, nomination: Nomination) -> AwaitingPodsReady | None:
        """Who must be ready before this one, which could be admitted now; None if nobody."""
        rules, unready = self._state.configuration.wait_for_pods_ready, self._state.unready
        assignment = nomination.assignment
        if rules is None or rules.block_admission is None or assignment is None or not unready:
            return None
        if assignment.mode is not AssignmentMode.FIT or self._lacks(nomination, assignment):
            return None
        if rules.block_admission == "AllQueues":
            return AwaitingPodsReady(unready.first())
        return unready.awaited(pair.flavor for pair in assignment.usage)

    def _decide(self, nomination: Nomination, now: float) -> list[Decision]:
        assignment = nomination.assignment
        if assignment is None:
            strange = any(isinstance(cause, NamespaceMismatched) for cause in nomination.reasons)
            reason = RequeueReason.NAMESPACE_MISMATCH if strange else RequeueReason.GENERIC
            return [self._refuse(nomination, reason, nomination.reasons)]
        if assignment.mode is AssignmentMode.NO_FIT:
            return [self._refuse(nomination, RequeueReason.NO_FIT, nomination.reasons)]
        if assignment.mode.needs_preemption and not nomination.targets:
            self._count_for_now(nomination, quota_to_reserve(nomination.queue, assignment))
            return [self._refuse(nomination, RequeueReason.NO_CANDIDATES, nomination.reasons)]
        victims = self._victims.get(nomination.queue.node.root, {})
        for target in nomination.targets:
            key = target.reservation.key
            if key in victims:
                return [self._skip(nomination, TargetsOverlap(key, victims[key]))]
        lacks = self._lacks(nomination, assignment)
        if lacks:
            return [self._skip(nomination, NoLongerFits(self._served.get(nomination.queue.node.root), lacks))]
        if nomination.targets:
            return self._preempt(nomination, assignment)
        self._busy.add(nomination.queue.node.root)
        self._served[nomination.queue.node.root] = nomination.entry.key
        return [self._reserve(nomination, assignment, now)]

    def _lacks(self, nomination: Nomination, assignment: Assignment) -> tuple[Shortage, ...]:
        """What is missing beside what this round decided so far, once all victims are gone."""
        with self._state.without_replaced_slice(nomination.entry.workload, nomination.queue):
            return self._lacks_beside(nomination, assignment)

    def _lacks_beside(self, nomination: Nomination, assignment: Assignment) -> tuple[Shortage, ...]:
        node = nomination.queue.node
        leaving = (
            *self._victims.get(node.root, ()),
            *(target.reservation.key for target in nomination.targets),
        )
        if not leaving:
            return _lacking(node, assignment.usage)
        with UsageSimulation() as trial:
            for key in leaving:
                reservation = self._state.reservations.get(key)
                if reservation is not None:  # a victim may be gone already when a blocked round goes on
                    queue = self._state.cluster_queues[reservation.admission.cluster_queue]
                    trial.remove(reservation, queue.node)
            return _lacking(node, assignment.usage)

    def _count_for_now(self, nomination: Nomination, usage: Usage) -> None:
        node = nomination.queue.node
        self._served[node.root] = nomination.entry.key
        self._held.append((node, usage))
        tree.add_usage(node, usage)

    def _preempt(self, nomination: Nomination, assignment: Assignment) -> list[Decision]:
        """Evict the targets that are not being evicted yet; nobody else may take their room this round."""
        state, queue, entry = self._state, nomination.queue, nomination.entry
        self._count_for_now(nomination, assignment.usage)
        victims = tuple(target.reservation.key for target in nomination.targets)
        self._victims.setdefault(queue.node.root, {}).update(dict.fromkeys(victims, entry.key))
        fresh = [target for target in nomination.targets if state.expect_eviction(target.reservation, entry)]
        if fresh:
            self._busy.add(queue.node.root)
        entry.last_assignment = None
        entry.preempting_assignment = PreemptingAssignment(
            tuple(pods.count for pods in assignment.pod_sets), assignment.level
        )
        if not queue.is_strict:
            queue.pending.sticky = entry
        reasons = (*nomination.reasons, AwaitingPreemption(victims))
        hold = self._refuse(nomination, RequeueReason.PENDING_PREEMPTION, reasons)
        return [*(preemption_decision(entry.workload, queue, target) for target in fresh), hold]

    def _skip(self, nomination: Nomination, cause: InadmissibleReason) -> Hold:
        """Refuse one that could start, or preempt, but for those before it in the round."""
        if not self._state.configuration.gates.flavor_fungibility_preserve_scan_progress:
            nomination.entry.last_assignment = None
        if nomination.targets:
            self.preemption_skips[nomination.entry.key] = nomination.queue.name
        return self._refuse(nomination, RequeueReason.FAILED_AFTER_NOMINATION, (cause,))

    def _refuse(
        self, nomination: Nomination, reason: RequeueReason, reasons: tuple[InadmissibleReason, ...]
    ) -> Hold:
        self._back.append((nomination, reason))
        waits = reason is RequeueReason.AWAITING_PODS_READY
        return _hold(nomination, "Waiting" if waits else "Pending", reasons)

    def _reserve(self, nomination: Nomination, assignment: Assignment, now: float) -> Reserve:
        entry, queue = nomination.entry, nomination.queue
        metadata = entry.workload.metadata
        admission = _admission(queue.name, assignment)
        ready = {check.name for check in entry.workload.status.admission_checks if check.state == "Ready"}
        admitted = ready.issuperset(queue.checks_for(admission))
        self._state.assume(entry, admission, assignment.usage, admitted=admitted)
        return Reserve(
            key=metadata.key,
            uid=metadata.uid,
            resource_version=metadata.resource_version,
            cluster_queue=queue.name,
            admission=admission,
            admitted=admitted,
            waited_s=max(0.0, now - queued_since(entry.workload)),
        )


def _lacking(node: Node, usage: Usage) -> tuple[Shortage, ...]:
    """What keeps ``usage`` from fitting at ``node``, by flavor and resource; nothing if it fits."""
    if tree.fits(node, usage):
        return ()
    found = [
        Shortage(
            pair.flavor,
            pair.resource,
            amount,
            max(0, tree.available(node, pair)),
            tree.potential_available(node, pair),
        )
        for pair, amount in sorted(usage.items())
    ]
    return tuple(lack for lack in found if lack.short_by > 0)


def _is_outdated(nomination: Nomination) -> bool:
    """Whether the workload left its queue, or changed, since it was judged (in a suspended round)."""
    entry = nomination.entry
    if nomination.queue.pending.in_flight is not entry:
        return True
    return entry.workload is not nomination.workload and affects_scheduling(
        nomination.workload, entry.workload
    )


def _hold(
    nomination: Nomination, reason: Literal["Pending", "Waiting"], reasons: tuple[InadmissibleReason, ...]
) -> Hold:
    entry = nomination.entry
    metadata = entry.workload.metadata
    entry.hold = Hold(
        key=metadata.key,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        reason=reason,
        reasons=reasons,
        requests=entry.shape.requests,
    )
    return entry.hold


def _admission(cluster_queue: str, assignment: Assignment) -> Admission:
    return Admission(
        cluster_queue=cluster_queue,
        pod_set_assignments=tuple(
            PodSetAssignment(
                name=pods.name,
                flavors=pods.flavors,
                resource_usage={
                    resource: as_quantity(resource, amount) for resource, amount in pods.requests.items()
                },
                count=pods.count,
            )
            for pods in assignment.pod_sets
        ),
    )
