"""The nodes and their pods: the node info of all nodes as matrices of amounts.

Each node has an *index*, which it keeps until it is removed; a vacant index may be given to another node
later.  Amounts are matrices with one row per resource and one column per index, so that one numpy expression
covers all nodes.  In Volcano's terms:

    idle        = allocatable - used           free now
    future idle = idle + releasing - pipelined free when releasing pods are gone and pipelined pods are placed

Only resources of nodes have rows.  A request for any other resource counts in the row ``ABSENT``, in which no
node has anything: pods with names that no node has take no memory per node.

``add_pod`` and ``remove_pod`` undo each other, and so do two calls of ``update_pod``.  The state depends only
on the current nodes and pods, except for the assignment of indexes and the order of resources.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Final
from weakref import WeakKeyDictionary

import msgspec
import numpy as np

from quorate.api.core.scheduling import Node
from quorate.api.meta import Uid, find_condition
from quorate.placement.change_log import ChangeLog
from quorate.placement.resources import MEMORY, Amounts, in_base_units
from quorate.placement.shapes import MAX_AMOUNT, Shape
from quorate.placement.vectors import Mask, Matrix, Vector
from quorate.quota.amount import CPU, PODS


class AllocationState(Enum):
    """How the request of a pod counts on its node."""

    USED = "the pod is on the node, or will be as soon as it is bound"
    RELEASING = "the pod is on the node and terminating"
    PIPELINED = "the pod is assigned to resources that terminating pods release"

    __hash__ = object.__hash__  # members are unique: hashing by identity is ten times as fast as by name


# The number of pods on a node, by shape and allocation state.
PodCounts = Mapping[tuple[Shape, AllocationState], int]
NO_PODS: Final[PodCounts] = {}

ABSENT: Final = ""  # stands for all resources that no node has or had

# What all pods of a node take at most, so that sums of two such amounts and a request fit into 64 bits.
_MAX_TAKEN: Final = 2**62
_MAX_RELEASING: Final = 2**61


class PodAllocation(msgspec.Struct, eq=False, gc=False):
    """The node of one pod.

    There is one per pod, so it is small and the garbage collector skips it.
    """

    shape: Shape
    node: str
    state: AllocationState


class Cluster:
    """Nodes and pods.

    Pods may be on nodes that are unknown or removed; they count as soon as the node is set.
    """

    def __init__(self) -> None:
        self.usage_changes = ChangeLog()  # indexes with changed amounts or pods
        self.node_changes = ChangeLog()  # indexes set, removed, or changed in more than amounts
        self.resources: list[str] = [CPU, MEMORY, PODS, ABSENT]  # by row
        self.nodes: list[Node | None] = []  # by index
        self.allocatable: Matrix = _zeros(len(self.resources), 0)
        self.used: Matrix = _zeros(len(self.resources), 0)
        self.releasing: Matrix = _zeros(len(self.resources), 0)
        self.pipelined: Matrix = _zeros(len(self.resources), 0)
        # Used cpu and memory, with defaults for pods that request none (``Shape.non_zero_request``).
        self.non_zero_used: Matrix = _zeros(2, 0)
        self.ready: Mask = np.zeros(0, np.bool_)  # False at vacant indexes
        self.rows = {resource: row for row, resource in enumerate(self.resources)}
        self.rows_version = 0  # changes with the rows of resources
        self._vacant: list[int] = []
        self._indexes: dict[str, int] = {}
        self._pod_counts: dict[str, dict[tuple[Shape, AllocationState], int]] = {}  # by node, known or not
        self._oversized: Counter[str] = Counter()  # pods with oversized shapes, by node, known or not
        self._allocations: dict[Uid, PodAllocation] = {}
        self._requests: WeakKeyDictionary[Shape, Vector] = WeakKeyDictionary()
        # Over all ready nodes; Python integers, which cannot overflow.
        self._total_allocatable: dict[str, int] = {}
        self._total_used: dict[str, int] = {}
        self._total_releasing: dict[str, int] = {}

    # Nodes

    def set_node(self, node: Node) -> None:
        """Add ``node``, or replace the known node of that name."""
        name = node.metadata.name
        allocatable = in_base_units(node.status.allocatable).items()
        amounts = {resource: max(0, min(amount, MAX_AMOUNT)) for resource, amount in allocatable}
        self._add_rows(amounts)
        index = self._indexes.get(name)
        if index is None:
            if not self._vacant:
                self._grow()
            index = self._indexes[name] = self._vacant.pop()
            if self._oversized[name]:
                self._sum_amounts(index, name)
            else:
                for (shape, state), count in self._pod_counts.get(name, NO_PODS).items():
                    self._add_amounts(index, shape, state, count)
            self.node_changes.append(index)
        else:
            old = self.nodes[index]
            assert old is not None, f"{name} has index {index}, where there is no node"
            if _scheduling_properties(old) != _scheduling_properties(node):
                self.node_changes.append(index)
        self._add_to_totals(index, -1)
        self.nodes[index] = node
        self.ready[index] = is_ready(node)
        self.allocatable[:, index] = self._vector(amounts)
        self._add_to_totals(index, +1)
        self.usage_changes.append(index)

    def remove_node(self, name: str) -> None:
        """Remove the node and keep its pods: the node may be set again before they are gone."""
        index = self._indexes.pop(name)
        self._add_to_totals(index, -1)
        self.nodes[index] = None
        self.ready[index] = False
        for matrix in (self.allocatable, self.used, self.releasing, self.pipelined, self.non_zero_used):
            matrix[:, index] = 0
        self._vacant.append(index)
        self.node_changes.append(index)
        self.usage_changes.append(index)

    @property
    def size(self) -> int:
        """The number of indexes, including vacant ones: the length of every vector."""
        return len(self.nodes)

    def index(self, name: str) -> int | None:
        return self._indexes.get(name)

    def name(self, index: int) -> str:
        node = self.nodes[index]
        assert node is not None, f"no node at index {index}"
        return node.metadata.name

    def names(self) -> Iterator[str]:
        return iter(self._indexes)

    # Pods

    def add_pod(self, pod: Uid, shape: Shape, node: str, state: AllocationState) -> None:
        assert pod not in self._allocations, (
            f"{pod} is on {self._allocations[pod].node} already and cannot be added to {node}"
        )
        self._allocations[pod] = PodAllocation(shape, node, state)
        self._count(node, shape, state, +1)

    def update_pod(self, pod: Uid, state: AllocationState) -> AllocationState:
        """Set the allocation state of the pod and return the previous one."""
        allocation = self._allocations[pod]
        before = allocation.state
        self._count(allocation.node, allocation.shape, before, -1)
        allocation.state = state
        self._count(allocation.node, allocation.shape, state, +1)
        return before

    def remove_pod(self, pod: Uid) -> PodAllocation:
        """Remove the pod and return its allocation, with which it can be added again."""
        allocation = self._allocations.pop(pod)
        self._count(allocation.node, allocation.shape, allocation.state, -1)
        return allocation

    def count_pods(self, shape: Shape, node: str, count: int) -> None:
        """Add ``count`` pods that are told apart by nothing; remove them if it is negative."""
        self._count(node, shape, AllocationState.USED, count)

    def allocation(self, pod: Uid) -> PodAllocation | None:
        return self._allocations.get(pod)

    def pod_counts(self, index: int) -> PodCounts:
        """Return the pods on the node, including pipelined ones."""
        return self._pod_counts.get(self.name(index), NO_PODS)

    def has_leaving_pods(self, node: str) -> bool:
        """Return True if pods are releasing resources of ``node``."""
        return any(state is AllocationState.RELEASING for _, state in self._pod_counts.get(node, NO_PODS))

    def _count(self, node: str, shape: Shape, state: AllocationState, by: int) -> None:
        counts = self._pod_counts.setdefault(node, {})
        count = counts.get((shape, state), 0) + by
        assert count >= 0, f"more pods were removed from {node} than added: {shape}"
        if count:
            counts[shape, state] = count
        else:
            del counts[shape, state]
            if not counts:
                del self._pod_counts[node]
        oversized = shape.oversized
        if oversized:
            self._oversized[node] += by
            if not self._oversized[node]:
                del self._oversized[node]
        index = self._indexes.get(node)
        if index is not None:
            if oversized or self._oversized[node]:
                self._sum_amounts(index, node)
            else:
                self._add_amounts(index, shape, state, by)
            self.usage_changes.append(index)

    def _add_amounts(self, index: int, shape: Shape, state: AllocationState, count: int) -> None:
        request = self.request(shape) * count if count != 1 else self.request(shape)
        if state is AllocationState.PIPELINED:
            self.pipelined[:, index] += request
            return
        if state is AllocationState.RELEASING:
            self.releasing[:, index] += request
        self.used[:, index] += request
        for row, amount in enumerate(shape.non_zero_request):
            self.non_zero_used[row, index] += amount * count
        if self.ready[index]:
            amounts = self._with_rows(shape)
            _add(self._total_used, amounts, count)
            if state is AllocationState.RELEASING:
                _add(self._total_releasing, amounts, count)

    def _sum_amounts(self, index: int, name: str) -> None:
        """Set the amounts of the node's pods to their sums, limited so that 64 bits hold them.

        Oversized requests of many pods exceed 64 bits; a sum that wrapped around would be free capacity.
        """
        counts = self._pod_counts.get(name, NO_PODS)
        staying, releasing, pipelined = Counter[str](), Counter[str](), Counter[str]()
        non_zero = [0, 0]
        for (shape, state), count in counts.items():
            taken = {
                AllocationState.USED: staying,
                AllocationState.RELEASING: releasing,
                AllocationState.PIPELINED: pipelined,
            }[state]
            _add(taken, self._with_rows(shape), count)
            if state is not AllocationState.PIPELINED:
                non_zero = [
                    total + amount * count
                    for total, amount in zip(non_zero, shape.non_zero_request, strict=True)
                ]
        self._add_to_totals(index, -1)
        self.releasing[:, index] = self._vector(_limited(releasing, _MAX_RELEASING))
        self.pipelined[:, index] = self._vector(_limited(pipelined, _MAX_RELEASING))
        self.used[:, index] = self._vector(_limited(staying, _MAX_TAKEN)) + self.releasing[:, index]
        self.non_zero_used[:, index] = [min(total, _MAX_TAKEN) for total in non_zero]
        self._add_to_totals(index, +1)

    # Amounts

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

    def row(self, resource: str) -> int:
        """Return the row of ``resource`` in all matrices, that of ``ABSENT`` if no node has it."""
        return self.rows.get(resource, self.rows[ABSENT])

    def _add_rows(self, resources: Iterable[str]) -> None:
        """Add the rows that are missing; each call with any copies the matrices once."""
        missing = [resource for resource in dict.fromkeys(resources) if resource not in self.rows]
        if not missing:
            return
        for row, resource in enumerate(missing, len(self.resources)):
            self.rows[resource] = row
        self.resources += missing
        for name in ("allocatable", "used", "releasing", "pipelined"):
            setattr(self, name, np.pad(getattr(self, name), ((0, len(missing)), (0, 0))))
        self._requests.clear()
        self.rows_version += 1
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
            request = self._requests[shape] = self._vector(self._with_rows(shape))
        return request

    def _with_rows(self, shape: Shape) -> Amounts:
        """Return the amounts of ``shape`` with its largest amount of absent resources as ``ABSENT``."""
        absent = [amount for resource, amount in shape.amounts.items() if resource not in self.rows]
        if not absent:
            return shape.amounts
        known = {resource: amount for resource, amount in shape.amounts.items() if resource in self.rows}
        return {**known, ABSENT: max(absent)}

    def _vector(self, amounts: Amounts) -> Vector:
        vector = np.zeros(len(self.resources), np.int64)
        for resource, amount in amounts.items():
            vector[self.rows[resource]] = amount
        return vector

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

    def _grow(self) -> None:
        size = self.size
        more = max(64, size)
        for name in ("allocatable", "used", "releasing", "pipelined", "non_zero_used"):
            setattr(self, name, np.pad(getattr(self, name), ((0, 0), (0, more))))
        self.ready = np.pad(self.ready, (0, more))
        self.nodes.extend([None] * more)
        self._vacant.extend(range(size + more - 1, size - 1, -1))  # the smallest index is assigned first


def is_ready(node: Node) -> bool:
    """Return True if the node is ready.

    A node without the condition ``Ready`` is: a cluster without kubelets has no source for it.
    """
    ready = find_condition(node.status.conditions, "Ready")
    return ready is None or ready.status == "True"


def _scheduling_properties(node: Node) -> object:
    """Return the properties of a node, apart from amounts, that filters and scores read."""
    return node.metadata.labels, node.spec, is_ready(node), node.status.images


def _add(total: dict[str, int], amounts: Amounts, factor: int) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0) + amount * factor


def _named(amounts: Amounts) -> Amounts:
    """Return the amounts above 0 of resources that nodes have or had."""
    return {resource: amount for resource, amount in amounts.items() if amount and resource != ABSENT}


def _limited(amounts: Amounts, most: int) -> Amounts:
    return {resource: min(amount, most) for resource, amount in amounts.items()}


def _zeros(rows: int, columns: int) -> Matrix:
    return np.zeros((rows, columns), np.int64)
