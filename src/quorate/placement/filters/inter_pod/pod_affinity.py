"""Filter and score by pod affinity and anti-affinity, required and preferred.

Both directions count: the terms of the pod, and the terms of placed pods that match it.

Source: the Kubernetes page "Assigning Pods to Nodes" and kube-scheduler's plugin InterPodAffinity.
"""

from collections.abc import Iterable
from typing import Final

from quorate.placement import failures
from quorate.placement.failures import NodeStatuses
from quorate.placement.filters.inter_pod.affinity_index import AffinityIndex
from quorate.placement.filters.inter_pod.pod_selectors import AffinityTerm, PodLabelSet, WeightedAffinityTerm
from quorate.placement.filters.inter_pod.topology_counts import DomainCounts
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.framework import Capacity
from quorate.placement.vectors import Vector, np

# The score that a required affinity term of a placed pod adds for a pod that it matches.
HARD_AFFINITY_WEIGHT: Final = 1


def filter_affinity(
    nodes: NodeColumns,
    index: AffinityIndex,
    terms: tuple[AffinityTerm, ...],
    label_set: PodLabelSet,
    capacity: Capacity,
    statuses: NodeStatuses,
) -> None:
    """Reject nodes without a pod in their domains that all ``terms`` match.

    The first pod of a group that matches its own terms passes.
    """
    if not terms:
        return
    passing = ~nodes.vacant
    for term in terms:
        passing &= nodes.label(term.topology_key).present()
    if not is_first_of_group(index, terms, label_set, capacity):
        for domains in _domains(index, terms, capacity):
            passing &= domains.at_nodes() > 0
    statuses.reject(~passing, failures.AFFINITY)


def is_first_of_group(
    index: AffinityIndex, terms: tuple[AffinityTerm, ...], label_set: PodLabelSet, capacity: Capacity
) -> bool:
    """Return True if no placed pod matches all ``terms`` in any domain, and the pod itself does."""
    selectors = tuple(term.selector for term in terms)
    return index.matches(selectors, label_set) and not any(
        domains.total() for domains in _domains(index, terms, capacity)
    )


def _domains(index: AffinityIndex, terms: tuple[AffinityTerm, ...], capacity: Capacity) -> list[DomainCounts]:
    counts = index.count_matching(tuple(term.selector for term in terms), capacity)
    return [counts.by_domain(key) for key in dict.fromkeys(term.topology_key for term in terms)]


def filter_anti_affinity(
    index: AffinityIndex, terms: tuple[AffinityTerm, ...], capacity: Capacity, statuses: NodeStatuses
) -> None:
    """Reject nodes in the domain of a placed pod that an anti-affinity term matches."""
    for term in terms:
        domains = index.count_matching((term.selector,), capacity).by_domain(term.topology_key)
        statuses.reject(domains.at_nodes() > 0, failures.ANTI_AFFINITY)


def filter_existing_anti_affinity(
    index: AffinityIndex, label_set: PodLabelSet, capacity: Capacity, statuses: NodeStatuses
) -> None:
    """Reject nodes in the domain of a placed pod with anti-affinity to this pod."""
    for placed_term in index.placed_terms_matching(label_set):
        counts = placed_term.anti_affinity.at(capacity)
        if counts.by_node:
            domains = counts.by_domain(placed_term.term.topology_key)
            statuses.reject(domains.at_nodes() > 0, failures.EXISTING_ANTI_AFFINITY)


def affinity_weights(
    nodes: NodeColumns,
    index: AffinityIndex,
    preferred: Iterable[WeightedAffinityTerm],
    label_set: PodLabelSet,
    capacity: Capacity,
) -> Vector:
    """Return for each node the sum of the weights of matching terms.

    The terms are the pod's own terms, and the terms of placed pods that match the pod.
    """
    weights = np.zeros(nodes.size, np.int64)
    for weighted in preferred:
        counts = index.count_matching((weighted.term.selector,), capacity)
        weights += weighted.weight * counts.by_domain(weighted.term.topology_key).at_nodes()
    for placed_term in index.placed_terms_matching(label_set):
        sums = placed_term.weight.at(capacity)
        if sums.by_node:
            weights += sums.by_domain(placed_term.term.topology_key).at_nodes()
    return weights
