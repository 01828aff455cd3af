"""What to do about one job and its workload, as a pure function of both.

The rules are Kueue's generic job framework: one Workload per job; the job stays suspended until the
Workload is admitted, runs while it is, and is stopped and restored when it no longer is.  They are applied
in order and the first that finds something to do makes the plan; what is left is found when the result of
its writes comes back.  A world that needs nothing gives the empty plan.
"""

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from quorate.api.field_path import InvalidTemplate
from quorate.api.kueue import ReclaimablePod, Workload, WorkloadStatus
from quorate.api.meta import find_condition
from quorate.controllers import orphans
from quorate.controllers.finalizers import released
from quorate.controllers.jobframework.construct_workload import prebuilt_name_of, queue_name_of
from quorate.controllers.jobframework.ensure_one_workload import reduced_to_one, stands_for, without_workload
from quorate.controllers.jobframework.interface import J, JobKind, Outcome
from quorate.controllers.jobframework.job_plan import (
    IDLE,
    Case,
    JobPlan,
    JobRules,
    Surroundings,
    finished_event,
    not_composed,
    stop_plan,
    told,
    updated,
)
from quorate.controllers.jobframework.pod_group_membership import with_group
from quorate.controllers.jobframework.podset_info import InjectionConflict
from quorate.controllers.jobframework.prebuilt_workload import prebuilt_to_prepare
from quorate.controllers.jobframework.starting import FlavorNotSeen, NotAdmitted, pod_set_infos
from quorate.controllers.jobframework.sync_workload import synced
from quorate.controllers.jobframework.workload_slices import is_elastic, slice_of
from quorate.kube.resources import WORKLOADS
from quorate.kube.writes import Delete, Patch, status_patch
from quorate.queueing.conditions import (
    EVICTED,
    ON_HOLD,
    PENDING_EVALUATION,
    QUOTA_RESERVED,
    has_quota_reservation,
    is_admitted,
    is_evicted,
    is_finished,
    not_reserved,
    with_conditions,
)
from quorate.queueing.lifecycle.statuses import finish_status, release_status
from quorate.queueing.lifecycle.statuses import unset_quota_reservation as given_back
from quorate.queueing.lifecycle.timeouts import job_deletion_time
from quorate.queueing.lifecycle.transition import Event
from quorate.queueing.pods_ready import pods_ready_condition


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
    except InvalidTemplate as unfit:
        return not_composed(str(unfit))


def _decided(
    kind: JobKind[J],
    job: J | None,
    workloads: Iterable[Workload],
    around: Surroundings,
    rules: JobRules,
    now: float,
) -> JobPlan:
    if job is not None and kind.is_skipped(job):
        return IDLE
    owned = sorted(workloads, key=_by_age)
    if job is None or job.metadata.deletion_timestamp is not None:
        return JobPlan(orphans.let_go(owned, rules.gates, now))
    if around.namespace_managed and around.part_of is not None:
        return _part(kind, job, around.part_of)
    queued = queue_name_of(job.metadata) or rules.manage_jobs_without_queue_name
    if not (around.namespace_managed and queued):
        return IDLE
    case = Case(kind, job, kind.pod_sets(job), kind.is_suspended(job), kind.finished(job), around, rules, now)
    by_annotation = rules.gates.workload_identifier_annotations
    if kind.supports_prebuilt and prebuilt_name_of(job.metadata, by_annotation=by_annotation):
        return _with_prebuilt(case, around.prebuilt)
    if is_elastic(case):
        found = slice_of(case, owned)
        return found if isinstance(found, JobPlan) else _with_workload(case, found)
    match = next((workload for workload in owned if stands_for(workload, case)), None)
    surplus = [workload for workload in owned if workload is not match]
    if surplus:
        return reduced_to_one(case, match, surplus)
    return without_workload(case) if match is None else _with_workload(case, match)


def _with_prebuilt(case: Case[J], workload: Workload | None) -> JobPlan:
    preparation = prebuilt_to_prepare(case, workload)
    if preparation is not None:
        return preparation
    assert workload is not None, f"{case.job.metadata.key} has a workload that is not there"
    return _with_workload(case, workload)


def _part(kind: JobKind[J], job: J, workloads: Iterable[Workload]) -> JobPlan:
    """A part of a managed job has no workload of its own, and runs only while the whole is admitted."""
    admitted = any(is_admitted(workload) and not is_finished(workload) for workload in workloads)
    if admitted or kind.is_suspended(job) or kind.finished(job) is not None:
        return IDLE
    event = told("Suspended", "Kueue managed child job suspended")
    return JobPlan(kind.stop(job, None).patches, (event,))


