"""The node columns and pod indexes that filters read, and the order of the filters."""

from collections.abc import Hashable, Iterable, Iterator

from quorate.api.scheduler_configuration.plugins import PredicateArguments
from quorate.placement import failures
from quorate.placement.claim_requirements import NO_DEVICES, NO_VOLUMES, Attachment, VolumeRequirements
from quorate.placement.failures import NodeStatuses
from quorate.placement.filters import taints, topology_spread
from quorate.placement.filters.devices.index import DeviceIndex
from quorate.placement.filters.image_locality import ImageIndex
from quorate.placement.filters.inter_pod import pod_affinity
from quorate.placement.filters.inter_pod.affinity_index import AffinityIndex, OwnTerm
from quorate.placement.filters.node_affinity import matching_nodes, preferred_weights
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.filters.node_groups import filter_node_groups, node_group_scores
from quorate.placement.filters.node_ports import HostPortIndex
from quorate.placement.filters.requirements import PodRequirements
from quorate.placement.filters.topology_spread import SpreadSkew
from quorate.placement.filters.volumes.filters import (
    AttachedVolumes,
    filter_volume_binding,
    filter_volume_zone,
)
from quorate.placement.framework import Capacity, InvalidationScope, RawScores
from quorate.placement.vectors import Vector, np


