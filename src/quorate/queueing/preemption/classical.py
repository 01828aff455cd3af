"""Classical preemption: targets by priority and quota ownership, without fair sharing."""

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from heapq import merge

import msgspec

from quorate.queueing.cluster_queue import ClusterQueueState, Reservation
from quorate.queueing.decisions import PreemptionReason
from quorate.queueing.preemption.candidates import (
    CandidateOrder,
    Preemptor,
    QueuesBelow,
    Target,
    borrow_within_cohort_filter,
    candidate_order,
    fill_back,
    no_candidate,
    order_within_queue,
    reclaim_within_cohort_filter,
    within_cluster_queue_filter,
    workload_fits,
)
from quorate.queueing.preemption.simulation import UsageSimulation
from quorate.quota import tree
from quorate.quota.amount import FlavorResource
from quorate.quota.tree import Node


class CandidateType(IntEnum):
    """How a candidate relates to the preemptor; smaller is preempted first."""

    HIERARCHICAL_RECLAIM = 0  # uses quota of a subtree that contains the preemptor but not the candidate
    PRIORITY = 1  # no side has the hierarchical advantage: priority decides, while borrowing
    SAME_QUEUE = 2


class Candidate(msgspec.Struct, frozen=True, eq=False):
    reservation: Reservation
    queue: ClusterQueueState
    type: CandidateType
    only_without_borrowing: bool = False  # a preemptor that ends up borrowing may not preempt it
    # Nodes between its cluster queue and the lowest common ancestor with the preemptor, both exclusive.
    path: tuple[Node, ...] = ()

    @property
    def reason(self) -> PreemptionReason:
        if self.type is CandidateType.SAME_QUEUE:
            return "InClusterQueue"
        if self.type is CandidateType.PRIORITY and not self.only_without_borrowing:
            return "InCohortReclaimWhileBorrowing"
        return "InCohortReclamation"


def classical_targets(preemptor: Preemptor, queues_below: QueuesBelow) -> tuple[Target, ...]:
    """Return the targets to evict so that ``preemptor`` fits; empty if no candidates suffice."""
    candidates = list(_candidates(preemptor, queues_below))
    if not candidates:
        return ()
    for allow_borrowing in _borrowing_attempts(preemptor, candidates):
        allowed = [one for one in candidates if not (allow_borrowing and one.only_without_borrowing)]
        if _may_suffice(preemptor, allowed):  # else the search costs more than the answer
            targets = _attempt(preemptor, _in_order(allowed), allow_borrowing=allow_borrowing)
            if targets:
                return targets
    return ()


def _may_suffice(preemptor: Preemptor, candidates: Sequence[Candidate]) -> bool:
    """Return False if the request does not fit even without all ``candidates``.

    The available quota grows at most by the usage of what is removed, wherever in the tree that is.
    """
    return all(
        preemptor.usage[pair]
        <= tree.available(preemptor.queue.node, pair)
        + sum(one.reservation.usage.get(pair, 0) for one in candidates)
        for pair in preemptor.pairs_needing_preemption
    )


def _candidates(preemptor: Preemptor, queues_below: QueuesBelow) -> Iterator[Candidate]:
    queue, pairs = preemptor.queue, preemptor.pairs_needing_preemption
    may_preempt = within_cluster_queue_filter(preemptor)
    for reservation in queue.reservations.values():
        if may_preempt(reservation) and preemptor.benefits_from(reservation, queue):
            yield Candidate(reservation, queue, CandidateType.SAME_QUEUE)
    may_preempt = reclaim_within_cohort_filter(preemptor)
    if may_preempt is no_candidate or not tree.has_borrowers(queue.node.path(), pairs):
        return
    may_preempt_and_borrow = borrow_within_cohort_filter(preemptor)
    # The preemptor has the advantage over all workloads outside of the smallest subtree with enough quota
    # for its request.
    node = queue.node
    visited = node
    has_advantage = not tree.borrows_any(node, preemptor.usage)
    rest = {
        pair: max(0, amount - tree.local_available(node, pair)) for pair, amount in preemptor.usage.items()
    }
    for ancestor in node.path():
        type_ = CandidateType.HIERARCHICAL_RECLAIM if has_advantage else CandidateType.PRIORITY
        for other_queue, path in _borrowing_queues(ancestor, visited, pairs, queues_below):
            for reservation in other_queue.reservations.values():
                if may_preempt(reservation) and preemptor.benefits_from(reservation, other_queue):
                    only_without_borrowing = not has_advantage and not may_preempt_and_borrow(reservation)
                    yield Candidate(reservation, other_queue, type_, only_without_borrowing, path)
        has_advantage = has_advantage or not tree.borrows_any(ancestor, rest)
        rest = {pair: max(0, amount - tree.local_available(ancestor, pair)) for pair, amount in rest.items()}
        visited = ancestor


