"""The flavors with a topology, the Topologies, and the modes in which pods are checked against nodes.

A flavor with ``topologyName`` is a *topology flavor*.  Its nodes are ready and schedulable, have its node
labels and have a value for each level of its Topology.

A pod set of flavors without a topology is checked as the strictest mode of its flavors says, but not at all
if one of them says ``Off``, and not if the nodes of a flavor are elsewhere: a ProvisioningRequest brings the
nodes, or they are in a worker cluster.
"""

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from typing import Final, Protocol

from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.configuration.queueing import NODE_FIT_MODES, NodeFitMode
from quorate.api.core.scheduling import Node
from quorate.api.kueue import AdmissionCheck, ClusterQueueSpec, ResourceFlavor
from quorate.api.kueue.provisioning import CONTROLLER as PROVISIONING
from quorate.api.kueue.topology import HOSTNAME, Topology
from quorate.api.meta import is_true
from quorate.api.names.multikueue import CONTROLLER as MULTIKUEUE
from quorate.placement.topology.request import Profile

NODE_FIT: Final = "quorate.dev/node-fit"  # an annotation of flavors: the mode for their pods
_MODES: Final[Mapping[str, NodeFitMode]] = {mode: mode for mode in NODE_FIT_MODES}


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


def mode_of(flavors: Iterable[ResourceFlavor], default: NodeFitMode) -> NodeFitMode:
    """Return the mode for pods that get resources of all ``flavors``.

    A flavor with a topology says ``Off``, because its pods get places in the topology.
    """
    modes = {_mode(flavor, default) for flavor in flavors}
    if not modes or "Off" in modes:
        return "Off"
    return "Require" if "Require" in modes else "Report"


def _mode(flavor: ResourceFlavor, default: NodeFitMode) -> NodeFitMode:
    if flavor.spec.topology_name:
        return "Off"
    return annotated_mode(flavor) or default


def annotated_mode(flavor: ResourceFlavor) -> NodeFitMode | None:
    """Return the mode in the annotation of a flavor; None without the annotation, or for an unknown mode."""
    return _MODES.get(flavor.metadata.annotations.get(NODE_FIT, ""))


def has_other_nodes(
    queue: ClusterQueueSpec,
    flavors: Collection[str],
    checks: Mapping[str, AdmissionCheck],
    controllers: Collection[str] = (PROVISIONING, MULTIKUEUE),
) -> bool:
    """Return True if ``queue`` may be active although this cluster has no nodes for one of ``flavors``.

    An admission check of the queue then provides the nodes, or the pods run in another cluster.
    ``controllers``: the controllers of such checks.
    """
    rules = queue.admission_checks_strategy.admission_checks
    return bool(rules) and any(
        rule.name in checks
        and checks[rule.name].spec.controller_name in controllers
        and (not rule.on_flavors or any(flavor in rule.on_flavors for flavor in flavors))
        for rule in rules
    )


def runs_elsewhere(queue: ClusterQueueSpec, checks: Mapping[str, AdmissionCheck]) -> bool:
    """Return True if the workloads of the queue run in worker clusters, which place their pods."""
    return has_other_nodes(queue, (), checks, (MULTIKUEUE,))
