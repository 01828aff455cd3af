"""What pods of one shape ask of nodes and of each other, room aside, in the form in which it is judged."""

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from quorate.api.core import NodeSelector
from quorate.api.placeable import Affinity, NodeAffinity, PodAffinity, PodAffinityTerm, PreferredNodeTerm
from quorate.placement.constraints.images import full_name
from quorate.placement.constraints.inclusion import Inclusion
from quorate.placement.constraints.neighbours import Bond, Picks
from quorate.placement.constraints.pod_affinity import WEIGHT_OF_REQUIRED
from quorate.placement.constraints.ports import HostPort, host_ports
from quorate.placement.constraints.taints import Tolerations
from quorate.placement.constraints.terms import (
    Kin,
    PodTerm,
    Spread,
    WeightedTerm,
    kin_of,
    read_spread,
    read_term,
)
from quorate.placement.constraints.volumes import VolumeDemands
from quorate.placement.shapes import Shape

_NO_NODES: Final = NodeAffinity()
_NO_PODS: Final = PodAffinity()


@dataclass(frozen=True, slots=True)
class Demands:
    kin: Kin
    labels: frozenset[tuple[str, str]]  # that the node must have
    affinity: NodeSelector | None
    tolerations: Tolerations
    ports: tuple[HostPort, ...]
    volumes: VolumeDemands
    near: tuple[PodTerm, ...]
    apart: tuple[PodTerm, ...]
    spread: tuple[Spread, ...]
    preferred_nodes: tuple[PreferredNodeTerm, ...]
    preferred_pods: tuple[WeightedTerm, ...]
    preferred_spread: tuple[Spread, ...]
    images: tuple[str, ...]
    bonds: tuple[Bond, ...]  # what it asks of others once it is placed

    @property
    def of_node(self) -> Hashable:
        """Equal for those who ask the same of a node's own facts."""
        return self.labels, self.affinity, self.tolerations, self.volumes.refusal

    def inclusion(self, spread: Spread, together: tuple[Spread, ...]) -> Inclusion:
        """The nodes that ``spread`` counts, which is judged ``together`` with others."""
        return Inclusion(
            keys=frozenset(one.topology_key for one in together),
            labels=self.labels if spread.heeds_affinity else frozenset(),
            affinity=self.affinity if spread.heeds_affinity else None,
            tolerations=self.tolerations if spread.heeds_taints else None,
        )

    def picks(self) -> frozenset[Picks]:
        """The pods it is interested in."""
        one_by_one = (
            *(term.pick for term in self.apart),
            *(wish.term.pick for wish in self.preferred_pods),
            *(spread.pick for spread in (*self.spread, *self.preferred_spread)),
        )
        near = {tuple(term.pick for term in self.near)} if self.near else set()
        return frozenset({*((pick,) for pick in one_by_one), *near})


def demands_of(shape: Shape) -> Demands:
    affinity = shape.affinity or Affinity()
    nodes = affinity.node_affinity or _NO_NODES
    towards, against = affinity.pod_affinity or _NO_PODS, affinity.pod_anti_affinity or _NO_PODS

    def read(term: PodAffinityTerm) -> PodTerm:
        return read_term(term, shape.namespace, shape.labels)

    near = tuple(read(term) for term in towards.required)
    apart = tuple(read(term) for term in against.required)
    preferred = (
        *(WeightedTerm(read(wish.pod_affinity_term), wish.weight) for wish in towards.preferred),
        *(WeightedTerm(read(wish.pod_affinity_term), -wish.weight) for wish in against.preferred),
    )
    spreads = [
        (one.when_unsatisfiable, read_spread(one, shape.namespace, shape.labels)) for one in shape.spread
    ]
    return Demands(
        kin=kin_of(shape.namespace, shape.labels),
        labels=frozenset(shape.node_selector.items()),
        affinity=nodes.required,
        tolerations=shape.tolerations,
        ports=host_ports(shape.host_ports),
        volumes=shape.volumes,
        near=near,
        apart=apart,
        spread=tuple(spread for when, spread in spreads if when == "DoNotSchedule"),
        preferred_nodes=nodes.preferred,
        preferred_pods=preferred,
        preferred_spread=tuple(spread for when, spread in spreads if when == "ScheduleAnyway"),
        images=tuple(full_name(image) for image in shape.images),
        bonds=(
            *(Bond(term, forbids=1, attracts=0) for term in apart),
            *(Bond(term, forbids=0, attracts=WEIGHT_OF_REQUIRED) for term in near),
            *(Bond(wish.term, forbids=0, attracts=wish.weight) for wish in preferred),
        ),
    )
