"""The nodes, what each of them can hold, and the pods that hold something of it.

Each node has an *index*, which nothing but its removal takes away from it; a vacant index may be given to
another node later.  What nodes have and what is taken of it are matrices with a row for each resource and a
column for each index, so that one question can be asked of all nodes at once:

    idle        = allocatable - used           what a pod can have now
    future idle = idle + releasing - pipelined what it can have when who is leaving has left and who was
                                               promised a place there has come

The table is meant to be changed and changed back: ``put`` and ``take`` undo each other, ``move`` undoes
itself.  It keeps nothing that depends on the way to where it is, but for indexes and the order of resources.
"""

from collections.abc import Iterator, Mapping
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
    """In what way a pod holds its part of a node."""

    USED = "is there, or will be as soon as it is bound"
    RELEASING = "is there and leaving"
    PIPELINED = "waits for others to leave"

    __hash__ = object.__hash__  # there is one of each: by identity, which is ten times as fast as by name


# How often pods of a shape hold their part of a node, and in what way.
PodCounts = Mapping[tuple[Shape, AllocationState], int]
NO_PODS: Final[PodCounts] = {}


class PodAllocation(msgspec.Struct, eq=False, gc=False):
    """Where one pod is.  There is one for each, so it is small: the collector need not walk it."""

    shape: Shape
    node: str
    state: AllocationState


