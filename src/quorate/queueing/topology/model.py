"""The domains of every topology flavor, with what pods use of them.

A flavor with ``topologyName`` is a *topology flavor*.  Its nodes are those that are ready and schedulable,
have its node labels and have a value for each level of its Topology.  What is used of a host counts for every
flavor with a topology that ends in the host name; other leaves count the usage of their own flavor only.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple, Protocol

from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.configuration.queueing import NodeFitMode
from quorate.api.core.bound_pod import BoundPod
from quorate.api.core.scheduling import Node
from quorate.api.kueue import Admission, ResourceFlavor
from quorate.api.kueue.topology import Topology
from quorate.api.meta import Key, is_true
from quorate.placement.topology.tree import HOSTNAME, DomainTree, Path
from quorate.queueing.inadmissible_reasons import NodesLackRoom
from quorate.queueing.topology.foreign_pods import requests_place, usage_on_node, uses_node, workload_of
from quorate.queueing.topology.host_trees import LEVELS, HostTrees, Labels, is_host, labels_of
from quorate.queueing.topology.node_fit import mode_of
from quorate.queueing.topology.placement_memo import PlacementMemo
from quorate.queueing.topology.pod_constraints import PodConstraints
from quorate.queueing.topology.pod_templates import Template

Amounts = Mapping[str, int]


class Place(NamedTuple):
    """Equal pods in one leaf: its recorded values, and what all of them use."""

    flavors: tuple[str, ...]  # one of them has the topology; empty: a host, of flavors without a topology
    values: Path
    on_host: bool  # the leaf is a host
    amounts: Amounts
    pods: int = 0
    template: Template | None = None  # of the pods, on a host


class Places:
    """The places of one workload with quota, counted or not in the usage of the domains."""

    __slots__ = ("_model", "all")

    def __init__(self, model: "TopologyModel | None", places: Iterable[Place]) -> None:
        self._model = model
        self.all = tuple(places)

    def count(self, times: int) -> None:
        """Add the usage of the places; ``times`` is 1, or -1 to take it back."""
        if self._model is not None:
            self._model.count(self.all, times)


NO_PLACES = Places(None, ())


def without_places(places: Iterable[Place], others: Iterable[Place]) -> list[Place]:
    """Return what ``places`` use beyond what ``others`` use of the same leaves."""
    left: dict[tuple[tuple[str, ...], Path], dict[str, int]] = {}
    pods: dict[tuple[tuple[str, ...], Path], int] = {}
    for other in others:
        key = other.flavors, other.values
        amounts = left.setdefault(key, {})
        for resource, amount in other.amounts.items():
            amounts[resource] = amounts.get(resource, 0) + amount
        pods[key] = pods.get(key, 0) + other.pods
    if not left:
        return list(places)
    beyond: list[Place] = []
    for place in places:
        key = place.flavors, place.values
        held = left.get(key, {})
        amounts = {}
        for resource, amount in place.amounts.items():
            covered = min(amount, held.get(resource, 0))
            if covered:
                held[resource] -= covered
            amounts[resource] = amount - covered
        covered = min(place.pods, pods.get(key, 0))
        if covered:
            pods[key] -= covered
        if any(amounts.values()):
            beyond.append(place._replace(amounts=amounts, pods=place.pods - covered))
    return beyond


class UsedBy(NamedTuple):
    """Equal places of one leaf, as usage is recorded."""

    flavors: tuple[str, ...]
    on_host: bool


class KnownTree(NamedTuple):
    """A tree that has been built, of a flavor, or of the hosts with some labels."""

    flavor: str  # "" for hosts of flavors without a topology
    labels: Labels | None
    tree: DomainTree


class WithFlavors(Protocol):
    """A resource group of a cluster queue."""

    @property
    def flavors(self) -> Sequence[str]: ...


class TopologyModel:
    """See the module docstring."""

    def __init__(self, gates: TopologyGates | None, node_fit: NodeFitMode = "Off") -> None:
        self.gates = gates or TopologyGates()
        self.is_on = gates is not None
        self._node_fit = node_fit  # of flavors without the annotation
        self.flavors: Mapping[str, ResourceFlavor] = {}  # all flavors, also those without a topology
        # Names of flavors, updated by ``flavor_changed``.  Where a set is empty, nothing is looked up.
        self.placing: set[str] = set()  # pods get places: it has a topology, or requires that they fit nodes
        self.reporting: set[str] = set()  # pods that fit no node are reported
        self.requiring: set[str] = set()  # they must fit nodes
        # By cluster queue, with its groups: whether all of its flavors have topologies.
        self._topology_queues: dict[str, tuple[Mapping[str, WithFlavors], bool]] = {}
        self._modes: dict[frozenset[str], NodeFitMode] = {}  # by the flavors of pods
        self._topologies: dict[str, tuple[str, ...]] = {}  # node labels, by name
        self.has_nodes = True  # False while nodes and pods are being listed: no pod gets a place
        self.nodes: dict[str, Node] = {}  # of the cluster, whatever their state
        self.domain_changes = 0  # how often a node joined or left a tree that had been built
        self._foreign: dict[str, dict[Key, Amounts]] = {}  # by node and pod: the requests of other pods
        self._node_of: dict[Key, str] = {}  # by foreign pod
        self._with_places: set[Key] = set()  # workloads
        # Bound pods that request a place, by workload and key: their nodes and requests.
        self._pods_of: dict[Key, dict[Key, tuple[str, Amounts]]] = {}
        self._workload_of: dict[Key, Key] = {}  # by pod
        # By the values of each leaf, whether or not it and its flavors exist: by pods placed in topologies.
        self._used: dict[Path, dict[UsedBy, dict[str, int]]] = {}
        self._trees: dict[str, DomainTree] = {}  # by flavor; built when they are needed
        self._hosts = HostTrees()  # for flavors without a topology
        self.constraints = PodConstraints(self.nodes, self._node_of)
        self.version = 0  # incremented with every change
        self.capacity_version = 0  # incremented with every change except of what placed pods use
        self.placements: PlacementMemo[object] = PlacementMemo()
        self.empty_placements: PlacementMemo[object] = PlacementMemo()  # as if no pods had been placed
        self.reports: PlacementMemo[tuple[NodesLackRoom | None]] = PlacementMemo()  # which pods fit no host

    def _capacity_changed(self) -> None:
        self.version += 1
        self.capacity_version += 1

    # Objects.

    def put_topology(self, topology: Topology) -> None:
        self._topology_queues.clear()
        self._capacity_changed()
        self._topologies[topology.metadata.name] = tuple(level.node_label for level in topology.spec.levels)
        self._trees.clear()

    def remove_topology(self, name: str) -> None:
        self._topology_queues.clear()
        self._capacity_changed()
        self._topologies.pop(name, None)
        self._trees.clear()

    def flavor_changed(self, name: str) -> None:
        """Read a flavor of ``flavors`` that is new, has another specification or mode, or is gone."""
        self._capacity_changed()
        self._trees.pop(name, None)
        self._modes.clear()
        self._topology_queues.clear()
        flavor = self.flavors.get(name)
        mode = "Off" if flavor is None else mode_of((flavor,), self._node_fit)
        gives_places = flavor is not None and (bool(flavor.spec.topology_name) or mode == "Require")
        for names, is_member in (
            (self.placing, gives_places),
            (self.requiring, mode == "Require"),
            (self.reporting, mode == "Report"),
        ):
            if is_member:
                names.add(name)
            else:
                names.discard(name)

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
                del self._trees[name]
        for labels, tree in self._hosts.items():
            before = old if old is not None and is_host(old, labels) else None
            after = new if new is not None and is_host(new, labels) else None
            if not self._update("", tree, before, after):
                self._hosts.remove(labels)
        return self._flavors_of(*(node for node in (old, new) if node is not None))

    def _update(self, flavor: str, tree: DomainTree, old: Node | None, new: Node | None) -> bool:
        """Replace a node of ``tree``; return False, without effect, if the tree must be built again.

        ``flavor``: that of the tree, "" for hosts of flavors without a topology.
        """
        if old is None and new is None:
            return True
        if not tree.can_change(old, new):
            return False
        if old is not None and new is not None and tree.replace_node(old, new):
            return True
        self.domain_changes += 1
        if old is not None:
            self._add_foreign(tree, old, 1)
            tree.remove_node(old)
        if new is not None:
            is_first = tree.add_node(new)
            self._add_foreign(tree, new, -1)
            if is_first:
                self._add_used(flavor, tree, tree.recorded_values_of(new))
        return True

    def _add_foreign(self, tree: DomainTree, node: Node, times: int) -> None:
        values = tree.recorded_values_of(node)
        for requests in self._foreign.get(node.metadata.name, {}).values():
            tree.add_free(values, requests, times)

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

    def node_fit(self, flavors: frozenset[str]) -> NodeFitMode:
        """Return how pods that get resources of all ``flavors`` are checked against the nodes."""
        mode = self._modes.get(flavors)
        if mode is None:
            known = [self.flavors[name] for name in flavors if name in self.flavors]
            mode = self._modes[flavors] = mode_of(known, self._node_fit)
        return mode

    def put_pod(self, pod: BoundPod) -> tuple[str, ...]:
        """Count what a pod uses unless its workload has places; see ``put_foreign_pod``."""
        key, workload = pod.metadata.key, workload_of(pod)
        if not uses_node(pod) or (requests_place(pod) and workload is None):
            return self.remove_pod(key)
        use = (pod.spec.node_name, usage_on_node(pod))
        if self._workload_of.get(key, workload) != workload:
            self.remove_pod(key)
        self.constraints.put_pod(pod)
        if requests_place(pod) and workload is not None:
            self._workload_of[key] = workload
            self._pods_of.setdefault(workload, {})[key] = use
            if workload in self._with_places:
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
        workload = self._workload_of.pop(pod, None)
        if workload is not None:
            del self._pods_of[workload][pod]
            if not self._pods_of[workload]:
                del self._pods_of[workload]
        freed = self.remove_foreign_pod(pod)
        self.constraints.remove_pod(pod)
        return freed

    def running_on(self, workload: Key, pod_set: str, host: str) -> int:
        """Return how many pods of a pod set with places are bound to the node of a host."""
        bound = self._pods_of.get(workload, {})
        return sum(
            self._host_of(node) == host and self.constraints.pod_set_of(pod) == pod_set
            for pod, (node, _) in bound.items()
        )

    def _host_of(self, node: str) -> str:
        known = self.nodes.get(node)
        return "" if known is None else known.metadata.labels.get(HOSTNAME, "")

    def set_has_places(self, workload: Key, has_places: bool) -> None:
        """Tell if the places of a workload are counted: otherwise each of its pods is."""
        if has_places:
            self._with_places.add(workload)
        else:
            self._with_places.discard(workload)
        self._count_pods_of(workload)

    def _count_pods_of(self, workload: Key) -> None:
        for pod, (node, requests) in self._pods_of.get(workload, {}).items():
            if workload in self._with_places:
                self.remove_foreign_pod(pod)
            else:
                self.put_foreign_pod(pod, node, requests)

    def put_foreign_pod(self, pod: Key, node: str, requests: Amounts) -> tuple[str, ...]:
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

    def _count_foreign(self, name: str, requests: Amounts, times: int) -> tuple[str, ...]:
        self._capacity_changed()
        node = self.nodes.get(name)
        if node is None:
            return ()
        flavors = self._flavors_of(node)
        for flavor in flavors:
            tree = self._trees.get(flavor)
            if tree is not None:
                tree.add_free(tree.recorded_values_of(node), requests, -times)
        self._hosts.add_free(node, requests, -times)
        return flavors

    def set_has_nodes(self, has_nodes: bool) -> None:
        self.has_nodes = has_nodes
        self._capacity_changed()

    def take_nodes(self, old: "TopologyModel") -> None:
        """Take over the nodes and foreign pods of ``old``, which is not used any more."""
        self.has_nodes, self.nodes = old.has_nodes, old.nodes
        self._foreign, self._node_of = old._foreign, old._node_of
        self._pods_of, self._workload_of = old._pods_of, old._workload_of
        self.constraints.take_pods(old.constraints, self.nodes, self._node_of)
        for workload in self._pods_of:
            self._count_pods_of(workload)
        self._trees.clear()
        self._hosts.clear()
        self._capacity_changed()

    # Flavors.

    @property
    def topologies(self) -> Container[str] | None:
        """The names of the topologies that exist; None if topology-aware scheduling is off."""
        return self._topologies if self.is_on else None

    def levels(self, flavor: str) -> tuple[str, ...] | None:
        """Return the levels of a topology flavor; None for others, and if its Topology does not exist."""
        known = self.flavors.get(flavor)
        return None if known is None else self._topologies.get(known.spec.topology_name)

    def is_topology_flavor(self, flavor: str) -> bool:
        known = self.flavors.get(flavor)
        return known is not None and bool(known.spec.topology_name)

    def is_topology_queue(self, name: str, groups: Mapping[str, WithFlavors]) -> bool:
        """Return True if all flavors of a cluster queue have topologies that exist."""
        known = self._topology_queues.get(name)
        if known is None or known[0] is not groups:
            flavors = {flavor for group in groups.values() for flavor in group.flavors}
            found = bool(groups) and all(self.levels(flavor) is not None for flavor in flavors)
            known = self._topology_queues[name] = groups, found
        return known[1]

    def tree(self, flavor: str) -> DomainTree | None:
        """Return the domains of a topology flavor; None for others, and while they are not known."""
        tree = self._trees.get(flavor)
        levels = self.levels(flavor) if self.has_nodes else None
        if tree is not None or levels is None:
            return tree
        spec = self.flavors[flavor]
        nodes = [node for node in self.nodes.values() if self.belongs(node, spec)]
        tree = self._trees[flavor] = self._tree_of(spec.spec.topology_name, levels, nodes)
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

    def belongs(self, node: Node, flavor: ResourceFlavor) -> bool:
        """Return True if a node is one of a topology flavor."""
        levels = self._topologies.get(flavor.spec.topology_name, ())
        labels = node.metadata.labels
        return (
            bool(levels)
            and not node.spec.unschedulable
            and is_true(node.status.conditions, "Ready")
            and all(labels.get(key) == value for key, value in flavor.spec.node_labels.items())
            and all(labels.get(level) for level in levels)
        )

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

    def foreign_on(self, node: str) -> Iterable[Amounts]:
        """Return what each pod without a place uses of a node."""
        return self._foreign.get(node, {}).values()

    def known_trees(self) -> list[KnownTree]:
        """Return the trees that have been built."""
        of_flavors = [KnownTree(flavor, None, tree) for flavor, tree in self._trees.items()]
        return of_flavors + [KnownTree("", labels, tree) for labels, tree in self._hosts.items()]

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


def has_places(admission: Admission) -> bool:
    for assigned in admission.pod_set_assignments:  # noqa: SIM110  called for each admission, where any() costs more
        if assigned.topology_assignment is not None:
            return True
    return False


def recorded_places(
    model: TopologyModel,
    admission: Admission,
    per_pod: Mapping[str, Amounts],
    templates: Mapping[str, Template],
) -> Places:
    """Return the places that an admission records.

    ``per_pod`` has the usage of one pod by pod set, ``templates`` the templates of the pods.
    """
    return Places(
        model,
        (
            Place(
                tuple(sorted(set(assigned.flavors.values()))),
                values,
                tuple(assignment.levels) == LEVELS,
                {name: amount * count for name, amount in per_pod[assigned.name].items()},
                count,
                templates.get(assigned.name),
            )
            for assigned in admission.pod_set_assignments
            if (assignment := assigned.topology_assignment) is not None and assigned.name in per_pod
            for values, count in assignment.domains()
        ),
    )
