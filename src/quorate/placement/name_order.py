"""The order of nodes by name, which breaks ties between equal scores."""

from bisect import bisect_left
from typing import Final

from quorate.placement.cluster import Cluster
from quorate.placement.vectors import Vector, np

NOWHERE: Final = -1

# With more nodes added and removed than this, sorting all names is faster than single insertions.
_MAX_INSERTIONS: Final = 64


class NameOrder:
    """A node's *position* is its rank in the order of names; its *index* is that of the cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._read_to = -1  # position in the log of node changes
        self._names: list[str] = []  # by position
        self._name_at: list[str | None] = []  # by index
        self.version = 0  # changes when a node is added or removed
        self.indexes: Vector = np.zeros(0, np.int64)  # by position
        self.positions: Vector = np.zeros(0, np.int64)  # by index; ``NOWHERE`` at vacant ones

    def refresh(self) -> None:
        log = self._cluster.node_changes
        if self._read_to == log.end:
            return
        changed = log.since(self._read_to) if len(self._name_at) == self._cluster.size else None
        self._read_to = log.end
        if changed is None or len(changed) > _MAX_INSERTIONS:
            self._sort()
        else:
            self._replace([index for index in changed if self._name_at[index] != self._name(index)])

    def _name(self, index: int) -> str | None:
        node = self._cluster.nodes[index]
        return None if node is None else node.metadata.name

    def _sort(self) -> None:
        self._name_at = [self._name(index) for index in range(self._cluster.size)]
        ordered = sorted((name, index) for index, name in enumerate(self._name_at) if name is not None)
        self._names = [name for name, _ in ordered]
        self._set_order(np.array([index for _, index in ordered], np.int64))

    def _replace(self, indexes: list[int]) -> None:
        """Update the names at ``indexes``.

        Remove all old names first: a name may have moved from one index to another.
        """
        by_position = self.indexes
        for index in indexes:
            before = self._name_at[index]
            if before is not None:
                position = bisect_left(self._names, before)
                del self._names[position]
                by_position = np.delete(by_position, position)
        for index in indexes:
            name = self._name_at[index] = self._name(index)
            if name is not None:
                position = bisect_left(self._names, name)
                self._names.insert(position, name)
                by_position = np.insert(by_position, position, index)
        if indexes:
            self._set_order(by_position)

    def _set_order(self, by_position: Vector) -> None:
        self.version += 1
        self.indexes = by_position
        self.positions = np.full(self._cluster.size, NOWHERE)
        self.positions[by_position] = np.arange(len(by_position))
