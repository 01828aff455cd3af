"""The lifecycle of a Workload: a table of rules that computes its next status.

``decide_workload`` is the workload controller as a pure function of the newest object.  One rule acts at a
time, the first that applies, and the next call sees its result; a second call with the same input therefore
changes nothing.
"""

from typing import Final

from msgspec.structs import replace

from quorate.api.configuration import Configuration
from quorate.api.kueue import UNREADABLE, RequeueState, Workload, WorkloadStatus
from quorate.api.meta import Condition, find_condition, is_true
from quorate.api.names.kueue import ADMISSION_GATED_BY, JOB_UID, RESOURCE_IN_USE
from quorate.queueing import conditions as c
from quorate.queueing import inadmissible_reasons as r
from quorate.queueing.lifecycle import admission_checks, timeouts
from quorate.queueing.lifecycle.statuses import (
    clear_reservation,
    evict_status,
    finish_status,
    reset_admission_checks,
    unset_quota_reservation,
)
from quorate.queueing.lifecycle.transition import (
    ClusterQueueView,
    Event,
    LifecycleRule,
    LocalQueueView,
    QueueView,
    Transition,
    WorkloadContext,
    evict,
    eviction_events,
)
from quorate.queueing.typed_reasons import waiting_condition


def decide_workload(
    workload: Workload,
    queues: QueueView,
    configuration: Configuration,
    now: float,
    jitter: float,
    unplaced_since: float | None = None,
    replaced_by: Workload | None = None,
) -> Transition:
    """Return the next step of ``workload``; ``jitter`` in [0, 1) spreads the backoffs of many workloads.

    ``unplaced_since`` is when the oldest of its pods without a node was created (epoch seconds).
    ``replaced_by`` is the admitted slice that replaces ``workload``.

    The rules and their order are those of Kueue's workload controller.
    """
    context = WorkloadContext(workload, queues, configuration, now, jitter, unplaced_since, replaced_by)
    transition = _finish_orphan(context)
    if transition is not None:
        return transition
    transition = _note_readable(context)
    if transition is not None:
        return transition
    if c.is_finished(workload):
        return timeouts.apply_retention(context)
    for rule in _RULES:
        transition = rule(context)
        if transition is not None:
            return transition
    return timeouts.check_timeouts(context)


def _finish_orphan(context: WorkloadContext) -> Transition | None:
    """Finish a workload if its owner no longer exists, and remove its finalizer."""
    metadata = context.workload.metadata
    finishes = context.configuration.gates.finish_orphaned_workloads
    is_deleted = metadata.deletion_timestamp is not None
    if metadata.owner_references or not (is_deleted or (finishes and JOB_UID in metadata.labels)):
        return None
    status = None
    if finishes:
        status = finish_status(context.workload, c.OWNER_NOT_FOUND, c.OWNER_NOT_FOUND_TEXT, context.now)
    if status is not None or RESOURCE_IN_USE in metadata.finalizers:
        return Transition(status, release=True)
    return Transition() if is_deleted else None


def _note_readable(context: WorkloadContext) -> Transition | None:
    """Remove the condition that the workload could not be decoded."""
    status = context.workload.status
    if find_condition(status.conditions, UNREADABLE) is None:
        return None
    return Transition(replace(status, conditions=c.without_condition(status.conditions, UNREADABLE)))


def _finish_replaced(context: WorkloadContext) -> Transition | None:
    """Finish a slice once its replacement is admitted; the framework of the job does not matter."""
    new = context.replaced_by
    if new is None:
        return None
    text = (
        f"Replaced to accommodate a workload (UID: {new.metadata.uid}, "
        f"JobUID: {new.metadata.labels.get(JOB_UID, '')}) due to workload slice aggregation"
    )
    status = finish_status(context.workload, c.SLICE_REPLACED, text, context.now)
    return Transition(status, events=(Event("Normal", c.SLICE_REPLACED, text),))


def _repair_inconsistent_status(context: WorkloadContext) -> Transition | None:
    """Repair conditions and ``status.admission`` that contradict each other.

    QuotaReserved=True without an admission is refused by Kueue's webhook, which may not run.  An admission
    without QuotaReserved remains when another client releases the workload by server-side apply: omitting
    ``admission`` removes only the fields that the client owns.
    """
    workload, status, gates = context.workload, context.workload.status, context.configuration.gates
    if c.has_quota_reservation(workload) and status.admission is None:
        message = (
            f"workload {workload.metadata.key}: status.admission: nothing while the condition QuotaReserved "
            "was True, must name the cluster queue and flavors (leave both to the controllers)"
        )
        event = Event("Warning", c.shown_reason(c.MISCONFIGURED, gates), message)
        return Transition(
            unset_quota_reservation(workload, c.MISCONFIGURED, message, context.now, gates), events=(event,)
        )
    if not c.has_quota_reservation(workload) and (status.admission is not None or c.is_admitted(workload)):
        return Transition(clear_reservation(workload, context.now, gates))
    return None


