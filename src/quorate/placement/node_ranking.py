"""Feasibility and scores of all nodes for one pod shape, updated incrementally.

The results for each shape are retained and updated from the change logs of the cluster at the next query: a
query costs as much as has changed since the last one, plus one pass over a vector.

A *candidate* is a node that passes all filters and on which the pod fits at future idle capacity.  Candidates
on which it fits at idle capacity come first; among them the one with the highest score, then the first by
name.

Source: Volcano's action allocate, examining all nodes.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from quorate.placement.cluster import Cluster
from quorate.placement.framework import Capacity, FilterResult, InvalidationScope, RawScores
from quorate.placement.name_order import NOWHERE, NameOrder
from quorate.placement.scoring import (
    ResourceColumns,
    Scoring,
    depends_on_candidates,
    normalized_scores,
    resource_scores,
)
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Mask, Matrix, Vector, np

# The score of a node that is not a candidate.
INFEASIBLE: Final = -(2**63)

# Pods on one node that request nothing: as many as a sum over all nodes can count.
UNLIMITED: Final = 2**31

_ALL: Final = slice(None)
_NEVER: Final = -1


class NodeRanking:
    """The ranking for one shape; valid after ``refresh`` until the cluster changes."""

    def __init__(self, cluster: Cluster, names: NameOrder, scoring: Scoring, shape: Shape) -> None:
        self._cluster = cluster
        self._names = names
        self._scoring = scoring
        self._shape = shape
        self._request = {
            cluster.row(resource): amount for resource, amount in shape.amounts.items() if amount
        }
        # By index: the score by resource amounts, and whether one more pod fits at idle and at future idle
        # capacity.
        self._resource_scores: Vector = np.zeros(0, np.int64)
        self._fits_idle: Mask = np.zeros(0, np.bool_)
        self._fits_future_idle: Mask = np.zeros(0, np.bool_)
        # By position: scores of the candidates with idle capacity, and of the other candidates.
        self._idle: Vector = np.zeros(0, np.int64)
        self._future_idle: Vector = np.zeros(0, np.int64)
        self._read_to = _NEVER  # position in the log of usage changes
        self._evaluated_versions = _NEVER, _NEVER  # of the order of names, and of the filter result
        # By index: scores that do not depend on the candidates.  By position: raw scores that do.
        self._fixed_scores: Vector = np.zeros(0, np.int64)
        self._raw_scores = RawScores()
        self._normalizes = False  # whether any score depends on the candidates
        # Whether placing one pod may change more for the next one than its own node's capacity and score.
        self.one_at_a_time = False
        self.one_per_node = False  # whether a node takes only one such pod

    def refresh(self, filter_result: FilterResult) -> None:
        """Update from the change logs of the cluster and from the current filter result."""
        self._names.refresh()
        log = self._cluster.usage_changes
        changed = log.since(self._read_to) if len(self._resource_scores) == self._cluster.size else None
        self._read_to = log.end
        if changed is None:
            self._reset()
            self._update_resources(_ALL)
        elif changed:
            self._update_resources(np.array(changed))
        versions = self._names.version, filter_result.version
        if changed is None or versions != self._evaluated_versions:
            self._evaluated_versions = versions
            self._set_raw_scores(filter_result.raw_scores)
            scope = filter_result.invalidation_scope
            self.one_per_node = scope is InvalidationScope.ONE_PER_NODE
            self.one_at_a_time = (
                scope in (InvalidationScope.OWN_NODE, InvalidationScope.OTHER_NODES) or self._normalizes
            )
            self._idle = np.full(len(self._names.indexes), INFEASIBLE)
            self._future_idle = self._idle.copy()
            self._update_candidates(self._names.indexes, filter_result)
        elif changed:
            at = np.array(changed)
            at = at[self._names.positions[at] != NOWHERE]  # without nodes that were added and removed again
            self._update_candidates(at, filter_result)

    def best(self) -> tuple[int, Capacity] | None:
        """Return the position of the best candidate, and the capacity at which the pod fits."""
        for capacity in Capacity:
            scores = self.candidates(capacity)
            if len(scores):
                position = int(scores.argmax())
                if scores[position] != INFEASIBLE:
                    return position, capacity
        return None

    def candidates(self, capacity: Capacity) -> Vector:
        """Return the scores of candidates by position, INFEASIBLE for all other nodes.

        These are the candidates with idle capacity, or those with only future idle capacity.
        """
        scores = self._idle if capacity is Capacity.IDLE else self._future_idle
        if not self._normalizes:
            return scores
        among = scores != INFEASIBLE
        return np.where(among, scores + self._normalized(among), INFEASIBLE)

    def capacity_at(self, position: int) -> Capacity | None:
        """Return the capacity at which the pod fits the node at ``position``.

        None if it is not a candidate.
        """
        if self._idle[position] != INFEASIBLE:
            return Capacity.IDLE
        return Capacity.FUTURE_IDLE if self._future_idle[position] != INFEASIBLE else None

    def room(self, capacity: Capacity) -> Vector:
        """Return by index how many more pods of the shape each node takes, if each needs only resources.

        With future idle capacity, nodes with idle capacity are included.
        """
        cluster = self._cluster
        candidates = self._idle != INFEASIBLE
        free = cluster.allocatable - cluster.used
        if capacity is Capacity.FUTURE_IDLE:
            candidates |= self._future_idle != INFEASIBLE
            free = free + cluster.releasing - cluster.pipelined
        most = 1 if self.one_per_node else UNLIMITED
        fitting = np.full(cluster.size, most)
        for row, amount in self._request.items():
            fitting = np.minimum(fitting, free[row] // amount)
        room = np.zeros(cluster.size, np.int64)
        indexes = self._names.indexes[candidates]
        room[indexes] = np.maximum(fitting[indexes], 1)  # a candidate takes one pod
        return room

    def by_score(self, among: Mask) -> Iterator[int]:
        """Return the positions of nodes ``among``, whether the pod fits or not, by descending score."""
        scores = (self._resource_scores + self._fixed_scores)[self._names.indexes]
        if self._normalizes:
            scores = scores + self._normalized(among)
        positions = np.flatnonzero(among)
        return iter(positions[np.argsort(-scores[positions], kind="stable")].tolist())

    def scores_after(self, positions: Vector, placed: Vector, capacity: Capacity) -> Vector:
        """Return the scores of nodes after ``placed`` more pods of the shape are placed on each.

        INFEASIBLE if no further pod fits.  Not valid for pods that are placed ``one_at_a_time``.
        """
        indexes = self._names.indexes[positions]
        cluster = self._cluster
        request = cluster.request(self._shape)[:, None] * placed
        used, pipelined = cluster.used[:, indexes], cluster.pipelined[:, indexes]
        non_zero_request = np.array(self._shape.non_zero_request, np.int64)[:, None]
        non_zero_used = cluster.non_zero_used[:, indexes] + non_zero_request * placed
        if capacity is Capacity.IDLE:
            used = used + request
        else:
            pipelined = pipelined + request
        columns = ResourceColumns(cluster.allocatable[:, indexes], used, pipelined, non_zero_used)
        releasing = cluster.releasing[:, indexes]
        fits_idle, fits_future_idle = self._fits(columns, releasing)
        scores = self._fixed_scores[indexes] + resource_scores(
            self._scoring, self._shape, cluster.rows, columns
        )
        return np.where(fits_idle if capacity is Capacity.IDLE else fits_future_idle, scores, INFEASIBLE)

    def _reset(self) -> None:
        size = self._cluster.size
        self._resource_scores = np.zeros(size, np.int64)
        self._fits_idle = np.zeros(size, np.bool_)
        self._fits_future_idle = np.zeros(size, np.bool_)

    def _update_resources(self, at: Vector | slice) -> None:
        cluster = self._cluster
        columns = ResourceColumns(
            cluster.allocatable[:, at],
            cluster.used[:, at],
            cluster.pipelined[:, at],
            cluster.non_zero_used[:, at],
        )
        self._fits_idle[at], self._fits_future_idle[at] = self._fits(columns, cluster.releasing[:, at])
        self._resource_scores[at] = resource_scores(self._scoring, self._shape, cluster.rows, columns)

    def _fits(self, columns: ResourceColumns, releasing: Matrix) -> tuple[Mask, Mask]:
        """Return the nodes that fit one more pod now, and in the future.

        Only resources that the pod requests matter: a node may lack some of what its pods use.
        """
        fits_idle = np.ones(columns.used.shape[1], np.bool_)
        fits_future_idle = fits_idle.copy()
        for row, amount in self._request.items():
            idle = columns.allocatable[row] - columns.used[row]
            fits_idle &= idle >= amount
            fits_future_idle &= idle + releasing[row] - columns.pipelined[row] >= amount
        return fits_idle & fits_future_idle, fits_future_idle

    def _update_candidates(self, at: Vector, filter_result: FilterResult) -> None:
        future_idle = self._fits_future_idle[at] & filter_result.passing(Capacity.FUTURE_IDLE)[at]
        idle = self._fits_idle[at] & future_idle & filter_result.passing(Capacity.IDLE)[at]
        scores, positions = self._resource_scores[at] + self._fixed_scores[at], self._names.positions[at]
        self._idle[positions] = np.where(idle, scores, INFEASIBLE)
        self._future_idle[positions] = np.where(future_idle & ~idle, scores, INFEASIBLE)

    def _set_raw_scores(self, raw: RawScores) -> None:
        self._fixed_scores = np.zeros(self._cluster.size, np.int64)
        self._raw_scores, self._normalizes = RawScores(), False
        if raw.node_groups is not None:
            self._fixed_scores = raw.node_groups
        order = self._scoring.node_order
        if order is None:
            return
        if raw.images is not None:
            all_nodes = np.ones(self._cluster.size, np.bool_)
            self._fixed_scores = self._fixed_scores + normalized_scores(
                order, RawScores(images=raw.images), all_nodes
            )
        self._raw_scores = replace(raw, images=None, node_groups=None).at(self._names.indexes)
        self._normalizes = depends_on_candidates(order, raw)

    def _normalized(self, among: Mask) -> Vector:
        """Return scores by position, normalized over the nodes at positions ``among``."""
        assert self._scoring.node_order is not None, "scores are normalized without the plugin nodeorder"
        return normalized_scores(self._scoring.node_order, self._raw_scores, among)