class NodeConstraintIndex:
    """The nodes and placed pods as filters read them."""

    def __init__(self, enabled_predicates: PredicateArguments) -> None:
        self.enabled_predicates = enabled_predicates
        self.nodes = NodeColumns()
        self.pods = AffinityIndex(self.nodes)
        self.host_ports = HostPortIndex()
        self.volumes = AttachedVolumes()
        self.devices = DeviceIndex(self.nodes)
        self.images = ImageIndex(self.nodes)

    def add(self, node: int, requirements: PodRequirements, staying: int, leaving: int) -> None:
        """Add pods with ``requirements`` on the node that stay, and that leave; a negative number removes."""
        for releasing, count in ((False, staying), (True, leaving)):
            if count:
                self.pods.add(node, requirements.label_set, requirements.own_terms, releasing, count)
                if requirements.host_ports:
                    self.host_ports.add(node, requirements.host_ports, releasing, count)
                if requirements.volumes.attachments:
                    self.volumes.add(node, requirements.volumes.attachments, releasing, count)
        if requirements.devices is not NO_DEVICES:
            self.devices.add(node, requirements.devices, staying, leaving)

    def retain(self, wanted: Iterable[PodRequirements]) -> None:
        """Drop index entries that no requirement in ``wanted`` uses."""
        requirements = list(wanted)
        self.pods.retain({selectors for requirement in requirements for selectors in requirement.selectors()})
        self.images.retain({image for requirement in requirements for image in requirement.images})

    def state(self, requirements: PodRequirements) -> Hashable:
        """Return a value that differs whenever results for ``requirements`` may differ."""
        counts = (
            self.pods.count_matching(selectors, Capacity.IDLE).version
            for selectors in requirements.selectors()
        )
        placed_terms = (
            (placed_term.serial, placed_term.anti_affinity.idle.version, placed_term.weight.idle.version)
            for placed_term in self.pods.placed_terms_matching(requirements.label_set)
        )
        return (
            self.nodes.generation,
            self.images.version if requirements.images else 0,
            self.host_ports.version if requirements.host_ports else 0,
            self.volumes.version if requirements.volumes.attachments else 0,
            self.devices.version if requirements.devices is not NO_DEVICES else 0,
            *counts,
            *placed_terms,
        )

    def filter_by_node(self, requirements: PodRequirements) -> NodeStatuses:
        """Run the filters that read only nodes and the pod; those for existing volumes run later.

        A failure of the pod's claims comes first: until they change, no other result matters.
        """
        enabled = self.enabled_predicates
        statuses = NodeStatuses(self.nodes.size, self.nodes.generation)
        if enabled.volume_binding and requirements.volumes.failure is not None:
            statuses.reject(~self.nodes.vacant, requirements.volumes.failure)
        if enabled.devices and requirements.devices.failure is not None:
            statuses.reject(~self.nodes.vacant, requirements.devices.failure)
        statuses.reject(~self.nodes.ready, failures.NOT_READY)
        for pod in self.nodes.unreadable_pod.values:
            having = self.nodes.unreadable_pod.in_values((pod,))
            statuses.reject(having, failures.unreadable_pod(pod))
        if enabled.node_unschedulable:
            taints.filter_unschedulable(self.nodes, requirements.tolerations, statuses)
        if enabled.taint_toleration:
            taints.filter_taints(self.nodes, requirements.tolerations, statuses)
        if enabled.node_affinity:
            matching = matching_nodes(self.nodes, requirements.node_labels, requirements.node_affinity)
            statuses.reject(~matching, failures.NODE_AFFINITY)
        if requirements.node_groups is not None:
            filter_node_groups(self.nodes, requirements.node_groups, statuses)
        return statuses

    def reads_pods(self, requirements: PodRequirements) -> bool:
        """Return False if ``filter_by_pods`` rejects no node whatever pods are placed."""
        return bool(
            requirements.host_ports
            or requirements.volumes != NO_VOLUMES
            or requirements.devices is not NO_DEVICES
            or requirements.required_affinity
            or requirements.required_anti_affinity
            or requirements.required_spread
            or self.pods.placed_terms_matching(requirements.label_set)
        )

    def filter_by_pods(
        self,
        requirements: PodRequirements,
        capacity: Capacity,
        statuses: NodeStatuses,
        skews: Iterable[SpreadSkew] | None = None,
    ) -> None:
        """Run the filters that read placed pods or volumes, adding to ``statuses``.

        ``statuses`` is a copy of the result of ``filter_by_node``.  ``skews`` are read instead of the skews
        of the placed pods.
        """
        enabled = self.enabled_predicates
        nodes, pods = self.nodes, self.pods
        if enabled.node_ports and requirements.host_ports:
            conflicts = self.host_ports.conflicts(requirements.host_ports, nodes.size, capacity)
            statuses.reject(conflicts, failures.PORT_CONFLICT)
        self._filter_by_volumes(requirements.volumes, capacity, statuses)
        if enabled.devices:
            self.devices.filter(requirements.devices, capacity, statuses)
        if enabled.pod_topology_spread:
            for skew in self.spread_skews(requirements) if skews is None else skews:
                skew.reject(statuses)
        if enabled.pod_affinity:
            label_set = requirements.label_set
            pod_affinity.filter_affinity(
                nodes, pods, requirements.required_affinity, label_set, capacity, statuses
            )
            pod_affinity.filter_anti_affinity(pods, requirements.required_anti_affinity, capacity, statuses)
            pod_affinity.filter_existing_anti_affinity(pods, label_set, capacity, statuses)

    def _filter_by_volumes(
        self, volumes: VolumeRequirements, capacity: Capacity, statuses: NodeStatuses
    ) -> None:
        enabled, nodes = self.enabled_predicates, self.nodes
        if enabled.volume_binding and self._any_in_use(volumes.read_write_once_pod, capacity):
            statuses.reject(~nodes.vacant, failures.CLAIM_IN_USE)
        if enabled.node_volume_limits and volumes.attachments:
            over_limit = self.volumes.over_limit(nodes, volumes.attachments, capacity)
            statuses.reject(over_limit, failures.TOO_MANY_VOLUMES)
        if enabled.volume_binding:
            filter_volume_binding(nodes, volumes, statuses)
            for volume in volumes.unselected:
                elsewhere = self.volumes.other_nodes(volume, nodes.size)
                statuses.reject(elsewhere, failures.NO_VOLUME_TO_BIND)
        if enabled.volume_zone:
            filter_volume_zone(nodes, volumes, statuses)

    def spread_skews(self, requirements: PodRequirements) -> Iterator[SpreadSkew]:
        """Return the skew of each required topology spread constraint."""
        return topology_spread.spread_skews(self.nodes, self.pods, requirements)

    def raw_scores(self, requirements: PodRequirements) -> RawScores:
        terms, rule = requirements.preferred_node_affinity, requirements.node_groups
        pod_weights = pod_affinity.affinity_weights(
            self.nodes, self.pods, requirements.preferred_pod_affinity, requirements.label_set, Capacity.IDLE
        )
        return RawScores(
            node_affinity=preferred_weights(self.nodes, terms) if terms else None,
            taints=taints.prefer_no_schedule_counts(self.nodes, requirements.tolerations),
            pod_affinity=_none_if_zero(pod_weights),
            spread=topology_spread.spread_scorer(self.nodes, self.pods, requirements),
            images=_none_if_zero(self.images.scores(requirements.images)),
            node_groups=None if rule is None else _none_if_zero(node_group_scores(self.nodes, rule)),
        )

    def invalidation_scope(self, requirements: PodRequirements) -> InvalidationScope:
        """Return the results that placing one pod changes for the next equal one."""
        if self._affects_other_nodes(requirements):
            return InvalidationScope.OTHER_NODES
        own_terms = list(self._terms_matching_itself(requirements))
        if requirements.host_ports and self.enabled_predicates.node_ports:
            return InvalidationScope.ONE_PER_NODE
        if self.enabled_predicates.pod_affinity and any(map(self._excludes_second_pod, own_terms)):
            return InvalidationScope.ONE_PER_NODE
        if own_terms or requirements.volumes.attachments or requirements.devices.claims:
            return InvalidationScope.OWN_NODE
        return InvalidationScope.NONE

    def anchor_domains(
        self, requirements: PodRequirements, followers: Iterable[PodRequirements]
    ) -> list[Vector]:
        """Return the domains that the next pod with ``requirements`` fixes for ``followers``."""
        if not self.enabled_predicates.pod_affinity:
            return []
        keys: dict[str, None] = {}
        for terms in dict.fromkeys(follower.required_affinity for follower in followers):
            if terms and pod_affinity.is_first_of_group(
                self.pods, terms, requirements.label_set, Capacity.IDLE
            ):
                keys |= dict.fromkeys(term.topology_key for term in terms)
        return [self.nodes.label(key).codes.astype(np.int64) for key in keys]

    def _affects_other_nodes(self, requirements: PodRequirements) -> bool:
        label_set = requirements.label_set
        constraints = (*requirements.required_spread, *requirements.preferred_spread)
        affinity = tuple(term.selector for term in requirements.required_affinity)
        return (
            bool(requirements.volumes.unselected or requirements.volumes.read_write_once_pod)
            or bool(requirements.devices.claims and self.devices.affects_other_nodes(requirements.devices))
            or any(self.pods.matches((constraint.selector,), label_set) for constraint in constraints)
            or (bool(affinity) and self.pods.matches(affinity, label_set))
            or any(
                not self.nodes.is_unique_label(own_term.term.topology_key)
                for own_term in self._terms_matching_itself(requirements)
            )
        )

    def _excludes_second_pod(self, own_term: OwnTerm) -> bool:
        """Return True if the term keeps a second equal pod off any node.

        It is an anti-affinity term that matches the pod itself, and every node is in a domain of it.
        """
        label = self.nodes.label(own_term.term.topology_key)
        return bool(own_term.anti_affinity) and bool((label.present() | self.nodes.vacant).all())

    def _any_in_use(self, attachments: Iterable[Attachment], capacity: Capacity) -> bool:
        return any(True for attachment in attachments for _ in self.volumes.nodes_with(attachment, capacity))

    def _terms_matching_itself(self, requirements: PodRequirements) -> Iterator[OwnTerm]:
        for own_term in requirements.own_terms:
            if self.pods.matches((own_term.term.selector,), requirements.label_set):
                yield own_term


def _none_if_zero(scores: Vector) -> Vector | None:
    return scores if scores.any() else None
