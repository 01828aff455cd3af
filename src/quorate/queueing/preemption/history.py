"""That preemption comes to rest: nobody is preempted for the same workload again and again.

The policies of Kueue can form a ring: a reclaims its quota from b, b (of high priority) takes it from c
while borrowing, c (of higher priority than a, in the same queue) takes it from a, and so on for ever.  The
rule that breaks it: until something happens from outside, a workload is preempted at most once for the same
other workload; twice if that one asks for no more than its queue's own quota, so that it is never a claim
to quota of one's own that gives way.  So each pair of workloads accounts for two preemptions at most, and
without an outside event preemption ends.

From outside comes all but reserving quota, being preempted, and stopping because of that.
See docs/decisions/0005-no-preemption-loops.md.
"""

from quorate.api.meta import Uid
from quorate.quota.tree import Node


class PreemptionHistory:
    """Preemptions since the last event from outside, tree by tree."""

    def __init__(self) -> None:
        # By root and preemptor: how often each victim was preempted for it.
        self._counts: dict[Node, dict[Uid, dict[Uid, int]]] = {}

    def note(self, root: Node, preemptor: Uid, victim: Uid) -> None:
        victims = self._counts.setdefault(root, {}).setdefault(preemptor, {})
        victims[victim] = victims.get(victim, 0) + 1

    def forget(self, root: Node) -> None:
        """Something happened from outside in the tree of ``root``."""
        self._counts.pop(root, None)

    def excluded_victims(self, root: Node, preemptor: Uid, *, within_quota: bool) -> frozenset[Uid]:
        """Who may not be preempted for ``preemptor`` again."""
        victims = self._counts.get(root, {}).get(preemptor)
        if victims is None:
            return frozenset()
        most = 2 if within_quota else 1
        return frozenset(victim for victim, times in victims.items() if times >= most)
