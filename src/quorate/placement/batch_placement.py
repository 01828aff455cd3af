"""Placement of many equal pods, with the same result as placing each one by itself.

Placing one pod changes for the next of its shape only the capacity and the score of the chosen node.  So the
choice is a k-way merge: each node contributes its score for one more pod, the highest score wins, and that
node contributes its next score, unless it takes only one such pod.  To place ``n`` pods only the ``n`` best
nodes matter: a node keeps its score until it is chosen, and each better node is chosen at least once before.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace
from typing import Final, Protocol

from quorate.placement.cluster import Cluster
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.framework import Capacity
from quorate.placement.name_order import NameOrder
from quorate.placement.node_ranking import INFEASIBLE
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Vector, np

# Computing this many scores at once takes hardly longer than computing one.
_SCORES_AT_ONCE: Final = 64
# The batch planned ahead is this many times as long as the run so far: a run that ends early has wasted
# little, and in a long one the cost of planning per pod is soon negligible.
_GROWTH: Final = 16
_MAX_BATCH: Final = 4_096
# The largest number of pods on one node to compute at once: that many times the largest amount fits 64 bits.
_MAX_ON_A_NODE: Final = 512

# The allocation state of a pod that is placed at a capacity.
ALLOCATION_STATES: Final = {
    Capacity.IDLE: AllocationState.USED,
    Capacity.FUTURE_IDLE: AllocationState.PIPELINED,
}


class Ranking(Protocol):
    """The ranking of all nodes for one shape, or of some of them; see ``NodeRanking``."""

    @property
    def one_at_a_time(self) -> bool: ...

    @property
    def one_per_node(self) -> bool: ...

    def candidates(self, capacity: Capacity) -> Vector: ...

    def scores_after(self, positions: Vector, placed: Vector, capacity: Capacity) -> Vector: ...


class BatchPlacement:
    """A run of pods of one shape: the node of the next pod, and the plan for the pods after it."""

    def __init__(self, cluster: Cluster, names: NameOrder, shape: Shape) -> None:
        self.shape = shape
        self._cluster = cluster
        self._names = names
        self._length = 0  # pods of the run that were placed on their chosen nodes
        self._plan: Iterator[int] = iter(())
        self._chosen: tuple[int, Capacity] | None = None  # the position of the node
        # At the choice: the index of the node, the end of the usage log, and the count of equal pods there.
        self._index = self._log_end = self._equal_pods = 0

    def next(self) -> tuple[int, Capacity] | None:
        """Return the position of the node for the next pod; None if all nodes must be ranked.

        The result is valid if the previous pod was placed on its chosen node and nothing else has changed.
        Until that pod is placed, the result stays the same.
        """
        if self._chosen is None or self._cluster.usage_changes.end == self._log_end:
            return self._chosen
        if not self._was_placed(self._chosen[1]):
            self._length, self._chosen = 0, None
            return None
        self._length += 1
        position = next(self._plan, None)
        if position is None:
            self._chosen = None
            return None
        return self._choose(position, self._chosen[1])

    def start(self, ranking: Ranking, position: int, capacity: Capacity) -> tuple[int, Capacity]:
        """Choose the best node, at ``position``; plan ahead if pods of the run were placed before."""
        self._plan = iter(())
        if self._length and not ranking.one_at_a_time:
            self._plan = _merge(ranking, capacity, min(self._length * _GROWTH, _MAX_BATCH))
            best = next(self._plan)
            assert best == position, f"the best node is at {position}, but the merge starts at {best}"
        return self._choose(position, capacity)

    def _choose(self, position: int, capacity: Capacity) -> tuple[int, Capacity]:
        self._chosen = position, capacity
        self._index = int(self._names.indexes[position])
        self._log_end = self._cluster.usage_changes.end
        self._equal_pods = self._count(capacity)
        return self._chosen

    def _was_placed(self, capacity: Capacity) -> bool:
        """Return True if the last chosen node has the pod, and nothing else changed.

        Placing it is the only change that adds one entry to the log and one equal pod to the node.
        """
        if self._cluster.usage_changes.end != self._log_end + 1:
            return False
        return self._count(capacity) == self._equal_pods + 1

    def _count(self, capacity: Capacity) -> int:
        if self._cluster.nodes[self._index] is None:
            return 0
        return self._cluster.pod_counts(self._index).get((self.shape, ALLOCATION_STATES[capacity]), 0)


def _merge(ranking: Ranking, capacity: Capacity, count: int) -> Iterator[int]:
    """Yield the positions of the nodes for ``count`` pods, while they fit.

    Each pod must be placed before the next position is requested.
    """
    scores = ranking.candidates(capacity)
    positions = _top(scores, count)
    if ranking.one_per_node:
        yield from positions[np.argsort(-scores[positions], kind="stable")].tolist()
        return
    following = _FollowingScores(ranking, capacity, positions, count)
    # A heap has its smallest element first: the highest score, then the first by name.
    heap = list(zip((-scores[positions]).tolist(), positions.tolist(), strict=True))
    heapify(heap)
    for _ in range(count):
        if not heap:
            return
        position = heap[0][1]
        yield position
        score = following.next(position)
        if score == INFEASIBLE:
            heappop(heap)
        else:
            heapreplace(heap, (-score, position))


def _top(scores: Vector, count: int) -> Vector:
    """Return the positions of the ``count`` best candidates; of equal ones, the first."""
    candidates = np.flatnonzero(scores != INFEASIBLE)
    if len(candidates) <= count:
        return candidates
    own = scores[candidates]
    last = np.partition(own, len(own) - count)[len(own) - count]  # the lowest score among the best
    better, equal = candidates[own > last], candidates[own == last]
    return np.concatenate([better, equal[: count - len(better)]])


class _FollowingScores:
    """The scores of nodes for the pods after the first one, computed several at a time."""

    def __init__(self, ranking: Ranking, capacity: Capacity, positions: Vector, count: int) -> None:
        self._ranking, self._capacity = ranking, capacity
        per_node = max(1 + 2 * count // len(positions), _SCORES_AT_ONCE // len(positions))
        per_node = min(per_node, _MAX_ON_A_NODE)
        placed = np.tile(np.arange(1, per_node + 1), len(positions))
        scores = ranking.scores_after(np.repeat(positions, per_node), placed, capacity)
        self._computed = {
            position: iter(of_node)
            for position, of_node in zip(
                positions.tolist(), scores.reshape(-1, per_node).tolist(), strict=True
            )
        }

    def next(self, position: int) -> int:
        """Return the node's score for one more pod; ``INFEASIBLE`` if none fits."""
        score = next(self._computed[position], None)
        if score is None:
            # All pods chosen so far are placed, so the first score is for the node as it is.
            placed = np.arange(_SCORES_AT_ONCE)
            scores = self._ranking.scores_after(np.full(_SCORES_AT_ONCE, position), placed, self._capacity)
            self._computed[position] = iter(scores.tolist())
            score = next(self._computed[position])
        return score
