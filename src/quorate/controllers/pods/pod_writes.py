"""Writes to pods: ungating with injection, termination, deletion, finalizers."""

from collections.abc import Iterable
from typing import Final

import msgspec

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.meta import at_epoch
from quorate.api.names.kueue import TOPOLOGY_GATE
from quorate.api.names.topology import GROUP_POD_INDEX, GROUP_POD_INDEX_LABEL
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo, inject
from quorate.controllers.pods import constants
from quorate.controllers.pods.queued_pod import has_finalizer, role_of
from quorate.kube.resources import PLACEABLE_PODS, Json
from quorate.kube.writes import Apply, Delete, Patch, Write

FIELD_MANAGER: Final = "kueue"


def template_of(pod: Pod) -> msgspec.Raw:
    """Return a pod template that makes pods like ``pod``."""
    return msgspec.Raw(codec.encode({"spec": pod.written}))


def ungate(pod: Pod, info: PodSetInfo) -> Patch | InjectionConflict:
    """Inject ``info`` and remove our gates, except the topology gate of a pod that gets a place.

    The API allows to add tolerations and node selectors to a gated pod, but no gates.  The role is stored as
    an annotation, because the injected fields would change the computed one.
    """
    metadata = pod.metadata
    placed = TOPOLOGY_GATE in info.scheduling_gates
    info = msgspec.structs.replace(
        info,
        labels={**info.labels, **(_group_index(pod) if placed else {})},
        annotations={constants.ROLE_HASH: role_of(pod), **info.annotations},
        scheduling_gates=(),
    )
    whole = {
        "metadata": {"labels": metadata.labels, "annotations": metadata.annotations},
        "spec": pod.written,
    }
    injected = inject(msgspec.Raw(codec.encode(whole)), info)
    if isinstance(injected, InjectionConflict):
        return injected
    removed = (constants.ADMISSION_GATE,) if placed else (constants.ADMISSION_GATE, TOPOLOGY_GATE)
    left = [{"name": gate} for gate in pod.gates if gate not in removed]
    spec = {**injected.get("spec", {}), "schedulingGates": left or None}
    body: dict[str, Json] = {**injected, "spec": spec}
    return Patch(PLACEABLE_PODS, metadata.key, metadata.resource_version, body)


def _group_index(pod: Pod) -> dict[str, str]:
    """Return the index label of a pod with the annotation that names another label for the index.

    The webhook sets it when the pod is created; this is for clusters without webhooks.
    """
    labels = pod.metadata.labels
    named = pod.metadata.annotations.get(GROUP_POD_INDEX_LABEL, "")
    return {GROUP_POD_INDEX: labels[named]} if named in labels and GROUP_POD_INDEX not in labels else {}


def set_condition(
    pod: Pod, type_: str, reason: str, message: str, now: float, *, failed: bool = False
) -> Apply:
    """Return the write of a true condition of the pod; ``failed``: and of its phase."""
    condition: Json = {
        "type": type_,
        "status": "True",
        "reason": reason,
        "message": message,
        "lastTransitionTime": at_epoch(now),
    }
    status: Json = {"phase": "Failed"} if failed else {}
    body: Json = {"metadata": {"uid": pod.metadata.uid}, "status": {**status, "conditions": [condition]}}
    return Apply(PLACEABLE_PODS, pod.metadata.key, body, FIELD_MANAGER, "status")


def terminate(pod: Pod, reason: str, message: str, now: float) -> tuple[Write, ...]:
    """Report the reason in the condition TerminationTarget, then delete the pod."""
    return (
        set_condition(pod, constants.TERMINATION_TARGET, reason, message, now),
        Delete(PLACEABLE_PODS, pod.metadata.key, pod.metadata.uid),
    )


def remove_finalizers(pods: Iterable[Pod]) -> tuple[tuple[Write, ...], ...]:
    """Return one write for each pod that has our finalizer, to be sent concurrently."""
    return tuple((_without_finalizer(pod),) for pod in pods if has_finalizer(pod))


def delete_pods(pods: Iterable[Pod]) -> tuple[tuple[Write, ...], ...]:
    """Remove our finalizers and delete the pods that are not deleted yet."""
    sequences: list[tuple[Write, ...]] = []
    for pod in pods:
        writes: list[Write] = [_without_finalizer(pod)] if has_finalizer(pod) else []
        if not pod.is_leaving:
            writes.append(Delete(PLACEABLE_PODS, pod.metadata.key, pod.metadata.uid))
        if writes:
            sequences.append(tuple(writes))
    return tuple(sequences)


def _without_finalizer(pod: Pod) -> Patch:
    metadata = pod.metadata
    left = tuple(finalizer for finalizer in metadata.finalizers if finalizer != constants.MANAGED)
    body = {"metadata": {"finalizers": left or None}}
    return Patch(PLACEABLE_PODS, metadata.key, metadata.resource_version, body)
