"""Fair sharing preemption: targets from the queues that borrow most, if that makes the shares fairer.

The request counts as if it were admitted.  The search repeatedly picks the cluster queue that borrows most,
descending from the root.  Whether its candidate becomes a target depends on the dominant resource shares of
the two branches below the lowest common ancestor of preemptor and candidate (Kueue's almost-LCAs).
Source: Kueue's KEP-1714; its rules are named where they apply.
"""

from collections.abc import Iterable, Iterator
from typing import assert_never

import msgspec

from quorate.api.configuration.queueing import PreemptionStrategy
from quorate.queueing.cluster_queue import ClusterQueueState, Reservation
from quorate.queueing.decisions import PreemptionReason
from quorate.queueing.preemption.candidates import (
    CandidateOrder,
    Preemptor,
    QueuesBelow,
    Target,
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
from quorate.quota.fair_sharing import Share, dominant_share
from quorate.quota.tree import Node


def fair_sharing_targets(
    preemptor: Preemptor,
    queues_below: QueuesBelow,
    strategies: tuple[PreemptionStrategy, ...],
    *,
    reclaims: bool,
) -> tuple[Target, ...]:
    """Return the targets to evict so that ``preemptor`` fits; empty if no candidates suffice.

    With ``reclaims`` a queue within its nominal quota preempts borrowing queues regardless of shares.
    """
    with UsageSimulation(counts_places=False) as simulation:
        simulation.add(preemptor.queue.node, preemptor.usage)
        search = _TargetSearch(preemptor, simulation, reclaims=reclaims)
        ordering = _QueueOrdering(preemptor, _candidates(preemptor, queues_below))
        if search.first_strategy(ordering, strategies[0]) or (
            len(strategies) > 1 and search.second_strategy(_QueueOrdering(preemptor, search.retry_candidates))
        ):
            return fill_back(search.targets, simulation, search.fits)
    return ()


class _Candidate(msgspec.Struct, frozen=True, eq=False):
    reservation: Reservation
    queue: ClusterQueueState


def _candidates(preemptor: Preemptor, queues_below: QueuesBelow) -> Iterator[_Candidate]:
    pairs = preemptor.pairs_needing_preemption
    within_cluster_queue = within_cluster_queue_filter(preemptor)
    reclaim_within_cohort = reclaim_within_cohort_filter(preemptor)
    for queue in queues_below(preemptor.queue.node.root):
        same_queue = queue is preemptor.queue
        may_preempt = within_cluster_queue if same_queue else reclaim_within_cohort
        if may_preempt is no_candidate:
            continue
        if not same_queue and tree.is_within_quota(queue.node, pairs):
            continue
        for reservation in queue.reservations.values():
            if may_preempt(reservation) and preemptor.benefits_from(reservation, queue):
                yield _Candidate(reservation, queue)


class _QueueOrdering:
    """The candidates not tried yet, by cluster queue, and which cluster queue is next."""

    def __init__(self, preemptor: Preemptor, candidates: Iterable[_Candidate]) -> None:
        self._own = preemptor.queue
        self._ancestors = {*preemptor.queue.node.path()}
        self._remaining: dict[Node, list[_Candidate]] = {}  # by cluster queue, the next candidate last
        for candidate in candidates:
            self._remaining.setdefault(candidate.queue.node, []).append(candidate)
        for remaining in self._remaining.values():
            remaining.sort(key=lambda one: order_within_queue(one.reservation, one.queue), reverse=True)
        self._pruned: set[Node] = set()

    def _order(self, candidate: _Candidate) -> CandidateOrder:
        return candidate_order(candidate.reservation, same_queue=candidate.queue is self._own)

    def pop(self, node: Node) -> _Candidate | None:
        remaining = self._remaining.get(node)
        return remaining.pop() if remaining else None

    def prune(self, node: Node) -> None:
        self._pruned.add(node)

    def next(self) -> Node | None:
        """Return the next cluster queue; None if none has candidates."""
        root = self._own.node.root
        while root not in self._pruned:
            node = self._descend(root)
            if node is not None:
                return node
        return None

    def _descend(self, node: Node) -> Node | None:
        """Follow the child that borrows most down to a cluster queue; prune nodes on the way."""
        current: Node | None = node
        while current is not None and current.children:
            best: Node | None = None
            for child in current.children:
                if child in self._pruned or self._can_be_pruned(child):
                    self._pruned.add(child)
                elif best is None or self._precedes(child, best):
                    best = child
            if best is None:
                self._pruned.add(current)
            current = best
        if current is not None and not self._remaining.get(current):
            self._pruned.add(current)
            return None
        return current

    def _can_be_pruned(self, node: Node) -> bool:
        if not node.children and not self._remaining.get(node):
            return True
        if node is self._own.node or node in self._ancestors:
            return False
        return not dominant_share(node).is_borrowing

    def _precedes(self, one: Node, other: Node) -> bool:
        """Return True if ``one`` has the higher share; ties: a cohort first, then the candidates."""
        shares = dominant_share(one), dominant_share(other)
        if shares[0] != shares[1]:
            return shares[0] > shares[1]
        if bool(one.children) != bool(other.children):
            return bool(one.children)
        return self._first_order(one) < self._first_order(other)

    def _first_order(self, node: Node) -> list[CandidateOrder]:
        """Return the order of the first candidate below ``node``; empty if there is none."""
        below, orders = [node], []
        while below:
            current = below.pop()
            below += current.children
            if self._remaining.get(current) and current not in self._pruned:
                orders.append(self._order(self._remaining[current][-1]))
        return sorted(orders)[:1]


class _TargetSearch:
    def __init__(self, preemptor: Preemptor, simulation: UsageSimulation, *, reclaims: bool) -> None:
        self._preemptor = preemptor
        self._reclaims = reclaims
        self._simulation = simulation
        self.targets: list[Target] = []
        self.retry_candidates: list[_Candidate] = []  # refused by the first strategy

    def fits(self) -> bool:
        """Return True if the request fits; its simulated usage is left out for the comparison."""
        node, usage = self._preemptor.queue.node, self._preemptor.usage
        tree.remove_usage(node, usage)
        result = workload_fits(self._preemptor, self._simulation, allow_borrowing=True)
        tree.add_usage(node, usage)
        return result

    def first_strategy(self, ordering: _QueueOrdering, strategy: PreemptionStrategy) -> bool:
        """Add targets by the first strategy; return True if the request fits."""
        own = self._preemptor.queue.node
        # As the queue is now: that targets of its own bring it within its quota gives no claim on others.
        reclaims = self._reclaims and tree.is_within_quota(own, self._preemptor.pairs_needing_preemption)
        while (node := ordering.next()) is not None:
            if node is own:
                added = self._add_target(_pop(ordering, node), "InClusterQueue")
            elif reclaims:
                added = self._add_target(_pop(ordering, node), "InCohortReclamation")
            else:
                added = self._add_target_by_share(node, ordering, strategy)
            if added and self.fits():
                return True
        return False

    def second_strategy(self, ordering: _QueueOrdering) -> bool:
        """Add targets by LessThanInitialShare, one per cluster queue; return True if the request fits."""
        while (node := ordering.next()) is not None:
            preemptor_side, target_side = self._almost_lcas(node)
            candidate = _pop(ordering, node)
            ordering.prune(node)
            if dominant_share(preemptor_side) < dominant_share(target_side):
                self._add_target(candidate, "InCohortFairSharing")
                if self.fits():
                    return True
        return False

    def _add_target(self, candidate: _Candidate, reason: PreemptionReason) -> bool:
        self._simulation.remove(candidate.reservation, candidate.queue.node)
        self.targets.append(Target(candidate.reservation, candidate.queue, reason))
        return True

    def _add_target_by_share(
        self, node: Node, ordering: _QueueOrdering, strategy: PreemptionStrategy
    ) -> bool:
        """Add the first candidate of ``node`` that the strategy allows; return True if there is one."""
        preemptor_side, target_side = self._almost_lcas(node)
        preemptor_share, initial_share = dominant_share(preemptor_side), dominant_share(target_side)
        while (candidate := ordering.pop(node)) is not None:
            final_share = self._share_without(candidate, target_side)
            if _allows(strategy, preemptor_share, initial_share, final_share):
                return self._add_target(candidate, "InCohortFairSharing")
            self.retry_candidates.append(candidate)
        return False

    def _share_without(self, candidate: _Candidate, side: Node) -> Share:
        tree.remove_usage(candidate.queue.node, candidate.reservation.usage)
        share = dominant_share(side)
        tree.add_usage(candidate.queue.node, candidate.reservation.usage)
        return share

    def _almost_lcas(self, node: Node) -> tuple[Node, Node]:
        """Return the children of the lowest common ancestor that contain the preemptor and ``node``."""
        own = self._preemptor.queue.node
        own_path = (own, *own.path())
        target_side = node
        while target_side.parent is not None and target_side.parent not in own_path:
            target_side = target_side.parent
        common = target_side.parent
        return next(side for side in own_path if side.parent is common), target_side


def _pop(ordering: _QueueOrdering, node: Node) -> _Candidate:
    candidate = ordering.pop(node)
    assert candidate is not None, f"{node} was chosen without a candidate"
    return candidate


def _allows(
    strategy: PreemptionStrategy, preemptor_share: Share, initial_share: Share, final_share: Share
) -> bool:
    """Return True if a target may be preempted; the shares are those with the preemptor admitted."""
    if preemptor_share.infinite and not initial_share.infinite:
        return False
    match strategy:
        case "LessThanOrEqualToFinalShare":  # rule S2-a
            return preemptor_share <= final_share
        case "LessThanInitialShare":  # rule S2-b
            return preemptor_share < initial_share
    assert_never(strategy)
