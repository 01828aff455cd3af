"""Why a filter rejects a node, and the filter status of all nodes for one pod shape.

Each filter evaluates all nodes at once.  A node keeps its first failure, in the order in which kube-scheduler
runs its filters.  The reasons are kube-scheduler's messages, for which users search and which tools match.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final

from quorate.placement.vectors import Mask, np

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Remedy(Enum):
    """What can resolve a failure."""

    PREEMPTION = "preempting pods on the node"
    WAITING = "a change elsewhere: a claim is bound, a pod is placed, the node becomes ready"
    OTHER_NODES = "nodes that do not exist, or other labels and taints"


@dataclass(frozen=True, slots=True)
class FilterFailure:
    """The failure of one filter for a node."""

    remedy: Remedy
    reason: str

    @property
    def code(self) -> str:
        """kube-scheduler's status code.  It does not preempt on a node with the second one."""
        return "Unschedulable" if self.remedy is Remedy.PREEMPTION else "UnschedulableAndUnresolvable"

    def __str__(self) -> str:
        return self.reason


NOT_READY: Final = FilterFailure(Remedy.WAITING, "node(s) were not ready")
UNSCHEDULABLE: Final = FilterFailure(Remedy.WAITING, "node(s) were unschedulable")
NODE_AFFINITY: Final = FilterFailure(Remedy.OTHER_NODES, "node(s) didn't match Pod's node affinity/selector")
# Volcano's messages, of its plugin nodegroup.
NO_NODE_GROUP: Final = FilterFailure(Remedy.OTHER_NODES, "node group label not found")
NO_NODE_GROUP_AFFINITY: Final = FilterFailure(Remedy.OTHER_NODES, "node group affinity not specified")
NODE_GROUP: Final = FilterFailure(Remedy.OTHER_NODES, "node does not satisfy the node group affinity")
NODE_GROUP_LIMIT: Final = FilterFailure(Remedy.PREEMPTION, "node group resource limit exceeded")
NODE_GROUP_LIMITS_INVALID: Final = FilterFailure(Remedy.WAITING, "node group resource limit invalid")
PORT_CONFLICT: Final = FilterFailure(
    Remedy.PREEMPTION, "node(s) didn't have free ports for the requested pod ports"
)
CLAIM_IN_USE: Final = FilterFailure(
    Remedy.PREEMPTION,
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by "
    "another pod",
)
TOO_MANY_VOLUMES: Final = FilterFailure(Remedy.PREEMPTION, "node(s) exceed max volume count")
UNBOUND_CLAIMS: Final = FilterFailure(Remedy.WAITING, "pod has unbound immediate PersistentVolumeClaims")
VOLUME_AFFINITY: Final = FilterFailure(
    Remedy.OTHER_NODES, "node(s) didn't match PersistentVolume's node affinity"
)
NO_VOLUME_TO_BIND: Final = FilterFailure(
    Remedy.WAITING, "node(s) didn't find available persistent volumes to bind"
)
NO_VOLUME_ZONE: Final = FilterFailure(Remedy.OTHER_NODES, "node(s) had no available volume zone")
DEVICES_ELSEWHERE: Final = FilterFailure(Remedy.WAITING, "resourceclaim not available on the node")
TOPOLOGY_SPREAD: Final = FilterFailure(
    Remedy.PREEMPTION, "node(s) didn't match pod topology spread constraints"
)
TOPOLOGY_SPREAD_LABEL: Final = FilterFailure(
    Remedy.OTHER_NODES, "node(s) didn't match pod topology spread constraints (missing required label)"
)
AFFINITY: Final = FilterFailure(Remedy.WAITING, "node(s) didn't match pod affinity rules")
ANTI_AFFINITY: Final = FilterFailure(Remedy.PREEMPTION, "node(s) didn't match pod anti-affinity rules")
EXISTING_ANTI_AFFINITY: Final = FilterFailure(
    Remedy.PREEMPTION, "node(s) didn't satisfy existing pods anti-affinity rules"
)


def untolerated_taint(key: str, value: str) -> FilterFailure:
    # Kubernetes sets taints with this prefix for transient node conditions: not ready, memory pressure.
    remedy = Remedy.WAITING if key.startswith("node.kubernetes.io/") else Remedy.OTHER_NODES
    return FilterFailure(remedy, f"node(s) had untolerated taint {{{key}: {value}}}")