def _by_age(workload: Workload) -> tuple[str, str]:
    created = workload.metadata.creation_timestamp
    return (created.isoformat() if created is not None else "", workload.metadata.name)


def _with_workload(case: Case[J], workload: Workload) -> JobPlan:
    if said := _said_by_kind(case, workload):
        return JobPlan(said)
    if is_finished(workload):
        return _let_go(case, workload)
    if workload.metadata.deletion_timestamp is not None:
        stopped = stop_plan(case, workload, "Workload is deleted")
        if stopped.waits:
            return stopped
        return JobPlan((*stopped.writes, *released(WORKLOADS, workload.metadata)), stopped.events)
    changes = synced(case, workload)
    if changes.writes:
        return changes
    plan = _followed(case, workload)
    return replace(plan, lacks=plan.lacks or changes.lacks)


def _followed(case: Case[J], workload: Workload) -> JobPlan:
    """What follows from how the job fares and from what became of its workload."""
    if case.kind.is_on_hold(case.job):
        return _on_hold(case, workload)
    if case.outcome is not None:
        return _finished(case.outcome, workload, case.now)
    if (back := _no_longer_on_hold(case, workload)) is not None:
        return JobPlan(status_patch(WORKLOADS, workload, back))
    if told := _readiness(case, workload):
        return JobPlan(told)
    plan = _next_step(case, workload)
    if plan == IDLE and (reclaimed := _reclaimed(case, workload)):
        return JobPlan(reclaimed, patient=True)
    return plan


def _let_go(case: Case[J], workload: Workload) -> JobPlan:
    """Who ended the workload of a job that did not end itself is told to the job, too."""
    writes = released(WORKLOADS, workload.metadata)
    return JobPlan(writes, (finished_event(workload),) if writes and case.outcome is None else ())


def _said_by_kind(case: Case[J], workload: Workload) -> tuple[Patch, ...]:
    """What the kind itself wants to stand in the workload."""
    status = workload.status
    conditions = with_conditions(status.conditions, *case.kind.conditions(case.job, workload))
    if conditions != status.conditions:
        return status_patch(WORKLOADS, workload, msgspec.structs.replace(status, conditions=conditions))
    wanted = case.kind.is_wanted(case.job)
    if wanted is None or wanted is workload.spec.active:
        return ()
    return (updated(workload, {"spec": {"active": wanted}}),)


def _on_hold(case: Case[J], workload: Workload) -> JobPlan:
    """A job that is on hold keeps its workload, which takes no quota until the hold ends."""
    if not has_quota_reservation(workload):
        return IDLE
    held = given_back(workload, ON_HOLD, "Job is on hold", case.now, case.rules.gates)
    return JobPlan(status_patch(WORKLOADS, workload, held))


def _no_longer_on_hold(case: Case[J], workload: Workload) -> WorkloadStatus | None:
    reserved = find_condition(workload.status.conditions, QUOTA_RESERVED)
    if reserved is None or reserved.reason != ON_HOLD:
        return None
    text = "Workload no longer on hold; waiting for quota reservation"
    pending = not_reserved(workload, PENDING_EVALUATION, text, case.now, case.rules.gates)
    return msgspec.structs.replace(
        workload.status, conditions=with_conditions(workload.status.conditions, pending)
    )


def _next_step(case: Case[J], workload: Workload) -> JobPlan:
    """Start, stop or release, as the workload's admission demands of the job."""
    if is_evicted(workload) and (not case.suspended or has_quota_reservation(workload)):
        return _evicted(case, workload)
    if (expired := _expiry(case, workload)) is not None:
        return expired
    if not case.suspended:
        if is_admitted(workload) or is_elastic(case):
            return IDLE  # new pods of an elastic job are gated instead
        return stop_plan(case, workload, "Not admitted by cluster queue")
    if is_admitted(workload):
        return _started(case, workload)
    return JobPlan(events=_awaited_checks(workload))


def _expiry(case: Case[J], workload: Workload) -> JobPlan | None:
    """The end of a job whose workload the system deactivated, once it was kept long enough; None: no such."""
    until = job_deletion_time(workload, case.rules.deactivated_kept_s)
    if until is None:
        return None
    if case.now < until:
        return JobPlan(wake_at=until)
    metadata = case.job.metadata
    gone = Delete(case.kind.resource, metadata.key, metadata.uid)
    return JobPlan((gone,), (told("Deleted", "Deleted job due to elapsed retention"),))


