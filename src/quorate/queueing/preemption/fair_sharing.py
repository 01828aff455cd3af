"""Whom to preempt under fair sharing: from those who borrow most, and only if that makes things fairer.

The request counts as if it ran already.  Again and again the cluster queue that has borrowed most, seen
from the root down, is asked for a victim; whether it has to give one depends on the shares of the two
branches of the tree that part where preemptor and victim have their lowest common cohort.
Source: Kueue's KEP-1714, whose rules are named where they apply.
"""

from collections.abc import Iterable, Iterator
from typing import assert_never

import msgspec

from quorate.api.configuration import PreemptionStrategy
from quorate.queueing.cluster_queue import ClusterQueueState, Reservation
from quorate.queueing.decisions import PreemptionReason
from quorate.queueing.preemption.classical import (
    CandidateOrder,
    Preemptor,
    QueuesBelow,
    Target,
    candidate_order,
    fill_back,
    no_candidate,
    reclaim_within_cohort_filter,
    within_cluster_queue_filter,
    workload_fits,
)
from quorate.queueing.preemption.simulation import UsageSimulation
from quorate.quota import tree
from quorate.quota.fair_sharing import Share, dominant_share
from quorate.quota.tree import Node


def fair_targets(
    preemptor: Preemptor,
    queues_below: QueuesBelow,
    strategies: tuple[PreemptionStrategy, ...],
    *,
    reclaims: bool,
) -> tuple[Target, ...]:
    """The victims that make room for ``preemptor``; none when no set of candidates would do.

    With ``reclaims`` who stays within its nominal quota takes from borrowers whatever the shares.
    """
    with UsageSimulation() as trial:
        trial.add(preemptor.queue.node, preemptor.usage)
        search = _Search(preemptor, trial, reclaims=reclaims)
        waiting = _Candidates(preemptor, _candidates(preemptor, queues_below))
        if search.first_pass(waiting, strategies[0]) or (
            len(strategies) > 1 and search.second_pass(_Candidates(preemptor, search.preemption_skips))
        ):
            return fill_back(search.targets, trial, search.has_room)
    return ()


class _Candidate(msgspec.Struct, frozen=True, eq=False):
    reservation: Reservation
    queue: ClusterQueueState


def _candidates(preemptor: Preemptor, queues_below: QueuesBelow) -> Iterator[_Candidate]:
    own, others, short = (
        within_cluster_queue_filter(preemptor),
        reclaim_within_cohort_filter(preemptor),
        preemptor.short,
    )
    for queue in queues_below(preemptor.queue.node.root):
        may = own if queue is preemptor.queue else others
        if may is no_candidate or (may is others and tree.is_within_quota(queue.node, short)):
            continue
        for other in queue.reservations.values():
            if may(other) and preemptor.wants(other):
                yield _Candidate(other, queue)


class _Candidates:
    """Those not asked yet, by cluster queue; and which of these is next."""

    def __init__(self, preemptor: Preemptor, candidates: Iterable[_Candidate]) -> None:
        self._own = preemptor.queue
        self._above_own = {*preemptor.queue.node.path()}
        self._left: dict[Node, list[_Candidate]] = {}  # of each cluster queue, the first last
        for candidate in sorted(candidates, key=self._order, reverse=True):
            self._left.setdefault(candidate.queue.node, []).append(candidate)
        self._discarded: set[Node] = set()

    def _order(self, candidate: _Candidate) -> CandidateOrder:
        own = candidate.queue is self._own
        return candidate_order(candidate.reservation, candidate.queue, own=own)

    def pop(self, node: Node) -> _Candidate | None:
        left = self._left.get(node)
        return left.pop() if left else None

    def discard(self, node: Node) -> None:
        self._discarded.add(node)

    def next(self) -> Node | None:
        """The cluster queue to be asked next; None when there is none left."""
        root = self._own.node.root
        while root not in self._discarded:
            found = self._descend(root)
            if found is not None:
                return found
        return None

    def _descend(self, node: Node) -> Node | None:
        """The child that has borrowed most, down to a cluster queue; discards those that do not count."""
        if not node.children:
            if self._left.get(node):
                return node
            self._discarded.add(node)
            return None
        best: Node | None = None
        for child in node.children:
            if child in self._discarded or self._is_out(child):
                self._discarded.add(child)
            elif best is None or self._is_ahead(child, best):
                best = child
        if best is None:
            self._discarded.add(node)
            return None
        return self._descend(best)

    def _is_out(self, node: Node) -> bool:
        if not node.children and not self._left.get(node):
            return True
        if node is self._own.node or node in self._above_own:
            return False
        return not dominant_share(node).is_borrowing

    def _is_ahead(self, one: Node, other: Node) -> bool:
        """Whether ``one`` is asked before ``other``: more borrowed; a cohort; the better first candidate."""
        shares = dominant_share(one), dominant_share(other)
        if shares[0] != shares[1]:
            return shares[0] > shares[1]
        if bool(one.children) != bool(other.children):
            return bool(one.children)
        if one.children:
            return one.name < other.name
        return self._order(self._left[one][-1]) < self._order(self._left[other][-1])


