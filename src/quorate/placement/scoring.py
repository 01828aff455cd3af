"""How well nodes suit a pod, in exact integers: the plugins nodeorder and binpack.

Points are counted in millionths, so that binpack's fractions keep an order that any machine agrees on.  With
weights below 2^31, as a configuration has them, sums of points fit into 64 bits.  Each rule is written once,
for many nodes at a time; pods one after the other on one node are as many nodes, each with more used of it.

Source: Volcano's plugins of these names; the parts of nodeorder are scores of kube-scheduler.  Where those
compute in floats and cut, quotients are cut here exactly, with the tools at the end of this module.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from quorate.api.scheduler_configuration.plugins import BinpackArguments, NodeOrderArguments
from quorate.placement.framework import RawScores
from quorate.placement.resources import MEMORY
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Mask, Matrix, Vector
from quorate.quota.amount import CPU

SCORE_UNIT: Final = 1_000_000
MAX_NODE_SCORE: Final = 100  # points of what could not be better
# The rows of cpu and memory in the matrices of a cluster.
CPU_ROW: Final = 0
MEMORY_ROW: Final = 1


@dataclass(frozen=True, slots=True)
class Scoring:
    """What is added up: one, both or none of the plugins.  Without any, names decide."""

    node_order: NodeOrderArguments | None
    binpack: BinpackArguments | None


class ResourceColumns(NamedTuple):
    """What some nodes have and what is taken of it: rows as in ``Cluster``, and a column for each of them."""

    allocatable: Matrix
    used: Matrix
    pipelined: Matrix
    non_zero_request: Matrix


def resource_score(scoring: Scoring, shape: Shape, rows: Mapping[str, int], load: ResourceColumns) -> Vector:
    """What one more pod of ``shape`` on each of the nodes scores by what they have and what is used of it."""
    points = np.zeros(load.non_zero_request.shape[1], np.int64)
    order, binpack = scoring.node_order, scoring.binpack
    if order is not None:
        points += SCORE_UNIT * _room_order(order, shape, load)
    if binpack is not None:
        points += binpack_points(binpack, shape, rows, load)
    return points


def _room_order(order: NodeOrderArguments, shape: Shape, load: ResourceColumns) -> Vector:
    capacity = load.allocatable[:2]
    points = np.zeros(load.non_zero_request.shape[1], np.int64)
    if order.least_requested or order.most_requested:
        wanted = load.non_zero_request + np.array(shape.non_zero_request, np.int64)[:, None]
        if order.least_requested:
            points += order.least_requested * least_requested(wanted, capacity)
        if order.most_requested:
            points += order.most_requested * most_requested(wanted, capacity)
    if order.balanced_resource and not shape.best_effort:
        own = np.array([shape.amounts.get(CPU, 0), shape.amounts.get(MEMORY, 0)], np.int64)[:, None]
        taken = load.used[:2] + load.pipelined[:2] + own
        points += order.balanced_resource * balanced(taken, capacity)
    return points


def least_requested(wanted: Vector, capacity: Vector) -> Vector:
    """The share that stays free: of each resource in whole points, then their mean.

    Both are of cpu and memory, in this order; a node that has nothing of one is judged by the other.
    """
    free = np.maximum(capacity - wanted, 0)
    return _mean(quotient(free, capacity, MAX_NODE_SCORE), capacity > 0)


def most_requested(wanted: Vector, capacity: Vector) -> Vector:
    """The share that is taken, likewise."""
    return _mean(quotient(np.minimum(wanted, capacity), capacity, MAX_NODE_SCORE), capacity > 0)


def balanced(taken: Vector, capacity: Vector) -> Vector:
    """The less the taken shares of cpu and memory differ, the better: 100 - 50 |cpu - memory|, cut.

    A node that has nothing of one is balanced.
    """
    taken = np.minimum(taken, capacity)
    off = half_difference(taken[CPU_ROW], capacity[CPU_ROW], taken[MEMORY_ROW], capacity[MEMORY_ROW])
    return np.where((capacity > 0).all(axis=0), MAX_NODE_SCORE - off, MAX_NODE_SCORE)


def _mean(points: Vector, counts: Mask) -> Vector:
    judged: Vector = (points * counts).sum(axis=0) // np.maximum(counts.sum(axis=0), 1)
    return judged


def binpack_points(
    binpack: BinpackArguments, shape: Shape, rows: Mapping[str, int], load: ResourceColumns
) -> Vector:
    """The mean share that is taken of what the pod requests, in millionths; 0 where there is too little."""
    total = np.zeros(load.used.shape[1], np.int64)
    enough = np.ones(len(total), np.bool_)
    weights = 0
    for resource, weight in binpack.resources.items():
        request = shape.amounts.get(resource, 0)
        if not request or not weight:
            continue
        weights += weight
        has = load.allocatable[rows[resource]]
        wanted = load.used[rows[resource]] + request
        enough &= (wanted <= has) | (has == 0)
        total += weight * quotient(np.minimum(wanted, has), has, MAX_NODE_SCORE * SCORE_UNIT)
    if not weights:
        return total
    return np.where(enough, total // weights * binpack.weight, 0)


def normalized_score(order: NodeOrderArguments, raw_scores: RawScores, among: Mask) -> Vector:
    """What the preferences score when the choice is between the nodes ``among``."""
    points = np.zeros(len(among), np.int64)
    if raw_scores.node_affinity is not None:
        points += order.node_affinity * _of_largest(raw_scores.node_affinity, among)
    if raw_scores.taints is not None:
        points += order.taint_toleration * (MAX_NODE_SCORE - _of_largest(raw_scores.taints, among))
    if raw_scores.pod_affinity is not None:
        points += order.pod_affinity * _between_extremes(raw_scores.pod_affinity, among)
    if raw_scores.spread is not None:
        points += order.pod_topology_spread * _spread(raw_scores.spread.measure(among), among)
    if raw_scores.images is not None:
        points += order.image_locality * raw_scores.images
    return SCORE_UNIT * points


def depends_on_candidates(order: NodeOrderArguments, raw_scores: RawScores) -> bool:
    """Whether the preferences make a difference that depends on the nodes the choice is between."""
    return (
        (raw_scores.node_affinity is not None and order.node_affinity != 0)
        or (raw_scores.taints is not None and order.taint_toleration != 0)
        or (raw_scores.pod_affinity is not None and order.pod_affinity != 0)
        or (raw_scores.spread is not None and order.pod_topology_spread != 0)
    )


def _of_largest(measure: Vector, among: Mask) -> Vector:
    largest = int(measure.max(initial=0, where=among))
    return MAX_NODE_SCORE * measure // largest if largest > 0 else np.zeros_like(measure)


def _between_extremes(measure: Vector, among: Mask) -> Vector:
    if not among.any():
        return np.zeros_like(measure)
    low, high = int(measure[among].min()), int(measure[among].max())
    return MAX_NODE_SCORE * (measure - low) // (high - low) if high > low else np.zeros_like(measure)


def _spread(measure: Vector, among: Mask) -> Vector:
    """A node outside of all domains, whose measure is negative, scores nothing."""
    inside = among & (measure >= 0)
    if not inside.any():
        return np.zeros_like(measure)
    low, high = int(measure[inside].min()), int(measure[inside].max())
    points = (
        MAX_NODE_SCORE * (high + low - measure) // high if high > 0 else np.full_like(measure, MAX_NODE_SCORE)
    )
    return np.where(measure >= 0, points, 0)


# -- exact quotients of 64-bit integers: 0 <= part <= whole <= 2^53 throughout


def quotient(part: Vector, whole: Vector, scale: int) -> Vector:
    """``part * scale // whole``, though the product may need more than 64 bits; 0 where ``whole`` is 0.

    The quotient of floats is off by one at most.  Then the remainder tells, and as it is small it is right
    even when both products that it is the difference of have wrapped around.
    """
    divisor = np.maximum(whole, 1)
    guess = (part / divisor * scale).astype(np.int64)
    rest = part * np.int64(scale) - guess * divisor
    return guess + (rest >= divisor) - (rest < 0)


def half_difference(part: Vector, whole: Vector, other_part: Vector, other_whole: Vector) -> Vector:
    """``|part / whole - other_part / other_whole|`` in fiftieths, rounded up.

    Each share is so many whole fiftieths and a rest.  Which rest is the larger decides how to round; floats
    tell, unless they are nearly equal, and then the difference of the cross products is small and so right
    though the products wrap around.
    """
    one, other = np.maximum(whole, 1), np.maximum(other_whole, 1)
    fiftieths, other_fiftieths = 50 * part // one, 50 * other_part // other
    rest, other_rest = 50 * part - fiftieths * one, 50 * other_part - other_fiftieths * other
    about = rest / one - other_rest / other
    larger = np.where(np.abs(about) > 2.0**-50, np.sign(about), np.sign(rest * other - other_rest * one))
    apart = fiftieths - other_fiftieths
    difference: Vector = np.maximum(apart + (larger > 0), (larger < 0) - apart)
    return difference
