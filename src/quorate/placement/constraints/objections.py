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

Mask = NDArray[np.bool_]  # one answer for each node index


class Remedy(Enum):
    """What can lift an objection."""

    EVICTION = "evicting pods from the node"
    TIME = "what happens elsewhere: a claim is bound, a pod comes, the node is ready again"
    NODES = "other nodes than there are"


@dataclass(frozen=True, slots=True)
class Objection:
    """What one predicate has against a node."""

    remedy: Remedy
    reason: str

    @property
    def code(self) -> str:
        """As kube-scheduler calls it.  On a node of the second kind nobody looks for victims."""
        return "Unschedulable" if self.remedy is Remedy.EVICTION else "UnschedulableAndUnresolvable"

    def __str__(self) -> str:
        return self.reason


NOT_READY: Final = Objection(Remedy.TIME, "node(s) were not ready")
UNSCHEDULABLE: Final = Objection(Remedy.TIME, "node(s) were unschedulable")
NODE_AFFINITY: Final = Objection(Remedy.NODES, "node(s) didn't match Pod's node affinity/selector")
PORTS_TAKEN: Final = Objection(Remedy.EVICTION, "node(s) didn't have free ports for the requested pod ports")
CLAIM_IN_USE: Final = Objection(
    Remedy.EVICTION,
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode",
)
TOO_MANY_VOLUMES: Final = Objection(Remedy.EVICTION, "node(s) exceed max volume count")
VOLUME_GONE: Final = Objection(
    Remedy.TIME, "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)"
)
UNBOUND_CLAIMS: Final = Objection(Remedy.TIME, "pod has unbound immediate PersistentVolumeClaims")
VOLUME_CONFLICT: Final = Objection(Remedy.NODES, "node(s) didn't match PersistentVolume's node affinity")
NO_VOLUME_TO_BIND: Final = Objection(Remedy.TIME, "node(s) didn't find available persistent volumes to bind")
NO_VOLUME_ZONE: Final = Objection(Remedy.NODES, "node(s) had no available volume zone")
SPREAD: Final = Objection(Remedy.EVICTION, "node(s) didn't match pod topology spread constraints")
SPREAD_LABEL: Final = Objection(
    Remedy.NODES, "node(s) didn't match pod topology spread constraints (missing required label)"
)
AFFINITY: Final = Objection(Remedy.TIME, "node(s) didn't match pod affinity rules")
ANTI_AFFINITY: Final = Objection(Remedy.EVICTION, "node(s) didn't match pod anti-affinity rules")
ANTI_AFFINITY_OF_OTHERS: Final = Objection(
    Remedy.EVICTION, "node(s) didn't satisfy existing pods anti-affinity rules"
)


def untolerated(key: str, value: str) -> Objection:
    # By taints of its own the cluster says what state a node is in: not ready, short of memory.
    remedy = Remedy.TIME if key.startswith("node.kubernetes.io/") else Remedy.NODES
    return Objection(remedy, f"node(s) had untolerated taint {{{key}: {value}}}")


def claim_not_found(name: str) -> Objection:
    return Objection(Remedy.TIME, f'persistentvolumeclaim "{name}" not found')


def claim_not_created(name: str) -> Objection:
    return Objection(
        Remedy.TIME,
        f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{name}"',
    )


def claim_lost(name: str, volume: str) -> Objection:
    return Objection(
        Remedy.TIME, f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{volume}"'
    )


def claim_being_deleted(name: str) -> Objection:
    return Objection(Remedy.TIME, f'persistentvolumeclaim "{name}" is being deleted')


def claim_of_another_pod(name: str) -> Objection:
    return Objection(Remedy.TIME, f'persistentvolumeclaim "{name}" was not created for the pod')


class Verdicts:
    """For each node index the first objection against it, or none: then the node passes."""

    __slots__ = ("_numbers", "_objections", "generation", "lasting", "unresolvable")

    def __init__(self, size: int, generation: int) -> None:
        self.generation = generation  # of the nodes they are on
        self._numbers: NDArray[np.int16] = np.zeros(size, np.int16)  # 0, or the place of the objection
        self._objections: list[Objection | None] = [None]
        # By any objection, not only by the first: what evicting cannot lift, and what time cannot either.
        self.unresolvable: Mask = np.zeros(size, np.bool_)
        self.lasting: Mask = np.zeros(size, np.bool_)

    def object_to(self, nodes: Mask, objection: Objection) -> None:
        """Raise ``objection`` against ``nodes``: it becomes the verdict on those that have passed so far."""
        if objection.remedy is not Remedy.EVICTION:
            self.unresolvable |= nodes
        if objection.remedy is Remedy.NODES:
            self.lasting |= nodes
        fresh = nodes & (self._numbers == 0)
        if fresh.any():
            self._numbers[fresh] = len(self._objections)
            self._objections.append(objection)

    @property
    def passing(self) -> Mask:
        passing: Mask = self._numbers == 0
        return passing

    def at(self, node: int) -> Objection | None:
        return self._objections[int(self._numbers[node])]

    def counts(self, nodes: Mask) -> Sequence[tuple[Objection, int]]:
        """How many of ``nodes`` each objection stops, the most frequent first, then by wording."""
        numbers = np.bincount(self._numbers[nodes], minlength=len(self._objections))
        found: dict[Objection, int] = {}
        for objection, count in zip(self._objections, numbers.tolist(), strict=True):
            if objection is not None and count:
                found[objection] = found.get(objection, 0) + count
        return sorted(found.items(), key=lambda item: (-item[1], item[0].reason))

    def copy(self) -> "Verdicts":
        twin = Verdicts(0, self.generation)
        twin._numbers, twin._objections = self._numbers.copy(), self._objections.copy()
        twin.unresolvable, twin.lasting = self.unresolvable.copy(), self.lasting.copy()
        return twin
