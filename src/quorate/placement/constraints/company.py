"""Who has to be there first: pods that require others near, and those others, placed together."""

from collections.abc import Collection

from quorate.placement.constraints.demands import demands_of
from quorate.placement.constraints.terms import Kin, PodTerm
from quorate.placement.shapes import Shape


def ranks(shapes: Collection[Shape]) -> dict[Shape, int]:
    """A rank for each of ``shapes``: pods that one waits for have a lower one.

    Pods wait for others if they require them near and are not themselves what they require.  Whom none of the
    shapes can help, because what they require is elsewhere or waits for them in turn, comes last.
    """
    if not any(requires_company(shape) for shape in shapes):
        return dict.fromkeys(shapes, 0)
    near, kin = {}, {}
    for shape in shapes:
        demands = demands_of(shape)
        near[shape], kin[shape] = demands.near, demands.kin
    there = {shape for shape in shapes if not near[shape] or _is_picked(near[shape], kin[shape])}
    found = dict.fromkeys(there, 0)
    while there:
        kins = {kin[shape] for shape in there}
        helped = {terms for terms in {near[shape] for shape in shapes} if _helps(terms, kins)}
        there = {shape for shape in shapes if shape not in found and near[shape] in helped}
        found |= dict.fromkeys(there, max(found.values()) + 1)
    last = max(found.values(), default=0) + 1
    return {shape: found.get(shape, last) for shape in shapes}


def requires_company(shape: Shape) -> bool:
    """Whether its pods must be near others."""
    affinity = shape.affinity and shape.affinity.pod_affinity
    return bool(affinity and affinity.required)


def _helps(near: tuple[PodTerm, ...], kins: Collection[Kin]) -> bool:
    return any(_is_picked(near, kin) for kin in kins)


def _is_picked(near: tuple[PodTerm, ...], kin: Kin) -> bool:
    """Whether all terms pick the kin.  Labels of namespaces are not looked at: a wrong order does no harm."""
    namespace, labels = kin
    return all(term.pick.matches(namespace, dict(labels), {}) for term in near)
