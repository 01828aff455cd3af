"""Pods of admitted workloads with the fields that decide about their places."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

import msgspec

from quorate.api.core import SchedulingGate
from quorate.api.core.bound_pod import BoundPod
from quorate.api.kueue import POD_SET, SLICE_NAME, TOPOLOGY_GATE, WORKLOAD_ANNOTATION, Workload
from quorate.api.kueue.topology_annotations import INDEX_OFFSET, REQUESTS
from quorate.api.limits import LARGE_BYTES
from quorate.api.meta import Condition, Key, ObjectMeta, Struct, find_condition
from quorate.kube.client import Client
from quorate.kube.informer import Informer
from quorate.kube.resources import Resource
from quorate.queueing.conditions import is_admitted, is_evicted, is_finished

PODS_OF: Final = "pods of"  # index by what ``pods_key`` returns
GATED_PODS_OF: Final = "gated pods of"  # likewise, only of pods that wait for a place

WORKLOADS_OF: Final = "workloads with places of pods"  # index of workloads, likewise
LARGE: Final = LARGE_BYTES // 32  # pods, and values of domains, of one workload, of 32 bytes each

_ANNOTATIONS: Final = (WORKLOAD_ANNOTATION, SLICE_NAME, INDEX_OFFSET, *REQUESTS)


class _Spec(Struct):
    node_name: str = ""
    node_selector: Mapping[str, str] = {}
    scheduling_gates: tuple[SchedulingGate, ...] = ()


class _Status(Struct):
    """``refused_since``: since when a scheduler has found no node for the pod; None if it is not so."""

    phase: str = "Pending"
    conditions: tuple[Condition, ...] = ()
    refused_since: datetime | None = None

    def __post_init__(self) -> None:
        scheduled = find_condition(self.conditions, "PodScheduled")
        if scheduled is not None and (scheduled.status, scheduled.reason) == ("False", "Unschedulable"):
            msgspec.structs.force_setattr(self, "refused_since", scheduled.last_transition_time)
        msgspec.structs.force_setattr(self, "conditions", ())


class PlacedPod(Struct):
    """A pod of a workload; its metadata without what is not read, to save memory."""

    metadata: ObjectMeta
    spec: _Spec = _Spec()
    status: _Status = _Status()

    def __post_init__(self) -> None:
        metadata = self.metadata
        annotations = {key: metadata.annotations[key] for key in _ANNOTATIONS if key in metadata.annotations}
        trimmed = msgspec.structs.replace(
            metadata, annotations=annotations, finalizers=(), owner_references=()
        )
        msgspec.structs.force_setattr(self, "metadata", trimmed)

    @property
    def is_gated(self) -> bool:
        return any(gate.name == TOPOLOGY_GATE for gate in self.spec.scheduling_gates)

    @property
    def is_deleted(self) -> bool:
        return self.metadata.deletion_timestamp is not None

    @property
    def is_terminated(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def requests_place(self) -> bool:
        """Whether its template requests a topology."""
        return any(name in self.metadata.annotations for name in REQUESTS)

    @property
    def can_be_ungated(self) -> bool:
        return self.is_gated and not self.is_deleted and not self.is_terminated


PLACED_PODS: Final = Resource("", "v1", "pods", "Pod", True, PlacedPod)


class WorkloadPods:
    """The pods of workloads: with the label ``podset``, or only with an annotation that names the workload.

    The informers of pods are of their own, since others do not keep the node selectors of ungated pods.  Of
    pods without the label, those without a node are few; the others are in ``bound``.
    """

    def __init__(self, client: Client, bound: Informer[BoundPod]) -> None:
        self.labelled = Informer(client, PLACED_PODS, label_selector=POD_SET)
        self.unlabelled = Informer(
            client, PLACED_PODS, label_selector=f"!{POD_SET}", field_selector="spec.nodeName="
        )
        self.bound = bound
        for pods in (self.labelled, self.unlabelled):
            pods.add_index(PODS_OF, lambda pod: pods_key(pod.metadata))
        self.labelled.add_index(GATED_PODS_OF, _key_of_gated)
        self.bound.add_index(PODS_OF, _key_of_unlabelled)

    def of(self, workload: Workload) -> list[PlacedPod]:
        """Return the pods of ``workload`` but those of ``bound_of``, in key order, labelled ones first."""
        key = pods_key_of(workload.metadata)
        return [*self.labelled.by_index(PODS_OF, key), *self.unlabelled.by_index(PODS_OF, key)]

    def bound_of(self, workload: Workload) -> list[BoundPod]:
        """Return the pods of ``workload`` that have a node and no label ``podset``, in key order."""
        return self.bound.by_index(PODS_OF, pods_key_of(workload.metadata))


def _key_of_gated(pod: PlacedPod) -> Iterable[Key]:
    return pods_key(pod.metadata) if pod.can_be_ungated else ()


def _key_of_unlabelled(pod: BoundPod) -> Iterable[Key]:
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
