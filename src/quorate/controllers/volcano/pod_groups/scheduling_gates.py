"""Which pods are made with a gate, since their pod group waits, and which lose theirs."""

from collections.abc import Mapping

from quorate.api.volcano import PodGroup
from quorate.api.volcano.annotations import (
    GROUP_NAME,
    POD_GROUP_GATE,
    QUEUE_ALLOCATION_GATE,
    is_removed_on_admission,
    requests_queue_allocation_gate,
)
from quorate.controllers.volcano.job.job_pod_group import is_waiting
from quorate.controllers.volcano.pod_groups.group_pod import GROUP_PODS, GroupPod
from quorate.kube.writes import Patch


def gate_for(annotations: Mapping[str, str], group: PodGroup | None) -> str:
    """The gate that a pod of a gang scheduler is made with; empty when nothing holds it back.

    ``group``: the one it names, if it is there.  A pod that asks for Volcano's gate need not name one: its
    group is made for it.
    """
    asks = requests_queue_allocation_gate(annotations)
    if not is_waiting(group) or not (asks or annotations.get(GROUP_NAME)):
        return ""
    return QUEUE_ALLOCATION_GATE if asks else POD_GROUP_GATE


def is_gated(pod: GroupPod) -> bool:
    """Whether it has a gate that its group's admission ends."""
    annotations = pod.metadata.annotations
    return any(is_removed_on_admission(gate.name, annotations) for gate in pod.gates)


def ungate(pod: GroupPod, group: PodGroup | None) -> Patch | None:
    """Take off the gates that were to stay until ``group``, its group, is admitted; those of others stay.

    A group that has completed lets its pods go, too: they would be placed if they had been made without gate.
    """
    if is_waiting(group) or not is_gated(pod):
        return None
    metadata = pod.metadata
    left = [gate for gate in pod.gates if not is_removed_on_admission(gate.name, metadata.annotations)]
    body = {"spec": {"schedulingGates": left or None}}
    return Patch(GROUP_PODS, metadata.key, metadata.resource_version, body)
