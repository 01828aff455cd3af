"""A pod that stands for itself: one pod, one workload of its own."""

from collections.abc import Sequence

from quorate.api.kueue import Workload
from quorate.controllers import orphans
from quorate.controllers.finalizers import released
from quorate.controllers.jobframework.construct_workload import (
    MissingPriorityClass,
    maximum_execution_s,
    prebuilt_name_of,
)
from quorate.controllers.jobframework.equivalence import is_equivalent
from quorate.controllers.pods.compose import single_pod_sets, single_workload
from quorate.controllers.pods.decide import decide_with_workload, stopped
from quorate.controllers.pods.plan import IDLE, Catalogue, PodPlan, PodRules, let_go, told, warned
from quorate.controllers.pods.prebuilt import decide_with_prebuilt
from quorate.controllers.pods.queued_pod import QueuedPod, is_deleted, is_managed
from quorate.controllers.pods.units import SinglePod
from quorate.kube.resources import WORKLOADS
from quorate.kube.writes import Create, Delete, Write


def decide_pod(
    pod: QueuedPod | None,
    workloads: Sequence[Workload],
    named: Workload | None,
    catalogue: Catalogue,
    rules: PodRules,
    now: float,
) -> PodPlan:
    """The next thing to do.

    ``workloads`` are those controlled by a pod of this namespace and name, ``named`` is the one that the pod
    names as its own.
    """
    if pod is None or is_deleted(pod):
        gone = PodPlan(workload=orphans.let_go(workloads, rules.gates, now))
        return gone if pod is None else PodPlan(let_go((pod,)), gone.workload)
    if not is_managed(pod):
        return IDLE
    unit = SinglePod(pod)
    if prebuilt_name_of(pod.metadata, by_annotation=rules.gates.workload_identifier_annotations):
        return decide_with_prebuilt(unit, named, catalogue, rules, now)
    match = next((workload for workload in workloads if _stands_for(workload, unit)), None)
    surplus = [workload for workload in workloads if workload is not match]
    if surplus:
        return _reduced_to_one(unit, match, surplus, now)
    if match is not None:
        return decide_with_workload(unit, match, catalogue, rules, now)
    return _without_workload(unit, catalogue, rules, now)


def _stands_for(workload: Workload, unit: SinglePod) -> bool:
    metadata = unit.pod.metadata
    owner = workload.metadata.controller
    return (
        owner is not None
        and owner.uid == metadata.uid
        and is_equivalent(workload, single_pod_sets(unit.pod), maximum_execution_s(metadata), unit.suspended)
    )


def _reduced_to_one(
    unit: SinglePod, match: Workload | None, surplus: Sequence[Workload], now: float
) -> PodPlan:
    plan = IDLE
    if match is None and not unit.suspended:
        message = "No matching Workload; restoring pod templates according to existent Workload"
        plan = stopped(unit, "NoMatchingWorkload", message, now)
    return plan.and_then(deleted(unit.pod, surplus))


def deleted(pod: QueuedPod, workloads: Sequence[Workload]) -> PodPlan:
    """Workloads that do not fit go away, so that one that does can be made."""
    writes: list[Write] = []
    events = []
    for workload in workloads:
        writes += released(WORKLOADS, workload.metadata)
        if workload.metadata.deletion_timestamp is None:
            key = workload.metadata.key
            writes.append(Delete(WORKLOADS, key, workload.metadata.uid))
            events.append(told(pod, "DeletedWorkload", f"Deleted not matching Workload: {key}"))
    return PodPlan(workload=tuple(writes), told=tuple(events))


def _without_workload(unit: SinglePod, catalogue: Catalogue, rules: PodRules, now: float) -> PodPlan:
    if unit.outcome is not None:
        return PodPlan(let_go(unit.pods))
    if not unit.suspended:
        return stopped(unit, "NoMatchingWorkload", "Missing Workload; unable to restore pod templates", now)
    workload = single_workload(unit.pod, catalogue, rules)
    if isinstance(workload, MissingPriorityClass):
        return not_composed(unit.pod, str(workload), lacks=str(workload))
    return created(unit.pod, workload)


def created(pod: QueuedPod, workload: Workload) -> PodPlan:
    key = workload.metadata.key
    event = told(pod, "CreatedWorkload", f"Created Workload: {key}")
    return PodPlan(workload=(Create(WORKLOADS, workload, key.namespace),), told=(event,))


def not_composed(pod: QueuedPod, why: str, lacks: str = "") -> PodPlan:
    return PodPlan(told=(warned(pod, "ErrWorkloadCompose", why),), lacks=lacks)
