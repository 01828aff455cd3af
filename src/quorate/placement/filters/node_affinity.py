"""Filter by node selector and node affinity; score preferred node affinity.

The node affinity of volumes has the same form.  Source: the Kubernetes page "Assigning Pods to Nodes" and
kube-scheduler's plugin NodeAffinity.
"""

from collections.abc import Iterable
from typing import Final

from quorate.api.core import NodeSelector, NodeSelectorTerm, PreferredSchedulingTerm
from quorate.api.meta import SelectorRequirement, matches_requirement
from quorate.placement.filters.node_columns import Column, NodeColumns
from quorate.placement.vectors import Mask, Vector, np

NAME_FIELD: Final = "metadata.name"  # the only field that ``matchFields`` supports


def matching_nodes(
    nodes: NodeColumns, labels: Iterable[tuple[str, str]], affinity: NodeSelector | None
) -> Mask:
    """Return the nodes that have all ``labels`` and match the required ``affinity``, if any.

    No label is looked at once no node is left: a pod may name thousands, and a node has few.
    """
    matching = ~nodes.vacant
    for key, value in labels:
        matching &= nodes.label(key).in_values((value,))
        if not matching.any():
            break
    if affinity is not None:
        matching &= match_any_term(nodes, affinity.node_selector_terms)
    return matching


def match_any_term(nodes: NodeColumns, terms: Iterable[NodeSelectorTerm]) -> Mask:
    """Return the nodes that match at least one term; none if there are no terms."""
    matching = np.zeros(nodes.size, np.bool_)
    for term in terms:
        matching |= match_term(nodes, term)
    return matching


def match_term(nodes: NodeColumns, term: NodeSelectorTerm) -> Mask:
    """Return the nodes that match every expression of ``term``; an empty term matches none."""
    if not term.match_expressions and not term.match_fields:
        return np.zeros(nodes.size, np.bool_)
    matching = ~nodes.vacant
    for requirement in term.match_expressions:
        matching &= _match_requirement(nodes.label(requirement.key), requirement)
        if not matching.any():
            return matching
    for requirement in term.match_fields:
        if requirement.key == NAME_FIELD:
            matching &= _match_requirement(nodes.names, requirement)
        else:
            matching[:] = False
    return matching


def preferred_weights(nodes: NodeColumns, terms: Iterable[PreferredSchedulingTerm]) -> Vector:
    """Return for each node the sum of the weights of the preferred ``terms`` that match."""
    weights = np.zeros(nodes.size, np.int64)
    for term in terms:
        weights += term.weight * match_term(nodes, term.preference)
    return weights


def _match_requirement(column: Column[str], requirement: SelectorRequirement) -> Mask:
    """Evaluate ``matches_requirement`` for all nodes at once."""
    match requirement.operator:
        case "In":
            return column.in_values(requirement.values)
        case "NotIn":
            return ~column.in_values(requirement.values)
        case "Exists":
            return column.present()
        case "DoesNotExist":
            return ~column.present()
        case _:
            key = requirement.key
            return column.where(lambda value: matches_requirement(requirement, {key: value}))
