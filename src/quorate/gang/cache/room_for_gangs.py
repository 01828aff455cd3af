"""Room on nodes that is held for gangs while nodes are chosen, and lent to each in its turn."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterator
from contextlib import contextmanager

from quorate.gang.cache.gang import Gang
from quorate.placement.cluster import Cluster
from quorate.placement.cluster.occupants import HeldRoom
from quorate.placement.shapes import Shape


class RoomForGangs(ABC):
    """Room for pods that are on no node; nothing is held outside of ``held_for``."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @abstractmethod
    def _next_room(self, gang: Gang) -> Iterator[tuple[Shape, str]]:
        """Yield the pods for which room is to be held, with their nodes; each is held before the next."""

    @contextmanager
    def held_for(self, gangs: Collection[Gang]) -> Iterator[None]:
        """Hold the room of ``gangs``."""
        holding = [gang for gang in gangs if self._hold(gang)]  # most gangs need none
        try:
            yield
        finally:
            for gang in holding:
                self._release(gang)

    @contextmanager
    def lent_to(self, gang: Gang) -> Iterator[None]:
        """Leave the room of ``gang`` free while its nodes are chosen, then hold what it still needs."""
        is_held = bool(self._room_of(gang).pods)
        self._release(gang)
        try:
            yield
        finally:
            if is_held:
                self._hold(gang)

    def _hold(self, gang: Gang) -> bool:
        """Hold the room of ``gang``; return False if it needs none."""
        number = 0
        for number, (shape, node) in enumerate(self._next_room(gang), 1):
            owner = self._owner(gang)
            self._cluster.hold((owner, number), shape, node, 1, owner)
        return number > 0

    def _release(self, gang: Gang) -> None:
        self._cluster.release_all(self._owner(gang))

    def _room_of(self, gang: Gang) -> HeldRoom:
        return self._cluster.room_of(self._owner(gang))

    def _owner(self, gang: Gang) -> Hashable:
        return type(self), gang.key
