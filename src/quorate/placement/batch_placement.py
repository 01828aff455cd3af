"""Many equal pods one after the other, node for node as if each were placed alone.

What one pod changes for the next of its shape is the room and the points of the one node it goes to.  So the
choice is a merge: each node offers the points of its next place, the best offer is taken, and that node makes
its next one, unless it takes only one such pod.  To place ``n`` pods only the ``n`` best nodes can matter,
since a node that has not been chosen keeps its offer, and each of those before it is chosen once before it
can be.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace
from typing import Final

import numpy as np

from quorate.placement.cluster import AllocationState, Cluster
from quorate.placement.framework import Capacity
from quorate.placement.name_order import NameOrder
from quorate.placement.node_ranking import INFEASIBLE, NodeRanking
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Vector

# For so many offers at a time it takes hardly longer to work them out than for one.
_AT_ONCE: Final = 64
# So many times as many pods as there have been in a row are thought of in advance: who stops early has wasted
# little, and who does not soon pays next to nothing for thinking.
_GROWTH: Final = 16
_MOST: Final = 4_096
# Of one node never more at a time: so much of the largest amount there is fits into 64 bits.
_MOST_OF_A_NODE: Final = 512

# How a pod holds the node it was told to go to.
HOLDS: Final = {Capacity.IDLE: AllocationState.USED, Capacity.FUTURE_IDLE: AllocationState.PIPELINED}


class BatchPlacement:
    """Pods of one shape in a row: where the next one goes, and what is thought of for those after it."""

    def __init__(self, cluster: Cluster, names: NameOrder, shape: Shape) -> None:
        self.shape = shape
        self._cluster = cluster
        self._names = names
        self._length = 0  # how many went where they were told to
        self._plan: Iterator[int] = iter(())
        self._chosen: tuple[int, Capacity] | None = None  # position, and when there is room
        # As of the choice: the node's index, where the log ended, and how many pods like it were there.
        self._index = self._log_end = self._before = 0

    def next(self) -> tuple[int, Capacity] | None:
        """The position of the node for the next pod; None when that takes a look at all nodes.

        The one before must be where it was told to, and nothing else may have changed.  Until it is there the
        answer stays the same.
        """
        if self._chosen is None or self._cluster.usage_changes.end == self._log_end:
            return self._chosen
        if not self._was_heeded(self._chosen[1]):
            self._length, self._chosen = 0, None
            return None
        self._length += 1
        position = next(self._plan, None)
        if position is None:
            self._chosen = None
            return None
        return self._choose(position, self._chosen[1])

    def begin(self, ranking: NodeRanking, position: int, capacity: Capacity) -> tuple[int, Capacity]:
        """Choose the node at ``position``, the best one, and think of more if there were others before."""
        self._plan = iter(())
        if self._length and not ranking.one_at_a_time:
            self._plan = _merged(ranking, capacity, min(self._length * _GROWTH, _MOST))
            best = next(self._plan)
            assert best == position, f"the best node is at {position}, but at {best} by what nodes offer"
        return self._choose(position, capacity)

    def _choose(self, position: int, capacity: Capacity) -> tuple[int, Capacity]:
        self._chosen = position, capacity
        self._index = int(self._names.indexes[position])
        self._log_end = self._cluster.usage_changes.end
        self._before = self._like_it(capacity)
        return self._chosen

    def _was_heeded(self, capacity: Capacity) -> bool:
        """Only putting one pod makes one entry in the log and one more such pod on the node."""
        if self._cluster.usage_changes.end != self._log_end + 1:
            return False
        return self._like_it(capacity) == self._before + 1

    def _like_it(self, capacity: Capacity) -> int:
        if self._cluster.nodes[self._index] is None:
            return 0
        return self._cluster.pod_counts(self._index).get((self.shape, HOLDS[capacity]), 0)


def _merged(ranking: NodeRanking, capacity: Capacity, count: int) -> Iterator[int]:
    """The positions of the nodes that ``count`` pods go to, until there is no more room at ``capacity``.

    Each pod has to be where it was told to before the next one is asked for.
    """
    points = ranking.candidates(capacity)
    positions = _best(points, count)
    if ranking.one_per_node:
        yield from positions[np.argsort(-points[positions], kind="stable")].tolist()
        return
    offers = _Offers(ranking, capacity, positions, count)
    # The smallest comes first: the most points, then the first by name.
    heap = list(zip((-points[positions]).tolist(), positions.tolist(), strict=True))
    heapify(heap)
    for _ in range(count):
        if not heap:
            return
        position = heap[0][1]
        yield position
        following = offers.next(position)
        if following == INFEASIBLE:
            heappop(heap)
        else:
            heapreplace(heap, (-following, position))


def _best(points: Vector, count: int) -> Vector:
    """The positions of the ``count`` best candidates; of equals, the first ones."""
    candidates = np.flatnonzero(points != INFEASIBLE)
    if len(candidates) <= count:
        return candidates
    own = points[candidates]
    last = np.partition(own, len(own) - count)[len(own) - count]  # the points of the last one to be taken
    better, equal = candidates[own > last], candidates[own == last]
    return np.concatenate([better, equal[: count - len(better)]])


class _Offers:
    """The points of the places that nodes have to offer after their first one, a number of them at a time."""

    def __init__(self, ranking: NodeRanking, capacity: Capacity, positions: Vector, count: int) -> None:
        self._ranking, self._moment = ranking, capacity
        each = max(1 + 2 * count // len(positions), _AT_ONCE // len(positions))
        each = min(each, _MOST_OF_A_NODE)
        placed = np.tile(np.arange(1, each + 1), len(positions))
        points = ranking.points_after(np.repeat(positions, each), placed, capacity).reshape(-1, each)
        self._known = {
            position: iter(offers)
            for position, offers in zip(positions.tolist(), points.tolist(), strict=True)
        }

    def next(self, position: int) -> int:
        """The points of the next place on the node at ``position``; ``INFEASIBLE`` when it is full."""
        following = next(self._known[position], None)
        if following is None:
            # All that were chosen until now are there.
            placed = np.arange(_AT_ONCE)
            points = self._ranking.points_after(np.full(_AT_ONCE, position), placed, self._moment)
            self._known[position] = iter(points.tolist())
            following = next(self._known[position])
        return following
