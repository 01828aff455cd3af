"""Why no node takes a pod, counted over all of them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from quorate.placement.cluster import Cluster
from quorate.placement.framework import Capacity, FilterResult
from quorate.placement.scoring import quotient
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Vector


@dataclass(frozen=True, slots=True)
class FilteredNodes:
    """Nodes that do not take the pod whatever room they have."""

    reason: str
    nodes: int


@dataclass(frozen=True, slots=True)
class InsufficientResource:
    """A resource of which nodes that would take the pod have too little, releasing pods counted as gone."""

    resource: str
    nodes: int  # how many have too little of it
    need: int
    by: int  # what the nearest node lacks; 0 when that one lacks something else
    at_most: int  # the most any of the nodes would have if it were empty


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """No node takes the pod.

    The nearest node is the one that lacks the smallest part of what the pod asks for, of the resource that it
    lacks most of; of equal ones the first by name.
    """

    nodes: int
    filtered: tuple[FilteredNodes, ...]  # the most frequent reason first, then in the order of their wording
    insufficient: tuple[InsufficientResource, ...]  # likewise; a node may be short of several resources
    overcommitted: int  # nodes that gave away more than they have by now, and take nobody
    nearest_node: str  # "" when no node would take the pod
    feasible_when_empty: (
        int  # nodes that could hold the pod if others left, or something else changed in time
    )

    @property
    def never_fits(self) -> bool:
        """Whether no eviction and no waiting helps: it takes other nodes."""
        return self.feasible_when_empty == 0


# Fine enough to tell which node is nearest.
_PARTS: Final = 1_000_000


def diagnose(cluster: Cluster, shape: Shape, filter_result: FilterResult, indexes: Vector) -> Diagnosis:
    """What stands between pods of ``shape`` and the nodes at ``indexes``, which are in the order of names."""
    known = np.zeros(cluster.size, np.bool_)
    known[indexes] = True
    passing = filter_result.passing(Capacity.FUTURE_IDLE)
    failures = filter_result.failures(Capacity.FUTURE_IDLE, known & ~passing)
    open_ = indexes[passing[indexes]]
    within_allocatable = open_[(cluster.used[:, open_] <= cluster.allocatable[:, open_]).all(axis=0)]
    asked = {resource: amount for resource, amount in sorted(shape.amounts.items()) if amount}
    lacks = {
        resource: _lack(cluster, resource, amount, within_allocatable) for resource, amount in asked.items()
    }
    nearest_node = _nearest(asked, lacks)
    insufficient = [
        InsufficientResource(
            resource=resource,
            nodes=int(np.count_nonzero(lack)),
            need=asked[resource],
            by=int(lack[nearest_node]),
            at_most=int(cluster.allocatable[cluster.row(resource), open_].max()),
        )
        for resource, lack in lacks.items()
        if lack.any()
    ]
    thinkable = indexes[~filter_result.permanent[indexes]]
    return Diagnosis(
        nodes=len(indexes),
        filtered=tuple(FilteredNodes(failure.reason, count) for failure, count in failures),
        insufficient=tuple(sorted(insufficient, key=lambda one: (-one.nodes, one.resource))),
        overcommitted=len(open_) - len(within_allocatable),
        nearest_node=cluster.name(int(within_allocatable[nearest_node])) if len(within_allocatable) else "",
        feasible_when_empty=_possible(cluster, asked, thinkable),
    )


def _lack(cluster: Cluster, resource: str, amount: int, at: Vector) -> Vector:
    row = cluster.row(resource)
    idle = cluster.allocatable[row, at] - cluster.used[row, at]
    future = idle + cluster.releasing[row, at] - cluster.pipelined[row, at]
    lack: Vector = np.clip(amount - future, 0, amount)
    return lack


def _nearest(asked: Mapping[str, int], lacks: Mapping[str, Vector]) -> int:
    """Which of the nodes lacks least, by the part of what is asked for that it lacks most of."""
    parts = [quotient(lack, np.full_like(lack, asked[name]), _PARTS) for name, lack in lacks.items()]
    worst = np.max(parts, axis=0) if parts else np.zeros(0, np.int64)
    return int(worst.argmin()) if len(worst) else 0


def _possible(cluster: Cluster, asked: Mapping[str, int], at: Vector) -> int:
    enough = np.ones(len(at), np.bool_)
    for resource, amount in asked.items():
        enough &= cluster.allocatable[cluster.row(resource), at] >= amount
    return int(np.count_nonzero(enough))
