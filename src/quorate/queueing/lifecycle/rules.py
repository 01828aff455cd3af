"""The life of one Workload between decisions: what its status must become next.

Pure functions from the newest object to the whole new status.  ``decide_workload`` is the table of the
workload controller: one row acts at a time, the first that applies, and every call sees the result of the
previous one; a second call on the same world therefore changes nothing.  The others are the status that a
decision of the cycle, or the stopping of a job, brings.
"""

from typing import Final

from msgspec.structs import replace

from quorate.api.configuration import Configuration
from quorate.api.kueue import (
    ADMISSION_GATED_BY,
    JOB_UID,
    RESOURCE_IN_USE,
    RequeueState,
    StopPolicy,
    Workload,
    WorkloadStatus,
)
from quorate.api.meta import Condition, find_condition, is_true
from quorate.queueing import conditions as c
from quorate.queueing.conditions import (
    has_condition,
    new_condition,
    not_admitted,
    not_reserved,
    with_conditions,
    without_condition,
)
from quorate.queueing.lifecycle import admission_checks, timeouts
from quorate.queueing.lifecycle.statuses import (
    clear_reservation,
    evict_status,
    finish_status,
    unset_quota_reservation,
)
from quorate.queueing.lifecycle.transition import (
    Event,
    LifecycleRule,
    QueueView,
    Transition,
    WorkloadContext,
    evict,
    eviction_events,
)


def decide_workload(
    workload: Workload,
    queues: QueueView,
    configuration: Configuration,
    now: float,
    jitter: float,
    unplaced_since: float | None = None,
) -> Transition:
    """The next step of ``workload``; ``jitter`` in [0, 1) spreads the backoffs of many.

    ``unplaced_since`` is when the oldest of its pods that have no node was created (epoch seconds).

    The rows are those of the specification of Kueue's workload controller, in its order.
    """
    case = WorkloadContext(workload, queues, configuration, now, jitter, unplaced_since)
    transition = _follow_owner(case)
    if transition is not None:
        return transition
    if c.is_finished(workload):
        return timeouts.apply_retention(case)
    for row in _ROWS:
        transition = row(case)
        if transition is not None:
            return transition
    return timeouts.check_timeouts(case)


def _follow_owner(case: WorkloadContext) -> Transition | None:
    """Whom no job owns although one did, or who is on the way out alone, is finished and let go."""
    metadata = case.workload.metadata
    finishes = case.configuration.gates.finish_orphaned_workloads
    leaving = metadata.deletion_timestamp is not None
    if metadata.owner_references or not (leaving or (finishes and JOB_UID in metadata.labels)):
        return None
    status = None
    if finishes:
        status = finish_status(case.workload, "OwnerNotFound", "The workload has no owner", case.now)
    if status is not None or RESOURCE_IN_USE in metadata.finalizers:
        return Transition(status, release=True)
    return Transition() if leaving else None


def _undo_what_cannot_be(case: WorkloadContext) -> Transition | None:
    """Conditions that somebody wrote by hand, without what they stand on, or with what stood on them left.

    Kueue's webhook refuses the first of them; this holds where no webhook runs.  The last comes about when
    others release by server-side apply: leaving ``admission`` out takes back only what they themselves own.
    """
    workload, status, gates = case.workload, case.workload.status, case.configuration.gates
    if c.has_quota_reservation(workload) and status.admission is None:
        message = (
            f"workload {workload.metadata.key}: status.admission: nothing while the condition QuotaReserved "
            "was True, must name the cluster queue and flavors (leave both to the controllers)"
        )
        event = Event("Warning", c.shown_reason(c.MISCONFIGURED, gates), message)
        return Transition(
            unset_quota_reservation(workload, c.MISCONFIGURED, message, case.now, gates), events=(event,)
        )
    if not c.has_quota_reservation(workload) and (status.admission is not None or c.is_admitted(workload)):
        return Transition(clear_reservation(workload, case.now, gates))
    return None


def _told(case: WorkloadContext, *conditions: Condition, events: tuple[Event, ...] = ()) -> Transition:
    status = case.workload.status
    return Transition(
        replace(status, conditions=with_conditions(status.conditions, *conditions)), events=events
    )


