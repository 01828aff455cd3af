"""What pods of one shape ask of nodes and of each other, room aside, in the form in which it is judged."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from quorate.api.core import NodeSelector
from quorate.api.core.scheduling import (
    Affinity,
    NodeAffinity,
    PodAffinity,
    PodAffinityTerm,
    PreferredSchedulingTerm,
)
from quorate.placement.filters.image_locality import full_name
from quorate.placement.filters.inter_pod.affinity_index import OwnTerm, PodSelectors
from quorate.placement.filters.inter_pod.pod_affinity import WEIGHT_OF_REQUIRED
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
from quorate.placement.filters.volumes.filters import VolumeRequirements
from quorate.placement.shapes import Shape

_NO_NODES: Final = NodeAffinity()
_NO_PODS: Final = PodAffinity()


@dataclass(frozen=True, slots=True)
class PodRequirements:
    label_set: PodLabelSet
    labels: frozenset[tuple[str, str]]  # that the node must have
    affinity: NodeSelector | None
    tolerations: Tolerations
    ports: tuple[HostPort, ...]
    volumes: VolumeRequirements
    required_affinity: tuple[AffinityTerm, ...]
    required_anti_affinity: tuple[AffinityTerm, ...]
    spread: tuple[SpreadConstraint, ...]
    preferred_node_affinity: tuple[PreferredSchedulingTerm, ...]
    preferred_pod_affinity: tuple[WeightedAffinityTerm, ...]
    preferred_spread: tuple[SpreadConstraint, ...]
    images: tuple[str, ...]
    own_terms: tuple[OwnTerm, ...]  # what it asks of others once it is placed

    @property
    def of_node(self) -> Hashable:
        """Equal for those who ask the same of a node's own facts."""
        return self.labels, self.affinity, self.tolerations, self.volumes.failure

    def node_inclusion(
        self, spread: SpreadConstraint, together: tuple[SpreadConstraint, ...]
    ) -> NodeInclusion:
        """The nodes that ``spread`` counts, which is judged ``together`` with others."""
        return NodeInclusion(
            keys=frozenset(one.topology_key for one in together),
            labels=self.labels if spread.honors_node_affinity else frozenset(),
            affinity=self.affinity if spread.honors_node_affinity else None,
            tolerations=self.tolerations if spread.honors_node_taints else None,
        )

    def selectors(self) -> frozenset[PodSelectors]:
        """The pods it is interested in."""
        one_by_one = (
            *(term.selector for term in self.required_anti_affinity),
            *(wish.term.selector for wish in self.preferred_pod_affinity),
            *(spread.selector for spread in (*self.spread, *self.preferred_spread)),
        )
        required_affinity = (
            {tuple(term.selector for term in self.required_affinity)} if self.required_affinity else set()
        )
        return frozenset({*((selector,) for selector in one_by_one), *required_affinity})


def requirements_of(shape: Shape) -> PodRequirements:
    affinity = shape.affinity or Affinity()
    nodes = affinity.node_affinity or _NO_NODES
    towards, against = affinity.pod_affinity or _NO_PODS, affinity.pod_anti_affinity or _NO_PODS

    def read(term: PodAffinityTerm) -> AffinityTerm:
        return affinity_term(term, shape.namespace, shape.labels)

    required_affinity = tuple(read(term) for term in towards.required)
    required_anti_affinity = tuple(read(term) for term in against.required)
    preferred = (
        *(WeightedAffinityTerm(read(wish.pod_affinity_term), wish.weight) for wish in towards.preferred),
        *(WeightedAffinityTerm(read(wish.pod_affinity_term), -wish.weight) for wish in against.preferred),
    )
    spreads = [
        (one.when_unsatisfiable, spread_constraint(one, shape.namespace, shape.labels))
        for one in shape.spread
    ]
    return PodRequirements(
        label_set=pod_label_set(shape.namespace, shape.labels),
        labels=frozenset(shape.node_selector.items()),
        affinity=nodes.required,
        tolerations=shape.tolerations,
        ports=host_ports(shape.host_ports),
        volumes=shape.volumes,
        required_affinity=required_affinity,
        required_anti_affinity=required_anti_affinity,
        spread=tuple(spread for when, spread in spreads if when == "DoNotSchedule"),
        preferred_node_affinity=nodes.preferred,
        preferred_pod_affinity=preferred,
        preferred_spread=tuple(spread for when, spread in spreads if when == "ScheduleAnyway"),
        images=tuple(full_name(image) for image in shape.images),
        own_terms=(
            *(OwnTerm(term, anti_affinity=1, weight=0) for term in required_anti_affinity),
            *(OwnTerm(term, anti_affinity=0, weight=WEIGHT_OF_REQUIRED) for term in required_affinity),
            *(OwnTerm(wish.term, anti_affinity=0, weight=wish.weight) for wish in preferred),
        ),
    )
