"""Domains by a node label: the nodes with equal values are one domain, as if of HyperNodes of one tier."""

from collections.abc import Sequence
from typing import Final

from quorate.placement.cluster import Cluster
from quorate.placement.hyper_nodes.index import Tier
from quorate.placement.vectors import Vector, np

LABEL_TIER: Final = 1


class LabelDomains:
    """The domains of one node label: a snapshot of the nodes at its creation.

    A node without the label is in no domain.
    """

    def __init__(self, cluster: Cluster, label: str) -> None:
        by_value: dict[str, list[int]] = {}
        for index, node in enumerate(cluster.nodes):
            if node is not None and (value := node.metadata.labels.get(label)):
                by_value.setdefault(value, []).append(index)
        self._nodes = {value: np.array(nodes, np.int64) for value, nodes in sorted(by_value.items())}
        lengths = [len(nodes) for nodes in self._nodes.values()]
        self.tiers: Sequence[Tier] = ()
        if lengths:
            nodes, starts = np.concatenate([*self._nodes.values()]), np.cumsum([0, *lengths[:-1]])
            self.tiers = (Tier(LABEL_TIER, tuple(self._nodes), nodes, starts),)
        self.roots: Sequence[str] = ()  # all nodes are filled as one part

    def nodes(self, value: str) -> Vector:
        """Return the indexes of the nodes with a value, sorted; none if no node has it."""
        return self._nodes.get(value, np.zeros(0, np.int64))

    def children(self, value: str) -> Sequence[str]:
        return ()

    def tier_named(self, tier_name: str) -> int | None:
        return None
