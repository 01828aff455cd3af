"""The explanation of a pod group: from its status, or from what a session would decide about it now."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from quorate.api.explanation import (
    ExplainedState,
    Explanation,
    ObjectName,
    PodCounts,
    Reason,
    Remedy,
    alternatives,
)
from quorate.api.kueue import Workload
from quorate.api.meta import Struct, Uid, at_epoch, true_condition
from quorate.api.names.kueue import MAX_EXEC_TIME_SECONDS
from quorate.api.native_groups import PREFIX
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
from quorate.gang.pending_reasons import NotEnoughTasks
from quorate.gang.shortage import NEVER_FITS

_ENDED_PHASES: Final = ("Completed", "Failed", "Terminated", "Aborted")  # of a Volcano Job
_CREATE_PODS: Final = "its controller must create the missing pods"
_MORE_TIERS: Final = "allow a higher tier in networkTopology, or request fewer or smaller pods"
# What removes each reason, by code; with less than that, a group that never fits does not start.
ENOUGH: Final[Mapping[str, str]] = {
    "NotEnoughResources": "nodes must have room for all its members at once: pods must end, or add nodes",
    "AwaitsVictimSearch": "wait for its turn: a session searches for pods to evict for some groups only",
    "QueueQuotaExceeded": "pods of its queue must end, or raise the capability or the weight of the queue",
    "NamespaceQuotaExceeded": "pods of its namespace must end, or raise the quota",
    "QueueNotOpen": "open the queue, or name another",
    "BackingOff": "wait until then: it is tried again",
    "EarlierPodGroupWaits": "the earlier group must start, or the queue must have dequeueStrategy traverse",
    "InvalidQueueHierarchy": "name a queue without queues below it, or create the parent that is missing",
    "QueuePodGroupLimit": "pod groups of the queue must end, or raise its maxPodGroups",
    "InqueueTimeout": "its controller must create its pods in time, and nodes must have room for them",
    "NotEnoughTasks": _CREATE_PODS,
    "NotEnoughPodsOfTask": _CREATE_PODS,
    "NotEnoughSubGroups": _CREATE_PODS,
    "NetworkTopologyUnsatisfied": f"pods must end within one HyperNode, or {_MORE_TIERS}",
    "ReservedForEarlierPodGroup": "the named group must start, or declare a run time that ends before",
    "ReservedWindow": "the window must end, or all its pods declare a run time that ends before it, by the "
    f"label {MAX_EXEC_TIME_SECONDS}",
    "WorkloadNotAdmitted": "its Workload must be admitted with all its pods",
}
ENOUGH_FOR_ONE_THAT_NEVER_FITS: Final[Mapping[str, str]] = {
    "NotEnoughResources": "add nodes that have room for its members, raise the capability of a queue that is "
    "named, or request less",
    "QueueQuotaExceeded": "raise the capability of the queue, name another, or request less",
    "NamespaceQuotaExceeded": "raise the quota, or request less",
    "QueueNotFound": "create the queue, or name one that exists",
    "QueuePodGroupLimit": "raise maxPodGroups of the queue, or name another",
    "NetworkTopologyUnsatisfied": _MORE_TIERS,
}


_ENOUGH_FOR_NATIVE: Final[Mapping[str, str]] = {
    "NetworkTopologyUnsatisfied": "pods must end on nodes with one value of the label, or add such nodes"
}


class GroupFacts(Struct):
    """What a session would decide about a pod group now; see ``remedies``."""

    reasons: tuple[Reason, ...] = ()  # why it waits; empty if it starts, or needs nothing
    text: str = ""  # all of them in one sentence
    starts: bool = False  # in the next session
    remedies: tuple[Remedy, ...] = ()
    rivals: int = 0  # other waiting groups, which may start first


def may_wait(group: PodGroup) -> bool:
    """Return True if a session may tell why the group waits."""
    phase, status = _phase_of(group), group.status
    if is_suspended(group.metadata.annotations):
        return False
    return phase in ("", PENDING, INQUEUE, UNKNOWN) or (
        phase == RUNNING and not _is_native(group) and status.running < group.spec.min_member
    )


def _is_native(group: PodGroup) -> bool:
    return group.metadata.name.startswith(PREFIX)


def _phase_of(group: PodGroup) -> str:
    """Return the phase; a group of Kubernetes, which is admitted when it is created, waits for its nodes."""
    phase = group.status.phase or PENDING
    return PENDING if phase == INQUEUE and _is_native(group) else phase


def explain_group(
    group: PodGroup, facts: GroupFacts | None = None, members: int | None = None
) -> Explanation:
    """Return the explanation of a pod group: by ``facts``, or by the status of the group without ``facts``.

    ``members``: how many of its pods exist; None: not known.  An admitted group may wait for more pods.
    """
    metadata, spec, status = group.metadata, group.spec, group.status
    phase = _phase_of(group)
    state: ExplainedState = _STATES.get(phase, "Queued")
    reasons, text = _stored_or(facts, group, members)
    if is_suspended(metadata.annotations) and phase == PENDING:
        enough = f"quorate explain podgroup/{metadata.name} shows what its Workload waits for"
        text = "its Workload is not admitted by a cluster queue"
        reasons, state = (Reason(code="WorkloadNotAdmitted", text=text, enough=enough),), "Held"
    needs_change = any(reason.needs_change for reason in reasons)
    if state == "Queued" and needs_change:
        state = "NeverFits"
    elif phase == INQUEUE and needs_change:
        state = "Stuck"
    elif state == "Running" and status.running < spec.min_member and not _is_native(group):
        state = "RunningInPart" if status.running else "Admitted"
    admitted = 0 if phase == PENDING else spec.min_member
    counts = PodCounts(requested=spec.min_member, admitted=admitted, running=status.running)
    message = f"its phase is {phase}"
    if _is_native(group):
        message = "its pods wait for nodes" if phase == PENDING else "its pods have got nodes"
    if phase == INQUEUE:
        message = f"it is admitted, and {spec.min_member} of its pods may be created and get nodes"
    if state == "Finished":
        reasons, text = (), ""
    remedies, rivals = ((), 0) if facts is None or not reasons else (facts.remedies, facts.rivals)
    removing = tuple(dict.fromkeys(reason.enough for reason in reasons if reason.enough))
    return Explanation(
        object=ObjectName(kind="PodGroup", name=metadata.name, namespace=metadata.namespace),
        state=state,
        message=f"{message}; {text}" if text else message,
        since=_since(group),
        pods=counts,
        code=reasons[0].code if reasons else "",
        can_never_fit=state == "NeverFits",
        reasons=reasons,
        enough=_enough(remedies, rivals, _CREATE_PODS in removing) or removing,
        remedies=remedies,
        rivals=rivals,
    )


def _stored_or(
    facts: GroupFacts | None, group: PodGroup, members: int | None
) -> tuple[tuple[Reason, ...], str]:
    """Return the reasons of ``facts``, or without facts what status and members say, with their text."""
    stored = unschedulable(group)
    if facts is None:
        if stored is None and _phase_of(group) == INQUEUE and members is not None:
            needed = group.spec.min_member
            if members < needed:
                missing = NotEnoughTasks(members, needed)
                stored = Reason(code=missing.reason, text=str(missing), enough=_CREATE_PODS)
        return ((), "") if stored is None else ((stored,), stored.text)
    if facts.starts and _phase_of(group) == PENDING:
        text = "there is room for it now (if it stays pending, check that the gang scheduler runs)"
        return (Reason(code="RoomAvailable", text=text, enough="the gang scheduler must admit it"),), text
    since = {} if stored is None else {stored.code: stored.since}
    reasons = tuple(
        replace(
            reason,
            since=since.get(reason.code),
            enough=_enough_for(group, reason.code, never=reason.needs_change),
        )
        for reason in facts.reasons
    )
    if stored is not None and reasons and reasons[0].code == "BackingOff":  # for what it was rolled back
        return (*reasons, stored), f"{facts.text}; {stored.text}"
    return reasons, facts.text


def _enough(remedies: Sequence[Remedy], rivals: int, without_pods: bool) -> tuple[str, ...]:
    """Return the remedies in words, and what they depend on."""
    if not remedies:
        return ()
    groups = "other pod group that waits" if rivals == 1 else f"{rivals} other pod groups that wait"
    provided = (f"provided that the {groups} cannot start first",) if rivals else ()
    ways = [*([_CREATE_PODS] if without_pods else []), *(remedy.text for remedy in remedies)]
    return (*alternatives(ways), *provided)


def _since(group: PodGroup) -> datetime | None:
    """Return when it was admitted, if its pods may not have nodes yet; else when it was created."""
    admitted = admission_record(group.metadata.annotations).inqueue_since
    if admitted is not None and group.status.phase == INQUEUE:
        return at_epoch(admitted)
    return group.metadata.creation_timestamp


def explain_job_without_group(job: Job) -> Explanation:
    """Return the explanation of a Volcano Job from its status: the controller has made no pod group of it."""
    phase, last = job.phase or PENDING, job.status.state
    state: ExplainedState = "Finished" if phase in _ENDED_PHASES else "Queued"
    if phase == "Running":
        state = "Running"
    message, reasons = f"its phase is {phase}, and it has no pod group", tuple[Reason, ...]()
    if state != "Finished" and last.reason:
        is_invalid = last.reason == INVALID_JOB
        reason = Reason(
            code=last.reason, text=last.message, since=last.last_transition_time, needs_change=is_invalid,
            enough="correct the field that the message names" if is_invalid else "",
        )  # fmt: skip
        state = "NeverFits" if is_invalid else state
        message, reasons = f"{message}: {last.message}", (reason,)
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
    """Return what a pod group waits for that is pending, or is admitted and can never start; else None."""
    name, phase, waits = group.metadata.name, group.status.phase, unschedulable(group)
    is_stuck = phase == INQUEUE and waits is not None and waits.needs_change
    if phase not in ("", PENDING) and not is_stuck:
        return None
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
        enough=_enough_for(group, condition.reason, never=needs_change),
        needs_change=needs_change,
    )


def _enough_for(group: PodGroup, code: str, *, never: bool) -> str:
    if _is_native(group) and code in _ENOUGH_FOR_NATIVE:
        return _ENOUGH_FOR_NATIVE[code]
    return (ENOUGH_FOR_ONE_THAT_NEVER_FITS if never else ENOUGH).get(code, "")
