"""What the claims of a pod, as they are now, require of its node.

Source: the Kubernetes page "Persistent Volumes" and kube-scheduler's plugin VolumeBinding.  Knowingly
missing: the capacity that storage drivers publish, and in-tree volumes specified in the pod itself.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
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
from quorate.placement.claim_requirements import NO_VOLUMES, Attachment, UnboundClaims, VolumeRequirements
from quorate.placement.failures import FilterFailure
from quorate.placement.filters.node_affinity import NAME_FIELD
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
    unbound = [claim for claim in claims if not _is_bound(claim)]
    if not all(waits_for_consumer(claim, storage) for claim in unbound):
        return VolumeRequirements(failure=failures.UNBOUND_CLAIMS)
    if any(claim.spec.volume_name not in storage.volumes for claim in bound):
        return VolumeRequirements(failure=failures.BOUND_VOLUME_MISSING)
    volumes = [storage.volumes[claim.spec.volume_name] for claim in bound]
    once = {_claim_attachment("", c) for c in claims if READ_WRITE_ONCE_POD in c.spec.access_modes}
    return VolumeRequirements(
        bound=tuple(affinity for affinity in map(required_affinity, volumes) if affinity is not None),
        zones=tuple(zone for volume in volumes for zone in _zones(volume)),
        unbound_claims=tuple(_unbound_claims(unbound, storage)),
        unselected=tuple(sorted(_future_attachments(filter(has_no_selected_node, unbound), storage))),
        read_write_once_pod=tuple(sorted(once)),
        attachments=tuple(sorted({*_attachments(volumes), *_future_attachments(unbound, storage), *once})),
    )


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


def matching_volumes(claim: PersistentVolumeClaim, storage: StorageIndex) -> Iterator[PersistentVolume]:
    """Yield the volumes that the claim may be bound to."""
    for volume in storage.candidate_volumes(claim):
        reference = volume.spec.claim_ref
        if _satisfies(volume, claim) if reference is None else reference.uid in ("", claim.metadata.uid):
            yield volume


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
        if key in ZONE_LABELS or key in ZONE_LABELS.values():
            yield key, frozenset(value.split(_ZONE_SEPARATOR))


def _attachments(volumes: Iterable[PersistentVolume]) -> Iterator[Attachment]:
    for volume in volumes:
        if volume.spec.csi is not None:
            yield Attachment(volume.spec.csi.driver, volume.spec.csi.volume_handle)


def _future_attachments(
    claims: Iterable[PersistentVolumeClaim], storage: StorageIndex
) -> Iterator[Attachment]:
    """Yield one attachment per unbound claim.

    The future volumes count against the limits of their drivers too.
    """
    for claim in claims:
        class_ = storage.class_of(claim)
        assert class_ is not None, f"{claim.metadata.key} waits for its consumer but has no class"
        yield _claim_attachment(class_.provisioner, claim)


def _claim_attachment(driver: str, claim: PersistentVolumeClaim) -> Attachment:
    """Return an attachment for the claim itself, with a handle that no volume has.

    Without a driver no limit counts it.
    """
    return Attachment(driver, f"claim {claim.metadata.key}")


def _unbound_claims(
    claims: Iterable[PersistentVolumeClaim], storage: StorageIndex
) -> Iterator[UnboundClaims]:
    """Yield the claims in groups; the claims of a group can use the same volumes."""
    counts: Counter[UnboundClaims] = Counter(_unbound_claim(claim, storage) for claim in claims)
    for one, count in counts.items():
        yield replace(one, count=count)


def _unbound_claim(claim: PersistentVolumeClaim, storage: StorageIndex) -> UnboundClaims:
    selected = claim.metadata.annotations.get(SELECTED_NODE)
    if selected is not None:  # its volume is being provisioned for that node
        topology = _node_named(selected)
        return UnboundClaims(
            count=1, candidate_volumes=(), can_provision=True, provisioning_topology=topology
        )
    class_ = storage.class_of(claim)
    assert class_ is not None, f"{claim.metadata.key} waits for its consumer but has no class"
    return UnboundClaims(
        count=1,
        candidate_volumes=tuple(map(required_affinity, matching_volumes(claim, storage))),
        can_provision=can_provision(claim, storage),
        provisioning_topology=_allowed_topologies(class_),
    )


def _satisfies(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return True if an unreserved volume of the claim's class satisfies the claim."""
    return (
        volume.status.phase == "Available"
        and volume.metadata.deletion_timestamp is None
        and volume.spec.volume_mode == claim.spec.volume_mode
        and set(claim.spec.access_modes) <= set(volume.spec.access_modes)
        and volume.spec.capacity.get("storage", Quantity(0)) >= claim.requested
        and (claim.spec.selector is None or matches_selector(claim.spec.selector, volume.metadata.labels))
    )


def _node_named(name: str) -> NodeSelector:
    requirement = SelectorRequirement(key=NAME_FIELD, operator="In", values=(name,))
    return NodeSelector(node_selector_terms=(NodeSelectorTerm(match_fields=(requirement,)),))


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
