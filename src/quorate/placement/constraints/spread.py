"""Topology spread: pods that a selector picks shall be about equally many in each domain.

Source: the Kubernetes page "Pod Topology Spread Constraints" and kube-scheduler's PodTopologySpread.  Pods
about to end do not count.  Constraints that a cluster's administrator sets for all pods of a service are
knowingly missing: a batch pod belongs to none.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from quorate.placement.constraints import objections
from quorate.placement.constraints.demands import Demands
from quorate.placement.constraints.neighbours import Neighbours
from quorate.placement.constraints.nodes import Codes, Counts, NodeFacts
from quorate.placement.constraints.objections import Mask, Verdicts
from quorate.placement.stance import Moment, Vector

HOSTNAME: Final = "kubernetes.io/hostname"


def object_to_skew(
    nodes: NodeFacts,
    neighbours: Neighbours,
    demands: Demands,
    verdicts: Verdicts,
) -> None:
    """Where the pod would make its domain exceed the emptiest one by more than a constraint allows."""
    for spread in demands.spread:
        verdicts.object_to(~nodes.label(spread.topology_key).present(), objections.SPREAD_LABEL)
        domains = neighbours.survey((spread.pick,), Moment.LATER).by(
            spread.topology_key, demands.inclusion(spread, demands.spread)
        )
        own = 1 if neighbours.picks((spread.pick,), demands.kin) else 0
        highest = spread.max_skew + domains.least(spread.min_domains) - own
        verdicts.object_to(domains.at_nodes() > highest, objections.SPREAD)


@dataclass(frozen=True, slots=True)
class _Part:
    """One constraint: for each node the pods in its domain, and which domain that is."""

    counts: Counts
    codes: Codes | None  # None: each node is a domain
    max_skew: int

    def domains(self, nodes: Mask) -> int:
        """How many domains ``nodes`` are in."""
        return int(np.count_nonzero(nodes)) if self.codes is None else len(np.unique(self.codes[nodes]))

    def at(self, indexes: Vector) -> "_Part":
        codes = None if self.codes is None else self.codes[indexes]
        return _Part(self.counts[indexes], codes, self.max_skew)


@dataclass(frozen=True, slots=True)
class Crowding:
    """How crowded each node's domains are, by constraints that are only preferred."""

    placed: Mask  # the nodes that are in a domain of each constraint
    parts: tuple[_Part, ...]

    def at(self, indexes: Vector) -> "Crowding":
        return Crowding(self.placed[indexes], tuple(part.at(indexes) for part in self.parts))

    def measure(self, among: Mask) -> Counts:
        """The fewer, the better; -1 for nodes outside of a constraint's domains.

        A pod counts the more, the more domains the nodes ``among`` are in, lest a constraint over many
        domains be drowned by one over few.
        """
        compared = among & self.placed
        crowd = np.full(len(among), 0.5)  # to round halves up
        for part in self.parts:
            crowd += part.counts * math.log(part.domains(compared) + 2) + (part.max_skew - 1)
        return np.where(self.placed, np.floor(crowd).astype(np.int64), -1)


def crowding(nodes: NodeFacts, neighbours: Neighbours, demands: Demands) -> Crowding | None:
    """How crowded nodes are by the constraints that ``demands`` prefer to hold; None without any."""
    spreads = demands.preferred_spread
    if not spreads:
        return None
    placed = ~nodes.vacant
    parts = []
    for spread in spreads:
        column = nodes.label(spread.topology_key)
        survey = neighbours.survey((spread.pick,), Moment.LATER)
        placed &= column.present()
        if spread.topology_key == HOSTNAME:
            parts.append(_Part(survey.at_nodes(), None, spread.max_skew))
        else:
            domains = survey.by(spread.topology_key, demands.inclusion(spread, spreads))
            parts.append(_Part(domains.at_nodes(), column.codes.copy(), spread.max_skew))
    return Crowding(placed, tuple(parts))
