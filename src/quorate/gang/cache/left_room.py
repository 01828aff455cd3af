"""The room that failed members leave on their nodes, which belongs to the pods that replace them.

A gang that is short of members because pods failed holds nodes for nothing until replacements have nodes,
too, if its owner creates them.  While a session chooses nodes, the room of the failed pods is held on
their nodes, and lent to the gang itself.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from quorate.api.meta import Key
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import Task, TaskStatus
from quorate.placement.cluster import Cluster
from quorate.placement.shapes import Shape


def failed_to_replace(gang: Gang) -> Sequence[Task]:
    """Return the failed members without which ``gang`` is short, if they are replaced; else none."""
    if not gang.replaces_failed or gang.task_counts.ready >= gang.min_member:
        return ()
    return gang.with_status(TaskStatus.FAILED)


class LeftRoom:
    """See the module; empty between sessions."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._held: dict[Key, list[tuple[Shape, str]]] = {}  # by gang, with the nodes

    @contextmanager
    def held_for(self, gangs: Collection[Gang]) -> Iterator[None]:
        """Hold the room of failed members of those of ``gangs`` that belong to a controller."""
        for gang in gangs:
            if gang.task_counts.by_status[TaskStatus.FAILED] and gang.is_recreated and not gang.held.pods:
                self._hold(gang)
        try:
            yield
        finally:
            for gang in gangs if self._held else ():
                self._release(gang)

    def _hold(self, gang: Gang) -> None:
        short = gang.min_member - gang.task_counts.ready
        places: list[tuple[Shape, str]] = []
        for task in sorted(failed_to_replace(gang), key=lambda task: task.key):
            if len(places) < short and gang.allocated and self._is_free(task):
                places.append((task.shape, task.node))
                self._count(gang, places[-1], 1)
        if places:
            self._held[gang.key] = places

    def _is_free(self, task: Task) -> bool:
        """Return True if the node still has the room of ``task``, and may take pods."""
        index = self._cluster.index(task.node) if task.node else None
        if index is None or not self._cluster.ready[index]:
            return False
        idle = self._cluster.allocatable[:, index] - self._cluster.used[:, index]
        return bool((self._cluster.request(task.shape) <= idle).all())

    def _count(self, gang: Gang, place: tuple[Shape, str], pods: int) -> None:
        shape, node = place
        self._cluster.count_pods(shape, node, pods)
        left_room = Counter(gang.left_room)
        for resource, amount in shape.amounts.items():
            left_room[resource] += amount * pods
        gang.left_room = +left_room

    @contextmanager
    def lent_to(self, gang: Gang) -> Iterator[None]:
        """Leave the room free that is held for ``gang``, while nodes are chosen for its members."""
        self._release(gang)
        try:
            yield
        finally:
            self._hold(gang)

    def _release(self, gang: Gang) -> None:
        for place in self._held.pop(gang.key, ()):
            self._count(gang, place, -1)
