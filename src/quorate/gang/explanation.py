"""The explanation of a pod group from its own status, which the gang scheduler writes with numbers."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from quorate.api.explanation import ExplainedState, Explanation, ObjectName, PodCounts, Reason
from quorate.api.kueue import Workload
from quorate.api.meta import Uid, at_epoch, true_condition
from quorate.api.names.kueue import MAX_EXEC_TIME_SECONDS
from quorate.api.volcano import (
    COMPLETED,
    INQUEUE,
    PENDING,
    QUEUE_NOT_FOUND,
    RUNNING,
    UNKNOWN,
    UNSCHEDULABLE,
    PodGroup,
)
from quorate.api.volcano.job import INVALID_JOB, Job
from quorate.gang.admission_record import INQUEUE_SINCE, admission_record
from quorate.gang.cache.quota_admission import is_suspended
from quorate.gang.shortage import NEVER_FITS

_ENDED_PHASES: Final = ("Completed", "Failed", "Terminated", "Aborted")  # of a Volcano Job
_MORE_TIERS: Final = "allow a higher tier in networkTopology, or request fewer or smaller pods"
# What removes each reason, by code; with less than that, a group that never fits does not start.
ENOUGH: Final[Mapping[str, str]] = {
    "NotEnoughResources": "nodes must have room for all its members at once: pods must end, or add nodes",
    "QueueQuotaExceeded": "pods of its queue must end, or raise the capability or the weight of the queue",
    "NamespaceQuotaExceeded": "pods of its namespace must end, or raise the quota",
    "QueueNotOpen": "open the queue, or name another",
    "InvalidQueueHierarchy": "name a queue without queues below it, or create the parent that is missing",
    "QueuePodGroupLimit": "pod groups of the queue must end, or raise its maxPodGroups",
    "InqueueTimeout": "its controller must create its pods in time, and nodes must have room for them",
    "NotEnoughTasks": "its controller must create the missing pods",
    "NotEnoughPodsOfTask": "its controller must create the missing pods",
    "NotEnoughSubGroups": "its controller must create the missing pods",
    "NetworkTopologyUnsatisfied": f"pods must end within one HyperNode, or {_MORE_TIERS}",
    "ReservedForEarlierPodGroup": "the named group must start, or declare a run time that ends before",
    "ReservedWindow": "the window must end, or all its pods declare a run time that ends before it, by the "
    f"label {MAX_EXEC_TIME_SECONDS}",
    "WorkloadNotAdmitted": "its Workload must be admitted with all its pods",
}
ENOUGH_FOR_ONE_THAT_NEVER_FITS: Final[Mapping[str, str]] = {
    "NotEnoughResources": "add nodes that have room for its members, or request less",
    "QueueQuotaExceeded": "raise the capability of the queue, name another, or request less",
    "NamespaceQuotaExceeded": "raise the quota, or request less",
    "QueueNotFound": "create the queue, or name one that exists",
    "QueuePodGroupLimit": "raise maxPodGroups of the queue, or name another",
    "NetworkTopologyUnsatisfied": _MORE_TIERS,
}


def explain_group(group: PodGroup) -> Explanation:
    """Return the explanation of a pod group."""
    metadata, spec, status = group.metadata, group.spec, group.status
    phase = status.phase or PENDING
    waits = unschedulable(group)
    state: ExplainedState = _STATES.get(phase, "Queued")
    if is_suspended(metadata.annotations) and phase == PENDING:
        waits = Reason(
            code="WorkloadNotAdmitted",
            text="its Workload is not admitted by a cluster queue",
            enough=f"quorate explain podgroup/{metadata.name} shows what its Workload waits for",
        )
        state = "Held"
    elif state == "Queued" and waits is not None and waits.needs_change:
        state = "NeverFits"
    elif phase == INQUEUE and waits is not None and waits.needs_change:
        state = "Stuck"
    elif state == "Running" and status.running < spec.min_member:
        state = "RunningInPart" if status.running else "Admitted"
    admitted = 0 if phase == PENDING else spec.min_member
    counts = PodCounts(requested=spec.min_member, admitted=admitted, running=status.running)
    text = f"its phase is {phase}"
    if phase == INQUEUE:
        text = f"it is admitted, and {spec.min_member} of its pods may be created and get nodes"
    if state == "Finished":
        waits = None
    message = f"{text}; {waits.text}" if waits is not None else text
    return Explanation(
        object=ObjectName(kind="PodGroup", name=metadata.name, namespace=metadata.namespace),
        state=state,
        message=message,
        since=_since(group),
        pods=counts,
        code="" if waits is None else waits.code,
        can_never_fit=state == "NeverFits",
        reasons=() if waits is None else (waits,),
        enough=(waits.enough,) if waits is not None and waits.enough else (),
    )


def _since(group: PodGroup) -> datetime | None:
    """Return when it was admitted, if its pods may not have nodes yet; else when it was created."""
    admitted = admission_record(group.metadata.annotations).inqueue_since
    if admitted is not None and group.status.phase == INQUEUE:
        return at_epoch(admitted)
    return group.metadata.creation_timestamp


def explain_job_without_group(job: Job) -> Explanation:
    """Return the explanation of a Volcano Job from its status: the controller has made no pod group of it."""
    phase, found = job.status.state.phase or PENDING, job.status.state
    state: ExplainedState = "Finished" if phase in _ENDED_PHASES else "Queued"
    if phase == "Running":
        state = "Running"
    message, reasons = f"its phase is {phase}, and it has no pod group", tuple[Reason, ...]()
    if state != "Finished" and found.reason:
        is_invalid = found.reason == INVALID_JOB
        reason = Reason(
            code=found.reason, text=found.message, since=found.last_transition_time, needs_change=is_invalid,
            enough="correct the field that the message names" if is_invalid else "",
        )  # fmt: skip
        state = "NeverFits" if is_invalid else state
        message, reasons = f"{message}: {found.message}", (reason,)
    metadata = job.metadata
    return Explanation(
        object=ObjectName(kind="Job", name=metadata.name, namespace=metadata.namespace),
        state=state,
        message=message,
        since=metadata.creation_timestamp,
        code=reasons[0].code if reasons else "",
        can_never_fit=state == "NeverFits",
        reasons=reasons,
        enough=tuple(reason.enough for reason in reasons if reason.enough),
    )


def groups_by_owner(groups: Iterable[PodGroup]) -> dict[Uid, list[PodGroup]]:
    """Return the pod groups by each of their owners."""
    by_owner: defaultdict[Uid, list[PodGroup]] = defaultdict(list)
    for group in groups:
        for owner in group.metadata.owner_references:
            by_owner[owner.uid].append(group)
    return by_owner


def waiting_group(workload: Workload, groups: Iterable[PodGroup]) -> Reason | None:
    """Return what the pod group of a workload's job waits for; None if it has none or it does not wait."""
    jobs = {owner.uid for owner in workload.metadata.owner_references}
    for group in groups:
        if any(owner.uid in jobs for owner in group.metadata.owner_references):
            return _waiting_reason(group)
    return None


