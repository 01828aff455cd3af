"""Which nodes a pod's volumes leave to it.

What follows for nodes from the claims of a pod is a value, which ``claims`` works out.

Source: kube-scheduler's VolumeBinding and VolumeZone.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from quorate.api.core import NodeSelector
from quorate.placement.filters import failures
from quorate.placement.filters.failures import FilterFailure, NodeStatuses
from quorate.placement.filters.node_affinity import satisfies_any
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.vectors import Mask

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
class UnboundClaims:
    """Volumes that will be bound, or made, where the pod is placed."""

    claims: int  # so many that can take the same volumes
    candidate_volumes: tuple[
        NodeSelector | None, ...
    ]  # where each volume they can take is; None is everywhere
    can_provision: bool  # whether one can be made for them
    provisioning_topology: NodeSelector | None = None  # and where; None is everywhere


@dataclass(frozen=True, slots=True)
class VolumeRequirements:
    """What the volumes of a pod ask of its node."""

    failure: FilterFailure | None = None  # against all nodes, until the claims are other than they are
    bound: tuple[NodeSelector, ...] = ()  # the node affinity of each volume there is
    zones: tuple[tuple[str, frozenset[str]], ...] = ()  # labels, and the values their volumes allow
    unbound_claims: tuple[UnboundClaims, ...] = ()
    unselected: tuple[Attachment, ...] = ()  # of the arrivals, where they go: to where the first pod goes
    read_write_once_pod: tuple[Attachment, ...] = ()  # that one pod may use at a time, wherever it is
    attachments: tuple[Attachment, ...] = ()  # all there are to be, those above included


NO_VOLUMES: Final = VolumeRequirements()


def filter_volume_binding(
    nodes: NodeColumns, requirements: VolumeRequirements, statuses: NodeStatuses
) -> None:
    """Where volumes that exist cannot be reached, and where those to come can be neither found nor made."""
    for place in requirements.bound:
        statuses.reject(~_within(nodes, place), failures.VOLUME_CONFLICT)
    for unbound_claims in requirements.unbound_claims:
        statuses.reject(~_can_arrive(nodes, unbound_claims), failures.NO_VOLUME_TO_BIND)


def filter_volume_zone(nodes: NodeColumns, requirements: VolumeRequirements, statuses: NodeStatuses) -> None:
    """Where a volume is of another zone by its labels.  Nodes that are of no zone or region pass."""
    if not requirements.zones:
        return
    placed = np.zeros(nodes.size, np.bool_)
    for key in (*ZONE_LABELS, *ZONE_LABELS.values()):
        placed |= nodes.label(key).present()
    for key, values in requirements.zones:
        allowed = nodes.label(key).among(values)
        if key in ZONE_LABELS:  # a node without the old label is asked for the new one
            allowed |= ~nodes.label(key).present() & nodes.label(ZONE_LABELS[key]).among(values)
        statuses.reject(placed & ~allowed, failures.NO_VOLUME_ZONE)


def _within(nodes: NodeColumns, place: NodeSelector | None) -> Mask:
    return ~nodes.vacant if place is None else satisfies_any(nodes, place.node_selector_terms)


def _can_arrive(nodes: NodeColumns, unbound_claims: UnboundClaims) -> Mask:
    found = np.zeros(nodes.size, np.int64)
    for place in unbound_claims.candidate_volumes:
        found += _within(nodes, place)
    enough: Mask = found >= unbound_claims.claims
    return (
        enough | _within(nodes, unbound_claims.provisioning_topology)
        if unbound_claims.can_provision
        else enough
    )
