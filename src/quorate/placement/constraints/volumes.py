"""Which nodes a pod's volumes leave to it, and what of the drivers on a node they take.

The claims of a pod are looked up when the pod is read; what follows from them for nodes is a value.

Source: the Kubernetes page "Persistent Volumes" and kube-scheduler's VolumeBinding, VolumeZone and
NodeVolumeLimits.  Knowingly missing: the capacity that storage drivers publish, and volumes of drivers of old
that are written into the pod itself.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

import numpy as np

from quorate.api.core import NodeSelector, NodeSelectorTerm
from quorate.api.meta import Key, Requirement, matches_selector
from quorate.api.placeable import Pod, Volume
from quorate.api.quantity import Quantity
from quorate.api.volumes import (
    BIND_COMPLETED,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from quorate.placement.constraints import objections
from quorate.placement.constraints.node_affinity import NAME_FIELD, satisfies_any
from quorate.placement.constraints.nodes import NodeFacts
from quorate.placement.constraints.objections import Mask, Objection, Verdicts

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
WAITS_FOR_CONSUMER: Final = "WaitForFirstConsumer"
# By the labels of old, which drivers of old still write: one value, or several with this in between.
ZONE_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
_BETWEEN_ZONES: Final = "__"


@dataclass(frozen=True, slots=True)
class Storage:
    """The claims, volumes and classes there are."""

    claims: Mapping[Key, PersistentVolumeClaim] = field(default_factory=dict)
    volumes: Mapping[str, PersistentVolume] = field(default_factory=dict)
    classes: Mapping[str, StorageClass] = field(default_factory=dict)


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
    attachments: tuple[Attachment, ...] = ()


NO_VOLUMES: Final = VolumeDemands()


def volume_demands(pod: Pod, storage: Storage) -> VolumeDemands:
    """What follows from the claims of ``pod`` as they are now."""
    claims: list[PersistentVolumeClaim] = []
    for volume in pod.spec.volumes:
        claim = storage.claims.get(_claim_key(pod, volume))
        if claim is None:
            return VolumeDemands(refusal=_missing(pod, volume))
        refusal = _unusable(claim, pod, volume)
        if refusal is not None:
            return VolumeDemands(refusal=refusal)
        claims.append(claim)
    bound = [claim for claim in claims if _is_bound(claim)]
    waiting = [claim for claim in claims if not _is_bound(claim)]
    if not all(_waits_for_pod(claim, storage) for claim in waiting):
        return VolumeDemands(refusal=objections.UNBOUND_CLAIMS)
    if any(claim.spec.volume_name not in storage.volumes for claim in bound):
        return VolumeDemands(refusal=objections.VOLUME_GONE)
    volumes = [storage.volumes[claim.spec.volume_name] for claim in bound]
    return VolumeDemands(
        bound=tuple(place for place in map(_place, volumes) if place is not None),
        zones=tuple(zone for volume in volumes for zone in _zones(volume)),
        arrivals=tuple(_arrivals(waiting, storage)),
        attachments=tuple(sorted({*_attached(volumes), *_to_be_attached(waiting, storage)})),
    )


def _claim_key(pod: Pod, volume: Volume) -> Key:
    source = volume.persistent_volume_claim
    name = f"{pod.metadata.name}-{volume.name}" if source is None else source.claim_name
    return Key(pod.metadata.namespace, name)


def _missing(pod: Pod, volume: Volume) -> Objection:
    name = _claim_key(pod, volume).name
    return objections.claim_not_created(name) if volume.ephemeral else objections.claim_not_found(name)


def _unusable(claim: PersistentVolumeClaim, pod: Pod, volume: Volume) -> Objection | None:
    name = claim.metadata.name
    if claim.status.phase == "Lost":
        return objections.claim_lost(name, claim.spec.volume_name)
    if claim.metadata.deletion_timestamp is not None:
        return objections.claim_being_deleted(name)
    owner = claim.metadata.controller
    if volume.ephemeral is not None and (owner is None or owner.uid != pod.metadata.uid):
        return objections.claim_of_another_pod(name)
    return None


def _is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def _waits_for_pod(claim: PersistentVolumeClaim, storage: Storage) -> bool:
    class_ = storage.classes.get(claim.spec.storage_class_name or "")
    # A claim that names its volume already waits for the binding, not for a pod.
    return (
        class_ is not None and class_.volume_binding_mode == WAITS_FOR_CONSUMER and not claim.spec.volume_name
    )


def _place(volume: PersistentVolume) -> NodeSelector | None:
    """The nodes from which the volume can be reached; None is all of them."""
    return volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None


def _zones(volume: PersistentVolume) -> Iterator[tuple[str, frozenset[str]]]:
    for key, value in sorted(volume.metadata.labels.items()):
        if key in ZONE_LABELS or key in ZONE_LABELS.values():
            yield key, frozenset(value.split(_BETWEEN_ZONES))


def _attached(volumes: Iterable[PersistentVolume]) -> Iterator[Attachment]:
    for volume in volumes:
        if volume.spec.csi is not None:
            yield Attachment(volume.spec.csi.driver, volume.spec.csi.volume_handle)


def _to_be_attached(claims: Iterable[PersistentVolumeClaim], storage: Storage) -> Iterator[Attachment]:
    """The volumes that will be made count as well, under names that no volume there is can have."""
    for claim in claims:
        yield Attachment(_class(claim, storage).provisioner, f"claim {claim.metadata.key}")


def _arrivals(claims: Iterable[PersistentVolumeClaim], storage: Storage) -> Iterator[Arrivals]:
    """What the claims wait for; those that can take the same volumes together."""
    alike: Counter[Arrivals] = Counter(_arrival(claim, storage) for claim in claims)
    for arrival, count in alike.items():
        yield replace(arrival, claims=count)


def _arrival(claim: PersistentVolumeClaim, storage: Storage) -> Arrivals:
    chosen = claim.metadata.annotations.get(SELECTED_NODE)
    if chosen is not None:  # its volume is being made there
        return Arrivals(claims=1, at_hand=(), is_made=True, made_in=_node_named(chosen))
    class_ = _class(claim, storage)
    at_hand = [volume for volume in storage.volumes.values() if _can_take(claim, volume)]
    return Arrivals(
        claims=1,
        at_hand=tuple(_place(volume) for volume in sorted(at_hand, key=lambda volume: volume.metadata.name)),
        is_made=class_.provisioner not in ("", NO_PROVISIONER),
        made_in=_topologies(class_),
    )


def _class(claim: PersistentVolumeClaim, storage: Storage) -> StorageClass:
    return storage.classes[claim.spec.storage_class_name or ""]


def _can_take(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether the claim may be bound to the volume, which nobody has claimed yet."""
    reference = volume.spec.claim_ref
    if reference is not None:
        return (reference.namespace, reference.name) == (claim.metadata.namespace, claim.metadata.name) and (
            reference.uid in ("", claim.metadata.uid)
        )
    wanted = claim.spec.resources.requests.get("storage", Quantity(0))
    return (
        volume.status.phase == "Available"
        and volume.metadata.deletion_timestamp is None
        and volume.spec.storage_class_name == claim.spec.storage_class_name
        and volume.spec.volume_mode == claim.spec.volume_mode
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        and volume.spec.capacity.get("storage", Quantity(0)) >= wanted
        and (claim.spec.selector is None or matches_selector(claim.spec.selector, volume.metadata.labels))
    )


def _node_named(name: str) -> NodeSelector:
    field_ = Requirement(key=NAME_FIELD, operator="In", values=(name,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field_,)),))


def _topologies(class_: StorageClass) -> NodeSelector | None:
    if not class_.allowed_topologies:
        return None
    return NodeSelector(
        node_selector_terms=tuple(
            NodeSelectorTerm(
                match_expressions=tuple(
                    Requirement(key=one.key, operator="In", values=one.values)
                    for one in term.match_label_expressions
                )
            )
            for term in class_.allowed_topologies
        )
    )


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