def _write_conditions(context: WorkloadContext, *conditions: Condition) -> Transition:
    status = context.workload.status
    return Transition(replace(status, conditions=c.with_conditions(status.conditions, *conditions)))


def _reconcile_active(context: WorkloadContext) -> Transition | None:
    """Handle deactivation, reactivation and the end of a backoff."""
    workload, status = context.workload, context.workload.status
    if not workload.spec.active:
        return _evict_deactivated(context)
    if is_true(status.conditions, c.DEACTIVATION_TARGET):
        return Transition(deactivate=True)
    until = c.requeue_at(workload)
    if until is not None and until > context.now:
        return Transition(wake_at=until) if not c.has_quota_reservation(workload) else None
    requeued = find_condition(status.conditions, c.REQUEUED)
    parked_for = requeued.reason if requeued is not None and requeued.status == "False" else ""
    if parked_for.startswith(c.DEACTIVATED):
        return _requeue(context, "Reactivated", "The workload was reactivated")
    if parked_for in (c.PODS_READY_TIMEOUT, c.ADMISSION_CHECK, c.START_REFUSED):
        return _requeue(context, "BackoffFinished", "The workload backoff was finished")
    if c.has_quota_reservation(workload):
        return None
    if until is not None:
        return Transition(_without_backoff(workload))
    return None


def _requeue(context: WorkloadContext, reason: str, message: str) -> Transition:
    generation = context.workload.metadata.generation
    requeued = c.new_condition(c.REQUEUED, "True", reason, message, context.now, generation)
    status = _without_backoff(context.workload)
    return Transition(replace(status, conditions=c.with_conditions(status.conditions, requeued)))


def _without_backoff(workload: Workload) -> WorkloadStatus:
    """Return the status without the end of the backoff, keeping the count of retries."""
    state = workload.status.requeue_state
    count = state.count if state is not None else None
    return replace(workload.status, requeue_state=None if count is None else RequeueState(count=count))


def _evict_deactivated(context: WorkloadContext) -> Transition | None:
    workload, status = context.workload, context.workload.status
    target = find_condition(status.conditions, c.DEACTIVATION_TARGET)
    if c.is_evicted(workload):
        # Remove the target whatever the eviction was for: otherwise the workload cannot be reactivated.
        left = c.without_condition(status.conditions, c.DEACTIVATION_TARGET)
        checks = status.admission_checks
        if c.has_failed_check(workload):
            checks = reset_admission_checks(workload, context.now)
        new = replace(status, conditions=left, requeue_state=None, admission_checks=checks)
        return None if new == status else Transition(new)
    cause = target.reason if target is not None and target.status == "True" else ""
    reason = f"{c.DEACTIVATED}DueTo{cause}" if cause else c.DEACTIVATED
    message = _DEACTIVATED_TEXT
    if target is not None and cause:
        message = f"{message} due to {target.message}"
    evicted = evict_status(workload, reason, message, context.now, counted_as=(c.DEACTIVATED, cause))
    left = c.without_condition(evicted.conditions, c.DEACTIVATION_TARGET)
    new = replace(evicted, conditions=left, requeue_state=None)
    return Transition(new, events=eviction_events(workload, reason, message))


def _requeue_after_restart(context: WorkloadContext) -> Transition | None:
    """Requeue the workloads that were evicted because their queue was stopped, once it runs again."""
    requeued = find_condition(context.workload.status.conditions, c.REQUEUED)
    if requeued is None or requeued.status == "True":
        return None
    local, cluster = context.queues.local_queue, context.queues.cluster_queue
    if requeued.reason == c.LOCAL_QUEUE_STOPPED:
        runs = local.found and local.stop_policy == "None"
    else:
        runs = cluster is not None and cluster.found and cluster.stop_policy == "None"
    again = c.restarted(context.workload, context.now)
    return None if again is None or not runs else _requeue(context, again.reason, again.message)


