"""The domains of every topology flavor, with what pods use of them.

What is used of a host counts for every flavor with a topology that ends in the host name; other leaves count
the usage of their own flavor only.

Trees are filled in slices between the cycles, or at once where a decision needs one before.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import islice
from typing import Final, NamedTuple

from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.configuration.queueing import NodeFitMode
from quorate.api.core.bound_pod import BoundPod
from quorate.api.core.pod_resources import EncodedRequests
from quorate.api.core.scheduling import Node
from quorate.api.kueue.topology import Topology
from quorate.api.meta import Key
from quorate.placement.topology.tree import DomainTree, Path
from quorate.queueing.inadmissible_reasons import NodesLackRoom
from quorate.queueing.topology.foreign_pods import (
    NodeUse,
    PodsByWorkload,
    group_of,
    offer_the_same,
    offered_amounts,
    requests_place,
    usage_on_node,
    uses_node,
    workload_of,
)
from quorate.queueing.topology.host_trees import LEVELS, HostTrees, Labels, is_host, labels_of
from quorate.queueing.topology.node_fit import mode_of
from quorate.queueing.topology.placement_memo import PlacementMemo
from quorate.queueing.topology.places import Amounts, Place, UsedBy
from quorate.queueing.topology.pod_constraints import PodConstraints
from quorate.queueing.topology.pods_in_leaves import PodsInLeaves
from quorate.queueing.topology.topology_flavors import TopologyFlavors

SLICE_SIZE: Final = 100  # nodes


class KnownTree(NamedTuple):
    """A tree that has been built, of a flavor, or of the hosts with some labels."""

    flavor: str  # "" for hosts of flavors without a topology
    labels: Labels | None
    tree: DomainTree


class TopologyModel(TopologyFlavors):
    """See the module docstring."""

    def __init__(self, gates: TopologyGates | None, node_fit: NodeFitMode = "Off") -> None:
        super().__init__(gates, node_fit)
        self.has_nodes = True  # False while nodes and pods are being listed: no pod gets a place
        self.nodes: dict[str, Node] = {}  # of the cluster, whatever their state
        self.domain_changes = 0  # how often a node joined or left a tree that had been built
        # By node and pod: the requests of other pods.
        self._foreign: dict[str, dict[Key, Amounts | EncodedRequests]] = {}
        self._node_of: dict[Key, str] = {}  # by foreign pod
        self._with_places: set[Key] = set()  # workloads
        self._pods = PodsByWorkload()  # those that request a place
        self._members = PodsByWorkload()  # those of Volcano pod groups, which request none
        # By the values of each leaf, whether or not it and its flavors exist: by pods placed in topologies.
        self._used: dict[Path, dict[UsedBy, dict[str, int]]] = {}
        self._pods_in_leaves = PodsInLeaves(self._pods)
        self._trees: dict[str, DomainTree] = {}  # by flavor
        self._hosts = HostTrees()  # for flavors without a topology
        self._unread: dict[DomainTree, dict[str, None]] = {}  # the nodes that trees do not contain yet
        self._has_new_trees = True  # False if each flavor has its tree
        self.constraints = PodConstraints(self.nodes, self._node_of)
        self.version = 0  # incremented with every change
        self.capacity_version = 0  # incremented with every change except of what placed pods use
        self.placements: PlacementMemo[object] = PlacementMemo()
        self.empty_placements: PlacementMemo[object] = PlacementMemo()  # as if no pods had been placed
        self.reports: PlacementMemo[tuple[NodesLackRoom | None]] = PlacementMemo()  # which pods fit no host

    def _capacity_changed(self) -> None:
        self.version += 1
        self.capacity_version += 1

    def _forget_tree(self, flavor: str) -> None:
        tree = self._trees.pop(flavor, None)
        if tree is not None:
            self._unread.pop(tree, None)
        self._has_new_trees = True

    def _forget_trees(self) -> None:
        for flavor in [*self._trees]:
            self._forget_tree(flavor)
        self._has_new_trees = True

    # Objects.

    def put_topology(self, topology: Topology) -> None:
        super().put_topology(topology)
        self._pods_in_leaves.set_reads_bound(self._has_leaves_above_hosts, self._with_places)
        self._capacity_changed()
        self._forget_trees()

    def remove_topology(self, name: str) -> None:
        super().remove_topology(name)
        self._capacity_changed()
        self._forget_trees()

    def flavor_changed(self, name: str) -> None:
        """Read a flavor of ``flavors`` that is new, has another specification or mode, or is gone."""
        super().flavor_changed(name)
        self._capacity_changed()
        self._forget_tree(name)

    def put_node(self, node: Node) -> tuple[str, ...]:
        """Return the flavors that give places on the node, or did before."""
        old = self.nodes.get(node.metadata.name)
        self.nodes[node.metadata.name] = node
        self.constraints.put_node(node, old)
        return self._node_changed(old, node)

    def remove_node(self, name: str) -> tuple[str, ...]:
        node = self.nodes.pop(name, None)
        if node is None:
            return ()
        self.constraints.remove_node(node)
        return self._node_changed(node, None)

    def _node_changed(self, old: Node | None, new: Node | None) -> tuple[str, ...]:
        self._capacity_changed()
        for name, tree in [*self._trees.items()]:
            flavor = self.flavors[name]
            before = old if old is not None and self.belongs(old, flavor) else None
            after = new if new is not None and self.belongs(new, flavor) else None
            if not self._update(name, tree, before, after):
                self._forget_tree(name)
        for labels, tree in self._hosts.items():
            before = old if old is not None and is_host(old, labels) else None
            after = new if new is not None and is_host(new, labels) else None
            if not self._update("", tree, before, after):
                self._hosts.remove(labels)
                self._unread.pop(tree, None)
                self._has_new_trees = True
        return self._flavors_of(*(node for node in (old, new) if node is not None))

    def _update(self, flavor: str, tree: DomainTree, old: Node | None, new: Node | None) -> bool:
        """Replace a node of ``tree``; return False, without effect, if the tree must be built again.

        ``flavor``: that of the tree, "" for hosts of flavors without a topology.
        """
        known = new or old
        if known is None:
            return True
        if self._is_unread(tree, known.metadata.name):
            if new is None:
                del self._unread[tree][known.metadata.name]
            return True
        if not tree.can_change(old, new):
            return False
        if old is not None and new is not None and offer_the_same(old, new) and tree.replace_node(old, new):
            return True
        self.domain_changes += 1
        if old is not None:
            self._add_foreign(tree, old, 1)
            tree.remove_node(old)
        if new is not None:
            self._add_node(flavor, tree, new)
        return True

    def _add_node(self, flavor: str, tree: DomainTree, node: Node) -> None:
        """Add a node to a tree, with what other pods use of it and, if its leaf is new, placed ones."""
        is_first = tree.add_node(node)
        self._add_foreign(tree, node, -1)
        if is_first:
            self._add_used(flavor, tree, tree.recorded_values_of(node))

    def _is_unread(self, tree: DomainTree, node: str) -> bool:
        """Return True if a node belongs to a tree and is not in it yet."""
        return bool(self._unread) and node in self._unread.get(tree, ())

    def _add_foreign(self, tree: DomainTree, node: Node, times: int) -> None:
        for amounts in self.foreign_on(node):
            tree.add_free(node, amounts, times)

    def _flavors_of(self, *nodes: Node) -> tuple[str, ...]:
        return tuple(
            name
            for name, flavor in self.flavors.items()
            if (flavor.spec.topology_name and any(self.belongs(node, flavor) for node in nodes))
            or (
                mode_of((flavor,), self._node_fit) == "Require"
                and any(is_host(node, labels_of((flavor,))) for node in nodes)
            )
        )

    def put_pod(self, pod: BoundPod) -> tuple[str, ...]:
        """Count what a pod uses unless its workload has places; see ``put_foreign_pod``."""
        key, workload = pod.metadata.key, workload_of(pod)
        if not uses_node(pod) or (requests_place(pod) and workload is None):
            return self.remove_pod(key)
        use = NodeUse(pod.spec.node_name, usage_on_node(pod))
        if self._pods.workload_of(key) not in (None, workload):
            self.remove_pod(key)
        self.constraints.put_pod(pod)
        group = None if requests_place(pod) else group_of(pod)
        if group is None or self._members.workload_of(key) != group:
            self._members.remove(key)
        if group is not None:
            self._members.put(group, key, use)
        if requests_place(pod) and workload is not None:
            self._pods.put(workload, key, use)
            if workload in self._with_places:
                self._bind(key, use)
                freed = self.remove_foreign_pod(key)
                return tuple(self.placing) if self.constraints.is_used else freed
        return self.put_foreign_pod(key, *use)

    def put_nominated_pod(self, pod: BoundPod) -> tuple[str, ...]:
        """Count what a pod will use of the node for which a scheduler evicts others; it is not bound yet.

        A pod of a workload with places is counted by these.
        """
        key, node = _nominated(pod.metadata.key), pod.status.nominated_node_name
        if requests_place(pod) or not node or pod.spec.node_name:
            return self.remove_foreign_pod(key)
        return self.put_foreign_pod(key, node, usage_on_node(pod))

    def remove_nominated_pod(self, pod: Key) -> tuple[str, ...]:
        """Return the flavors of the node for which the pod is no longer nominated."""
        return self.remove_foreign_pod(_nominated(pod))

    def remove_pod(self, pod: Key) -> tuple[str, ...]:
        """Return the flavors of the node that the pod leaves, if it counted."""
        self._pods.remove(pod)
        self._members.remove(pod)
        self._bind(pod, None)
        freed = self.remove_foreign_pod(pod)
        self.constraints.remove_pod(pod)
        return freed

    def prepare(self, nodes: int = SLICE_SIZE) -> bool:
        """Read a part of what places and checks need in the next cycle; return True if nothing is left.

        ``nodes``: how many to add to a tree.
        """
        if not (self.has_nodes and (self.placing or self.reporting)):
            return True
        if self._has_new_trees:
            self._begin_trees()
        if self._unread:
            of_flavors = {tree: flavor for flavor, tree in self._trees.items()}
            tree = next(iter(self._unread))
            self._fill(of_flavors.get(tree, ""), tree, nodes)
            return False
        return self.constraints.prepare()

    def _begin_trees(self) -> None:
        """Add the trees that flavors lack, without nodes."""
        self._has_new_trees = False
        for name in sorted(self.placing) if self.is_on else ():
            levels = self.levels(name)
            if levels is not None and name not in self._trees:
                flavor = self.flavors[name]
                tree = self._trees[name] = DomainTree(flavor.spec.topology_name, levels, ())
                self._pods_in_leaves.connect(tree, flavor)
                self._unread[tree] = self._names_of(partial(self.belongs, flavor=flavor))
        for name in sorted(self.requiring | self.reporting):
            labels = labels_of((self.flavors[name],))
            if self._hosts.get(labels) is None:
                tree = DomainTree("", LEVELS, ())
                self._hosts.put(labels, tree)
                self._unread[tree] = self._names_of(partial(is_host, labels=labels))

    def _names_of(self, belongs: Callable[[Node], bool]) -> dict[str, None]:
        return dict.fromkeys(sorted(name for name, node in self.nodes.items() if belongs(node)))

    def _fill(self, flavor: str, tree: DomainTree, count: int | None = None) -> None:
        """Add ``count`` of the nodes that a tree lacks, or all; build it anew if nodes share a host name."""
        unread = self._unread[tree]
        for name in list(islice(unread, count)):
            node = self.nodes[name]
            if not tree.can_change(None, node):
                self._build_at_once(flavor, tree)
                return
            del unread[name]
            self._add_node(flavor, tree, node)
        if not unread:
            del self._unread[tree]

    def _build_at_once(self, flavor: str, tree: DomainTree) -> None:
        """Replace a tree that lacks nodes."""
        del self._unread[tree]
        if flavor:
            del self._trees[flavor]
            self.tree(flavor)
            return
        labels = next(labels for labels, known in self._hosts.items() if known is tree)
        self._hosts.remove(labels)
        self._hosts_with(labels)

    def bound_pods(self, workload: Key, pod_set: str, levels: Sequence[str]) -> Counter[Path]:
        """Return how many pods of a pod set are bound in each domain, by its values for ``levels``.

        Pods of elastic jobs are not counted: they do not name the slice with their place.
        """
        return Counter(
            tuple(node.metadata.labels.get(level, "") for level in levels)
            for pod, use in self._pods.uses_of(workload)
            if self.constraints.pod_set_of(pod) == pod_set and (node := self.nodes.get(use.node)) is not None
        )

    def bound_members(self, group: Key, levels: Sequence[str]) -> Counter[Path]:
        """Return how many pods of a Volcano pod group are bound in each domain; see ``bound_pods``."""
        return Counter(
            tuple("" if node is None else node.metadata.labels.get(level, "") for level in levels)
            for _, use in self._members.uses_of(group)
            for node in (self.nodes.get(use.node),)
        )

    def nodes_of(self, workload: Key, group: Key | None) -> AbstractSet[str]:
        """Return the nodes of the bound pods of a workload that request a place, or of its pod group."""
        uses = self._pods.uses_of(workload) if group is None else self._members.uses_of(group)
        return {use.node for _, use in uses}

    def pod_group_of(self, pod: Key) -> Key | None:
        """Return the Volcano pod group of a bound pod that requests no place."""
        return self._members.workload_of(pod)

    def workload_of(self, pod: Key) -> Key | None:
        """Return the workload of a bound pod that requests a place; None: unknown."""
        return self._pods.workload_of(pod)

    def set_has_places(self, workload: Key, has_places: bool) -> None:
        """Tell if the places of a workload are counted: otherwise each of its pods is."""
        if has_places:
            self._with_places.add(workload)
        else:
            self._with_places.discard(workload)
        self._count_pods_of(workload)

    def _count_pods_of(self, workload: Key) -> None:
        for pod, use in self._pods.uses_of(workload):
            if workload in self._with_places:
                self._bind(pod, use)
                self.remove_foreign_pod(pod)
            else:
                self._bind(pod, None)
                self.put_foreign_pod(pod, *use)

    def _bind(self, pod: Key, use: NodeUse | None) -> None:
        """Read on which node a pod with a place is, if leaves above hosts must know it."""
        for name in self._pods_in_leaves.bind(pod, use):
            node = self.nodes.get(name)
            if node is None:
                continue
            self._capacity_changed()
            for flavor, tree in self._trees.items():
                if tree.below is not None and self.belongs(node, self.flavors[flavor]):
                    tree.note_bound(node)

    def put_foreign_pod(self, pod: Key, node: str, requests: Amounts | EncodedRequests) -> tuple[str, ...]:
        """Count a bound pod that has no place in a topology, with its requests and 1 of ``pods``.

        Returns the flavors of the node on which the pod counted before with other requests.
        """
        freed = self.remove_foreign_pod(pod)
        self._foreign.setdefault(node, {})[pod] = requests
        self._node_of[pod] = node
        self.constraints.count(pod, node)
        self._count_foreign(node, requests, 1)
        # A pod may be what affinity of others requires, on whatever node these get.
        return tuple(self.placing) if self.constraints.is_used else freed

    def remove_foreign_pod(self, pod: Key) -> tuple[str, ...]:
        """Return the flavors of the node that the pod leaves."""
        if pod not in self._node_of:
            return ()
        self.constraints.uncount(pod)
        node = self._node_of.pop(pod)
        requests = self._foreign[node].pop(pod)
        if not self._foreign[node]:
            del self._foreign[node]
        return self._count_foreign(node, requests, -1)

    def _count_foreign(self, name: str, requests: Amounts | EncodedRequests, times: int) -> tuple[str, ...]:
        self._capacity_changed()
        node = self.nodes.get(name)
        if node is None:
            return ()
        flavors, amounts = self._flavors_of(node), offered_amounts(requests, node)
        for flavor in flavors:
            tree = self._trees.get(flavor)
            if tree is not None and not self._is_unread(tree, name):
                tree.add_free(node, amounts, -times)
        for labels, tree in self._hosts.items():
            if is_host(node, labels) and not self._is_unread(tree, name):
                tree.add_free(node, amounts, -times)
        return flavors

    def set_has_nodes(self, has_nodes: bool) -> None:
        self.has_nodes = has_nodes
        self._capacity_changed()

    def take_nodes(self, old: "TopologyModel") -> None:
        """Take over the nodes and foreign pods of ``old``, which is not used any more."""
        self.has_nodes, self.nodes = old.has_nodes, old.nodes
        self._foreign, self._node_of = old._foreign, old._node_of
        self._pods, self._members = old._pods, old._members
        self._pods_in_leaves.take_pods(self._pods)
        self._pods_in_leaves.set_reads_bound(self._has_leaves_above_hosts, self._with_places)
        self.constraints.take_pods(old.constraints, self.nodes, self._node_of)
        for workload in self._pods.workloads():
            self._count_pods_of(workload)
        self._forget_trees()
        self._hosts.clear()
        self._unread.clear()
        self._capacity_changed()

    def tree(self, flavor: str) -> DomainTree | None:
        """Return the domains of a topology flavor; None for others, and while they are not known."""
        tree = self._trees.get(flavor)
        if self._unread and tree is not None and tree in self._unread:
            self._fill(flavor, tree)
            tree = self._trees.get(flavor)
        levels = self.levels(flavor) if self.has_nodes else None
        if tree is not None or levels is None:
            return tree
        spec = self.flavors[flavor]
        nodes = [node for node in self.nodes.values() if self.belongs(node, spec)]
        tree = self._trees[flavor] = self._tree_of(spec.spec.topology_name, levels, nodes)
        self._pods_in_leaves.connect(tree, spec)
        for values in self._used:
            self._add_used(flavor, tree, values)
        return tree

    def host_tree(self, flavors: Iterable[str]) -> DomainTree | None:
        """Return the hosts on which pods with resources of all ``flavors`` can run, a tree with one level.

        None while the nodes are not known.  A host is used by the pods of all flavors that are placed on it.
        """
        if not self.has_nodes:
            return None
        labels = labels_of(self.flavors[name] for name in flavors if name in self.flavors)
        tree = self._hosts.get(labels)
        if self._unread and tree is not None and tree in self._unread:
            self._fill("", tree)
        return self._hosts_with(labels)

    def _hosts_with(self, labels: Labels) -> DomainTree:
        tree = self._hosts.get(labels)
        if tree is None:
            nodes = [node for node in self.nodes.values() if is_host(node, labels)]
            tree = self._tree_of("", LEVELS, nodes)
            for values in self._used:
                self._add_used("", tree, values)
            self._hosts.put(labels, tree)
        return tree

    def _tree_of(self, topology: str, levels: tuple[str, ...], nodes: Sequence[Node]) -> DomainTree:
        """Return the domains of ``nodes`` with what pods without a place leave of them."""
        tree = DomainTree(topology, levels, nodes)
        for node in nodes:
            self._add_foreign(tree, node, -1)
        return tree

    # Usage.

    def _is_usage_of(self, flavor: str, tree: DomainTree, used: UsedBy) -> bool:
        """Return True if ``used`` counts in the tree of a flavor, or of hosts if that is "".

        It is given that the tree has a leaf with these values.
        """
        is_shared = used.on_host and (not flavor or self.gates.overlapping_flavors or not used.flavors)
        return used.on_host == tree.has_hosts and (is_shared or flavor in used.flavors)

    def _add_used(self, flavor: str, tree: DomainTree, values: Path) -> None:
        """Add what is used of one leaf, if it exists."""
        for used, amounts in self._used.get(values, {}).items():
            if self._is_usage_of(flavor, tree, used):
                tree.add_used(values, amounts)

    def count(self, places: Iterable[Place], times: int) -> None:
        """Count the usage of ``places``; ``times`` is 1, or -1 to take it back.

        It is recorded whether or not nodes, flavors and topologies are known, and read when they are.
        """
        self.version += 1
        for place in places:
            key = UsedBy(place.flavors, place.on_host)
            of_leaf = self._used.setdefault(place.values, {})
            used = of_leaf.setdefault(key, {})
            for resource, amount in place.amounts.items():
                used[resource] = used.get(resource, 0) + amount * times
                if not used[resource]:
                    del used[resource]
            if not used:
                del of_leaf[key]
                if not of_leaf:
                    del self._used[place.values]
            for flavor, tree in self._trees.items():
                if self._is_usage_of(flavor, tree, key):
                    tree.add_used(place.values, place.amounts, times)
            if not place.on_host:
                self._pods_in_leaves.count(place, times)
            if place.on_host:
                self._hosts.add_used(place.values, place.amounts, times)
                if place.template is not None:
                    self.constraints.hold(place.values[-1], place.template, place.pods * times)

    # Audit.

    @property
    def used(self) -> Mapping[Path, Mapping[UsedBy, Amounts]]:
        """What placed pods use, by the values of each leaf."""
        return self._used

    @property
    def with_places(self) -> AbstractSet[Key]:
        """The workloads of which the places are counted instead of the pods."""
        return self._with_places

    def foreign_on(self, node: Node) -> Iterable[Amounts]:
        """Yield what each pod without a place uses of what a node offers."""
        for requests in self._foreign.get(node.metadata.name, {}).values():
            yield offered_amounts(requests, node)

    def known_trees(self) -> list[KnownTree]:
        """Return the trees that have been built, those without unread nodes."""
        of_flavors = [KnownTree(flavor, None, tree) for flavor, tree in self._trees.items()]
        of_hosts = [KnownTree("", labels, tree) for labels, tree in self._hosts.items()]
        return [known for known in of_flavors + of_hosts if known.tree not in self._unread]

    def is_in(self, node: Node, known: KnownTree) -> bool:
        """Return True if a node belongs to a tree."""
        if known.labels is not None:
            return is_host(node, known.labels)
        return self.belongs(node, self.flavors[known.flavor])

    def used_in(self, known: KnownTree, values: Path) -> Iterable[Amounts]:
        """Return what placed pods use of a leaf of a tree."""
        return [
            amounts
            for used, amounts in self._used.get(values, {}).items()
            if self._is_usage_of(known.flavor, known.tree, used)
        ]


def _nominated(pod: Key) -> Key:
    """Return a key that no pod has: a pod that is bound is known twice for a moment."""
    return Key(pod.namespace, f"{pod.name}/nominated")
