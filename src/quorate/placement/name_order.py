"""The nodes in the order of their names, so that the first of equals is the one to choose."""

from bisect import bisect_left
from typing import Final

import numpy as np

from quorate.placement.cluster import Cluster
from quorate.placement.vectors import Vector

NOWHERE: Final = -1

# When more nodes than that have come and gone, sorting all of them is quicker.
_FEW: Final = 64


class NameOrder:
    """A node's *position* is its place in the order of names."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._read_to = -1  # of the log of facts
        self._names: list[str] = []  # by position
        self._at: list[str | None] = []  # by index
        self.version = 0  # moves when a node comes or goes
        self.indexes: Vector = np.zeros(0, np.int64)  # by position
        self.positions: Vector = np.zeros(0, np.int64)  # by index; ``NOWHERE`` for vacant ones

    def refresh(self) -> None:
        log = self._cluster.node_changes
        if self._read_to == log.end:
            return
        changed = log.since(self._read_to) if len(self._at) == self._cluster.size else None
        self._read_to = log.end
        if changed is None or len(changed) > _FEW:
            self._sort()
        else:
            self._replace([index for index in changed if self._at[index] != self._name(index)])

    def _name(self, index: int) -> str | None:
        node = self._cluster.nodes[index]
        return None if node is None else node.metadata.name

    def _sort(self) -> None:
        self._at = [self._name(index) for index in range(self._cluster.size)]
        found = sorted((name, index) for index, name in enumerate(self._at) if name is not None)
        self._names = [name for name, _ in found]
        self._number(np.array([index for _, index in found], np.int64))

    def _replace(self, indexes: list[int]) -> None:
        """Other nodes are at ``indexes`` now.  First all that were there go: a name may have moved."""
        by_position = self.indexes
        for index in indexes:
            before = self._at[index]
            if before is not None:
                position = bisect_left(self._names, before)
                del self._names[position]
                by_position = np.delete(by_position, position)
        for index in indexes:
            name = self._at[index] = self._name(index)
            if name is not None:
                position = bisect_left(self._names, name)
                self._names.insert(position, name)
                by_position = np.insert(by_position, position, index)
        if indexes:
            self._number(by_position)

    def _number(self, by_position: Vector) -> None:
        self.version += 1
        self.indexes = by_position
        self.positions = np.full(self._cluster.size, NOWHERE)
        self.positions[by_position] = np.arange(len(by_position))
