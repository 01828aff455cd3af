"""What to do about one job and its workload, as a pure function of both.

The rules are Kueue's generic job framework: one Workload per job; the job stays suspended until the
Workload is admitted, runs while it is, and is stopped and restored when it no longer is.  They are applied
in order and the first that finds something to do makes the plan; what is left is found when the result of
its writes comes back.  A world that needs nothing gives the empty plan.

Knowingly missing: prebuilt and elastic workloads, jobs on hold.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic

import msgspec

from quorate.api.core import PriorityClass
from quorate.api.kueue import (
    GROUP,
    PRIORITY_CLASS,
    PodSet,
    PriorityClassRef,
    ReclaimablePod,
    ResourceFlavor,
    Workload,
    WorkloadPriorityClass,
)
from quorate.api.meta import find_condition
from quorate.api.paths import Unfit
from quorate.controllers.finalizers import released
from quorate.controllers.jobs import J, JobKind, Outcome
from quorate.controllers.jobs.construct import (
    MissingPriorityClass,
    construct,
    maximum_execution_s,
    queue_name_of,
    resolve_priority,
)
from quorate.controllers.jobs.match import is_equivalent
from quorate.controllers.jobs.podsets import InjectionConflict
from quorate.controllers.jobs.starting import FlavorNotSeen, NotAdmitted, pod_set_infos
from quorate.controllers.writes import Create, Delete, Patch, Write, status_patch
from quorate.kube.resources import WORKLOADS
from quorate.queueing.clocks import asked_findings
from quorate.queueing.conditions import EVICTED, is_admitted, is_evicted, is_finished, is_reserving, merged
from quorate.queueing.lifecycle import Event
from quorate.queueing.readiness import pods_ready
from quorate.queueing.statuses import finish_status, release_status


@dataclass(frozen=True, slots=True)
class JobPlan:
    """Writes to send in order, then events to show on the job."""

    writes: tuple[Write, ...] = ()
    events: tuple[Event, ...] = ()
    lacks: str = ""  # what must come to be before there can be a plan
    patient: bool = False  # the writes may wait a moment, as there may soon be more to say in them
    waits: bool = False  # the job's last pods must be gone before it is stopped wholly


IDLE = JobPlan()


@dataclass(frozen=True, slots=True)
class JobRules:
    """The part of the configuration that concerns jobs."""

    manage_jobs_without_queue_name: bool = False
    wait_for_pods_ready: bool = False
    label_keys_to_copy: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a job's plan depends on besides the job and its workloads."""

    namespace_managed: bool
    flavors: Mapping[str, ResourceFlavor]
    workload_classes: Mapping[str, WorkloadPriorityClass]
    pod_classes: Mapping[str, PriorityClass]
    part_of: tuple[Workload, ...] | None = None  # the workloads of the job it is a part of; None: of none


@dataclass(frozen=True, slots=True)
class _Case(Generic[J]):
    """One job as every rule sees it."""

    kind: JobKind[J]
    job: J
    pod_sets: tuple[PodSet, ...]
    suspended: bool
    outcome: Outcome | None
    around: Surroundings
    rules: JobRules
    now: float


def decide(
    kind: JobKind[J],
    job: J | None,
    workloads: Iterable[Workload],
    around: Surroundings,
    rules: JobRules,
    now: float,
) -> JobPlan:
    """The next thing to do.  ``workloads`` are those controlled by a job of this kind, namespace and name.

    Nothing is done to a job that cannot be understood, but to say so.
    """
    try:
        return _decided(kind, job, workloads, around, rules, now)
    except Unfit as unfit:
        return _not_composed(str(unfit))


