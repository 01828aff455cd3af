"""Why no node fits a pod, counted over all nodes, as kube-scheduler's diagnosis.

Many gangs wait for long, of many shapes, and each of them is diagnosed whenever the nodes have changed.  So a
diagnosis reads the nodes in groups: those that pass the same filters and have equal amounts.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import count
from typing import Final
from weakref import WeakKeyDictionary

import numpy as np

from quorate.placement.amount_groups import AmountGroups
from quorate.placement.cluster import Cluster
from quorate.placement.framework import Capacity, FilterResult
from quorate.placement.name_order import NameOrder
from quorate.placement.scoring import quotient
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Matrix, Vector

# The resolution of shortfalls relative to the request, by which the nearest node is found.
_PARTS: Final = 1_000_000
# Retained groups of nodes by filter result, each with some 20 bytes per node.
_MAX_FILTER_RESULTS: Final = 64


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


class Diagnoses:
    """The diagnoses of shapes, each retained until the nodes change."""

    def __init__(self, cluster: Cluster, names: NameOrder) -> None:
        self._cluster = cluster
        self._names = names
        self._groups = AmountGroups(cluster)
        self._passing: dict[Hashable, _PassingNodes] = {}  # by ``failures_key``
        # Of the groups, of the order of names and of the rows, when ``_passing`` was computed.
        self._versions = 0, 0, 0
        self._serials = count()
        self._retained: WeakKeyDictionary[Shape, _Retained] = WeakKeyDictionary()

    def refusal(self, shape: Shape, filter_result: FilterResult) -> Diagnosis | None:
        """Return why no node fits pods of ``shape``; None if one does at future idle capacity."""
        passing = self._passing_nodes(filter_result)
        retained = self._retained.get(shape)
        if retained is None or retained.serial != passing.serial:
            comparison = _compare(self._cluster, shape, passing)
            diagnosis = None if comparison.fits else comparison.diagnosis()
            retained = self._retained[shape] = _Retained(passing.serial, diagnosis)
        return retained.diagnosis

    def diagnose(self, shape: Shape, filter_result: FilterResult) -> Diagnosis:
        """Return what keeps pods of ``shape`` off the nodes, even if it fits one."""
        refusal = self.refusal(shape, filter_result)
        return refusal or _compare(self._cluster, shape, self._passing_nodes(filter_result)).diagnosis()

    def _passing_nodes(self, filter_result: FilterResult) -> "_PassingNodes":
        self._names.refresh()
        self._groups.refresh()
        versions = self._groups.version, self._names.version, self._cluster.rows_version
        if versions != self._versions or len(self._passing) > _MAX_FILTER_RESULTS:
            self._versions = versions
            self._passing.clear()
        key = filter_result.failures_key
        passing = self._passing.get(key)
        if passing is None:
            passing = self._passing[key] = _passing_nodes(
                next(self._serials), self._groups, self._names.indexes, filter_result
            )
        return passing


@dataclass(frozen=True, slots=True)
class _Retained:
    """The result for one shape."""

    serial: int  # of the nodes that it was compared with
    diagnosis: Diagnosis | None  # None if it fits


@dataclass(frozen=True, slots=True)
class _PassingNodes:
    """The nodes that pass one filter result, by group; groups without such a node are left out."""

    serial: int
    nodes: int  # all nodes
    filtered: tuple[FilteredNodes, ...]
    overcommitted: int
    # The nodes that use no more than their allocatable amounts.
    indexes: Vector  # in order of name
    group_of: Vector  # by place in ``indexes``
    counts: Vector  # by group
    future_idle: Matrix
    # The nodes that pass, and all that no filter rejects for good.
    at_most: Vector  # by row: the largest allocatable amount
    allocatable: Matrix  # by group
    allocatable_counts: Vector


def _passing_nodes(
    serial: int, groups: AmountGroups, indexes: Vector, filter_result: FilterResult
) -> _PassingNodes:
    """Return the nodes of ``indexes``, which are in order of name, that pass ``filter_result``."""
    existing = np.zeros(len(groups.group_of), np.bool_)
    existing[indexes] = True
    passing = filter_result.passing(Capacity.FUTURE_IDLE)
    failures = filter_result.failure_counts(Capacity.FUTURE_IDLE, existing & ~passing)
    passed = indexes[passing[indexes]]
    passed_groups = groups.group_of[passed]
    usable = ~groups.overcommitted[passed_groups]
    counts = np.bincount(passed_groups[usable], minlength=len(groups.overcommitted))
    used = np.flatnonzero(counts)
    numbers = np.zeros(len(counts), np.int64)
    numbers[used] = np.arange(len(used))
    resolvable = np.bincount(groups.group_of[indexes[~filter_result.permanent[indexes]]])
    resolvable_groups = np.flatnonzero(resolvable)
    return _PassingNodes(
        serial=serial,
        nodes=len(indexes),
        filtered=tuple(FilteredNodes(failure.reason, count) for failure, count in failures),
        overcommitted=len(passed) - int(np.count_nonzero(usable)),
        indexes=passed[usable],
        group_of=numbers[passed_groups[usable]],
        counts=counts[used],
        future_idle=groups.future_idle[:, used],
        at_most=groups.allocatable[:, np.flatnonzero(np.bincount(passed_groups))].max(axis=1, initial=0),
        allocatable=groups.allocatable[:, resolvable_groups],
        allocatable_counts=resolvable[resolvable_groups],
    )


@dataclass(frozen=True, slots=True)
class _Comparison:
    """The request of one shape, compared with the nodes that pass."""

    cluster: Cluster
    passing: _PassingNodes
    need: dict[str, int]
    amounts: Matrix  # the same, one row per resource
    rows: list[int]
    shortfalls: Matrix  # by resource and group

    @property
    def fits(self) -> bool:
        """Whether any node has all that is needed at future idle capacity."""
        return bool((self.shortfalls == 0).all(axis=0).any())

    def diagnosis(self) -> Diagnosis:
        passing, amounts = self.passing, self.amounts
        by, name = self.amounts[:, 0], ""
        if len(passing.indexes):
            nearest = self._nearest()
            by = self.shortfalls[:, passing.group_of[nearest]]
            name = self.cluster.name(int(passing.indexes[nearest]))
        short = (self.shortfalls > 0) @ passing.counts
        at_most = passing.at_most[self.rows]
        insufficient = [
            InsufficientResource(resource, nodes, need, by=shortfall, at_most=most)
            for (resource, need), nodes, shortfall, most in zip(
                self.need.items(), short.tolist(), by.tolist(), at_most.tolist(), strict=True
            )
            if nodes
        ]
        sufficient = (passing.allocatable[self.rows] >= amounts).all(axis=0)
        return Diagnosis(
            nodes=passing.nodes,
            filtered=passing.filtered,
            insufficient=tuple(sorted(insufficient, key=lambda one: (-one.nodes, one.resource))),
            overcommitted=passing.overcommitted,
            nearest_node=name,
            feasible_when_empty=int(passing.allocatable_counts[sufficient].sum()),
        )

    def _nearest(self) -> int:
        """Return the place of the node with the smallest largest relative shortfall."""
        if not self.rows:
            return 0
        largest = quotient(self.shortfalls, self.amounts, _PARTS).max(axis=0)
        nearest = largest == largest.min()
        return int(nearest[self.passing.group_of].argmax())


def _compare(cluster: Cluster, shape: Shape, passing: _PassingNodes) -> _Comparison:
    need = {resource: amount for resource, amount in sorted(shape.amounts.items()) if amount}
    rows = [cluster.row(resource) for resource in need]
    amounts = np.array(list(need.values()), np.int64)[:, None]
    shortfalls = np.minimum(np.maximum(amounts - passing.future_idle[rows], 0), amounts)
    return _Comparison(cluster, passing, need, amounts, rows, shortfalls)
