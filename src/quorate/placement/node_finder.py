"""Where pods can be: the best node for one, or why there is none; the nodes worth evicting others from.

Source: Volcano's actions allocate and preempt, as far as they choose nodes.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from quorate.placement.batch_placement import BatchPlacement
from quorate.placement.cluster import Cluster
from quorate.placement.diagnosis import Diagnosis, diagnose
from quorate.placement.framework import Capacity, Constraints
from quorate.placement.name_order import NameOrder
from quorate.placement.node_ranking import INFEASIBLE, NodeRanking
from quorate.placement.resources import NOTHING, Amounts
from quorate.placement.scoring import Scoring
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Mask, Vector

# Shapes whose rankings are kept; each takes some 35 bytes a node.  Those asked for longest ago go first.
_KEPT: Final = 64


@dataclass(frozen=True, slots=True)
class Choice:
    """The pod can be on ``node``, now or when those that are being released there are gone."""

    node: str
    capacity: Capacity


class NodeFinder:
    """The rankings of the nodes of ``cluster`` for all shapes that are asked about.

    Answers are about the cluster as it is now, so whoever puts a pod somewhere asks again for the next one.
    Asking for many pods of one shape in a row costs little (``streaks``).
    """

    def __init__(self, cluster: Cluster, constraints: Constraints, scoring: Scoring) -> None:
        self.cluster = cluster
        self._constraints = constraints
        self._scoring = scoring
        self.names = NameOrder(cluster)
        self._rankings: OrderedDict[Shape, NodeRanking] = OrderedDict()
        self._streak: BatchPlacement | None = None  # of whoever asks now
        self._streak_as_of = 0  # revision of the constraints
        self._refusals: WeakKeyDictionary[Shape, tuple[tuple[int, int], Diagnosis]] = WeakKeyDictionary()

    def best(self, shape: Shape, nominated: str = "") -> Choice | Diagnosis:
        """The node for a pod of ``shape``: the nominated one if it can be on it, else the best."""
        nominated_for = self.capacity_on(shape, nominated) if nominated else None
        if nominated_for is not None:
            return Choice(nominated, nominated_for)
        streak = self._streak
        as_of = self._constraints.revision
        if streak is None or streak.shape is not shape or self._streak_as_of != as_of:
            streak = self._streak = BatchPlacement(self.cluster, self.names, shape)
            self._streak_as_of = as_of
        chosen = streak.next()
        if chosen is None:
            ranking = self.ranking(shape)
            found = ranking.best()
            if found is None:
                return self.diagnosis(shape)
            chosen = streak.begin(ranking, *found)
        position, capacity = chosen
        return Choice(self.name(position), capacity)

    def capacity_on(self, shape: Shape, node: str) -> Capacity | None:
        """Whether a pod of ``shape`` can be on ``node``, now or later, by all constraints and room."""
        index = self.cluster.index(node)
        return None if index is None else self.ranking(shape).moment_at(int(self.names.positions[index]))

    def fits(self, shape: Shape, node: str, freed: Amounts = NOTHING) -> bool:
        """Whether ``node`` will have room for a pod of ``shape`` when ``freed`` is freed besides.

        Nothing else about the node is looked at.  Evicting several pods and asking after each whether that is
        enough is asking for less and less: the amounts freed add up.
        """
        cluster = self.cluster
        index = cluster.index(node)
        if index is None:
            return False
        return all(
            amount <= cluster.future_idle(index, resource) + freed.get(resource, 0)
            for resource, amount in shape.amounts.items()
            if amount
        )

    def nodes_by_score(self, shape: Shape) -> Iterator[str]:
        """The nodes where evicting others may help a pod of ``shape``, or nobody need go; the best first."""
        ranking, filter_result = self.ranking(shape), self._constraints.filter_result(shape)
        for position in ranking.in_order(~filter_result.unresolvable[self.names.indexes]):
            yield self.name(position)

    def anchor_domains(self, shape: Shape, followers: Collection[Shape]) -> Sequence[Vector]:
        """Return ``Constraints.anchor_domains``."""
        return self._constraints.anchor_domains(shape, followers)

    def best_among(self, shape: Shape, nodes: Mask) -> str:
        """The best candidate among ``nodes``, those with room now first; "" if there is none."""
        ranking = self.ranking(shape)
        for capacity in Capacity:
            points = np.where(nodes[self.names.indexes], ranking.candidates(capacity), INFEASIBLE)
            best = int(points.argmax()) if len(points) else 0
            if len(points) and points[best] != INFEASIBLE:
                return self.name(best)
        return ""

    def diagnosis(self, shape: Shape) -> Diagnosis:
        """Why ``best`` finds no node for pods of ``shape``."""
        filter_result = self._constraints.filter_result(shape)
        self.names.refresh()
        as_of = self.cluster.usage_changes.end, filter_result.version
        known = self._refusals.get(shape)
        if known is None or known[0] != as_of:
            known = self._refusals[shape] = (
                as_of,
                diagnose(self.cluster, shape, filter_result, self.names.indexes),
            )
        return known[1]

    def ranking(self, shape: Shape) -> NodeRanking:
        """The nodes as they rank now."""
        ranking = self._rankings.get(shape)
        if ranking is None:
            ranking = self._rankings[shape] = NodeRanking(self.cluster, self.names, self._scoring, shape)
            if len(self._rankings) > _KEPT:
                self._rankings.popitem(last=False)
        else:
            self._rankings.move_to_end(shape)
        ranking.refresh(self._constraints.filter_result(shape))
        return ranking

    def name(self, position: int) -> str:
        return self.cluster.name(int(self.names.indexes[position]))
