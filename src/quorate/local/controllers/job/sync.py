"""The decision of the Job controller: from a job and its pods to everything that is to be written.

A plan is carried out in this order: discard, delete and create; then the status; then release.  The status
names the pods that are about to be released, so a crash at any point counts nothing twice and nothing never.
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
    Verdict,
    deadline,
    has_completed,
    is_finished,
    judge,
)
from quorate.local.controllers.job.pod_management import NewPod, Staffing, staff
from quorate.local.controllers.job.pod_summary import Census, count_ready, format_indexes, take_census, within
from quorate.local.controllers.job.types import Job, JobCondition, JobSpec, JobStatus, Pod

MOST_UNCOUNTED: Final = 500  # uids in the status at once, which bounds the size of the object


@dataclass(frozen=True, slots=True)
class Event:
    warning: bool
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class JobPlan:
    status: JobStatus
    backoff: Backoff  # true once the status is written
    create: tuple[NewPod, ...] = ()
    discard: tuple[Pod, ...] = ()  # first released, then deleted: they count neither way
    delete: tuple[Pod, ...] = ()
    release: tuple[Pod, ...] = ()  # to lose the tracking finalizer
    events: tuple[Event, ...] = ()
    wake_at: float | None = None


def plan(job: Job, pods: Sequence[Pod], now: float, backoff: Backoff) -> JobPlan:
    """``pods`` are those the job controls; ``backoff`` is what the previous plan answered."""
    if is_finished(job.status) or job.metadata.deletion_timestamp:
        return JobPlan(job.status, backoff, release=tuple(pod for pod in pods if pod.tracked))
    census = take_census(job, pods)
    backoff = backoff.after(map(finished_at, census.new_succeeded), map(finished_at, census.new_failed))
    verdict = judge(job, census, now)
    staffing = Staffing() if verdict else staff(job, census, now, backoff)
    delete = census.active if verdict else ()
    gone = {pod.metadata.uid for pod in (*staffing.discard, *delete)}
    staying = [pod for pod in census.active if pod.metadata.uid not in gone]
    active = len(staying) + len(staffing.create)
    if verdict is None and has_completed(job, census, active):
        verdict = COMPLETIONS_REACHED
    release = _releasable(job.spec, census, staffing, verdict)

    status = replace(
        _account(job, census, release, verdict),
        active=active,
        ready=count_ready(staying),
        terminating=len(census.terminating) + len(gone),
    )
    moment = at_epoch(now)
    status, switched = (status, ()) if verdict else _switch(job.spec, status, moment)
    if status.start_time is None and not job.spec.suspend:
        status = replace(status, start_time=moment)
    status, ended = _conclude(status, census, verdict, moment)
    wakes = (staffing.wake_at, None if verdict else deadline(job.spec, status))
    return JobPlan(
        status,
        backoff,
        create=staffing.create,
        discard=staffing.discard,
        delete=delete,
        release=release,
        events=(*switched, *ended),
        wake_at=min((wake for wake in wakes if wake is not None), default=None),
    )


def _releasable(
    spec: JobSpec, census: Census, staffing: Staffing, verdict: Verdict | None
) -> tuple[Pod, ...]:
    """The pods whose outcome this plan records; of a job that is over, all that are left."""
    kept = {pod.metadata.uid for pod in staffing.discard}
    if verdict is None:
        kept |= {pod.metadata.uid for pod in census.inherited.values()}
        kept |= {pod.metadata.uid for pod in census.tracked if not _has_outcome(spec, pod)}
    return tuple(pod for pod in census.tracked if pod.metadata.uid not in kept)[:MOST_UNCOUNTED]


def _has_outcome(spec: JobSpec, pod: Pod) -> bool:
    return pod.status.phase == "Succeeded" or has_failed(spec, pod)


def _account(job: Job, census: Census, release: Sequence[Pod], verdict: Verdict | None) -> JobStatus:
    """The counters and indexes once the pods of ``release`` are listed, and those listed before counted."""
    status = job.status
    listed = status.uncounted_terminated_pods or UncountedTerminatedPods()
    tracked = {pod.metadata.uid for pod in census.tracked}
    new = [pod for pod in release if pod.metadata.uid not in {*listed.succeeded, *listed.failed}]
    succeeded = [uid for uid in listed.succeeded if uid in tracked]
    failed = [uid for uid in listed.failed if uid in tracked]
    status = replace(
        status,
        succeeded=status.succeeded + len(listed.succeeded) - len(succeeded),
        failed=status.failed + len(listed.failed) - len(failed),
    )
    failed += [pod.metadata.uid for pod in new if _is_loss(job.spec, pod, verdict)]
    if job.spec.indexed:
        status = replace(
            status, succeeded=len(census.completed), completed_indexes=format_indexes(census.completed)
        )
    else:
        succeeded += [pod.metadata.uid for pod in new if pod.status.phase == "Succeeded"]
    if job.spec.backoff_limit_per_index is not None:
        status = replace(status, failed_indexes=format_indexes(census.failed_indexes))
    uncounted = UncountedTerminatedPods(succeeded=tuple(succeeded), failed=tuple(failed))
    return replace(status, uncounted_terminated_pods=uncounted)


def _is_loss(spec: JobSpec, pod: Pod, verdict: Verdict | None) -> bool:
    """Whether a pod about to be released counts as failed.

    Those a failed job takes down with it do; those a job that succeeded no longer needs do not.
    """
    if pod.status.phase == "Succeeded" or not within(spec, pod) or not counts_against_limit(spec, pod):
        return False
    if verdict is None:
        return has_failed(spec, pod)
    return pod.status.phase == "Failed" or not verdict.success


def _switch(spec: JobSpec, status: JobStatus, moment: datetime) -> tuple[JobStatus, tuple[Event, ...]]:
    """The Suspended condition; a job that resumes starts anew, its deadline too."""
    before = find_condition(status.conditions, "Suspended")
    suspended = before is not None and before.status == "True"
    if spec.suspend == suspended:
        return status, ()
    if spec.suspend:
        conditions = _with(status.conditions, "Suspended", "True", "JobSuspended", "Job suspended", moment)
        return replace(status, conditions=conditions, start_time=None), (
            Event(False, "Suspended", "Job suspended"),
        )
    conditions = _with(status.conditions, "Suspended", "False", "JobResumed", "Job resumed", moment)
    return replace(status, conditions=conditions, start_time=moment), (
        Event(False, "Resumed", "Job resumed"),
    )


def _conclude(
    status: JobStatus, census: Census, verdict: Verdict | None, moment: datetime
) -> tuple[JobStatus, tuple[Event, ...]]:
    """The interim condition at once; the terminal one when every pod has ended and is counted."""
    if verdict is None:
        return status, ()
    conditions = status.conditions
    if find_condition(conditions, verdict.interim) is None:
        conditions = _with(conditions, verdict.interim, "True", verdict.reason, verdict.message, moment)
    if census.tracked or status.terminating or status.active:
        return replace(status, conditions=conditions), ()
    conditions = _with(conditions, verdict.terminal, "True", verdict.reason, verdict.message, moment)
    if not verdict.success:
        return replace(status, conditions=conditions), (Event(True, verdict.reason, verdict.message),)
    return replace(status, conditions=conditions, completion_time=moment), (
        Event(False, "Completed", "Job completed"),
    )


def _with(
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
