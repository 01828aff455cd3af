"""Which nodes a pod's volumes leave to it.

What follows for nodes from the claims of a pod is a value, which ``claims`` works out.

Source: kube-scheduler's VolumeBinding and VolumeZone.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from quorate.api.core import NodeSelector
from quorate.placement.constraints import objections
from quorate.placement.constraints.node_affinity import satisfies_any
from quorate.placement.constraints.nodes import NodeFacts
from quorate.placement.constraints.objections import Mask, Objection, Verdicts

# Labels of volumes, and of nodes, as they are called today; drivers of old still write those on the left.
ZONE_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}


class Attachment(NamedTuple):
    """What counts against the limit of a driver on a node, once for however many pods."""

    driver: str
    handle: str


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Volumes that will be bound, or made, where the pod is placed."""

    claims: int  # so many that can take the same volumes
    at_hand: tuple[NodeSelector | None, ...]  # where each volume they can take is; None is everywhere
    is_made: bool  # whether one can be made for them
    made_in: NodeSelector | None = None  # and where; None is everywhere


@dataclass(frozen=True, slots=True)
class VolumeDemands:
    """What the volumes of a pod ask of its node."""

    refusal: Objection | None = None  # against all nodes, until the claims are other than they are
    bound: tuple[NodeSelector, ...] = ()  # the node affinity of each volume there is
    zones: tuple[tuple[str, frozenset[str]], ...] = ()  # labels, and the values their volumes allow
    arrivals: tuple[Arrivals, ...] = ()
    unsettled: tuple[Attachment, ...] = ()  # of the arrivals, where they go: to where the first pod goes
    sole: tuple[Attachment, ...] = ()  # that one pod may use at a time, wherever it is
    attachments: tuple[Attachment, ...] = ()  # all there are to be, those above included


NO_VOLUMES: Final = VolumeDemands()


def object_to_volumes(nodes: NodeFacts, demands: VolumeDemands, verdicts: Verdicts) -> None:
    """Where volumes that exist cannot be reached, and where those to come can be neither found nor made."""
    for place in demands.bound:
        verdicts.object_to(~_within(nodes, place), objections.VOLUME_CONFLICT)
    for arrivals in demands.arrivals:
        verdicts.object_to(~_can_arrive(nodes, arrivals), objections.NO_VOLUME_TO_BIND)


def object_to_zones(nodes: NodeFacts, demands: VolumeDemands, verdicts: Verdicts) -> None:
    """Where a volume is of another zone by its labels.  Nodes that are of no zone or region pass."""
    if not demands.zones:
        return
    placed = np.zeros(nodes.size, np.bool_)
    for key in (*ZONE_LABELS, *ZONE_LABELS.values()):
        placed |= nodes.label(key).present()
    for key, values in demands.zones:
        allowed = nodes.label(key).among(values)
        if key in ZONE_LABELS:  # a node without the old label is asked for the new one
            allowed |= ~nodes.label(key).present() & nodes.label(ZONE_LABELS[key]).among(values)
        verdicts.object_to(placed & ~allowed, objections.NO_VOLUME_ZONE)


def _within(nodes: NodeFacts, place: NodeSelector | None) -> Mask:
    return ~nodes.vacant if place is None else satisfies_any(nodes, place.node_selector_terms)


def _can_arrive(nodes: NodeFacts, arrivals: Arrivals) -> Mask:
    found = np.zeros(nodes.size, np.int64)
    for place in arrivals.at_hand:
        found += _within(nodes, place)
    enough: Mask = found >= arrivals.claims
    return enough | _within(nodes, arrivals.made_in) if arrivals.is_made else enough
