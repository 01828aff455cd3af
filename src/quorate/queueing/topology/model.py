"""The domains of every topology flavor, with what pods use of them.

A flavor with ``topologyName`` is a *topology flavor*.  Its nodes are those that are ready and schedulable,
have its node labels and have a value for each level of its Topology.  What is used of a host counts for every
flavor with a topology that ends in the host name; other leaves count the usage of their own flavor only.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.core import Pod
from quorate.api.core.scheduling import Node
from quorate.api.kueue import Admission, ResourceFlavor
from quorate.api.kueue.topology import Topology
from quorate.api.meta import Key, is_true
from quorate.placement.topology.tree import HOSTNAME, DomainTree, Path
from quorate.queueing.topology.foreign_pods import is_foreign, usage_on_node

Amounts = Mapping[str, int]


class Place(NamedTuple):
    """Equal pods in one leaf of a flavor: the recorded values of the leaf, and what all of them use."""

    flavor: str
    values: Path
    amounts: Amounts


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


class _Usage(NamedTuple):
    """A leaf as usage is recorded, whether or not the leaf exists: hosts are shared by flavors."""

    flavor: str  # empty: a host of all flavors
    values: Path


class TopologyModel:
    """See the module docstring."""

    def __init__(self, gates: TopologyGates | None) -> None:
        self.gates = gates or TopologyGates()
        self.is_on = gates is not None
        self.flavors: Mapping[str, ResourceFlavor] = {}  # all flavors, also those without a topology
        self._topologies: dict[str, tuple[str, ...]] = {}  # node labels, by name
        self.has_nodes = True  # False while nodes and pods are being listed: no pod gets a place
        self._nodes: dict[str, Node] = {}
        self._foreign: dict[str, dict[Key, Amounts]] = {}  # by node and pod: the requests of other pods
        self._node_of: dict[Key, str] = {}  # by foreign pod
        self._used: dict[_Usage, dict[str, int]] = {}  # by pods placed in topologies
        self._trees: dict[str, DomainTree] = {}  # by flavor; built when they are needed

    # Objects.

    def put_topology(self, topology: Topology) -> None:
        self._topologies[topology.metadata.name] = tuple(level.node_label for level in topology.spec.levels)
        self._trees.clear()

    def remove_topology(self, name: str) -> None:
        self._topologies.pop(name, None)
        self._trees.clear()

    def flavor_changed(self, name: str) -> None:
        self._trees.pop(name, None)

    def put_node(self, node: Node) -> tuple[str, ...]:
        """Return the topology flavors that the node belongs to, or belonged to before."""
        old = self._nodes.get(node.metadata.name)
        self._nodes[node.metadata.name] = node
        return self._invalidate(node, old)

    def remove_node(self, name: str) -> tuple[str, ...]:
        node = self._nodes.pop(name, None)
        return () if node is None else self._invalidate(node)

    def _invalidate(self, *nodes: Node | None) -> tuple[str, ...]:
        known = tuple(node for node in nodes if node is not None)
        changed = self._flavors_of(*known)
        for name in changed:
            self._trees.pop(name, None)
        return changed

    def _flavors_of(self, *nodes: Node) -> tuple[str, ...]:
        return tuple(
            name
            for name, flavor in self.flavors.items()
            if flavor.spec.topology_name and any(self._belongs(node, flavor) for node in nodes)
        )

    def put_pod(self, pod: Pod) -> tuple[str, ...]:
        """Count a pod if it has no place in a topology; see ``put_foreign_pod``."""
        if is_foreign(pod):
            return self.put_foreign_pod(pod.metadata.key, pod.spec.node_name, usage_on_node(pod))
        return self.remove_foreign_pod(pod.metadata.key)

    def put_foreign_pod(self, pod: Key, node: str, requests: Amounts) -> tuple[str, ...]:
        """Count a bound pod that has no place in a topology, with its requests and 1 of ``pods``.

        Returns the flavors of the node on which the pod counted before with other requests.
        """
        freed = self.remove_foreign_pod(pod)
        self._foreign.setdefault(node, {})[pod] = requests
        self._node_of[pod] = node
        self._count_foreign(node, requests, 1)
        return freed

    def remove_foreign_pod(self, pod: Key) -> tuple[str, ...]:
        """Return the flavors of the node that the pod leaves."""
        node = self._node_of.pop(pod, None)
        if node is None:
            return ()
        requests = self._foreign[node].pop(pod)
        if not self._foreign[node]:
            del self._foreign[node]
        return self._count_foreign(node, requests, -1)

    def _count_foreign(self, name: str, requests: Amounts, times: int) -> tuple[str, ...]:
        node = self._nodes.get(name)
        if node is None:
            return ()
        flavors = self._flavors_of(node)
        for flavor in flavors:
            tree = self._trees.get(flavor)
            if tree is not None:
                tree.add_free(tree.leaf_of_node(node), requests, -times)
        return flavors

    def take_nodes(self, old: "TopologyModel") -> None:
        """Take over the nodes and foreign pods of ``old``, which is not used any more."""
        self.has_nodes, self._nodes = old.has_nodes, old._nodes
        self._foreign, self._node_of = old._foreign, old._node_of
        self._trees.clear()

    # Flavors.

    def levels(self, flavor: str) -> tuple[str, ...] | None:
        """Return the levels of a topology flavor; None for others, and if its Topology does not exist."""
        known = self.flavors.get(flavor)
        return None if known is None else self._topologies.get(known.spec.topology_name)

    def is_topology_flavor(self, flavor: str) -> bool:
        known = self.flavors.get(flavor)
        return known is not None and bool(known.spec.topology_name)

    def tree(self, flavor: str) -> DomainTree | None:
        """Return the domains of a topology flavor; None for others, and while they are not known."""
        tree = self._trees.get(flavor)
        levels = self.levels(flavor) if self.has_nodes else None
        if tree is not None or levels is None:
            return tree
        spec = self.flavors[flavor]
        nodes = [node for node in self._nodes.values() if self._belongs(node, spec)]
        tree = self._trees[flavor] = DomainTree(spec.spec.topology_name, levels, nodes)
        for node in nodes:
            for requests in self._foreign.get(node.metadata.name, {}).values():
                tree.add_free(tree.leaf_of_node(node), requests, -1)
        for used, amounts in self._used.items():
            leaf = tree.leaf_of(used.values)
            if leaf is not None and used == self._usage(flavor, used.values, tree.has_hosts):
                tree.add_used(leaf, amounts)
        return tree

    def _belongs(self, node: Node, flavor: ResourceFlavor) -> bool:
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

    def _usage(self, flavor: str, values: Path, has_hosts: bool) -> _Usage:
        is_shared = has_hosts and self.gates.overlapping_flavors
        return _Usage("" if is_shared else flavor, values)

    def count(self, places: Iterable[Place], times: int) -> None:
        """Count the usage of ``places``; ``times`` is 1, or -1 to take it back."""
        for place in places:
            levels = self.levels(place.flavor)
            has_hosts = levels is not None and levels[-1] == HOSTNAME
            key = self._usage(place.flavor, place.values, has_hosts)
            used = self._used.setdefault(key, {})
            for resource, amount in place.amounts.items():
                used[resource] = used.get(resource, 0) + amount * times
                if not used[resource]:
                    del used[resource]
            if not used:
                del self._used[key]
            for flavor, tree in self._trees.items():
                leaf = tree.leaf_of(place.values)
                if leaf is not None and key == self._usage(flavor, place.values, tree.has_hosts):
                    tree.add_used(leaf, place.amounts, times)


def has_places(admission: Admission) -> bool:
    return any(assigned.topology_assignment is not None for assigned in admission.pod_set_assignments)


def recorded_places(model: TopologyModel, admission: Admission, per_pod: Mapping[str, Amounts]) -> Places:
    """Return the places that an admission records; ``per_pod`` has the usage of one pod by pod set."""
    return Places(
        model,
        (
            Place(flavor, values, {name: amount * count for name, amount in per_pod[assigned.name].items()})
            for assigned in admission.pod_set_assignments
            if assigned.topology_assignment is not None and assigned.name in per_pod
            for flavor in sorted(filter(model.is_topology_flavor, set(assigned.flavors.values())))[:1]
            for values, count in assigned.topology_assignment.domains()
        ),
    )
