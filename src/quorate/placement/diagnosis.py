"""Why no node fits a pod, counted over all nodes, as kube-scheduler's diagnosis.

Many gangs wait for long, of many shapes, and each of them is diagnosed whenever the nodes have changed.  So
the nodes that pass the same filters are counted once: by amounts, and per resource in order of what is left.
"""

from bisect import bisect_left
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from typing import Final
from weakref import WeakKeyDictionary

from quorate.placement.cluster import Cluster
from quorate.placement.framework import Capacity, FilterResult
from quorate.placement.name_order import NameOrder
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Matrix, Vector, np

# Retained groups of nodes by filter result, each with some 20 bytes per node.
_MAX_FILTER_RESULTS: Final = 64

_NEVER: Final = -1
# If more than this part of the nodes has changed, grouping all of them anew is faster.
_MAX_CHANGED_PART: Final = 8


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
    at_most: int  # the largest allocatable amount of the nodes that pass the filters
    overcommitted: int = 0  # nodes on which pods that stay request more than is allocatable


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """No node fits the pod."""

    nodes: int
    filtered: tuple[FilteredNodes, ...]  # by descending node count, then by reason
    insufficient: tuple[InsufficientResource, ...]  # in the same order; a node may lack several resources
    feasible_when_empty: int  # nodes that fit the pod if other pods end, or other objects change

    @property
    def never_fits(self) -> bool:
        """Whether neither preemption nor waiting helps: the pod needs nodes that do not exist."""
        return self.feasible_when_empty == 0


@dataclass(frozen=True, slots=True)
class FittingPods:
    """How many equal pods fit the nodes, and why no further one does."""

    pods: int
    refusal: Diagnosis


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
            retained = self._retained[shape] = _Retained(
                passing.serial, _refusal(self._cluster, shape, passing)
            )
        return retained.refusal

    def diagnose(self, shape: Shape, filter_result: FilterResult) -> Diagnosis:
        """Return what keeps pods of ``shape`` off the nodes, even if it fits one."""
        refusal = self.refusal(shape, filter_result)
        if refusal is not None:
            return refusal
        passing = self._passing_nodes(filter_result)
        request = _request(self._cluster, shape)
        return _diagnosis(passing, request, _short(passing, request))

    def fitting_pods(self, shape: Shape, filter_result: FilterResult) -> FittingPods:
        """Return how many pods of ``shape``, which needs some resource, fit at future idle capacity.

        Placing one must change no more for the next one than the amounts of its node.
        """
        passing = self._passing_nodes(filter_result)
        return _fitting_pods(passing, _request(self._cluster, shape))

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
    refusal: Diagnosis | None  # None if it fits


@dataclass(frozen=True, slots=True)
class _PassingNodes:
    """The nodes that pass one filter result, by group; groups without such a node are left out."""

    serial: int
    nodes: int  # all nodes
    filtered: tuple[FilteredNodes, ...]
    passing: int  # nodes that pass
    counts: Vector  # by group
    future_idle: Matrix
    # The nodes that pass, and all that no filter rejects for good.
    at_most: Vector  # by row: the largest allocatable amount
    allocatable: Matrix  # by kind of node
    allocatable_counts: Vector
    # By row: the ascending future idle amounts of the groups, and how many nodes have less than each.
    _ascending: dict[int, tuple[list[int], list[int]]] = field(default_factory=dict)

    def short_of(self, row: int, amount: int) -> int:
        """Return how many passing nodes have less than ``amount`` at future idle capacity."""
        if row not in self._ascending:
            order = np.argsort(self.future_idle[row])
            nodes = np.concatenate([np.zeros(1, np.int64), np.cumsum(self.counts[order])])
            self._ascending[row] = self.future_idle[row, order].tolist(), nodes.tolist()
        amounts, nodes_with_less = self._ascending[row]
        return nodes_with_less[bisect_left(amounts, amount)]