def _waiting_reason(group: PodGroup) -> Reason | None:
    """Return what a pending pod group waits for; None if it is not pending."""
    if group.status.phase not in ("", PENDING):
        return None
    name = group.metadata.name
    waits = unschedulable(group)
    detail = f": {waits.code}: {waits.text}" if waits is not None else ""
    return Reason(
        code=waits.code if waits is not None else "PodGroupPending",
        text=f"its pod group waits{detail} (quorate podgroup explain {name} shows more)",
        object=ObjectName(kind="PodGroup", name=name, namespace=group.metadata.namespace),
        since=waits.since if waits is not None else None,
        needs_change=waits is not None and waits.needs_change,
    )


_STATES: dict[str, ExplainedState] = {
    PENDING: "Queued", INQUEUE: "Admitted", RUNNING: "Running", COMPLETED: "Finished",
    UNKNOWN: "RunningInPart",
}  # fmt: skip


def unschedulable(group: PodGroup) -> Reason | None:
    """Return why it waits; None if it was admitted since, because the condition remains."""
    condition = true_condition(group.status.conditions, UNSCHEDULABLE)
    if condition is None:
        return None
    admitted = group.metadata.annotations.get(INQUEUE_SINCE, "") if group.status.phase == INQUEUE else ""
    if condition.transition_id < admitted:  # both are timestamps in one format if this scheduler wrote them
        return None
    needs_change = condition.reason == QUEUE_NOT_FOUND or NEVER_FITS in condition.message
    return Reason(
        code=condition.reason,
        text=condition.message,
        since=condition.last_transition_time,
        enough=(ENOUGH_FOR_ONE_THAT_NEVER_FITS if needs_change else ENOUGH).get(condition.reason, ""),
        needs_change=needs_change,
    )
