"""Room on nodes that is held for gangs while nodes are chosen, and lent to each in its turn."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import contextmanager

from quorate.api.meta import Key
from quorate.gang.cache.gang import Gang
from quorate.placement.cluster import Cluster
from quorate.placement.shapes import Shape


class RoomForGangs(ABC):
    """Room for pods that are on no node; nothing is held outside of ``held_for``."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._held: dict[Key, list[tuple[Shape, str]]] = {}  # by gang, with the nodes

    @abstractmethod
    def _next_room(self, gang: Gang) -> Iterator[tuple[Shape, str]]:
        """Yield the pods for which room is to be held, with their nodes; each is held before the next."""

    @contextmanager
    def held_for(self, gangs: Collection[Gang]) -> Iterator[None]:
        """Hold the room of ``gangs``."""
        for gang in gangs:
            self._hold(gang)
        try:
            yield
        finally:
            for gang in gangs if self._held else ():
                self._release(gang)

    @contextmanager
    def lent_to(self, gang: Gang) -> Iterator[None]:
        """Leave the room of ``gang`` free while nodes are chosen for it, then hold what it still needs."""
        is_held = gang.key in self._held
        self._release(gang)
        try:
            yield
        finally:
            if is_held:
                self._hold(gang)

    def _hold(self, gang: Gang) -> None:
        for shape, node in self._next_room(gang):
            self._held.setdefault(gang.key, []).append((shape, node))
            self._count(gang, shape, node, 1)

    def _release(self, gang: Gang) -> None:
        for shape, node in self._held.pop(gang.key, ()):
            self._count(gang, shape, node, -1)

    def _count(self, gang: Gang, shape: Shape, node: str, pods: int) -> None:
        """Count ``pods`` more on the node, or fewer if it is negative."""
        self._cluster.count_pods(shape, node, pods)
