"""The Job controller, and the deletion of finished jobs after ``ttlSecondsAfterFinished``.

The controller reads caches, calls ``sync_job`` and executes the result.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from msgspec.structs import replace

from quorate.api.codec import Json
from quorate.api.meta import Key, Uid, epoch, find_condition
from quorate.api.native_groups import PodGroup
from quorate.kube.client import PatchKind
from quorate.kube.errors import Conflict, NotFound
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.resources import NATIVE_POD_GROUPS
from quorate.local.controllers.claims import Claims, index_orphans
from quorate.local.controllers.controller import Controller, ControllerContext
from quorate.local.controllers.job.failure_policy import Backoff
from quorate.local.controllers.job.pod_groups import pod_group_of, reference_to
from quorate.local.controllers.job.pod_management import PodToCreate, pod_from_template
from quorate.local.controllers.job.sync import SyncResult, finished_condition, sync_job
from quorate.local.controllers.job.types import JOB_CONTROLLER_NAME, JOBS, PODS, TRACKING_FINALIZER, Job, Pod
from quorate.local.controllers.pod_control import PodControl, finalizer_removal, is_controlled_by
from quorate.local.own_writes import MutationCache

JOB_NAME_LABEL: Final = "batch.kubernetes.io/job-name"
WORKERS: Final = 8


class JobController(Controller):
    """Executes sync results."""

    def __init__(
        self,
        context: ControllerContext,
        jobs: Informer[Job],
        pods: Informer[Pod],
        *,
        with_pod_groups: bool = False,
    ) -> None:
        """``with_pod_groups``: Indexed jobs that run all their pods at once get a pod group of Kubernetes."""
        super().__init__("job", context, jobs, pods, workers=WORKERS, component="job-controller")
        self._jobs = MutationCache(jobs, lambda job: job.metadata.key)
        self._pods = MutationCache(pods, job_key)
        self._backoffs: dict[Uid, Backoff] = {}  # jobs with failed pods since their last success
        self._control = PodControl(self._client, JOBS, PODS, self._events, self._pods.record)
        index_orphans(pods)
        self._claims = Claims(
            self._client, JOBS, jobs, PODS, pods, self._reconciler,
            may_adopt=lambda job, pod: True, finalizer=TRACKING_FINALIZER,
        )  # fmt: skip
        self._has_pod_groups = with_pod_groups
        self._log = logger(__name__)
        jobs.subscribe(self._on_job)
        pods.subscribe(self._on_pod)

    def _on_job(self, change: Change[Job]) -> None:
        if change.old is not None and change.new is None:
            self._backoffs.pop(change.old.metadata.uid, None)

    def _on_pod(self, change: Change[Pod]) -> None:
        for pod in change.versions:
            if key := job_key(pod):
                self._reconciler.enqueue(key)

    async def reconcile(self, key: Key) -> float | None:
        job = self._jobs.get(key)
        pods = candidates = self._pods.by_group(key)
        is_own = job is not None and job.spec.managed_by in ("", JOB_CONTROLLER_NAME)
        if job is not None and is_own and finished_condition(job.status) is None:
            pods = await self._claims.claim(job, candidates, self._pods)
        pods = [pod for pod in pods if job is not None and is_controlled_by(pod.metadata, job.metadata.uid)]
        own_uids = {pod.metadata.uid for pod in pods}
        await self._release(
            [pod for pod in candidates if pod.has_tracking_finalizer and pod.metadata.uid not in own_uids]
        )
        if job is None or not is_own:
            return None
        backoff = self._backoffs.get(job.metadata.uid, Backoff())
        result = sync_job(job, pods, self._clock.now(), backoff)
        group = None
        if self._has_pod_groups and result.create:
            group = await pod_group_of(self._client, job, is_new=not pods and _has_not_started(job))
        await self._execute(job, result, group)
        return result.wake_at

    async def _execute(self, job: Job, result: SyncResult, group: PodGroup | None) -> None:
        await self._release(result.discard)
        await self._control.delete(job, (*result.discard, *result.delete))
        bodies = [_pod_body(job, new, group) for new in result.create]
        created, refusal = await self._control.create(job, bodies)
        missing = len(result.create) - created
        status = replace(result.status, active=result.status.active - missing)
        await self._write_status(JOBS, job, status, self._jobs.record)
        if result.backoff == Backoff():
            self._backoffs.pop(job.metadata.uid, None)
        else:
            self._backoffs[job.metadata.uid] = result.backoff
        await self._release(result.release)
        for event in result.events:
            self._events.report(JOBS, job, *event)
        self._log.debug(
            "job reconciled",
            job=job.metadata.key,
            created=created,
            discarded=len(result.discard),
            deleted=len(result.delete),
            released=len(result.release),
        )
        if refusal is not None:
            raise refusal  # the status is accurate; the reconciler retries with backoff

    async def _release(self, pods: Sequence[Pod]) -> None:
        async def release(pod: Pod) -> None:
            removal = finalizer_removal(pod.metadata, TRACKING_FINALIZER)
            with suppress(NotFound):
                self._pods.record(
                    await self._client.patch(PODS, pod.metadata.key, removal, kind=PatchKind.STRATEGIC)
                )

        await asyncio.gather(*(release(pod) for pod in pods))


def _pod_body(job: Job, new: PodToCreate, group: PodGroup | None) -> Json:
    body = pod_from_template(job, new)
    if group is not None:
        body["spec"]["schedulingGroup"] = {"podGroupName": group.metadata.name}
        body["metadata"]["ownerReferences"].append(reference_to(NATIVE_POD_GROUPS, group.metadata))
    return body


def _has_not_started(job: Job) -> bool:
    """Return True if the job has never had pods: a job that has goes on as it began."""
    status = job.status
    is_suspended = find_condition(status.conditions, "Suspended") is not None
    return status.start_time is None and not (status.succeeded or status.failed or is_suspended)


def job_key(pod: Pod) -> Key | None:
    """Return the key of a pod's job: its owner, or the job label of an orphaned pod.

    An orphan without the label has the key of no job, and loses its tracking finalizer.
    """
    owner = pod.metadata.controller
    if owner is not None:
        is_job = owner.kind == JOBS.kind and owner.api_version.startswith(f"{JOBS.group}/")
        return Key(pod.metadata.namespace, owner.name) if is_job else None
    name = pod.metadata.labels.get(JOB_NAME_LABEL, "")
    return Key(pod.metadata.namespace, name) if pod.has_tracking_finalizer else None


def expires_at(job: Job) -> float | None:
    """Return when the job is to be deleted; None if it is unfinished or already terminating."""
    if job.spec.ttl_seconds_after_finished is None or job.metadata.deletion_timestamp is not None:
        return None
    condition = finished_condition(job.status)
    if condition is None:
        return None
    assert condition.last_transition_time is not None, f"job {job.metadata.key} finished at no time"
    return epoch(condition.last_transition_time) + job.spec.ttl_seconds_after_finished


class TtlAfterFinishedController(Controller):
    """Deletes expired jobs."""

    def __init__(self, context: ControllerContext, jobs: Informer[Job]) -> None:
        super().__init__("ttl-after-finished", context)
        self._jobs = jobs
        jobs.subscribe(self._on_job)

    def _on_job(self, change: Change[Job]) -> None:
        if change.new is not None and expires_at(change.new) is not None:
            self._reconciler.enqueue(change.new.metadata.key)

    async def reconcile(self, key: Key) -> float | None:
        job = self._jobs.get(key)
        end = expires_at(job) if job else None
        if job is None or end is None or self._clock.now() < end:
            return end
        with suppress(NotFound, Conflict):  # deleted, or replaced by another job with that name
            await self._client.delete(JOBS, key, uid=job.metadata.uid, propagation="Foreground")
        return None
