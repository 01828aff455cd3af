"""What the claims of a pod, as they are now, require of its node.

Source: the Kubernetes page "Persistent Volumes" and kube-scheduler's plugin VolumeBinding.  Knowingly
missing: the capacity that storage drivers publish, and in-tree volumes specified in the pod itself.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from quorate.api.core import NodeSelector, NodeSelectorTerm
from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Volume
from quorate.api.core.volumes import (
    BIND_COMPLETED,
    SELECTED_NODE,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
)
from quorate.api.meta import Key, SelectorRequirement, matches_selector
from quorate.api.quantity import Quantity
from quorate.placement import failures
from quorate.placement.claim_requirements import NO_VOLUMES, Attachment, UnboundClaim, VolumeRequirements
from quorate.placement.failures import FilterFailure
from quorate.placement.filters.volumes.storage import StorageIndex

# Current labels of volumes and nodes, by the deprecated ones that old drivers still write.
ZONE_LABELS: Final = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
}
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
_ZONE_SEPARATOR: Final = "__"  # in the label of a volume that is in several zones


def volume_requirements(pod: Pod, storage: StorageIndex) -> VolumeRequirements:
    """Return what the claims of ``pod``, as they are now, require of its node."""
    if not pod.spec.volumes:
        return NO_VOLUMES
    claims = list(claims_of(pod, storage))
    once = {_claim_attachment("", c) for c in claims if READ_WRITE_ONCE_POD in c.spec.access_modes}
    attachments = tuple(sorted({*_attachments(claims, storage), *once}))
    failure = _failure(pod, claims, storage)
    if failure is not None:  # the volumes of a pod that has a node are attached all the same
        return VolumeRequirements(failure=failure, attachments=attachments)
    volumes = [storage.volumes[claim.spec.volume_name] for claim in claims if _is_bound(claim)]
    unbound = sorted(
        (claim for claim in claims if not _is_bound(claim)),
        key=lambda claim: (claim.requested, claim.metadata.key),
    )
    return VolumeRequirements(
        bound=tuple(affinity for affinity in map(required_affinity, volumes) if affinity is not None),
        zones=tuple(zone for volume in volumes for zone in _zones(volume)),
        unbound_claims=tuple(_unbound_claim(claim, storage) for claim in unbound),
        unselected=tuple(sorted(_attachments(filter(has_no_selected_node, unbound), storage))),
        read_write_once_pod=tuple(sorted(once)),
        attachments=attachments,
    )


def _failure(
    pod: Pod, claims: Iterable[PersistentVolumeClaim], storage: StorageIndex
) -> FilterFailure | None:
    """Return why the claims, as they are now, keep the pod from all nodes."""
    for volume in pod.spec.volumes:
        claim = storage.claims.get(_claim_key(pod, volume))
        failure = _missing(pod, volume) if claim is None else _unusable(claim, pod, volume)
        if failure is not None:
            return failure
    if any(not _is_bound(claim) and not waits_for_consumer(claim, storage) for claim in claims):
        return failures.UNBOUND_CLAIMS
    names = (claim.spec.volume_name for claim in claims if _is_bound(claim))
    missing = next((name for name in names if name not in storage.volumes), None)
    return None if missing is None else failures.volume_not_found(missing)


def claims_of(pod: Pod, storage: StorageIndex) -> Iterator[PersistentVolumeClaim]:
    """Yield the existing claims of the pod."""
    for volume in pod.spec.volumes:
        claim = storage.claims.get(_claim_key(pod, volume))
        if claim is not None:
            yield claim


def waits_for_consumer(claim: PersistentVolumeClaim, storage: StorageIndex) -> bool:
    """Return True if the unbound claim is bound or provisioned once a node is selected for it."""
    class_ = storage.class_of(claim)
    waits = class_ is not None and class_.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER
    return waits and not claim.spec.volume_name  # a claim that names its volume waits for that volume


def has_no_selected_node(claim: PersistentVolumeClaim) -> bool:
    return SELECTED_NODE not in claim.metadata.annotations


def can_provision(claim: PersistentVolumeClaim, storage: StorageIndex) -> bool:
    """Return True if the class of the claim has a provisioner."""
    class_ = storage.class_of(claim)
    return class_ is not None and class_.provisioner not in ("", NO_PROVISIONER)


def matching_volumes(claim: PersistentVolumeClaim, storage: StorageIndex) -> Sequence[PersistentVolume]:
    """Return the volumes that the claim may be bound to: those reserved for it, or else the free ones."""
    volumes = [volume for volume in storage.candidate_volumes(claim) if _is_usable(volume, claim)]
    reserved = [volume for volume in volumes if volume.spec.claim_ref is not None]
    return reserved or [volume for volume in volumes if _is_selected(volume, claim)]


def by_capacity(volume: PersistentVolume) -> tuple[Quantity, str]:
    """Return the order in which the scheduler tries volumes."""
    return volume.spec.capacity.get("storage", Quantity(0)), volume.metadata.name


def required_affinity(volume: PersistentVolume) -> NodeSelector | None:
    """Return the nodes that can reach the volume; None is all nodes."""
    return volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None


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


def _zones(volume: PersistentVolume) -> Iterator[tuple[str, frozenset[str]]]:
    for key, value in sorted(volume.metadata.labels.items()):
        zones = frozenset(value.split(_ZONE_SEPARATOR))
        if all(zones) and (key in ZONE_LABELS or key in ZONE_LABELS.values()):
            yield key, zones


def _attachments(claims: Iterable[PersistentVolumeClaim], storage: StorageIndex) -> Iterator[Attachment]:
    """Yield one attachment per claim: the future volumes count against the limits of their drivers too."""
    for claim in claims:
        volume, class_ = storage.volumes.get(claim.spec.volume_name), storage.class_of(claim)
        if volume is not None:
            if volume.spec.csi is not None:
                yield Attachment(volume.spec.csi.driver, volume.spec.csi.volume_handle)
        elif class_ is not None:
            yield _claim_attachment(class_.provisioner, claim)


def _claim_attachment(driver: str, claim: PersistentVolumeClaim) -> Attachment:
    """Return an attachment for the claim itself, with a handle that no volume has.

    Without a driver no limit counts it.
    """
    return Attachment(driver, f"claim {claim.metadata.key}")


def _unbound_claim(claim: PersistentVolumeClaim, storage: StorageIndex) -> UnboundClaim:
    class_ = storage.class_of(claim)
    assert class_ is not None, f"{claim.metadata.key} waits for its consumer but has no class"
    topology = _allowed_topologies(class_)
    selected = claim.metadata.annotations.get(SELECTED_NODE)
    if selected is not None:  # its volume is being provisioned for that node
        return UnboundClaim((), can_provision(claim, storage), topology, selected)
    volumes = sorted(matching_volumes(claim, storage), key=by_capacity)
    return UnboundClaim(
        tuple((volume.metadata.name, required_affinity(volume)) for volume in volumes),
        can_provision(claim, storage),
        topology,
    )


def _is_usable(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return True if no other claim has the volume, and it has what the claim requests."""
    reference = volume.spec.claim_ref
    return (
        (reference is None or reference.uid in ("", claim.metadata.uid))
        and volume.metadata.deletion_timestamp is None
        and volume.spec.storage_class_name == (claim.spec.storage_class_name or "")
        and volume.spec.volume_mode == claim.spec.volume_mode
        and volume.spec.volume_attributes_class_name == claim.spec.volume_attributes_class_name
        and volume.spec.capacity.get("storage", Quantity(0)) >= claim.requested
    )


def _is_selected(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    return (
        volume.status.phase == "Available"
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        and (claim.spec.selector is None or matches_selector(claim.spec.selector, volume.metadata.labels))
    )


def _allowed_topologies(class_: StorageClass) -> NodeSelector | None:
    if not class_.allowed_topologies:
        return None
    return NodeSelector(
        node_selector_terms=tuple(
            NodeSelectorTerm(
                match_expressions=tuple(
                    SelectorRequirement(key=expression.key, operator="In", values=expression.values)
                    for expression in term.match_label_expressions
                )
            )
            for term in class_.allowed_topologies
        )
    )
