"""What constraints know of nodes and pods, and the order in which they are asked."""

from collections.abc import Hashable, Iterable, Iterator

import numpy as np

from quorate.api.scheduler_plugins import PredicateArguments
from quorate.placement.constraints import objections, pod_affinity, spread, taints, volumes
from quorate.placement.constraints.demands import Demands
from quorate.placement.constraints.images import ImageStock
from quorate.placement.constraints.neighbours import Bond, Neighbours
from quorate.placement.constraints.node_affinity import preferred_weight, selected
from quorate.placement.constraints.nodes import Counts, NodeFacts
from quorate.placement.constraints.objections import Verdicts
from quorate.placement.constraints.ports import Ports
from quorate.placement.constraints.volume_limits import AttachedVolumes
from quorate.placement.constraints.volumes import Attachment
from quorate.placement.stance import Moment, Preferences, Reach, Vector


class Ground:
    """The nodes, and what pods on them mean to other pods."""

    def __init__(self, heeded: PredicateArguments) -> None:
        self.heeded = heeded
        self.nodes = NodeFacts()
        self.neighbours = Neighbours(self.nodes)
        self.ports = Ports()
        self.attached = AttachedVolumes()
        self.images = ImageStock(self.nodes)

    def add(self, node: int, demands: Demands, releasing: bool, count: int) -> None:
        """Note ``count`` more pods with ``demands`` on the node, or fewer if it is negative."""
        self.neighbours.add(node, demands.kin, demands.bonds, releasing, count)
        if demands.ports:
            self.ports.add(node, demands.ports, releasing, count)
        if demands.volumes.attachments:
            self.attached.add(node, demands.volumes.attachments, releasing, count)

    def sweep(self, wanted: Iterable[Demands]) -> None:
        """Let go of what only others than those with ``wanted`` demands ask about."""
        demands = list(wanted)
        self.neighbours.sweep({picks for each in demands for picks in each.picks()})
        self.images.sweep({image for each in demands for image in each.images})

    def state(self, demands: Demands) -> Hashable:
        """Another value whenever pods with ``demands`` may be judged otherwise."""
        surveys = (self.neighbours.survey(picks, Moment.NOW).version for picks in demands.picks())
        held = (
            (each.serial, each.forbidding.now.version, each.attracting.now.version)
            for each in self.neighbours.held_over(demands.kin)
        )
        return (
            self.nodes.generation,
            self.images.version if demands.images else 0,
            self.ports.version if demands.ports else 0,
            self.attached.version if demands.volumes.attachments else 0,
            *surveys,
            *held,
        )

    def by_node_facts(self, demands: Demands) -> Verdicts:
        """The verdicts that only a change of a node can change, but for those about volumes that exist.

        Claims come first: until they are other than they are, nothing else matters.
        """
        verdicts = Verdicts(self.nodes.size, self.nodes.generation)
        if self.heeded.volume_binding and demands.volumes.refusal is not None:
            verdicts.object_to(~self.nodes.vacant, demands.volumes.refusal)
        verdicts.object_to(~self.nodes.ready, objections.NOT_READY)
        if self.heeded.node_unschedulable:
            taints.object_to_cordoned(self.nodes, demands.tolerations, verdicts)
        if self.heeded.taint_toleration:
            taints.object_to_taints(self.nodes, demands.tolerations, verdicts)
        if self.heeded.node_affinity:
            fitting = selected(self.nodes, demands.labels, demands.affinity)
            verdicts.object_to(~fitting, objections.NODE_AFFINITY)
        return verdicts

    def judge(self, demands: Demands, moment: Moment, verdicts: Verdicts) -> None:
        """Add to the verdicts by node facts those that pods and volumes have a part in."""
        heeded = self.heeded
        nodes, neighbours, needed = self.nodes, self.neighbours, demands.volumes
        if heeded.node_ports and demands.ports:
            taken = self.ports.taken(demands.ports, nodes.size, moment)
            verdicts.object_to(taken, objections.PORTS_TAKEN)
        if heeded.volume_binding and self._is_in_use(needed.sole, moment):
            verdicts.object_to(~nodes.vacant, objections.CLAIM_IN_USE)
        if heeded.node_volume_limits and needed.attachments:
            exceeded = self.attached.exceeded(nodes, needed.attachments, moment)
            verdicts.object_to(exceeded, objections.TOO_MANY_VOLUMES)
        if heeded.volume_binding:
            volumes.object_to_volumes(nodes, needed, verdicts)
            for volume in needed.unsettled:
                verdicts.object_to(self.attached.elsewhere(volume, nodes.size), objections.NO_VOLUME_TO_BIND)
        if heeded.volume_zone:
            volumes.object_to_zones(nodes, needed, verdicts)
        if heeded.pod_topology_spread:
            spread.object_to_skew(nodes, neighbours, demands, verdicts)
        if heeded.pod_affinity:
            pod_affinity.object_to_missing(nodes, neighbours, demands.near, demands.kin, moment, verdicts)
            pod_affinity.object_to_unwanted(neighbours, demands.apart, moment, verdicts)
            pod_affinity.object_to_unwelcome(neighbours, demands.kin, moment, verdicts)

    def preferences(self, demands: Demands) -> Preferences:
        weights = preferred_weight(self.nodes, demands.preferred_nodes) if demands.preferred_nodes else None
        attraction = pod_affinity.attraction(
            self.nodes, self.neighbours, demands.preferred_pods, demands.kin, Moment.NOW
        )
        return Preferences(
            node_affinity=weights,
            taints=taints.discouraging_taints(self.nodes, demands.tolerations),
            pod_affinity=_if_any(attraction),
            spread=spread.crowding(self.nodes, self.neighbours, demands),
            images=_if_any(self.images.locality(demands.images)),
        )

    def reach(self, demands: Demands) -> Reach:
        """Which answers one pod with ``demands`` changes for the next one with the same."""
        if self._reaches_others(demands):
            return Reach.OTHERS
        own_bonds = list(self._own_bonds(demands))
        if demands.ports and self.heeded.node_ports:
            return Reach.BARS
        if self.heeded.pod_affinity and any(self._bars(bond) for bond in own_bonds):
            return Reach.BARS
        return Reach.OWN_NODE if own_bonds or demands.volumes.attachments else Reach.NONE

    def founded(self, demands: Demands, followers: Iterable[Demands]) -> list[Vector]:
        """The domains in which ``followers`` must be near the next pod with ``demands``, by node."""
        if not self.heeded.pod_affinity:
            return []
        keys: dict[str, None] = {}
        for near in dict.fromkeys(each.near for each in followers):
            if near and pod_affinity.is_first(self.neighbours, near, demands.kin, Moment.NOW):
                keys |= dict.fromkeys(term.topology_key for term in near)
        return [self.nodes.label(key).codes.astype(np.int64) for key in keys]

    def _reaches_others(self, demands: Demands) -> bool:
        kin = demands.kin
        spreads = (*demands.spread, *demands.preferred_spread)
        near = tuple(term.pick for term in demands.near)
        return (
            bool(demands.volumes.unsettled or demands.volumes.sole)
            or any(self.neighbours.picks((each.pick,), kin) for each in spreads)
            or (bool(near) and self.neighbours.picks(near, kin))
            or any(not self.nodes.is_own_domain(bond.term.topology_key) for bond in self._own_bonds(demands))
        )

    def _bars(self, bond: Bond) -> bool:
        """Whether a term that picks pods like its own keeps them off every node that has one."""
        label = self.nodes.label(bond.term.topology_key)
        return bool(bond.forbids) and bool((label.present() | self.nodes.vacant).all())

    def _is_in_use(self, attachments: Iterable[Attachment], moment: Moment) -> bool:
        return any(True for each in attachments for _ in self.attached.where(each, moment))

    def _own_bonds(self, demands: Demands) -> Iterator[Bond]:
        """Its terms that pick pods like it."""
        for bond in demands.bonds:
            if self.neighbours.picks((bond.term.pick,), demands.kin):
                yield bond


def _if_any(measure: Counts) -> Counts | None:
    return measure if measure.any() else None
