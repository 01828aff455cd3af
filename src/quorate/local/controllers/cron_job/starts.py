"""When the jobs of a CronJob start: the rules of kube-controller-manager, as functions of the time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from quorate.api.batch import EMPTY_OBJECT
from quorate.api.events import ObjectReference
from quorate.api.meta import ObjectMeta, Struct, epoch
from quorate.kube.resources import Resource
from quorate.local.controllers.job import finish
from quorate.local.controllers.job.types import Job
from quorate.local.objects.cron import ConstantDelay, InvalidSchedule, Schedule, parse_schedule


class CronJobSpec(Struct):
    schedule: str
    time_zone: str = ""
    starting_deadline_seconds: int | None = None
    concurrency_policy: str = "Allow"
    suspend: bool = False
    successful_jobs_history_limit: int = 3
    failed_jobs_history_limit: int = 1
    job_template: msgspec.Raw = EMPTY_OBJECT

    def __post_init__(self) -> None:
        msgspec.structs.force_setattr(self, "job_template", self.job_template.copy())


class CronJobStatus(Struct):
    active: tuple[ObjectReference, ...] = ()
    last_schedule_time: datetime | None = None
    last_successful_time: datetime | None = None


class CronJob(Struct):
    metadata: ObjectMeta
    spec: CronJobSpec
    status: CronJobStatus = CronJobStatus()


CRON_JOBS: Final = Resource("batch", "v1", "cronjobs", "CronJob", True, CronJob)


MANY_MISSED: Final = 100
START_DELAY_S: Final = 0.1  # after the scheduled time, so that a clock that is a little behind is past it


@dataclass(frozen=True, slots=True)
class CronEvent:
    reason: str
    message: str
    warning: bool = False


@dataclass(frozen=True, slots=True)
class StartDecision:
    """The time of the job to create now, when to decide again, and what to report."""

    start_at: float | None = None
    replaces_active: bool = False  # delete the active jobs first
    wake_at: float | None = None
    events: tuple[CronEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class _LastTimes:
    """The newest scheduled time that has passed since the last start; None if none has."""

    newest: float | None
    missed: int = 0


def decide_start(cron_job: CronJob, now: float) -> StartDecision:
    """Decide whether a job starts now.  The status lists the active jobs."""
    spec = cron_job.spec
    if cron_job.metadata.deletion_timestamp is not None or spec.suspend:
        return StartDecision()
    try:
        schedule = parse_schedule(spec.schedule, spec.time_zone or "UTC")
    except InvalidSchedule as error:
        message = f"cannot parse schedule {spec.schedule!r}: {error}"
        return StartDecision(events=(CronEvent("UnparseableSchedule", message, warning=True),))
    earliest = _last_start(cron_job)
    deadline_s = spec.starting_deadline_seconds
    since = earliest if deadline_s is None else max(earliest, now - deadline_s)
    last = _last_times(schedule, since, now)
    wake_at = _wake_at(schedule, earliest, now)
    if last.newest is None:
        return StartDecision(wake_at=wake_at)
    events: tuple[CronEvent, ...] = ()
    if last.missed > MANY_MISSED:
        message = (
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        )
        events = (CronEvent("TooManyMissedTimes", message, warning=True),)
    if last.newest == earliest or job_name(cron_job, last.newest) in _active_names(cron_job):
        return StartDecision(wake_at=wake_at, events=events)
    if spec.concurrency_policy == "Forbid" and cron_job.status.active:
        message = "Not starting job because prior execution is running and concurrency policy is Forbid"
        return StartDecision(wake_at=wake_at, events=(*events, CronEvent("JobAlreadyActive", message)))
    following = schedule.next_after(last.newest)
    return StartDecision(
        start_at=last.newest,
        replaces_active=spec.concurrency_policy == "Replace",
        wake_at=None if following is None else following + START_DELAY_S,
        events=events,
    )


def job_name(cron_job: CronJob, start_at: float) -> str:
    """Return the name of the job of a time, which is the same whenever it is created."""
    return f"{cron_job.metadata.name}-{int(start_at) // 60}"


def finished_jobs_to_delete(cron_job: CronJob, jobs: Sequence[Job]) -> list[Job]:
    """Return the finished jobs beyond the history limits, the oldest first."""
    limits = (
        ("Complete", cron_job.spec.successful_jobs_history_limit),
        ("Failed", cron_job.spec.failed_jobs_history_limit),
    )
    surplus: list[Job] = []
    for condition, limit in limits:
        finished = sorted(
            (job for job in jobs if finished_condition(job) == condition),
            key=lambda job: (job.status.start_time is None, job.status.start_time or 0, job.metadata.name),
        )
        surplus += finished[: max(len(finished) - limit, 0)]
    return surplus


def finished_condition(job: Job) -> str:
    """Return Complete or Failed; empty for an unfinished job."""
    condition = finish.finished_condition(job.status)
    return condition.type if condition else ""


def _active_names(cron_job: CronJob) -> set[str]:
    return {reference.name for reference in cron_job.status.active}


def _last_start(cron_job: CronJob) -> float:
    last = cron_job.status.last_schedule_time or cron_job.metadata.creation_timestamp
    assert last is not None, f"CronJob {cron_job.metadata.key} was created at no time"
    return epoch(last)


def _last_times(schedule: Schedule | ConstantDelay, since: float, now: float) -> _LastTimes:
    """Return the newest of the scheduled times after ``since`` that have passed, and how many they are.

    The number is an estimate from the first interval, so that a long pause costs no more than a short one.
    """
    first = schedule.next_after(since)
    if first is None or first > now:
        return _LastTimes(None)
    second = schedule.next_after(first)
    if second is None or second > now:
        return _LastTimes(first, 1)
    interval_s = second - first
    missed = int((now - first) // interval_s) + 1
    newest: float | None = None
    at = schedule.next_after(first + (missed - 2) * interval_s)
    while at is not None and at <= now:
        newest, at = at, schedule.next_after(at)
    return _LastTimes(newest, missed)


def _wake_at(schedule: Schedule | ConstantDelay, earliest: float, now: float) -> float | None:
    last = _last_times(schedule, earliest, now)
    after = last.newest if last.newest is not None else now if last.missed else earliest
    following = schedule.next_after(after)
    return None if following is None else following + START_DELAY_S
