"""The hosts of flavors without a topology: each a tree with one level, the host name.

Pods of such flavors may be checked against nodes, or get a node as their place.  A pod that gets resources of
several flavors runs on a node with the labels of all of them.
"""

from collections.abc import Iterable, Mapping
from typing import Final

from quorate.api.core.scheduling import Node
from quorate.api.kueue import ResourceFlavor
from quorate.api.meta import is_true
from quorate.placement.topology.tree import HOSTNAME, DomainTree, Path

LEVELS: Final = (HOSTNAME,)

Amounts = Mapping[str, int]
Labels = frozenset[tuple[str, str]]


class HostTrees:
    """The trees that have been asked for, by the labels that their nodes have."""

    def __init__(self) -> None:
        self._trees: dict[Labels, DomainTree] = {}

    def get(self, labels: Labels) -> DomainTree | None:
        return self._trees.get(labels)

    def put(self, labels: Labels, tree: DomainTree) -> None:
        self._trees[labels] = tree

    def clear(self) -> None:
        self._trees.clear()

    def remove(self, labels: Labels) -> None:
        del self._trees[labels]

    def items(self) -> list[tuple[Labels, DomainTree]]:
        return [*self._trees.items()]

    def add_used(self, host: Path, amounts: Amounts, times: int) -> None:
        for tree in self._trees.values():
            tree.add_used(host, amounts, times)


def labels_of(flavors: Iterable[ResourceFlavor]) -> Labels:
    """Return the labels that a node of all ``flavors`` has; contradicting ones are all in the result."""
    return frozenset(pair for flavor in flavors for pair in flavor.spec.node_labels.items())


def is_host(node: Node, labels: Labels) -> bool:
    """Return True if pods can start on the node, and it has a host name and ``labels``."""
    own = node.metadata.labels
    return (
        bool(own.get(HOSTNAME))
        and not node.spec.unschedulable
        and is_true(node.status.conditions, "Ready")
        and all(own.get(key) == value for key, value in labels)
    )
