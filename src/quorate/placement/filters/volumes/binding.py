"""What must be written about a pod's claims before the pod is bound to a node.

A claim of a class with ``WaitForFirstConsumer`` gets a volume once the scheduler has chosen the node: either
the scheduler reserves an existing volume for the claim, or it annotates the claim with the node, for which
the provisioner then creates a volume.  The controllers of Kubernetes do the rest.

Source: kube-scheduler's plugin VolumeBinding: the smallest matching volume, small claims first.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node
from quorate.api.core.volumes import PersistentVolume, PersistentVolumeClaim
from quorate.placement.filters.node_affinity import match_any_term
from quorate.placement.filters.node_columns import NodeColumns
from quorate.placement.filters.volumes.requirements import (
    by_capacity,
    can_provision,
    claims_of,
    has_no_selected_node,
    matching_volumes,
    required_affinity,
    waits_for_consumer,
)
from quorate.placement.filters.volumes.storage import StorageIndex


@dataclass(frozen=True, slots=True)
class StaticBinding:
    """Reserve an existing volume for the claim."""

    volume: PersistentVolume
    claim: PersistentVolumeClaim


@dataclass(frozen=True, slots=True)
class DynamicProvisioning:
    """Have a volume for the claim provisioned where the node can reach it."""

    claim: PersistentVolumeClaim
    node: str


@dataclass(frozen=True, slots=True)
class NoMatchingVolume:
    """No volume is left for the claim, and none can be provisioned.

    Another claim was bound to the last one since the node was chosen.
    """

    claim: PersistentVolumeClaim


VolumeBinding = StaticBinding | DynamicProvisioning | NoMatchingVolume


def volume_bindings(pod: Pod, node: Node, storage: StorageIndex) -> tuple[VolumeBinding, ...]:
    """Return the writes to claims and volumes that precede the bind of ``pod`` to ``node``.

    The result is empty if all claims are bound, reserved or being provisioned.
    """
    taken: set[str] = set()
    bindings: list[VolumeBinding] = []
    claims = sorted(_unselected(pod, storage), key=lambda claim: (claim.requested, claim.metadata.key))
    for claim in claims:
        reachable = [volume for volume in matching_volumes(claim, storage) if _is_reachable(volume, node)]
        if any(volume.spec.claim_ref is not None for volume in reachable):
            continue  # a volume is reserved for the claim already
        free = [volume for volume in reachable if volume.metadata.name not in taken]
        if free:
            volume = min(free, key=by_capacity)
            taken.add(volume.metadata.name)
            bindings.append(StaticBinding(volume, claim))
        elif can_provision(claim, storage):
            bindings.append(DynamicProvisioning(claim, node.metadata.name))
        else:
            bindings.append(NoMatchingVolume(claim))
    return tuple(bindings)


def _unselected(pod: Pod, storage: StorageIndex) -> Iterator[PersistentVolumeClaim]:
    for claim in claims_of(pod, storage):
        if waits_for_consumer(claim, storage) and has_no_selected_node(claim):
            yield claim


def _is_reachable(volume: PersistentVolume, node: Node) -> bool:
    selector = required_affinity(volume)
    if selector is None:
        return True
    single = NodeColumns()
    single.grow(1)
    single.set(0, node, ready=True)
    return bool(match_any_term(single, selector.node_selector_terms)[0])
