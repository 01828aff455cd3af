"""The job controller: execute the plans for Volcano Jobs."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from quorate.api.core import Namespace
from quorate.api.core.pod import Pod
from quorate.api.meta import Key, ObjectMeta, OwnerReference, Uid
from quorate.api.volcano import DEFAULT_QUEUE, PodGroup
from quorate.api.volcano.job import GROUP, Command, Job, JobPhase
from quorate.controllers.context import ControllerContext
from quorate.controllers.executor import ObjectEvent, Plan, PlanExecutor
from quorate.controllers.informers import ByName
from quorate.controllers.limits import JOB_WRITES_IN_FLIGHT, REFUSED_GROUP_RETRY_S, WORKERS
from quorate.controllers.volcano.command_bus import CommandBus
from quorate.controllers.volcano.job.assume_cache import AssumeCache, LostPods
from quorate.controllers.volcano.job.job_pod_group import awaits_admission, group_name, pod_group_patch
from quorate.controllers.volcano.job.job_pods import JobPod
from quorate.controllers.volcano.job.job_status import job_size
from quorate.controllers.volcano.job.job_sync import JobInfo, JobPlan, decide
from quorate.controllers.volcano.job.lifecycle_policies import SYNC
from quorate.controllers.volcano.job.pod_creator import PodCreator, refusal_message
from quorate.controllers.volcano.job.quota_admission import is_suspended
from quorate.controllers.volcano.pod_defaults import on_changed_defaults, pod_defaults
from quorate.kube.controller.expectations import versions
from quorate.kube.errors import AlreadyExists, ApiError, Conflict, RequestFailed
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.patches import merge_patch
from quorate.kube.resources import PLACEABLE_PODS, POD_GROUPS, VOLCANO_JOBS, Resource, reference_to
from quorate.kube.selection import Selection
from quorate.kube.writes import Delete, Patch, send
from quorate.queueing.lifecycle.transition import Event

PHASE_COUNTERS: Final[Mapping[JobPhase, str]] = {
    "Completed": "volcano_job_completed_phase_count",
    "Failed": "volcano_job_failed_phase_count",
}
_BY_JOB: Final = "pods by job"  # index of pods by the uid of their job


class VolcanoJobController:
    """Keeps each Volcano Job, its pod group and its pods in sync.

    ``keep_pending``: keep pods without a node when their pod group becomes pending again.  ``is_queued``: a
    job starts only when a cluster queue admits it.
    """

    def __init__(
        self,
        context: ControllerContext,
        jobs: Informer[Job],
        groups: Informer[PodGroup],
        pods: Selection[Pod],
        commands: Informer[Command],
        *,
        keep_pending: bool,
        is_queued: Callable[[Job], bool],
    ) -> None:
        self._client = context.client
        self._clock = context.clock
        self._events = context.events
        self._record = context.record
        self._forget_series = context.forget
        self._jobs = jobs
        self._groups = groups
        self._pods = pods
        self._commands = CommandBus(context.client, context.clock, commands, VOLCANO_JOBS)
        self._informers = context.informers
        self._classes = context.informers.pod_classes
        self._keep_pending = keep_pending
        self._is_queued = is_queued
        self._assume_cache = AssumeCache(context.clock)
        self._lost_pods = LostPods(context.clock)
        self._computations = context.computations
        self._creator = PodCreator(
            context.client, context.clock, context.computations, self._assume_cache, context.record
        )
        self._dropped_changes: dict[Key, Any] = {}  # pod group patches with fields that the server drops
        self._uids: dict[Key, Uid] = {}  # of all jobs that were reconciled
        self._log = logger(__name__)
        self.reconciler = context.reconciler("volcano.jobs", self.reconcile, jobs, WORKERS)
        self._executor = PlanExecutor(context, VOLCANO_JOBS, self.reconciler.enqueue)
        self._subscribe()

    def _subscribe(self) -> None:
        self._pods.add_index(_BY_JOB, _job_uid)
        self._jobs.subscribe(lambda change: self.reconciler.enqueue(change.key))
        self._groups.subscribe(self._group_changed)
        self._pods.subscribe(self._pod_changed)
        self._commands.subscribe(self.reconciler.enqueue)
        self._classes.subscribe(self._class_changed)
        self._informers.namespaces.subscribe(self._namespace_changed)
        on_changed_defaults(self._informers, self._enqueue_all)

    async def run(self) -> None:
        try:
            await self.reconciler.run()
        finally:  # the next leader never sees the jobs that are deleted in between
            for key in self._uids:
                self._forget_series({"job_name": str(key)})

    def _owned_changed(self, change: Change[Any]) -> None:
        for obj in change.versions:
            owner = obj.metadata.controller
            if owner is not None and _is_job(owner):
                self.reconciler.enqueue(Key(obj.metadata.namespace, owner.name))

    def _group_changed(self, change: Change[PodGroup]) -> None:
        if change.new is None:
            self._dropped_changes.pop(change.key, None)
        self._owned_changed(change)

    def _pod_changed(self, change: Change[Pod]) -> None:
        old, new = change.old, change.new
        if old is not None and not old.is_leaving and (new is None or new.is_leaving):
            self._record_if_lost(JobPod(old))
        self._assume_cache.observe(change)
        self._owned_changed(change)

    def _record_if_lost(self, pod: JobPod) -> None:
        """Record a pod of an existing job that something else deletes."""
        owner = pod.metadata.controller
        if owner is None or self._assume_cache.is_deleted(pod.metadata.uid):
            return
        job = self._jobs.get(Key(pod.metadata.namespace, owner.name))
        if job is not None and job.metadata.uid == owner.uid:
            self._lost_pods.record(owner.uid, pod)

    def _class_changed(self, change: Change[Any]) -> None:
        """Reconcile all jobs: their ``minResources`` depend on the values of PriorityClasses."""
        self._enqueue_all(None)

    def _enqueue_all(self, namespace: str | None) -> None:
        """Reconcile the jobs of a namespace, or of all namespaces."""
        for job in self._jobs:
            if namespace in (None, job.metadata.namespace):
                self.reconciler.enqueue(job.metadata.key)

    def _namespace_changed(self, change: Change[Namespace]) -> None:
        """Reconcile the jobs of a namespace with other labels, which may select it for queueing."""
        old, new = change.old, change.new
        if new is not None and old is not None and old.metadata.labels != new.metadata.labels:
            self._enqueue_all(new.metadata.name)

    async def reconcile(self, key: Key) -> float | None:
        job = self._jobs.get(key)
        if job is None:
            self._forget(key)
            return await self._commands.delete_orphans(key)
        self._uids[key] = job.metadata.uid
        until = self._executor.pending_until(key, versions(VOLCANO_JOBS, (job,)))
        if until is not None:
            return until
        info = self._job_info(job, await self._commands.pending(key, job.metadata.uid))
        size = job_size(job, len(info.pods))
        return await self._execute(job, await self._computations.run(size, decide, info), size)

    def _job_info(self, job: Job, commands: Sequence[Command]) -> JobInfo:
        pods = self._assume_cache.pods(job, map(JobPod, self._pods.by_index(_BY_JOB, job.metadata.uid)))
        is_queued = self._is_queued(job)
        lost = self._lost_pods.of_job(job, pods, self._assume_cache.is_deleted)
        if is_queued and is_suspended(job):
            # The job is to lose all its pods.
            self._lost_pods.handled(job.metadata.uid, {pod.uid for pod in lost})
        return JobInfo(
            job=job,
            pods=pods,
            group=self._group_of(job),
            commands=commands,
            lost=lost,
            priorities={name: class_.value for name, class_ in ByName(self._classes).items()},
            now=self._clock.now(),
            keep_pending=self._keep_pending,
            is_queued=is_queued,
            defaults=pod_defaults(self._informers, job.metadata.namespace),
        )

    def _group_of(self, job: Job) -> PodGroup | None:
        return self._assume_cache.group(self._groups.get(Key(job.metadata.namespace, group_name(job))))

    async def _execute(self, job: Job, plan: JobPlan, size: int) -> float | None:
        key = job.metadata.key
        if plan.releases_plugins:
            # First: from the status on, they are not known to exist.
            await self._release_plugins(job, plan)
        # Pods that are about to be created will change the counts again.
        soon_outdated = bool(plan.pods_to_create) and _same_phase(job, plan)
        status_patch = await self._computations.run(size, _status_patch, job, plan)
        deferred_until = await self._executor.execute(
            key,
            Plan(
                writes=(*_admission_patch(plan), *(() if soon_outdated else status_patch)),
                events=() if plan.action == SYNC else _object_events(job, plan.events),
                deferrable=_changes_only_counts(job, plan),
            ),
        )
        if deferred_until is not None:
            return deferred_until
        self._note_handled(job, plan)
        self._report_phase(job, plan)
        await self._commands.delete(plan.handled_commands)
        if plan.group is not None and self._group_of(job) is None:
            # Without its claims the job could run no pod: it gets no group, which would reserve resources.
            retry_at, problem = await self._creator.wait_for_claims(plan.job)
            if retry_at is not None:
                self._report_state(job, (Event("Warning", "PVCError", problem),))
                return min((at for at in (plan.wake_at, retry_at) if at is not None), default=None)
        # Before pods are created or deleted: the scheduler reads from it how many there must be.
        refusal = "" if plan.group is None else await self._write_group(plan.group, size)
        await self._delete(PLACEABLE_PODS, plan.pods_to_delete)
        if plan.group_to_delete is not None:
            await self._delete(POD_GROUPS, (plan.group_to_delete,))
        if plan.delete_job:
            await self._client.delete(VOLCANO_JOBS, key, uid=job.metadata.uid, propagation="Background")
            return None
        retry_at, problems = (None, ()) if not plan.admitted else await self._create_pods(job, plan)
        if soon_outdated and retry_at is not None:
            await self._executor.execute(key, Plan(writes=status_patch))
        if refusal:
            retry_at = self._clock.now() + REFUSED_GROUP_RETRY_S
        if plan.action == SYNC:
            failures = [Event("Warning", "FailedCreate", problem) for problem in problems]
            failures += [Event("Warning", "PodGroupError", refusal)] if refusal else []
            self._report_state(job, (*plan.events, *failures))
        return min((moment for moment in (plan.wake_at, retry_at) if moment is not None), default=None)

    def _note_handled(self, job: Job, plan: JobPlan) -> None:
        """Note the evictions that an action handles; its own deletions are none, if now or later."""
        if plan.action == SYNC:
            return
        deleted = {pod.metadata.uid for pod in plan.pods_to_delete}
        for uid in deleted:
            self._assume_cache.deletion_decided(uid)
        self._lost_pods.handled(job.metadata.uid, deleted.union(pod.uid for pod in plan.handled_losses))

    async def _release_plugins(self, job: Job, plan: JobPlan) -> None:
        """Delete the objects of the plugins; the job ends although the server refuses to delete one."""
        if refusal := await self._creator.release(plan.job):
            self._report_state(job, (Event("Warning", "PluginError", refusal),))

    async def _create_pods(self, job: Job, plan: JobPlan) -> tuple[float | None, tuple[str, ...]]:
        def is_admitted() -> bool:
            current = self._jobs.get(job.metadata.key)
            suspended = current is not None and self._is_queued(current) and is_suspended(current)
            return not suspended and not awaits_admission(self._group_of(job))

        return await self._creator.create(plan.job, plan.pods_to_create, is_admitted)

    async def _delete(self, resource: Resource[Any], objects: Sequence[Any]) -> None:
        """Delete ``objects`` in batches; raise the first failure once its batch has ended."""
        for start in range(0, len(objects), JOB_WRITES_IN_FLIGHT):
            batch = objects[start : start + JOB_WRITES_IN_FLIGHT]
            outcomes = await asyncio.gather(
                *(self._delete_one(resource, obj.metadata) for obj in batch), return_exceptions=True
            )
            for outcome in outcomes:
                if outcome is not None:
                    raise outcome

    async def _delete_one(self, resource: Resource[Any], metadata: ObjectMeta) -> None:
        self._assume_cache.assume_deleted(metadata.uid)  # first: the watch may be faster than the response
        try:
            await send(self._client, (Delete(resource, metadata.key, metadata.uid),))
        except RequestFailed:
            self._assume_cache.deletion_failed(metadata.uid)
            raise

    async def _write_group(self, wanted: PodGroup, size: int) -> str:
        """Create or update the pod group; return why the server refused it, empty if it did not."""
        try:
            await self._create_or_patch_group(wanted, size)
        except (AlreadyExists, Conflict):
            return ""  # created or changed a moment ago, or terminating: the watch will deliver it
        except ApiError as error:
            return refusal_message(error)
        return ""

    async def _create_or_patch_group(self, wanted: PodGroup, size: int) -> None:
        key = wanted.metadata.key
        group = self._groups.get(key)
        if group is None:
            await self._client.create(POD_GROUPS, wanted, key.namespace)
            self._log.info("pod group created", key=key)
            return
        changes = await self._computations.run(size, pod_group_patch, group, wanted)
        if not changes or self._assume_cache.is_deleted(group.metadata.uid):
            return
        if self._dropped_changes.get(key) == changes:
            return
        body = {"metadata": {"resourceVersion": group.metadata.resource_version}, "spec": changes}
        stored = await self._client.patch(POD_GROUPS, key, body)
        # The CRD of an older Volcano lacks some fields: a patch of only such fields is not sent again.
        if await self._computations.run(size, pod_group_patch, stored, wanted) == changes:
            self._dropped_changes[key] = changes

    def _report_phase(self, job: Job, plan: JobPlan) -> None:
        if plan.status is None or _same_phase(job, plan):
            return
        key, phase = job.metadata.key, plan.status.state.phase
        self._log.info("job phase changed", key=key, phase=phase, action=plan.action)
        if phase in PHASE_COUNTERS:
            labels = {"job_name": str(key), "queue_name": job.spec.queue or DEFAULT_QUEUE}
            self._record(PHASE_COUNTERS[phase], labels)

    def _report_state(self, job: Job, events: tuple[Event, ...]) -> None:
        """Record events that describe the job's state, unless they equal the last ones."""
        if self._events.report(reference_to(VOLCANO_JOBS, job.metadata), events, unique=True):
            for event in events:
                self._log.info("event", key=job.metadata.key, reason=event.reason, detail=event.message)

    def _forget(self, key: Key) -> None:
        self._forget_series({"job_name": str(key)})
        self._executor.forget(key)
        self._creator.forget(key)
        uid = self._uids.pop(key, None)
        if uid is not None:
            self._assume_cache.forget(uid)
            self._lost_pods.forget(uid)
            self._creator.forget_resources(uid)


