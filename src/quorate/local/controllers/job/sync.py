"""The sync of the Job controller: computes all writes from a job and its pods.

A result is executed in this order: discard, delete and create; then the status; then release. The status
lists the pods that will be released, so that after a crash at any point no pod is counted twice or missed.
Whether and why a job has finished follows the rules of batch/v1 in their order of precedence.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from quorate.api import codec
from quorate.api.batch import UncountedTerminatedPods
from quorate.api.meta import Condition, ConditionStatus, Struct, at_epoch, epoch, find_condition
from quorate.local.controllers.controller import ObjectEvent
from quorate.local.controllers.job.failure_policy import (
    Backoff,
    counts_against_limit,
    finished_at,
    has_failed,
    match_pod_failure_policy,
)
from quorate.local.controllers.job.pod_management import PodChanges, PodToCreate, manage_pods
from quorate.local.controllers.job.pod_summary import (
    PodSummary,
    count_ready,
    is_index_in_range,
    parse_indexes,
    summarize_pods,
)
from quorate.local.controllers.job.types import Job, JobCondition, JobSpec, JobStatus, Pod


@dataclass(frozen=True, slots=True)
class FinishedReason:
    """The outcome of a job; its pods may still be terminating."""

    success: bool
    reason: str
    message: str

    @property
    def interim(self) -> str:
        """Return the condition type to set while pods are terminating."""
        return "SuccessCriteriaMet" if self.success else "FailureTarget"

    @property
    def terminal(self) -> str:
        return "Complete" if self.success else "Failed"


COMPLETIONS_REACHED: Final = FinishedReason(
    True, "CompletionsReached", "Reached expected number of succeeded pods"
)
BACKOFF_LIMIT: Final = FinishedReason(
    False, "BackoffLimitExceeded", "Job has reached the specified backoff limit"
)
DEADLINE: Final = FinishedReason(False, "DeadlineExceeded", "Job was active longer than specified deadline")
TOO_MANY_FAILED_INDEXES: Final = FinishedReason(
    False, "MaxFailedIndexesExceeded", "Job has exceeded the specified maximal number of failed indexes"
)
FAILED_INDEXES: Final = FinishedReason(False, "FailedIndexes", "Job has failed indexes")


def finished_condition(status: JobStatus) -> JobCondition | None:
    """Return the condition Complete or Failed of a finished job."""
    ends = (condition for condition in status.conditions if condition.type in ("Complete", "Failed"))
    return next((condition for condition in ends if condition.status == "True"), None)


def deadline(spec: JobSpec, status: JobStatus) -> float | None:
    """Return when a job exceeds activeDeadlineSeconds; a suspended job has no deadline."""
    if spec.active_deadline_seconds is None or spec.suspend or status.start_time is None:
        return None
    return epoch(status.start_time) + spec.active_deadline_seconds


def finished_reason(job: Job, summary: PodSummary, now: float) -> FinishedReason | None:
    """Return why the job has finished although pods may still run; None if it has not finished.

    ``are_completions_reached`` decides about completions, after excess pods were deleted.
    """
    return (
        _recorded_reason(job)
        or _failed_by_policy(job, summary)
        or (BACKOFF_LIMIT if _exceeds_backoff_limit(job, summary) else None)
        or (DEADLINE if (end := deadline(job.spec, job.status)) is not None and now >= end else None)
        or _failed_by_indexes(job, summary)
        or _succeeded_by_policy(job, summary)
    )


def are_completions_reached(job: Job, summary: PodSummary, active: int) -> bool:
    """Return True if the job needs no more pods, and ``active`` pods are none."""
    if job.spec.completions is None:
        return summary.succeeded > 0 and active == 0  # success: the work queue is empty
    return summary.succeeded >= job.spec.completions and active == 0


def _recorded_reason(job: Job) -> FinishedReason | None:
    for success, type_ in ((False, "FailureTarget"), (True, "SuccessCriteriaMet")):
        condition: Condition | None = find_condition(job.status.conditions, type_)
        if condition and condition.status == "True":
            return FinishedReason(success, condition.reason, condition.message)
    return None


def _failed_by_policy(job: Job, summary: PodSummary) -> FinishedReason | None:
    if job.spec.pod_failure_policy is None:
        return None
    for pod in sorted(summary.tracked, key=lambda pod: pod.metadata.name):
        match = (
            match_pod_failure_policy(job.spec.pod_failure_policy, pod) if has_failed(job.spec, pod) else None
        )
        if match and match.action == "FailJob":
            return FinishedReason(False, "PodFailurePolicy", match.message)
    return None


class _TemplateSpec(Struct):
    restart_policy: str = "Always"


class _Template(Struct):
    """The field of a pod template that is read here."""

    spec: _TemplateSpec = _TemplateSpec()


def _exceeds_backoff_limit(job: Job, summary: PodSummary) -> bool:
    limit = job.spec.backoff_limit
    if limit is None:
        return False
    if summary.failed > limit:
        return True
    if codec.decode(_Template, job.spec.template).spec.restart_policy != "OnFailure":
        return False
    restarts = sum(
        container.restart_count
        for pod in summary.active
        for container in (*pod.status.container_statuses, *pod.status.init_container_statuses)
    )
    return restarts > 0 if limit == 0 else restarts >= limit


def _failed_by_indexes(job: Job, summary: PodSummary) -> FinishedReason | None:
    failed = len(summary.failed_indexes)
    if job.spec.max_failed_indexes is not None and failed > job.spec.max_failed_indexes:
        return TOO_MANY_FAILED_INDEXES
    if failed and failed + len(summary.completed) >= (job.spec.completions or 0):
        return FAILED_INDEXES
    return None


def _succeeded_by_policy(job: Job, summary: PodSummary) -> FinishedReason | None:
    for number, rule in enumerate(job.spec.success_policy.rules if job.spec.success_policy else ()):
        relevant = summary.completed
        wanted = rule.succeeded_count
        if rule.succeeded_indexes is not None:
            named = parse_indexes(rule.succeeded_indexes, job.spec.completions or 0)
            relevant = relevant & named
            wanted = len(named) if wanted is None else wanted
        if wanted is not None and len(relevant) >= wanted:
            return FinishedReason(True, "SuccessPolicy", f"Matched rules at index {number}")
    return None


MAX_UNCOUNTED: Final = 500  # uids in the status, to limit the size of the object


@dataclass(frozen=True, slots=True)
class SyncResult:
    status: JobStatus
    backoff: Backoff  # valid once the status is written
    create: tuple[PodToCreate, ...] = ()
    discard: tuple[Pod, ...] = ()  # pods to release and then delete, without counting them
    delete: tuple[Pod, ...] = ()
    release: tuple[Pod, ...] = ()  # pods that lose the tracking finalizer
    events: tuple[ObjectEvent, ...] = ()
    wake_at: float | None = None


def sync_job(job: Job, pods: Sequence[Pod], now: float, backoff: Backoff) -> SyncResult:
    """Compute the sync result from the controlled pods and the previous backoff."""
    tracked = tuple(pod for pod in pods if pod.has_tracking_finalizer)
    if finished_condition(job.status):
        return SyncResult(job.status, backoff, release=tracked)
    summary = summarize_pods(job, pods)
    if job.metadata.deletion_timestamp:  # its pods are released and counted, and no more of them created
        status = replace(
            job.status,
            active=len(summary.active),
            ready=count_ready(summary.active),
            terminating=len(summary.terminating),
        )
        return SyncResult(status, backoff, release=tracked)
    backoff = backoff.after(map(finished_at, summary.new_succeeded), map(finished_at, summary.new_failed))
    finished = finished_reason(job, summary, now)
    changes = PodChanges() if finished else manage_pods(job, summary, now, backoff)
    delete = summary.active if finished else ()
    gone = {pod.metadata.uid for pod in (*changes.discard, *delete)}
    staying = [pod for pod in summary.active if pod.metadata.uid not in gone]
    active = len(staying) + len(changes.create)
    if finished is None and are_completions_reached(job, summary, active):
        finished = COMPLETIONS_REACHED
    release = _pods_to_release(job.spec, summary, changes, finished)

    status = replace(
        _counted_status(job, summary, release, finished),
        active=active,
        ready=count_ready(staying),
        terminating=len(summary.terminating) + len(gone),
    )
    moment = at_epoch(now)
    status, suspension_events = (status, ()) if finished else _suspended_condition(job.spec, status, moment)
    if status.start_time is None and not job.spec.suspend:
        status = replace(status, start_time=moment)
    status, ended = _finish_conditions(status, summary, finished, moment)
    wakes = (changes.wake_at, None if finished else deadline(job.spec, status))
    return SyncResult(
        status,
        backoff,
        create=changes.create,
        discard=changes.discard,
        delete=delete,
        release=release,
        events=(*suspension_events, *ended),
        wake_at=min((wake for wake in wakes if wake is not None), default=None),
    )


def _pods_to_release(
    spec: JobSpec, summary: PodSummary, changes: PodChanges, finished: FinishedReason | None
) -> tuple[Pod, ...]:
    """Return the pods with an outcome to record now; all remaining pods of a finished job."""
    kept = {pod.metadata.uid for pod in changes.discard}
    if finished is None:
        kept |= {pod.metadata.uid for pod in summary.last_failed.values()}
        kept |= {pod.metadata.uid for pod in summary.tracked if not _has_outcome(spec, pod)}
    return tuple(pod for pod in summary.tracked if pod.metadata.uid not in kept)[:MAX_UNCOUNTED]


def _has_outcome(spec: JobSpec, pod: Pod) -> bool:
    return pod.status.phase == "Succeeded" or has_failed(spec, pod)


def _counted_status(
    job: Job, summary: PodSummary, release: Sequence[Pod], finished: FinishedReason | None
) -> JobStatus:
    """Return the status that lists released pods as uncounted, and counts the pods that it listed before."""
    status = job.status
    listed = status.uncounted_terminated_pods or UncountedTerminatedPods()
    tracked = {pod.metadata.uid for pod in summary.tracked}
    new = [pod for pod in release if pod.metadata.uid not in {*listed.succeeded, *listed.failed}]
    succeeded = [uid for uid in listed.succeeded if uid in tracked]
    failed = [uid for uid in listed.failed if uid in tracked]
    status = replace(
        status,
        succeeded=status.succeeded + len(listed.succeeded) - len(succeeded),
        failed=status.failed + len(listed.failed) - len(failed),
    )
    failed += [pod.metadata.uid for pod in new if _counts_as_failed(job.spec, pod, finished)]
    if job.spec.indexed:
        status = replace(status, succeeded=len(summary.completed), completed_indexes=str(summary.completed))
    else:
        succeeded += [pod.metadata.uid for pod in new if pod.status.phase == "Succeeded"]
    if job.spec.backoff_limit_per_index is not None:
        status = replace(status, failed_indexes=str(summary.failed_indexes))
    uncounted = UncountedTerminatedPods(succeeded=tuple(succeeded), failed=tuple(failed))
    return replace(status, uncounted_terminated_pods=uncounted)


def _counts_as_failed(spec: JobSpec, pod: Pod, finished: FinishedReason | None) -> bool:
    """Return True if a released pod counts as failed.

    Pods that end because the job failed count; pods that end because the job succeeded do not, except those
    that are being deleted before.
    """
    if (
        pod.status.phase == "Succeeded"
        or not is_index_in_range(spec, pod)
        or not counts_against_limit(spec, pod)
    ):
        return False
    return has_failed(spec, pod) or (finished is not None and not finished.success)


def _suspended_condition(
    spec: JobSpec, status: JobStatus, moment: datetime
) -> tuple[JobStatus, tuple[ObjectEvent, ...]]:
    """Set the condition Suspended; resuming restarts startTime, and so the deadline."""
    before = find_condition(status.conditions, "Suspended")
    suspended = before is not None and before.status == "True"
    if spec.suspend == suspended:
        return status, ()
    value: ConditionStatus = "True" if spec.suspend else "False"
    event = (
        ObjectEvent("Suspended", "Job suspended") if spec.suspend else ObjectEvent("Resumed", "Job resumed")
    )
    conditions = _with_job_condition(
        status.conditions, "Suspended", value, f"Job{event.reason}", event.message, moment
    )
    start_time = None if spec.suspend else moment
    return replace(status, conditions=conditions, start_time=start_time), (event,)


def _finish_conditions(
    status: JobStatus, summary: PodSummary, finished: FinishedReason | None, moment: datetime
) -> tuple[JobStatus, tuple[ObjectEvent, ...]]:
    """Set the interim condition, and the terminal one when all pods are counted."""
    if finished is None:
        return status, ()
    conditions = status.conditions
    if find_condition(conditions, finished.interim) is None:
        conditions = _with_job_condition(
            conditions, finished.interim, "True", finished.reason, finished.message, moment
        )
    if summary.tracked or status.terminating or status.active:
        return replace(status, conditions=conditions), ()
    conditions = _with_job_condition(
        conditions, finished.terminal, "True", finished.reason, finished.message, moment
    )
    if not finished.success:
        event = ObjectEvent(finished.reason, finished.message, warning=True)
        return replace(status, conditions=conditions), (event,)
    event = ObjectEvent("Completed", "Job completed")
    return replace(status, conditions=conditions, completion_time=moment), (event,)


def _with_job_condition(
    conditions: Sequence[JobCondition],
    type_: str,
    value: ConditionStatus,
    reason: str,
    message: str,
    moment: datetime,
) -> tuple[JobCondition, ...]:
    new = JobCondition(
        type=type_,
        status=value,
        reason=reason,
        message=message,
        last_probe_time=moment,
        last_transition_time=moment,
    )
    if all(old.type != type_ for old in conditions):
        return (*conditions, new)
    return tuple(new if old.type == type_ else old for old in conditions)
