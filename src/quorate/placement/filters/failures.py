"""Why a node does not take a pod, apart from room.

Each predicate answers for all nodes at once.  A node keeps the first objection raised against it, in the
order in which kube-scheduler asks its filters.  Their wording is what people know from its messages, so that
what they search for and what their tools match stays the same.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
from numpy.typing import NDArray

from quorate.placement.vectors import Mask


class Remedy(Enum):
    """What can lift an objection."""

    PREEMPTION = "evicting pods from the node"
    WAITING = "what happens elsewhere: a claim is bound, a pod comes, the node is ready again"
    OTHER_NODES = "other nodes than there are"


@dataclass(frozen=True, slots=True)
class FilterFailure:
    """What one predicate has against a node."""

    remedy: Remedy
    reason: str

    @property
    def code(self) -> str:
        """As kube-scheduler calls it.  On a node of the second kind nobody looks for victims."""
        return "Unschedulable" if self.remedy is Remedy.PREEMPTION else "UnschedulableAndUnresolvable"

    def __str__(self) -> str:
        return self.reason


NOT_READY: Final = FilterFailure(Remedy.WAITING, "node(s) were not ready")
UNSCHEDULABLE: Final = FilterFailure(Remedy.WAITING, "node(s) were unschedulable")
NODE_AFFINITY: Final = FilterFailure(Remedy.OTHER_NODES, "node(s) didn't match Pod's node affinity/selector")
PORTS_TAKEN: Final = FilterFailure(
    Remedy.PREEMPTION, "node(s) didn't have free ports for the requested pod ports"
)
CLAIM_IN_USE: Final = FilterFailure(
    Remedy.PREEMPTION,
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
)
TOO_MANY_VOLUMES: Final = FilterFailure(Remedy.PREEMPTION, "node(s) exceed max volume count")
VOLUME_GONE: Final = FilterFailure(
    Remedy.WAITING, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
)
UNBOUND_CLAIMS: Final = FilterFailure(Remedy.WAITING, "pod has unbound immediate PersistentVolumeClaims")
VOLUME_CONFLICT: Final = FilterFailure(
    Remedy.OTHER_NODES, "node(s) didn't match PersistentVolume's node affinity"
)
NO_VOLUME_TO_BIND: Final = FilterFailure(
    Remedy.WAITING, "node(s) didn't find available persistent volumes to bind"
)
NO_VOLUME_ZONE: Final = FilterFailure(Remedy.OTHER_NODES, "node(s) had no available volume zone")
SPREAD: Final = FilterFailure(Remedy.PREEMPTION, "node(s) didn't match pod topology spread constraints")
SPREAD_LABEL: Final = FilterFailure(
    Remedy.OTHER_NODES, "node(s) didn't match pod topology spread constraints (missing required label)"
)
AFFINITY: Final = FilterFailure(Remedy.WAITING, "node(s) didn't match pod affinity rules")
ANTI_AFFINITY: Final = FilterFailure(Remedy.PREEMPTION, "node(s) didn't match pod anti-affinity rules")
ANTI_AFFINITY_OF_OTHERS: Final = FilterFailure(
    Remedy.PREEMPTION, "node(s) didn't satisfy existing pods anti-affinity rules"
)


def untolerated(key: str, value: str) -> FilterFailure:
    # By taints of its own the cluster says what state a node is in: not ready, short of memory.
    remedy = Remedy.WAITING if key.startswith("node.kubernetes.io/") else Remedy.OTHER_NODES
    return FilterFailure(remedy, f"node(s) had untolerated taint {{{key}: {value}}}")


def claim_not_found(name: str) -> FilterFailure:
    return FilterFailure(Remedy.WAITING, f'persistentvolumeclaim "{name}" not found')


def claim_not_created(name: str) -> FilterFailure:
    return FilterFailure(
        Remedy.WAITING,
        f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"',
    )


def claim_lost(name: str, volume: str) -> FilterFailure:
    return FilterFailure(
        Remedy.WAITING, f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    )


def claim_being_deleted(name: str) -> FilterFailure:
    return FilterFailure(Remedy.WAITING, f'persistentvolumeclaim "{name}" is being deleted')


def claim_of_another_pod(name: str) -> FilterFailure:
    return FilterFailure(Remedy.WAITING, f'persistentvolumeclaim "{name}" was not created for the pod')


class NodeStatuses:
    """For each node index the first objection against it, or none: then the node passes."""

    __slots__ = ("_numbers", "_objections", "generation", "permanent", "unresolvable")

    def __init__(self, size: int, generation: int) -> None:
        self.generation = generation  # of the nodes they are on
        self._numbers: NDArray[np.int16] = np.zeros(size, np.int16)  # 0, or the place of the objection
        self._objections: list[FilterFailure | None] = [None]
        # By any objection, not only by the first: what evicting cannot lift, and what time cannot either.
        self.unresolvable: Mask = np.zeros(size, np.bool_)
        self.permanent: Mask = np.zeros(size, np.bool_)

    def reject(self, nodes: Mask, failure: FilterFailure) -> None:
        """Raise ``failure`` against ``nodes``: it becomes the verdict on those that have passed so far."""
        if failure.remedy is not Remedy.PREEMPTION:
            self.unresolvable |= nodes
        if failure.remedy is Remedy.OTHER_NODES:
            self.permanent |= nodes
        fresh = nodes & (self._numbers == 0)
        if fresh.any():
            self._numbers[fresh] = len(self._objections)
            self._objections.append(failure)

    @property
    def passing(self) -> Mask:
        passing: Mask = self._numbers == 0
        return passing

    def at(self, node: int) -> FilterFailure | None:
        return self._objections[int(self._numbers[node])]

    def counts(self, nodes: Mask) -> Sequence[tuple[FilterFailure, int]]:
        """How many of ``nodes`` each objection stops, the most frequent first, then by wording."""
        numbers = np.bincount(self._numbers[nodes], minlength=len(self._objections))
        found: dict[FilterFailure, int] = {}
        for failure, count in zip(self._objections, numbers.tolist(), strict=True):
            if failure is not None and count:
                found[failure] = found.get(failure, 0) + count
        return sorted(found.items(), key=lambda item: (-item[1], item[0].reason))

    def copy(self) -> "NodeStatuses":
        twin = NodeStatuses(0, self.generation)
        twin._numbers, twin._objections = self._numbers.copy(), self._objections.copy()
        twin.unresolvable, twin.permanent = self.unresolvable.copy(), self.permanent.copy()
        return twin
