"""Placement of pods that required pod affinity binds to one topology domain.

The targets of a required affinity term must be placed before the pods that have the term.  And the first pod
of such a group may be placed in any domain, but fixes that domain for the rest of the group: placed by its
own score it could go to a domain that is too small for all.
"""

from collections.abc import Collection, Mapping

from quorate.placement.cluster import Cluster
from quorate.placement.filters.inter_pod.pod_selectors import AffinityTerm, PodLabelSet
from quorate.placement.filters.requirements import pod_requirements
from quorate.placement.framework import Capacity
from quorate.placement.node_finder import NodeFinder
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Mask, Matrix, Vector, np

PodsByShape = Mapping[Shape, int]


def requires_affinity(shape: Shape) -> bool:
    """Return True if pods of ``shape`` have a required pod affinity term."""
    affinity = shape.affinity and shape.affinity.pod_affinity
    return bool(affinity and affinity.required)


def affinity_order(shapes: Collection[Shape]) -> dict[Shape, int]:
    """Return a rank for each pod shape: targets of required affinity have a lower one.

    A pod depends on others if it has required affinity terms that it does not itself match.  A shape has the
    last rank if none of ``shapes`` can satisfy its terms: the targets are elsewhere, or depend on it in turn.
    """
    if not any(requires_affinity(shape) for shape in shapes):
        return dict.fromkeys(shapes, 0)
    terms, label_sets = {}, {}
    for shape in shapes:
        requirements = pod_requirements(shape)
        terms[shape], label_sets[shape] = requirements.required_affinity, requirements.label_set
    placeable = {shape for shape in shapes if not terms[shape] or _matches(terms[shape], label_sets[shape])}
    ranks = dict.fromkeys(placeable, 0)
    while placeable:
        targets = {label_sets[shape] for shape in placeable}
        satisfied = {
            required
            for required in {terms[shape] for shape in shapes}
            if any(_matches(required, target) for target in targets)
        }
        placeable = {shape for shape in shapes if shape not in ranks and terms[shape] in satisfied}
        ranks |= dict.fromkeys(placeable, max(ranks.values()) + 1)
    last = max(ranks.values(), default=0) + 1
    return {shape: ranks.get(shape, last) for shape in shapes}


def _matches(terms: tuple[AffinityTerm, ...], label_set: PodLabelSet) -> bool:
    """Return True if all terms match the label set.

    Labels of namespaces count as absent: a wrong order does no harm.
    """
    namespace, labels = label_set
    return all(term.selector.matches(namespace, dict(labels), {}) for term in terms)


def choose_anchor_node(finder: NodeFinder, shape: Shape, group: PodsByShape) -> str:
    """Return the best node for a first pod of ``shape`` in a domain with capacity for ``group``.

    Prefer idle capacity to future idle capacity.  Return "" if no pod of the group must be in the domain of
    the first pod, or if no domain has enough capacity.  Only resources are checked: whether other filters
    reject the rest of the group shows when it is placed.
    """
    domains = finder.anchor_domains(shape, group)
    if not domains:
        return ""
    cluster = finder.cluster
    for capacity in Capacity:
        free = _free(cluster, capacity)
        fitting = np.ones(cluster.size, np.bool_)
        for codes in domains:
            fitting &= _domain_fits(cluster, free, codes, group)
        name = finder.best_in(shape, fitting)
        if name:
            return name
    return ""


def _free(cluster: Cluster, capacity: Capacity) -> Matrix:
    free: Matrix = cluster.allocatable - cluster.used
    if capacity is Capacity.FUTURE_IDLE:
        free = free + cluster.releasing - cluster.pipelined
    return np.maximum(free, 0) * cluster.ready


def _domain_fits(cluster: Cluster, free: Matrix, codes: Vector, group: PodsByShape) -> Mask:
    """Return the nodes in domains that fit the pods of each shape, and the sum of all requests."""
    domains = int(codes.max(initial=-1)) + 1
    inside = codes >= 0
    fits = np.ones(domains + 1, np.bool_)
    fits[domains] = False  # read with -1, by nodes outside all domains
    total: dict[int, int] = {}
    for shape, count in group.items():
        pods = np.full(cluster.size, count, np.int64)
        for resource, amount in shape.amounts.items():
            if amount:
                row = cluster.row(resource)
                pods = np.minimum(pods, free[row] // amount)
                total[row] = total.get(row, 0) + amount * count
        fits[:domains] &= _sums(codes[inside], pods[inside], domains) >= count
    for row, amount in total.items():
        fits[:domains] &= _sums(codes[inside], free[row][inside], domains) >= amount
    return fits[codes]


def _sums(codes: Vector, amounts: Vector, domains: int) -> Vector:
    """Return the sum of ``amounts`` in each domain; each is limited so that no sum exceeds 64 bits."""
    sums = np.zeros(domains, np.int64)
    np.add.at(sums, codes, np.minimum(amounts, 2**62 // max(1, len(amounts))))
    return sums