def _follow_activity(case: WorkloadContext) -> Transition | None:
    """Deactivation, reactivation and the end of a backoff."""
    workload, status = case.workload, case.workload.status
    if not workload.spec.active:
        return _deactivation(case)
    if is_true(status.conditions, c.DEACTIVATION_TARGET):
        return Transition(deactivate=True)
    until = c.requeue_at(workload)
    if until is not None and until > case.now:
        return Transition(wake_at=until) if not c.has_quota_reservation(workload) else None
    requeued = find_condition(status.conditions, c.REQUEUED)
    parked_for = requeued.reason if requeued is not None and requeued.status == "False" else ""
    if parked_for.startswith(c.DEACTIVATED):
        return _requeue(case, "Reactivated", "The workload was reactivated")
    if c.has_quota_reservation(workload):
        return None
    if parked_for in (c.PODS_READY_TIMEOUT, c.ADMISSION_CHECK):
        return _requeue(case, "BackoffFinished", "The workload backoff was finished")
    if until is not None:
        return Transition(_without_backoff(workload))
    return None


def _requeue(case: WorkloadContext, reason: str, message: str) -> Transition:
    generation = case.workload.metadata.generation
    requeued = new_condition(c.REQUEUED, "True", reason, message, case.now, generation)
    status = _without_backoff(case.workload)
    return Transition(replace(status, conditions=with_conditions(status.conditions, requeued)))


def _without_backoff(workload: Workload) -> WorkloadStatus:
    """The end of the backoff removed, the count of retries kept."""
    state = workload.status.requeue_state
    count = state.count if state is not None else None
    return replace(workload.status, requeue_state=None if count is None else RequeueState(count=count))


def _deactivation(case: WorkloadContext) -> Transition | None:
    workload, status = case.workload, case.workload.status
    target = find_condition(status.conditions, c.DEACTIVATION_TARGET)
    if c.is_evicted(workload):
        # What called for it is done with, whatever it was evicted for: else it could never be reactivated.
        if status.requeue_state is None and target is None:
            return None
        left = without_condition(status.conditions, c.DEACTIVATION_TARGET)
        return Transition(replace(status, conditions=left, requeue_state=None))
    cause = target.reason if target is not None and target.status == "True" else ""
    reason = f"{c.DEACTIVATED}DueTo{cause}" if cause else c.DEACTIVATED
    message = _DEACTIVATED_TEXT
    if target is not None and cause:
        message = f"{message} due to {target.message}"
    evicted = evict_status(workload, reason, message, case.now, counted_as=(c.DEACTIVATED, cause))
    left = without_condition(evicted.conditions, c.DEACTIVATION_TARGET)
    new = replace(evicted, conditions=left, requeue_state=None)
    return Transition(new, events=eviction_events(workload, reason, message))


def _follow_restarts(case: WorkloadContext) -> Transition | None:
    """A queue that runs again takes back the workloads it was stopped under, whenever it was restarted."""
    requeued = find_condition(case.workload.status.conditions, c.REQUEUED)
    if requeued is None or requeued.status == "True":
        return None
    local, cluster = case.queues.local_queue, case.queues.cluster_queue
    if requeued.reason == c.LOCAL_QUEUE_STOPPED and local.found and local.stop_policy == "None":
        return _requeue(case, "LocalQueueRestarted", "The LocalQueue was restarted")
    if (
        requeued.reason == c.CLUSTER_QUEUE_STOPPED
        and cluster is not None
        and cluster.found
        and cluster.stop_policy == "None"
    ):
        return _requeue(case, "ClusterQueueRestarted", "The ClusterQueue was restarted")
    return None


def _follow_gates(case: WorkloadContext) -> Transition | None:
    """Who is gated by others is not queued; the annotation that says so goes when they let go."""
    workload, gates = case.workload, case.configuration.gates
    if not gates.admission_gated_by:
        return None
    by = workload.metadata.annotations.get(ADMISSION_GATED_BY, "")
    reserved = find_condition(workload.status.conditions, c.QUOTA_RESERVED)
    was_gated = reserved is not None and reserved.reason == c.ADMISSION_GATED
    if bool(by) == was_gated:
        return None
    if by:
        status = unset_quota_reservation(
            workload, c.ADMISSION_GATED, f"Admission is gated by: {by}", case.now, gates
        )
        event = Event("Normal", "AdmissionGated", f"Workload admission is gated by: {by}")
    else:
        text = "AdmissionGatedBy cleared, waiting for quota reservation"
        status = unset_quota_reservation(workload, c.PENDING_EVALUATION, text, case.now, gates)
        event = Event("Normal", "AdmissionGateCleared", "Admission gate cleared, workload is now admissible")
    return Transition(status, events=(event,))


