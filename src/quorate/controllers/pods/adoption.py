"""Adoption of pods that name a queue but were not defaulted by the webhook."""

from collections.abc import Collection
from typing import Final

from quorate.api.core.pod import Pod
from quorate.api.names.kueue import QUEUE_NAME
from quorate.controllers.executor import Plan, warning_event
from quorate.controllers.jobframework.construct_workload import queue_name_of
from quorate.controllers.pods import constants
from quorate.controllers.pods.queued_pod import is_gated
from quorate.controllers.pods.roles import role_of
from quorate.kube.resources import PLACEABLE_PODS, reference_to
from quorate.kube.writes import Patch

NOT_GATED: Final = "NotGated"  # reason of an event of our own: Kueue ignores such pods silently
_NOTHING: Final = Plan()


def adoption_plan(
    pod: Pod, *, namespace_managed: bool, is_child: bool, without_queue_name: bool, queue: str
) -> Plan:
    """Add to a gated pod what the webhook would have added; report a pod without a gate.

    A gate cannot be added to an existing pod.  A pod that was created without a gate is left alone, because
    deleting it would lose the only copy of its spec; an event reports that it has no quota.

    ``is_child``: a managed job is an ancestor of the pod.  ``without_queue_name``: pods without a queue name
    are managed, too.  ``queue``: that of the pod, or of the native workload to which it belongs.
    """
    if pod.metadata.is_managed or pod.is_leaving or pod.has_ended or not namespace_managed or is_child:
        return _NOTHING
    if is_gated(pod):
        return Plan(concurrent=((_adopt(pod, queue),),)) if queue or without_queue_name else _NOTHING
    if not queue:
        return _NOTHING
    text = (
        f"the pod asks for queue {queue} but was made without the scheduling gate "
        f"{constants.ADMISSION_GATE}, so it runs outside of all quota: make it with the gate, "
        "or install the webhooks, which add it"
    )
    return Plan(events=(warning_event(reference_to(PLACEABLE_PODS, pod.metadata), NOT_GATED, text),))


def _adopt(pod: Pod, queue: str) -> Patch:
    metadata = pod.metadata
    inherited = {QUEUE_NAME: queue} if queue and not queue_name_of(metadata) else {}
    body: dict[str, object] = {
        "labels": {constants.MANAGED: "true", **inherited},
        "finalizers": _with(metadata.finalizers, constants.MANAGED),
    }
    if constants.ROLE_HASH not in metadata.annotations:
        body["annotations"] = {constants.ROLE_HASH: role_of(pod)}
    return Patch(PLACEABLE_PODS, metadata.key, metadata.resource_version, {"metadata": body})


def _with(finalizers: Collection[str], ours: str) -> tuple[str, ...]:
    return tuple(finalizers) if ours in finalizers else (*finalizers, ours)
