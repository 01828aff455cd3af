"""Many equal pods one after the other, node for node as if each were placed alone.

What one pod changes for the next of its shape is the room and the points of the one node it goes to.  So the
choice is a merge: each node offers the points of its next place, the best offer is taken, and that node makes
its next one.  To place ``n`` pods only the ``n`` best nodes can matter, since a node that has not been chosen
keeps its offer, and each of those before it is chosen once before it can be.

Where a pod changes more than that, because shapes like it keep away from each other or preferences are
compared among the nodes that are left, each pod is placed by itself.
"""

from collections.abc import Iterator
from heapq import heapify, heappop, heapreplace
from typing import Final

import numpy as np

from quorate.placement.ranking import OUT, Ranking
from quorate.placement.rankings import Rankings
from quorate.placement.shapes import Shape
from quorate.placement.standing import Moment
from quorate.placement.vectors import Vector
from quorate.placement.verdicts import Choice, NoRoom

# For so many offers at a time it takes hardly longer to work them out than for one.
_AT_ONCE: Final = 64


def fill(rankings: Rankings, shape: Shape, count: int) -> Iterator[Choice | NoRoom]:
    """Where ``count`` pods of ``shape`` go; a ``NoRoom`` for the first one that has none is the end.

    Whoever asks puts each pod where it is told to, at that moment's hold, before asking for the next, and may
    stop at any time.  If anything else has changed by then, the rest is thought over again.
    """
    log = rankings.cluster.loads
    left = count
    while left:
        ranking = rankings.ranking(shape)
        found = ranking.best()
        if found is None:
            yield rankings.no_room(shape)
            return
        first, moment = found
        for position in (first,) if ranking.alone else _merged(ranking, moment, left):
            before = log.end
            yield Choice(rankings.name(position), moment)
            left -= 1
            if log.end != before + 1:
                break


def _merged(ranking: Ranking, moment: Moment, count: int) -> Iterator[int]:
    """The positions of the nodes that ``count`` pods go to, until there is no more room at ``moment``."""
    points = ranking.candidates(moment)
    positions = _best(points, count)
    offers = _Offers(ranking, moment, positions, count)
    # The smallest comes first: the most points, then the first by name.
    heap = list(zip((-points[positions]).tolist(), positions.tolist(), strict=True))
    heapify(heap)
    for _ in range(count):
        if not heap:
            return
        position = heap[0][1]
        yield position
        following = offers.next(position)
        if following == OUT:
            heappop(heap)
        else:
            heapreplace(heap, (-following, position))


def _best(points: Vector, count: int) -> Vector:
    """The positions of the ``count`` best candidates; of equals, the first ones."""
    candidates = np.flatnonzero(points != OUT)
    if len(candidates) <= count:
        return candidates
    own = points[candidates]
    last = np.partition(own, len(own) - count)[len(own) - count]  # the points of the last one to be taken
    better, equal = candidates[own > last], candidates[own == last]
    return np.concatenate([better, equal[: count - len(better)]])


class _Offers:
    """The points of the places that nodes have to offer after their first one, a number of them at a time."""

    def __init__(self, ranking: Ranking, moment: Moment, positions: Vector, count: int) -> None:
        self._ranking, self._moment = ranking, moment
        each = max(1 + 2 * count // len(positions), _AT_ONCE // len(positions), 1)
        placed = np.tile(np.arange(1, each + 1), len(positions))
        points = ranking.points_after(np.repeat(positions, each), placed, moment).reshape(-1, each)
        self._known: dict[int, list[int]] = dict(zip(positions.tolist(), points.tolist(), strict=True))
        self._taken = dict.fromkeys(self._known, 0)

    def next(self, position: int) -> int:
        """The points of the next place on the node at ``position``; ``OUT`` when it is full."""
        known, at = self._known[position], self._taken[position]
        if at == len(known):
            more = max(len(known), _AT_ONCE)
            placed = np.arange(at + 1, at + 1 + more)
            known += self._ranking.points_after(np.full(more, position), placed, self._moment).tolist()
        self._taken[position] = at + 1
        return known[at]
