"""The nodes and what takes room on them: the node info of all nodes as matrices of amounts.

In Volcano's terms:

    idle        = allocatable - used           free now
    future idle = idle + releasing - pipelined free when releasing pods are gone and pipelined pods are placed

The state depends only on the current nodes and occupants, except for the assignment of indexes and the order
of resources.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final
from weakref import WeakKeyDictionary

from quorate.api.core.scheduling import Node
from quorate.placement.change_log import ChangeLog
from quorate.placement.cluster.nodes import ABSENT, FIRST_ROWS, Nodes, allocatable_of
from quorate.placement.cluster.occupants import AllocationState, Occupants, PodCounts
from quorate.placement.resources import Amounts
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Matrix, Vector, np, with_columns

# What all pods of a node take at most, so that sums of two such amounts and a request fit into 64 bits.
_MAX_TAKEN: Final = 2**62
_MAX_RELEASING: Final = 2**61
_SUMS: Final = ("used", "releasing", "pipelined")


class Cluster(Nodes, Occupants):
    """Nodes and occupants, with sums of their amounts.

    Occupants of nodes that are unknown or removed count as soon as the node is set.
    """

    def __init__(self) -> None:
        Nodes.__init__(self)
        Occupants.__init__(self)
        self.usage_changes = ChangeLog()  # indexes with changed amounts or pods
        self._requests: WeakKeyDictionary[Shape, Vector] = WeakKeyDictionary()
        # Over all ready nodes; Python integers, which cannot overflow.
        self._total_allocatable: dict[str, int] = {}
        self._total_used: dict[str, int] = {}
        self._total_releasing: dict[str, int] = {}

    @cached_property
    def used(self) -> Matrix:
        return np.zeros((len(FIRST_ROWS), 0), np.int64)

    @cached_property
    def releasing(self) -> Matrix:
        return np.zeros((len(FIRST_ROWS), 0), np.int64)

    @cached_property
    def pipelined(self) -> Matrix:
        return np.zeros((len(FIRST_ROWS), 0), np.int64)

    @cached_property
    def non_zero_used(self) -> Matrix:
        """Used and pipelined cpu and memory, with defaults for absent requests (see ``Shape``)."""
        return np.zeros((2, 0), np.int64)

    def set_node(self, node: Node) -> None:
        """Add ``node``, or replace the known node of that name."""
        name, amounts = node.metadata.name, allocatable_of(node)
        self._add_rows([resource for resource in amounts if resource not in self.rows])
        is_new = self.index(name) is None
        index = self._take_index(name)
        if is_new and self.counts_on(name):
            self._sum_amounts(index, name)
        self._add_to_totals(index, -1)
        self._put(index, node, amounts)
        self._add_to_totals(index, +1)
        self.usage_changes.append(index)

    def remove_node(self, name: str) -> None:
        """Remove the node and keep its occupants: the node may be set again before they are gone."""
        index = self._indexes[name]
        self._add_to_totals(index, -1)
        self._vacate(name)
        for matrix in (self.used, self.releasing, self.pipelined, self.non_zero_used):
            matrix[:, index] = 0
        self.usage_changes.append(index)

    def pod_counts(self, index: int) -> PodCounts:
        """Return the pods on the node at ``index``; see ``counts_on``."""
        return self.counts_on(self.name(index))

    def _count(self, node: str, shape: Shape, state: AllocationState, pods: int) -> None:
        super()._count(node, shape, state, pods)
        index = self._indexes.get(node)
        if index is not None:
            if shape.oversized or node in self._oversized:
                self._sum_amounts(index, node)
            else:
                self._add_amounts(index, shape, state, pods)
            self.usage_changes.append(index)

    def _add_amounts(self, index: int, shape: Shape, state: AllocationState, count: int) -> None:
        request = self.request(shape) * count if count != 1 else self.request(shape)
        for row, amount in enumerate(shape.non_zero_request):
            self.non_zero_used[row, index] += amount * count
        if state is AllocationState.PIPELINED:
            self.pipelined[:, index] += request
            return
        if state is AllocationState.RELEASING:
            self.releasing[:, index] += request
        self.used[:, index] += request
        if self.ready[index]:
            amounts = self._with_rows(shape)
            _add(self._total_used, amounts, count)
            if state is AllocationState.RELEASING:
                _add(self._total_releasing, amounts, count)

    def _sum_amounts(self, index: int, name: str) -> None:
        """Set the amounts of the node's pods to their sums, limited so that 64 bits hold them.

        Oversized requests of many pods exceed 64 bits; a sum that wrapped around would be free capacity.
        """
        staying, releasing, pipelined = Counter[str](), Counter[str](), Counter[str]()
        non_zero = [0, 0]
        for (shape, state), count in self.counts_on(name).items():
            taken = {
                AllocationState.USED: staying,
                AllocationState.RELEASING: releasing,
                AllocationState.PIPELINED: pipelined,
            }[state]
            _add(taken, self._with_rows(shape), count)
            non_zero = [
                total + amount * count for total, amount in zip(non_zero, shape.non_zero_request, strict=True)
            ]
        self._add_to_totals(index, -1)
        self.releasing[:, index] = self.by_row(_limited(releasing, _MAX_RELEASING))
        self.pipelined[:, index] = self.by_row(_limited(pipelined, _MAX_RELEASING))
        self.used[:, index] = self.by_row(_limited(staying, _MAX_TAKEN)) + self.releasing[:, index]
        self.non_zero_used[:, index] = [min(total, _MAX_TAKEN) for total in non_zero]
        self._add_to_totals(index, +1)

    # Amounts

    def idle(self, resource: str) -> Vector:
        """Return the idle amounts by index; negative where pods use more than is allocatable."""
        row = self.rows.get(resource)
        if row is None:
            return np.zeros(self.size, np.int64)
        amounts: Vector = self.allocatable[row] - self.used[row]
        return amounts

    def idle_on(self, nodes: Sequence[str]) -> dict[str, dict[str, int]]:
        """Return the idle amounts of each of ``nodes``, which exist, by node and resource."""
        indexes = [self._indexes[node] for node in nodes]
        amounts = (self.allocatable[:, indexes] - self.used[:, indexes]).T.tolist()
        return {
            node: dict(zip(self.resources, of_node, strict=True))
            for node, of_node in zip(nodes, amounts, strict=True)
        }

    def future_idle(self, index: int, resource: str) -> int:
        """Return the future idle amount.

        It is negative if pods use more than is allocatable, or pipelined pods exceed it.
        """
        row = self.rows.get(resource)
        if row is None:
            return 0
        idle = self.allocatable[row, index] - self.used[row, index]
        return int(idle + self.releasing[row, index] - self.pipelined[row, index])

    @property
    def total(self) -> Amounts:
        """The allocatable amounts of all ready nodes, including cordoned ones."""
        return _named(self._total_allocatable)

    @property
    def total_used(self) -> Amounts:
        """What pods use of ``total``: of each node no more of a resource than is allocatable."""
        sums = dict(self._total_used)
        for resource, excess, _ in self._excesses():
            sums[resource] -= excess
        return _named(sums)

    @property
    def total_releasing(self) -> Amounts:
        """What becomes free of ``total_used`` when terminating pods are gone."""
        sums = dict(self._total_releasing)
        for resource, excess, releasing in self._excesses():
            if releasing:
                sums[resource] -= min(excess, releasing)
        return _named(sums)

    def _excesses(self) -> Iterator[tuple[str, int, int]]:
        """Yield what the pods of a ready node use beyond its allocatable amount of a resource.

        Each item is the resource, the excess, and what terminating pods use there of the resource.
        """
        for row, index in zip(*np.nonzero((self.used > self.allocatable) & self.ready), strict=True):
            excess = self.used[row, index] - self.allocatable[row, index]
            yield self.resources[row], int(excess), int(self.releasing[row, index])

    def _add_rows(self, missing: list[str]) -> None:
        if not missing:
            return
        super()._add_rows(missing)
        for name in _SUMS:
            setattr(self, name, np.pad(getattr(self, name), ((0, len(missing)), (0, 0))))
        self._requests.clear()
        added = frozenset(missing)
        for node, counts in self._pod_counts.items():
            index = self._indexes.get(node)
            if index is not None and any(added & shape.amounts.keys() for shape, _ in counts):
                self._sum_amounts(index, node)
                self.usage_changes.append(index)

    def request(self, shape: Shape) -> Vector:
        """Return what a pod of ``shape`` requests, by row."""
        request = self._requests.get(shape)
        if request is None:
            request = self._requests[shape] = self.by_row(self._with_rows(shape))
        return request

    def _with_rows(self, shape: Shape) -> Amounts:
        """Return the amounts of ``shape`` with its largest amount of absent resources as ``ABSENT``."""
        absent = [amount for resource, amount in shape.amounts.items() if resource not in self.rows]
        if not absent:
            return shape.amounts
        present = {resource: amount for resource, amount in shape.amounts.items() if resource in self.rows}
        return {**present, ABSENT: max(absent)}

    def _add_to_totals(self, index: int, sign: int) -> None:
        """Add the node's amounts to the totals, or subtract them."""
        if not self.ready[index]:
            return
        for matrix, total in (
            (self.allocatable, self._total_allocatable),
            (self.used, self._total_used),
            (self.releasing, self._total_releasing),
        ):
            amounts = zip(self.resources, matrix[:, index].tolist(), strict=True)
            _add(total, {resource: amount for resource, amount in amounts if amount}, sign)

    def _grow(self, more: int) -> None:
        super()._grow(more)
        for name in (*_SUMS, "non_zero_used"):
            setattr(self, name, with_columns(getattr(self, name), more))


def _add(total: dict[str, int], amounts: Amounts, factor: int) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0) + amount * factor


def _named(amounts: Amounts) -> Amounts:
    """Return the amounts above 0 of resources that nodes have or had."""
    return {resource: amount for resource, amount in amounts.items() if amount and resource != ABSENT}


def _limited(amounts: Amounts, most: int) -> Amounts:
    return {resource: min(amount, most) for resource, amount in amounts.items()}