def _decided(
    kind: JobKind[J],
    job: J | None,
    workloads: Iterable[Workload],
    around: Surroundings,
    rules: JobRules,
    now: float,
) -> JobPlan:
    owned = sorted(workloads, key=_by_age)
    if job is None or job.metadata.deletion_timestamp is not None:
        return _orphaned(owned, now)
    if around.namespace_managed and around.part_of is not None:
        return _part(kind, job, around.part_of)
    queued = queue_name_of(job.metadata) or rules.manage_jobs_without_queue_name
    if not (around.namespace_managed and queued):
        return IDLE
    case = _Case(
        kind, job, kind.pod_sets(job), kind.is_suspended(job), kind.finished(job), around, rules, now
    )
    match = next((workload for workload in owned if _stands_for(workload, case)), None)
    surplus = [workload for workload in owned if workload is not match]
    if surplus:
        return _reduced_to_one(case, match, surplus)
    return _without_workload(case) if match is None else _with_workload(case, match)


def _part(kind: JobKind[J], job: J, workloads: Iterable[Workload]) -> JobPlan:
    """A part of a managed job has no workload of its own, and runs only while the whole is admitted."""
    admitted = any(is_admitted(workload) and not is_finished(workload) for workload in workloads)
    if admitted or kind.is_suspended(job) or kind.finished(job) is not None:
        return IDLE
    event = _told("Suspended", "Kueue managed child job suspended")
    return JobPlan(kind.stop(job, None).patches, (event,))


def _by_age(workload: Workload) -> tuple[str, str]:
    created = workload.metadata.creation_timestamp
    return (created.isoformat() if created is not None else "", workload.metadata.name)


def _orphaned(workloads: Sequence[Workload], now: float) -> JobPlan:
    writes: list[Write] = []
    for workload in workloads:
        if workload.metadata.deletion_timestamp is None:
            gone = finish_status(workload, "OwnerNotFound", "The job of the workload is gone", now)
            writes += status_patch(workload, gone)
        writes += released(WORKLOADS, workload.metadata)
    return JobPlan(tuple(writes))


def _told(reason: str, message: str) -> Event:
    return Event("Normal", reason, message)


# One Workload stands for the job.


def _stands_for(workload: Workload, case: _Case[J]) -> bool:
    owner = workload.metadata.controller
    return (
        owner is not None
        and owner.uid == case.job.metadata.uid
        and is_equivalent(workload, case.pod_sets, maximum_execution_s(case.job.metadata), case.suspended)
    )


def _reduced_to_one(case: _Case[J], match: Workload | None, surplus: Sequence[Workload]) -> JobPlan:
    """Make one workload of several, or one that fits of one that does not."""
    writes: list[Write] = []
    events: list[Event] = []
    lacks = ""
    if match is None:
        first = surplus[0]
        if case.suspended and _may_become(first, case):
            updated, surplus = _in_place(case, first), surplus[1:]
            writes += updated.writes
            events += updated.events
            lacks = updated.lacks
        elif not case.suspended and case.outcome is None:
            only = surplus[0] if len(surplus) == 1 else None
            stopped = _stopped(
                case,
                only,
                "Missing Workload; unable to restore pod templates"
                if only is None
                else "No matching Workload; restoring pod templates according to existent Workload",
            )
            if stopped.waits:
                return stopped
            writes += stopped.writes
            events += stopped.events
    for workload in surplus:
        writes += released(WORKLOADS, workload.metadata)
        if workload.metadata.deletion_timestamp is not None:
            continue
        writes.append(Delete(WORKLOADS, workload.metadata.key, workload.metadata.uid))
        events.append(_told("DeletedWorkload", f"Deleted not matching Workload: {workload.metadata.key}"))
    return JobPlan(tuple(writes), tuple(events), lacks)


def _may_become(workload: Workload, case: _Case[J]) -> bool:
    owner = workload.metadata.controller
    return (
        owner is not None
        and owner.uid == case.job.metadata.uid
        and workload.metadata.deletion_timestamp is None
        and not is_reserving(workload)
        and not is_finished(workload)
    )


def _in_place(case: _Case[J], workload: Workload) -> JobPlan:
    fresh = _constructed(case)
    if isinstance(fresh, MissingPriorityClass):
        return _not_composed(str(fresh), lacks=str(fresh))
    spec = fresh.spec
    body = {
        "podSets": spec.pod_sets,
        "queueName": spec.queue_name,
        "priority": spec.priority,
        "priorityClassRef": spec.priority_class_ref,
        "maximumExecutionTimeSeconds": spec.maximum_execution_time_seconds,
    }
    event = _told(
        "UpdatedWorkload", f"Updated not matching Workload for suspended job: {workload.metadata.key}"
    )
    return JobPlan((_updated(workload, {"spec": body}),), (event,))