def _borrowing_queues(
    top: Node, visited: Node, pairs: frozenset[FlavorResource], queues_below: QueuesBelow
) -> Iterator[tuple[ClusterQueueState, tuple[Node, ...]]]:
    """Return the queues below ``top`` that borrow through borrowing cohorts, with the cohorts in between.

    The subtree of ``visited`` is left out.
    """

    def walk(node: Node, path: tuple[Node, ...]) -> Iterator[tuple[ClusterQueueState, tuple[Node, ...]]]:
        for child in tree.borrowers(node, pairs):
            if child is visited:
                continue
            if child.height:
                yield from walk(child, (*path, child))
            else:
                for queue in queues_below(child):
                    yield queue, path

    yield from walk(top, ())


def _in_order(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """Return the candidates in the order of preemption.

    Only candidates of one cluster queue are compared by consumed usage, so that each cluster queue has an
    order of its own, and the first ones of all cluster queues are compared by the other criteria.
    """
    by_queue: dict[ClusterQueueState, list[Candidate]] = {}
    for candidate in candidates:
        by_queue.setdefault(candidate.queue, []).append(candidate)
    for of_queue in by_queue.values():
        of_queue.sort(
            key=lambda one: (
                not one.reservation.evicted,
                one.type,
                order_within_queue(one.reservation, one.queue),
            )
        )
    return merge(*by_queue.values(), key=_order)


def _order(candidate: Candidate) -> tuple[bool, int, CandidateOrder]:
    same_queue = candidate.type is CandidateType.SAME_QUEUE
    order = candidate_order(candidate.reservation, same_queue=same_queue)
    return not candidate.reservation.evicted, candidate.type, order


def _borrowing_attempts(preemptor: Preemptor, candidates: list[Candidate]) -> tuple[bool, ...]:
    """Return for each attempt, in order, whether it allows borrowing."""
    types = {candidate.type for candidate in candidates}
    if types <= {CandidateType.SAME_QUEUE}:
        return (True,)
    node = preemptor.queue.node
    if preemptor.policy.borrow_within_cohort.policy == "Never":
        pairs = preemptor.pairs_needing_preemption
        if any(tree.used(node, pair) >= tree.nominal(node, pair) for pair in pairs):
            return (True,)
        if CandidateType.HIERARCHICAL_RECLAIM not in types:
            return (False, True)
    return (True, False)


def _attempt(
    preemptor: Preemptor, candidates: Iterable[Candidate], *, allow_borrowing: bool
) -> tuple[Target, ...]:
    def fits() -> bool:
        return workload_fits(preemptor, simulation, allow_borrowing=allow_borrowing)

    targets: list[Target] = []
    with UsageSimulation(counts_places=False) as simulation:
        for candidate in candidates:
            if candidate.type is not CandidateType.SAME_QUEUE:
                nodes = (candidate.queue.node, *candidate.path)
                if any(tree.is_within_quota(node, preemptor.pairs_needing_preemption) for node in nodes):
                    continue  # the earlier targets brought the node back within its quota
            simulation.remove(candidate.reservation, candidate.queue.node)
            targets.append(Target(candidate.reservation, candidate.queue, candidate.reason))
            if fits():
                return fill_back(targets, simulation, fits)
    return ()
