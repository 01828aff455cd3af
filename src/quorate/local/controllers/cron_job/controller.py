"""The CronJob controller: starts jobs by a schedule, and deletes old ones."""

import asyncio
import random
from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from quorate.api.codec import Json
from quorate.api.events import ObjectReference
from quorate.api.meta import Key, at_epoch
from quorate.kube.client import Client
from quorate.kube.clock import Clock
from quorate.kube.errors import AlreadyExists, ApiError, NotFound
from quorate.kube.informer import Informer
from quorate.kube.resources import versioned_reference_to
from quorate.local.controllers.controller import Controller
from quorate.local.controllers.core_events import EventRecorder
from quorate.local.controllers.cron_job.starts import (
    CRON_JOBS,
    CronEvent,
    CronJob,
    CronJobStatus,
    decide_start,
    finished_condition,
    finished_jobs_to_delete,
    job_name,
)
from quorate.local.controllers.job.types import JOBS, Job
from quorate.local.controllers.pod_control import (
    controller_key,
    enqueue_controllers,
    is_controlled_by,
    owner_references,
)
from quorate.local.objects.cron import time_zone
from quorate.local.own_writes import MutationCache

SCHEDULED_ANNOTATION = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class CronJobController(Controller):
    def __init__(
        self,
        client: Client,
        clock: Clock,
        rng: random.Random,
        jobs: Informer[Job],
        cron_jobs: Informer[CronJob],
    ) -> None:
        super().__init__("cron-job", client, clock, cron_jobs, jobs)
        self._cron_jobs = MutationCache(cron_jobs, lambda cron_job: cron_job.metadata.key)
        self._jobs = jobs
        self._events = EventRecorder(client, clock, rng, "cronjob-controller")
        jobs.add_index("cron job", lambda job: (controller_key(job.metadata, CRON_JOBS.kind),))
        cron_jobs.subscribe(lambda change: self._reconciler.enqueue(change.key))
        enqueue_controllers(jobs, CRON_JOBS.kind, self._reconciler)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._events.run())
            tasks.create_task(super().run())

    async def reconcile(self, key: Key) -> float | None:
        cron_job = self._cron_jobs.get(key)
        if cron_job is None:
            return None
        jobs = [
            job
            for job in self._jobs.by_index("cron job", key)
            if is_controlled_by(job.metadata, cron_job.metadata.uid)
        ]
        await asyncio.gather(
            *(self._delete(cron_job, job) for job in finished_jobs_to_delete(cron_job, jobs))
        )
        status = await self._observed_status(cron_job, jobs)
        decision = decide_start(replace(cron_job, status=status), self._clock.now())
        for event in decision.events:
            self._report(cron_job, event)
        if decision.start_at is not None:
            if decision.replaces_active:
                active = {reference.uid for reference in status.active}
                running = [job for job in jobs if job.metadata.uid in active]
                await asyncio.gather(*(self._delete(cron_job, job) for job in running))
                status = replace(status, active=())
            started = await self._start(cron_job, decision.start_at)
            if started is not None:
                status = replace(
                    status,
                    active=(*status.active, started),
                    last_schedule_time=at_epoch(decision.start_at),
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
                self._report(cron_job, CronEvent("MissingJob", message))
            elif finished.get(reference.uid):
                condition = finished[reference.uid]
                message = f"Saw completed job: {reference.name}, condition: {condition}"
                self._report(cron_job, CronEvent("SawCompletedJob", message))
            else:
                active.append(reference)
        ends = [job.status.completion_time for job in jobs if finished[job.metadata.uid] == "Complete"]
        successes = [end for end in (*ends, cron_job.status.last_successful_time) if end is not None]
        return replace(
            cron_job.status, active=tuple(active), last_successful_time=max(successes, default=None)
        )

    async def _is_missing(self, reference: ObjectReference) -> bool:
        """Return True if no such job exists; the watch may not have delivered a new one yet."""
        try:
            job = await self._client.get(JOBS, Key(reference.namespace, reference.name))
        except NotFound:
            return True
        return job.metadata.uid != reference.uid

    async def _start(self, cron_job: CronJob, start_at: float) -> ObjectReference | None:
        """Create the job of a time; return its reference, or None if another's job has its name."""
        name = job_name(cron_job, start_at)
        body = _job_body(cron_job, start_at, name)
        try:
            job = await self._client.create(JOBS, body, cron_job.metadata.namespace)
        except AlreadyExists:  # created before a crash, or another's
            job = await self._client.get(JOBS, Key(cron_job.metadata.namespace, name))
            if not is_controlled_by(job.metadata, cron_job.metadata.uid):
                return None
            return versioned_reference_to(JOBS, job)
        except ApiError as error:
            message = f"Error creating job: {error.message}"
            self._report(cron_job, CronEvent("FailedCreate", message, warning=True))
            raise
        self._report(cron_job, CronEvent("SuccessfulCreate", f"Created job {name}"))
        return versioned_reference_to(JOBS, job)

    async def _delete(self, cron_job: CronJob, job: Job) -> None:
        try:
            await self._client.delete(JOBS, job.metadata.key, uid=job.metadata.uid, propagation="Background")
        except NotFound:
            return
        self._report(cron_job, CronEvent("SuccessfulDelete", f"Deleted job {job.metadata.name}"))

    def _report(self, cron_job: CronJob, event: CronEvent) -> None:
        self._events.event(
            versioned_reference_to(CRON_JOBS, cron_job),
            "Warning" if event.warning else "Normal",
            event.reason,
            event.message,
        )


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
            "ownerReferences": owner_references(CRON_JOBS, cron_job.metadata),
        },
        "spec": template["spec"],
    }
