"""The domains of topology flavors, and the hosts of flavors without a topology, as trees.

A tree of hosts has one level, the host name.  Pods of flavors without a topology may be checked against
nodes, or get a node as their place.  A pod that gets resources of several flavors runs on a node with the
labels of all of them.

What is used of a host counts for every flavor with a topology that ends in the host name; other leaves count
the usage of their own flavor only.  Trees are filled in slices between the cycles, or at once where a
decision needs one before.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.configuration.queueing import NodeFitMode
from quorate.api.core.scheduling import Node
from quorate.api.kueue import ResourceFlavor
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.meta import is_true
from quorate.placement.cluster import Cluster
from quorate.placement.topology.leaf_fits import LeafFits
from quorate.placement.topology.tree import DomainTree, Path
from quorate.queueing.nodes.occupants import Occupants
from quorate.queueing.nodes.places import LEVELS, Amounts, Place, UsedBy, UsedPlaces
from quorate.queueing.nodes.topology_flavors import TopologyFlavors, mode_of

SLICE_SIZE: Final = 100  # nodes

Labels = frozenset[tuple[str, str]]
TreeOf = str | Labels  # a topology flavor, or the labels that all hosts have


class KnownTree(NamedTuple):
    """A tree that has been built."""

    of: TreeOf
    tree: DomainTree

    @property
    def flavor(self) -> str:
        """The topology flavor; "" for hosts of flavors without a topology."""
        return self.of if isinstance(self.of, str) else ""


class TopologyTrees(TopologyFlavors):
    """The nodes, what takes room on them, and the trees that have been asked for."""

    def __init__(self, gates: TopologyGates | None, node_fit: NodeFitMode) -> None:
        super().__init__(gates, node_fit)
        self.has_nodes = True  # False while nodes and pods are being listed: no pod gets a place
        self.nodes: dict[str, Node] = {}  # of the cluster, whatever their state
        self.cluster = Cluster()  # the same nodes, with the pods that take room themselves
        self.occupants = Occupants()  # pods, also of those that are counted by places
        self.used = UsedPlaces()
        self.domain_changes = 0  # how often a node joined or left a tree that had been built
        self._trees: dict[TreeOf, DomainTree] = {}
        self._unread: dict[TreeOf, dict[str, None]] = {}  # the nodes that trees do not contain yet
        self._has_new_trees = True  # False if each flavor has its tree

    def tree(self, flavor: str) -> DomainTree | None:
        """Return the domains of a topology flavor; None for others, and while they are not known."""
        if flavor in self._unread:
            self._fill(flavor)
        tree = self._trees.get(flavor)
        if tree is None and self.has_nodes and self.levels(flavor) is not None:
            tree = self._build(flavor)
        return tree

    def host_tree(self, flavors: Iterable[str]) -> DomainTree | None:
        """Return the hosts on which pods with resources of all ``flavors`` can run, a tree with one level.

        None while the nodes are not known.  A host is used by the pods of all flavors that are placed on it.
        """
        if not self.has_nodes:
            return None
        labels = labels_of(self.flavors[name] for name in flavors if name in self.flavors)
        if labels in self._unread:
            self._fill(labels)
        tree = self._trees.get(labels)
        return self._build(labels) if tree is None else tree

    def known_trees(self) -> list[KnownTree]:
        """Return the trees that have been built, those without unread nodes."""
        return [KnownTree(of, tree) for of, tree in self._trees.items() if of not in self._unread]

    def is_in(self, node: Node, of: TreeOf) -> bool:
        """Return True if a node belongs to a tree."""
        return self.belongs(node, self.flavors[of]) if isinstance(of, str) else is_host(node, of)

    def used_in(self, kept: KnownTree, values: Path) -> Iterator[Amounts]:
        """Yield what placed pods use of a leaf of a tree."""
        for used, amounts in self.used.by_leaf.get(values, {}).items():
            if self._is_usage_of(kept.of, kept.tree, used):
                yield amounts

    def nodes_at(self, place: Place) -> Iterator[str]:
        """Yield the names of the nodes of the leaf of a place, in the trees that have been built."""
        used = UsedBy(place.flavors, place.on_host)
        for kept in self.known_trees():
            if place.values in kept.tree.leaves and self._is_usage_of(kept.of, kept.tree, used):
                yield from kept.tree.node_names(place.values)

    def _is_usage_of(self, of: TreeOf, tree: DomainTree, used: UsedBy) -> bool:
        """Return True if ``used`` counts in a tree that has a leaf with these values."""
        if used.on_host != tree.has_hosts:
            return False
        if not isinstance(of, str):
            return True
        return of in used.flavors or (used.on_host and (self.gates.overlapping_flavors or not used.flavors))

    def _trees_with(self, node: Node) -> Iterator[DomainTree]:
        """Yield the trees that contain a node."""
        for of, tree in self._trees.items():
            if self.is_in(node, of) and node.metadata.name not in self._unread.get(of, ()):
                yield tree

    def _flavors_of(self, *nodes: Node) -> tuple[str, ...]:
        """Return the flavors that give places on one of the nodes."""
        return tuple(
            name
            for name, flavor in self.flavors.items()
            if (flavor.spec.topology_name and any(self.belongs(node, flavor) for node in nodes))
            or (
                mode_of((flavor,), self._node_fit) == "Require"
                and any(is_host(node, labels_of((flavor,))) for node in nodes)
            )
        )

    # Building.

    def _forget_tree(self, of: TreeOf) -> None:
        self._trees.pop(of, None)
        self._unread.pop(of, None)
        self._has_new_trees = True

    def _forget_trees_of_flavors(self) -> None:
        for of in [of for of in self._trees if isinstance(of, str)]:
            self._forget_tree(of)
        self._has_new_trees = True

    def _forget_trees(self) -> None:
        self._trees.clear()
        self._unread.clear()
        self._has_new_trees = True

    def _prepare_trees(self, nodes: int) -> bool:
        """Add ``nodes`` nodes to a tree that lacks some; return True if no tree does."""
        if self._has_new_trees and self.nodes:
            self._begin_trees()
        if self._unread:
            self._fill(next(iter(self._unread)), nodes)
            return False
        return True

    def _begin_trees(self) -> None:
        """Add the trees that flavors lack, without nodes."""
        self._has_new_trees = False
        placing = [name for name in sorted(self.placing) if self.is_on and self.levels(name) is not None]
        hosts = [labels_of((self.flavors[name],)) for name in sorted(self.requiring | self.reporting)]
        wanted: list[TreeOf] = [*placing, *dict.fromkeys(hosts)]
        for of in wanted:
            if of not in self._trees:
                self._add_tree(of, ())
                names = (name for name, node in self.nodes.items() if self.is_in(node, of))
                self._unread[of] = dict.fromkeys(sorted(names))

    def _add_tree(self, of: TreeOf, nodes: Iterable[Node]) -> DomainTree:
        flavor = self.flavors[of] if isinstance(of, str) else None
        levels = LEVELS if flavor is None else self.levels(flavor.metadata.name)
        assert levels is not None, f"the topology of {of} does not exist"
        tree = DomainTree("" if flavor is None else flavor.spec.topology_name, levels, self.cluster, nodes)
        if tree.below is not None and flavor is not None:
            tree.below.placed = partial(self.used.pods_in, flavor.metadata.name)
            tree.below.bound = self._placed_on
            tree.below.tolerations = flavor.spec.tolerations
        self._trees[of] = tree
        return tree

    def _placed_on(self, node: str) -> Iterator[Amounts]:
        """Yield the requests of the pods with places that are bound to a node."""
        for requests in self.occupants.placed_on(node):
            assert isinstance(requests, Mapping), "only pods that can be read have places"
            yield requests

    def _build(self, of: TreeOf) -> DomainTree:
        """Add a tree with all of its nodes."""
        nodes = [node for node in self.nodes.values() if self.is_in(node, of)]
        tree = self._add_tree(of, nodes)
        for values in self.used.by_leaf:
            self._add_used(of, tree, values)
        return tree

    def _fill(self, of: TreeOf, count: int | None = None) -> None:
        """Add ``count`` of the nodes that a tree lacks, or all; build it anew if nodes share a host name."""
        tree, unread = self._trees[of], self._unread[of]
        for name in list(islice(unread, count)):
            node = self.nodes[name]
            if not tree.can_change(None, node):
                self._forget_tree(of)
                if self.has_nodes:
                    self._build(of)
                return
            del unread[name]
            self._add_node(of, tree, node)
        if not unread:
            del self._unread[of]

    @contextmanager
    def without_pods(self) -> Iterator[None]:
        """Count as if nodes had no pods but those with places, while the context is open."""
        used, fits = self.cluster.used, {of: tree.fits for of, tree in self._trees.items()}
        self.cluster.used = used * 0
        for tree in self._trees.values():
            tree.fits = LeafFits()
        try:
            yield
        finally:
            self.cluster.used = used
            for of, tree in self._trees.items():
                tree.fits = fits.get(of, LeafFits())

    def _change_node(self, old: Node | None, new: Node | None) -> None:
        """Replace a node in the trees, or drop trees that must be built again."""
        for of, tree in list(self._trees.items()):
            before = old if old is not None and self.is_in(old, of) else None
            after = new if new is not None and self.is_in(new, of) else None
            if not self._update(of, tree, before, after):
                self._forget_tree(of)

    def _update(self, of: TreeOf, tree: DomainTree, old: Node | None, new: Node | None) -> bool:
        """Replace a node of ``tree``; return False, without effect, if the tree must be built again."""
        node = new or old
        if node is None:
            return True
        unread = self._unread.get(of, {})
        if node.metadata.name in unread:
            if new is None:
                del unread[node.metadata.name]
            return True
        if not tree.can_change(old, new):
            return False
        if old is not None and new is not None and tree.replace_node(old, new):
            return True
        self.domain_changes += 1
        if old is not None:
            tree.remove_node(old)
        if new is not None:
            self._add_node(of, tree, new)
        return True

    def _add_node(self, of: TreeOf, tree: DomainTree, node: Node) -> None:
        """Add a node to a tree. If the node has a new leaf, add the usage of that leaf by placed pods."""
        if tree.add_node(node):
            self._add_used(of, tree, tree.recorded_values_of(node))

    def _add_used(self, of: TreeOf, tree: DomainTree, values: Path) -> None:
        """Add to ``tree`` what placed pods use of the leaf ``values``, if the leaf exists."""
        for amounts in self.used_in(KnownTree(of, tree), values):
            tree.add_used(values, amounts)


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
