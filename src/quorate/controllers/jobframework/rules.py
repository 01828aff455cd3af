"""The rules of Kueue's generic job reconciler: a pure function of job and workloads.

A job has one workload.  It stays suspended until the workload is admitted, runs while it is, and is stopped
and restored when it no longer is.  The rules apply in order, and the first one that finds something to do
makes the plan; the rest is found when the results of its writes arrive.  The plan for a job that needs
nothing is empty.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace

import msgspec

from quorate.api.field_path import InvalidTemplate
from quorate.api.kueue import Workload
from quorate.api.meta import Condition, find_condition
from quorate.api.names.multikueue import CONTROLLER as MULTIKUEUE
from quorate.api.names.multikueue import ORIGIN
from quorate.controllers.executor import ObjectEvent, warning_event
from quorate.controllers.finalizers import finish_orphans, remove_finalizer
from quorate.controllers.jobframework.ensure_one_workload import ensure_one_workload, ensure_prebuilt_workload
from quorate.controllers.jobframework.interface import (
    NOT_ADMITTED,
    WORKLOAD_DELETED,
    WORKLOAD_EVICTED_DUE_TO,
    ComposableJobKind,
    J,
    JobKind,
    JobState,
    Outcome,
)
from quorate.controllers.jobframework.job_plan import IDLE, JobChange, JobOptions, JobPlan, ReconcileContext
from quorate.controllers.jobframework.native_gangs import with_native_groups
from quorate.controllers.jobframework.pod_reports import (
    reclaimable_now,
    report_pods_ready,
    report_reclaimable,
)
from quorate.controllers.jobframework.podset_info import (
    FlavorNotFound,
    InjectionConflict,
    NotAdmitted,
    pod_set_infos,
    with_group,
)
from quorate.controllers.jobframework.sync_workload import sync_workload
from quorate.controllers.jobframework.workload_slices import ensure_slice, is_size_of_copy, without_nodes
from quorate.controllers.limits import NATIVE_GANGS_CHECK_S, NATIVE_GROUPS_RETRY_S
from quorate.controllers.native_groups import Missing
from quorate.kube.resources import WORKLOADS
from quorate.kube.writes import Patch, Write, status_patch
from quorate.queueing import conditions as c
from quorate.queueing.lifecycle.admission_checks import is_delegated
from quorate.queueing.lifecycle.statuses import finish_status, release_status, unset_quota_reservation
from quorate.queueing.lifecycle.timeouts import job_deletion_time


def decide(
    kind: JobKind[J],
    job: J | None,
    workloads: Iterable[Workload],
    context: ReconcileContext,
    options: JobOptions,
    now: float,
) -> JobPlan:
    """Return the next step for a job, given the job and its workloads.

    ``workloads`` are those controlled by a job of this kind, namespace and name; for a composable kind the
    one with the name of the job.  A job of which the pods cannot be read gets an event, and no workload; the
    end and the eviction of the workload that it has are not affected.
    """
    owned = sorted(workloads, key=lambda workload: workload.metadata.age_order)
    try:
        return _decide(kind, job, owned, context, options, now)
    except (InvalidTemplate, msgspec.ValidationError) as invalid:
        assert job is not None, "only jobs are read"
        event = warning_event(kind.reference(job), "ErrWorkloadCompose", str(invalid))
    plan = IDLE
    with suppress(InvalidTemplate, msgspec.ValidationError):
        plan = _without_pod_sets(kind, job, owned, context, options, now)
    return replace(plan, events=(*plan.events, event))


def _without_pod_sets(
    kind: JobKind[J],
    job: J,
    owned: Sequence[Workload],
    context: ReconcileContext,
    options: JobOptions,
    now: float,
) -> JobPlan:
    """Finish or evict the workload of a job that may run although its pods cannot be read (any more).

    The runtime of a TrainJob may have been deleted, for example.  Raises ``InvalidTemplate``.
    """
    state = JobState(kind, job, (), kind.is_suspended(job), kind.finished(job), context, options, now)
    holder = next((item for item in owned if c.is_finished(item) or c.has_quota_reservation(item)), None)
    if holder is None or isinstance(kind, ComposableJobKind) or kind.is_serving(job):
        return IDLE
    if c.is_finished(holder) or holder.metadata.deletion_timestamp is not None:
        return _with_workload(state, holder)
    if state.outcome is not None:
        return _finish(state, state.outcome, holder)
    return _evict(state, holder) if c.is_evicted(holder) else IDLE


def _decide(
    kind: JobKind[J],
    job: J | None,
    owned: list[Workload],
    context: ReconcileContext,
    options: JobOptions,
    now: float,
) -> JobPlan:
    if job is not None and kind.is_skipped(job):
        return IDLE
    if job is None or kind.is_deleted(job):
        return _without_job(kind, job, owned, options, now)
    if context.namespace_managed and context.ancestor_workloads is not None:
        admitted = any(
            c.is_admitted(workload) and not c.is_finished(workload) for workload in context.ancestor_workloads
        )
        return kind.child_plan(job, ancestor_admitted=admitted)
    if not (context.namespace_managed and kind.is_managed(job, options)):
        return kind.release_ended(job)
    state = JobState.of(kind, job, context, options, now)
    if state.native is None:
        return JobPlan(wake_at=now + NATIVE_GROUPS_RETRY_S)
    if isinstance(kind, ComposableJobKind):
        if context.namespace_deleted:
            return kind.release_ended(job)
        composed = kind.ensure_one_workload(state, owned[0] if owned else None)
        return composed if isinstance(composed, JobPlan) else _with_workload(*composed)
    if state.names_workload:
        prebuilt = context.prebuilt
        if prebuilt is not None and is_size_of_copy(state, prebuilt):
            outcome: JobPlan | Workload = prebuilt
        else:
            outcome = ensure_prebuilt_workload(state, prebuilt)
    elif state.is_elastic:
        outcome = ensure_slice(state, owned)
    else:
        outcome = ensure_one_workload(state, owned)
    return outcome if isinstance(outcome, JobPlan) else _with_workload(state, outcome)


def _without_job(
    kind: JobKind[J],
    job: J | None,
    owned: list[Workload],
    options: JobOptions,
    now: float,
) -> JobPlan:
    """Finish the workloads of a job that is gone or deleted.

    A deleted job that others keep by a finalizer may have pods, which nothing stops: its workload keeps the
    quota until they have ended.
    """
    if isinstance(kind, ComposableJobKind):
        return kind.orphan_plan(owned[0], options, now) if owned else IDLE
    finalized: tuple[tuple[Write, ...], ...] = ()
    if job is not None:
        finalized = kind.finalize(job)
        if kind.is_active(job):
            owned = [
                owned_workload
                for owned_workload in owned
                if c.is_finished(owned_workload) or not c.has_quota_reservation(owned_workload)
            ]
    return JobPlan(concurrent=finalized, writes=finish_orphans(owned, options.gates, now))


def _with_workload(state: JobState[J], workload: Workload) -> JobPlan:
    kind, job = state.kind, state.job
    if c.is_finished(workload):
        writes = remove_finalizer(WORKLOADS, workload.metadata)
        # If the job itself has not finished, another actor finished the workload: report it on the job.
        events = _finished_events(state, workload) if writes and state.outcome is None else ()
        return JobPlan(concurrent=kind.finalize(job), writes=writes, events=events)
    if workload.metadata.deletion_timestamp is not None:
        stop = _stop(state, workload, WORKLOAD_DELETED, "Workload is deleted")
        if stop.stopping or (c.has_quota_reservation(workload) and _may_have_pods(state, stop)):
            return stop
        return stop.then(
            JobPlan(
                concurrent=kind.finalize(job),
                writes=remove_finalizer(WORKLOADS, workload.metadata),
                releases=_uncounted(kind, (workload,), state.context),
            )
        )
    sync = IDLE if kind.is_serving(job) else sync_workload(state, workload)
    if sync.writes:
        return sync
    return sync.then(_follow_status(state, workload))


def _follow_status(state: JobState[J], workload: Workload) -> JobPlan:
    """Apply the rules for the progress of the job and the conditions of its workload."""
    if state.kind.is_on_hold(state):
        return _hold(state, workload)
    if state.outcome is not None:
        return _finish(state, state.outcome, workload)
    if (
        patches := _end_hold(state, workload)
        or _report_conditions(state, workload)
        or report_pods_ready(state, workload)
    ):
        return JobPlan(writes=patches)
    plan = _next_step(state, workload)
    if not plan.all_writes and (patches := _note_updated(workload)):
        return JobPlan(writes=patches)
    return report_reclaimable(state, workload) if plan == IDLE else plan


def _hold(state: JobState[J], workload: Workload) -> JobPlan:
    """Release the quota of a job on hold; its workload stays."""
    if not c.has_quota_reservation(workload):
        return IDLE
    gates = state.options.gates
    status = unset_quota_reservation(workload, c.ON_HOLD, "Job is on hold", state.now, gates)
    released = _uncounted(state.kind, (workload,), state.context)
    return JobPlan(writes=status_patch(WORKLOADS, workload, status), releases=released)


def _end_hold(state: JobState[J], workload: Workload) -> tuple[Patch, ...]:
    """Queue the workload again when its hold has ended; another reconciler holds serving groups."""
    reserved = find_condition(workload.status.conditions, c.QUOTA_RESERVED)
    if reserved is None or reserved.reason != c.ON_HOLD or state.kind.is_serving(state.job):
        return ()
    text = "Workload no longer on hold; waiting for quota reservation"
    pending = c.not_reserved(workload, c.PENDING_EVALUATION, text, state.now, state.options.gates)
    return _conditions_patch(workload, c.with_conditions(workload.status.conditions, pending))


def _conditions_patch(workload: Workload, conditions: tuple[Condition, ...]) -> tuple[Patch, ...]:
    status = msgspec.structs.replace(workload.status, conditions=conditions)
    return status_patch(WORKLOADS, workload, status)


def _report_conditions(state: JobState[J], workload: Workload) -> tuple[Patch, ...]:
    before = workload.status.conditions
    conditions = c.with_conditions(before, *state.kind.conditions(state, workload))
    return () if conditions == before else _conditions_patch(workload, conditions)


def _note_updated(workload: Workload) -> tuple[Patch, ...]:
    """Remove the condition of a refused change once nothing is left to change."""
    conditions = workload.status.conditions
    if find_condition(conditions, c.JOB_UPDATED) is None:
        return ()
    return _conditions_patch(workload, c.without_condition(conditions, c.JOB_UPDATED))


def _finish(state: JobState[J], outcome: Outcome, workload: Workload) -> JobPlan:
    reason = "Succeeded" if outcome.success else "Failed"
    # Both workloads of a job in a worker cluster have the message of the job, which may be none.
    is_copy = ORIGIN in workload.metadata.labels
    is_dispatched = is_copy or is_delegated(workload, state.context.checks)
    message = "" if is_dispatched else f"Job {reason.lower()}"
    return _finished(state, workload, reason, outcome.message or message)


def _finished(
    state: JobState[J], workload: Workload, reason: str, message: str, reported: str = ""
) -> JobPlan:
    """Finish the workload with ``message``; ``reported``: why, for the event of the job."""
    status = finish_status(workload, reason, message, state.now)
    events = _finished_events(state, workload, reported)
    return JobPlan(writes=status_patch(WORKLOADS, workload, status), events=events)


def _finished_events(state: JobState[J], workload: Workload, why: str = "") -> tuple[ObjectEvent, ...]:
    if not state.kind.reports_workload:
        return ()
    text = f"Workload '{workload.metadata.key}' is declared finished"
    return (state.event("FinishedWorkload", f"{text}: {why}" if why else text),)


def _next_step(state: JobState[J], workload: Workload) -> JobPlan:
    """Start, stop, delete or release quota, as the workload's conditions demand."""
    kind = state.kind
    if c.is_evicted(workload) and (not kind.is_stopped(state.job) or c.has_quota_reservation(workload)):
        return _evict(state, workload)
    if (deletion := _delete_after_retention(state, workload)) is not None:
        return deletion
    if state.suspended and c.is_admitted(workload):
        counted_at = state.counted_at
        return _start(state, workload) if counted_at is None else JobPlan(wake_at=counted_at)
    if state.suspended:
        return JobPlan(events=_pending_check_events(state, workload))
    if c.is_admitted(workload) or state.is_elastic:
        return IDLE  # new pods of an elastic job are gated
    return _stop(state, workload, NOT_ADMITTED, "Not admitted by cluster queue")