class Cluster:
    """Pods may be on nodes that are not known, or not any more: they count as soon as the node appears."""

    def __init__(self) -> None:
        self.usage_changes = ChangeLog()  # indexes whose amounts or residents changed
        self.node_changes = ChangeLog()  # indexes whose node came, went, or changed in more than its amounts
        self.resources: list[str] = [CPU, MEMORY, PODS]  # by row
        self.nodes: list[Node | None] = []  # by index
        self.allocatable: Matrix = _zeros(len(self.resources), 0)
        self.used: Matrix = _zeros(len(self.resources), 0)
        self.releasing: Matrix = _zeros(len(self.resources), 0)
        self.pipelined: Matrix = _zeros(len(self.resources), 0)
        # Cpu and memory used, with something for pods that name none (``Shape.non_zero_request``).
        self.non_zero_used: Matrix = _zeros(2, 0)
        self.ready: Mask = np.zeros(0, np.bool_)  # vacant indexes are not
        self.rows = {resource: row for row, resource in enumerate(self.resources)}
        self._vacant: list[int] = []
        self._indexes: dict[str, int] = {}
        self._residents: dict[str, dict[tuple[Shape, AllocationState], int]] = {}  # by node, known or not
        self._places: dict[Uid, PodAllocation] = {}
        self._requests: WeakKeyDictionary[Shape, Vector] = WeakKeyDictionary()
        # Of all nodes that are ready; exact where 64 bits would not be.
        self._total_allocatable: dict[str, int] = {}
        self._total_used: dict[str, int] = {}
        self._total_releasing: dict[str, int] = {}

    # -- nodes

    def set_node(self, node: Node) -> None:
        """Take ``node``, which is new or has changed."""
        name = node.metadata.name
        index = self._indexes.get(name)
        if index is None:
            if not self._vacant:
                self._grow()
            index = self._indexes[name] = self._vacant.pop()
            for (shape, state), count in self._residents.get(name, NO_PODS).items():
                self._add(index, shape, state, count)
            self.node_changes.note(index)
        else:
            old = self.nodes[index]
            assert old is not None, f"{name} has index {index}, where there is no node"
            if _facts(old) != _facts(node):
                self.node_changes.note(index)
        self._count(index, -1)
        self.nodes[index] = node
        self.ready[index] = is_ready(node)
        has = in_base_units(node.status.allocatable).items()
        amounts = {resource: max(0, min(amount, MAX_AMOUNT)) for resource, amount in has}
        self.allocatable[:, index] = self._vector(amounts)
        self._count(index, +1)
        self.usage_changes.note(index)

    def remove_node(self, name: str) -> None:
        """Forget the node.  Its pods stay, lest they be lost when it comes back before they are gone."""
        index = self._indexes.pop(name)
        self._count(index, -1)
        self.nodes[index] = None
        self.ready[index] = False
        for matrix in (self.allocatable, self.used, self.releasing, self.pipelined, self.non_zero_used):
            matrix[:, index] = 0
        self._vacant.append(index)
        self.node_changes.note(index)
        self.usage_changes.note(index)

    @property
    def size(self) -> int:
        """How many indexes there are, vacant ones included: the length of every vector."""
        return len(self.nodes)

    def index(self, name: str) -> int | None:
        return self._indexes.get(name)

    def name(self, index: int) -> str:
        node = self.nodes[index]
        assert node is not None, f"no node at index {index}"
        return node.metadata.name

    def names(self) -> Iterator[str]:
        return iter(self._indexes)

    # -- pods

    def add_pod(self, pod: Uid, shape: Shape, node: str, state: AllocationState) -> None:
        assert pod not in self._places, (
            f"{pod} is on {self._places[pod].node} already, not to be put on {node}"
        )
        self._places[pod] = PodAllocation(shape, node, state)
        self._change(node, shape, state, +1)

    def update_pod(self, pod: Uid, state: AllocationState) -> AllocationState:
        """Let the pod hold its part in another way; in which way it did before."""
        place = self._places[pod]
        before = place.state
        self._change(place.node, place.shape, before, -1)
        place.state = state
        self._change(place.node, place.shape, state, +1)
        return before

    def remove_pod(self, pod: Uid) -> PodAllocation:
        """Take the pod off its node; where it was, to put it back."""
        place = self._places.pop(pod)
        self._change(place.node, place.shape, place.state, -1)
        return place

    def allocation(self, pod: Uid) -> PodAllocation | None:
        return self._places.get(pod)

    def pod_counts(self, index: int) -> PodCounts:
        """Who is on the node, or was promised a place there."""
        return self._residents.get(self.name(index), NO_PODS)

    def _change(self, node: str, shape: Shape, state: AllocationState, by: int) -> None:
        pod_counts = self._residents.setdefault(node, {})
        count = pod_counts.get((shape, state), 0) + by
        assert count >= 0, f"more pods left {node} than were there: {shape}"
        if count:
            pod_counts[shape, state] = count
        else:
            del pod_counts[shape, state]
            if not pod_counts:
                del self._residents[node]
        index = self._indexes.get(node)
        if index is not None:
            self._add(index, shape, state, by)
            self.usage_changes.note(index)

    def _add(self, index: int, shape: Shape, state: AllocationState, count: int) -> None:
        request = self.request(shape) * count if count != 1 else self.request(shape)
        if state is AllocationState.PIPELINED:
            self.pipelined[:, index] += request
            return
        if state is AllocationState.RELEASING:
            self.releasing[:, index] += request
        self.used[:, index] += request
        self.non_zero_used[:, index] += np.multiply(shape.non_zero_request, count)
        if self.ready[index]:
            _add_to(self._total_used, shape.amounts, count)
            if state is AllocationState.RELEASING:
                _add_to(self._total_releasing, shape.amounts, count)

    # -- amounts

    def future_idle(self, index: int, resource: str) -> int:
        """Less than nothing when more was given away, or promised, than there is."""
        row = self.rows.get(resource)
        if row is None:
            return 0
        free = self.allocatable[row, index] - self.used[row, index]
        return int(free + self.releasing[row, index] - self.pipelined[row, index])

    @property
    def total(self) -> Amounts:
        """What all ready nodes have, cordoned ones included, but not those that gave away more than that."""
        return self._of_sound(self._total_allocatable, self.allocatable)

    @property
    def total_used(self) -> Amounts:
        """What is used of the same nodes, by whoever."""
        return self._of_sound(self._total_used, self.used)

    @property
    def total_releasing(self) -> Amounts:
        """What of that is about to be given back."""
        return self._of_sound(self._total_releasing, self.releasing)

    def _of_sound(self, total: Mapping[str, int], matrix: Matrix) -> Amounts:
        """``total``, which is of all ready nodes, without those of them whose amounts do not add up."""
        sums = dict(total)
        overcommitted = np.flatnonzero(self.ready & (self.used > self.allocatable).any(axis=0))
        for index in overcommitted.tolist():
            _add_to(sums, dict(zip(self.resources, matrix[:, index].tolist(), strict=True)), -1)
        return {resource: amount for resource, amount in sums.items() if amount}

    def row(self, resource: str) -> int:
        """The row of ``resource`` in all matrices."""
        row = self.rows.get(resource)
        if row is None:
            row = self.rows[resource] = len(self.resources)
            self.resources.append(resource)
            for name in ("allocatable", "used", "releasing", "pipelined"):
                setattr(self, name, np.pad(getattr(self, name), ((0, 1), (0, 0))))
            self._requests.clear()
        return row

    def request(self, shape: Shape) -> Vector:
        """What a pod of ``shape`` takes, by row."""
        request = self._requests.get(shape)
        if request is None:
            request = self._requests[shape] = self._vector(shape.amounts)
        return request

    def _vector(self, amounts: Amounts) -> Vector:
        by_row = [(self.row(resource), amount) for resource, amount in amounts.items()]
        vector = np.zeros(len(self.resources), np.int64)
        for row, amount in by_row:
            vector[row] = amount
        return vector

    def _count(self, index: int, sign: int) -> None:
        """Count the node into the totals, or out of them."""
        if not self.ready[index]:
            return
        for matrix, total in (
            (self.allocatable, self._total_allocatable),
            (self.used, self._total_used),
            (self.releasing, self._total_releasing),
        ):
            amounts = zip(self.resources, matrix[:, index].tolist(), strict=True)
            _add_to(total, {resource: amount for resource, amount in amounts if amount}, sign)

    def _grow(self) -> None:
        size = self.size
        more = max(64, size)
        for name in ("allocatable", "used", "releasing", "pipelined", "non_zero_used"):
            setattr(self, name, np.pad(getattr(self, name), ((0, 0), (0, more))))
        self.ready = np.pad(self.ready, (0, more))
        self.nodes.extend([None] * more)
        self._vacant.extend(range(size + more - 1, size - 1, -1))  # the smallest is given first


def is_ready(node: Node) -> bool:
    """Whether the node says so, or says nothing: a cluster without kubelets has nobody to say it."""
    ready = find_condition(node.status.conditions, "Ready")
    return ready is None or ready.status == "True"


def _facts(node: Node) -> object:
    """What of a node decides over placement, apart from amounts."""
    return node.metadata.labels, node.spec, is_ready(node), node.status.images


def _add_to(total: dict[str, int], amounts: Amounts, factor: int) -> None:
    for resource, amount in amounts.items():
        total[resource] = total.get(resource, 0) + amount * factor


def _zeros(rows: int, columns: int) -> Matrix:
    return np.zeros((rows, columns), np.int64)