def _follow_queues(case: WorkloadContext) -> Transition | None:
    """Queues that are stopped or gone: local queue first."""
    workload, now, gates = case.workload, case.now, case.configuration.gates
    local, cluster = case.queues.local_queue, case.queues.cluster_queue
    if not c.has_quota_reservation(workload) or c.is_evicted(workload):
        return None
    if c.is_admitted(workload):
        if local.found and local.stop_policy == "HoldAndDrain":
            return evict(workload, c.LOCAL_QUEUE_STOPPED, "The LocalQueue is stopped", now)
        if cluster is not None and cluster.found and cluster.stop_policy == "HoldAndDrain":
            return evict(workload, c.CLUSTER_QUEUE_STOPPED, "The ClusterQueue is stopped", now)
        return None
    lost = _lost_queue("LocalQueue", local.name, local.found, local.stop_policy)
    if lost is None and cluster is not None:
        present = cluster.found and not cluster.terminating
        lost = _lost_queue("ClusterQueue", cluster.name, present, cluster.stop_policy)
    return None if lost is None else Transition(unset_quota_reservation(workload, *lost, now, gates))


def _lost_queue(kind: str, name: str, present: bool, stop_policy: StopPolicy) -> tuple[str, str] | None:
    """The reason and the message with which a queue takes a reservation away; None: it does not."""
    if not present:
        return c.MISCONFIGURED, f"{kind} {name} is terminating or missing"
    return None if stop_policy == "None" else (c.SUSPENDED, f"{kind} {name} is stopped")


def _tell_why_not(case: WorkloadContext) -> Transition | None:
    """Keep the conditions of a workload that is not admitted true."""
    workload, gates = case.workload, case.configuration.gates
    new = []
    if not c.has_quota_reservation(workload):
        reserved = _standing(case)
        if reserved is not None and not has_condition(workload, reserved):
            new.append(reserved)
    if gates.unadmitted_workloads_observability and not c.is_admitted(workload):
        no = not_admitted(workload, case.now, gates, reserving=c.has_quota_reservation(workload))
        if not has_condition(workload, no):
            new.append(no)
    return _told(case, *new) if new else None


def _standing(case: WorkloadContext) -> Condition | None:
    """What QuotaReserved is to say of a workload without quota; None: whatever it says."""
    workload, now, gates = case.workload, case.now, case.configuration.gates
    old = find_condition(workload.status.conditions, c.QUOTA_RESERVED)
    if old is not None and old.reason in (c.ON_HOLD, c.ADMISSION_GATED):
        return None
    if not workload.spec.active:
        if not gates.unadmitted_workloads_observability:
            return None
        return not_reserved(workload, c.DEACTIVATED, _DEACTIVATED_TEXT, now, gates)
    blocked = _blocked(case.queues)
    if blocked is not None:
        return not_reserved(workload, *blocked, now, gates)
    if not gates.unadmitted_workloads_observability or (old is not None and _is_still_true(old, case.queues)):
        return None
    if old is None and not gates.unadmitted_workloads_explicit_status:
        return None
    return not_reserved(workload, c.PENDING_EVALUATION, _EVALUATION_TEXT, now, gates)


def _is_still_true(reserved: Condition, queues: QueueView) -> bool:
    """Whether what the condition tells, in the granular vocabulary, may be so with queues that run."""
    if reserved.reason == c.MISCONFIGURED:
        cluster = queues.cluster_queue.name if queues.cluster_queue is not None else ""
        missing = (_missing("LocalQueue", queues.local_queue.name), _missing("ClusterQueue", cluster))
        return reserved.message not in missing
    return reserved.reason in c.CYCLE_REASONS or reserved.reason == c.PENDING_EVALUATION


def _missing(kind: str, name: str) -> str:
    return f"{kind} {name} doesn't exist"


def _blocked(queues: QueueView) -> tuple[str, str] | None:
    """The reason and the message for which its queues keep a workload waiting."""
    local, cluster = queues.local_queue, queues.cluster_queue
    if not local.found:
        return c.MISCONFIGURED, _missing("LocalQueue", local.name)
    if local.stop_policy != "None":
        return c.SUSPENDED, f"LocalQueue {local.name} is inactive"
    if cluster is None or not cluster.found:
        return c.MISCONFIGURED, _missing("ClusterQueue", cluster.name if cluster is not None else "")
    return None if cluster.active else (c.SUSPENDED, f"ClusterQueue {cluster.name} is inactive")


_DEACTIVATED_TEXT: Final = "The workload is deactivated"
_EVALUATION_TEXT: Final = "Workload is pending evaluation in the scheduling queue"
_ROWS: Final[tuple[LifecycleRule, ...]] = (
    _undo_what_cannot_be,
    admission_checks.extend_backoff,
    _follow_activity,
    _follow_restarts,
    _follow_gates,
    admission_checks.sync_admission_checks,
    admission_checks.sync_admitted,
    _tell_why_not,
    _follow_queues,
)