def _delete_after_retention(state: JobState[J], workload: Workload) -> JobPlan | None:
    """Delete a deactivated job at the end of its retention; None: no retention applies."""
    deletion_time = job_deletion_time(workload, state.options.deactivated_retention_s)
    if deletion_time is None or state.kind.is_serving(state.job):
        return None
    if state.now < deletion_time:
        return JobPlan(wake_at=deletion_time)
    return state.kind.delete_plan(state, "Deleted job due to elapsed retention")


def _evict(state: JobState[J], workload: Workload) -> JobPlan:
    """Stop the job, and release its quota once none of its pods holds capacity any more."""
    kind = state.kind
    evicted = find_condition(workload.status.conditions, c.EVICTED)
    assert evicted is not None, f"{workload.metadata.key} is evicted without a condition"
    stop = _stop(state, workload, f"{WORKLOAD_EVICTED_DUE_TO}{evicted.reason}", evicted.message)
    if _may_have_pods(state, stop):
        return stop
    status = release_status(workload, state.now, state.options.gates)
    if status is None:
        return stop
    # The next admission is for the pods that the job may still run, whatever was admitted before.
    pods = reclaimable_now(state, msgspec.structs.replace(workload, status=status)) if state.pod_sets else ()
    fresh = msgspec.structs.replace(status, reclaimable_pods=pods)
    release = JobPlan(
        writes=status_patch(WORKLOADS, workload, fresh),
        change=stop.change,
        releases=_uncounted(kind, (workload,), state.context),
    )
    return stop.then(release)