def _updated(workload: Workload, body: Mapping[str, object]) -> Patch:
    return Patch(WORKLOADS, workload.metadata.key, workload.metadata.resource_version, body)


# The job has none yet.


def _without_workload(case: _Case[J]) -> JobPlan:
    if case.outcome is not None:
        return IDLE
    if not case.suspended:
        return _stopped(case, None, "Missing Workload; unable to restore pod templates")
    if case.kind.is_active(case.job):
        return IDLE  # its last pods still run, outside of any quota: they go first
    workload = _constructed(case)
    if isinstance(workload, MissingPriorityClass):
        return _not_composed(str(workload), lacks=str(workload))
    key = workload.metadata.key
    create = Create(WORKLOADS, workload, key.namespace)
    ignored = asked_findings(case.job.metadata.annotations)
    warnings = [Event("Warning", "IgnoredAnnotation", finding) for finding in ignored]
    return JobPlan((create,), (*warnings, _told("CreatedWorkload", f"Created Workload: {key}")))


def _constructed(case: _Case[J]) -> Workload | MissingPriorityClass:
    metadata = case.job.metadata
    priority = resolve_priority(
        metadata.labels,
        case.kind.priority_class(case.job),
        case.pod_sets,
        case.around.workload_classes,
        case.around.pod_classes,
    )
    if isinstance(priority, MissingPriorityClass):
        return priority
    return construct(case.kind.resource, metadata, case.pod_sets, priority, case.rules.label_keys_to_copy)


def _not_composed(why: str, lacks: str = "") -> JobPlan:
    return JobPlan(events=(Event("Warning", "ErrWorkloadCompose", why),), lacks=lacks)


# The job has exactly one.


def _with_workload(case: _Case[J], workload: Workload) -> JobPlan:
    if is_finished(workload):
        return JobPlan(released(WORKLOADS, workload.metadata))
    if workload.metadata.deletion_timestamp is not None:
        stopped = _stopped(case, workload, "Workload is deleted")
        if stopped.waits:
            return stopped
        return JobPlan((*stopped.writes, *released(WORKLOADS, workload.metadata)), stopped.events)
    if case.outcome is not None:
        return _finished(case.outcome, workload, case.now)
    if told := _readiness(case, workload):
        return JobPlan(told)
    plan = _next_step(case, workload)
    if plan == IDLE and (reclaimed := _reclaimed(case, workload)):
        return JobPlan(reclaimed, patient=True)
    return plan


def _next_step(case: _Case[J], workload: Workload) -> JobPlan:
    """Start, stop or release, as the workload's admission demands of the job."""
    if is_evicted(workload) and (not case.suspended or is_reserving(workload)):
        return _evicted(case, workload)
    if not case.suspended:
        if is_admitted(workload):
            return IDLE
        return _stopped(case, workload, "Not admitted by cluster queue")
    return _started(case, workload) if is_admitted(workload) else _resubmitted(case, workload)


def _finished(outcome: Outcome, workload: Workload, now: float) -> JobPlan:
    reason = "Succeeded" if outcome.success else "Failed"
    status = finish_status(workload, reason, outcome.message or f"Job {reason.lower()}", now)
    event = _told("FinishedWorkload", f"Workload {workload.metadata.key} is declared finished")
    return JobPlan(status_patch(workload, status), (event,))


def _readiness(case: _Case[J], workload: Workload) -> tuple[Patch, ...]:
    if not case.rules.wait_for_pods_ready:
        return ()
    status = workload.status
    if not status.conditions:
        # Nobody has looked at it yet.  Absent means not ready; whoever admits it or makes it wait says so
        # in the same write.
        return ()
    ready = pods_ready(workload, case.kind.pods_ready(case.job), case.now)
    if ready is None:
        return ()
    new = msgspec.structs.replace(status, conditions=merged(status.conditions, ready))
    return status_patch(workload, new)


