"""The nodes that are nominated for tasks, held while nodes are chosen for the gangs of these tasks.

A gang with nominated tasks may have others, which may have any node.  Without this they might get a node from
which pods were evicted for another gang, and pods would be evicted for that gang again.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager

from quorate.api.meta import Key
from quorate.gang.cache.gang import Gang
from quorate.gang.session.session import Session
from quorate.placement.shapes import Shape


def is_nominated(gang: Gang) -> bool:
    return any(task.nominated_node for task in gang.schedulable.values())


class NominatedRoom:
    """See the module; empty unless several gangs have nominated tasks, and after ``held_for``."""

    def __init__(self, session: Session) -> None:
        self._cluster, self._node_finder = session.cluster, session.node_finder
        self._held: dict[Key, list[tuple[Shape, str]]] = {}  # by gang, with the nodes

    @contextmanager
    def held_for(self, gangs: Collection[Gang]) -> Iterator[None]:
        """Hold the nominated nodes of ``gangs``."""
        if len(gangs) > 1:
            for gang in gangs:
                self._hold(gang)
        try:
            yield
        finally:
            for key in list(self._held):
                self._release(key)

    @contextmanager
    def lent_to(self, gang: Gang) -> Iterator[None]:
        """Leave the nodes of ``gang`` free while nodes are chosen for it, then hold those it has not got."""
        is_held = gang.key in self._held
        self._release(gang.key)
        yield
        if is_held:
            self._hold(gang)

    def _hold(self, gang: Gang) -> None:
        """Hold the nodes that will have room; other nominations are of no use."""
        for task in gang.schedulable.values():
            node = task.nominated_node
            if node and self._node_finder.capacity_on(task.shape, node) is not None:
                self._held.setdefault(gang.key, []).append((task.shape, node))
                self._cluster.count_pods(task.shape, node, 1)

    def _release(self, key: Key) -> None:
        for shape, node in self._held.pop(key, ()):
            self._cluster.count_pods(shape, node, -1)
