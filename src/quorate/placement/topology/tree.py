"""The domains of a topology: the distinct values of its levels on the nodes of a flavor.

A domain is identified by the values of all levels down to its own, its *path*.  The domains of each level
are numbered in the order of their paths, so the children of a domain have consecutive numbers.  A *leaf* is a
domain of the lowest level: a host if that is ``kubernetes.io/hostname``, else all nodes of one path together.
"""

from bisect import bisect_left
from collections.abc import Iterable, KeysView, Mapping, Sequence
from typing import Final

from quorate.api.core.scheduling import Node
from quorate.api.kueue.topology import HOSTNAME
from quorate.placement.cluster import Cluster
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.topology.leaf_fits import LeafFits
from quorate.placement.topology.leaf_hosts import LeafHosts
from quorate.placement.vectors import Mask, Vector, np

MAX_AMOUNT: Final = 2**60  # of a resource of one leaf, so that a few amounts can be added
_MAX_SHARE: Final = 2**50  # of one node in a sum: a thousand of them add up to less than MAX_AMOUNT
_NO_COLUMN: Final = -1
_SPARE: Final = 32  # columns to allocate at least when leaves are added


def vector_amount(requested: int) -> int:
    """Return an amount of one pod for calculations in 64 bits: what no leaf has remains more than it has."""
    return min(requested, MAX_AMOUNT + 1)


Path = tuple[str, ...]


