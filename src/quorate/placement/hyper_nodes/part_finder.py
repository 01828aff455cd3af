"""Nodes for pods among a part of all nodes, such as the nodes of one HyperNode."""

from collections.abc import Iterator, Sequence

from quorate.placement.batch_placement import BatchPlacement
from quorate.placement.diagnosis import Diagnosis
from quorate.placement.framework import Capacity
from quorate.placement.node_finder import Choice, NodeFinder
from quorate.placement.node_ranking import INFEASIBLE, NodeRanking
from quorate.placement.resources import EMPTY_AMOUNTS, Amounts
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Vector, np


class PartFinder:
    """Finds the best of the nodes at ``indexes``, which exist while it is used.

    A node has the same score as among all nodes.
    """

    def __init__(self, finder: NodeFinder, indexes: Vector) -> None:
        self._finder = finder
        finder.names.refresh()
        self._positions = np.sort(finder.names.positions[indexes])
        self._batches: dict[tuple[Shape, Capacity], BatchPlacement] = {}  # of the last query only

    def best(self, shape: Shape, capacity: Capacity) -> str:
        """Return the best node for a pod of ``shape`` at ``capacity``; "" if there is none."""
        key = shape, capacity
        batch = self._batches.get(key)
        if batch is None:
            self._batches.clear()
            batch = self._batches[key] = BatchPlacement(self._finder.cluster, self._finder.names, shape)
        chosen = batch.next()
        if chosen is None:
            ranking = _RankedPart(self._finder.ranking(shape), self._positions)
            position = ranking.best(capacity)
            if position is None:
                del self._batches[key]
                return ""
            chosen = batch.start(ranking, position, capacity)
        return self._finder.cluster.name(int(self._finder.names.indexes[chosen[0]]))


class LimitedNodeFinder:
    """Finds nodes as ``NodeFinder`` does, but only those at ``indexes``, which exist while it is used."""

    def __init__(self, finder: NodeFinder, indexes: Vector) -> None:
        self._finder = finder
        finder.names.refresh()
        self._positions = np.sort(finder.names.positions[indexes])
        self.names = frozenset(map(finder.cluster.name, indexes.tolist()))

    def best(self, shape: Shape, nominated: str = "") -> Choice | Diagnosis:
        """Return the best of these nodes, the nominated one if feasible; else why no node at all is."""
        capacity = self.capacity_on(shape, nominated)
        if capacity is not None:
            return Choice(nominated, capacity)
        ranking = _RankedPart(self._finder.ranking(shape), self._positions)
        for capacity in Capacity:
            position = ranking.best(capacity)
            if position is not None:
                return Choice(self._finder.cluster.name(int(self._finder.names.indexes[position])), capacity)
        return self._finder.diagnose(shape)

    def capacity_on(self, shape: Shape, node: str) -> Capacity | None:
        """Return ``NodeFinder.capacity_on``; None for any other node."""
        return self._finder.capacity_on(shape, node) if node in self.names else None

    def fits(self, shape: Shape, node: str, freed: Amounts = EMPTY_AMOUNTS) -> bool:
        """Return ``NodeFinder.fits``; False for any other node."""
        return node in self.names and self._finder.fits(shape, node, freed)

    def short_resources(self, shape: Shape, node: str) -> Sequence[str] | None:
        """Return ``NodeFinder.short_resources``."""
        return self._finder.short_resources(shape, node)

    def nodes_by_score(self, shape: Shape) -> Iterator[str]:
        """Yield the nodes of the part in the order of ``NodeFinder.nodes_by_score``."""
        return filter(self.names.__contains__, self._finder.nodes_by_score(shape))


class _RankedPart:
    """The ranking of the nodes at some positions: no other node is a candidate."""

    def __init__(self, ranking: NodeRanking, positions: Vector) -> None:
        self._ranking = ranking
        self._positions = positions
        self.one_at_a_time, self.one_per_node = ranking.one_at_a_time, ranking.one_per_node
        self.scores_after = ranking.scores_after

    def candidates(self, capacity: Capacity) -> Vector:
        scores = self._ranking.candidates(capacity)
        result = np.full(len(scores), INFEASIBLE)
        result[self._positions] = scores[self._positions]
        return result

    def best(self, capacity: Capacity) -> int | None:
        """Return the position of the best candidate."""
        if not len(self._positions):
            return None
        scores = self._ranking.candidates(capacity)[self._positions]
        best = int(scores.argmax())
        return int(self._positions[best]) if scores[best] != INFEASIBLE else None
