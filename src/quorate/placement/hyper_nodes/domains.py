"""The HyperNodes that have room for a group of pods, best first, and the order of their nodes.

A group of pods that must be near each other is tried in the first HyperNode, then in the next.  The order is
total:

1. the tier, the lowest first;
2.  a HyperNode with room for all pods of the group before a HyperNode with room for only the needed pods;
3. one with room now before one that has room when terminating pods are gone;
4. the fullest with the group in it, by the weighted mean of (used + requested) / allocatable over resources
   (Volcano's bin-packing score: what remains free stays in one piece);
5. the name.

Room is counted by resources and by the filters that read nodes; it is an upper bound where pods constrain
each other.  Source: Volcano's plugin network-topology-aware (1.15), which decides 5 at random.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from quorate.placement.cluster import Cluster
from quorate.placement.framework import Capacity
from quorate.placement.hyper_nodes.index import HyperNodeIndex, LabelDomains, Tier
from quorate.placement.node_finder import NodeFinder
from quorate.placement.shapes import Shape
from quorate.placement.vectors import Mask, Vector, np

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_DEPTH: Final = 16  # levels of HyperNodes that are filled one by one; those below are filled as a whole


class Domain(NamedTuple):
    """Nodes of which a group may use any; ``name`` is "" for all nodes."""

    name: str
    nodes: Vector  # indexes


class LargestDomain(NamedTuple):
    """The HyperNode that takes most pods of a group, and how many."""

    hyper_nodes: int  # the number of HyperNodes that were looked at
    best: str  # "" if there is none
    pods: int


@dataclass(frozen=True, slots=True)
class PodGroupRoom:
    """The pods of a group that have no node yet, and the nodes' room for them."""

    pods: Mapping[Shape, int]
    needed: int  # of them all
    placed: Vector  # indexes of the nodes of its other pods, which the HyperNode must contain

    @property
    def count(self) -> int:
        return sum(self.pods.values())


