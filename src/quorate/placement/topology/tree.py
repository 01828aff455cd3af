"""The domains of a topology: the distinct values of its levels on the nodes of a flavor.

A domain is identified by the values of all levels down to its own, its *path*.  The domains of each level
are numbered in the order of their paths, so the children of a domain have consecutive numbers.  A *leaf* is a
domain of the lowest level: a host if that is ``kubernetes.io/hostname``, else all nodes of one path together.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np

from quorate.api.core.scheduling import Node
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.resources import in_base_units
from quorate.placement.vectors import Vector

HOSTNAME: Final = "kubernetes.io/hostname"
MAX_AMOUNT: Final = 2**60  # of a resource of one leaf, so that a few amounts can be added

Path = tuple[str, ...]


class DomainTree:
    """The domains of the nodes of one flavor, with the free capacity of each leaf.

    A change of the nodes, except for what their pods use, makes a new tree.
    """

    def __init__(self, topology: str, levels: Sequence[str], nodes: Iterable[Node]) -> None:
        """Build the domains of ``nodes``, each of which has a value for every level."""
        self.topology = topology
        self.levels = tuple(levels)
        self.has_hosts = self.levels[-1] == HOSTNAME
        by_leaf = self._nodes_by_leaf(nodes)
        leaves = sorted(by_leaf)
        self.leaf_count = len(leaves)
        # By level: the path of each domain, the number of its parent, and that of its first child (and, last,
        # the number of domains below).  Domains of the highest level have no parents, leaves no children.
        self.paths: list[list[Path]] = []
        self.parents: list[Vector] = []
        self.first_child: list[Vector] = []
        for level in range(len(self.levels)):
            self.paths.append(list(dict.fromkeys(path[: level + 1] for path in leaves)))
            number = {path: index for index, path in enumerate(self.paths[level - 1])} if level else {}
            parents = [number[path[:-1]] for path in self.paths[level]] if level else []
            self.parents.append(np.array(parents, np.int64))
            if level:
                self.first_child.append(np.searchsorted(self.parents[level], np.arange(len(number) + 1)))
        self._leaf_of = {self._recorded(path): leaf for leaf, path in enumerate(leaves)}
        self.hosts = NodeColumns()  # by leaf; only if leaves are hosts
        if self.has_hosts:
            self.hosts.grow(self.leaf_count)
        self._rows: dict[str, int] = {}
        # By resource and leaf: what pods of others leave, and what pods placed in the topology use of it.
        self._free = np.zeros((0, self.leaf_count), np.int64)
        self._used = np.zeros((0, self.leaf_count), np.int64)
        for leaf, path in enumerate(leaves):
            if self.has_hosts:
                self.hosts.set(leaf, by_leaf[path][0], ready=True)
            for node in by_leaf[path]:
                self.add_free(leaf, in_base_units(node.status.allocatable))

    def _nodes_by_leaf(self, nodes: Iterable[Node]) -> dict[Path, list[Node]]:
        result: dict[Path, list[Node]] = {}
        path_of_host: dict[str, Path] = {}
        for node in sorted(nodes, key=lambda node: node.metadata.name):
            path = tuple(node.metadata.labels[level] for level in self.levels)
            if self.has_hosts:  # the first node with a host name gives the host its path
                path = path_of_host.setdefault(path[-1], path)
            result.setdefault(path, []).append(node)
        return result

    def _recorded(self, path: Path) -> Path:
        return path[-1:] if self.has_hosts else path

    @property
    def recorded_levels(self) -> tuple[str, ...]:
        """The levels of the values that an assignment records: the host name alone, or all."""
        return self._recorded(self.levels)

    def recorded_values(self, leaf: int) -> Path:
        return self._recorded(self.paths[-1][leaf])

    def leaf_of(self, recorded_values: Path) -> int | None:
        """Return the leaf with the recorded values; None if it does not exist, or no longer."""
        return self._leaf_of.get(recorded_values)

    def leaf_of_node(self, node: Node) -> int:
        """Return the leaf of one of the nodes of the tree."""
        path = tuple(node.metadata.labels[level] for level in self.levels)
        return self._leaf_of[self._recorded(path)]

    def level_of(self, label: str) -> int | None:
        return self.levels.index(label) if label in self.levels else None

    def children(self, level: int, domain: int) -> Vector:
        """Return the numbers of the children of a domain, one level lower."""
        first = self.first_child[level]
        return np.arange(first[domain], first[domain + 1])

    def leaves_below(self, level: int, domain: int) -> slice:
        """Return the range of the leaves in a domain."""
        first, last = domain, domain + 1
        for below in self.first_child[level:]:
            first, last = int(below[first]), int(below[last])
        return slice(first, last)

    def add_free(self, leaf: int, amounts: Mapping[str, int], times: int = 1) -> None:
        """Add ``amounts`` to the free capacity of a leaf, ``times`` times; a negative number takes them."""
        for resource, amount in amounts.items():
            row = self._row(resource)  # may replace the matrix
            _add(self._free, row, leaf, amount * times)

    def add_used(self, leaf: int, amounts: Mapping[str, int], times: int = 1) -> None:
        """Add ``amounts`` to what pods placed in the topology use of a leaf."""
        for resource, amount in amounts.items():
            row = self._row(resource)
            _add(self._used, row, leaf, amount * times)

    def _row(self, resource: str) -> int:
        row = self._rows.get(resource)
        if row is None:
            row = self._rows[resource] = len(self._rows)
            more = np.zeros((1, self.leaf_count), np.int64)
            self._free, self._used = np.vstack([self._free, more]), np.vstack([self._used, more])
        return row

    def remaining(self, resource: str, *, empty: bool = False) -> Vector:
        """Return the capacity of each leaf that is not used, 0 where the nodes lack the resource.

        ``empty``: as if no pods had been placed in the topology.
        """
        row = self._rows.get(resource)
        if row is None:
            return np.zeros(self.leaf_count, np.int64)
        remaining: Vector = self._free[row].copy() if empty else self._free[row] - self._used[row]
        return remaining


def _add(amounts: Vector, row: int, leaf: int, amount: int) -> None:
    amounts[row, leaf] = max(-MAX_AMOUNT, min(MAX_AMOUNT, int(amounts[row, leaf]) + amount))
