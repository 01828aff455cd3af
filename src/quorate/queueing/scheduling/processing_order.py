"""In which order the heads of a round are carried out.

Without fair sharing the order is known beforehand.  With it a tournament is held before each turn, since
what those before took changes everybody's share.
"""

from collections.abc import Iterable
from typing import Protocol

from quorate.api.configuration.feature_gates import Gates
from quorate.queueing.pending.ordering import QueueOrder
from quorate.queueing.scheduling.nomination import Nomination
from quorate.quota import tree
from quorate.quota.fair_sharing import Share, dominant_share
from quorate.quota.tree import Node


class ProcessingOrder(Protocol):
    def next(self) -> Nomination | None:
        """Whose turn it is; None when all had theirs."""
        ...

    def done(self, nomination: Nomination) -> None:
        """``nomination``, the last answer of ``next``, has had its turn."""
        ...


class ClassicalOrder:
    """Who borrows least far up the tree first, then in queue order, whatever the cluster queue.

    Kueue's gate PrioritizePreemptorWorkloads puts those who wait for their victims before all others.
    """

    def __init__(self, nominations: Iterable[Nomination], gates: Gates) -> None:
        def rank(nomination: Nomination) -> tuple[bool, int, QueueOrder]:
            assignment, sticky = nomination.assignment, nomination.queue.pending.sticky
            return (
                not (gates.prioritize_preemptor_workloads and nomination.entry is sticky),
                assignment.level if assignment is not None else 0,
                _order(nomination, gates),
            )

        self._left = sorted(nominations, key=rank, reverse=True)  # the next one last

    def next(self) -> Nomination | None:
        return self._left[-1] if self._left else None

    def done(self, nomination: Nomination) -> None:
        assert self._left.pop() is nomination, "turns are taken in order"


def _order(nomination: Nomination, gates: Gates) -> QueueOrder:
    """The place among the heads of other cluster queues."""
    priority, queued_at, uid = nomination.entry.order
    return (priority if gates.priority_sorting_within_cohort else 0), queued_at, uid


class FairSharingOrder:
    """The winner of a tournament in each tree, tree by tree.

    In each cohort the nominees of its children compete: first those whose child would not borrow, then
    by the share the child would have, then in queue order.  The winner stands for the cohort further up.
    """

    def __init__(self, nominations: Iterable[Nomination], gates: Gates) -> None:
        self._gates = gates
        self._left: dict[Node, Nomination] = {}  # by cluster queue, those who had no turn yet
        self._below: dict[Node, dict[Node, None]] = {}  # of each cohort, the children with somebody left
        self._roots: list[Node] = []
        for nomination in sorted(nominations, key=lambda one: one.entry.order):
            node = nomination.queue.node
            self._left[node] = nomination
            while node.parent is not None:
                self._below.setdefault(node.parent, {})[node] = None
                node = node.parent
            if node not in self._roots:
                self._roots.append(node)

    def next(self) -> Nomination | None:
        for root in self._roots:
            winner = self._winner(root)
            if winner is not None:
                return winner
        return None

    def done(self, nomination: Nomination) -> None:
        node = nomination.queue.node
        del self._left[node]
        while node.parent is not None and node not in self._below and node not in self._left:
            self._below[node.parent].pop(node)
            if not self._below[node.parent]:
                del self._below[node.parent]
            node = node.parent

    def _winner(self, node: Node) -> Nomination | None:
        if node in self._left:
            return self._left[node]
        best: tuple[bool, Share, QueueOrder] | None = None
        winner: Nomination | None = None
        for child in self._below.get(node, ()):
            nominee = self._winner(child)
            assert nominee is not None, f"{child} has nobody left"
            merit = self._merit(child, nominee)
            if best is None or merit < best:
                best, winner = merit, nominee
        return winner

    def _merit(self, child: Node, nominee: Nomination) -> tuple[bool, Share, QueueOrder]:
        """How ``child`` would stand with what its nominee asks for; less is better."""
        assignment = nominee.assignment
        usage = assignment.usage if assignment is not None else {}
        tree.add_usage(nominee.queue.node, usage)
        borrows = not tree.is_within_quota(child, usage)
        share = dominant_share(child)
        tree.remove_usage(nominee.queue.node, usage)
        matters = self._gates.fair_sharing_prioritize_non_borrowing
        return borrows and matters, share, _order(nominee, self._gates)
