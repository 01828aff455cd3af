"""Starting a pod: what admission injects, and the gate off, in one patch.  Stopping it: why, and deletion."""

from collections.abc import Mapping
from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.meta import at_epoch
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo, inject
from quorate.controllers.pods import constants
from quorate.controllers.pods.queued_pod import PODS, QueuedPod
from quorate.controllers.pods.roles import role_of
from quorate.kube.resources import Json
from quorate.kube.writes import Apply, Delete, Patch, Write

FIELD_MANAGER: Final = "kueue"
_OURS: Final = (
    constants.ADMISSION_GATE,
    constants.TOPOLOGY_GATE,
)  # nobody else would take the second one off


def template_of(pod: QueuedPod) -> msgspec.Raw:
    """The pod template that pods like this one could be made from."""
    return msgspec.Raw(codec.encode({"spec": pod.spec}))


def start(pod: QueuedPod, info: PodSetInfo) -> Patch | InjectionConflict:
    """What the API allows to change of a gated pod: tolerations and node selectors are only added to.

    Its role is written down, if it was not: what is injected would change it, and the workload no longer fit.
    """
    metadata = pod.metadata
    info = msgspec.structs.replace(info, annotations={constants.ROLE_HASH: role_of(pod), **info.annotations})
    whole = {"metadata": {"labels": metadata.labels, "annotations": metadata.annotations}, "spec": pod.spec}
    injected = inject(msgspec.Raw(codec.encode(whole)), info)
    if isinstance(injected, InjectionConflict):
        return injected
    left = [{"name": gate} for gate in pod.gates if gate not in _OURS]
    spec = {**injected.get("spec", {}), "schedulingGates": left or None}
    body: dict[str, Json] = {**injected, "spec": spec}
    return Patch(PODS, metadata.key, metadata.resource_version, body)


def stop(pod: QueuedPod, reason: str, message: str, now: float) -> tuple[Write, ...]:
    """Say in its status why the pod ends, so that whoever made it can tell, then delete it."""
    metadata = pod.metadata
    condition: Mapping[str, object] = {
        "type": constants.TERMINATION_TARGET,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": at_epoch(now),
    }
    body = {"metadata": {"uid": metadata.uid}, "status": {"conditions": [condition]}}
    return (
        Apply(PODS, metadata.key, body, FIELD_MANAGER, "status"),
        Delete(PODS, metadata.key, metadata.uid),
    )
