"""The room that is kept for members which gangs lost, until their replacements have nodes.

A gang that is short of members because pods failed or were deleted holds nodes for nothing until replacements
have nodes, too, if its owner creates them.  While a session chooses nodes, room for them is held on nodes,
and lent to the gang itself: that of a failed pod on its node, and that of pods which do not exist on the node
that fits them most tightly.
"""

from collections import Counter
from collections.abc import Iterator

from quorate.gang.cache.expected_members import TOLERATES_ALL, missing_by_role
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.reservations import lost_claim_of
from quorate.gang.cache.room_for_gangs import RoomForGangs
from quorate.placement.shapes import Shape
from quorate.placement.vectors import np
from quorate.quota.amount import PODS


class LeftRoom(RoomForGangs):
    """The room of lost members, of gangs that belong to a controller."""

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
        known = gang.owner.requests_of(role) or {name: n // number for name, n in claim.items()}
        yield Shape(amounts={**known, PODS: 1}, tolerations=TOLERATES_ALL), ""
