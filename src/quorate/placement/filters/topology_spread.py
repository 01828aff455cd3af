"""Filter and score by topology spread constraints.

They bound the skew, the difference of matching pods between topology domains.  Source: the Kubernetes page
"Pod Topology Spread Constraints" and kube-scheduler's plugin PodTopologySpread. Terminating pods do not
count.  Cluster-level default constraints are knowingly missing: they apply to the pods of a service, and a
batch pod belongs to none.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from quorate.api.kueue.topology import HOSTNAME
from quorate.placement import failures
from quorate.placement.failures import NodeStatuses
from quorate.placement.filters.inter_pod.affinity_index import AffinityIndex
from quorate.placement.filters.node_columns import Column, NodeColumns
from quorate.placement.filters.requirements import PodRequirements
from quorate.placement.framework import Capacity
from quorate.placement.vectors import Codes, Mask, Vector, np

UNLIMITED: Final = 2**31 - 1  # pods


@dataclass(frozen=True, slots=True)
class SpreadSkew:
    """The matching pods by topology domain of one constraint, and the skew that it allows.

    The skew is the number of matching pods in the domain, less the minimum of all domains.
    """

    column: Column[str]  # the domain of each node, by number
    counts: Vector  # by domain
    exists: Mask  # by domain: whether it counts for the minimum
    max_skew: int
    min_domains: int
    matches_itself: bool  # whether a pod with the constraint counts too

    @property
    def has_fixed_minimum(self) -> bool:
        """Return True if the minimum is 0 because there are fewer than ``min_domains``."""
        return int(np.count_nonzero(self.exists)) < max(self.min_domains, 1)

    def minimum(self) -> int:
        return 0 if self.has_fixed_minimum else int(self.counts[self.exists].min())

    def allowed(self) -> Vector:
        """Return the pods by which each domain may grow at this minimum; 0 or less: it takes none.

        ``UNLIMITED`` if the pods do not count.
        """
        left = self.max_skew + self.minimum() - self.counts
        return left if self.matches_itself else np.where(left < 0, 0, UNLIMITED)

    def reject(self, statuses: NodeStatuses) -> None:
        """Reject nodes on which the pod would make the skew too large."""
        statuses.reject(~self.column.present(), failures.TOPOLOGY_SPREAD_LABEL)
        closed = (self.allowed() <= 0).astype(np.int64)
        statuses.reject(self.column.by_node(closed) > 0, failures.TOPOLOGY_SPREAD)


def spread_skews(
    nodes: NodeColumns, index: AffinityIndex, requirements: PodRequirements
) -> Iterator[SpreadSkew]:
    """Return the skew of each required constraint."""
    constraints = requirements.required_spread
    keys = frozenset(constraint.topology_key for constraint in constraints)
    for constraint in constraints:
        counted = index.count_matching((constraint.selector,), Capacity.FUTURE_IDLE)
        domains = counted.by_domain(constraint.topology_key, requirements.node_inclusion(constraint, keys))
        yield SpreadSkew(
            nodes.label(constraint.topology_key),
            *domains.by_value(),
            constraint.max_skew,
            constraint.min_domains,
            index.matches((constraint.selector,), requirements.label_set),
        )


@dataclass(frozen=True, slots=True)
class _ConstraintCounts:
    """One preferred constraint: the matching pods in the domain of each node, and the domain."""

    counts: Vector
    codes: Codes | None  # None if each node is a domain
    max_skew: int

    def domains(self, nodes: Mask) -> int:
        """Return the number of domains that ``nodes`` are in."""
        return int(np.count_nonzero(nodes)) if self.codes is None else len(np.unique(self.codes[nodes]))

    def at(self, indexes: Vector) -> "_ConstraintCounts":
        codes = None if self.codes is None else self.codes[indexes]
        return _ConstraintCounts(self.counts[indexes], codes, self.max_skew)


@dataclass(frozen=True, slots=True)
class TopologySpreadScorer:
    """Raw scores by the constraints of a pod that are only preferred."""

    has_keys: Mask  # the nodes that have the topology keys of all constraints
    constraints: tuple[_ConstraintCounts, ...]

    def at(self, indexes: Vector) -> "TopologySpreadScorer":
        return TopologySpreadScorer(
            self.has_keys[indexes], tuple(constraint.at(indexes) for constraint in self.constraints)
        )

    def score(self, among: Mask) -> Vector:
        """Return raw scores: lower is better, -1 for nodes that lack a topology key.

        The weight of a pod grows with the number of domains that the nodes ``among`` are in, so that a
        constraint over many domains is not dominated by one over few.
        """
        scored = among & self.has_keys
        scores = np.full(len(among), 0.5)  # to round halves up
        for constraint in self.constraints:
            weight = math.log(constraint.domains(scored) + 2)
            scores += constraint.counts * weight + (constraint.max_skew - 1)
        return np.where(self.has_keys, np.floor(scores).astype(np.int64), -1)


def spread_scorer(
    nodes: NodeColumns, index: AffinityIndex, requirements: PodRequirements
) -> TopologySpreadScorer | None:
    """Return a scorer for the preferred constraints; None if there are none."""
    constraints = requirements.preferred_spread
    if not constraints:
        return None
    keys = frozenset(constraint.topology_key for constraint in constraints)
    has_keys = ~nodes.vacant
    counted = []
    for constraint in constraints:
        column = nodes.label(constraint.topology_key)
        counts = index.count_matching((constraint.selector,), Capacity.FUTURE_IDLE)
        has_keys &= column.present()
        if constraint.topology_key == HOSTNAME:
            counted.append(_ConstraintCounts(counts.at_nodes(), None, constraint.max_skew))
        else:
            inclusion = requirements.node_inclusion(constraint, keys)
            domains = counts.by_domain(constraint.topology_key, inclusion)
            counted.append(_ConstraintCounts(domains.at_nodes(), column.codes.copy(), constraint.max_skew))
    return TopologySpreadScorer(has_keys, tuple(counted))
