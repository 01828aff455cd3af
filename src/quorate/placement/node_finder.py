"""Find nodes for pods: the best node, or a diagnosis; nodes to preempt on.

Source: Volcano's actions allocate and preempt, as far as they choose nodes.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.placement.batch_placement import BatchPlacement
from quorate.placement.cluster import Cluster
from quorate.placement.diagnosis import Diagnoses, Diagnosis, FittingPods
from quorate.placement.framework import Capacity, Constraints, InvalidationScope
from quorate.placement.name_order import NameOrder
from quorate.placement.node_ranking import INFEASIBLE, UNLIMITED, NodeRanking
from quorate.placement.resources import EMPTY_AMOUNTS, Amounts
from quorate.placement.scoring import Scoring
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Mask, Vector, np

# Retained rankings, each with some 35 bytes per node.  The least recently used ones are dropped.
_MAX_RANKINGS: Final = 64


@dataclass(frozen=True, slots=True)
class Choice:
    """A node that the pod fits, and the capacity at which it does."""

    node: str
    capacity: Capacity


class NodeFinder:
    """Finds nodes of ``cluster`` for pods of any shape.

    Results are valid for the current state of the cluster: after placing a pod, query again for the next
    one.  Successive queries for one shape are cheap (``batch_placement``).
    """

    def __init__(self, cluster: Cluster, constraints: Constraints, scoring: Scoring) -> None:
        self.cluster = cluster
        self._constraints = constraints
        self._scoring = scoring
        self.names = NameOrder(cluster)
        self._rankings: OrderedDict[Shape, NodeRanking] = OrderedDict()
        self._rows_version = cluster.rows_version  # of the rankings
        self._batch: BatchPlacement | None = None  # for the shape of the last query
        self._batch_revision = 0  # of the constraints
        self._diagnoses = Diagnoses(cluster, self.names)

    def best(self, shape: Shape, nominated: str = "") -> Choice | Diagnosis:
        """Return the best node for a pod of ``shape``; the nominated one if feasible."""
        nominated_capacity = self.capacity_on(shape, nominated) if nominated else None
        if nominated_capacity is not None:
            return Choice(nominated, nominated_capacity)
        batch = self._batch
        revision = self._constraints.revision
        if batch is None or batch.shape is not shape or self._batch_revision != revision:
            batch = self._batch = BatchPlacement(self.cluster, self.names, shape)
            self._batch_revision = revision
        chosen = batch.next()
        if chosen is None:
            if shape not in self._rankings:  # a refusal costs less than the ranking of all nodes
                refusal = self._diagnoses.refusal(shape, self._constraints.filter(shape))
                if refusal is not None:
                    return refusal
            ranking = self.ranking(shape)
            choice = ranking.best()
            if choice is None:
                return self.diagnose(shape)
            chosen = batch.start(ranking, *choice)
        position, capacity = chosen
        return Choice(self._name(position), capacity)

    def capacity_on(self, shape: Shape, node: str) -> Capacity | None:
        """Return the capacity at which a pod of ``shape`` fits ``node``.

        None if the node is infeasible.
        """
        index = self.cluster.index(node)
        return None if index is None else self.ranking(shape).capacity_at(int(self.names.positions[index]))

    def fits(self, shape: Shape, node: str, freed: Amounts = EMPTY_AMOUNTS) -> bool:
        """Return True if the pod fits the future idle capacity plus ``freed``.

        Check resources only.  A preemption that evicts several pods passes the sum of their amounts.
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

    def short_resources(self, shape: Shape, node: str) -> Sequence[str] | None:
        """Return the resources of which ``node`` has too little, at future idle capacity, for a pod.

        None if another filter rejects the node: then pods with none of these resources may be in the way.
        """
        index = self.cluster.index(node)
        if index is None or not self._constraints.filter(shape).passing(Capacity.FUTURE_IDLE)[index]:
            return None
        amounts = shape.amounts.items()
        return [name for name, amount in amounts if amount > self.cluster.future_idle(index, name)]

    def nodes_by_score(self, shape: Shape) -> Iterator[str]:
        """Yield the nodes that are feasible or may be after preemption, best first."""
        ranking, filter_result = self.ranking(shape), self._constraints.filter(shape)
        for position in ranking.by_score(~filter_result.unresolvable[self.names.indexes]):
            yield self._name(position)

    def anchor_domains(self, shape: Shape, followers: Collection[Shape]) -> Sequence[Vector]:
        """Return ``Constraints.anchor_domains``."""
        return self._constraints.anchor_domains(shape, followers)

    def best_in(self, shape: Shape, nodes: Mask) -> str:
        """Return the best candidate in ``nodes``, or "" if there is none.

        Candidates with idle capacity come first.
        """
        ranking = self.ranking(shape)
        for capacity in Capacity:
            scores = np.where(nodes[self.names.indexes], ranking.candidates(capacity), INFEASIBLE)
            best = int(scores.argmax()) if len(scores) else 0
            if len(scores) and scores[best] != INFEASIBLE:
                return self._name(best)
        return ""

    def diagnose(self, shape: Shape) -> Diagnosis:
        """Return why ``best`` finds no node for pods of ``shape``."""
        return self._diagnoses.diagnose(shape, self._constraints.filter(shape))

    def fitting_pods(self, shape: Shape) -> FittingPods | None:
        """Return how many pods of ``shape`` fit at future idle capacity.

        None if placing one changes more for the next one than the amounts of its own node.
        """
        filter_result = self._constraints.filter(shape)
        refusal = self._diagnoses.refusal(shape, filter_result)
        if refusal is not None:
            return FittingPods(0, refusal)
        if filter_result.invalidation_scope is not InvalidationScope.NONE or not shape.amounts:
            return None
        return self._diagnoses.fitting_pods(shape, filter_result)

    def room_when_empty(self, shape: Shape) -> Vector:
        """Return by index how many pods of ``shape`` each node takes with all other pods gone."""
        permanent = self._constraints.filter(shape).permanent
        cluster = self.cluster
        fitting = np.full(cluster.size, UNLIMITED)
        for resource, amount in shape.amounts.items():
            if amount:
                fitting = np.minimum(fitting, cluster.allocatable[cluster.row(resource)] // amount)
        self.names.refresh()
        room = np.zeros(cluster.size, np.int64)
        indexes = self.names.indexes
        room[indexes] = np.where(permanent[indexes], 0, fitting[indexes])
        return room

    def ranking(self, shape: Shape) -> NodeRanking:
        """Return the current ranking for ``shape``."""
        if self._rows_version != self.cluster.rows_version:
            self._rows_version = self.cluster.rows_version
            self._rankings.clear()
        ranking = self._rankings.get(shape)
        if ranking is None:
            ranking = self._rankings[shape] = NodeRanking(self.cluster, self.names, self._scoring, shape)
            if len(self._rankings) > _MAX_RANKINGS:
                self._rankings.popitem(last=False)
        else:
            self._rankings.move_to_end(shape)
        ranking.refresh(self._constraints.filter(shape))
        return ranking

    def _name(self, position: int) -> str:
        return self.cluster.name(int(self.names.indexes[position]))
