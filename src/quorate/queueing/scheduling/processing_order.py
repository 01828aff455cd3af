"""The order in which the nominated heads of a round are processed.

Without fair sharing the order is fixed when the round begins.  With fair sharing a tournament precedes each
head, because every admission changes the shares.
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from quorate.api.configuration.feature_gates import Gates
from quorate.queueing.scheduling.nomination import Nomination
from quorate.quota import tree
from quorate.quota.fair_sharing import Share, dominant_share
from quorate.quota.tree import Node

_HeadOrder = tuple[int, float, int]  # negated priority, queue-order timestamp, arrival: smaller comes first


class ProcessingOrder(Protocol):
    def next(self) -> Nomination | None:
        """Return the nomination to process next; None when all are done."""
        ...

    def done(self, nomination: Nomination) -> None:
        """Remove ``nomination``, the last result of ``next``."""
        ...


class ClassicalOrder:
    """The lowest borrowing level first, then queue order, across all cluster queues.

    Kueue's gate PrioritizePreemptorWorkloads puts preemptors that wait for their targets before all others.
    """

    def __init__(self, nominations: Iterable[Nomination], gates: Gates) -> None:
        def rank(nomination: Nomination) -> tuple[bool, int, _HeadOrder]:
            assignment = nomination.assignment
            return (
                not precedes_as_preemptor(nomination, gates),
                assignment.borrowing_level if assignment is not None else 0,
                _order(nomination, gates),
            )

        self._remaining = sorted(nominations, key=rank, reverse=True)  # the next one last

    def next(self) -> Nomination | None:
        return self._remaining[-1] if self._remaining else None

    def done(self, nomination: Nomination) -> None:
        assert self._remaining.pop() is nomination, "nominations are processed in order"


def precedes_as_preemptor(nomination: Nomination, gates: Gates) -> bool:
    """Return True if the head waits for its preemption targets and therefore precedes all other heads."""
    return gates.prioritize_preemptor_workloads and nomination.queue.pending.is_preemptor(nomination.entry)


def _order(nomination: Nomination, gates: Gates) -> _HeadOrder:
    """Return the rank of a head among the heads of other cluster queues.

    Heads of the same second are in the order in which this process saw them; after its start, in that of its
    lists, by name.
    """
    priority, queued_at, _ = nomination.queue.pending.order(nomination.entry)
    return (priority if gates.priority_sorting_within_cohort else 0), queued_at, nomination.entry.arrival


class FairSharingOrder:
    """The winner of a tournament in each tree, one tree after the other.

    In each cohort the nominations of its children compete: with the gate PrioritizePreemptorWorkloads first
    those of preemptors that wait for their targets, then those of children that would not borrow, then by the
    dominant resource share the child would have, then in queue order.  The winner represents the cohort one
    level up.
    """

    def __init__(self, nominations: Iterable[Nomination], gates: Gates) -> None:
        self._gates = gates
        self._remaining: dict[Node, Nomination] = {}  # by the node of the cluster queue
        self._children: dict[Node, dict[Node, None]] = {}  # by cohort: children with remaining nominations
        self._roots: list[Node] = []
        for nomination in sorted(nominations, key=lambda one: one.queue.pending.order(one.entry)):
            node = nomination.queue.node
            self._remaining[node] = nomination
            while node.parent is not None:
                self._children.setdefault(node.parent, {})[node] = None
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
        del self._remaining[node]
        while node.parent is not None and node not in self._children and node not in self._remaining:
            self._children[node.parent].pop(node)
            if not self._children[node.parent]:
                del self._children[node.parent]
            node = node.parent

    def _winner(self, node: Node) -> Nomination | None:
        nodes = [node]  # parents first
        for inner in nodes:
            nodes.extend(self._children.get(inner, ()))
        winners: dict[Node, Nomination] = {}
        for inner in reversed(nodes):
            if inner in self._remaining:
                winners[inner] = self._remaining[inner]
                continue
            competing = list(self._children.get(inner, ()))
            if competing:
                best = competing[0] if len(competing) == 1 else self._best(competing, winners)
                winners[inner] = winners[best]
        return winners.get(node)

    def _best(self, competing: Iterable[Node], winners: Mapping[Node, Nomination]) -> Node:
        return min(competing, key=lambda child: self._rank(child, winners[child]))

    def _rank(self, child: Node, nomination: Nomination) -> tuple[bool, bool, Share, _HeadOrder]:
        """Return the rank of ``child`` as if the usage of its nomination were added; smaller is better."""
        assignment = nomination.assignment
        usage = assignment.usage if assignment is not None else {}
        tree.add_usage(nomination.queue.node, usage)
        borrows = not tree.is_within_quota(child, usage)
        share = dominant_share(child)
        tree.remove_usage(nomination.queue.node, usage)
        prefers_non_borrowing = self._gates.fair_sharing_prioritize_non_borrowing
        return (
            not precedes_as_preemptor(nomination, self._gates),
            borrows and prefers_non_borrowing,
            share,
            _order(nomination, self._gates),
        )
