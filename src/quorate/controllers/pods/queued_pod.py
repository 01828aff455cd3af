"""Pods as the queueing controllers read them; pods without a controller here have no spec."""

from collections.abc import Mapping
from datetime import datetime
from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.batch import EMPTY_OBJECT
from quorate.api.core import SchedulingGate
from quorate.api.meta import Condition, ObjectMeta, Struct, find_condition, is_true
from quorate.controllers.pods import constants
from quorate.kube.resources import Resource

_GATES_FIELD: Final = b'"schedulingGates"'


class PodStatus(Struct):
    phase: str = "Pending"
    message: str = ""
    conditions: tuple[Condition, ...] = ()


class _Spec(Struct):
    node_name: str = ""
    scheduling_gates: tuple[SchedulingGate, ...] = ()


class QueuedPod(Struct):
    """A pod; ``spec`` stays encoded.

    It is kept only for pods that are or may become managed, and for those that opt in to failure recovery.
    """

    metadata: ObjectMeta
    spec: msgspec.Raw = EMPTY_OBJECT
    status: PodStatus = PodStatus()

    def __post_init__(self) -> None:
        # Most pods of a cluster belong to jobs: drop what is not read of them, to save memory.
        if is_managed(self) or is_forcefully_deletable(self) or _GATES_FIELD in bytes(self.spec):
            msgspec.structs.force_setattr(self, "spec", self.spec.copy())
            return
        msgspec.structs.force_setattr(self, "spec", EMPTY_OBJECT)
        msgspec.structs.force_setattr(self, "status", PodStatus(phase=self.status.phase))

    @property
    def gates(self) -> tuple[str, ...]:
        return tuple(gate.name for gate in self._decoded_spec.scheduling_gates)

    @property
    def node_name(self) -> str:
        """The node that the pod is bound to; empty if the spec of the pod is not kept."""
        return self._decoded_spec.node_name

    @property
    def _decoded_spec(self) -> _Spec:
        return codec.decode(_Spec, self.spec)


PODS: Final = Resource("", "v1", "pods", "Pod", True, QueuedPod)


def is_managed(pod: QueuedPod) -> bool:
    return pod.metadata.labels.get(constants.MANAGED) == "true"


def is_forcefully_deletable(pod: QueuedPod) -> bool:
    """Return True if the pod opts in to failure recovery, whether it is managed or not."""
    return pod.metadata.annotations.get(constants.FORCEFULLY) == "true"


def is_gated(pod: QueuedPod) -> bool:
    return constants.ADMISSION_GATE in pod.gates


def is_deleted(pod: QueuedPod) -> bool:
    return pod.metadata.deletion_timestamp is not None


def is_terminated(pod: QueuedPod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def is_suspended(pod: QueuedPod) -> bool:
    return is_terminated(pod) or is_gated(pod)


def is_ready(pod: QueuedPod) -> bool:
    return is_true(pod.status.conditions, "Ready")


def can_count(pod: QueuedPod) -> bool:
    """Return True if the pod can still run, runs or has succeeded: its group counts it."""
    if is_deleted(pod) and not pod.node_name:
        return False
    return pod.status.phase != "Failed"


def has_failed_for_good(pod: QueuedPod) -> bool:
    """Return True if the pod failed by itself: one that was stopped with its group may be created again."""
    return pod.status.phase == "Failed" and not is_true(pod.status.conditions, constants.TERMINATION_TARGET)


def has_finalizer(pod: QueuedPod) -> bool:
    return constants.MANAGED in pod.metadata.finalizers


def is_retriable(pod: QueuedPod) -> bool:
    return pod.metadata.annotations.get(constants.RETRIABLE) != "false"


def group_name_of(metadata: ObjectMeta, by_annotation: bool) -> str:
    """Return the name of a pod's group, or an empty text.

    ``by_annotation``: the annotation takes precedence over the label (gate WorkloadIdentifierAnnotations),
    because it may be longer than 63 characters.
    """
    return group_name_in(metadata.labels, metadata.annotations, by_annotation)


def group_name_in(labels: Mapping[str, str], annotations: Mapping[str, str], by_annotation: bool) -> str:
    label = labels.get(constants.GROUP_NAME, "")
    return (annotations.get(constants.GROUP_NAME, "") or label) if by_annotation else label


def last_active(pod: QueuedPod, never: datetime) -> datetime:
    """Return when a pod that does not count failed or was deleted, whichever is first."""
    times = [never]
    ready = find_condition(pod.status.conditions, "ContainersReady")
    if ready is not None and (ready.status, ready.reason) == ("False", "PodFailed"):
        times.append(ready.last_transition_time or never)
    if pod.metadata.deletion_timestamp is not None:
        times.append(pod.metadata.deletion_timestamp)
    return min(times)