def _finished(outcome: Outcome, workload: Workload, now: float) -> JobPlan:
    reason = "Succeeded" if outcome.success else "Failed"
    status = finish_status(workload, reason, outcome.message or f"Job {reason.lower()}", now)
    return JobPlan(status_patch(WORKLOADS, workload, status), (finished_event(workload),))


def _readiness(case: Case[J], workload: Workload) -> tuple[Patch, ...]:
    if not case.rules.wait_for_pods_ready:
        return ()
    status = workload.status
    if not status.conditions:
        # Nobody has looked at it yet.  Absent means not ready; whoever admits it or makes it wait says so
        # in the same write.
        return ()
    ready = pods_ready_condition(workload, case.kind.pods_ready(case.job), case.now)
    if ready is None:
        return ()
    new = msgspec.structs.replace(status, conditions=with_conditions(status.conditions, ready))
    return status_patch(WORKLOADS, workload, new)


def _reclaimed(case: Case[J], workload: Workload) -> tuple[Patch, ...]:
    """Say how many pods are done for good, so that others may use their quota."""
    done = _done(case, workload)
    return status_patch(WORKLOADS, workload, msgspec.structs.replace(workload.status, reclaimable_pods=done))


def _done(case: Case[J], workload: Workload) -> tuple[ReclaimablePod, ...]:
    if not case.rules.gates.reclaimable_pods:
        return ()
    sizes = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    return tuple(
        ReclaimablePod(name=each.name, count=min(each.count, sizes[each.name]))
        for each in case.kind.reclaimable(case.job)
        if each.name in sizes  # pod sets that differ only in name are the same to a workload
    )


def _evicted(case: Case[J], workload: Workload) -> JobPlan:
    """Stop the job; once none of its pods holds capacity any more, give the quota back."""
    evicted = find_condition(workload.status.conditions, EVICTED)
    assert evicted is not None, f"{workload.metadata.key} is evicted without saying why"
    stop = stop_plan(case, workload, evicted.message)
    if stop.writes or not case.suspended or case.kind.is_active(case.job):
        return stop
    status = release_status(workload, case.now, case.rules.gates)
    assert status is not None, f"{workload.metadata.key} has quota, but none to release"
    # A kind may begin anew after a stop: its next admission counts the pods that are to run again.
    fresh = msgspec.structs.replace(status, reclaimable_pods=_done(case, workload))
    return JobPlan(status_patch(WORKLOADS, workload, fresh))


def _started(case: Case[J], workload: Workload) -> JobPlan:
    labelled = case.rules.gates.assign_queue_labels_for_pods
    infos = pod_set_infos(workload, case.around.flavors, with_queue_labels=labelled)
    if isinstance(infos, NotAdmitted):
        return JobPlan(events=(Event("Warning", "NotStarted", str(infos)),))
    if isinstance(infos, FlavorNotSeen):
        return JobPlan(lacks=str(infos))
    membership = case.around.membership
    if membership is not None and not isinstance(infos, InjectionConflict):
        if not membership.admitted:
            waits = f"Admitted, and waits for pod group {membership.group} to be placed whole"
            return JobPlan(events=(told("PodGroupPending", waits),))
        infos = with_group(infos, membership)
    start = infos if isinstance(infos, InjectionConflict) else case.kind.start(case.job, infos)
    if isinstance(start, InjectionConflict):
        status = finish_status(workload, "FailedToStart", start.message, case.now)
        return JobPlan(status_patch(WORKLOADS, workload, status), (finished_event(workload, start.message),))
    return JobPlan(start, (told("Started", f"Admitted by clusterQueue {_admitted_by(workload)}"),))


def _admitted_by(workload: Workload) -> str:
    admission = workload.status.admission
    assert admission is not None, f"{workload.metadata.key} starts without an admission"
    return admission.cluster_queue


def _awaited_checks(workload: Workload) -> tuple[Event, ...]:
    """What the checks that a reservation waits for have to say."""
    if not has_quota_reservation(workload):
        return ()
    checks = (each for each in workload.status.admission_checks if each.state == "Pending" and each.message)
    said = "; ".join(f"{each.name}: {each.message}" for each in checks)
    return (told("UpdatedAdmissionCheck", said),) if said else ()
