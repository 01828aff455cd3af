"""Recount of a cluster in slices: the sums by node and by owner, computed from its occupants."""

from collections import Counter
from collections.abc import Hashable, Iterator
from itertools import islice
from typing import Final

import msgspec

from quorate.placement.cluster import Cluster
from quorate.placement.cluster.occupants import AllocationState, HeldPlace, HeldRoom, PodCounts
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Vector, np

SLICE_SIZE: Final = 1_000  # occupants or nodes


class SumMismatch(msgspec.Struct, frozen=True):
    """Another sum in the cluster than its occupants give."""

    of: str  # a node, or an owner of held places
    quantity: str
    in_cluster: str
    computed: str


def audit_cluster(cluster: Cluster, slice_size: int = SLICE_SIZE) -> Iterator[tuple[SumMismatch, ...]]:
    """Yield the differences of one slice after the other.

    What changes between two slices is left to the next audit.
    """
    on_nodes: dict[str, Counter[tuple[Shape, AllocationState]]] = {}
    rooms: dict[Hashable, HeldRoom] = {}
    usage, count = cluster.usage_changes.end, cluster.changes
    for at, occupant in enumerate(list(cluster.occupants.values()), 1):
        pods = occupant.pods if isinstance(occupant, HeldPlace) else 1
        on_nodes.setdefault(occupant.node, Counter())[occupant.shape, occupant.state] += pods
        if isinstance(occupant, HeldPlace) and occupant.owner is not None:
            rooms.setdefault(occupant.owner, HeldRoom()).count(occupant.shape, pods)
        if at % slice_size == 0:
            yield ()
    names = iter(list(cluster.names()))
    while chunk := list(islice(names, slice_size)):
        changed = cluster.usage_changes.since(usage)
        indexes = [(name, cluster.index(name)) for name in chunk]
        yield tuple(
            difference
            for name, index in indexes
            if index is not None and changed is not None and index not in changed
            for difference in _node_differences(cluster, name, index, on_nodes.get(name, Counter()))
        )
    if cluster.changes == count:
        yield tuple(_room_differences(cluster, rooms))


def _node_differences(cluster: Cluster, name: str, index: int, counts: PodCounts) -> Iterator[SumMismatch]:
    if cluster.counts_on(name) != counts:
        yield SumMismatch(name, "pods", _shown(cluster.counts_on(name)), _shown(counts))
    if any(shape.oversized for shape, _ in counts):
        return  # sums are limited
    for quantity, computed in _amounts(cluster, counts).items():
        in_cluster: Vector = getattr(cluster, quantity)[:, index]
        if not np.array_equal(in_cluster, computed):
            yield SumMismatch(name, quantity, str(in_cluster.tolist()), str(computed.tolist()))


def _amounts(cluster: Cluster, counts: PodCounts) -> dict[str, Vector]:
    """Return what pods use, release and wait for, by row."""
    sums = {state: np.zeros(len(cluster.resources), np.int64) for state in AllocationState}
    for (shape, state), pods in counts.items():
        sums[state] += cluster.request(shape) * pods
    used, releasing, pipelined = sums.values()
    return {"used": used + releasing, "releasing": releasing, "pipelined": pipelined}


def _room_differences(cluster: Cluster, rooms: dict[Hashable, HeldRoom]) -> Iterator[SumMismatch]:
    for owner in rooms.keys() | cluster.rooms.keys():
        room, computed = cluster.room_of(owner), rooms.get(owner, HeldRoom())
        if (room.pods, room.amounts) != (computed.pods, computed.amounts):
            yield SumMismatch(str(owner), "held", str(room.amounts), str(computed.amounts))


def _shown(counts: PodCounts) -> str:
    return ", ".join(sorted(f"{pods} {state.name}" for (_, state), pods in counts.items()))
