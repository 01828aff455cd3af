"""Pods that ask to be queued but that no webhook saw: what it would have added, or why it is too late."""

from collections.abc import Collection
from dataclasses import dataclass

from quorate.controllers.jobframework.construct_workload import queue_name_of
from quorate.controllers.pods import constants
from quorate.controllers.pods.plan import IDLE, PodPlan, PodRules, warned
from quorate.controllers.pods.queued_pod import (
    PODS,
    QueuedPod,
    is_deleted,
    is_gated,
    is_managed,
    is_terminated,
)
from quorate.controllers.pods.roles import role_of
from quorate.kube.writes import Patch

NOT_GATED = "NotGated"  # an event of ours: Kueue leaves such pods without a word


@dataclass(frozen=True, slots=True)
class Place:
    """Where a pod stands."""

    namespace_managed: bool
    part_of_managed: bool  # of a job that is queued itself


def decide_stray(pod: QueuedPod, place: Place, rules: PodRules) -> PodPlan:
    """Take in a pod that is not managed but wants to be; a gate is the only way to hold it back.

    The API lets nobody gate a pod that exists.  One that was made without a gate is left alone, since to
    delete it would lose the only copy of what its user wrote, but they are told that it has no quota.
    """
    if is_managed(pod) or is_deleted(pod) or is_terminated(pod) or not place.namespace_managed:
        return IDLE
    queue = queue_name_of(pod.metadata)
    if is_gated(pod):
        wants = queue or rules.manage_without_queue_name
        return PodPlan(pods=((_taken_in(pod),),)) if wants and not place.part_of_managed else IDLE
    if not queue or place.part_of_managed:
        return IDLE
    why = (
        f"the pod asks for queue {queue} but was made without the scheduling gate "
        f"{constants.ADMISSION_GATE}, so it runs outside of all quota: make it with the gate, "
        "or install the webhooks, which add it"
    )
    return PodPlan(told=(warned(pod, NOT_GATED, why),))


def _taken_in(pod: QueuedPod) -> Patch:
    metadata = pod.metadata
    body: dict[str, object] = {
        "labels": {constants.MANAGED: "true"},
        "finalizers": _with(metadata.finalizers, constants.MANAGED),
    }
    if constants.ROLE_HASH not in metadata.annotations:
        body["annotations"] = {constants.ROLE_HASH: role_of(pod)}
    return Patch(PODS, metadata.key, metadata.resource_version, {"metadata": body})


def _with(finalizers: Collection[str], ours: str) -> tuple[str, ...]:
    return tuple(finalizers) if ours in finalizers else (*finalizers, ours)