class _Search:
    def __init__(self, preemptor: Preemptor, trial: UsageSimulation, *, reclaims: bool) -> None:
        self._preemptor = preemptor
        self._reclaims = reclaims
        self._trial = trial
        self.targets: list[Target] = []
        self.preemption_skips: list[_Candidate] = []

    def has_room(self) -> bool:
        """Whether the request fits; it is counted all the time, so it must be taken out to be tested."""
        node, usage = self._preemptor.queue.node, self._preemptor.usage
        tree.remove_usage(node, usage)
        result = workload_fits(self._preemptor, borrowing=True)
        tree.add_usage(node, usage)
        return result

    def first_pass(self, candidates: _Candidates, strategy: PreemptionStrategy) -> bool:
        """Take victims by the first strategy until there is room; whether there is in the end."""
        while (node := candidates.next()) is not None:
            if node is self._preemptor.queue.node:
                candidate = candidates.pop(node)
                assert candidate is not None, f"{node} was chosen without candidate"
                took = self._take(candidate, "InClusterQueue")
            elif self._reclaims and tree.is_within_quota(self._preemptor.queue.node, self._preemptor.short):
                candidate = candidates.pop(node)
                assert candidate is not None, f"{node} was chosen without candidate"
                took = self._take(candidate, "InCohortReclamation")
            else:
                took = self._take_by_share(node, candidates, strategy)
            if took and self.has_room():
                return True
        return False

    def second_pass(self, candidates: _Candidates) -> bool:
        """Those passed over, one per cluster queue, by what they had before they would lose anybody."""
        while (node := candidates.next()) is not None:
            preemptor_side, target_side = self._sides(node)
            candidate = candidates.pop(node)
            assert candidate is not None, f"{node} was chosen without candidate"
            candidates.discard(node)
            if dominant_share(preemptor_side) < dominant_share(target_side):
                self._take(candidate, "InCohortFairSharing")
                if self.has_room():
                    return True
        return False

    def _take(self, candidate: _Candidate, reason: PreemptionReason) -> bool:
        self._trial.remove(candidate.reservation, candidate.queue.node)
        self.targets.append(Target(candidate.reservation, candidate.queue, reason))
        return True

    def _take_by_share(self, node: Node, candidates: _Candidates, strategy: PreemptionStrategy) -> bool:
        """Take the first candidate of ``node`` that the strategy allows; whether there was one."""
        preemptor_side, target_side = self._sides(node)
        preempting_assignment, before = dominant_share(preemptor_side), dominant_share(target_side)
        while (candidate := candidates.pop(node)) is not None:
            after = self._share_without(candidate, target_side)
            if _allows(strategy, preempting_assignment, before, after):
                return self._take(candidate, "InCohortFairSharing")
            self.preemption_skips.append(candidate)
        return False

    def _share_without(self, candidate: _Candidate, side: Node) -> Share:
        tree.remove_usage(candidate.queue.node, candidate.reservation.usage)
        share = dominant_share(side)
        tree.add_usage(candidate.queue.node, candidate.reservation.usage)
        return share

    def _sides(self, node: Node) -> tuple[Node, Node]:
        """The two children of the lowest common cohort that contain the preemptor and ``node``."""
        own = self._preemptor.queue.node
        mine = (own, *own.path())
        theirs = node
        while theirs.parent is not None and theirs.parent not in mine:
            theirs = theirs.parent
        common = theirs.parent
        return next(side for side in mine if side.parent is common), theirs


def _allows(strategy: PreemptionStrategy, preempting_assignment: Share, before: Share, after: Share) -> bool:
    """Whether a target may be taken, by the share the preemptor would have and those of the target."""
    if preempting_assignment.infinite and not before.infinite:
        return False
    match strategy:
        case "LessThanOrEqualToFinalShare":  # rule S2-a
            return preempting_assignment <= after
        case "LessThanInitialShare":  # rule S2-b
            return preempting_assignment < before
    assert_never(strategy)
