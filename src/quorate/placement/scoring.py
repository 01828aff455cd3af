"""Node scores in exact integers: Volcano's plugins nodeorder and binpack.

Scores are in millionths of a point, so that the fractions of binpack order nodes alike on every machine.
With weights below 2^31, as the configuration requires, sums of scores fit into 64 bits.  Each rule is written
once, for many nodes at a time; successive pods on one node are scored as that many nodes, each with more of
it used.

Source: Volcano's plugins of these names; nodeorder adds up scores of kube-scheduler.  Where these calculate
in floats and truncate, the quotients here are truncated exactly, by the functions at the end of this module.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from quorate.api.scheduler_configuration.plugins import BinpackArguments, NodeOrderArguments
from quorate.placement.framework import RawScores
from quorate.placement.resources import MEMORY
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Mask, Matrix, Vector, np
from quorate.quota.amount import CPU

SCORE_UNIT: Final = 1_000_000  # one point
MAX_NODE_SCORE: Final = 100  # points
# The rows of cpu and memory in the matrices of a cluster.
CPU_ROW: Final = 0
MEMORY_ROW: Final = 1


@dataclass(frozen=True, slots=True)
class Scoring:
    """The enabled score plugins; their scores are added up.

    Without any, the first node by name is best.
    """

    node_order: NodeOrderArguments | None
    binpack: BinpackArguments | None


class ResourceColumns(NamedTuple):
    """The amounts of some nodes: rows as in ``Cluster``, one column per node."""

    allocatable: Matrix
    used: Matrix
    pipelined: Matrix
    non_zero_used: Matrix


def resource_scores(
    scoring: Scoring, shape: Shape, rows: Mapping[str, int], columns: ResourceColumns
) -> Vector:
    """Return the scores by resource amounts of one more pod of ``shape`` on each of the nodes."""
    scores = np.zeros(columns.non_zero_used.shape[1], np.int64)
    order, binpack = scoring.node_order, scoring.binpack
    if order is not None:
        scores += SCORE_UNIT * _node_order_scores(order, shape, rows, columns)
    if binpack is not None:
        scores += binpack_scores(binpack, shape, rows, columns)
    return scores


def _node_order_scores(
    order: NodeOrderArguments, shape: Shape, rows: Mapping[str, int], columns: ResourceColumns
) -> Vector:
    allocatable = columns.allocatable[:2]
    scores = np.zeros(columns.non_zero_used.shape[1], np.int64)
    if order.least_requested or order.most_requested:
        requested = columns.non_zero_used + np.array(shape.non_zero_request, np.int64)[:, None]
        if order.least_requested:
            scores += order.least_requested * least_requested(requested, allocatable)
        if order.most_requested:
            scores += order.most_requested * most_requested(requested, allocatable)
    if order.balanced_resource and not shape.best_effort:
        balanced = (CPU, MEMORY, *(name for name in order.balanced_devices if shape.amounts.get(name)))
        request = np.array([shape.amounts.get(name, 0) for name in balanced], np.int64)[:, None]
        at = [rows[name] for name in balanced if name in rows]
        requested = columns.used[at] + columns.pipelined[at] + request[: len(at)]
        scores += order.balanced_resource * balanced_resource(requested, columns.allocatable[at])
    return scores


def least_requested(requested: Matrix, allocatable: Matrix) -> Vector:
    """Return the free share in points: of cpu and of memory, each truncated, then their mean.

    Both matrices have the rows cpu and memory.  A node that has only cpu or only memory is scored by that.
    """
    free = np.maximum(allocatable - requested, 0)
    return _mean(quotient(free, allocatable, MAX_NODE_SCORE), allocatable > 0)


def most_requested(requested: Matrix, allocatable: Matrix) -> Vector:
    """Return the requested share in points, in the same way."""
    return _mean(quotient(np.minimum(requested, allocatable), allocatable, MAX_NODE_SCORE), allocatable > 0)


def balanced_resource(requested: Matrix, allocatable: Matrix) -> Vector:
    """Return 100 less the standard deviation of the requested shares in points, truncated.

    For cpu and memory alone, the first two rows, that is 100 - 50 |cpu - memory|.  A resource that a node
    lacks does not count, and a node with one resource has the maximum score.
    """
    requested = np.minimum(requested, allocatable)
    if len(requested) > 2:
        return MAX_NODE_SCORE - _deviation(requested, allocatable)
    imbalance = half_difference(
        requested[CPU_ROW], allocatable[CPU_ROW], requested[MEMORY_ROW], allocatable[MEMORY_ROW]
    )
    return np.where((allocatable > 0).all(axis=0), MAX_NODE_SCORE - imbalance, MAX_NODE_SCORE)


def _deviation(requested: Matrix, allocatable: Matrix) -> Vector:
    """Return the standard deviation in points, rounded up as kube-scheduler does in floats."""
    counted = allocatable > 0
    count = np.maximum(counted.sum(axis=0), 1)
    shares = requested / np.maximum(allocatable, 1)
    distances = np.where(counted, shares - shares.sum(axis=0) / count, 0.0)
    deviation = np.sqrt((distances * distances).sum(axis=0) / count)
    points: Vector = MAX_NODE_SCORE - ((1 - deviation) * MAX_NODE_SCORE).astype(np.int64)
    return points


def _mean(scores: Matrix, counted: Mask) -> Vector:
    mean: Vector = (scores * counted).sum(axis=0) // np.maximum(counted.sum(axis=0), 1)
    return mean


def binpack_scores(
    binpack: BinpackArguments, shape: Shape, rows: Mapping[str, int], columns: ResourceColumns
) -> Vector:
    """Return the mean used share of the requested resources, in millionths of a point.

    0 where a resource is insufficient.
    """
    total = np.zeros(columns.used.shape[1], np.int64)
    sufficient = np.ones(len(total), np.bool_)
    weights = 0
    for resource, weight in binpack.resources.items():
        request = shape.amounts.get(resource, 0)
        if not request or not weight:
            continue
        weights += weight
        row = rows.get(resource)
        if row is None:
            continue  # no node has any
        allocatable, used = columns.allocatable[row], columns.used[row] + request
        sufficient &= (used <= allocatable) | (allocatable == 0)
        share = quotient(np.minimum(used, allocatable), allocatable, MAX_NODE_SCORE * SCORE_UNIT)
        total += weight * share
    if not weights:
        return total
    return np.where(sufficient, total // weights * binpack.weight, 0)


def normalized_scores(order: NodeOrderArguments, raw: RawScores, among: Mask) -> Vector:
    """Return the weighted sum of the raw scores, normalized over the nodes ``among``."""
    scores = np.zeros(len(among), np.int64)
    if raw.node_affinity is not None:
        scores += order.node_affinity * _relative_to_largest(raw.node_affinity, among)
    if raw.taints is not None:
        scores += order.taint_toleration * (MAX_NODE_SCORE - _relative_to_largest(raw.taints, among))
    if raw.pod_affinity is not None:
        scores += order.pod_affinity * _relative_to_range(raw.pod_affinity, among)
    if raw.spread is not None:
        scores += order.pod_topology_spread * _normalized_spread(raw.spread.score(among), among)
    if raw.images is not None:
        scores += order.image_locality * raw.images
    return SCORE_UNIT * scores


def depends_on_candidates(order: NodeOrderArguments, raw: RawScores) -> bool:
    """Return True if the normalized scores depend on the nodes among which the choice is."""
    return (
        (raw.node_affinity is not None and order.node_affinity != 0)
        or (raw.taints is not None and order.taint_toleration != 0)
        or (raw.pod_affinity is not None and order.pod_affinity != 0)
        or (raw.spread is not None and order.pod_topology_spread != 0)
    )


def _relative_to_largest(raw: Vector, among: Mask) -> Vector:
    largest = int(raw.max(initial=0, where=among))
    return MAX_NODE_SCORE * raw // largest if largest > 0 else np.zeros_like(raw)


def _relative_to_range(raw: Vector, among: Mask) -> Vector:
    if not among.any():
        return np.zeros_like(raw)
    low, high = int(raw[among].min()), int(raw[among].max())
    return MAX_NODE_SCORE * (raw - low) // (high - low) if high > low else np.zeros_like(raw)


def _normalized_spread(raw: Vector, among: Mask) -> Vector:
    """Return the normalized scores for topology spread.

    A node outside all domains has a negative raw score, and 0 here.
    """
    inside = among & (raw >= 0)
    if not inside.any():
        return np.zeros_like(raw)
    low, high = int(raw[inside].min()), int(raw[inside].max())
    scores = MAX_NODE_SCORE * (high + low - raw) // high if high > 0 else np.full_like(raw, MAX_NODE_SCORE)
    return np.where(raw >= 0, scores, 0)


# Exact quotients of 64-bit integers, with 0 <= part <= whole <= 2^53 throughout.


def quotient(part: Vector, whole: Vector, scale: int) -> Vector:
    """Return ``part * scale // whole``, 0 where ``whole`` is 0.

    The product may need more than 64 bits.  The quotient of floats is off by one at most.  The remainder
    corrects it: as it is small, it is right even if both products of which it is the difference have wrapped
    around.
    """
    divisor = np.maximum(whole, 1)
    guess = (part / divisor * scale).astype(np.int64)
    rest = part * np.int64(scale) - guess * divisor
    return guess + (rest >= divisor) - (rest < 0)


def half_difference(part: Vector, whole: Vector, other_part: Vector, other_whole: Vector) -> Vector:
    """Return ``|part / whole - other_part / other_whole|`` in fiftieths, rounded up.

    Each share is a number of whole fiftieths and a rest.  The larger of the two rests decides the rounding.
    Floats compare the rests unless they are nearly equal; in that case the difference of the cross products
    is small, and so right although the products wrap around.
    """
    one, other = np.maximum(whole, 1), np.maximum(other_whole, 1)
    fiftieths, other_fiftieths = 50 * part // one, 50 * other_part // other
    rest, other_rest = 50 * part - fiftieths * one, 50 * other_part - other_fiftieths * other
    about = rest / one - other_rest / other
    larger = np.where(np.abs(about) > 2.0**-50, np.sign(about), np.sign(rest * other - other_rest * one))
    whole_difference = fiftieths - other_fiftieths
    difference: Vector = np.maximum(whole_difference + (larger > 0), (larger < 0) - whole_difference)
    return difference
