"""Why no node fits a pod, counted over all nodes, as kube-scheduler's diagnosis."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from quorate.placement.cluster import Cluster
from quorate.placement.framework import Capacity, FilterResult
from quorate.placement.scoring import quotient
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Vector

# The resolution of shortfalls relative to the request, by which the nearest node is found.
_PARTS: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class FilteredNodes:
    """Nodes that a filter other than resource fit rejects."""

    reason: str
    nodes: int


@dataclass(frozen=True, slots=True)
class InsufficientResource:
    """A resource with too little future idle capacity on nodes that pass the filters."""

    resource: str
    nodes: int  # nodes with too little
    need: int
    by: int  # what the nearest node lacks; 0 if it lacks only other resources
    at_most: int  # the largest allocatable amount of the nodes that pass the filters


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """No node fits the pod.

    The nearest node has the smallest shortfall relative to the request, measured by the resource with the
    largest; of equal ones it is the first by name.
    """

    nodes: int
    filtered: tuple[FilteredNodes, ...]  # by descending node count, then by reason
    insufficient: tuple[InsufficientResource, ...]  # in the same order; a node may lack several resources
    overcommitted: int  # nodes that use more than their allocatable amounts, and take no pod
    nearest_node: str  # "" if no node passes the filters
    feasible_when_empty: int  # nodes that fit the pod if other pods end, or other objects change

    @property
    def never_fits(self) -> bool:
        """Whether neither preemption nor waiting helps: the pod needs nodes that do not exist."""
        return self.feasible_when_empty == 0


def diagnose(cluster: Cluster, shape: Shape, filter_result: FilterResult, indexes: Vector) -> Diagnosis:
    """Return why no node at ``indexes`` fits pods of ``shape``.

    ``indexes`` are in order of name.
    """
    existing = np.zeros(cluster.size, np.bool_)
    existing[indexes] = True
    passing = filter_result.passing(Capacity.FUTURE_IDLE)
    failures = filter_result.failure_counts(Capacity.FUTURE_IDLE, existing & ~passing)
    passed = indexes[passing[indexes]]
    usable = passed[(cluster.used[:, passed] <= cluster.allocatable[:, passed]).all(axis=0)]
    request = {resource: amount for resource, amount in sorted(shape.amounts.items()) if amount}
    shortfalls = {
        resource: _shortfall(cluster, resource, amount, usable) for resource, amount in request.items()
    }
    nearest = _nearest(request, shortfalls)
    insufficient = [
        InsufficientResource(
            resource=resource,
            nodes=int(np.count_nonzero(shortfall)),
            need=request[resource],
            by=int(shortfall[nearest]),
            at_most=int(cluster.allocatable[cluster.row(resource), passed].max()),
        )
        for resource, shortfall in shortfalls.items()
        if shortfall.any()
    ]
    resolvable = indexes[~filter_result.permanent[indexes]]
    return Diagnosis(
        nodes=len(indexes),
        filtered=tuple(FilteredNodes(failure.reason, count) for failure, count in failures),
        insufficient=tuple(sorted(insufficient, key=lambda one: (-one.nodes, one.resource))),
        overcommitted=len(passed) - len(usable),
        nearest_node=cluster.name(int(usable[nearest])) if len(usable) else "",
        feasible_when_empty=_feasible_when_empty(cluster, request, resolvable),
    )


def _shortfall(cluster: Cluster, resource: str, amount: int, at: Vector) -> Vector:
    row = cluster.row(resource)
    idle = cluster.allocatable[row, at] - cluster.used[row, at]
    future_idle = idle + cluster.releasing[row, at] - cluster.pipelined[row, at]
    shortfall: Vector = np.clip(amount - future_idle, 0, amount)
    return shortfall


def _nearest(request: Mapping[str, int], shortfalls: Mapping[str, Vector]) -> int:
    """Return the place in the vectors of the node with the smallest largest relative shortfall."""
    parts = [
        quotient(shortfall, np.full_like(shortfall, request[name]), _PARTS)
        for name, shortfall in shortfalls.items()
    ]
    largest = np.max(parts, axis=0) if parts else np.zeros(0, np.int64)
    return int(largest.argmin()) if len(largest) else 0


def _feasible_when_empty(cluster: Cluster, request: Mapping[str, int], at: Vector) -> int:
    sufficient = np.ones(len(at), np.bool_)
    for resource, amount in request.items():
        sufficient &= cluster.allocatable[cluster.row(resource), at] >= amount
    return int(np.count_nonzero(sufficient))