def _reclaimed(case: _Case[J], workload: Workload) -> tuple[Patch, ...]:
    """Say how many pods are done for good, so that others may use their quota."""
    done = _done(case, workload)
    return status_patch(workload, msgspec.structs.replace(workload.status, reclaimable_pods=done))


def _done(case: _Case[J], workload: Workload) -> tuple[ReclaimablePod, ...]:
    sizes = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    return tuple(
        ReclaimablePod(name=each.name, count=min(each.count, sizes[each.name]))
        for each in case.kind.reclaimable(case.job)
        if each.name in sizes  # pod sets that differ only in name are the same to a workload
    )


def _evicted(case: _Case[J], workload: Workload) -> JobPlan:
    """Stop the job; once none of its pods holds capacity any more, give the quota back."""
    evicted = find_condition(workload.status.conditions, EVICTED)
    assert evicted is not None, f"{workload.metadata.key} is evicted without saying why"
    if not case.suspended:
        return _stopped(case, workload, evicted.message)
    if case.kind.is_active(case.job):
        return IDLE
    status = release_status(workload, case.now)
    assert status is not None, f"{workload.metadata.key} has quota, but none to release"
    # A kind may begin anew after a stop: its next admission counts the pods that are to run again.
    fresh = msgspec.structs.replace(status, reclaimable_pods=_done(case, workload))
    return JobPlan(status_patch(workload, fresh))


def _started(case: _Case[J], workload: Workload) -> JobPlan:
    infos = pod_set_infos(workload, case.around.flavors)
    if isinstance(infos, NotAdmitted):
        return JobPlan(events=(Event("Warning", "NotStarted", str(infos)),))
    if isinstance(infos, FlavorNotSeen):
        return JobPlan(lacks=str(infos))
    start = infos if isinstance(infos, InjectionConflict) else case.kind.start(case.job, infos)
    if isinstance(start, InjectionConflict):
        status = finish_status(workload, "FailedToStart", start.message, case.now)
        event = _told(
            "FinishedWorkload", f"Workload {workload.metadata.key} is declared finished: {start.message}"
        )
        return JobPlan(status_patch(workload, status), (event,))
    return JobPlan(start, (_told("Started", f"Admitted by clusterQueue {_admitted_by(workload)}"),))


def _admitted_by(workload: Workload) -> str:
    admission = workload.status.admission
    assert admission is not None, f"{workload.metadata.key} starts without an admission"
    return admission.cluster_queue


def _stopped(case: _Case[J], workload: Workload | None, why: str) -> JobPlan:
    stop = case.kind.stop(case.job, None if workload is None else workload.spec.pod_sets)
    return JobPlan(stop.patches, (_told("Stopped", why),) if stop.begins else (), waits=stop.waits)


def _resubmitted(case: _Case[J], workload: Workload) -> JobPlan:
    """Bring queue and priority of a waiting workload up to date with what the job now asks for."""
    changes: dict[str, object] = {}
    queue_name = queue_name_of(case.job.metadata)
    if workload.spec.queue_name != queue_name and not is_reserving(workload):
        changes["queueName"] = queue_name
    changes |= _priority_change(case, workload)
    if not changes:
        return IDLE
    event = _told("UpdatedWorkload", f"Updated Workload: {workload.metadata.key}")
    return JobPlan((_updated(workload, {"spec": changes}),), (event,))


def _priority_change(case: _Case[J], workload: Workload) -> dict[str, object]:
    """The class a label now names; a class that pods name is fixed with them."""
    name = case.job.metadata.labels.get(PRIORITY_CLASS, "")
    now_of = workload.spec.priority_class_ref
    asked = case.around.workload_classes.get(name)
    if asked is None or (now_of is not None and (now_of.group != GROUP or now_of.name == name)):
        return {}
    if now_of is None and is_reserving(workload):
        return {}
    ref = PriorityClassRef(group=GROUP, kind="WorkloadPriorityClass", name=name)
    return {"priorityClassRef": ref, "priority": asked.value}
