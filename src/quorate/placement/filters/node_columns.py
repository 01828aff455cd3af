"""The properties of nodes that filters and scores read, as columns over node indexes.

Many nodes have equal values: a zone, a pool, a set of taints.  Each property is a *column*: its distinct
values are numbered, each node has a number, and a predicate is evaluated once per value and then spread over
the nodes.  The column of a label exists from the first query on.  A pod may name any number of labels, so all
labels without a node share one column.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final, Generic, TypeVar

from quorate.api.core import Taint
from quorate.api.core.scheduling import Node
from quorate.placement.vectors import Codes, Mask, Vector, np, with_columns

ABSENT: Final = -1  # the number of a node without a value
# Values of removed nodes that may remain numbered in excess of the size before the column is compacted.
_SPARE_VALUES: Final = 1024
UNLIMITED: Final = 2**31  # volumes of one driver on one node: more than any node attaches

VolumeLimits = frozenset[tuple[str, int]]  # driver and number of volumes
NO_LIMITS: Final[VolumeLimits] = frozenset()
Value = TypeVar("Value", bound=Hashable)


class Column(Generic[Value]):
    """One property of all nodes.

    Equal values have equal numbers, which are valid until ``compact``.
    """

    __slots__ = ("_numbers", "codes", "values")

    def __init__(self, size: int) -> None:
        self.codes: Codes = np.full(size, ABSENT, np.int32)  # the number of each node's value
        self.values: list[Value] = []  # by number
        self._numbers: dict[Value, int] = {}

    def set(self, node: int, value: Value | None) -> bool:
        """Set the node's value and return True if it changed."""
        code = ABSENT if value is None else self._number(value)
        if self.codes[node] == code:
            return False
        self.codes[node] = code
        return True

    def _number(self, value: Value) -> int:
        number = self._numbers.setdefault(value, len(self.values))
        if number == len(self.values):
            self.values.append(value)
        return number

    def present(self) -> Mask:
        present: Mask = self.codes != ABSENT
        return present

    def in_values(self, values: Iterable[Value]) -> Mask:
        """Return the nodes that have one of ``values``."""
        codes = [self._numbers[value] for value in values if value in self._numbers]
        if len(codes) == 1:
            mask: Mask = self.codes == codes[0]
            return mask
        table = np.zeros(len(self.values) + 1, np.bool_)  # ABSENT reads the last element
        table[codes] = True
        return table[self.codes]

    def where(self, matches: Callable[[Value], bool]) -> Mask:
        """Return the nodes with a value that ``matches``."""
        table = np.zeros(len(self.values) + 1, np.bool_)  # ABSENT reads the last element
        table[:-1] = [matches(value) for value in self.values]
        return table[self.codes]

    def by_node(self, amounts: Vector) -> Vector:
        """Return for each node the amount of its value, given by number; 0 if it has none."""
        table = np.zeros(len(self.values) + 1, np.int64)  # ABSENT reads the last element
        table[: len(amounts)] = amounts
        return table[self.codes]

    def compact(self) -> None:
        """Renumber the values, dropping values without a node."""
        used, codes = np.unique(self.codes, return_inverse=True)
        absent = int(used[0] == ABSENT)  # sorted first if any node has no value
        self.codes = (codes - absent).astype(np.int32)
        self.values = [self.values[number] for number in used[absent:]]
        self._numbers = {value: number for number, value in enumerate(self.values)}

    def grow(self, size: int) -> None:
        self.codes = with_columns(self.codes, size - len(self.codes), ABSENT)


