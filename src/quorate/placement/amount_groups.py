"""Groups of nodes with equal amounts, so that a request is compared once with all nodes of a group.

Most nodes of a cluster are equal to many others: a few kinds of hardware, empty or full.  The groups are
updated from the log of usage changes; a node moves when its amounts change.
"""

from typing import Final

from quorate.placement.cluster import Cluster
from quorate.placement.vectors import Matrix, Vector, np

_NEVER: Final = -1
# If more than this part of the nodes has changed, grouping all of them anew is faster.
_MAX_CHANGED_PART: Final = 8


class AmountGroups:
    """The groups of all nodes of ``cluster``; valid after ``refresh`` until the cluster changes."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._read_to = _NEVER  # position in the log of usage changes
        self._numbers: dict[bytes, int] = {}  # of groups, by their amounts in ``_rows``
        self._rows: Vector = np.zeros(0, np.int64)  # the resources of which any node has an amount
        self.version = 0  # changes when any node gets into another group
        self.group_of: Vector = np.zeros(0, np.int64)  # by index
        # By group; a group may be empty.
        self.kind_of: Vector = np.zeros(0, np.int64)
        self.future_idle: Matrix = np.zeros((0, 0), np.int64)
        # The allocatable amounts of each kind of node.
        self._kind_numbers: dict[bytes, int] = {}
        self.kinds: Matrix = np.zeros((0, 0), np.int64)

    def refresh(self) -> None:
        """Update the groups from the change log of the cluster."""
        cluster, log = self._cluster, self._cluster.usage_changes
        if self._read_to != log.end:
            changed = log.since(self._read_to) if len(self.group_of) == cluster.size else None
            self._read_to = log.end
            if (
                changed is None
                or _MAX_CHANGED_PART * len(changed) > cluster.size
                or len(self._numbers) > 2 * cluster.size
                or not self._update(np.array(changed, np.int64))
            ):
                self._group_all()
        more = len(cluster.resources) - len(self.kinds)
        if more:  # no node has an amount of them
            self.kinds = np.pad(self.kinds, ((0, more), (0, 0)))
            self.future_idle = np.pad(self.future_idle, ((0, more), (0, 0)))

    def _group_all(self) -> None:
        self.version += 1
        cluster = self._cluster
        allocatable, future_idle = self._amounts(np.arange(cluster.size))
        self._rows = _rows_with_amounts(allocatable, future_idle)
        self._numbers.clear()
        keys = _keys(allocatable[self._rows], future_idle[self._rows])
        self.group_of = np.array(
            [self._numbers.setdefault(key, len(self._numbers)) for key in keys], np.int64
        )
        first = np.unique(self.group_of, return_index=True)[1]
        self.future_idle = future_idle[:, first]
        self._kind_numbers.clear()
        self.kinds = np.zeros((len(allocatable), 0), np.int64)
        self.kind_of = self._kinds_of(allocatable[:, first])

    def _update(self, changed: Vector) -> bool:
        """Move the ``changed`` nodes to their groups; return False if all must be grouped anew."""
        allocatable, future_idle = self._amounts(changed)
        if set(_rows_with_amounts(allocatable, future_idle).tolist()) - set(self._rows.tolist()):
            return False
        keys = _keys(allocatable[self._rows], future_idle[self._rows])
        groups, new = [], []
        for place, key in enumerate(keys):
            if key not in self._numbers:
                self._numbers[key] = len(self._numbers)
                new.append(place)
            groups.append(self._numbers[key])
        if new:
            rows = len(self.future_idle)
            self.kind_of = np.concatenate([self.kind_of, self._kinds_of(allocatable[:rows, new])])
            self.future_idle = np.hstack([self.future_idle, future_idle[:rows, new]])
        if (self.group_of[changed] != groups).any():
            self.group_of[changed] = groups
            self.version += 1
        return True

    def _kinds_of(self, allocatable: Matrix) -> Vector:
        """Return the kinds of nodes with the ``allocatable`` amounts, and add new kinds."""
        kinds, new = [], []
        for place, key in enumerate(_keys(allocatable[self._rows])):
            if key not in self._kind_numbers:
                self._kind_numbers[key] = len(self._kind_numbers)
                new.append(place)
            kinds.append(self._kind_numbers[key])
        self.kinds = np.hstack([self.kinds, allocatable[:, new]])
        return np.array(kinds, np.int64)

    def _amounts(self, at: Vector) -> tuple[Matrix, Matrix]:
        """Return the allocatable and the future idle amounts at the indexes."""
        cluster = self._cluster
        allocatable, used = cluster.allocatable[:, at], cluster.used[:, at]
        future_idle = allocatable - used + cluster.releasing[:, at] - cluster.pipelined[:, at]
        return allocatable, future_idle


def _rows_with_amounts(allocatable: Matrix, future_idle: Matrix) -> Vector:
    return np.flatnonzero(((allocatable != 0) | (future_idle != 0)).any(axis=1))


def _keys(*matrices: Matrix) -> list[bytes]:
    """Return what the columns contain, as bytes."""
    rows = np.ascontiguousarray(np.vstack(matrices).T)
    keys: list[bytes] = [row.tobytes() for row in rows]
    return keys
