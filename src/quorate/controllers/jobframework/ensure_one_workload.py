"""One Workload stands for a job: the one that fits is found, or made, and all others go."""

from collections.abc import Sequence

from quorate.api.kueue import Workload
from quorate.controllers.finalizers import released
from quorate.controllers.jobframework.construct_workload import (
    DEFAULT_CLASS,
    MissingPriorityClass,
    construct,
    maximum_execution_s,
    resolve_priority,
)
from quorate.controllers.jobframework.equivalence import is_equivalent
from quorate.controllers.jobframework.interface import J
from quorate.controllers.jobframework.job_plan import (
    IDLE,
    Case,
    JobPlan,
    not_composed,
    stop_plan,
    told,
    updated,
)
from quorate.controllers.jobframework.topology import topology_findings
from quorate.kube.resources import WORKLOADS
from quorate.kube.writes import Create, Delete, Write
from quorate.queueing.conditions import has_quota_reservation, is_finished
from quorate.queueing.lifecycle.transition import Event
from quorate.queueing.pods_ready import override_findings


def stands_for(workload: Workload, case: Case[J]) -> bool:
    """Whether it is the job's, and asks for what the job asks for."""
    return _is_of(workload, case) and is_in_sync(workload, case)


def is_in_sync(workload: Workload, case: Case[J]) -> bool:
    limit_s = maximum_execution_s(case.job.metadata)
    return is_equivalent(workload, case.pod_sets, limit_s, case.suspended)


def _is_of(workload: Workload, case: Case[J]) -> bool:
    """Whether it is of this life of the job, where an earlier one of the name makes a difference."""
    owner = workload.metadata.controller
    if owner is None:
        return False
    return owner.uid == case.job.metadata.uid or not case.rules.gates.finish_orphaned_workloads


def reduced_to_one(case: Case[J], match: Workload | None, surplus: Sequence[Workload]) -> JobPlan:
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
            stopped = stop_plan(
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
        events.append(told("DeletedWorkload", f"Deleted not matching Workload: {workload.metadata.key}"))
    return JobPlan(tuple(writes), tuple(events), lacks)


def _may_become(workload: Workload, case: Case[J]) -> bool:
    return (
        _is_of(workload, case)
        and workload.metadata.deletion_timestamp is None
        and not has_quota_reservation(workload)
        and not is_finished(workload)
    )


def _in_place(case: Case[J], workload: Workload) -> JobPlan:
    fresh = constructed(case)
    if isinstance(fresh, MissingPriorityClass):
        return not_composed(str(fresh), lacks=str(fresh))
    spec = fresh.spec
    body = {
        "podSets": spec.pod_sets,
        "queueName": spec.queue_name,
        "priority": spec.priority,
        "priorityClassRef": spec.priority_class_ref,
        "maximumExecutionTimeSeconds": spec.maximum_execution_time_seconds,
    }
    event = told(
        "UpdatedWorkload", f"Updated not matching Workload for suspended job: {workload.metadata.key}"
    )
    return JobPlan((updated(workload, {"spec": body}),), (event,))


def without_workload(case: Case[J]) -> JobPlan:
    if case.outcome is not None:
        return IDLE
    if not case.suspended:
        return stop_plan(case, None, "Missing Workload; unable to restore pod templates")
    if case.kind.is_active(case.job):
        return IDLE  # its last pods still run, outside of any quota: they go first
    workload = constructed(case)
    if isinstance(workload, MissingPriorityClass):
        return not_composed(str(workload), lacks=str(workload))
    key = workload.metadata.key
    create = Create(WORKLOADS, workload, key.namespace)
    ignored = (*override_findings(case.job.metadata.annotations), *topology_findings(case.pod_sets))
    warnings = [Event("Warning", "IgnoredAnnotation", finding) for finding in ignored]
    return JobPlan((create,), (*warnings, told("CreatedWorkload", f"Created Workload: {key}")))


def constructed(case: Case[J], extra: str = "") -> Workload | MissingPriorityClass:
    metadata = case.job.metadata
    priority = resolve_priority(
        metadata.labels,
        case.kind.priority_class(case.job),
        case.pod_sets,
        case.around.workload_classes,
        case.around.pod_classes,
        by_default=DEFAULT_CLASS if case.rules.gates.workload_priority_class_defaulting else "",
    )
    if isinstance(priority, MissingPriorityClass):
        return priority
    return construct(
        case.kind.resource,
        metadata,
        case.pod_sets,
        priority,
        case.rules.label_keys_to_copy,
        short_name=case.rules.gates.short_workload_names,
        gated=case.rules.gates.admission_gated_by,
        extra=extra,
    )
