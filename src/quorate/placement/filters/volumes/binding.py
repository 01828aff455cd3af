"""What must be written about a pod's claims before the pod is bound to a node.

A claim of a class that waits for its first consumer gets a volume only when somebody says where the consumer
will be: either a volume that is there is kept for the claim, or whoever makes volumes is told the node.  Both
is for the scheduler to say; all else is done by the controllers of Kubernetes.

Source: kube-scheduler's VolumeBinding: the smallest volume that suits, small claims first.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from quorate.api.core.scheduling import Node, Pod
from quorate.api.core.volumes import PersistentVolume, PersistentVolumeClaim
from quorate.api.quantity import Quantity
from quorate.placement.filters.node_affinity import satisfies_any
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.filters.volumes.claims import (
    can_provision_dynamically,
    claims_of,
    is_undecided,
    is_waiting_for_pod,
    matching_volumes,
)
from quorate.placement.filters.volumes.storage import StorageIndex


@dataclass(frozen=True, slots=True)
class StaticBinding:
    """Keep a volume that is there for the claim."""

    volume: PersistentVolume
    claim: PersistentVolumeClaim


@dataclass(frozen=True, slots=True)
class DynamicProvisioning:
    """Let a volume for the claim be made where the node can reach it."""

    claim: PersistentVolumeClaim
    node: str


@dataclass(frozen=True, slots=True)
class NoMatchingVolume:
    """There is none for the claim on the node, and none can be made: somebody else was faster."""

    claim: PersistentVolumeClaim


VolumeBinding = StaticBinding | DynamicProvisioning | NoMatchingVolume


def volume_bindings(pod: Pod, node: Node, storage: StorageIndex) -> tuple[VolumeBinding, ...]:
    """What is to be written; nothing, if all claims are bound or on their way to that."""
    kept: set[str] = set()
    steps: list[VolumeBinding] = []
    for claim in sorted(_undecided(pod, storage), key=lambda claim: (_wanted(claim), claim.metadata.key)):
        candidate_volumes = [
            volume for volume in matching_volumes(claim, storage) if _is_reached(volume, node)
        ]
        if any(volume.spec.claim_ref is not None for volume in candidate_volumes):
            continue  # one is kept for it already
        free = [volume for volume in candidate_volumes if volume.metadata.name not in kept]
        if free:
            volume = min(free, key=lambda volume: (_size(volume), volume.metadata.name))
            kept.add(volume.metadata.name)
            steps.append(StaticBinding(volume, claim))
        elif can_provision_dynamically(claim, storage):
            steps.append(DynamicProvisioning(claim, node.metadata.name))
        else:
            steps.append(NoMatchingVolume(claim))
    return tuple(steps)


def _undecided(pod: Pod, storage: StorageIndex) -> Iterator[PersistentVolumeClaim]:
    for claim in claims_of(pod, storage):
        if is_waiting_for_pod(claim, storage) and is_undecided(claim):
            yield claim


def _wanted(claim: PersistentVolumeClaim) -> Quantity:
    return claim.spec.resources.requests.get("storage", Quantity(0))


def _size(volume: PersistentVolume) -> Quantity:
    return volume.spec.capacity.get("storage", Quantity(0))


def _is_reached(volume: PersistentVolume, node: Node) -> bool:
    place = volume.spec.node_affinity.required if volume.spec.node_affinity is not None else None
    if place is None:
        return True
    alone = NodeColumns()
    alone.grow(1)
    alone.set(0, node, ready=True)
    return bool(satisfies_any(alone, place.node_selector_terms)[0])
