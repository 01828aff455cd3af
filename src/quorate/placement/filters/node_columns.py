"""What constraints read of nodes, as columns over node indexes.

Nodes share most of what is asked about them: a zone, a pool, a set of taints.  Each such fact is a *column*:
distinct values are numbered once, each node holds a number, and a question is answered for the values and
then spread over the nodes.  A label's column exists from the first question about it.
"""

from collections.abc import Callable, Hashable, Iterable
from typing import Final, Generic, TypeVar

import numpy as np

from quorate.api.core import Taint
from quorate.api.core.scheduling import Node
from quorate.placement.vectors import Codes, Mask, Vector

ABSENT: Final = -1  # the number of a node that lacks the fact
# Names of nodes that are gone and still have a number: more of them are not worth their room.
_SPARE: Final = 1024
UNLIMITED: Final = 2**31  # volumes of one driver on one node: more than anybody attaches

Limits = frozenset[tuple[str, int]]  # of volumes, by driver
NO_LIMITS: Final[Limits] = frozenset()
Value = TypeVar("Value", bound=Hashable)


class Column(Generic[Value]):
    """One fact of all nodes.  Equal values have equal numbers, which mean the same until ``renumber``."""

    __slots__ = ("_numbers", "codes", "values")

    def __init__(self, size: int) -> None:
        self.codes: Codes = np.full(size, ABSENT, np.int32)
        self.values: list[Value] = []  # by number
        self._numbers: dict[Value, int] = {}

    def set(self, node: int, value: Value | None) -> bool:
        """Note the node's value; whether that is news."""
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

    def among(self, wanted: Iterable[Value]) -> Mask:
        """The nodes that have one of ``wanted``."""
        having = np.zeros(len(self.codes), np.bool_)
        for value in wanted:
            if value in self._numbers:
                having |= self.codes == self._numbers[value]
        return having

    def those(self, matches: Callable[[Value], bool]) -> Mask:
        """The nodes whose value ``matches``; one that has none does not."""
        table = np.zeros(len(self.values) + 1, np.bool_)  # the last place is read with ABSENT
        table[:-1] = [matches(value) for value in self.values]
        return table[self.codes]

    def spread(self, amounts: Vector) -> Vector:
        """For each node the amount of its value, given by number; 0 where it has none."""
        table = np.zeros(len(self.values) + 1, np.int64)  # the last place is read with ABSENT
        table[: len(amounts)] = amounts
        return table[self.codes]

    def renumber(self) -> None:
        """Give up the numbers of values that no node has any more."""
        used, codes = np.unique(self.codes, return_inverse=True)
        absent = int(used[0] == ABSENT)  # it comes first if any node lacks the fact
        self.codes = (codes - absent).astype(np.int32)
        self.values = [self.values[number] for number in used[absent:]]
        self._numbers = {value: number for number, value in enumerate(self.values)}

    def grow(self, size: int) -> None:
        self.codes = np.pad(self.codes, (0, size - len(self.codes)), constant_values=ABSENT)


class NodeColumns:
    """The facts of all nodes.  An index without a node is ``vacant``, and may be given to another one."""

    def __init__(self) -> None:
        self.size = 0
        self.generation = 0  # moves with every change of a fact: answers made before are stale
        self._nodes: list[Node | None] = []
        self._labels: dict[str, Column[str]] = {}  # those asked about
        self._own_domains: dict[str, tuple[int, bool]] = {}  # by label: generation of the answer, and answer
        self._limits_of: dict[str, Limits] = {}  # by name of node, whether there is such a node or not
        self.names: Column[str] = Column(0)
        self.taints: Column[tuple[Taint, ...]] = Column(0)  # to have none is a value like others
        self._limits: Column[Limits] = Column(0)
        self.cordoned: Mask = np.zeros(0, np.bool_)
        self.ready: Mask = np.zeros(0, np.bool_)

    @property
    def vacant(self) -> Mask:
        return ~self.names.present()

    @property
    def count(self) -> int:
        return int(np.count_nonzero(self.names.present()))

    def grow(self, size: int) -> None:
        """Answer for indexes below ``size`` from now on."""
        if size == self.size:
            return
        self._nodes.extend([None] * (size - self.size))
        for texts in (self.names, *self._labels.values()):
            texts.grow(size)
        self.taints.grow(size)
        self._limits.grow(size)
        self.cordoned = np.pad(self.cordoned, (0, size - self.size))
        self.ready = np.pad(self.ready, (0, size - self.size))
        self.size = size
        self.generation += 1

    def set(self, index: int, node: Node | None, ready: bool) -> None:
        """Take what is read of the node at ``index``; None if there is none any more."""
        self._nodes[index] = node
        name = None if node is None else node.metadata.name
        changes = [
            self.names.set(index, name),
            self.taints.set(index, None if node is None else node.spec.taints),
            self._limits.set(index, None if name is None else self._limits_of.get(name, NO_LIMITS)),
            _flag(self.cordoned, index, node is not None and node.spec.unschedulable),
            _flag(self.ready, index, ready),
            *(column.set(index, _label(node, key)) for key, column in self._labels.items()),
        ]
        if any(changes):
            self.generation += 1
        if len(self.names.values) > 2 * self.size + _SPARE:
            self._renumber()

    def _renumber(self) -> None:
        for texts in (self.names, *self._labels.values()):
            texts.renumber()
        self.taints.renumber()
        self._limits.renumber()
        self.generation += 1

    def set_limits(self, name: str, limits: Limits) -> None:
        """Note how many volumes of which drivers the node of that name takes."""
        self._limits_of[name] = limits
        for index in np.flatnonzero(self.names.among((name,))):
            if self._limits.set(int(index), limits):
                self.generation += 1

    def label(self, key: str) -> Column[str]:
        column = self._labels.get(key)
        if column is None:
            column = self._labels[key] = Column(self.size)
            for index, node in enumerate(self._nodes):
                column.set(index, _label(node, key))
        return column

    def is_own_domain(self, key: str) -> bool:
        """Whether no two nodes have the same value of the label ``key``."""
        generation, answer = self._own_domains.get(key, (-1, False))
        if generation != self.generation:
            codes = self.label(key).codes
            used = codes[codes != ABSENT]
            answer = len(np.unique(used)) == len(used)
            self._own_domains[key] = self.generation, answer
        return answer

    def limits(self, driver: str) -> Vector:
        """For each node how many volumes of ``driver`` it takes."""
        by_value = [dict(limits).get(driver, UNLIMITED) for limits in self._limits.values]
        return self._limits.spread(np.array(by_value, np.int64))


def _label(node: Node | None, key: str) -> str | None:
    return None if node is None else node.metadata.labels.get(key)


def _flag(flags: Mask, index: int, value: bool) -> bool:
    """Set one flag; whether that is news."""
    changed = bool(flags[index]) is not value
    flags[index] = value
    return changed
