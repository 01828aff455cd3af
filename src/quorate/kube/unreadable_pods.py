"""What is known of a pod that cannot be decoded or used: the node that it occupies."""

import msgspec

from quorate.api import codec
from quorate.api.core import Pod, scheduling
from quorate.api.core.bound_pod import BoundPod
from quorate.api.meta import Struct
from quorate.kube.object_faults import ObjectFault


class _PodSpec(Struct):
    node_name: str = ""


class _PodStatus(Struct):
    phase: str = ""


class _BoundPod(Struct):
    """The fields that tell where a pod is; the others need not have their types."""

    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


def occupied_node(fault: ObjectFault) -> str:
    """Return the node on which the pod holds resources; "" for none."""
    match fault.obj:
        case scheduling.Pod() as pod:
            node, phase = pod.node_name, pod.status.phase
        case Pod() | BoundPod() as pod:
            node, phase = pod.spec.node_name, pod.status.phase
        case _:
            try:
                bound = codec.decode(_BoundPod, fault.raw)
            except msgspec.DecodeError:
                return ""  # not even this can be read, which no API server stores
            node, phase = bound.spec.node_name, bound.status.phase
    return "" if phase in ("Succeeded", "Failed") else node
