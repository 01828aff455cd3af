"""Counts of pods, or sums of weights, by node and by topology domain."""

from dataclasses import dataclass
from typing import Final

from quorate.api.core import NodeSelector
from quorate.placement.filters.node_affinity import matching_nodes
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.filters.taints import Tolerations, nodes_with_tolerated_taints
from quorate.placement.framework import Capacity
from quorate.placement.vectors import Mask, Vector, np

_STALE: Final = -1


@dataclass(frozen=True, slots=True)
class NodeInclusion:
    """The nodes to count: those with all label ``keys`` that match the other criteria."""

    keys: frozenset[str] = frozenset()
    labels: frozenset[tuple[str, str]] = frozenset()
    affinity: NodeSelector | None = None
    tolerations: Tolerations | None = None  # None ignores taints

    def mask(self, nodes: NodeColumns) -> Mask:
        included = matching_nodes(nodes, self.labels, self.affinity)
        for key in self.keys:
            included &= nodes.label(key).present()
        if self.tolerations is not None:
            included &= nodes_with_tolerated_taints(nodes, self.tolerations)
        return included


ALL_NODES: Final = NodeInclusion()


class DomainCounts:
    """A topology count summed by topology domain, the value of one node label.

    Only included nodes take part: other nodes neither add to a domain nor make it exist.  The sums follow
    each change of the count.  After a change of a node property they are computed again at the next query, as
    nodes may have moved to other domains.
    """

    __slots__ = (
        "_by_node",
        "_counts",
        "_exists",
        "_generation",
        "_inclusion",
        "_mask",
        "_nodes",
        "topology_key",
    )

    def __init__(
        self, nodes: NodeColumns, topology_key: str, inclusion: NodeInclusion, by_node: dict[int, int]
    ) -> None:
        self.topology_key = topology_key
        self._nodes, self._inclusion, self._by_node = nodes, inclusion, by_node
        self._generation = _STALE
        self._counts: Vector = np.zeros(0, np.int64)  # by number of the label's value
        self._mask: Mask = np.zeros(0, np.bool_)  # the nodes that take part
        self._exists: Mask = np.zeros(0, np.bool_)  # by number: whether a node that takes part has the value

    def add(self, node: int, amount: int) -> None:
        if self._generation == self._nodes.generation and self._mask[node]:
            self._counts[self._nodes.label(self.topology_key).codes[node]] += amount

    def at_nodes(self) -> Vector:
        """Return for each node the count of its domain; 0 for nodes outside all domains."""
        self._refresh()
        return self._nodes.label(self.topology_key).by_node(self._counts)

    def total(self) -> int:
        self._refresh()
        return int(self._counts.sum())

    def by_value(self) -> tuple[Vector, Mask]:
        """Return the count of each domain by the number of its value, and which of them exist."""
        self._refresh()
        return self._counts, self._exists

    def _refresh(self) -> None:
        if self._generation == self._nodes.generation:
            return
        column = self._nodes.label(self.topology_key)
        self._mask = column.present() & self._inclusion.mask(self._nodes)
        self._counts = np.zeros(len(column.values), np.int64)
        self._exists = np.zeros(len(column.values), np.bool_)
        self._exists[column.codes[self._mask]] = True
        for node, amount in self._by_node.items():
            if self._mask[node]:
                self._counts[column.codes[node]] += amount
        self._generation = self._nodes.generation


class TopologyCount:
    """An amount per node, and its sums by topology domain."""

    __slots__ = ("_domains", "_nodes", "by_node", "version")

    def __init__(self, nodes: NodeColumns) -> None:
        self._nodes = nodes
        self.version = 0  # incremented with every change
        self.by_node: dict[int, int] = {}  # without zeros
        self._domains: dict[tuple[str, NodeInclusion], DomainCounts] = {}  # those that were queried

    def add(self, node: int, amount: int) -> None:
        self.version += 1
        left = self.by_node.get(node, 0) + amount
        if left:
            self.by_node[node] = left
        else:
            self.by_node.pop(node, None)
        for domains in self._domains.values():
            domains.add(node, amount)

    def by_domain(self, topology_key: str, inclusion: NodeInclusion = ALL_NODES) -> DomainCounts:
        """Return the sums by ``topology_key``, which are updated from now on."""
        key = topology_key, inclusion
        domains = self._domains.get(key)
        if domains is None:
            domains = self._domains[key] = DomainCounts(self._nodes, topology_key, inclusion, self.by_node)
        return domains

    def at_nodes(self) -> Vector:
        counts = np.zeros(self._nodes.size, np.int64)
        counts[list(self.by_node)] = list(self.by_node.values())
        return counts


class TopologyCounts:
    """A topology count at idle capacity and one at future idle capacity.

    The first one includes releasing pods.
    """

    __slots__ = ("future_idle", "idle")

    def __init__(self, nodes: NodeColumns) -> None:
        self.idle = TopologyCount(nodes)
        self.future_idle = TopologyCount(nodes)

    def add(self, node: int, amount: int, releasing: bool) -> None:
        self.idle.add(node, amount)
        if not releasing:
            self.future_idle.add(node, amount)

    def at(self, capacity: Capacity) -> TopologyCount:
        return self.idle if capacity is Capacity.IDLE else self.future_idle
