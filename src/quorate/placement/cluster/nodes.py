"""The nodes by index, and what they offer by resource.

Each node has an *index*, which it keeps until it is removed; a vacant index may be given to another node
later.  Amounts are matrices with one row per resource and one column per index, so that one numpy expression
covers all nodes.  Only resources of nodes have rows.  A request for any other resource counts in the row
``ABSENT``, in which no node has anything: pods with names that no node has take no memory per node.
"""

from collections.abc import Iterator
from functools import cached_property
from typing import Final

from quorate.api.core.scheduling import Node
from quorate.api.meta import find_condition
from quorate.placement.change_log import ChangeLog
from quorate.placement.resources import MEMORY, Amounts, in_base_units
from quorate.placement.shapes import MAX_AMOUNT
from quorate.placement.vectors import Mask, Matrix, Vector, np, with_columns
from quorate.quota.amount import CPU, PODS

ABSENT: Final = ""  # stands for all resources that no node has or had
FIRST_ROWS: Final = (CPU, MEMORY, PODS, ABSENT)


class Nodes:
    """The nodes, whether or not they are ready, and their allocatable amounts."""

    def __init__(self) -> None:
        self.node_changes = ChangeLog()  # indexes set, removed, or changed in more than amounts
        self.resources: list[str] = [*FIRST_ROWS]  # by row
        self.rows = {resource: row for row, resource in enumerate(self.resources)}
        self.rows_version = 0  # changes with the rows of resources
        self.nodes: list[Node | None] = []  # by index
        self._vacant: list[int] = []
        self._indexes: dict[str, int] = {}

    # Without nodes, numpy is not imported.

    @cached_property
    def allocatable(self) -> Matrix:
        return np.zeros((len(FIRST_ROWS), 0), np.int64)

    @cached_property
    def ready(self) -> Mask:
        """False at vacant indexes."""
        return np.zeros(0, np.bool_)

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

    def row(self, resource: str) -> int:
        """Return the row of ``resource`` in all matrices; that of ``ABSENT`` if no node has the resource."""
        return self.rows.get(resource, self.rows[ABSENT])

    def by_row(self, amounts: Amounts) -> Vector:
        """Return ``amounts`` as a column of the matrices; each resource in ``amounts`` must have a row."""
        vector = np.zeros(len(self.resources), np.int64)
        for resource, amount in amounts.items():
            vector[self.rows[resource]] = amount
        return vector

    def _take_index(self, name: str) -> int:
        """Return the index of a node, a vacant one if the node is new."""
        index = self._indexes.get(name)
        if index is None:
            if not self._vacant:
                self._grow(max(64, self.size))
            index = self._indexes[name] = self._vacant.pop()
        return index

    def _put(self, index: int, node: Node, amounts: Amounts) -> None:
        """Replace the node at ``index``, which may be vacant; each of its ``amounts`` has a row."""
        old = self.nodes[index]
        if old is None or _scheduling_properties(old) != _scheduling_properties(node):
            self.node_changes.append(index)
        self.nodes[index] = node
        self.ready[index] = is_ready(node)
        self.allocatable[:, index] = self.by_row(amounts)

    def _vacate(self, name: str) -> None:
        index = self._indexes.pop(name)
        self.nodes[index] = None
        self.ready[index] = False
        self.allocatable[:, index] = 0
        self._vacant.append(index)
        self.node_changes.append(index)

    def _add_rows(self, missing: list[str]) -> None:
        """Add the rows of resources that have none; each call copies the matrices once."""
        for row, resource in enumerate(missing, len(self.resources)):
            self.rows[resource] = row
        self.resources += missing
        self.allocatable = np.pad(self.allocatable, ((0, len(missing)), (0, 0)))
        self.rows_version += 1

    def _grow(self, more: int) -> None:
        size = self.size
        self.allocatable = with_columns(self.allocatable, more)
        self.ready = with_columns(self.ready, more)
        self.nodes.extend([None] * more)
        self._vacant.extend(range(size + more - 1, size - 1, -1))  # the smallest index is assigned first


def allocatable_of(node: Node) -> Amounts:
    """Return what a node offers, in base units, each amount at most ``MAX_AMOUNT``."""
    allocatable = in_base_units(node.status.allocatable).items()
    return {resource: max(0, min(amount, MAX_AMOUNT)) for resource, amount in allocatable}


def is_ready(node: Node) -> bool:
    """Return True if the node is ready.

    A node without the condition ``Ready`` is: a cluster without kubelets has no source for it.
    """
    ready = find_condition(node.status.conditions, "Ready")
    return ready is None or ready.status == "True"


def _scheduling_properties(node: Node) -> object:
    """Return the properties of a node, apart from amounts, that filters and scores read."""
    return node.metadata.labels, node.spec, is_ready(node), node.status.images
