"""Preemption history: without an external event, no workload is preempted repeatedly for one preemptor.

Kueue's policies can form a loop: a reclaims its quota from b; b, of high priority, takes it from c while
borrowing; c, of higher priority than a in the same queue, takes it from a; and so on.  One rule breaks the
loop: until the next external event a workload is preempted at most once for the same preemptor, or twice if
the preemptor requests no more than the quota of its queue, so that a claim to own quota is never the one that
yields.  Each pair of workloads thus accounts for at most two preemptions, and preemption ends.

Every event is external except a quota reservation, a preemption, and a stop because of a preemption.
See docs/decisions/0005-no-preemption-loops.md.
A new process restores it from the stored workloads (``queueing.restored_history``).
"""

from quorate.api.meta import Uid
from quorate.quota.tree import Node


class PreemptionHistory:
    """Counts the preemptions since the last external event of each tree."""

    def __init__(self) -> None:
        # By root and preemptor: how often each victim was preempted for it.
        self._counts: dict[Node, dict[Uid, dict[Uid, int]]] = {}

    def record(self, root: Node, preemptor: Uid, victim: Uid) -> None:
        victims = self._counts.setdefault(root, {}).setdefault(preemptor, {})
        victims[victim] = victims.get(victim, 0) + 1

    def take_over(self, root: Node, other: "PreemptionHistory", other_root: Node) -> None:
        """Continue the history that ``other`` has of ``other_root``, which is ``root`` in another model."""
        counts = other._counts.get(other_root)
        if counts is not None:
            self._counts[root] = counts

    def clear(self, root: Node) -> None:
        """Start again after an external event in the tree of ``root``."""
        self._counts.pop(root, None)

    def excluded_victims(self, root: Node, preemptor: Uid, *, within_quota: bool) -> frozenset[Uid]:
        """Return the workloads that may not be preempted for ``preemptor`` again."""
        victims = self._counts.get(root, {}).get(preemptor)
        if victims is None:
            return frozenset()
        limit = 2 if within_quota else 1
        return frozenset(victim for victim, times in victims.items() if times >= limit)
