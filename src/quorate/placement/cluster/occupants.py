"""What takes room on nodes: pods, and places that are held for pods which are not on their node yet.

Every occupant is in one map, by its name: the uid or key of a pod, or what tells a held place from all other
places.  A held place has at most one owner, and what is held for an owner is known in sum.

``add_pod`` and ``remove_pod`` undo each other, and so do two calls of ``update_pod`` or of ``hold``.
"""

from collections import Counter
from collections.abc import Hashable, Mapping
from enum import Enum
from typing import Final

import msgspec

from quorate.placement.shapes import Shape


class AllocationState(Enum):
    """How the request of a pod counts on its node."""

    USED = "the pod is on the node, or will be as soon as it is bound"
    RELEASING = "the pod is on the node and terminating"
    PIPELINED = "the pod is assigned to resources that terminating pods release"

    __hash__ = object.__hash__  # members are unique: hashing by identity is ten times as fast as by name


# The number of pods on a node, by shape and allocation state.
PodCounts = Mapping[tuple[Shape, AllocationState], int]
NO_PODS: Final[PodCounts] = {}


class Occupant(msgspec.Struct, eq=False, gc=False):
    """A pod on a node, or a place that is held there.

    There is one per pod, so it is small and the garbage collector skips it.
    """

    shape: Shape
    node: str
    state: AllocationState


class HeldPlace(Occupant, eq=False, gc=False):
    """The equal pods for which a place is held."""

    pods: int  # 0: it is not held any more
    owner: Hashable  # None: it counts in no sum


class HeldRoom:
    """The places that are held for one owner: their names, and the number and requests of their pods."""

    __slots__ = ("amounts", "places", "pods")

    def __init__(self) -> None:
        self.places: dict[Hashable, None] = {}
        self.pods = 0
        self.amounts: dict[str, int] = {}  # in base units, without zeros

    def count(self, shape: Shape, pods: int) -> None:
        """Add ``pods`` equal pods, or remove them if it is negative."""
        self.pods += pods
        for resource, amount in shape.amounts.items():
            total = self.amounts.get(resource, 0) + amount * pods
            if total:
                self.amounts[resource] = total
            else:
                self.amounts.pop(resource, None)


NO_ROOM: Final = HeldRoom()  # of what owns no place; never changed


class Occupants:
    """All occupants of nodes that are known or not, and their numbers by node and by owner."""

    def __init__(self) -> None:
        self.changes = 0  # how often the number of pods on a node has changed
        self.occupants: dict[Hashable, Occupant] = {}  # by name
        self.rooms: dict[Hashable, HeldRoom] = {}  # by owner
        self._pod_counts: dict[str, dict[tuple[Shape, AllocationState], int]] = {}  # by node, without zeros
        self._oversized: Counter[str] = Counter()  # pods with oversized shapes by node, without zeros

    def counts_on(self, node: str) -> PodCounts:
        """Return how many pods of each shape a node has, with pipelined pods and pods with a held place."""
        return self._pod_counts.get(node, NO_PODS)

    def has_leaving_pods(self, node: str) -> bool:
        """Return True if pods are releasing resources of ``node``."""
        return any(state is AllocationState.RELEASING for _, state in self.counts_on(node))

    # Pods.

    def add_pod(self, pod: Hashable, shape: Shape, node: str, state: AllocationState) -> None:
        occupant = self.occupants.get(pod)
        assert occupant is None, f"{pod} is on {occupant.node} already and cannot be added to {node}"
        self.occupants[pod] = Occupant(shape, node, state)
        self._count(node, shape, state, +1)

    def update_pod(self, pod: Hashable, state: AllocationState) -> AllocationState:
        """Set the allocation state of the pod and return the previous one."""
        occupant = self.occupants[pod]
        before = occupant.state
        self._count(occupant.node, occupant.shape, before, -1)
        occupant.state = state
        self._count(occupant.node, occupant.shape, state, +1)
        return before

    def remove_pod(self, pod: Hashable) -> Occupant:
        """Remove the pod and return its occupant, with which it can be added again."""
        occupant = self.occupants.pop(pod)
        self._count(occupant.node, occupant.shape, occupant.state, -1)
        return occupant

    # Held places.

    def hold(self, place: Hashable, shape: Shape, node: str, pods: int, owner: Hashable = None) -> None:
        """Hold ``place`` for ``pods`` equal pods of ``owner``, whatever it was held for; 0: for none."""
        held = self._held(place)
        if held is not None and (held.shape is not shape or held.node != node or held.owner != owner):
            self._set_held(place, held, 0)
            held = None
        if held is None and pods:
            held = self.occupants[place] = HeldPlace(shape, node, AllocationState.USED, 0, owner)
        if held is not None and held.pods != pods:
            self._set_held(place, held, pods)

    def release(self, place: Hashable) -> None:
        """Hold ``place`` no longer, if it is held."""
        held = self._held(place)
        if held is not None:
            self._set_held(place, held, 0)

    def held_pods(self, place: Hashable) -> int:
        """Return the number of pods for which ``place`` is held."""
        held = self._held(place)
        return 0 if held is None else held.pods

    def _held(self, place: Hashable) -> HeldPlace | None:
        held = self.occupants.get(place)
        assert held is None or isinstance(held, HeldPlace), f"{place} is the name of a pod"
        return held

    def _set_held(self, place: Hashable, held: HeldPlace, pods: int) -> None:
        more = pods - held.pods
        held.pods = pods
        self._count(held.node, held.shape, held.state, more)
        if not pods:
            del self.occupants[place]
        if held.owner is None:
            return
        room = self.room_of(held.owner)
        room.count(held.shape, more)
        if pods:
            room.places[place] = None
        else:
            del room.places[place]

    def room_of(self, owner: Hashable) -> HeldRoom:
        """Return the room held for ``owner``; the object follows all changes until ``release_all``."""
        room = self.rooms.get(owner)
        if room is None:
            room = self.rooms[owner] = HeldRoom()
        return room

    def release_all(self, owner: Hashable) -> None:
        """Hold no place of ``owner`` any longer, and forget it."""
        room = self.rooms.get(owner)
        if room is None:
            return
        for place in list(room.places):
            self.release(place)
        del self.rooms[owner]

    def _count(self, node: str, shape: Shape, state: AllocationState, pods: int) -> None:
        """Add ``pods`` to those on ``node``, or remove them if it is negative."""
        self.changes += 1
        counts = self._pod_counts.setdefault(node, {})
        count = counts.get((shape, state), 0) + pods
        assert count >= 0, f"more pods were removed from {node} than added: {shape}"
        if count:
            counts[shape, state] = count
        else:
            del counts[shape, state]
            if not counts:
                del self._pod_counts[node]
        if shape.oversized:
            self._oversized[node] += pods
            if not self._oversized[node]:
                del self._oversized[node]
