"""The flavors with a topology, the Topologies, and the modes in which pods are checked against nodes.

A flavor with ``topologyName`` is a *topology flavor*.  Its nodes are ready and schedulable, have its node
labels and have a value for each level of its Topology.
"""

from collections.abc import Container, Mapping, Sequence
from typing import Protocol

from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.configuration.queueing import NodeFitMode
from quorate.api.core.scheduling import Node
from quorate.api.kueue import ResourceFlavor
from quorate.api.kueue.topology import HOSTNAME, Topology
from quorate.api.meta import is_true
from quorate.placement.topology.request import Profile
from quorate.queueing.nodes.node_fit import mode_of


class WithFlavors(Protocol):
    """A resource group of a cluster queue."""

    @property
    def flavors(self) -> Sequence[str]: ...


class TopologyFlavors:
    """The flavors with a topology, and for every flavor the mode in which pods are checked against nodes."""

    def __init__(self, gates: TopologyGates | None, node_fit: NodeFitMode) -> None:
        self.is_on = gates is not None
        self.gates = gates = gates or TopologyGates()
        self.profile = Profile(gates.mixed_profile, gates.balanced_placement, gates.preferred_affinity)
        self._node_fit = node_fit  # of flavors without the annotation
        self.flavors: Mapping[str, ResourceFlavor] = {}  # all flavors, also those without a topology
        # Names of flavors, updated by ``flavor_changed``.  Where a set is empty, nothing is looked up.
        self.placing: set[str] = set()  # pods get places: it has a topology, or requires that they fit nodes
        self.reporting: set[str] = set()  # pods that fit no node are reported
        self.requiring: set[str] = set()  # they must fit nodes
        self.above_hosts: frozenset[str] = frozenset()  # flavors of topologies that end above hosts
        # By cluster queue, with its groups: whether all of its flavors have topologies.
        self._topology_queues: dict[str, tuple[Mapping[str, WithFlavors], bool]] = {}
        self._modes: dict[frozenset[str], NodeFitMode] = {}  # by the flavors of pods
        self._topologies: dict[str, tuple[str, ...]] = {}  # node labels, by name

    def put_topology(self, topology: Topology) -> None:
        self._topology_queues.clear()
        self._topologies[topology.metadata.name] = tuple(level.node_label for level in topology.spec.levels)
        self._note_levels()

    def remove_topology(self, name: str) -> None:
        self._topology_queues.clear()
        self._topologies.pop(name, None)
        self._note_levels()

    def flavor_changed(self, name: str) -> None:
        """Read a flavor of ``flavors`` that is new, has another specification or mode, or is gone."""
        self._modes.clear()
        self._topology_queues.clear()
        self._note_levels()
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

    def _note_levels(self) -> None:
        ends = {name: levels[-1:] for name in self.flavors if (levels := self.levels(name)) is not None}
        self.above_hosts = frozenset(name for name, end in ends.items() if end != (HOSTNAME,))

    def node_fit(self, flavors: frozenset[str]) -> NodeFitMode:
        """Return how pods that get resources of all ``flavors`` are checked against the nodes."""
        mode = self._modes.get(flavors)
        if mode is None:
            stored = [self.flavors[name] for name in flavors if name in self.flavors]
            mode = self._modes[flavors] = mode_of(stored, self._node_fit)
        return mode

    @property
    def topologies(self) -> Container[str] | None:
        """The names of the topologies that exist; None if topology-aware scheduling is off."""
        return self._topologies if self.is_on else None

    def levels(self, flavor: str) -> tuple[str, ...] | None:
        """Return the levels of a topology flavor; None for others, and if its Topology does not exist."""
        stored = self.flavors.get(flavor)
        return None if stored is None else self._topologies.get(stored.spec.topology_name)

    @property
    def _has_leaves_above_hosts(self) -> bool:
        return any(levels[-1:] != (HOSTNAME,) for levels in self._topologies.values())

    def is_topology_flavor(self, flavor: str) -> bool:
        stored = self.flavors.get(flavor)
        return stored is not None and bool(stored.spec.topology_name)

    def is_topology_queue(self, name: str, groups: Mapping[str, WithFlavors]) -> bool:
        """Return True if all flavors of a cluster queue have topologies that exist."""
        cached = self._topology_queues.get(name)
        if cached is None or cached[0] is not groups:
            flavors = {flavor for group in groups.values() for flavor in group.flavors}
            is_topology = bool(groups) and all(self.levels(flavor) is not None for flavor in flavors)
            cached = self._topology_queues[name] = groups, is_topology
        return cached[1]

    def belongs(self, node: Node, flavor: ResourceFlavor) -> bool:
        """Return True if a node is one of a topology flavor."""
        levels = self._topologies.get(flavor.spec.topology_name, ())
        labels = node.metadata.labels
        return (
            bool(levels)
            and not node.spec.unschedulable
            and is_true(node.status.conditions, "Ready")
            and all(labels.get(key) == value for key, value in flavor.spec.node_labels.items())
            and all(level in labels for level in levels)
        )
