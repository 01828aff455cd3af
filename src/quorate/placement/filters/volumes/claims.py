"""The claims of a pod: what follows from them, as they are now, for its node.

Source: the Kubernetes page "Persistent Volumes" and kube-scheduler's VolumeBinding.  Knowingly missing: the
capacity that storage drivers publish, and volumes of drivers of old that are written into the pod itself.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from quorate.api.core import NodeSelector, NodeSelectorTerm
from quorate.api.core.scheduling import Pod, Volume
from quorate.api.core.volumes import (
    BIND_COMPLETED,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from quorate.api.meta import Key, SelectorRequirement, matches_selector
from quorate.api.quantity import Quantity
from quorate.placement.filters import failures
from quorate.placement.filters.failures import FilterFailure
from quorate.placement.filters.node_affinity import NAME_FIELD
from quorate.placement.filters.volumes.filters import (
    NO_VOLUMES,
    ZONE_LABELS,
    Attachment,
    UnboundClaims,
    VolumeRequirements,
)
from quorate.placement.filters.volumes.storage import StorageIndex

NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
WAITS_FOR_CONSUMER: Final = "WaitForFirstConsumer"
SOLE_USE: Final = "ReadWriteOncePod"
_BETWEEN_ZONES: Final = "__"  # of a volume that is in several


def volume_requirements(pod: Pod, storage: StorageIndex) -> VolumeRequirements:
    """What follows from the claims of ``pod`` as they are now."""
    if not pod.spec.volumes:
        return NO_VOLUMES
    claims: list[PersistentVolumeClaim] = []
    for volume in pod.spec.volumes:
        claim = storage.claims.get(_claim_key(pod, volume))
        if claim is None:
            return VolumeRequirements(failure=_missing(pod, volume))
        failure = _unusable(claim, pod, volume)
        if failure is not None:
            return VolumeRequirements(failure=failure)
        claims.append(claim)
    bound = [claim for claim in claims if _is_bound(claim)]
    waiting = [claim for claim in claims if not _is_bound(claim)]
    if not all(is_waiting_for_pod(claim, storage) for claim in waiting):
        return VolumeRequirements(failure=failures.UNBOUND_CLAIMS)
    if any(claim.spec.volume_name not in storage.volumes for claim in bound):
        return VolumeRequirements(failure=failures.VOLUME_GONE)
    volumes = [storage.volumes[claim.spec.volume_name] for claim in bound]
    read_write_once_pod = {_use_of(claim) for claim in claims if SOLE_USE in claim.spec.access_modes}
    return VolumeRequirements(
        bound=tuple(place for place in map(_place, volumes) if place is not None),
        zones=tuple(zone for volume in volumes for zone in _zones(volume)),
        unbound_claims=tuple(_arrivals(waiting, storage)),
        unselected=tuple(sorted(_to_be_attached(filter(is_undecided, waiting), storage))),
        read_write_once_pod=tuple(sorted(read_write_once_pod)),
        attachments=tuple(
            sorted({*_attached(volumes), *_to_be_attached(waiting, storage), *read_write_once_pod})
        ),
    )


def can_provision_dynamically(claim: PersistentVolumeClaim, storage: StorageIndex) -> bool:
    """Whether somebody makes volumes of its class."""
    class_ = storage.class_of(claim)
    return class_ is not None and class_.provisioner not in ("", NO_PROVISIONER)


def claims_of(pod: Pod, storage: StorageIndex) -> Iterator[PersistentVolumeClaim]:
    """Its claims that exist."""
    for volume in pod.spec.volumes:
        claim = storage.claims.get(_claim_key(pod, volume))
        if claim is not None:
            yield claim


def _claim_key(pod: Pod, volume: Volume) -> Key:
    source = volume.persistent_volume_claim
    name = f"{pod.metadata.name}-{volume.name}" if source is None else source.claim_name
    return Key(pod.metadata.namespace, name)


def _missing(pod: Pod, volume: Volume) -> FilterFailure:
    name = _claim_key(pod, volume).name
    return failures.claim_not_created(name) if volume.ephemeral else failures.claim_not_found(name)


def _unusable(claim: PersistentVolumeClaim, pod: Pod, volume: Volume) -> FilterFailure | None:
    name = claim.metadata.name
    if claim.status.phase == "Lost":
        return failures.claim_lost(name, claim.spec.volume_name)
    if claim.metadata.deletion_timestamp is not None:
        return failures.claim_being_deleted(name)
    owner = claim.metadata.controller
    if volume.ephemeral is not None and (owner is None or owner.uid != pod.metadata.uid):
        return failures.claim_of_another_pod(name)
    return None


def _is_bound(claim: PersistentVolumeClaim) -> bool:
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.metadata.annotations


def is_waiting_for_pod(claim: PersistentVolumeClaim, storage: StorageIndex) -> bool:
    """Whether it gets a volume as soon as it is said on which node it will be used."""
    class_ = storage.class_of(claim)
    waits = class_ is not None and class_.volume_binding_mode == WAITS_FOR_CONSUMER
    return waits and not claim.spec.volume_name  # one that names its volume waits for that


def is_undecided(claim: PersistentVolumeClaim) -> bool:
    """Whether nobody has said yet on which node it will be used."""
    return SELECTED_NODE not in claim.metadata.annotations


def _place(volume: PersistentVolume) -> NodeSelector | None:
    """The nodes from which the volume can be reached; None is all of them."""
    return volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None


def _zones(volume: PersistentVolume) -> Iterator[tuple[str, frozenset[str]]]:
    for key, value in sorted(volume.metadata.labels.items()):
        if key in ZONE_LABELS or key in ZONE_LABELS.values():
            yield key, frozenset(value.split(_BETWEEN_ZONES))


def _use_of(claim: PersistentVolumeClaim) -> Attachment:
    """Its use, whatever its volume: of no driver, so no limit counts it."""
    return Attachment("", f"claim {claim.metadata.key}")


def _attached(volumes: Iterable[PersistentVolume]) -> Iterator[Attachment]:
    for volume in volumes:
        if volume.spec.csi is not None:
            yield Attachment(volume.spec.csi.driver, volume.spec.csi.volume_handle)


def _to_be_attached(claims: Iterable[PersistentVolumeClaim], storage: StorageIndex) -> Iterator[Attachment]:
    """The volumes that will be made count as well, under names that no volume there is can have."""
    for claim in claims:
        class_ = storage.class_of(claim)
        assert class_ is not None, f"{claim.metadata.key} waits for a pod without a class that says so"
        yield Attachment(class_.provisioner, f"claim {claim.metadata.key}")


def _arrivals(claims: Iterable[PersistentVolumeClaim], storage: StorageIndex) -> Iterator[UnboundClaims]:
    """What the claims wait for; those that can take the same volumes together."""
    alike: Counter[UnboundClaims] = Counter(_arrival(claim, storage) for claim in claims)
    for arrival, count in alike.items():
        yield replace(arrival, claims=count)


def _arrival(claim: PersistentVolumeClaim, storage: StorageIndex) -> UnboundClaims:
    chosen = claim.metadata.annotations.get(SELECTED_NODE)
    if chosen is not None:  # its volume is being made there
        return UnboundClaims(
            claims=1, candidate_volumes=(), can_provision=True, provisioning_topology=_node_named(chosen)
        )
    class_ = storage.class_of(claim)
    assert class_ is not None, f"{claim.metadata.key} waits for a pod without a class that says so"
    return UnboundClaims(
        claims=1,
        candidate_volumes=tuple(_place(volume) for volume in matching_volumes(claim, storage)),
        can_provision=can_provision_dynamically(claim, storage),
        provisioning_topology=_topologies(class_),
    )


def matching_volumes(claim: PersistentVolumeClaim, storage: StorageIndex) -> Iterator[PersistentVolume]:
    """The volumes that the claim may be bound to."""
    for volume in storage.open_to(claim):
        reference = volume.spec.claim_ref
        if _suits(claim, volume) if reference is None else reference.uid in ("", claim.metadata.uid):
            yield volume


def _suits(claim: PersistentVolumeClaim, volume: PersistentVolume) -> bool:
    """Whether a volume of its class that nobody has claimed is what the claim asks for."""
    wanted = claim.spec.resources.requests.get("storage", Quantity(0))
    return (
        volume.status.phase == "Available"
        and volume.metadata.deletion_timestamp is None
        and volume.spec.volume_mode == claim.spec.volume_mode
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        and volume.spec.capacity.get("storage", Quantity(0)) >= wanted
        and (claim.spec.selector is None or matches_selector(claim.spec.selector, volume.metadata.labels))
    )


def _node_named(name: str) -> NodeSelector:
    field_ = SelectorRequirement(key=NAME_FIELD, operator="In", values=(name,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(field_,)),))


def _topologies(class_: StorageClass) -> NodeSelector | None:
    if not class_.allowed_topologies:
        return None
    return NodeSelector(
        node_selector_terms=tuple(
            NodeSelectorTerm(
                match_expressions=tuple(
                    SelectorRequirement(key=one.key, operator="In", values=one.values)
                    for one in term.match_label_expressions
                )
            )
            for term in class_.allowed_topologies
        )
    )
