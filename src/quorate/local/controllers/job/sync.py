"""The sync of the Job controller: computes all writes from a job and its pods.

A result is executed in this order: discard, delete and create; then the status; then release. The status
lists the pods that will be released, so that after a crash at any point no pod is counted twice or missed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from quorate.api.batch import UncountedTerminatedPods
from quorate.api.meta import ConditionStatus, at_epoch, find_condition
from quorate.local.controllers.job.failure_policy import (
    Backoff,
    counts_against_limit,
    finished_at,
    has_failed,
)
from quorate.local.controllers.job.finish import (
    COMPLETIONS_REACHED,
    FinishedReason,
    are_completions_reached,
    deadline,
    finished_condition,
    finished_reason,
)
from quorate.local.controllers.job.pod_management import PodChanges, PodToCreate, manage_pods
from quorate.local.controllers.job.pod_summary import (
    PodSummary,
    count_ready,
    is_index_in_range,
    summarize_pods,
)
from quorate.local.controllers.job.types import Job, JobCondition, JobSpec, JobStatus, Pod

MAX_UNCOUNTED: Final = 500  # uids in the status, to limit the size of the object


@dataclass(frozen=True, slots=True)
class JobEvent:
    warning: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SyncResult:
    status: JobStatus
    backoff: Backoff  # valid once the status is written
    create: tuple[PodToCreate, ...] = ()
    discard: tuple[Pod, ...] = ()  # pods to release and then delete, without counting them
    delete: tuple[Pod, ...] = ()
    release: tuple[Pod, ...] = ()  # pods that lose the tracking finalizer
    events: tuple[JobEvent, ...] = ()
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
    """Return the status with released pods uncounted, and earlier uncounted ones counted."""
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

    Pods that end because the job failed count; pods that end because the job succeeded do not.
    """
    if (
        pod.status.phase == "Succeeded"
        or not is_index_in_range(spec, pod)
        or not counts_against_limit(spec, pod)
    ):
        return False
    if finished is None:
        return has_failed(spec, pod)
    return pod.status.phase == "Failed" or not finished.success


def _suspended_condition(
    spec: JobSpec, status: JobStatus, moment: datetime
) -> tuple[JobStatus, tuple[JobEvent, ...]]:
    """Set the condition Suspended; resuming restarts startTime, and so the deadline."""
    before = find_condition(status.conditions, "Suspended")
    suspended = before is not None and before.status == "True"
    if spec.suspend == suspended:
        return status, ()
    if spec.suspend:
        conditions = _with_job_condition(
            status.conditions, "Suspended", "True", "JobSuspended", "Job suspended", moment
        )
        return replace(status, conditions=conditions, start_time=None), (
            JobEvent(False, "Suspended", "Job suspended"),
        )
    conditions = _with_job_condition(
        status.conditions, "Suspended", "False", "JobResumed", "Job resumed", moment
    )
    return replace(status, conditions=conditions, start_time=moment), (
        JobEvent(False, "Resumed", "Job resumed"),
    )


def _finish_conditions(
    status: JobStatus, summary: PodSummary, finished: FinishedReason | None, moment: datetime
) -> tuple[JobStatus, tuple[JobEvent, ...]]:
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
        return replace(status, conditions=conditions), (JobEvent(True, finished.reason, finished.message),)
    return replace(status, conditions=conditions, completion_time=moment), (
        JobEvent(False, "Completed", "Job completed"),
    )


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