def _status_patch(job: Job, plan: JobPlan) -> tuple[Patch, ...]:
    changes = None if plan.status is None else merge_patch(job.status, plan.status)
    if not changes:
        return ()
    metadata = job.metadata
    return (Patch(VOLCANO_JOBS, metadata.key, metadata.resource_version, {"status": changes}, "status"),)


def _admission_patch(plan: JobPlan) -> tuple[Patch, ...]:
    return () if plan.patch is None else (plan.patch,)


def _object_events(job: Job, events: tuple[Event, ...]) -> tuple[ObjectEvent, ...]:
    regarding = reference_to(VOLCANO_JOBS, job.metadata)
    return tuple(ObjectEvent(regarding, event) for event in events)


def _changes_only_counts(job: Job, plan: JobPlan) -> bool:
    """Return True if the plan only updates pod counts in the status, which may be deferred."""
    acts = (
        plan.pods_to_delete
        or plan.pods_to_create
        or plan.group_to_delete
        or plan.handled_commands
        or plan.delete_job
        or plan.releases_plugins
        or plan.patch
    )
    return _same_phase(job, plan) and plan.status != job.status and not acts


def _same_phase(job: Job, plan: JobPlan) -> bool:
    return plan.status is not None and plan.status.state.phase == job.phase


def _is_job(owner: OwnerReference) -> bool:
    return owner.kind == "Job" and owner.api_version.startswith(f"{GROUP}/")


def _job_uid(pod: Pod) -> tuple[Uid, ...]:
    owner = pod.metadata.controller
    return (owner.uid,) if owner is not None and _is_job(owner) else ()
