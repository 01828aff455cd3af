"""What pods use of the domains of every topology flavor, kept up to date with each change.

What is not known is not given away: until all nodes and pods are listed, no pod gets a place.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Final, Generic, TypeVar

from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.configuration.queueing import NodeFitMode
from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node
from quorate.api.kueue.topology import HOSTNAME, Topology
from quorate.api.meta import Key
from quorate.placement.topology.tree import Path
from quorate.queueing.inadmissible_reasons import NodesLackRoom
from quorate.queueing.nodes.occupants import (
    Name,
    Nominated,
    Occupant,
    Owner,
    Requests,
    owner_of,
    usage_on_node,
)
from quorate.queueing.nodes.places import Place
from quorate.queueing.nodes.pod_constraints import PodConstraints
from quorate.queueing.nodes.trees import SLICE_SIZE, TopologyTrees

_MAX_MEMO: Final = 20_000  # domains of all results together, each of which counts at least as one

_Result = TypeVar("_Result")


class PlacementMemo(Generic[_Result]):
    """Results of placements by the identity of the request, as long as nothing changes the results.

    Many workloads of equal shape ask for places in the same state: the heads of a round, and workloads that
    wait for quota.  The requests are kept alive, so that their identities stay unique.
    """

    def __init__(self) -> None:
        self._results: dict[tuple[object, ...], tuple[Sequence[object], _Result]] = {}
        self._as_of = 0
        self._size = 0

    def get(self, key: tuple[object, ...], version: int) -> _Result | None:
        """Return the result for ``key``, which contains identities; None if it is not known any more."""
        if self._as_of != version:
            self.clear()
            self._as_of = version
        entry = self._results.get(key)
        return None if entry is None else entry[1]

    def put(self, key: tuple[object, ...], identified: Sequence[object], result: _Result, size: int) -> None:
        """Keep a result for the version of the last ``get``; ``size`` is its number of domains."""
        self._size += 1 + size
        if self._size > _MAX_MEMO:
            self.clear()
        else:
            self._results[key] = identified, result

    def clear(self) -> None:
        self._results.clear()
        self._size = 0


class TopologyModel(TopologyTrees):
    """The nodes with their pods and places, and versions of them for decisions that are kept."""

    def __init__(self, gates: TopologyGates | None, node_fit: NodeFitMode = "Off") -> None:
        super().__init__(gates, node_fit)
        self.constraints = PodConstraints(self.cluster, self.occupants)
        self.version = 0  # incremented with every change
        self.capacity_version = 0  # incremented with every change except of what placed pods use
        self.placements: PlacementMemo[object] = PlacementMemo()
        self.empty_placements: PlacementMemo[object] = PlacementMemo()  # as if no pods had been placed
        self.reports: PlacementMemo[tuple[NodesLackRoom | None]] = PlacementMemo()  # which pods fit no host

    def _capacity_changed(self) -> None:
        self.version += 1
        self.capacity_version += 1

    def prepare(self, nodes: int = SLICE_SIZE) -> bool:
        """Read a part of what places and checks need in the next cycle; return True if nothing is left.

        ``nodes``: how many to add to a tree.
        """
        if not (self.has_nodes and (self.placing or self.reporting)):
            return True
        return self._prepare_trees(nodes) and self.constraints.prepare()

    def take_nodes(self, old: "TopologyModel") -> None:
        """Take over the nodes and pods of ``old``, which is not used any more."""
        self.has_nodes, self.nodes, self.cluster = old.has_nodes, old.nodes, old.cluster
        old.occupants.with_places = self.occupants.with_places
        self.occupants = old.occupants
        old.constraints.replace_places(self.constraints)
        self.constraints = old.constraints
        self._forget_trees()
        self._capacity_changed()

    # Flavors and nodes.

    def host_name(self, node: str) -> str:
        """Return the host name of a node, by which leaves are known; its own name if it has none."""
        stored = self.nodes.get(node)
        return node if stored is None else stored.metadata.labels.get(HOSTNAME, node)

    def put_topology(self, topology: Topology) -> None:
        super().put_topology(topology)
        self._capacity_changed()
        self._forget_trees_of_flavors()

    def remove_topology(self, name: str) -> None:
        super().remove_topology(name)
        self._capacity_changed()
        self._forget_trees_of_flavors()

    def flavor_changed(self, name: str) -> None:
        """Read a flavor of ``flavors`` that is new, has another specification or mode, or is gone."""
        super().flavor_changed(name)
        self._capacity_changed()
        self._forget_tree(name)

    def set_has_nodes(self, has_nodes: bool) -> None:
        self.has_nodes = has_nodes
        self._capacity_changed()

    def put_node(self, node: Node) -> tuple[str, ...]:
        """Return the flavors that give places on the node, or did before."""
        old = self.nodes.get(node.metadata.name)
        self.nodes[node.metadata.name] = node
        self.cluster.set_node(node)
        self.constraints.put_node(node, old)
        return self._node_changed(old, node)

    def remove_node(self, name: str) -> tuple[str, ...]:
        node = self.nodes.pop(name, None)
        if node is None:
            return ()
        flavors = self._node_changed(node, None)
        self.cluster.remove_node(name)
        self.constraints.remove_node(node)
        return flavors

    @contextmanager
    def with_nodes(self, nodes: Sequence[Node]) -> Iterator[None]:
        """Have ``nodes``, of which none exists, during the block."""
        for node in nodes:
            self.put_node(node)
        try:
            yield
        finally:
            for node in nodes:
                self.remove_node(node.metadata.name)

    def _node_changed(self, old: Node | None, new: Node | None) -> tuple[str, ...]:
        self._capacity_changed()
        self._change_node(old, new)
        return self._flavors_of(*(node for node in (old, new) if node is not None))

    # Pods.

    def put_pod(self, pod: Pod) -> tuple[str, ...]:
        """Count what a pod uses unless its workload has places.

        Returns the flavors of the node on which the pod counted before, with other requests.
        """
        key, owner = pod.metadata.key, owner_of(pod)
        if not pod.uses_node or (pod.requests_place and owner is None):
            return self.remove_pod(key)
        return self._put(key, Occupant(pod.node_name, usage_on_node(pod), owner, pod))

    def put_unreadable_pod(self, key: Key, node: str, requests: Requests) -> tuple[str, ...]:
        """Count a pod of which only the node and ``requests`` are known, whether or not it has a place."""
        former = self.occupants.by_name.get(key)
        owner, pod = (None, None) if former is None else (former.owner, former.pod)
        return self._put(key, Occupant(node, requests, owner, pod, is_unreadable=True))

    def put_nominated_pod(self, pod: Pod) -> tuple[str, ...]:
        """Count what a pod will use of the node for which a scheduler evicts others; it is not bound yet.

        A pod of a workload with places is counted by these.
        """
        name, node = Nominated(pod.metadata.key), pod.status.nominated_node_name
        if pod.requests_place or not node or pod.node_name:
            return self._remove(name)
        return self._put(name, Occupant(node, usage_on_node(pod)))

    def remove_nominated_pod(self, pod: Key) -> tuple[str, ...]:
        """Return the flavors of the node for which the pod is no longer nominated."""
        return self._remove(Nominated(pod))

    def remove_pod(self, pod: Key) -> tuple[str, ...]:
        """Return the flavors of the node that the pod leaves, if it counted."""
        return self._remove(pod)

    def set_has_places(self, workload: Key, has_places: bool) -> None:
        """Count the places of a workload if ``has_places``, else the pods of the workload one by one."""
        pods = self.occupants.of_owners["workload"].get(workload, {}).copy()
        for name in pods:
            self._remove(name)
        if has_places:
            self.occupants.with_places.add(workload)
        else:
            self.occupants.with_places.discard(workload)
        self.occupants.set_taken_back(workload, False)
        for name, occupant in pods.items():
            self._put(name, occupant)

    def _put(self, name: Name, occupant: Occupant) -> tuple[str, ...]:
        former = self.occupants.by_name.get(name)
        freed = self._remove(name)
        self.occupants.put(name, occupant)
        self.constraints.add(name, occupant)
        self._note(occupant)
        if self.constraints.is_used:
            # A pod may be what affinity of others requires, on whatever node these get.
            return tuple(self.placing)
        return () if former is not None and former.takes_the_same(occupant) else freed

    def _remove(self, name: Name) -> tuple[str, ...]:
        """Return the flavors of the node that the pod leaves, if it counted."""
        occupant = self.occupants.by_name.get(name)
        if occupant is None:
            return ()
        self.constraints.remove(name, occupant)
        self.occupants.remove(name)
        return self._note(occupant)

    def _note(self, occupant: Occupant) -> tuple[str, ...]:
        """Return the flavors of the node of a pod that has come or gone, if it takes room itself."""
        node = self.nodes.get(occupant.node)
        is_counted = self.occupants.counts(occupant)
        if is_counted or (node is not None and self._has_leaves_above_hosts):
            self._capacity_changed()
        if node is None:
            return ()
        if is_counted or self._has_leaves_above_hosts:
            for tree in self._trees_with(node):
                tree.note_usage(node)
        return self._flavors_of(node) if is_counted else ()

    def bound_pods(self, workload: Key, pod_set: str, levels: Sequence[str]) -> Counter[Path]:
        """Return how many pods of a pod set are bound in each domain, by its values for ``levels``.

        Pods of elastic jobs are not counted: they do not name the slice with their place.
        """
        return Counter(
            tuple(node.metadata.labels.get(level, "") for level in levels)
            for occupant in self.occupants.of(Owner("workload", workload)).values()
            if occupant.pod_set == pod_set and (node := self.nodes.get(occupant.node)) is not None
        )

    def bound_members(self, group: Key, levels: Sequence[str]) -> Counter[Path]:
        """Return how many pods of a Volcano pod group are bound in each domain; see ``bound_pods``."""
        return Counter(
            tuple("" if node is None else node.metadata.labels.get(level, "") for level in levels)
            for occupant in self.occupants.of(Owner("group", group)).values()
            for node in (self.nodes.get(occupant.node),)
        )

    def nodes_of(self, owner: Owner) -> AbstractSet[str]:
        """Return the nodes of the bound pods of ``owner``."""
        return {occupant.node for occupant in self.occupants.of(owner).values()}

    def owner_of(self, pod: Key) -> Owner | None:
        """Return the workload or pod group of a bound pod; None if no workload or group of it is known."""
        occupant = self.occupants.by_name.get(pod)
        return None if occupant is None else occupant.owner

    # Places.

    def count(self, places: Iterable[Place], times: int, workload: Key | None = None) -> None:
        """Count the usage of ``places``; ``times`` is 1, or -1 to take it back.

        While the places of ``workload`` are taken back, its bound pods do not count either.  The usage is
        recorded whether or not nodes, flavors and topologies are known, and read when they are.
        """
        self.version += 1
        if workload is not None:
            self.occupants.set_taken_back(workload, times < 0)
        for place in places:
            key = self.used.count(place, times)
            for of, tree in self._trees.items():
                if self._is_usage_of(of, tree, key):
                    tree.add_used(place.values, place.amounts, times)
            if place.on_host and place.template is not None:
                self.constraints.hold(place.values[-1], place.template, place.pods * times)