class DomainTree:
    """The domains of the nodes of one flavor: an index over the nodes of a cluster.

    What a leaf has left is the sum over its nodes, less what pods placed in the topology use of it.  What
    belongs to a leaf is stored in a *column*, which it keeps while other leaves come and go.
    """

    def __init__(self, topology: str, levels: Sequence[str], cluster: Cluster, nodes: Iterable[Node]) -> None:
        """Build the domains of ``nodes``, which are in ``cluster`` and have a value for every level."""
        self._cluster = cluster
        self.topology = topology
        self.levels = tuple(levels)
        self.has_hosts = self.levels[-1] == HOSTNAME
        by_leaf = self._nodes_by_leaf(nodes)
        leaves = sorted(by_leaf)
        # By level: the path of each domain, and the number of its first child (and, last, the number of
        # domains below).  Leaves have no children.
        self.paths: list[list[Path]] = []
        self.first_child: list[Vector] = []
        for level in range(len(self.levels)):
            self.paths.append(list(dict.fromkeys(path[: level + 1] for path in leaves)))
            if level:
                number = {path: index for index, path in enumerate(self.paths[level - 1])}
                parents = np.array([number[path[:-1]] for path in self.paths[level]], np.int64)
                self.first_child.append(np.searchsorted(parents, np.arange(len(number) + 1)))
        self.columns: Vector = np.arange(len(leaves))  # by leaf
        self._leaf_in: Vector | None = None  # by column; None: to be computed
        self._column_of = {self._recorded(path): column for column, path in enumerate(leaves)}
        self._nodes_in = [0] * len(leaves)  # by column; 0: the column is spare
        self._node_count = 0
        self._column_at: Vector = np.full(cluster.size, _NO_COLUMN)  # by index in the cluster
        self._first_in: Vector = np.zeros(len(leaves), np.int64)  # by column: the index of one of its nodes
        self._spare: list[int] = []
        self.hosts = NodeColumns()  # by column; only if leaves are hosts
        if self.has_hosts:
            self.hosts.grow(len(leaves))
        self.below = None if self.has_hosts else LeafHosts(cluster)
        self.fits = LeafFits()
        self._used: dict[str, Vector] = {}  # what pods placed in the topology use, by resource and column
        for column, path in enumerate(leaves):
            if self.has_hosts:
                self.hosts.set(column, by_leaf[path][0], ready=True)
            for node in by_leaf[path]:
                if self.below is not None:
                    self.below.put(column, path, node)
                self._join(column, node)

    def _nodes_by_leaf(self, nodes: Iterable[Node]) -> dict[Path, list[Node]]:
        result: dict[Path, list[Node]] = {}
        path_of_host: dict[str, Path] = {}
        for node in sorted(nodes, key=lambda node: node.metadata.name):
            path = self._path(node)
            if self.has_hosts:  # the first node with a host name gives the host its path
                path = path_of_host.setdefault(path[-1], path)
            result.setdefault(path, []).append(node)
        return result

    def _path(self, node: Node) -> Path:
        return tuple([node.metadata.labels[level] for level in self.levels])

    def _recorded(self, path: Path) -> Path:
        return path[-1:] if self.has_hosts else path

    # Domains.

    @property
    def leaf_count(self) -> int:
        return len(self.columns)

    @property
    def column_count(self) -> int:
        return len(self._nodes_in)

    @property
    def indexes(self) -> Vector:
        """The index in the cluster of each leaf, a host; of several nodes that share the name, one."""
        return self._first_in[self.columns]

    @property
    def recorded_levels(self) -> tuple[str, ...]:
        """The levels of the values that an assignment records: the host name alone, or all."""
        return self._recorded(self.levels)

    def recorded_values(self, leaf: int) -> Path:
        return self._recorded(self.paths[-1][leaf])

    def recorded_values_of(self, node: Node) -> Path:
        """Return the recorded values of the leaf of one of the nodes of the tree."""
        return self._recorded(self._path(node))

    def leaves_with(self, hosts: Mask) -> Mask:
        """Return the leaves with one of ``hosts``: a mask of columns, or of the hosts below the leaves."""
        if self.below is not None:
            hosts = self.below.in_columns(hosts, self.column_count)
        return hosts[self.columns]

    def leaf_of(self, recorded_values: Path) -> int | None:
        """Return the leaf with the recorded values; None if it does not exist, or no longer."""
        column = self._column_of.get(recorded_values)
        if column is None:
            return None
        if self._leaf_in is None:
            self._leaf_in = np.zeros(len(self._nodes_in), np.int64)
            self._leaf_in[self.columns] = np.arange(self.leaf_count)
        return int(self._leaf_in[column])

    def level_of(self, label: str) -> int | None:
        return self.levels.index(label) if label in self.levels else None

    def children(self, level: int, domain: int) -> Vector:
        """Return the numbers of the children of a domain, one level lower."""
        members = self.range_of_children(level, domain)
        return np.arange(members.start, members.stop)

    def range_of_children(self, level: int, domain: int) -> slice:
        """Return the same as a range."""
        first = self.first_child[level]
        return slice(int(first[domain]), int(first[domain + 1]))

    def leaves_below(self, level: int, domain: int) -> slice:
        """Return the range of the leaves in a domain."""
        first, last = domain, domain + 1
        for below in self.first_child[level:]:
            first, last = int(below[first]), int(below[last])
        return slice(first, last)

    # Changes of nodes.

    def can_change(self, old: Node | None, new: Node | None) -> bool:
        """Return False if nodes share a host name: then another node may decide about the host."""
        if not self.has_hosts:
            return True
        if old is not None and self._nodes_in[self._column_of[self.recorded_values_of(old)]] != 1:
            return False
        if new is None or (old is not None and self.recorded_values_of(old) == self.recorded_values_of(new)):
            return True
        return self.recorded_values_of(new) not in self._column_of

    def replace_node(self, old: Node, new: Node) -> bool:
        """Read a node that changed in its place; return False, without effect, if its path changed."""
        path = self._path(new)
        if path != self._path(old):
            return False
        column = self._column_of[self._recorded(path)]
        if self.has_hosts:
            self.hosts.set(column, new, ready=True)
        if self.below is not None:
            self.below.put(column, path, new)
        self.fits.clear()
        return True

    def add_node(self, node: Node) -> bool:
        """Return True if the node begins a leaf, of which no pods use anything yet."""
        path = self._path(node)
        column = self._column_of.get(self._recorded(path))
        is_first = column is None
        if column is None:
            column = self._column_of[self._recorded(path)] = self._spare_column()
            self._insert_leaf(path, column)
        if self.below is not None:
            self.below.put(column, path, node)
        self._join(column, node)
        if self.has_hosts:
            self.hosts.set(column, node, ready=True)
        self.fits.clear()
        return is_first

    def remove_node(self, node: Node) -> None:
        """Remove one of the nodes of the tree, before the cluster does; its leaf goes with the last one."""
        path = self._path(node)
        column = self._column_of[self._recorded(path)]
        self._nodes_in[column] -= 1
        self._node_count -= 1
        self._column_at[self._index(node)] = _NO_COLUMN
        if self.below is not None:
            self.below.remove(column, node.metadata.name)
        if self._nodes_in[column]:
            self._first_in[column] = self._indexes_in(column)[0]
        else:
            self._remove_leaf(path)
            del self._column_of[self._recorded(path)]
            for used in self._used.values():
                used[column] = 0
            if self.has_hosts:
                self.hosts.set(column, None, ready=False)
            self._spare.append(column)
        self.fits.clear()

    def _join(self, column: int, node: Node) -> None:
        """Add a node to the nodes of a column."""
        index = self._index(node)
        if index >= len(self._column_at):
            more = self._cluster.size - len(self._column_at)
            self._column_at = np.pad(self._column_at, (0, more), constant_values=_NO_COLUMN)
        self._column_at[index] = column
        if not self._nodes_in[column]:
            self._first_in[column] = index
        self._nodes_in[column] += 1
        self._node_count += 1

    def _index(self, node: Node) -> int:
        index = self._cluster.index(node.metadata.name)
        assert index is not None, f"{node.metadata.name} is not in the cluster"
        return index

    def _indexes_in(self, column: int) -> Vector:
        """Return the indexes in the cluster of the nodes of a column."""
        return np.flatnonzero(self._column_at == column)

    def _spare_column(self) -> int:
        if not self._spare:
            size = len(self._nodes_in)
            more = max(_SPARE, size // 8)
            self._spare = list(range(size, size + more))
            self._nodes_in += [0] * more
            self._first_in = np.pad(self._first_in, (0, more))
            self._used = {resource: np.pad(used, (0, more)) for resource, used in self._used.items()}
            if self.has_hosts:
                self.hosts.grow(size + more)
        return self._spare.pop()

    def _insert_leaf(self, path: Path, column: int) -> None:
        number = bisect_left(self.paths[-1], path)
        self.paths[-1].insert(number, path)
        self.columns, self._leaf_in = _with(self.columns, number, column), None
        for level in range(len(self.levels) - 2, -1, -1):
            above = path[: level + 1]
            parent = bisect_left(self.paths[level], above)
            is_new = parent == len(self.paths[level]) or self.paths[level][parent] != above
            if is_new:
                self.paths[level].insert(parent, above)
                self.first_child[level] = _with(self.first_child[level], parent, number)
            self.first_child[level][parent + 1 :] += 1
            if not is_new:
                return
            number = parent

    def _remove_leaf(self, path: Path) -> None:
        number = bisect_left(self.paths[-1], path)
        self.columns, self._leaf_in = _without(self.columns, number), None
        del self.paths[-1][number]
        for level in range(len(self.levels) - 2, -1, -1):
            parent = bisect_left(self.paths[level], path[: level + 1])
            first = self.first_child[level]
            first[parent + 1 :] -= 1
            if first[parent] < first[parent + 1]:
                return
            self.first_child[level] = _without(first, parent)
            del self.paths[level][parent]

    # Capacity.

    def note_usage(self, node: Node) -> None:
        """Read that other pods use a node."""
        column = self._column_of.get(self.recorded_values_of(node))
        if column is not None:
            self.fits.note(column)

    def add_used(self, recorded_values: Path, amounts: Mapping[str, int], times: int = 1) -> None:
        """Add ``amounts`` to what pods placed in the topology use of a leaf, if it exists."""
        column = self._column_of.get(recorded_values)
        if column is None:
            return
        for resource, amount in amounts.items():
            used = self._used.get(resource)
            if used is None:
                used = self._used[resource] = np.zeros(self.column_count, np.int64)
            total = used.item(column) + amount * times
            used[column] = max(-MAX_AMOUNT, min(MAX_AMOUNT, total))
        self.fits.note(column)

    @property
    def leaves(self) -> KeysView[Path]:
        """The recorded values of all leaves."""
        return self._column_of.keys()

    def nodes_in(self, recorded_values: Path) -> int:
        """Return the number of nodes of a leaf."""
        return self._nodes_in[self._column_of[recorded_values]]

    def node_names(self, recorded_values: Path) -> Iterable[str]:
        """Return the names of the nodes of a leaf: several below a rack, or if they share a host name."""
        column = self._column_of[recorded_values]
        if self.below is not None:
            return self.below.names_in(column)
        is_one = self._nodes_in[column] == 1
        indexes = (self._first_in.item(column),) if is_one else self._indexes_in(column)
        nodes = [self._cluster.nodes[index] for index in indexes]
        return [node.metadata.name for node in nodes if node is not None]

    def amounts_of(self, recorded_values: Path) -> tuple[dict[str, int], dict[str, int]]:
        """Return two amounts of a leaf by resource: what it has for placed pods, and what placed pods use.

        Pods without a place reduce the first amount.  Resources that the nodes do not have and no pod uses
        are left out.
        """
        column, cluster = self._column_of[recorded_values], self._cluster
        indexes = self._indexes_in(column)
        read = (cluster.allocatable[:, indexes] | cluster.used[:, indexes]).any(axis=1)
        names = [cluster.resources[row] for row in np.flatnonzero(read)]
        free = {resource: self.remaining_in(column, resource, empty=True) for resource in names}
        return free, {name: int(used[column]) for name, used in self._used.items() if used[column]}

    def remaining(self, resource: str, *, empty: bool = False) -> Vector:
        """Return the capacity of each leaf that is not used, 0 where the nodes lack the resource.

        ``empty``: as if no pods had been placed in the topology.
        """
        return self.remaining_by_column(resource, empty=empty)[self.columns]

    def allocatable(self, resource: str) -> Vector:
        """Return what the nodes of each leaf have, whatever uses it."""
        return self._sums(self._cluster.allocatable[self._cluster.row(resource)])[self.columns]

    def remaining_by_column(self, resource: str, *, empty: bool = False) -> Vector:
        """Return the same in the order of the columns, some of which are of no leaf; not to be changed."""
        free, used = self._sums(self._cluster.idle(resource)), self._used.get(resource)
        return free if empty or used is None else free - used

    def _sums(self, amounts: Vector) -> Vector:
        """Return the sums by column of the amounts of nodes; a column of no leaf has any number."""
        if self._node_count == self.leaf_count != 0:  # one node each
            return amounts.take(self._first_in)
        sums = np.zeros_like(self._first_in)
        indexes = np.flatnonzero(self._column_at != _NO_COLUMN)
        np.add.at(sums, self._column_at[indexes], _shares(amounts[indexes]))
        return sums

    def remaining_in(self, column: int, resource: str, *, empty: bool = False) -> int:
        """Return the same of one column."""
        cluster = self._cluster
        row = cluster.rows.get(resource)
        if row is None:
            free = 0
        elif self._nodes_in[column] == 1:
            index = self._first_in.item(column)  # a fraction of the cost of int(...[...]), here and below
            free = cluster.allocatable.item(row, index) - cluster.used.item(row, index)
        else:
            free = int(_shares(cluster.idle(resource)[self._indexes_in(column)]).sum())
        used = None if empty else self._used.get(resource)
        return free if used is None else free - used.item(column)

    def column_of(self, recorded_values: Path) -> int | None:
        """Return the column of a leaf; None if it does not exist."""
        return self._column_of.get(recorded_values)

    def has_room(self, recorded_values: Path, amounts: Mapping[str, int]) -> bool:
        """Return True if a leaf exists that has ``amounts`` left."""
        column = self._column_of.get(recorded_values)
        if column is None:
            return False
        for resource, amount in amounts.items():  # noqa: SIM110  called for each admission, where all() costs more
            if amount > self.remaining_in(column, resource):
                return False
        return True


def _shares(amounts: Vector) -> Vector:
    return amounts.clip(-_MAX_SHARE, _MAX_SHARE)


def _with(numbers: Vector, at: int, number: int) -> Vector:
    """Return the numbers with one more; a fraction of the cost of ``np.insert``."""
    result = np.empty(len(numbers) + 1, numbers.dtype)
    result[:at], result[at], result[at + 1 :] = numbers[:at], number, numbers[at:]
    return result


def _without(numbers: Vector, at: int) -> Vector:
    return np.concatenate([numbers[:at], numbers[at + 1 :]])
