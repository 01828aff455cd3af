"""Whom to preempt for a workload that does not fit: candidates, their order, and the smallest set of them.

Two searches share candidates and finish: the *classical* one here, and the one of *fair sharing*
(``queueing.fair_preemption``).  Both only simulate; who is really evicted is decided by the cycle.
Source: Kueue's preemption, KEP-1337 (borrowing), KEP-79 (hierarchical cohorts).
"""

from collections.abc import Callable, Iterable, Iterator
from enum import IntEnum
from typing import Final

import msgspec

from quorate.api.kueue import JOB_UID, BorrowWithinCohort, Preemption, Workload
from quorate.api.meta import Uid
from quorate.queueing.cluster_queue import ClusterQueueState, Reservation
from quorate.queueing.decisions import Preempt, PreemptionReason
from quorate.queueing.pending.ordering import QueueOrder
from quorate.queueing.preemption.simulation import UsageSimulation
from quorate.queueing.scheduling.flavor_assigner import Assignment
from quorate.quota import tree
from quorate.quota.amount import FlavorResource, Unlimited, Usage
from quorate.quota.tree import Node

_REASON_TEXT: Final[dict[PreemptionReason, str]] = {
    "InClusterQueue": "prioritization in the ClusterQueue",
    "InCohortReclamation": "reclamation within the cohort",
    "InCohortFairSharing": "Fair Sharing within the cohort",
    "InCohortReclaimWhileBorrowing": "reclamation within the cohort while borrowing",
}


class Preemptor(msgspec.Struct, frozen=True):
    """Who needs room."""

    queue: ClusterQueueState
    order: QueueOrder
    usage: Usage  # what it would use, all of it
    short: frozenset[FlavorResource]  # the part of that for which somebody has to go
    timestamp_buffer_s: float = (
        0.0  # by how much it must have queued before an equal of its own queue, at least
    )
    excluded_victims: frozenset[Uid] = frozenset()  # who made room for it before and is not asked again

    @property
    def policy(self) -> Preemption:
        return self.queue.spec.preemption

    def wants(self, other: Reservation) -> bool:
        """Whether it would help if ``other`` went, and it may be asked to (see ``preemption.history``)."""
        return not self.short.isdisjoint(other.usage) and (
            other.evicted or other.workload.metadata.uid not in self.excluded_victims
        )


class CandidateType(IntEnum):
    """What a candidate is to the preemptor, those preferred as victims first."""

    HIERARCHICAL = 0  # it uses quota that belongs to a subtree the preemptor is in and it is not
    PRIORITY = 1  # neither is nearer to the quota: priority decides while borrowing
    OWN = 2  # in the preemptor's own cluster queue


class Candidate(msgspec.Struct, frozen=True, eq=False):
    reservation: Reservation
    queue: ClusterQueueState
    standing: CandidateType
    protected: bool = False  # not to be preempted by somebody who ends up borrowing
    # Between its cluster queue and what it has in common with the preemptor's, exclusive.
    between: tuple[Node, ...] = ()

    @property
    def reason(self) -> PreemptionReason:
        if self.standing is CandidateType.OWN:
            return "InClusterQueue"
        if self.standing is CandidateType.PRIORITY and not self.protected:
            return "InCohortReclaimWhileBorrowing"
        return "InCohortReclamation"


class Target(msgspec.Struct, frozen=True):
    """Who is to be preempted, and why."""

    reservation: Reservation
    queue: ClusterQueueState
    reason: PreemptionReason


QueuesBelow = Callable[[Node], Iterable[ClusterQueueState]]  # the cluster queues at and below a node


def classical_targets(preemptor: Preemptor, queues_below: QueuesBelow) -> tuple[Target, ...]:
    """The victims that make room for ``preemptor``; none when no set of candidates would do."""
    candidates = sorted(_candidates(preemptor, queues_below), key=_preference)
    for borrowing in _attempts(preemptor, candidates):
        targets = _attempt(preemptor, candidates, borrowing=borrowing)
        if targets:
            return targets
    return ()


CandidateOrder = tuple[bool, bool, float, int, float, str]


def candidate_order(reservation: Reservation, queue: ClusterQueueState, *, own: bool) -> CandidateOrder:
    """Whom to preempt first: who leaves anyway, other queues', the least important, the most recent.

    Where local queues take turns, those of the preemptor's own cluster queue that used most go first.
    """
    consumed_usage = queue.pending.consumed_usage if own else None
    return (
        not reservation.evicted,
        own,
        0.0 if consumed_usage is None else -consumed_usage(reservation.local_queue),
        -reservation.order[0],
        -reservation.reserved_at,
        reservation.order[2],
    )