def _reconcile_admission_gates(context: WorkloadContext) -> Transition | None:
    """Keep QuotaReserved in line with the annotation by which other controllers gate admission."""
    workload, gates = context.workload, context.configuration.gates
    if not gates.admission_gated_by:
        return None
    gated_by = workload.metadata.annotations.get(ADMISSION_GATED_BY, "")
    reserved = find_condition(workload.status.conditions, c.QUOTA_RESERVED)
    was_gated = reserved is not None and reserved.reason == c.ADMISSION_GATED
    if bool(gated_by) == was_gated:
        return None
    if gated_by:
        status = unset_quota_reservation(
            workload, c.ADMISSION_GATED, f"Admission is gated by: {gated_by}", context.now, gates
        )
        event = Event("Normal", "AdmissionGated", f"Workload admission is gated by: {gated_by}")
    else:
        text = "AdmissionGatedBy cleared, waiting for quota reservation"
        status = unset_quota_reservation(workload, c.PENDING_EVALUATION, text, context.now, gates)
        event = Event("Normal", "AdmissionGateCleared", "Admission gate cleared, workload is now admissible")
    return Transition(status, events=(event,))


def _reconcile_stopped_queues(context: WorkloadContext) -> Transition | None:
    """Evict or release the workloads of stopped and missing queues; the local queue is checked first."""
    workload, now, gates = context.workload, context.now, context.configuration.gates
    local, cluster = context.queues.local_queue, context.queues.cluster_queue
    if not c.has_quota_reservation(workload) or c.is_evicted(workload):
        return None
    if c.is_admitted(workload):
        if local.found and local.stop_policy == "HoldAndDrain":
            return evict(workload, c.LOCAL_QUEUE_STOPPED, "The LocalQueue is stopped", now)
        if cluster is not None and cluster.found and cluster.stop_policy == "HoldAndDrain":
            return evict(workload, c.CLUSTER_QUEUE_STOPPED, "The ClusterQueue is stopped", now)
        return None
    release = _release_reason("LocalQueue", local)
    if release is None and cluster is not None:
        release = _release_reason("ClusterQueue", cluster)
    return None if release is None else Transition(unset_quota_reservation(workload, *release, now, gates))


def _release_reason(kind: str, queue: LocalQueueView | ClusterQueueView) -> tuple[str, str] | None:
    """Return reason and message if the queue cancels a reservation that is not admitted; otherwise None."""
    if not queue.found or queue.terminating:
        return c.MISCONFIGURED, f"{kind} {queue.name} is terminating or missing"
    return None if queue.stop_policy == "None" else (c.SUSPENDED, f"{kind} {queue.name} is stopped")


def _update_unadmitted_conditions(context: WorkloadContext) -> Transition | None:
    """Keep QuotaReserved and Admitted of a workload that is not admitted up to date."""
    workload, gates = context.workload, context.configuration.gates
    new = []
    if not c.has_quota_reservation(workload):
        reserved = _expected_quota_reserved(context)
        if reserved is not None and not c.has_condition(workload, reserved):
            new += [reserved, *_waiting(context, reserved)]
    if gates.unadmitted_workloads_observability and (new or _shows_admitted(context)):
        admitted = c.not_admitted(workload, context.now, gates, reserving=c.has_quota_reservation(workload))
        if not c.has_condition(workload, admitted):
            new.append(admitted)
    return _write_conditions(context, *new) if new else None


def _shows_admitted(context: WorkloadContext) -> bool:
    """Return True if Admitted=False is due: not for a new workload, and not for one that is admitted."""
    types = {one.type for one in context.workload.status.conditions}
    explicit = context.configuration.gates.unadmitted_workloads_explicit_status
    is_new = not explicit and types.isdisjoint({c.QUOTA_RESERVED, c.ADMITTED})
    return not is_new and not c.is_admitted(context.workload)


def _expected_quota_reserved(context: WorkloadContext) -> Condition | None:
    """Return the QuotaReserved condition of a workload without quota; None to leave it as it is."""
    workload, now, gates = context.workload, context.now, context.configuration.gates
    old = find_condition(workload.status.conditions, c.QUOTA_RESERVED)
    if old is not None and old.reason in (c.ON_HOLD, c.ADMISSION_GATED):
        return None
    if not workload.spec.active:
        if not gates.unadmitted_workloads_observability:
            return None
        return c.not_reserved(workload, c.DEACTIVATED, _DEACTIVATED_TEXT, now, gates)
    blocked = _blocked_by(context.queues)
    if blocked is not None:
        reason = c.granular_reason((blocked,))
        return c.not_reserved(workload, reason, r.workload_reason_text(blocked), now, gates)
    if not gates.unadmitted_workloads_observability:
        # No longer true, and a workload is evaluated itself only if it is the first of its shape.
        is_outdated = old is not None and (
            _is_about_other_wait(old, workload)
            or (
                old.reason == "Inadmissible"
                and (_is_about_queues(old.message) or _was_misconfigured(context, old))
            )
        )
        return _not_evaluated(context) if is_outdated else None
    if (
        old is not None
        and _may_still_hold(old, context.queues)
        and not _was_misconfigured(context, old)
        and not _is_about_other_wait(old, workload)
    ):
        return None
    if old is None and not gates.unadmitted_workloads_explicit_status:
        return None
    return _not_evaluated(context)


