"""How many pods and slices each domain can hold.

Leaves are counted first, from their free capacity and the constraints of the pods; every other domain has the
sums of its children.  All numbers of one level are in one vector.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np

from quorate.placement.filters.node_affinity import match_any_term, matching_nodes, preferred_weights
from quorate.placement.filters.taints import first_untolerated
from quorate.placement.topology.request import PodSetRequest, SearchParameters
from quorate.placement.topology.tree import DomainTree
from quorate.placement.vectors import Mask, Vector

_MANY: Final = 2**31 - 1  # pods that request nothing have no limit; Kueue counts in int32


class Exclusions(msgspec.Struct):
    """Why leaves hold no pod: the number of leaves by reason, as the messages name it."""

    leaves: int = 0
    by_reason: Counter[str] = msgspec.field(default_factory=Counter)


class LevelCounts(msgspec.Struct):
    """What the domains of one level can hold; changed while the search assigns pods.

    ``pods_with_leader`` and ``slices_with_leader`` are what fits beside a leader, if the domain can take one.
    """

    pods: Vector
    pods_with_leader: Vector
    leaders: Vector  # 1 if the domain can take the leader
    slices: Vector
    slices_with_leader: Vector
    scores: Vector  # of preferred node affinity


class Capacity(msgspec.Struct, frozen=True):
    """The free capacity to count with: that of the tree less ``assumed``."""

    tree: DomainTree
    # By leaf: what pod sets of the same workload that were placed before will use.
    assumed: Mapping[int, Mapping[str, int]] = {}
    is_empty: bool = False  # as if no other pods had been placed in the topology

    def remaining(self, resource: str) -> Vector:
        remaining = self.tree.remaining(resource, empty=self.is_empty)
        for leaf, amounts in self.assumed.items():
            remaining[leaf] -= amounts.get(resource, 0)
        return remaining


def count_pods(
    capacity: Capacity,
    workers: PodSetRequest,
    leader: PodSetRequest | None,
    parameters: SearchParameters,
    within: slice | None,
) -> tuple[list[LevelCounts], Exclusions]:
    """Return the counts of each level, and why leaves were excluded.

    ``within``: only these leaves may be used.
    """
    tree = capacity.tree
    exclusions = Exclusions(tree.leaf_count)
    accepted = accepted_leaves(tree, workers, exclusions)
    if within is not None:
        inside = np.zeros(tree.leaf_count, np.bool_)
        inside[within] = True
        _exclude(exclusions, "topologyDomain", accepted & ~inside)
        accepted &= inside
    leaves = _leaf_counts(capacity, workers, leader, accepted, exclusions)
    if workers.preferred_affinity and tree.has_hosts:
        leaves.scores = preferred_weights(tree.hosts, workers.preferred_affinity)[tree.columns] * accepted
    return count_domains(tree, leaves, parameters), exclusions


def count_domains(tree: DomainTree, leaves: LevelCounts, parameters: SearchParameters) -> list[LevelCounts]:
    """Return the counts of each level that follow from those of the leaves."""
    counts = [leaves]
    for level in range(len(tree.levels) - 1, -1, -1):
        if level == parameters.slice_level:
            counts[0].slices = counts[0].pods // parameters.slice_size
            counts[0].slices_with_leader = counts[0].pods_with_leader // parameters.slice_size
        if level:
            counts.insert(0, _parent_counts(tree, level, counts[0], parameters))
    return counts


def accepted_leaves(tree: DomainTree, pods: PodSetRequest, exclusions: Exclusions) -> Mask:
    """Return the leaves with taints and labels that accept the pods; exclude each other one once."""
    accepted = np.ones(tree.leaf_count, np.bool_)
    if not tree.has_hosts:
        return accepted
    taints = tree.hosts.taints
    rejecting = [first_untolerated(each, pods.tolerations) for each in taints.values]
    for taint in dict.fromkeys(each for each in rejecting if each is not None):
        having = [each for each, first in zip(taints.values, rejecting, strict=True) if first == taint]
        tainted = taints.in_values(having)[tree.columns]
        value = f"={taint.value}" if taint.value else ""
        _exclude(exclusions, f'taint "{taint.key}{value}:{taint.effect}"', tainted)
        accepted &= ~tainted
    if pods.node_selector:
        selected = matching_nodes(tree.hosts, pods.node_selector.items(), None)[tree.columns]
        _exclude(exclusions, "nodeSelector", accepted & ~selected)
        accepted &= selected
    if pods.affinity is not None:
        matching = match_any_term(tree.hosts, pods.affinity.node_selector_terms)[tree.columns]
        _exclude(exclusions, "affinity", accepted & ~matching)
        accepted &= matching
    return accepted


def _exclude(exclusions: Exclusions, reason: str, leaves: Mask) -> None:
    if number := int(np.count_nonzero(leaves)):
        exclusions.by_reason[reason] += number


def _leaf_counts(
    capacity: Capacity,
    workers: PodSetRequest,
    leader: PodSetRequest | None,
    accepted: Mask,
    exclusions: Exclusions,
) -> LevelCounts:
    resources = sorted({*workers.per_pod, *(leader.per_pod if leader is not None else ())})
    remaining = {resource: capacity.remaining(resource) for resource in resources}
    pods, limiting = fitting_pods(remaining, workers.per_pod, accepted)
    if workers.limits is not None:
        _exclude(exclusions, "pod constraints", accepted & (pods > 0) & (workers.limits == 0))
        pods = np.minimum(pods, workers.limits)
        limiting = np.where(workers.limits == 0, -1, limiting)
    for number, resource in enumerate(sorted(workers.per_pod)):
        _exclude(exclusions, f'resource "{resource}"', accepted & (pods == 0) & (limiting == number))
    leaders = np.zeros(len(pods), np.int64)
    pods_with_leader = pods
    if leader is not None:
        one, _ = fitting_pods(remaining, leader.per_pod, accepted)
        leaders = np.minimum(one, 1)
        beside = {
            resource: amounts - leaders * leader.per_pod.get(resource, 0)
            for resource, amounts in remaining.items()
        }
        pods_with_leader, _ = fitting_pods(beside, workers.per_pod, accepted)
        if workers.limits is not None:
            pods_with_leader = np.minimum(pods_with_leader, workers.limits)
    nothing = np.zeros(len(pods), np.int64)
    return LevelCounts(pods, pods_with_leader.copy(), leaders, nothing, nothing.copy(), nothing.copy())


def fitting_pods(
    remaining: Mapping[str, Vector], per_pod: Mapping[str, int], accepted: Mask
) -> tuple[Vector, Vector]:
    """Return how many pods fit in each leaf, and the index of the limiting resource in name order."""
    fitting = np.where(accepted, _MANY, 0)
    limiting = np.full(len(fitting), -1, np.int64)
    for number, resource in enumerate(sorted(per_pod)):
        if per_pod[resource] > 0:
            count = np.maximum(remaining[resource] // per_pod[resource], 0)
            limiting[count < fitting] = number
            fitting = np.minimum(fitting, count)
    return fitting, limiting


def _parent_counts(
    tree: DomainTree, level: int, below: LevelCounts, parameters: SearchParameters
) -> LevelCounts:
    """Return the counts of the parents of the domains of ``level``."""
    first = tree.first_child[level - 1][:-1]
    size = parameters.inner_sizes.get(level, 1)
    pods, beside = below.pods // size * size, below.pods_with_leader // size * size
    leaders = np.maximum.reduceat(below.leaders, first) if len(first) else below.leaders
    takes_leader = below.leaders > 0 if parameters.has_leader else np.ones(len(below.leaders), np.bool_)

    def with_leader(all_: Vector, beside_leader: Vector) -> tuple[Vector, Vector]:
        """Return the sums, and those less the smallest loss in a child that takes the leader."""
        sums = np.add.reduceat(all_, first) if len(first) else all_
        losses = np.where(takes_leader, all_ - beside_leader, _MANY)
        least = np.minimum.reduceat(losses, first) if len(first) else losses
        return sums, np.where(least == _MANY, 0, sums - least)

    sums, sums_with_leader = with_leader(pods, beside)
    slices, slices_with_leader = with_leader(below.slices, below.slices_with_leader)
    scores = np.add.reduceat(below.scores, first) if len(first) else below.scores
    return LevelCounts(sums, sums_with_leader, leaders, slices, slices_with_leader, scores)
