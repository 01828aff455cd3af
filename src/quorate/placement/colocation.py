"""Where pods begin that all have to be in one domain: in one that has room for all of them.

A pod that others require near them, be they its like or not, may be anywhere as long as it is the first, and
where it goes the others have to follow.  Placed alone it would go to the best node there is, in whatever
domain.
"""

from collections.abc import Collection, Mapping

import numpy as np

from quorate.placement.cluster import Cluster
from quorate.placement.filters.inter_pod.pod_selectors import AffinityTerm, PodLabelSet
from quorate.placement.filters.requirements import requirements_of
from quorate.placement.framework import Capacity
from quorate.placement.node_finder import NodeFinder
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Mask, Matrix, Vector

PodsByShape = Mapping[Shape, int]  # how many pods of which shapes have to be in one domain


def choose_anchor_node(node_finder: NodeFinder, shape: Shape, company: PodsByShape) -> str:
    """The best node for a pod of ``shape`` in a domain with room for ``company``, now or else later.

    "" if nobody of these has to follow it, and if no domain has that much room.  Room is all that is looked
    at: whether the others are kept away by more than that shows when they are placed.
    """
    domains = node_finder.anchor_domains(shape, company)
    if not domains:
        return ""
    cluster = node_finder.cluster
    for each in company:
        cluster.request(each)  # then the matrices have a row for whatever it asks for
    for capacity in Capacity:
        room = _room(cluster, capacity)
        fitting = np.ones(cluster.size, np.bool_)
        for codes in domains:
            fitting &= _has_room(cluster, room, codes, company)
        name = node_finder.best_among(shape, fitting)
        if name:
            return name
    return ""


def _room(cluster: Cluster, capacity: Capacity) -> Matrix:
    room: Matrix = cluster.allocatable - cluster.used
    if capacity is Capacity.FUTURE_IDLE:
        room = room + cluster.releasing - cluster.pipelined
    return np.maximum(room, 0) * cluster.ready


def _has_room(cluster: Cluster, room: Matrix, codes: Vector, company: PodsByShape) -> Mask:
    """The nodes in whose domain there is room for each shape's pods, and for the amounts of all together."""
    domains = int(codes.max(initial=-1)) + 1
    inside = codes >= 0
    enough = np.ones(domains + 1, np.bool_)
    enough[domains] = False  # where nodes outside of all domains look
    wanted: dict[int, int] = {}
    for shape, count in company.items():
        places = np.full(cluster.size, count, np.int64)
        for resource, amount in shape.amounts.items():
            if amount:
                row = cluster.row(resource)
                places = np.minimum(places, room[row] // amount)
                wanted[row] = wanted.get(row, 0) + amount * count
        enough[:domains] &= _sums(codes[inside], places[inside], domains) >= count
    for row, amount in wanted.items():
        enough[:domains] &= _sums(codes[inside], room[row][inside], domains) >= amount
    return enough[codes]


def _sums(codes: Vector, amounts: Vector, domains: int) -> Vector:
    """The sum of each domain."""
    sums = np.zeros(domains, np.int64)
    np.add.at(sums, codes, amounts)
    return sums


def affinity_order(shapes: Collection[Shape]) -> dict[Shape, int]:
    """A rank for each of ``shapes``: pods that one waits for have a lower one.

    Pods wait for others if they require them near and are not themselves what they require.  Whom none of the
    shapes can help, because what they require is elsewhere or waits for them in turn, comes last.
    """
    if not any(requires_affinity(shape) for shape in shapes):
        return dict.fromkeys(shapes, 0)
    required_affinity, label_set = {}, {}
    for shape in shapes:
        requirements = requirements_of(shape)
        required_affinity[shape], label_set[shape] = requirements.required_affinity, requirements.label_set
    there = {
        shape
        for shape in shapes
        if not required_affinity[shape] or _is_picked(required_affinity[shape], label_set[shape])
    }
    found = dict.fromkeys(there, 0)
    while there:
        label_sets = {label_set[shape] for shape in there}
        helped = {
            terms for terms in {required_affinity[shape] for shape in shapes} if _helps(terms, label_sets)
        }
        there = {shape for shape in shapes if shape not in found and required_affinity[shape] in helped}
        found |= dict.fromkeys(there, max(found.values()) + 1)
    last = max(found.values(), default=0) + 1
    return {shape: found.get(shape, last) for shape in shapes}


def requires_affinity(shape: Shape) -> bool:
    """Whether its pods must be near others."""
    affinity = shape.affinity and shape.affinity.pod_affinity
    return bool(affinity and affinity.required)


def _helps(required_affinity: tuple[AffinityTerm, ...], label_sets: Collection[PodLabelSet]) -> bool:
    return any(_is_picked(required_affinity, label_set) for label_set in label_sets)


def _is_picked(required_affinity: tuple[AffinityTerm, ...], label_set: PodLabelSet) -> bool:
    """Whether all terms pick the kin.  Labels of namespaces are not looked at: a wrong order does no harm."""
    namespace, labels = label_set
    return all(term.selector.matches(namespace, dict(labels), {}) for term in required_affinity)
