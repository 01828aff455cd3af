"""The scheduling cycle: who is admitted now, who is preempted for whom, and why the others wait.

A *round* is the cycle of Kueue: it takes the head of every active cluster queue, judges each against the
state as it is (``nominate``), orders them, and carries them out one after the other, each seeing what those
before it took.  Heads that were not admitted go back, to be tried again at once or when something changes.
``run_cycle`` repeats rounds until one changes nothing, so a cycle admits exactly the workloads that as many
single rounds would.

With ``blockAdmission`` a round stops before it admits a workload while another is not ready.  The state
keeps it as it is; it goes on, with the assignments made before, as soon as all are ready, and no other round
runs meanwhile.  Where only those are held back that compete for the same flavors, the round goes on with
the others instead (see ``queueing.unready``).
"""

from collections.abc import Iterable
from typing import Final, Literal

from quorate.api.kueue import Admission, PodSetAssignment
from quorate.api.meta import Key
from quorate.queueing.cluster_queue import ClusterQueueState
from quorate.queueing.conditions import queued_since
from quorate.queueing.decisions import Cycle, Decision, Hold, Reserve
from quorate.queueing.inadmissible_reasons import (
    AwaitingPodsReady,
    AwaitingPreemption,
    Cause,
    Lack,
    NamespaceMismatched,
    RoomTaken,
    TargetsOverlap,
)
from quorate.queueing.pending.ordering import changed_what_counts
from quorate.queueing.pending.queue import Claim, Requeue
from quorate.queueing.preemption.classical import preempt, room_kept
from quorate.queueing.preemption.simulation import Trial
from quorate.queueing.scheduling.flavor_assigner import Assignment, Mode
from quorate.queueing.scheduling.nomination import Nomination, nominate
from quorate.queueing.scheduling.processing_order import ClassicalTurns, FairTurns, Turns
from quorate.queueing.state import State
from quorate.quota import tree
from quorate.quota.amount import Usage, as_quantity
from quorate.quota.tree import Node

# Decisions of one run: enough to keep many writes in flight, few enough to keep the shell responsive.
ENOUGH: Final = 100


def run_cycle(state: State, now: float) -> Cycle:
    """Decide all that can be decided now, or a good batch of it; then ``wake_at`` asks to go on at once."""
    decisions: dict[Key, Decision] = {}
    passed_over: dict[Key, str] = {}
    sample_at = state.sample_past_use(now)
    while (round_ := next_round(state)) is not None:
        for decision in round_.run(now):
            decisions.pop(decision.key, None)  # only the last word about a workload is worth writing
            decisions[decision.key] = decision
        passed_over |= round_.passed_over
        if len(decisions) >= ENOUGH:
            return Cycle(tuple(decisions.values()), now, tuple(passed_over.values()))
    return Cycle(tuple(decisions.values()), sample_at, tuple(passed_over.values()))


def next_round(state: State) -> "Round | None":
    """The round that may change something; None when everything has been judged as things are."""
    if state.suspended is not None:
        return None if state.unready else state.suspended
    state.settle_wakes()
    queues = [queue for root in state.restless for queue in state.waiting_below(root)]
    if not queues:
        state.restless.clear()
        return None
    return Round(state, queues)


