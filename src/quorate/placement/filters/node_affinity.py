"""The node selector, required node affinity, and terms of the same form in volumes; preferred node affinity.

Source: the Kubernetes page "Assigning Pods to Nodes" and kube-scheduler's NodeAffinity.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from quorate.api.core import NodeSelector, NodeSelectorTerm
from quorate.api.core.scheduling import PreferredSchedulingTerm
from quorate.api.meta import SelectorRequirement, matches_requirement
from quorate.placement.filters.node_columns import Column, NodeColumns
from quorate.placement.vectors import Mask, Vector

NAME_FIELD: Final = "metadata.name"  # the only field that can be selected by


def selected(nodes: NodeColumns, labels: Iterable[tuple[str, str]], affinity: NodeSelector | None) -> Mask:
    """The nodes that have all ``labels`` and satisfy the required ``affinity``, if there is any."""
    chosen = ~nodes.vacant
    for key, value in labels:
        chosen &= nodes.label(key).among((value,))
    if affinity is not None:
        chosen &= satisfies_any(nodes, affinity.node_selector_terms)
    return chosen


def satisfies_any(nodes: NodeColumns, terms: Iterable[NodeSelectorTerm]) -> Mask:
    """The nodes that satisfy at least one term: without terms, none."""
    satisfied = np.zeros(nodes.size, np.bool_)
    for term in terms:
        satisfied |= satisfies(nodes, term)
    return satisfied


def satisfies(nodes: NodeColumns, term: NodeSelectorTerm) -> Mask:
    """The nodes that satisfy every expression of ``term``: an empty term matches nothing."""
    if not term.match_expressions and not term.match_fields:
        return np.zeros(nodes.size, np.bool_)
    satisfied = ~nodes.vacant
    for requirement in term.match_expressions:
        satisfied &= _meets(nodes.label(requirement.key), requirement)
    for requirement in term.match_fields:
        if requirement.key == NAME_FIELD:
            satisfied &= _meets(nodes.names, requirement)
        else:
            satisfied[:] = False
    return satisfied


def preferred_weight(nodes: NodeColumns, terms: Iterable[PreferredSchedulingTerm]) -> Vector:
    """For each node the weights of the preferred ``terms`` it satisfies, summed."""
    weight = np.zeros(nodes.size, np.int64)
    for term in terms:
        weight += term.weight * satisfies(nodes, term.preference)
    return weight


def _meets(column: Column[str], requirement: SelectorRequirement) -> Mask:
    """As ``matches_requirement``, for all nodes at once."""
    match requirement.operator:
        case "In":
            return column.among(requirement.values)
        case "NotIn":
            return ~column.among(requirement.values)
        case "Exists":
            return column.present()
        case "DoesNotExist":
            return ~column.present()
        case _:
            key = requirement.key
            return column.those(lambda value: matches_requirement(requirement, {key: value}))
