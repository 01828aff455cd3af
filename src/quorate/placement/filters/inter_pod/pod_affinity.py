"""Pods near to and apart from others: required affinity and anti-affinity, and the preferences of both kinds.

Both sides are asked: what the pod demands of pods that are placed, and what these demand of it.

Source: the Kubernetes page "Assigning Pods to Nodes" and kube-scheduler's InterPodAffinity.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from quorate.placement.filters import failures
from quorate.placement.filters.failures import NodeStatuses
from quorate.placement.filters.inter_pod.affinity_index import AffinityIndex
from quorate.placement.filters.inter_pod.pod_selectors import AffinityTerm, PodLabelSet, WeightedAffinityTerm
from quorate.placement.filters.inter_pod.topology_counts import DomainCounts
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.framework import Capacity
from quorate.placement.vectors import Vector

# How much a pod that requires others near is glad of one, where they had the choice.
WEIGHT_OF_REQUIRED: Final = 1


def filter_affinity(
    nodes: NodeColumns,
    affinity_index: AffinityIndex,
    required_affinity: tuple[AffinityTerm, ...],
    label_set: PodLabelSet,
    capacity: Capacity,
    statuses: NodeStatuses,
) -> None:
    """Where a domain lacks pods that all terms pick, unless the pod is the first of those."""
    if not required_affinity:
        return
    placed = ~nodes.vacant
    for term in required_affinity:
        placed &= nodes.label(term.topology_key).present()
    if not is_first(affinity_index, required_affinity, label_set, capacity):
        for domain in _domains(affinity_index, required_affinity, capacity):
            placed &= domain.at_nodes() > 0
    statuses.reject(~placed, failures.AFFINITY)


def is_first(
    affinity_index: AffinityIndex,
    required_affinity: tuple[AffinityTerm, ...],
    label_set: PodLabelSet,
    capacity: Capacity,
) -> bool:
    """Whether there is no pod in any domain that all terms pick, and they pick the pod itself."""
    selectors = tuple(term.selector for term in required_affinity)
    return affinity_index.matches(selectors, label_set) and not any(
        domain.total() for domain in _domains(affinity_index, required_affinity, capacity)
    )


def _domains(
    affinity_index: AffinityIndex, required_affinity: tuple[AffinityTerm, ...], capacity: Capacity
) -> list[DomainCounts]:
    wanted = affinity_index.count_matching(tuple(term.selector for term in required_affinity), capacity)
    return [wanted.by(key) for key in dict.fromkeys(term.topology_key for term in required_affinity)]


def filter_anti_affinity(
    affinity_index: AffinityIndex,
    required_anti_affinity: tuple[AffinityTerm, ...],
    capacity: Capacity,
    statuses: NodeStatuses,
) -> None:
    """Where a domain has pods that the pod must keep apart from."""
    for term in required_anti_affinity:
        unwanted = affinity_index.count_matching((term.selector,), capacity).by(term.topology_key)
        statuses.reject(unwanted.at_nodes() > 0, failures.ANTI_AFFINITY)


def filter_existing_anti_affinity(
    affinity_index: AffinityIndex, label_set: PodLabelSet, capacity: Capacity, statuses: NodeStatuses
) -> None:
    """Where a domain has pods that must keep apart from the pod."""
    for placed_term in affinity_index.placed_terms_matching(label_set):
        anti_affinity = placed_term.anti_affinity.at(capacity)
        if anti_affinity.by_node:
            forbidden = anti_affinity.by(placed_term.term.topology_key).at_nodes() > 0
            statuses.reject(forbidden, failures.ANTI_AFFINITY_OF_OTHERS)


def attraction(
    nodes: NodeColumns,
    affinity_index: AffinityIndex,
    preferred: Iterable[WeightedAffinityTerm],
    label_set: PodLabelSet,
    capacity: Capacity,
) -> Vector:
    """For each node the weights of what the pod prefers there, and of what pods there prefer, summed."""
    weight = np.zeros(nodes.size, np.int64)
    for wish in preferred:
        found = affinity_index.count_matching((wish.term.selector,), capacity).by(wish.term.topology_key)
        weight += wish.weight * found.at_nodes()
    for placed_term in affinity_index.placed_terms_matching(label_set):
        placed_weight = placed_term.preferred.at(capacity)
        if placed_weight.by_node:
            weight += placed_weight.by(placed_term.term.topology_key).at_nodes()
    return weight