class NodeColumns:
    """The columns of all nodes.

    An index without a node is ``vacant`` and may be given to another node.
    """

    def __init__(self) -> None:
        self.size = 0
        self.generation = 0  # incremented with every change of a value: earlier results are then stale
        self._nodes: list[Node | None] = []
        self._nodes_with: dict[str, int] = {}  # by label key: how many nodes have it, at least 1
        self._labels: dict[str, Column[str]] = {}  # the labels that were queried and that a node has
        self._no_label: Column[str] = Column(0)  # of all keys that no node has: pods may name any number
        self._unique_labels: dict[str, tuple[int, bool]] = {}  # by key: generation of the result, and result
        self._limits_of: dict[str, VolumeLimits] = {}  # by node name, whether the node exists or not
        self._unreadable_of: dict[str, str] = {}  # in the same way; without empty values
        self.names: Column[str] = Column(0)
        self.taints: Column[tuple[Taint, ...]] = Column(0)  # the empty tuple is a value too
        self._limits: Column[VolumeLimits] = Column(0)
        self.unreadable_pod: Column[str] = Column(0)  # one that is on the node with unknown requests
        self.unschedulable: Mask = np.zeros(0, np.bool_)
        self.ready: Mask = np.zeros(0, np.bool_)

    @property
    def vacant(self) -> Mask:
        return ~self.names.present()

    @property
    def count(self) -> int:
        return int(np.count_nonzero(self.names.present()))

    def grow(self, size: int) -> None:
        """Extend all columns to ``size`` indexes."""
        if size == self.size:
            return
        self._nodes.extend([None] * (size - self.size))
        for texts in (self.names, self._no_label, *self._labels.values()):
            texts.grow(size)
        self.taints.grow(size)
        self._limits.grow(size)
        self.unreadable_pod.grow(size)
        self.unschedulable = with_columns(self.unschedulable, size - self.size)
        self.ready = with_columns(self.ready, size - self.size)
        self.size = size
        self.generation += 1

    def set(self, index: int, node: Node | None, ready: bool) -> None:
        """Set the values of the node at ``index``; None if the index is vacant."""
        old, self._nodes[index] = self._nodes[index], node
        name = None if node is None else node.metadata.name
        changes = [
            self.names.set(index, name),
            self.taints.set(index, None if node is None else node.spec.taints),
            self._limits.set(index, None if name is None else self._limits_of.get(name, NO_LIMITS)),
            self.unreadable_pod.set(index, None if name is None else self._unreadable_of.get(name)),
            _set_flag(self.unschedulable, index, node is not None and node.spec.unschedulable),
            _set_flag(self.ready, index, ready),
            *(column.set(index, _label(node, key)) for key, column in self._labels.items()),
            self._count_labels(_labels(old), _labels(node)),
        ]
        if any(changes):
            self.generation += 1
        if len(self.names.values) > 2 * self.size + _SPARE_VALUES:
            self._compact()

    def _count_labels(self, old: Mapping[str, str], new: Mapping[str, str]) -> bool:
        """Count the nodes by label key; return True if no node had a key before."""
        if old == new:
            return False
        is_first = False
        for key in new.keys() - old.keys():
            number = self._nodes_with[key] = self._nodes_with.get(key, 0) + 1
            is_first = is_first or number == 1
        for key in old.keys() - new.keys():
            self._nodes_with[key] -= 1
            if not self._nodes_with[key]:
                del self._nodes_with[key]
                self._labels.pop(key, None)
                self._unique_labels.pop(key, None)
        return is_first

    def _compact(self) -> None:
        for texts in (self.names, self.unreadable_pod, *self._labels.values()):
            texts.compact()
        self.taints.compact()
        self._limits.compact()
        self.generation += 1

    def set_limits(self, name: str, limits: VolumeLimits) -> None:
        """Set how many volumes of each driver the node named ``name`` can attach."""
        self._limits_of[name] = limits
        for index in np.flatnonzero(self.names.in_values((name,))):
            if self._limits.set(int(index), limits):
                self.generation += 1

    def set_unreadable_pod(self, name: str, pod: str) -> None:
        """Set a pod that the node named ``name`` has and that cannot be read; "" for none."""
        self._unreadable_of.pop(name, None)
        if pod:
            self._unreadable_of[name] = pod
        for index in np.flatnonzero(self.names.in_values((name,))):
            if self.unreadable_pod.set(int(index), pod or None):
                self.generation += 1

    def label(self, key: str) -> Column[str]:
        if key not in self._nodes_with:
            return self._no_label
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = Column(self.size)
            for index, node in enumerate(self._nodes):
                column.set(index, _label(node, key))
        return column

    def is_unique_label(self, key: str) -> bool:
        """Return True if no two nodes have the same value of the label ``key``.

        Each of its topology domains is then a single node.
        """
        if key not in self._nodes_with:
            return True
        generation, unique = self._unique_labels.get(key, (-1, False))
        if generation != self.generation:
            codes = self.label(key).codes
            used = codes[codes != ABSENT]
            unique = len(np.unique(used)) == len(used)
            self._unique_labels[key] = self.generation, unique
        return unique

    def limits(self, driver: str) -> Vector:
        """Return for each node how many volumes of ``driver`` it can attach."""
        by_value = [dict(limits).get(driver, UNLIMITED) for limits in self._limits.values]
        return self._limits.by_node(np.array(by_value, np.int64))


def _label(node: Node | None, key: str) -> str | None:
    return None if node is None else node.metadata.labels.get(key)


def _labels(node: Node | None) -> Mapping[str, str]:
    return {} if node is None else node.metadata.labels


def _set_flag(flags: Mask, index: int, value: bool) -> bool:
    """Set one flag and return True if it changed."""
    changed = bool(flags[index]) is not value
    flags[index] = value
    return changed
