"""What constraints know of nodes and pods, and the order in which they are asked."""

from collections.abc import Hashable, Iterable, Iterator

import numpy as np

from quorate.api.scheduler_configuration.plugins import PredicateArguments
from quorate.placement.filters import failures, taints
from quorate.placement.filters.failures import NodeStatuses
from quorate.placement.filters.image_locality import ImageIndex
from quorate.placement.filters.inter_pod import pod_affinity, topology_spread
from quorate.placement.filters.inter_pod.affinity_index import AffinityIndex, OwnTerm
from quorate.placement.filters.node_affinity import preferred_weight, selected
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.filters.node_ports import HostPortIndex
from quorate.placement.filters.requirements import PodRequirements
from quorate.placement.filters.volumes import filters as volumes
from quorate.placement.filters.volumes.filters import Attachment
from quorate.placement.filters.volumes.limits import AttachedVolumes
from quorate.placement.framework import Capacity, InvalidationScope, RawScores
from quorate.placement.vectors import Vector


class NodeConstraintIndex:
    """The nodes, and what pods on them mean to other pods."""

    def __init__(self, enabled_predicates: PredicateArguments) -> None:
        self.enabled_predicates = enabled_predicates
        self.nodes = NodeColumns()
        self.affinity_index = AffinityIndex(self.nodes)
        self.ports = HostPortIndex()
        self.attached = AttachedVolumes()
        self.images = ImageIndex(self.nodes)

    def add(self, node: int, requirements: PodRequirements, releasing: bool, count: int) -> None:
        """Note ``count`` more pods with ``requirements`` on the node, or fewer if it is negative."""
        self.affinity_index.add(node, requirements.label_set, requirements.own_terms, releasing, count)
        if requirements.ports:
            self.ports.add(node, requirements.ports, releasing, count)
        if requirements.volumes.attachments:
            self.attached.add(node, requirements.volumes.attachments, releasing, count)

    def sweep(self, wanted: Iterable[PodRequirements]) -> None:
        """Let go of what only others than those with ``wanted`` demands ask about."""
        requirements = list(wanted)
        self.affinity_index.sweep({selectors for each in requirements for selectors in each.selectors()})
        self.images.sweep({image for each in requirements for image in each.images})

    def state(self, requirements: PodRequirements) -> Hashable:
        """Another value whenever pods with ``requirements`` may be judged otherwise."""
        surveys = (
            self.affinity_index.count_matching(selectors, Capacity.IDLE).version
            for selectors in requirements.selectors()
        )
        placed_term = (
            (each.serial, each.anti_affinity.now.version, each.preferred.now.version)
            for each in self.affinity_index.placed_terms_matching(requirements.label_set)
        )
        return (
            self.nodes.generation,
            self.images.version if requirements.images else 0,
            self.ports.version if requirements.ports else 0,
            self.attached.version if requirements.volumes.attachments else 0,
            *surveys,
            *placed_term,
        )

    def by_node_facts(self, requirements: PodRequirements) -> NodeStatuses:
        """The verdicts that only a change of a node can change, but for those about volumes that exist.

        Claims come first: until they are other than they are, nothing else matters.
        """
        statuses = NodeStatuses(self.nodes.size, self.nodes.generation)
        if self.enabled_predicates.volume_binding and requirements.volumes.failure is not None:
            statuses.reject(~self.nodes.vacant, requirements.volumes.failure)
        statuses.reject(~self.nodes.ready, failures.NOT_READY)
        if self.enabled_predicates.node_unschedulable:
            taints.filter_unschedulable(self.nodes, requirements.tolerations, statuses)
        if self.enabled_predicates.taint_toleration:
            taints.filter_taints(self.nodes, requirements.tolerations, statuses)
        if self.enabled_predicates.node_affinity:
            fitting = selected(self.nodes, requirements.labels, requirements.affinity)
            statuses.reject(~fitting, failures.NODE_AFFINITY)
        return statuses

    def judge(self, requirements: PodRequirements, capacity: Capacity, statuses: NodeStatuses) -> None:
        """Add to the verdicts by node facts those that pods and volumes have a part in."""
        enabled_predicates = self.enabled_predicates
        nodes, affinity_index, needed = self.nodes, self.affinity_index, requirements.volumes
        if enabled_predicates.node_ports and requirements.ports:
            taken = self.ports.taken(requirements.ports, nodes.size, capacity)
            statuses.reject(taken, failures.PORTS_TAKEN)
        if enabled_predicates.volume_binding and self._is_in_use(needed.read_write_once_pod, capacity):
            statuses.reject(~nodes.vacant, failures.CLAIM_IN_USE)
        if enabled_predicates.node_volume_limits and needed.attachments:
            exceeded = self.attached.exceeded(nodes, needed.attachments, capacity)
            statuses.reject(exceeded, failures.TOO_MANY_VOLUMES)
        if enabled_predicates.volume_binding:
            volumes.filter_volume_binding(nodes, needed, statuses)
            for volume in needed.unselected:
                statuses.reject(self.attached.elsewhere(volume, nodes.size), failures.NO_VOLUME_TO_BIND)
        if enabled_predicates.volume_zone:
            volumes.filter_volume_zone(nodes, needed, statuses)
        if enabled_predicates.pod_topology_spread:
            topology_spread.filter_topology_spread(nodes, affinity_index, requirements, statuses)
        if enabled_predicates.pod_affinity:
            pod_affinity.filter_affinity(
                nodes,
                affinity_index,
                requirements.required_affinity,
                requirements.label_set,
                capacity,
                statuses,
            )
            pod_affinity.filter_anti_affinity(
                affinity_index, requirements.required_anti_affinity, capacity, statuses
            )
            pod_affinity.filter_existing_anti_affinity(
                affinity_index, requirements.label_set, capacity, statuses
            )

    def raw_scores(self, requirements: PodRequirements) -> RawScores:
        weights = (
            preferred_weight(self.nodes, requirements.preferred_node_affinity)
            if requirements.preferred_node_affinity
            else None
        )
        attraction = pod_affinity.attraction(
            self.nodes,
            self.affinity_index,
            requirements.preferred_pod_affinity,
            requirements.label_set,
            Capacity.IDLE,
        )
        return RawScores(
            node_affinity=weights,
            taints=taints.discouraging_taints(self.nodes, requirements.tolerations),
            pod_affinity=_if_any(attraction),
            spread=topology_spread.spread_scorer(self.nodes, self.affinity_index, requirements),
            images=_if_any(self.images.locality(requirements.images)),
        )

    def invalidation_scope(self, requirements: PodRequirements) -> InvalidationScope:
        """Which answers one pod with ``requirements`` changes for the next one with the same."""
        if self._reaches_others(requirements):
            return InvalidationScope.OTHER_NODES
        own_bonds = list(self._own_bonds(requirements))
        if requirements.ports and self.enabled_predicates.node_ports:
            return InvalidationScope.ONE_PER_NODE
        if self.enabled_predicates.pod_affinity and any(self._bars(own_term) for own_term in own_bonds):
            return InvalidationScope.ONE_PER_NODE
        return (
            InvalidationScope.OWN_NODE
            if own_bonds or requirements.volumes.attachments
            else InvalidationScope.NONE
        )

    def anchor_domains(
        self, requirements: PodRequirements, followers: Iterable[PodRequirements]
    ) -> list[Vector]:
        """The domains in which ``followers`` must be near the next pod with ``requirements``, by node."""
        if not self.enabled_predicates.pod_affinity:
            return []
        keys: dict[str, None] = {}
        for required_affinity in dict.fromkeys(each.required_affinity for each in followers):
            if required_affinity and pod_affinity.is_first(
                self.affinity_index, required_affinity, requirements.label_set, Capacity.IDLE
            ):
                keys |= dict.fromkeys(term.topology_key for term in required_affinity)
        return [self.nodes.label(key).codes.astype(np.int64) for key in keys]

    def _reaches_others(self, requirements: PodRequirements) -> bool:
        label_set = requirements.label_set
        spreads = (*requirements.spread, *requirements.preferred_spread)
        required_affinity = tuple(term.selector for term in requirements.required_affinity)
        return (
            bool(requirements.volumes.unselected or requirements.volumes.read_write_once_pod)
            or any(self.affinity_index.matches((each.selector,), label_set) for each in spreads)
            or (bool(required_affinity) and self.affinity_index.matches(required_affinity, label_set))
            or any(
                not self.nodes.is_own_domain(own_term.term.topology_key)
                for own_term in self._own_bonds(requirements)
            )
        )

    def _bars(self, own_term: OwnTerm) -> bool:
        """Whether a term that picks pods like its own keeps them off every node that has one."""
        label = self.nodes.label(own_term.term.topology_key)
        return bool(own_term.anti_affinity) and bool((label.present() | self.nodes.vacant).all())

    def _is_in_use(self, attachments: Iterable[Attachment], capacity: Capacity) -> bool:
        return any(True for each in attachments for _ in self.attached.where(each, capacity))

    def _own_bonds(self, requirements: PodRequirements) -> Iterator[OwnTerm]:
        """Its terms that pick pods like it."""
        for own_term in requirements.own_terms:
            if self.affinity_index.matches((own_term.term.selector,), requirements.label_set):
                yield own_term


def _if_any(measure: Vector) -> Vector | None:
    return measure if measure.any() else None