def _not_evaluated(context: WorkloadContext) -> Condition:
    """Return the QuotaReserved condition of a workload that no cycle has evaluated."""
    workload, now, gates = context.workload, context.now, context.configuration.gates
    if is_true(workload.status.conditions, c.WAITING_FOR_REPLACEMENT):
        return c.not_reserved(workload, c.WAITING_FOR_REPLACEMENT, _REPLACEMENT_TEXT, now, gates)
    return c.not_reserved(workload, c.PENDING_EVALUATION, _EVALUATION_TEXT, now, gates)


def _is_about_other_wait(reserved: Condition, workload: Workload) -> bool:
    """Return True if a pod group waits for the cycle according to the condition, but for pods in fact."""
    waits = is_true(workload.status.conditions, c.WAITING_FOR_REPLACEMENT)
    return reserved.message == (_EVALUATION_TEXT if waits else _REPLACEMENT_TEXT)


def _may_still_hold(reserved: Condition, queues: QueueView) -> bool:
    """Return True if the granular reason of the condition may still hold although the queues are active."""
    if reserved.reason == c.MISCONFIGURED:
        cluster = queues.cluster_queue.name if queues.cluster_queue is not None else ""
        missing = (
            r.QueueMissing("LocalQueue", queues.local_queue.name),
            r.QueueMissing("ClusterQueue", cluster),
        )
        return reserved.message not in map(r.workload_reason_text, missing)
    return reserved.reason in c.CYCLE_REASONS or reserved.reason == c.PENDING_EVALUATION


def _was_misconfigured(context: WorkloadContext, reserved: Condition) -> bool:
    """Return True if this lifecycle reported a misconfiguration, which no admission cycle takes back."""
    return not context.configuration.scheduling.enabled and r.is_misconfiguration_text(reserved.message)


def _is_about_queues(message: str) -> bool:
    """Return True if ``message`` says that a queue is missing, inactive or stopped, whichever queue it is."""
    return message.startswith(("LocalQueue ", "ClusterQueue ")) and message.endswith(
        ("doesn't exist", "is not set", "is inactive", "is stopped", "is terminating or missing")
    )


def _waiting(context: WorkloadContext, reserved: Condition) -> tuple[Condition, ...]:
    """Return the typed reason beside ``reserved``, if that says why the queues do not admit the workload.

    Return none if another program reserves quota: its write would leave the reason in the status of a
    workload that has quota.
    """
    blocked = _blocked_by(context.queues) if context.configuration.scheduling.enabled else None
    if blocked is None or reserved.message != r.workload_reason_text(blocked):
        return ()
    return waiting_condition((blocked,), context.now, context.workload.metadata.generation)


def _blocked_by(queues: QueueView) -> r.QueueMissing | r.QueueInactive | r.Misconfiguration | None:
    """Return why the queues keep the workload from being admitted; None if they do not."""
    local, cluster = queues.local_queue, queues.cluster_queue
    if not local.found:
        return r.QueueMissing("LocalQueue", local.name)
    if local.terminating or local.stop_policy != "None":
        return r.QueueInactive("LocalQueue", local.name)
    if cluster is None or not cluster.found:
        return r.QueueMissing("ClusterQueue", cluster.name if cluster is not None else "")
    return queues.misconfiguration if cluster.active else r.QueueInactive("ClusterQueue", cluster.name)


def _end_wait(context: WorkloadContext) -> Transition | None:
    """End the wait of a workload that another program has admitted: no other rule writes then."""
    conditions = context.workload.status.conditions
    waits = find_condition(conditions, c.WAITING) is not None or is_true(conditions, c.PLANNED_START)
    if not waits or not c.has_quota_reservation(context.workload):
        return None
    return _write_conditions(context)


_DEACTIVATED_TEXT: Final = "The workload is deactivated"
_REPLACEMENT_TEXT: Final = "The pod group waits for replacement pods"
_EVALUATION_TEXT: Final = "Workload is pending evaluation in the scheduling queue"
_RULES: Final[tuple[LifecycleRule, ...]] = (
    _finish_replaced,
    _repair_inconsistent_status,
    admission_checks.extend_backoff,
    _reconcile_active,
    _requeue_after_restart,
    _reconcile_admission_gates,
    admission_checks.sync_admission_checks,
    admission_checks.sync_admitted,
    _update_unadmitted_conditions,
    _reconcile_stopped_queues,
    timeouts.report_unscheduled_pods,
    _end_wait,
)
