"""Pods of admitted workloads with the fields that decide about their places."""

from collections.abc import Iterable
from typing import Final

from quorate.api.core.pod import Pod
from quorate.api.kueue import Workload
from quorate.api.kueue.topology import HOSTNAME
from quorate.api.limits import LARGE_BYTES
from quorate.api.meta import Key, ObjectMeta, epoch
from quorate.api.names.kueue import POD_SET, SLICE_NAME, TOPOLOGY_GATE, WORKLOAD_ANNOTATION
from quorate.controllers.informers import PodInformers, PodSelector
from quorate.controllers.pods.pod_writes import set_condition
from quorate.kube.selection import Selection
from quorate.kube.writes import Apply
from quorate.queueing.conditions import is_admitted, is_evicted, is_finished
from quorate.queueing.topology.node_failures import HostState

PODS_OF: Final = "pods of"  # index by what ``pods_key`` returns
GATED_PODS_OF: Final = "gated pods of"  # likewise, only of pods that wait for a place

WORKLOADS_OF: Final = "workloads with places of pods"  # index of workloads, likewise
LARGE: Final = LARGE_BYTES // 32  # pods, and values of domains, of one workload, of 32 bytes each


def can_be_ungated(pod: Pod) -> bool:
    return pod.has_gate(TOPOLOGY_GATE) and not pod.is_leaving and not pod.has_ended


class WorkloadPods:
    """The pods of workloads: with the label ``podset``, or only with an annotation that names the workload.

    Of pods without the label, those without a node are few; the others are in ``bound``.
    """

    def __init__(self, pods: PodInformers, bound: Selection[Pod]) -> None:
        self.labelled = pods.select(
            "labelled", PodSelector(POD_SET), lambda pod: POD_SET in pod.metadata.labels
        )
        self.unlabelled = pods.select(
            "unlabelled",
            PodSelector(f"!{POD_SET}", "spec.nodeName="),
            lambda pod: POD_SET not in pod.metadata.labels and not pod.node_name,
        )
        self.bound = bound
        for selection in (self.labelled, self.unlabelled):
            selection.add_index(PODS_OF, lambda pod: pods_key(pod.metadata))
        self.labelled.add_index(GATED_PODS_OF, _key_of_gated)
        self.bound.add_index(PODS_OF, _key_of_unlabelled)

    def of(self, workload: Workload) -> list[Pod]:
        """Return the pods of ``workload`` without ``bound_of``, in key order, labelled pods first."""
        key = pods_key_of(workload.metadata)
        return [*self.labelled.by_index(PODS_OF, key), *self.unlabelled.by_index(PODS_OF, key)]

    def bound_of(self, workload: Workload) -> list[Pod]:
        """Return the pods of ``workload`` that have a node and no label ``podset``, in key order."""
        return self.bound.by_index(PODS_OF, pods_key_of(workload.metadata))


def _key_of_gated(pod: Pod) -> Iterable[Key]:
    return pods_key(pod.metadata) if can_be_ungated(pod) else ()


def _key_of_unlabelled(pod: Pod) -> Iterable[Key]:
    return () if POD_SET in pod.metadata.labels else pods_key(pod.metadata)


def pods_key(pod: ObjectMeta) -> Iterable[Key]:
    """Return what a pod has in common with its workload: the name of that, or of its slices."""
    name = pod.annotations.get(SLICE_NAME) or pod.annotations.get(WORKLOAD_ANNOTATION)
    return () if name is None else (Key(pod.namespace, name),)


def pods_key_of(workload: ObjectMeta) -> Key:
    """Return the value of ``pods_key`` of the pods of a workload."""
    return Key(workload.namespace, workload.annotations.get(SLICE_NAME) or workload.name)


def has_places(workload: Workload) -> bool:
    """Return True if the workload runs with places in a topology."""
    admission = workload.status.admission
    return (
        admission is not None
        and is_admitted(workload)
        and not is_evicted(workload)
        and not is_finished(workload)
        and any(assigned.topology_assignment is not None for assigned in admission.pod_set_assignments)
    )


def placed_pods_key(workload: Workload) -> tuple[Key, ...]:
    """Return the values of ``pods_key`` of the pods that have places."""
    return (pods_key_of(workload.metadata),) if has_places(workload) else ()


def stored_values(workload: Workload) -> int:
    """Return how many values of domains the admission stores."""
    admission = workload.status.admission
    return sum(
        len(level.individual.roots)
        for assigned in (() if admission is None else admission.pod_set_assignments)
        if assigned.topology_assignment is not None
        for part in assigned.topology_assignment.slices
        for level in part.values_per_level
        if level.individual is not None
    )


REFUSED_S: Final = 3.0  # how long a scheduler refuses a pod before its place counts as taken
CONDITION: Final = "TerminatedByKueue"
REASON: Final = "UnschedulableOnAssignedNode"
EVENT: Final = "PodTerminatedByKueue"


def host_of(pod: Pod) -> str:
    """Return the host that the pod is to run on, or runs on; empty if it is not placed on one."""
    return pod.spec.node_selector.get(HOSTNAME) or pod.node_name


def is_waiting(pod: Pod) -> bool:
    """Return True if a scheduler may bind the pod to its host and has not."""
    is_free = not pod.node_name and not pod.has_gate(TOPOLOGY_GATE)
    return is_free and not pod.is_leaving and pod.status.phase == "Pending"


def is_progressing(pod: Pod) -> bool:
    """Return True if the pod runs on a node, or is about to."""
    return pod.uses_node and not pod.is_leaving


def termination_message(pod: Pod) -> str:
    return f"Pod terminated by Kueue because its assigned node {host_of(pod)} does not take it"


def termination(pod: Pod, now: float) -> Apply:
    return set_condition(pod, CONDITION, REASON, termination_message(pod), now, failed=True)


def refusing_states(pods: Iterable[Pod], now: float) -> dict[str, HostState]:
    """Return the states of hosts that have no room for one of ``pods``, as a scheduler found."""
    since = {
        host_of(pod): epoch(pod.history.refused_since)
        for pod in pods
        if is_waiting(pod) and pod.history.refused_since is not None
    }
    return {
        host: HostState(has_failed=True, admits_pods=False)
        if now >= start + REFUSED_S
        else HostState(check_at=start + REFUSED_S)
        for host, start in since.items()
    }
