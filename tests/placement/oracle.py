"""Node selection by the specification, one node at a time, in plain Python with fractions."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import floor
from statistics import pstdev

from quorate.api.scheduler_configuration.plugins import BinpackArguments, NodeOrderArguments
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.framework import Capacity
from quorate.placement.scoring import SCORE_UNIT, Scoring
from quorate.placement.shapes import Shape


@dataclass
class OracleNode:
    name: str
    allocatable: Mapping[str, int]
    passes: bool = True
    node_affinity: int = 0  # weight of the preferred terms that match
    pods: list[tuple[Shape, AllocationState]] = field(default_factory=list)

    def amount(self, resource: str, *states: AllocationState) -> int:
        return sum(shape.amounts.get(resource, 0) for shape, state in self.pods if state in states)

    def idle(self, resource: str) -> int:
        return self.allocatable.get(resource, 0) - self.amount(
            resource, AllocationState.USED, AllocationState.RELEASING
        )

    def future_idle(self, resource: str) -> int:
        releasing, pipelined = (
            self.amount(resource, AllocationState.RELEASING),
            self.amount(resource, AllocationState.PIPELINED),
        )
        return self.idle(resource) + releasing - pipelined

    def overcommitted(self) -> set[str]:
        """Return the resources of which pods use more than the node has."""
        resources = {*self.allocatable, *(name for shape, _ in self.pods for name in shape.amounts)}
        return {resource for resource in resources if self.idle(resource) < 0}

    def capacity(self, shape: Shape) -> Capacity | None:
        wanted = [(resource, amount) for resource, amount in shape.amounts.items() if amount]
        if not self.passes:
            return None
        if any(amount > self.future_idle(resource) for resource, amount in wanted):
            return None
        fits_idle = all(amount <= self.idle(resource) for resource, amount in wanted)
        return Capacity.IDLE if fits_idle else Capacity.FUTURE_IDLE

    def resource_scores(self, scoring: Scoring, shape: Shape) -> int:
        score = 0
        if scoring.node_order is not None:
            score += SCORE_UNIT * self._node_order(scoring.node_order, shape)
        if scoring.binpack is not None:
            score += self._binpack(scoring.binpack, shape)
        return score

    def _node_order(self, weights: NodeOrderArguments, shape: Shape) -> int:
        least, most, shares = [], [], []
        for at, resource in enumerate(("cpu", "memory")):
            cap = self.allocatable.get(resource, 0)
            if not cap:
                continue
            wanted = sum(other.non_zero_request[at] for other in (shape, *(pod for pod, _ in self.pods)))
            least.append(floor(Fraction(max(cap - wanted, 0) * 100, cap)))
            most.append(floor(Fraction(min(wanted, cap) * 100, cap)))
            taken = self.amount(resource, *AllocationState) + shape.amounts.get(resource, 0)
            shares.append(min(Fraction(1), Fraction(taken, cap)))
        score = weights.least_requested * (sum(least) // max(len(least), 1))
        score += weights.most_requested * (sum(most) // max(len(most), 1))
        for device in weights.balanced_devices:
            wanted = shape.amounts.get(device, 0)
            if wanted and (cap := self.allocatable.get(device, 0)):
                shares.append(min(Fraction(1), Fraction(self.amount(device, *AllocationState) + wanted, cap)))
        if not shape.best_effort:
            deviation = abs(shares[0] - shares[1]) / 2 if len(shares) == 2 else _deviation(shares)
            score += weights.balanced_resource * floor(100 * (1 - deviation))
        return score

    def _binpack(self, binpack: BinpackArguments, shape: Shape) -> int:
        total = weights = 0
        for resource, weight in binpack.resources.items():
            request = shape.amounts.get(resource, 0)
            if not request or not weight:
                continue
            weights += weight
            cap = self.allocatable.get(resource, 0)
            if not cap:
                continue
            wanted = self.amount(resource, AllocationState.USED, AllocationState.RELEASING) + request
            if wanted > cap:
                return 0
            total += weight * floor(Fraction(wanted, cap) * 100 * SCORE_UNIT)
        return total // weights * binpack.weight if weights else 0


def _deviation(shares: list[Fraction]) -> float:
    return pstdev(float(share) for share in shares) if shares else 0.0


def oracle_best(nodes: list[OracleNode], scoring: Scoring, shape: Shape) -> tuple[str, Capacity] | None:
    for capacity in Capacity:
        candidates = [node for node in nodes if node.capacity(shape) is capacity]
        if candidates:
            most = max(node.node_affinity for node in candidates)
            order = scoring.node_order

            def total_score(
                node: OracleNode, most: int = most, order: NodeOrderArguments | None = order
            ) -> int:
                preferred = 100 * node.node_affinity // most if most else 0
                weight = order.node_affinity if order is not None else 0
                return node.resource_scores(scoring, shape) + SCORE_UNIT * weight * preferred

            return min(candidates, key=lambda node: (-total_score(node), node.name)).name, capacity
    return None
