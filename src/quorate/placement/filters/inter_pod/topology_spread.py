"""Topology spread: pods that a selector picks shall be about equally many in each domain.

Source: the Kubernetes page "Pod Topology Spread Constraints" and kube-scheduler's PodTopologySpread.  Pods
about to end do not count.  Constraints that a cluster's administrator sets for all pods of a service are
knowingly missing: a batch pod belongs to none.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from quorate.placement.filters import failures
from quorate.placement.filters.failures import NodeStatuses
from quorate.placement.filters.inter_pod.affinity_index import AffinityIndex
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.filters.requirements import PodRequirements
from quorate.placement.framework import Capacity
from quorate.placement.vectors import Codes, Mask, Vector

HOSTNAME: Final = "kubernetes.io/hostname"


def filter_topology_spread(
    nodes: NodeColumns,
    affinity_index: AffinityIndex,
    requirements: PodRequirements,
    statuses: NodeStatuses,
) -> None:
    """Where the pod would make its domain exceed the emptiest one by more than a constraint allows."""
    for spread in requirements.spread:
        statuses.reject(~nodes.label(spread.topology_key).present(), failures.SPREAD_LABEL)
        domains = affinity_index.count_matching((spread.selector,), Capacity.FUTURE_IDLE).by(
            spread.topology_key, requirements.node_inclusion(spread, requirements.spread)
        )
        own = 1 if affinity_index.matches((spread.selector,), requirements.label_set) else 0
        highest = spread.max_skew + domains.least(spread.min_domains) - own
        statuses.reject(domains.at_nodes() > highest, failures.SPREAD)


@dataclass(frozen=True, slots=True)
class _Part:
    """One constraint: for each node the pods in its domain, and which domain that is."""

    counts: Vector
    codes: Codes | None  # None: each node is a domain
    max_skew: int

    def domains(self, nodes: Mask) -> int:
        """How many domains ``nodes`` are in."""
        return int(np.count_nonzero(nodes)) if self.codes is None else len(np.unique(self.codes[nodes]))

    def at(self, indexes: Vector) -> "_Part":
        codes = None if self.codes is None else self.codes[indexes]
        return _Part(self.counts[indexes], codes, self.max_skew)


@dataclass(frozen=True, slots=True)
class SpreadScorer:
    """How crowded each node's domains are, by constraints that are only preferred."""

    placed: Mask  # the nodes that are in a domain of each constraint
    parts: tuple[_Part, ...]

    def at(self, indexes: Vector) -> "SpreadScorer":
        return SpreadScorer(self.placed[indexes], tuple(part.at(indexes) for part in self.parts))

    def measure(self, among: Mask) -> Vector:
        """The fewer, the better; -1 for nodes outside of a constraint's domains.

        A pod counts the more, the more domains the nodes ``among`` are in, lest a constraint over many
        domains be drowned by one over few.
        """
        compared = among & self.placed
        crowd = np.full(len(among), 0.5)  # to round halves up
        for part in self.parts:
            crowd += part.counts * math.log(part.domains(compared) + 2) + (part.max_skew - 1)
        return np.where(self.placed, np.floor(crowd).astype(np.int64), -1)


def spread_scorer(
    nodes: NodeColumns, affinity_index: AffinityIndex, requirements: PodRequirements
) -> SpreadScorer | None:
    """How crowded nodes are by the constraints that ``requirements`` prefer to hold; None without any."""
    spreads = requirements.preferred_spread
    if not spreads:
        return None
    placed = ~nodes.vacant
    parts = []
    for spread in spreads:
        column = nodes.label(spread.topology_key)
        counted = affinity_index.count_matching((spread.selector,), Capacity.FUTURE_IDLE)
        placed &= column.present()
        if spread.topology_key == HOSTNAME:
            parts.append(_Part(counted.at_nodes(), None, spread.max_skew))
        else:
            domains = counted.by(spread.topology_key, requirements.node_inclusion(spread, spreads))
            parts.append(_Part(domains.at_nodes(), column.codes.copy(), spread.max_skew))
    return SpreadScorer(placed, tuple(parts))