class AmountGroups:
    """The groups of all nodes of ``cluster``; valid after ``refresh`` until the cluster changes.

    Most nodes of a cluster are equal to many others: a few kinds of hardware, empty or full.  The groups are
    updated from the log of usage changes; a node moves when its amounts change.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._read_to = _NEVER  # position in the log of usage changes
        self._numbers: dict[bytes, int] = {}  # of groups, by their amounts in ``_rows``
        self._rows: Vector = np.zeros(0, np.int64)  # the resources of which any node has an amount
        self.version = 0  # changes when any node gets into another group
        self.group_of: Vector = np.zeros(0, np.int64)  # by index
        # By group; a group may be empty.
        self.kind_of: Vector = np.zeros(0, np.int64)
        self.future_idle: Matrix = np.zeros((0, 0), np.int64)
        # The allocatable amounts of each kind of node.
        self._kind_numbers: dict[bytes, int] = {}
        self.kinds: Matrix = np.zeros((0, 0), np.int64)

    def refresh(self) -> None:
        """Update the groups from the change log of the cluster."""
        cluster, log = self._cluster, self._cluster.usage_changes
        if self._read_to != log.end:
            changed = log.since(self._read_to) if len(self.group_of) == cluster.size else None
            self._read_to = log.end
            if (
                changed is None
                or _MAX_CHANGED_PART * len(changed) > cluster.size
                or len(self._numbers) > 2 * cluster.size
                or not self._update(np.array(changed, np.int64))
            ):
                self._group_all()
        more = len(cluster.resources) - len(self.kinds)
        if more:  # no node has an amount of them
            self.kinds = np.pad(self.kinds, ((0, more), (0, 0)))
            self.future_idle = np.pad(self.future_idle, ((0, more), (0, 0)))

    def _group_all(self) -> None:
        self.version += 1
        cluster = self._cluster
        allocatable, future_idle = self._amounts(np.arange(cluster.size))
        self._rows = _rows_with_amounts(allocatable, future_idle)
        self._numbers.clear()
        keys = _keys(allocatable[self._rows], future_idle[self._rows])
        self.group_of = np.array(
            [self._numbers.setdefault(key, len(self._numbers)) for key in keys], np.int64
        )
        first = np.unique(self.group_of, return_index=True)[1]
        self.future_idle = future_idle[:, first]
        self._kind_numbers.clear()
        self.kinds = np.zeros((len(allocatable), 0), np.int64)
        self.kind_of = self._kinds_of(allocatable[:, first])

    def _update(self, changed: Vector) -> bool:
        """Move the ``changed`` nodes to their groups; return False if all must be grouped anew."""
        allocatable, future_idle = self._amounts(changed)
        if set(_rows_with_amounts(allocatable, future_idle).tolist()) - set(self._rows.tolist()):
            return False
        keys = _keys(allocatable[self._rows], future_idle[self._rows])
        groups, new = [], []
        for place, key in enumerate(keys):
            if key not in self._numbers:
                self._numbers[key] = len(self._numbers)
                new.append(place)
            groups.append(self._numbers[key])
        if new:
            rows = len(self.future_idle)
            self.kind_of = np.concatenate([self.kind_of, self._kinds_of(allocatable[:rows, new])])
            self.future_idle = np.hstack([self.future_idle, future_idle[:rows, new]])
        if (self.group_of[changed] != groups).any():
            self.group_of[changed] = groups
            self.version += 1
        return True

    def _kinds_of(self, allocatable: Matrix) -> Vector:
        """Return the kinds of nodes with the ``allocatable`` amounts, and add new kinds."""
        kinds, new = [], []
        for place, key in enumerate(_keys(allocatable[self._rows])):
            if key not in self._kind_numbers:
                self._kind_numbers[key] = len(self._kind_numbers)
                new.append(place)
            kinds.append(self._kind_numbers[key])
        self.kinds = np.hstack([self.kinds, allocatable[:, new]])
        return np.array(kinds, np.int64)

    def _amounts(self, at: Vector) -> tuple[Matrix, Matrix]:
        """Return the allocatable and the future idle amounts at the indexes."""
        cluster = self._cluster
        allocatable, used = cluster.allocatable[:, at], cluster.used[:, at]
        future_idle = allocatable - used + cluster.releasing[:, at] - cluster.pipelined[:, at]
        return allocatable, future_idle


def _rows_with_amounts(allocatable: Matrix, future_idle: Matrix) -> Vector:
    return np.flatnonzero(((allocatable != 0) | (future_idle != 0)).any(axis=1))


def _keys(*matrices: Matrix) -> list[bytes]:
    """Return what the columns contain, as bytes."""
    rows = np.ascontiguousarray(np.vstack(matrices).T)
    keys: list[bytes] = [row.tobytes() for row in rows]
    return keys


def _passing_nodes(
    serial: int, groups: AmountGroups, indexes: Vector, filter_result: FilterResult
) -> _PassingNodes:
    """Return the nodes of ``indexes`` that pass ``filter_result``."""
    existing = np.zeros(len(groups.group_of), np.bool_)
    existing[indexes] = True
    passing = filter_result.passing(Capacity.FUTURE_IDLE)
    failures = filter_result.failure_counts(Capacity.FUTURE_IDLE, existing & ~passing)
    passed = groups.group_of[existing & passing]
    counts = np.bincount(passed, minlength=len(groups.kind_of))
    used = np.flatnonzero(counts)
    resolvable = groups.group_of[existing & ~filter_result.permanent]
    resolvable_kinds = np.bincount(groups.kind_of[resolvable], minlength=groups.kinds.shape[1])
    kinds = np.flatnonzero(resolvable_kinds)
    passed_kinds = np.flatnonzero(np.bincount(groups.kind_of[passed]))
    return _PassingNodes(
        serial=serial,
        nodes=len(indexes),
        filtered=tuple(FilteredNodes(failure.reason, nodes) for failure, nodes in failures),
        passing=len(passed),
        counts=counts[used],
        future_idle=groups.future_idle[:, used],
        at_most=groups.kinds[:, passed_kinds].max(axis=1, initial=0),
        allocatable=groups.kinds[:, kinds],
        allocatable_counts=resolvable_kinds[kinds],
    )


@dataclass(frozen=True, slots=True)
class _Request:
    """What a pod takes of a node, by ascending name of the resource."""

    amounts: Mapping[str, int]
    rows: Sequence[int]

    @property
    def column(self) -> Matrix:
        return np.array(list(self.amounts.values()), np.int64)[:, None]


def _request(cluster: Cluster, shape: Shape) -> _Request:
    amounts = {resource: amount for resource, amount in sorted(shape.amounts.items()) if amount}
    return _Request(amounts, [cluster.row(resource) for resource in amounts])


def _short(passing: _PassingNodes, request: _Request) -> list[int]:
    """Return how many passing nodes have too little of each resource."""
    return [
        passing.short_of(row, amount)
        for row, amount in zip(request.rows, request.amounts.values(), strict=True)
    ]


def _refusal(cluster: Cluster, shape: Shape, passing: _PassingNodes) -> Diagnosis | None:
    """Return why no node fits; None if one does."""
    request = _request(cluster, shape)
    short = _short(passing, request)
    if passing.passing not in short:  # some node has enough of each, but maybe none of all
        fitting = (passing.future_idle[request.rows] >= request.column).all(axis=0)
        if fitting.any():
            return None
    return _diagnosis(passing, request, short)


def _fitting_pods(passing: _PassingNodes, request: _Request) -> FittingPods:
    column, idle = request.column, passing.future_idle[request.rows]
    fitting = np.maximum((idle // column).min(axis=0), 0)
    left = idle - fitting * column
    short = ((left < column) @ passing.counts).tolist()
    return FittingPods(int(fitting @ passing.counts), _diagnosis(passing, request, short))


def _diagnosis(passing: _PassingNodes, request: _Request, short: Sequence[int]) -> Diagnosis:
    insufficient = [
        InsufficientResource(
            resource, nodes, need, at_most=int(passing.at_most[row]), overcommitted=passing.short_of(row, 0)
        )
        for (resource, need), row, nodes in zip(request.amounts.items(), request.rows, short, strict=True)
        if nodes
    ]
    insufficient.sort(key=lambda one: (-one.nodes, one.resource))
    sufficient = (passing.allocatable[request.rows] >= request.column).all(axis=0)
    return Diagnosis(
        nodes=passing.nodes,
        filtered=passing.filtered,
        insufficient=tuple(insufficient),
        feasible_when_empty=int(passing.allocatable_counts[sufficient].sum()),
    )