CandidateFilter = Callable[[Reservation], bool]  # whether somebody may be preempted


def no_candidate(other: Reservation) -> bool:
    return False


def any_candidate(other: Reservation) -> bool:
    return True


def within_cluster_queue_filter(preemptor: Preemptor) -> CandidateFilter:
    """Whom of its own cluster queue ``withinClusterQueue`` lets it evict."""
    least, queued_at = preemptor.order[0], preemptor.order[1]  # priorities are negated there
    newer_than = queued_at + preemptor.timestamp_buffer_s
    match preemptor.policy.within_cluster_queue:
        case "Never":
            return no_candidate
        case "LowerPriority":
            return lambda other: other.order[0] > least
        case "LowerOrNewerEqualPriority":
            return lambda other: (other.order[0], other.order[1]) > (least, newer_than)


def reclaim_within_cohort_filter(preemptor: Preemptor) -> CandidateFilter:
    """Whom of other cluster queues ``reclaimWithinCohort`` lets it evict."""
    least = preemptor.order[0]
    match preemptor.policy.reclaim_within_cohort:
        case "Never":
            return no_candidate
        case "LowerPriority":
            return lambda other: other.order[0] > least
        case "Any":
            return any_candidate


def borrow_within_cohort_filter(preemptor: Preemptor) -> CandidateFilter:
    """Whom of other cluster queues ``borrowWithinCohort`` lets it evict and borrow all the same."""
    least = preemptor.order[0]
    match preemptor.policy.borrow_within_cohort:
        case BorrowWithinCohort(policy="Never"):
            return no_candidate
        case BorrowWithinCohort(max_priority_threshold=None):
            return lambda other: other.order[0] > least
        case BorrowWithinCohort(max_priority_threshold=int(threshold)):
            return lambda other: other.order[0] > least and other.order[0] >= -threshold
    raise AssertionError(f"{preemptor.policy.borrow_within_cohort} is no rule")


def workload_fits(preemptor: Preemptor, *, borrowing: bool) -> bool:
    """Whether there is room now; without ``borrowing``, within the queue's own nominal quota."""
    node = preemptor.queue.node
    return tree.fits(node, preemptor.usage) and (
        borrowing
        or all(
            tree.used(node, pair) + amount <= tree.nominal(node, pair)
            for pair, amount in preemptor.usage.items()
        )
    )


def fill_back(
    targets: list[Target], trial: UsageSimulation, has_room: Callable[[], bool]
) -> tuple[Target, ...]:
    """``targets``, less those who can stay after all, the last ones taken being tried first.

    The very last is what made the room: it is never given back.
    """
    for index in range(len(targets) - 2, -1, -1):
        target = targets[index]
        trial.restore(target.reservation)
        if has_room():
            targets[index] = targets[-1]
            targets.pop()
        else:
            trial.remove(target.reservation, target.queue.node)
    return tuple(targets)


def quota_to_reserve(queue: ClusterQueueState, assignment: Assignment) -> dict[FlavorResource, int]:
    """What is kept free, for the rest of a round, for one who waits and has nobody to preempt.

    Without it those behind would slip into quota it is entitled to.  A queue that may reclaim from anybody
    keeps nothing: it can take it back.
    """
    if queue.spec.preemption.reclaim_within_cohort == "Any":
        return {}
    node = queue.node

    def entitled(pair: FlavorResource, amount: int) -> int:
        borrowing = tree.limits(node, pair).borrowing
        left = tree.nominal(node, pair) - tree.used(node, pair)
        if assignment.level == 0:
            return max(0, min(amount, left))
        if isinstance(borrowing, Unlimited):
            return amount  # all of it, even where less is left
        return max(0, min(amount, left + borrowing))

    return {pair: entitled(pair, amount) for pair, amount in assignment.usage.items()}


def preemption_decision(preemptor: Workload, queue: ClusterQueueState, target: Target) -> Preempt:
    """The decision to evict ``target`` for ``preemptor``, of ``queue``."""
    victim = target.reservation.workload.metadata
    uid, job_uid = preemptor.metadata.uid, preemptor.metadata.labels.get(JOB_UID)
    return Preempt(
        key=victim.key,
        uid=victim.uid,
        resource_version=victim.resource_version,
        reason=target.reason,
        message=(
            f"Preempted to accommodate a workload (UID: {uid or 'UNKNOWN'}, JobUID: {job_uid or 'UNKNOWN'}) "
            f"due to {_REASON_TEXT[target.reason]}; preemptor path: {_path(queue)}; "
            f"preemptee path: {_path(target.queue)}"
        ),
        preemptor=preemptor.metadata.key,
    )


