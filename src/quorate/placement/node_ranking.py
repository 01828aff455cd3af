"""How the nodes rank for pods of one shape.

For each shape the nodes' fitness and points are kept, and kept up to date by the cluster's log when next they
are asked for: a question costs as much as changed since the last one, and a glance over one vector.

Of the nodes that pass all constraints and have room as soon as those being released are gone (*candidates*),
those with room now come first; among them the one with the most points, then the first by name.

Source: Volcano's action allocate, with all nodes examined.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import numpy as np

from quorate.placement.cluster import Cluster
from quorate.placement.framework import Capacity, FilterResult, InvalidationScope, RawScores
from quorate.placement.name_order import NOWHERE, NameOrder
from quorate.placement.scoring import (
    ResourceColumns,
    Scoring,
    depends_on_candidates,
    normalized_score,
    resource_score,
)
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Mask, Matrix, Vector

# The points of a node that is out of the question.
INFEASIBLE: Final = int(np.iinfo(np.int64).min)

_ALL: Final = slice(None)
_NEVER: Final = -1


class NodeRanking:
    """The nodes as seen by pods of one shape; right after ``refresh`` and until the cluster changes."""

    def __init__(self, cluster: Cluster, names: NameOrder, scoring: Scoring, shape: Shape) -> None:
        self._cluster = cluster
        self._names = names
        self._scoring = scoring
        self._shape = shape
        self._request = {
            cluster.row(resource): amount for resource, amount in shape.amounts.items() if amount
        }
        # By index: points by room, whether the node is sound (it is not when it gave away more than it has by
        # now), and whether there is room for one more.
        self._points: Vector = np.zeros(0, np.int64)
        self._sound: Mask = np.zeros(0, np.bool_)
        self._has_room_now: Mask = np.zeros(0, np.bool_)
        self._has_room_later: Mask = np.zeros(0, np.bool_)
        # By position: points of the candidates with room now, and of the other candidates.
        self._now: Vector = np.zeros(0, np.int64)
        self._later: Vector = np.zeros(0, np.int64)
        self._read_to = _NEVER  # of the log
        self._judged_as_of = _NEVER, _NEVER  # versions of the order of names, and of the stance
        # Points whatever the choice is between, by index, and what is compared for each choice, by position.
        self._constant: Vector = np.zeros(0, np.int64)
        self._compared = RawScores()
        self._comparing = False  # whether there is anything to compare
        # Whether placing one pod changes more for the next one than the room and the points of its own node.
        self.one_at_a_time = False
        self.one_per_node = False  # whether a node takes only one such pod

    def refresh(self, filter_result: FilterResult) -> None:
        """Take in what changed in the cluster, of which ``filter_result`` tells the rest."""
        self._names.refresh()
        log = self._cluster.usage_changes
        changed = log.since(self._read_to) if len(self._points) == self._cluster.size else None
        self._read_to = log.end
        if changed is None:
            self._make_room()
            self._measure(_ALL)
        elif changed:
            self._measure(np.array(changed))
        as_of = self._names.version, filter_result.version
        if changed is None or as_of != self._judged_as_of:
            self._judged_as_of = as_of
            self._take_preferences(filter_result.raw_scores)
            self.one_per_node = filter_result.invalidation_scope is InvalidationScope.ONE_PER_NODE
            self.one_at_a_time = (
                filter_result.invalidation_scope
                in (InvalidationScope.OWN_NODE, InvalidationScope.OTHER_NODES)
                or self._comparing
            )
            self._now = np.full(len(self._names.indexes), INFEASIBLE)
            self._later = self._now.copy()
            self._judge(self._names.indexes, filter_result)
        elif changed:
            at = np.array(changed)
            self._judge(
                at[self._names.positions[at] != NOWHERE], filter_result
            )  # some came and are gone again

    def best(self) -> tuple[int, Capacity] | None:
        """The position of the best candidate, and when it has room."""
        for capacity in Capacity:
            points = self.candidates(capacity)
            if len(points):
                position = int(points.argmax())
                if points[position] != INFEASIBLE:
                    return position, capacity
        return None

    def candidates(self, capacity: Capacity) -> Vector:
        """Return the scores of the candidates that fit at ``capacity``, by position."""
        points = self._now if capacity is Capacity.IDLE else self._later
        if not self._comparing:
            return points
        among = points != INFEASIBLE
        return np.where(among, points + self._preferred(among), INFEASIBLE)

    def moment_at(self, position: int) -> Capacity | None:
        """Whether the node at ``position`` has room now or later, if it is a candidate at all."""
        if self._now[position] != INFEASIBLE:
            return Capacity.IDLE
        return Capacity.FUTURE_IDLE if self._later[position] != INFEASIBLE else None

    def in_order(self, among: Mask) -> Iterator[int]:
        """The positions of those ``among`` that are sound, with room or without, best first."""
        among = among & self._sound[self._names.indexes]
        points = (self._points + self._constant)[self._names.indexes]
        if self._comparing:
            points = points + self._preferred(among)
        positions = np.flatnonzero(among)
        return iter(positions[np.argsort(-points[positions], kind="stable")].tolist())

    def points_after(self, positions: Vector, placed: Vector, capacity: Capacity) -> Vector:
        """Return resource scores of nodes with ``placed`` more pods of the shape; ``INFEASIBLE`` if full.

        Not of use to pods that are placed ``alone``.
        """
        indexes = self._names.indexes[positions]
        cluster = self._cluster
        request = cluster.request(self._shape)[:, None] * placed
        used, pipelined = cluster.used[:, indexes], cluster.pipelined[:, indexes]
        non_zero_request = cluster.non_zero_used[:, indexes]
        if capacity is Capacity.IDLE:
            used = used + request
            non_zero_request = (
                non_zero_request + np.array(self._shape.non_zero_request, np.int64)[:, None] * placed
            )
        else:
            pipelined = pipelined + request
        load = ResourceColumns(cluster.allocatable[:, indexes], used, pipelined, non_zero_request)
        releasing = cluster.releasing[:, indexes]
        _, fits_now, fits_later = self._rooms(load, releasing)
        points = self._constant[indexes] + resource_score(self._scoring, self._shape, cluster.rows, load)
        return np.where(fits_now if capacity is Capacity.IDLE else fits_later, points, INFEASIBLE)

    def _make_room(self) -> None:
        size = self._cluster.size
        self._points = np.zeros(size, np.int64)
        self._sound = np.zeros(size, np.bool_)
        self._has_room_now = np.zeros(size, np.bool_)
        self._has_room_later = np.zeros(size, np.bool_)

    def _measure(self, at: Vector | slice) -> None:
        cluster = self._cluster
        load = ResourceColumns(
            cluster.allocatable[:, at],
            cluster.used[:, at],
            cluster.pipelined[:, at],
            cluster.non_zero_used[:, at],
        )
        rooms = self._rooms(load, cluster.releasing[:, at])
        self._sound[at], self._has_room_now[at], self._has_room_later[at] = rooms
        self._points[at] = resource_score(self._scoring, self._shape, cluster.rows, load)

    def _rooms(self, load: ResourceColumns, releasing: Matrix) -> tuple[Mask, Mask, Mask]:
        """Whether the nodes are sound, and whether one more pod finds room there now, and later."""
        idle = load.allocatable - load.used
        within_allocatable: Mask = np.all(idle >= 0, axis=0)
        now, later = within_allocatable.copy(), within_allocatable.copy()
        for row, amount in self._request.items():
            now &= idle[row] >= amount
            later &= idle[row] + releasing[row] - load.pipelined[row] >= amount
        return within_allocatable, now & later, later

    def _judge(self, at: Vector, filter_result: FilterResult) -> None:
        later = self._has_room_later[at] & filter_result.passing(Capacity.FUTURE_IDLE)[at]
        now = self._has_room_now[at] & later & filter_result.passing(Capacity.IDLE)[at]
        points, positions = self._points[at] + self._constant[at], self._names.positions[at]
        self._now[positions] = np.where(now, points, INFEASIBLE)
        self._later[positions] = np.where(later & ~now, points, INFEASIBLE)

    def _take_preferences(self, raw_scores: RawScores) -> None:
        self._constant = np.zeros(self._cluster.size, np.int64)
        self._compared, self._comparing = RawScores(), False
        order = self._scoring.node_order
        if order is None:
            return
        if raw_scores.images is not None:
            everywhere = np.ones(self._cluster.size, np.bool_)
            self._constant = normalized_score(order, RawScores(images=raw_scores.images), everywhere)
        self._compared = replace(raw_scores, images=None).at(self._names.indexes)
        self._comparing = depends_on_candidates(order, raw_scores)

    def _preferred(self, among: Mask) -> Vector:
        """What the nodes score, by position, when the choice is between those at positions ``among``."""
        assert self._scoring.node_order is not None, "preferences are compared without a plugin that does so"
        return normalized_score(self._scoring.node_order, self._compared, among)