class DomainSearch:
    """The search among the HyperNodes of ``index``; ``weights``: of each resource in the fullness."""

    def __init__(
        self,
        index: HyperNodeIndex | LabelDomains,
        finder: NodeFinder,
        weights: Mapping[str, int],
        *,
        largest_first: bool = False,
    ) -> None:
        """``largest_first``: of one tier, first try the domain that has room for most pods of the gang."""
        self.index = index
        self._largest_first = largest_first
        self._finder = finder
        self._cluster: Cluster = finder.cluster
        self._weights = weights
        self._rooms: dict[tuple[Shape, Capacity | None], tuple[int, Vector]] = {}  # with the end of the log

    def everywhere(self) -> Domain:
        self._finder.names.refresh()
        return Domain("", np.sort(self._finder.names.indexes))

    def domains(
        self, group: PodGroupRoom, highest_tier: int | None, within: Mask | None = None
    ) -> Iterator[Domain]:
        """Yield the HyperNodes up to ``highest_tier`` (None: of all tiers) that have room, in order.

        ``within``: only these nodes count.  The cluster must be the same at each step.
        """
        marks = self._marks(group.placed)
        for tier in self.index.tiers:
            if highest_tier is not None and tier.number > highest_tier:
                return
            future = self._fitting(tier, group, Capacity.FUTURE_IDLE, within)
            eligible = future >= group.needed
            if len(group.placed):
                eligible &= tier.sums(marks) == len(group.placed)
            candidates = np.flatnonzero(eligible)
            if not len(candidates):
                continue
            now = self._fitting(tier, group, Capacity.IDLE, within)
            scores = self._scores(tier, group.pods)
            count = group.count
            short = -now[candidates] if self._largest_first else future[candidates] < count
            order = np.lexsort((candidates, -scores[candidates], now[candidates] < group.needed, short))
            for number in candidates[order].tolist():
                name = tier.names[number]
                nodes = self.index.nodes(name)
                yield Domain(name, nodes if within is None else nodes[within[nodes]])

    def domains_without(
        self, rooms: Mapping[Shape, Vector], group: PodGroupRoom, highest_tier: int
    ) -> Iterator[Domain]:
        """Yield the HyperNodes up to ``highest_tier`` that have room if nodes take as many pods as ``rooms``.

        The order is by the number of needed pods without room now, the smallest first, then by tier and name.
        """
        marks = self._marks(group.placed)
        ranked: list[tuple[int, int, str]] = []
        for tier in self.index.tiers:
            if tier.number > highest_tier:
                break
            future = self._fitting(tier, group, Capacity.FUTURE_IDLE, None)
            most = _fitting(tier, group, rooms.__getitem__)
            eligible = (most >= group.needed) & (tier.sums(marks) == len(group.placed))
            short = np.maximum(group.needed - future, 0)
            ranked += [
                (int(short[number]), tier.number, tier.names[number])
                for number in np.flatnonzero(eligible).tolist()
            ]
        for *_, name in sorted(ranked):
            yield Domain(name, self.index.nodes(name))

    def largest(
        self, group: PodGroupRoom, highest_tier: int, within: Mask | None, *, empty: bool
    ) -> LargestDomain:
        """Return the HyperNode that has room for most pods; the first by tier and name if several have.

        ``within``: count these nodes only.  ``empty``: count the room as if the nodes had no pods.
        """
        marks = self._marks(group.placed)
        best = LargestDomain(0, "", 0)
        for tier in self.index.tiers:
            if tier.number > highest_tier:
                break
            fitting = self._fitting(tier, group, None if empty else Capacity.FUTURE_IDLE, within)
            if len(group.placed):
                fitting = np.where(tier.sums(marks) == len(group.placed), fitting, -1)
            number = int(fitting.argmax())
            looked_at = best.hyper_nodes + int(np.count_nonzero(fitting >= 0))
            if fitting[number] > best.pods or (fitting[number] == 0 and not best.best):
                best = LargestDomain(looked_at, tier.names[number], int(fitting[number]))
            else:
                best = best._replace(hyper_nodes=looked_at)
        return best

    def largest_amount(self, resource: str, highest_tier: int) -> tuple[int, str, int]:
        """Return the number of HyperNodes, and name and amount of the HyperNode with most ``resource``."""
        row = self._cluster.rows.get(resource)
        number, best, most = 0, "", 0
        for tier in self.index.tiers:
            if tier.number > highest_tier:
                break
            number += len(tier.names)
            if row is not None:
                # Limited so that no sum exceeds 64 bits.
                by_node = np.minimum(self._cluster.allocatable[row], 2**62 // max(1, self._cluster.size))
                amounts = tier.sums(by_node * self._cluster.ready)
                largest = int(amounts.argmax())
                if amounts[largest] > most:
                    best, most = tier.names[largest], int(amounts[largest])
        return number, best, most

    def parts(self, domain: Domain, group: PodGroupRoom) -> Sequence[Vector]:
        """Return the nodes of ``domain`` in the parts to fill one after the other.

        A part is a HyperNode below ``domain``, as large as possible until one has room for the rest, and then
        the smallest of those: so the group is in few HyperNodes.  The last part has all other nodes.
        """
        children = self.index.children(domain.name) if domain.name else self.index.roots
        if not children:
            return (domain.nodes,)
        room = np.zeros(self._cluster.size, np.int64)
        for shape, count in group.pods.items():
            room += np.minimum(self._room(shape, Capacity.FUTURE_IDLE), count)
        left = np.zeros(self._cluster.size, np.bool_)
        left[domain.nodes] = True
        chosen: list[Vector] = []
        self._fill(children, group.count, room, left, chosen, MAX_DEPTH)
        chosen.append(np.flatnonzero(left))
        return [part for part in chosen if len(part)]

    def _fill(
        self, children: Sequence[str], count: int, room: Vector, left: Mask, chosen: list[Vector], depth: int
    ) -> int:
        """Choose parts for ``count`` pods; return the pods for which there is none."""
        sizes = {}
        for child in children:
            nodes = self.index.nodes(child)
            sizes[child] = int(room[nodes[left[nodes]]].sum())
        ordered = sorted((child for child in children if sizes[child]), key=lambda name: (-sizes[name], name))
        for at, largest in enumerate(ordered):
            if count <= 0:
                break
            child = largest
            if sizes[largest] >= count:  # the smallest that suffices; of equal ones the first by name
                sufficient = [position for position in ordered[at:] if sizes[position] >= count]
                child = min(sufficient, key=lambda name: (sizes[name], name))
            before = count
            below = self.index.children(child) if depth else ()
            if below:
                count = self._fill(below, count, room, left, chosen, depth - 1)
            nodes = self.index.nodes(child)
            rest = nodes[left[nodes]]
            if len(rest) and (count > 0 or not below):
                chosen.append(rest)
                left[rest] = False
            count = max(0, before - sizes[child])
        return count

    # Sums by HyperNode.

    def _fitting(
        self, tier: Tier, group: PodGroupRoom, capacity: Capacity | None, within: Mask | None
    ) -> Vector:
        """Return how many pods of the group each HyperNode takes; ``capacity`` None: with no pods in it."""

        def room(shape: Shape) -> Vector:
            by_node = self._room(shape, capacity)
            return by_node if within is None else np.where(within, by_node, 0)

        return _fitting(tier, group, room)

    def _room(self, shape: Shape, capacity: Capacity | None) -> Vector:
        end = self._cluster.usage_changes.end
        cached = self._rooms.get((shape, capacity))
        if cached is None or cached[0] != end:
            room = (
                self._finder.room_when_empty(shape)
                if capacity is None
                else self._finder.ranking(shape).room(capacity)
            )
            cached = self._rooms[shape, capacity] = end, room
        return cached[1]

    def _marks(self, nodes: Vector) -> Vector:
        marks = np.zeros(self._cluster.size, np.int64)
        marks[nodes] = 1
        return marks

    def _scores(self, tier: Tier, pods: Mapping[Shape, int]) -> "NDArray[np.float64]":
        """Return Volcano's bin-packing score of each HyperNode, 0 where the group exceeds its resources."""
        requested: dict[str, int] = {}
        for shape, count in pods.items():
            for resource, amount in shape.amounts.items():
                if amount and self._weights.get(resource, 0):
                    requested[resource] = requested.get(resource, 0) + amount * count
        total = np.zeros(len(tier.names))
        weights, exceeded = 0, np.zeros(len(tier.names), np.bool_)
        cluster = self._cluster
        for resource in sorted(requested):
            row, weight = cluster.row(resource), self._weights[resource]
            allocatable = tier.sums(cluster.allocatable[row].astype(np.float64))
            # What pods use beyond a node is used on no other node of the HyperNode.
            used_there = np.minimum(cluster.used[row], cluster.allocatable[row])
            used = tier.sums(used_there.astype(np.float64)) + requested[resource]
            exceeded |= used > allocatable
            total += weight * (used / np.maximum(allocatable, 1.0))
            weights += weight
        return np.where(exceeded, 0.0, total / weights) if weights else total


def _fitting(tier: Tier, group: PodGroupRoom, room: Callable[[Shape], Vector]) -> Vector:
    """Return how many pods of the group each HyperNode takes if nodes take as many pods as ``room`` says."""
    fitting = np.zeros(len(tier.names), np.int64)
    for shape, count in group.pods.items():
        fitting += np.minimum(tier.sums(np.minimum(room(shape), count)), count)
    return fitting