def _path(queue: ClusterQueueState) -> str:
    """From the root down: /cohort/.../cluster queue."""
    names = [queue.name, *(ancestor.name for ancestor in queue.node.path())]
    return "".join(f"/{name}" for name in reversed(names))


def _candidates(preemptor: Preemptor, queues_below: QueuesBelow) -> Iterator[Candidate]:
    queue, short = preemptor.queue, preemptor.short
    may = within_cluster_queue_filter(preemptor)
    for other in queue.reservations.values():
        if may(other) and preemptor.wants(other):
            yield Candidate(other, queue, CandidateType.OWN)
    may, may_borrow = reclaim_within_cohort_filter(preemptor), borrow_within_cohort_filter(preemptor)
    if may is no_candidate:
        return
    # Over everybody outside of the smallest subtree that owns enough, the preemptor has the advantage.
    node = queue.node
    visited = node
    advantage = not any(tree.borrows_with(node, pair, amount) for pair, amount in preemptor.usage.items())
    rest = {
        pair: max(0, amount - tree.local_available(node, pair)) for pair, amount in preemptor.usage.items()
    }
    for ancestor in node.path():
        standing = CandidateType.HIERARCHICAL if advantage else CandidateType.PRIORITY
        for other_queue, between in _borrowers(ancestor, visited, short, queues_below):
            for other in other_queue.reservations.values():
                if may(other) and preemptor.wants(other):
                    protected = not advantage and not may_borrow(other)
                    yield Candidate(other, other_queue, standing, protected, between)
        advantage = advantage or not any(
            tree.borrows_with(ancestor, pair, amount) for pair, amount in rest.items()
        )
        rest = {pair: max(0, amount - tree.local_available(ancestor, pair)) for pair, amount in rest.items()}
        visited = ancestor


def _borrowers(
    top: Node, visited: Node, pairs: frozenset[FlavorResource], queues_below: QueuesBelow
) -> Iterator[tuple[ClusterQueueState, tuple[Node, ...]]]:
    """Cluster queues below ``top``, not below ``visited``, that borrow, as do all cohorts up to ``top``."""

    def walk(node: Node, between: tuple[Node, ...]) -> Iterator[tuple[ClusterQueueState, tuple[Node, ...]]]:
        for child in tree.borrowers(node, pairs):
            if child is visited:
                continue
            if child.height:
                yield from walk(child, (*between, child))
            else:
                for queue in queues_below(child):
                    yield queue, between

    yield from walk(top, ())


def _preference(candidate: Candidate) -> tuple[bool, int, CandidateOrder]:
    reservation, standing = candidate.reservation, candidate.standing
    order = candidate_order(reservation, candidate.queue, own=standing is CandidateType.OWN)
    return not reservation.evicted, standing, order


def _attempts(preemptor: Preemptor, candidates: list[Candidate]) -> tuple[bool, ...]:
    """Whether to allow borrowing, in each of the attempts to be made."""
    standings = {candidate.standing for candidate in candidates}
    if standings <= {CandidateType.OWN}:
        return (True,)
    node = preemptor.queue.node
    if preemptor.policy.borrow_within_cohort.policy == "Never":
        if any(tree.used(node, pair) >= tree.nominal(node, pair) for pair in preemptor.short):
            return (True,)
        if CandidateType.HIERARCHICAL not in standings:
            return (False, True)
    return (True, False)


def _attempt(preemptor: Preemptor, candidates: Iterable[Candidate], *, borrowing: bool) -> tuple[Target, ...]:
    targets: list[Target] = []
    with UsageSimulation() as trial:
        for candidate in candidates:
            if candidate.standing is not CandidateType.OWN:
                if borrowing and candidate.protected:
                    continue
                line = (candidate.queue.node, *candidate.between)
                if any(tree.is_within_quota(node, preemptor.short) for node in line):
                    continue  # those taken before brought it back within its quota
            trial.remove(candidate.reservation, candidate.queue.node)
            targets.append(Target(candidate.reservation, candidate.queue, candidate.reason))
            if workload_fits(preemptor, borrowing=borrowing):
                return fill_back(targets, trial, lambda: workload_fits(preemptor, borrowing=borrowing))
    return ()
