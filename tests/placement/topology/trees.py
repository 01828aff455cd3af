"""Trees of the domains of nodes, and their cluster."""

from collections.abc import Iterable, Sequence

from quorate.api.core.scheduling import Node
from quorate.placement.cluster import Cluster
from quorate.placement.topology.tree import DomainTree


def cluster_with(nodes: Iterable[Node]) -> Cluster:
    cluster = Cluster()
    for node in nodes:
        cluster.set_node(node)
    return cluster


def tree_with(levels: Sequence[str], nodes: Sequence[Node]) -> DomainTree:
    return DomainTree("dc", levels, cluster_with(nodes), nodes)
