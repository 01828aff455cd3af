"""The requirements of a pod shape apart from resources, compiled for the filters."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from quorate.api.core import NodeAffinity, NodeSelector, PreferredSchedulingTerm
from quorate.api.core.scheduling import Affinity, PodAffinity, PodAffinityTerm
from quorate.placement.claim_requirements import DeviceDemand, VolumeRequirements
from quorate.placement.filters.image_locality import full_name
from quorate.placement.filters.inter_pod.affinity_index import OwnTerm, PodSelectors
from quorate.placement.filters.inter_pod.pod_affinity import HARD_AFFINITY_WEIGHT
from quorate.placement.filters.inter_pod.pod_selectors import (
    AffinityTerm,
    PodLabelSet,
    SpreadConstraint,
    WeightedAffinityTerm,
    affinity_term,
    pod_label_set,
    spread_constraint,
)
from quorate.placement.filters.inter_pod.topology_counts import NodeInclusion
from quorate.placement.filters.node_ports import HostPort, host_ports
from quorate.placement.filters.taints import Tolerations
from quorate.placement.shapes import NodeGroupRule, Shape

_NO_NODE_AFFINITY: Final = NodeAffinity()
_NO_POD_AFFINITY: Final = PodAffinity()


@dataclass(frozen=True, slots=True)
class PodRequirements:
    label_set: PodLabelSet  # of the pod itself
    node_labels: frozenset[tuple[str, str]]  # the node selector
    node_affinity: NodeSelector | None
    node_groups: NodeGroupRule | None  # of the queue
    tolerations: Tolerations
    host_ports: tuple[HostPort, ...]
    volumes: VolumeRequirements
    devices: DeviceDemand
    required_affinity: tuple[AffinityTerm, ...]
    required_anti_affinity: tuple[AffinityTerm, ...]
    required_spread: tuple[SpreadConstraint, ...]
    preferred_node_affinity: tuple[PreferredSchedulingTerm, ...]
    preferred_pod_affinity: tuple[WeightedAffinityTerm, ...]  # anti-affinity has negative weights
    preferred_spread: tuple[SpreadConstraint, ...]
    images: tuple[str, ...]
    own_terms: tuple[OwnTerm, ...]  # the terms by which the pod affects other pods once it is placed

    @property
    def node_filter_key(self) -> Hashable:
        """The requirements that ``NodeConstraintIndex.filter_by_node`` reads.

        Pods with equal ones share its result.
        """
        return (
            self.node_labels, self.node_affinity, self.node_groups, self.tolerations, self.volumes.failure,
            self.devices.failure,
        )  # fmt: skip

    def node_inclusion(self, constraint: SpreadConstraint, keys: frozenset[str]) -> NodeInclusion:
        """Return the nodes that ``constraint`` counts; ``keys``: topology keys of all constraints."""
        return NodeInclusion(
            keys=keys,
            labels=self.node_labels if constraint.honors_node_affinity else frozenset(),
            affinity=self.node_affinity if constraint.honors_node_affinity else None,
            tolerations=self.tolerations if constraint.honors_node_taints else None,
        )

    def selectors(self) -> frozenset[PodSelectors]:
        """Return the selectors that match the pods on which the results for this pod depend."""
        single = (
            *(term.selector for term in self.required_anti_affinity),
            *(preferred.term.selector for preferred in self.preferred_pod_affinity),
            *(constraint.selector for constraint in (*self.required_spread, *self.preferred_spread)),
        )
        # Pods count for required affinity only if all of its terms match.
        joint = {tuple(term.selector for term in self.required_affinity)} if self.required_affinity else set()
        return frozenset({*((selector,) for selector in single), *joint})


def pod_requirements(shape: Shape) -> PodRequirements:
    affinity = shape.affinity or Affinity()
    node_affinity = affinity.node_affinity or _NO_NODE_AFFINITY
    pod_affinity = affinity.pod_affinity or _NO_POD_AFFINITY
    pod_anti_affinity = affinity.pod_anti_affinity or _NO_POD_AFFINITY

    def compiled(term: PodAffinityTerm) -> AffinityTerm:
        return affinity_term(term, shape.namespace, shape.labels)

    required_affinity = tuple(compiled(term) for term in pod_affinity.required)
    required_anti_affinity = tuple(compiled(term) for term in pod_anti_affinity.required)
    preferred = (
        *(
            WeightedAffinityTerm(compiled(weighted.pod_affinity_term), weighted.weight)
            for weighted in pod_affinity.preferred
        ),
        *(
            WeightedAffinityTerm(compiled(weighted.pod_affinity_term), -weighted.weight)
            for weighted in pod_anti_affinity.preferred
        ),
    )
    constraints = [
        (one.when_unsatisfiable, spread_constraint(one, shape.namespace, shape.labels))
        for one in shape.spread
    ]
    return PodRequirements(
        label_set=pod_label_set(shape.namespace, shape.labels),
        node_labels=frozenset(shape.node_selector.items()),
        node_affinity=node_affinity.required,
        node_groups=shape.node_groups,
        tolerations=shape.tolerations,
        host_ports=host_ports(shape.host_ports),
        volumes=shape.volumes,
        devices=shape.devices,
        required_affinity=required_affinity,
        required_anti_affinity=required_anti_affinity,
        required_spread=tuple(one for action, one in constraints if action == "DoNotSchedule"),
        preferred_node_affinity=node_affinity.preferred,
        preferred_pod_affinity=preferred,
        preferred_spread=tuple(one for action, one in constraints if action == "ScheduleAnyway"),
        images=tuple(full_name(image) for image in shape.images),
        own_terms=(
            *(OwnTerm(term, anti_affinity=1, weight=0) for term in required_anti_affinity),
            *(OwnTerm(term, anti_affinity=0, weight=HARD_AFFINITY_WEIGHT) for term in required_affinity),
            *(OwnTerm(weighted.term, anti_affinity=0, weight=weighted.weight) for weighted in preferred),
        ),
    )