def _may_have_pods(state: JobState[J], stop: JobPlan) -> bool:
    """Return True if pods of a job that is being stopped may hold capacity, as far as its status tells."""
    kind, job = state.kind, state.job
    if kind.releases_quota_with_stop:
        return False
    return bool(stop.all_writes) or not kind.is_stopped(job) or kind.is_active(job)


def _uncounted(
    kind: JobKind[J], workloads: Iterable[Workload], context: ReconcileContext
) -> tuple[Workload, ...]:
    """Return the workloads with quota of which pods may run here that the job does not count."""
    if kind.releases_quota_with_stop or isinstance(kind, ComposableJobKind):
        return ()  # its pods are the job
    return tuple(
        workload
        for workload in workloads
        if c.has_quota_reservation(workload)
        and not c.is_finished(workload)
        and not is_delegated(workload, context.checks)
    )


def _stop(state: JobState[J], workload: Workload, reason: str, message: str) -> JobPlan:
    restored_by = workload if state.pod_sets else None  # pod sets that cannot be read are not restored
    plan = state.kind.stop_plan(state, restored_by, reason, message)
    change = JobChange(c.STOP_REFUSED, "the job cannot be stopped", workload)
    return replace(plan, change=change) if plan.all_writes else plan


def _runs_elsewhere(state: JobState[J], workload: Workload) -> bool:
    """Return True if a worker cluster runs the job, and a start would make it run here, too.

    A job that names MultiKueue as its controller is started: nothing here makes its pods.
    """
    return state.kind.manager_of(state.job) != MULTIKUEUE and is_delegated(workload, state.context.checks)


