"""Recount of a cluster: the sums by node and by owner, computed from its occupants."""

from collections import Counter
from collections.abc import Hashable, Iterator
from typing import NamedTuple

import numpy as np

from quorate.placement.cluster import Cluster
from quorate.placement.cluster.occupants import AllocationState, HeldRoom, PodCounts
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Vector


class SumMismatch(NamedTuple):
    """Another sum in the cluster than its occupants give."""

    of: str  # a node, or an owner of held places
    in_cluster: object
    computed: object


def audit_cluster(cluster: Cluster) -> Iterator[SumMismatch]:
    """Yield the differences of pods by node, of amounts by node, and of held places by owner."""
    on_nodes: dict[str, Counter[tuple[Shape, AllocationState]]] = {}
    rooms: dict[Hashable, HeldRoom] = {}
    for occupant in cluster.occupants.values():
        on_nodes.setdefault(occupant.node, Counter())[occupant.shape, occupant.state] += occupant.pods
        if occupant.owner is not None:
            rooms.setdefault(occupant.owner, HeldRoom()).count(occupant.shape, occupant.pods)
    for node in on_nodes.keys() | set(cluster.names()):
        counts, index = on_nodes.get(node, Counter()), cluster.index(node)
        if cluster.counts_on(node) != counts:
            yield SumMismatch(node, dict(cluster.counts_on(node)), dict(counts))
        elif index is not None and not any(shape.oversized for shape, _ in counts):
            amounts = _amounts(cluster, counts)
            in_cluster = [matrix[:, index] for matrix in (cluster.used, cluster.releasing, cluster.pipelined)]
            if not np.array_equal(in_cluster, amounts):
                yield SumMismatch(node, in_cluster, amounts)
    for owner in rooms.keys() | cluster.owners:
        room, computed = cluster.room_of(owner), rooms.get(owner, HeldRoom())
        if (room.pods, room.amounts) != (computed.pods, computed.amounts):
            yield SumMismatch(str(owner), room.amounts, computed.amounts)


def _amounts(cluster: Cluster, counts: PodCounts) -> list[Vector]:
    """Return what pods use, release and wait for, by row."""
    sums = {state: np.zeros(len(cluster.resources), np.int64) for state in AllocationState}
    for (shape, state), pods in counts.items():
        sums[state] += cluster.request(shape) * pods
    releasing = sums[AllocationState.RELEASING]
    return [sums[AllocationState.USED] + releasing, releasing, sums[AllocationState.PIPELINED]]
