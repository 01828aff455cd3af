"""The CronJob controller: starts jobs by a schedule, and deletes old ones.

The rules are those of kube-controller-manager, as functions of the time.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import replace

from quorate.api.batch import EMPTY_OBJECT
from quorate.api.codec import Json
from quorate.api.events import ObjectReference
from quorate.api.meta import Key, ObjectMeta, Struct, at_epoch, epoch
from quorate.kube.errors import AlreadyExists, ApiError, NotFound
from quorate.kube.informer import Informer
from quorate.kube.resources import Resource, versioned_reference_to
from quorate.local.controllers import pod_control as control
from quorate.local.controllers.controller import Controller, ControllerContext, ObjectEvent
from quorate.local.controllers.job import sync
from quorate.local.controllers.job.types import JOBS, Job
from quorate.local.objects.cron import ConstantDelay, InvalidSchedule, Schedule, parse_schedule, time_zone
from quorate.local.own_writes import MutationCache


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
class StartDecision:
    """The time of the job to create now, when to decide again, and what to report."""

    start_at: float | None = None
    replaces_active: bool = False  # delete the active jobs first
    wake_at: float | None = None
    events: tuple[ObjectEvent, ...] = ()


def decide_start(cron_job: CronJob, now: float) -> StartDecision:
    """Decide whether a job starts now.  The status lists the active jobs."""
    spec = cron_job.spec
    if cron_job.metadata.deletion_timestamp is not None or spec.suspend:
        return StartDecision()
    try:
        schedule = parse_schedule(spec.schedule, spec.time_zone or "UTC")
    except InvalidSchedule as error:
        message = f"cannot parse schedule {spec.schedule!r}: {error}"
        return StartDecision(events=(ObjectEvent("UnparseableSchedule", message, warning=True),))
    earliest = _last_start(cron_job)
    deadline_s = spec.starting_deadline_seconds
    since = earliest if deadline_s is None else max(earliest, now - deadline_s)
    newest, missed = _last_times(schedule, since, now)
    wake_at = _wake_at(schedule, earliest, now)
    if newest is None:
        return StartDecision(wake_at=wake_at)
    events: tuple[ObjectEvent, ...] = ()
    if missed > MANY_MISSED:
        message = (
            "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        )
        events = (ObjectEvent("TooManyMissedTimes", message, warning=True),)
    if newest == earliest or job_name(cron_job, newest) in _active_names(cron_job):
        return StartDecision(wake_at=wake_at, events=events)
    if spec.concurrency_policy == "Forbid" and cron_job.status.active:
        message = "Not starting job because prior execution is running and concurrency policy is Forbid"
        return StartDecision(wake_at=wake_at, events=(*events, ObjectEvent("JobAlreadyActive", message)))
    following = schedule.next_after(newest)
    return StartDecision(
        start_at=newest,
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
    condition = sync.finished_condition(job.status)
    return condition.type if condition else ""


def _active_names(cron_job: CronJob) -> set[str]:
    return {reference.name for reference in cron_job.status.active}


def _last_start(cron_job: CronJob) -> float:
    last = cron_job.status.last_schedule_time or cron_job.metadata.creation_timestamp
    assert last is not None, f"CronJob {cron_job.metadata.key} was created at no time"
    return epoch(last)


def _last_times(schedule: Schedule | ConstantDelay, since: float, now: float) -> tuple[float | None, int]:
    """Return the newest of the scheduled times after ``since`` that have passed, and how many they are.

    The newest is None if none has passed.  The number is an estimate from the first interval, so that a long
    pause costs no more than a short one.
    """
    first = schedule.next_after(since)
    if first is None or first > now:
        return None, 0
    second = schedule.next_after(first)
    if second is None or second > now:
        return first, 1
    interval_s = second - first
    missed = int((now - first) // interval_s) + 1
    newest: float | None = None
    at = schedule.next_after(first + (missed - 2) * interval_s)
    while at is not None and at <= now:
        newest, at = at, schedule.next_after(at)
    return newest, missed


def _wake_at(schedule: Schedule | ConstantDelay, earliest: float, now: float) -> float | None:
    newest, missed = _last_times(schedule, earliest, now)
    after = newest if newest is not None else now if missed else earliest
    following = schedule.next_after(after)
    return None if following is None else following + START_DELAY_S


SCHEDULED_ANNOTATION = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class CronJobController(Controller):
    def __init__(self, context: ControllerContext, jobs: Informer[Job], cron_jobs: Informer[CronJob]) -> None:
        super().__init__("cron-job", context, cron_jobs, jobs, component="cronjob-controller")
        self._cron_jobs = MutationCache(cron_jobs, lambda cron_job: cron_job.metadata.key)
        self._jobs = jobs
        jobs.add_index("cron job", lambda job: (control.controller_key(job.metadata, CRON_JOBS.kind),))
        cron_jobs.subscribe(lambda change: self._reconciler.enqueue(change.key))
        control.enqueue_controllers(jobs, CRON_JOBS.kind, self._reconciler)

    async def reconcile(self, key: Key) -> float | None:
        cron_job = self._cron_jobs.get(key)
        if cron_job is None:
            return None
        jobs = [
            job
            for job in self._jobs.by_index("cron job", key)
            if control.is_controlled_by(job.metadata, cron_job.metadata.uid)
        ]
        await asyncio.gather(
            *(self._delete(cron_job, job) for job in finished_jobs_to_delete(cron_job, jobs))
        )
        status = await self._observed_status(cron_job, jobs)
        decision = decide_start(replace(cron_job, status=status), self._clock.now())
        for event in decision.events:
            self._report(cron_job, *event)
        if decision.start_at is not None:
            if decision.replaces_active:
                active = {reference.uid for reference in status.active}
                running = [job for job in jobs if job.metadata.uid in active]
                await asyncio.gather(*(self._delete(cron_job, job) for job in running))
                status = replace(status, active=())
            started = await self._start(cron_job, decision.start_at)
            if started is not None:
                status = replace(
                    status, active=(*status.active, started), last_schedule_time=at_epoch(decision.start_at)
                )
        await self._write_status(CRON_JOBS, cron_job, status, self._cron_jobs.record)
        return decision.wake_at

    async def _observed_status(self, cron_job: CronJob, jobs: Sequence[Job]) -> CronJobStatus:
        """Return the status without finished and missing jobs, and with the time of the last success."""
        finished = {job.metadata.uid: finished_condition(job) for job in jobs}
        active: list[ObjectReference] = []
        for reference in cron_job.status.active:
            if reference.uid not in finished and await self._is_missing(reference):
                message = f"Active job went missing: {reference.name}"
                self._report(cron_job, "MissingJob", message)
            elif finished.get(reference.uid):
                condition = finished[reference.uid]
                message = f"Saw completed job: {reference.name}, condition: {condition}"
                self._report(cron_job, "SawCompletedJob", message)
            else:
                active.append(reference)
        active_uids = {reference.uid for reference in cron_job.status.active}
        for job in jobs:
            if job.metadata.uid not in active_uids and not finished[job.metadata.uid]:
                message = f"Saw a job that the controller did not create or forgot: {job.metadata.name}"
                self._report(cron_job, "UnexpectedJob", message, warning=True)
        ends = [job.status.completion_time for job in jobs if finished[job.metadata.uid] == "Complete"]
        successes = [end for end in (*ends, cron_job.status.last_successful_time) if end is not None]
        return replace(
            cron_job.status, active=tuple(active), last_successful_time=max(successes, default=None)
        )

    async def _is_missing(self, reference: ObjectReference) -> bool:
        """Return True if no such job exists; the watch may not have delivered a new one yet."""
        job = await self._client.find(JOBS, Key(reference.namespace, reference.name))
        return job is None or job.metadata.uid != reference.uid

    async def _start(self, cron_job: CronJob, start_at: float) -> ObjectReference | None:
        """Create the job of a time; return its reference, or None if a job of another owner has its name."""
        name = job_name(cron_job, start_at)
        body = _job_body(cron_job, start_at, name)
        try:
            job = await self._client.create(JOBS, body, cron_job.metadata.namespace)
        except AlreadyExists:  # created before a crash, or by another owner
            job = await self._client.get(JOBS, Key(cron_job.metadata.namespace, name))
            if not control.is_controlled_by(job.metadata, cron_job.metadata.uid):
                return None
            return versioned_reference_to(JOBS, job.metadata)
        except ApiError as error:
            message = f"Error creating job: {error.message}"
            self._report(cron_job, "FailedCreate", message, warning=True)
            raise
        self._report(cron_job, "SuccessfulCreate", f"Created job {name}")
        return versioned_reference_to(JOBS, job.metadata)

    async def _delete(self, cron_job: CronJob, job: Job) -> None:
        with suppress(NotFound):
            await self._client.delete(JOBS, job.metadata.key, uid=job.metadata.uid, propagation="Background")
            self._report(cron_job, "SuccessfulDelete", f"Deleted job {job.metadata.name}")

    def _report(self, cron_job: CronJob, reason: str, message: str, warning: bool = False) -> None:
        self._events.report(CRON_JOBS, cron_job, reason, message, warning)


def _job_body(cron_job: CronJob, start_at: float, name: str) -> Json:
    template: Json = msgspec.json.decode(cron_job.spec.job_template)
    described = template.get("metadata") or {}
    zone = time_zone(cron_job.spec.time_zone or "UTC")
    moment = at_epoch(start_at).astimezone(zone).isoformat(timespec="seconds").replace("+00:00", "Z")
    return {
        "metadata": {
            "name": name,
            "labels": dict(described.get("labels") or {}),
            "annotations": {**(described.get("annotations") or {}), SCHEDULED_ANNOTATION: moment},
            "ownerReferences": control.owner_references(CRON_JOBS, cron_job.metadata),
        },
        "spec": template["spec"],
    }
