"""What the state of a plain pod means for its queueing, alone or in a group."""

from collections.abc import Mapping
from datetime import datetime

from quorate.api.core.pod import Pod
from quorate.api.meta import ObjectMeta, is_true
from quorate.controllers.pods import constants


def is_forcefully_deletable(pod: Pod) -> bool:
    """Return True if the pod opts in to failure recovery, whether it is managed or not."""
    return pod.metadata.annotations.get(constants.FORCEFULLY) == "true"


def is_gated(pod: Pod) -> bool:
    return pod.has_gate(constants.ADMISSION_GATE)


def is_suspended(pod: Pod) -> bool:
    return pod.has_ended or is_gated(pod)


def is_ready(pod: Pod) -> bool:
    return is_true(pod.status.conditions, "Ready")


def can_count(pod: Pod) -> bool:
    """Return True if the pod can still run, runs or has succeeded: its group counts it."""
    if pod.is_leaving and not pod.node_name:
        return False
    return pod.status.phase != "Failed"


def has_failed_for_good(pod: Pod) -> bool:
    """Return True if the pod failed by itself: a pod stopped with its group may be created again."""
    return pod.status.phase == "Failed" and not is_true(pod.status.conditions, constants.TERMINATION_TARGET)


def has_finalizer(pod: Pod) -> bool:
    return constants.MANAGED in pod.metadata.finalizers


def is_retriable(pod: Pod) -> bool:
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


def last_active(pod: Pod, never: datetime) -> datetime:
    """Return when a pod that does not count failed or was deleted, whichever is first."""
    times = [never]
    if pod.history.failed_since is not None:
        times.append(pod.history.failed_since)
    if pod.metadata.deletion_timestamp is not None:
        times.append(pod.metadata.deletion_timestamp)
    return min(times)