def _start(state: JobState[J], workload: Workload) -> JobPlan:
    if _runs_elsewhere(state, workload) or not state.kind.has_pods_to_start(state.job):
        return IDLE
    with_queue_labels = state.options.gates.assign_queue_labels_for_pods
    infos = pod_set_infos(
        workload,
        state.context.flavors,
        with_queue_labels=with_queue_labels,
        topology=state.options.topology is not None,
    )
    if isinstance(infos, NotAdmitted):
        reported = state.kind.reports_workload
        return JobPlan(events=(state.warning("NotStarted", str(infos)),) if reported else ())
    if isinstance(infos, FlavorNotFound):
        return JobPlan(missing_dependency=str(infos))
    if state.is_elastic and not isinstance(infos, InjectionConflict):
        infos = without_nodes(infos, state.kind.gated_pod_sets(state.job))
    membership = state.context.membership
    if membership is not None and not isinstance(infos, InjectionConflict):
        if not membership.admitted:
            text = f"Admitted, and waits for pod group {membership.group} to be placed whole"
            return JobPlan(events=(state.event("PodGroupPending", text),))
        infos = with_group(infos, membership)
    groups: tuple[Write, ...] = ()
    made = None if state.context.native_groups is None else state.context.native_groups.made
    has_group = membership is not None or (made is not None and not made.spec.is_default)
    native = None if has_group or state.is_elastic else state.context.native_gangs
    if isinstance(native, Missing):
        text = f"Admitted, and cannot start as a native gang: {native.value}"
        event = state.warning("NotStarted", text)
        return JobPlan(events=(event,), wake_at=state.now + NATIVE_GANGS_CHECK_S)
    if native is not None and not isinstance(infos, InjectionConflict):
        infos, groups = with_native_groups(
            native, infos, workload, state.owner, state.options.gang_schedulers
        )
    plan = infos if isinstance(infos, InjectionConflict) else state.kind.start_plan(state, workload, infos)
    if isinstance(plan, InjectionConflict):
        return _finished(state, workload, "FailedToStart", plan.message, plan.message)
    change = JobChange(c.START_REFUSED, "the job cannot be started", workload)
    return replace(plan, writes=(*groups, *plan.writes), change=change) if plan.all_writes else plan


def _pending_check_events(state: JobState[J], workload: Workload) -> tuple[ObjectEvent, ...]:
    """Report the messages of the admission checks that a reservation waits for."""
    if not (c.has_quota_reservation(workload) and state.kind.reports_workload):
        return ()
    checks = (
        check for check in workload.status.admission_checks if check.state == "Pending" and check.message
    )
    text = "; ".join(f"{check.name}: {check.message}" for check in checks)
    return (state.event("UpdatedAdmissionCheck", text),) if text else ()
