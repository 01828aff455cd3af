"""Room on nodes that is held for gangs while nodes are chosen, and lent to each in its turn."""

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Hashable, Iterator
from contextlib import contextmanager

from quorate.gang.cache.expected_members import TOLERATES_ALL, missing_by_role
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.reservations import lost_claim_of
from quorate.placement.cluster import Cluster
from quorate.placement.cluster.occupants import HeldRoom
from quorate.placement.shapes import Shape
from quorate.placement.vectors import np
from quorate.quota.amount import PODS


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
        holding = [gang for gang in gangs if self._hold(gang)]
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


class LeftRoom(RoomForGangs):
    """The room of members that gangs lost, kept until their replacements have nodes.

    A gang that is short of members because pods failed or were deleted holds nodes for nothing until the
    replacements have nodes, too, if a controller creates them.  The room of a failed pod is held on its node.
    The room of a pod that does not exist is held on the node that fits it most tightly.
    """

    def _next_room(self, gang: Gang) -> Iterator[tuple[Shape, str]]:
        if not gang.owner.creates_members or gang.rooms.held.pods or not lost_claim_of(gang):
            return
        for shape, preferred in _lost_members(gang):
            if node := self._node_for(shape, preferred):
                gang.rooms.lost = self._room_of(gang)
                yield shape, node

    def _node_for(self, shape: Shape, preferred: str) -> str:
        """Return ``preferred`` if ``shape`` fits it, else the node with the least room left, or ""."""
        cluster, request = self._cluster, self._cluster.request(shape)
        left = cluster.allocatable - cluster.used - request[:, np.newaxis]
        fits = (left >= 0).all(axis=0) & cluster.ready
        index = cluster.index(preferred) if preferred else None
        if index is not None and fits[index]:
            return preferred
        if not fits.any():
            return ""
        beside = np.where(fits, left[request > 0].sum(axis=0), np.iinfo(np.int64).max)
        return cluster.name(int(beside.argmin()))


def _lost_members(gang: Gang) -> Iterator[tuple[Shape, str]]:
    """Yield the members that ``gang`` lacks and that do not wait: failed ones first, with their node."""
    missing = Counter(missing_by_role(gang))
    claim = Counter(lost_claim_of(gang)) - gang.requests.pending
    for task in sorted(gang.failed_to_replace, key=lambda task: task.key):
        role = task.role if missing[task.role] > 0 else ""
        if missing[role] > 0:
            missing[role] -= 1
            claim -= Counter(task.request)
            yield task.shape, task.node
    number = missing.total()
    for role in missing.elements():
        requested = gang.owner.requests_of(role) or {name: n // number for name, n in claim.items()}
        yield Shape(amounts={**requested, PODS: 1}, tolerations=TOLERATES_ALL), ""