class Round:
    """One head of each of ``queues``, popped and judged; ``run`` carries them out."""

    def __init__(self, state: State, queues: Iterable[ClusterQueueState]) -> None:
        self._state = state
        self._roots: dict[Node, None] = {}  # of the trees that take part
        self._busy: set[Node] = set()  # of those in which the round changed something
        self._back: list[tuple[Nomination, Requeue]] = []  # carried out and not admitted
        self.passed_over: dict[Key, str] = {}  # the cluster queue of each; see ``Cycle``
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
        turns = FairTurns if state.configuration.fair_sharing is not None else ClassicalTurns
        self._turns: Turns = turns(nominations, state.configuration.gates)

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
                self._back.append((nomination, Requeue.FAILED_AFTER_NOMINATION))
            elif (awaiting := self._awaiting(nomination)) is None:
                decisions.extend(self._decide(nomination, now))
            elif awaiting.flavor is None:
                decisions.append(_hold(nomination, "Waiting", (awaiting,)))
                self._state.suspended = self
                self._waited = True
                break
            else:
                self._state.unready.hold_back(nomination.queue, awaiting.flavor)
                decisions.append(self._refuse(nomination, Requeue.AWAITING_PODS_READY, (awaiting,)))
            self._turns.done(nomination)
        for node, usage in self._held:
            tree.remove_usage(node, usage)
        return decisions

    def requeue(self) -> None:
        """Put the heads that were not admitted back, and note which trees are at rest now."""
        state = self._state
        state.settle_wakes()
        searching: dict[Node, int] = {}  # trees with flavors left to try, and how many that could be
        for nomination, reason in self._back:
            entry, root = nomination.entry, nomination.queue.node.root
            if not state.requeue(entry, reason, nomination.wakes_before):
                self._busy.add(root)
            elif entry.resume is not None and entry.resume.has_untried:
                most = sum(len(group.flavors) for group in nomination.queue.groups.values())
                searching[root] = max(searching.get(root, 0), most)
        for root in self._roots:
            news = self._waited or root in self._busy
            rounds = 0 if news else state.restless.get(root, 0) + 1
            if rounds <= searching.get(root, 0):
                state.restless[root] = rounds
            else:
                state.restless.pop(root, None)

    def _awaiting(self, nomination: Nomination) -> AwaitingPodsReady | None:
        """Who must be ready before this one, which could be admitted now; None if nobody."""
        rules, unready = self._state.configuration.wait_for_pods_ready, self._state.unready
        assignment = nomination.assignment
        if rules is None or rules.block_admission is None or assignment is None or not unready:
            return None
        if assignment.mode is not Mode.FIT or self._lacks(nomination, assignment):
            return None
        if rules.block_admission == "AllQueues":
            return AwaitingPodsReady(unready.first())
        return unready.awaited(pair.flavor for pair in assignment.usage)

    def _decide(self, nomination: Nomination, now: float) -> list[Decision]:
        assignment = nomination.assignment
        if assignment is None:
            strange = any(isinstance(cause, NamespaceMismatched) for cause in nomination.causes)
            reason = Requeue.NAMESPACE_MISMATCH if strange else Requeue.GENERIC
            return [self._refuse(nomination, reason, nomination.causes)]
        if assignment.mode is Mode.NO_FIT:
            return [self._refuse(nomination, Requeue.NO_FIT, nomination.causes)]
        if assignment.mode.needs_preemption and not nomination.targets:
            self._count_for_now(nomination, room_kept(nomination.queue, assignment))
            return [self._refuse(nomination, Requeue.NO_CANDIDATES, nomination.causes)]
        victims = self._victims.get(nomination.queue.node.root, {})
        for target in nomination.targets:
            key = target.reservation.key
            if key in victims:
                return [self._skip(nomination, TargetsOverlap(key, victims[key]))]
        lacks = self._lacks(nomination, assignment)
        if lacks:
            return [self._skip(nomination, RoomTaken(self._served.get(nomination.queue.node.root), lacks))]
        if nomination.targets:
            return self._preempt(nomination, assignment)
        self._busy.add(nomination.queue.node.root)
        self._served[nomination.queue.node.root] = nomination.entry.key
        return [self._reserve(nomination, assignment, now)]

    def _lacks(self, nomination: Nomination, assignment: Assignment) -> tuple[Lack, ...]:
        """What is missing beside what this round decided so far, once all victims are gone."""
        with self._state.room_of_replaced(nomination.entry.workload, nomination.queue):
            return self._lacks_beside(nomination, assignment)

    def _lacks_beside(self, nomination: Nomination, assignment: Assignment) -> tuple[Lack, ...]:
        node = nomination.queue.node
        leaving = (
            *self._victims.get(node.root, ()),
            *(target.reservation.key for target in nomination.targets),
        )
        if not leaving:
            return _lacking(node, assignment.usage)
        with Trial() as trial:
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
        entry.resume = None
        entry.claim = Claim(tuple(pods.count for pods in assignment.pod_sets), assignment.level)
        if not queue.is_strict:
            queue.pending.sticky = entry
        causes = (*nomination.causes, AwaitingPreemption(victims))
        hold = self._refuse(nomination, Requeue.PENDING_PREEMPTION, causes)
        return [*(preempt(entry.workload, queue, target) for target in fresh), hold]

    def _skip(self, nomination: Nomination, cause: Cause) -> Hold:
        """Refuse one that could start, or preempt, but for those before it in the round."""
        if not self._state.configuration.gates.flavor_fungibility_preserve_scan_progress:
            nomination.entry.resume = None
        if nomination.targets:
            self.passed_over[nomination.entry.key] = nomination.queue.name
        return self._refuse(nomination, Requeue.FAILED_AFTER_NOMINATION, (cause,))

    def _refuse(self, nomination: Nomination, reason: Requeue, causes: tuple[Cause, ...]) -> Hold:
        self._back.append((nomination, reason))
        waits = reason is Requeue.AWAITING_PODS_READY
        return _hold(nomination, "Waiting" if waits else "Pending", causes)

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


def _lacking(node: Node, usage: Usage) -> tuple[Lack, ...]:
    """What keeps ``usage`` from fitting at ``node``, by flavor and resource; nothing if it fits."""
    if tree.fits(node, usage):
        return ()
    found = [
        Lack(
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
    return entry.workload is not nomination.workload and changed_what_counts(
        nomination.workload, entry.workload
    )


def _hold(nomination: Nomination, reason: Literal["Pending", "Waiting"], causes: tuple[Cause, ...]) -> Hold:
    entry = nomination.entry
    metadata = entry.workload.metadata
    entry.hold = Hold(
        key=metadata.key,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        reason=reason,
        causes=causes,
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
