"""An upper bound of the room for a gang without all its possible victims, by amounts alone.

Most gangs that wait for pods which cannot be evicted are recognized by it, without a search.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import Task
from quorate.gang.session.session import Session
from quorate.placement.cluster import Cluster
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Matrix, Vector, np


def may_be_pipelined(session: Session, gang: Gang, tasks: Sequence[Task], freed: Matrix | None) -> bool:
    """Return False if too few of the ``tasks`` of ``gang`` fit the nodes for jobPipelined beside ``freed``.

    ``freed``: the amounts of all possible victims, see ``amounts_of``.  While members lack nodes only the
    plugin gang rejects, so it also rejects with a few more members.
    """
    if session.is_pipelined(gang):
        return True
    missing = gang.missing_members(with_best_effort=not session.rules.allocates_best_effort)
    needed = min(missing - gang.task_counts.pipelined, len(tasks))
    return has_room(session, free_beside(session.cluster, freed), tasks, needed)


def amounts_of(cluster: Cluster, victims: Iterable[Task]) -> Matrix | None:
    """Return the amounts by row and node that ``victims`` have; None if they exceed 64 bits."""
    freed: Matrix = np.zeros_like(cluster.used)
    for (node, shape), count in Counter((task.node, task.shape) for task in victims).items():
        if shape.oversized:
            return None
        if (index := cluster.index(node)) is not None:
            freed[:, index] += cluster.request(shape) * count
    return freed


def free_beside(cluster: Cluster, freed: Matrix | None) -> Matrix | None:
    """Return the free amounts by row and node without pods that have ``freed``; None if that is None."""
    if freed is None:
        return None
    free: Matrix = cluster.allocatable - cluster.used + cluster.releasing - cluster.pipelined + freed
    return free


def has_room(session: Session, free: Matrix | None, tasks: Sequence[Task], needed: int) -> bool:
    """Return False if fewer than ``needed`` of ``tasks`` fit ``free``, each shape beside no other one.

    Nodes that reject a task whatever pods end, by their labels for example, have no room for it.
    """
    cluster = session.cluster
    if free is None or any(task.shape.oversized for task in tasks):
        return True
    fitting = 0
    for shape, count in Counter(task.shape for task in tasks).items():
        most = room_by_node(session, free, shape)
        fitting += min(count, int(np.minimum(most, count)[cluster.ready].sum()))
    return fitting >= needed


def room_by_node(session: Session, free: Matrix | None, shape: Shape) -> Vector:
    """Return how many pods of ``shape`` each node takes at most that has ``free`` amounts.

    ``free``: None if they exceed 64 bits, which limits nothing.
    """
    most = session.node_finder.room_when_empty(shape)
    if free is None or shape.oversized:
        return most
    request = session.cluster.request(shape)
    rows = request > 0
    by_amounts: Vector = (free[rows] // request[rows, np.newaxis]).min(axis=0)
    return np.minimum(np.maximum(by_amounts, 0), most)
