"""How many pods, or how much weight, there is on each node and in each domain."""

from dataclasses import dataclass
from typing import Final

import numpy as np

from quorate.api.core import NodeSelector
from quorate.placement.filters.node_affinity import selected
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.filters.taints import Tolerations, tolerable
from quorate.placement.framework import Capacity
from quorate.placement.vectors import Mask, Vector


@dataclass(frozen=True, slots=True)
class NodeInclusion:
    """Nodes that take part in counting: those with all ``keys`` that pass the demands given."""

    keys: frozenset[str] = frozenset()
    labels: frozenset[tuple[str, str]] = frozenset()
    affinity: NodeSelector | None = None
    tolerations: Tolerations | None = None  # None: taints do not matter

    def nodes(self, nodes: NodeColumns) -> Mask:
        included = selected(nodes, self.labels, self.affinity)
        for key in self.keys:
            included &= nodes.label(key).present()
        if self.tolerations is not None:
            included &= tolerable(nodes, self.tolerations)
        return included


ALL_NODES: Final = NodeInclusion()


STALE: Final = -1


class DomainCounts:
    """A headcount summed by the values of one node label.

    Only nodes that are included take part; the others neither add to a domain nor make one exist.  The sum
    follows each change of the headcount.  When a fact of a node has changed it is made anew at the next
    question, as nodes may have moved to other domains.
    """

    __slots__ = (
        "_by_node",
        "_counts",
        "_generation",
        "_inclusion",
        "_mask",
        "_nodes",
        "_open",
        "topology_key",
    )

    def __init__(
        self, nodes: NodeColumns, topology_key: str, node_inclusion: NodeInclusion, by_node: dict[int, int]
    ) -> None:
        self.topology_key = topology_key
        self._nodes, self._inclusion, self._by_node = nodes, node_inclusion, by_node
        self._generation = STALE
        self._counts: Vector = np.zeros(0, np.int64)  # by number of the label's value
        self._mask: Mask = np.zeros(0, np.bool_)  # the nodes that take part
        self._open: Mask = np.zeros(0, np.bool_)  # the values that a node taking part has

    def add(self, node: int, amount: int) -> None:
        if self._generation == self._nodes.generation and self._mask[node]:
            self._counts[self._nodes.label(self.topology_key).codes[node]] += amount

    def at_nodes(self) -> Vector:
        """For each node the count of its domain; 0 for nodes outside all domains."""
        self._refresh()
        return self._nodes.label(self.topology_key).spread(self._counts)

    def total(self) -> int:
        self._refresh()
        return int(self._counts.sum())

    def least(self, min_domains: int) -> int:
        """The smallest count of a domain: 0 if there are fewer than ``min_domains``."""
        self._refresh()
        counts = self._counts[self._open]
        return int(counts.min()) if len(counts) >= max(min_domains, 1) else 0

    def _refresh(self) -> None:
        if self._generation == self._nodes.generation:
            return
        column = self._nodes.label(self.topology_key)
        self._mask = column.present() & self._inclusion.nodes(self._nodes)
        self._counts = np.zeros(len(column.values), np.int64)
        self._open = np.zeros(len(column.values), np.bool_)
        self._open[column.codes[self._mask]] = True
        for node, amount in self._by_node.items():
            if self._mask[node]:
                self._counts[column.codes[node]] += amount
        self._generation = self._nodes.generation


class TopologyCount:
    """An amount for each node that has one, and its sums by domain."""

    __slots__ = ("_domains", "_nodes", "by_node", "version")

    def __init__(self, nodes: NodeColumns) -> None:
        self._nodes = nodes
        self.version = 0  # moves with every change
        self.by_node: dict[int, int] = {}  # never 0
        self._domains: dict[tuple[str, NodeInclusion], DomainCounts] = {}  # those asked for

    def add(self, node: int, amount: int) -> None:
        self.version += 1
        left = self.by_node.get(node, 0) + amount
        if left:
            self.by_node[node] = left
        else:
            self.by_node.pop(node, None)
        for domains in self._domains.values():
            domains.add(node, amount)

    def by(self, topology_key: str, node_inclusion: NodeInclusion = ALL_NODES) -> DomainCounts:
        """The sums by ``topology_key``, kept up to date from now on."""
        key = topology_key, node_inclusion
        domains = self._domains.get(key)
        if domains is None:
            domains = self._domains[key] = DomainCounts(
                self._nodes, topology_key, node_inclusion, self.by_node
            )
        return domains

    def at_nodes(self) -> Vector:
        counts = np.zeros(self._nodes.size, np.int64)
        counts[list(self.by_node)] = list(self.by_node.values())
        return counts


class TopologyCounts:
    """An amount now, with the pods that are being released, and later, when they are gone."""

    __slots__ = ("later", "now")

    def __init__(self, nodes: NodeColumns) -> None:
        self.now = TopologyCount(nodes)
        self.later = TopologyCount(nodes)

    def add(self, node: int, amount: int, releasing: bool) -> None:
        self.now.add(node, amount)
        if not releasing:
            self.later.add(node, amount)

    def at(self, capacity: Capacity) -> TopologyCount:
        return self.now if capacity is Capacity.IDLE else self.later