def unreadable_pod(pod: str) -> FilterFailure:
    return FilterFailure(Remedy.WAITING, f"node(s) had pod {pod}, which cannot be read")


def claim_not_found(name: str) -> FilterFailure:
    return FilterFailure(Remedy.WAITING, f'persistentvolumeclaim "{name}" not found')


def volume_not_found(name: str) -> FilterFailure:
    return FilterFailure(Remedy.WAITING, f'persistentvolume "{name}" not found')


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


def device_claim_not_created(name: str) -> FilterFailure:
    return FilterFailure(
        Remedy.WAITING, f'waiting for the resource claim controller to create the claim "{name}" of the pod'
    )


def device_claim_not_found(name: str) -> FilterFailure:
    return FilterFailure(Remedy.WAITING, f'resourceclaim "{name}" not found')


def device_claim_being_deleted(name: str) -> FilterFailure:
    return FilterFailure(Remedy.WAITING, f'resourceclaim "{name}" is being deleted')


def device_claim_of_another_pod(name: str) -> FilterFailure:
    return FilterFailure(Remedy.WAITING, f'resourceclaim "{name}" was not created for the pod')


def device_claim_in_use(name: str, most: int) -> FilterFailure:
    return FilterFailure(Remedy.WAITING, f'resourceclaim "{name}" is reserved for {most} pods, the most')


def device_claim_being_allocated(name: str) -> FilterFailure:
    return FilterFailure(
        Remedy.WAITING, f'resourceclaim "{name}" is being allocated for a pod on another node'
    )


def device_request_not_evaluated(claim: str, request: str, problem: str) -> FilterFailure:
    subject = f'resourceclaim "{claim}"' + (f": request {request}" if request else "")
    return FilterFailure(Remedy.WAITING, f"{subject}: {problem}")


def devices_missing(shortage: str, *, is_permanent: bool) -> FilterFailure:
    """Return the failure of a node without the devices; permanent: whatever pods are removed."""
    remedy = Remedy.OTHER_NODES if is_permanent else Remedy.PREEMPTION
    return FilterFailure(remedy, f"cannot allocate all claims: {shortage}")


class NodeStatuses:
    """The first failure of each node, by index; a node without one passes."""

    __slots__ = ("_failures", "_numbers", "generation", "permanent", "unresolvable")

    def __init__(self, size: int, generation: int) -> None:
        self.generation = generation  # of the node columns
        self._numbers: NDArray[np.int16] = np.zeros(size, np.int16)  # index in _failures; 0 if none
        self._failures: list[FilterFailure | None] = [None]
        # Nodes with any failure, not only the first, that preemption cannot resolve; and with any that
        # waiting cannot resolve either.
        self.unresolvable: Mask = np.zeros(size, np.bool_)
        self.permanent: Mask = np.zeros(size, np.bool_)

    def reject(self, nodes: Mask, failure: FilterFailure) -> None:
        """Reject ``nodes``: set ``failure`` as the status of each node that has passed so far."""
        if failure.remedy is not Remedy.PREEMPTION:
            self.unresolvable |= nodes
        if failure.remedy is Remedy.OTHER_NODES:
            self.permanent |= nodes
        first = nodes & (self._numbers == 0)
        if first.any():
            self._numbers[first] = len(self._failures)
            self._failures.append(failure)

    @property
    def passing(self) -> Mask:
        passing: Mask = self._numbers == 0
        return passing

    def failure(self, node: int) -> FilterFailure | None:
        return self._failures[int(self._numbers[node])]

    def failure_counts(self, nodes: Mask) -> Sequence[tuple[FilterFailure, int]]:
        """Return how many of ``nodes`` each failure rejects, by descending count, then by reason."""
        numbers = np.bincount(self._numbers[nodes], minlength=len(self._failures))
        counts: dict[FilterFailure, int] = {}
        for failure, count in zip(self._failures, numbers.tolist(), strict=True):
            if failure is not None and count:
                counts[failure] = counts.get(failure, 0) + count
        return sorted(counts.items(), key=lambda item: (-item[1], item[0].reason))

    def copy(self) -> "NodeStatuses":
        copied = NodeStatuses(0, self.generation)
        copied._numbers, copied._failures = self._numbers.copy(), self._failures.copy()
        copied.unresolvable, copied.permanent = self.unresolvable.copy(), self.permanent.copy()
        return copied
