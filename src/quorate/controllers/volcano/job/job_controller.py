"""Carrying out what is decided for Volcano Jobs."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from quorate.api.meta import Key, ObjectMeta, OwnerReference, Uid
from quorate.api.volcano import DEFAULT_QUEUE, PodGroup
from quorate.api.volcano.job import GROUP, Command, Job, JobPhase
from quorate.controllers.context import ControllerContext
from quorate.controllers.informers import ByName
from quorate.controllers.volcano.command_bus import CommandBus
from quorate.controllers.volcano.job.job_pod_group import group_name, is_waiting, pod_group_patch
from quorate.controllers.volcano.job.job_pods import JOB_PODS, JobPod
from quorate.controllers.volcano.job.job_sync import JobInfo, JobPlan, decide
from quorate.controllers.volcano.job.lifecycle_policies import SYNC
from quorate.controllers.volcano.job.pod_creator import PodCreator, object_error
from quorate.controllers.volcano.job.pod_expectations import LostPods, PodExpectations
from quorate.kube.debounce import Debounce
from quorate.kube.errors import AlreadyExists, ApiError, Conflict, Unreachable
from quorate.kube.expectations import Expectations, versions
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.patches import merge_patch
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import POD_GROUPS, VOLCANO_JOBS, Resource, reference_to
from quorate.kube.writes import Delete, Patch, send
from quorate.queueing.lifecycle.transition import Event

WORKERS: Final = 16  # a run mostly waits for the answers to its writes
DEBOUNCE_S: Final = 1.0  # pods of one job change together: one write can tell of many
REFUSED_S: Final = 30.0  # after so long a pod group that the API refused is tried again
AT_ONCE: Final = 32  # deletions of one job under way
COUNTED: Final[Mapping[JobPhase, str]] = {
    "Completed": "volcano_job_completed_phase_count",
    "Failed": "volcano_job_failed_phase_count",
}
_MEMBERS_OF: Final = "members of"  # index of pods by the uid of their job


class VolcanoJobController:
    """Keeps each Volcano Job, its pod group and its pods in step.

    ``keep_pending``: pods without a node stay when their group is sent back to wait.
    """

    def __init__(
        self,
        context: ControllerContext,
        jobs: Informer[Job],
        groups: Informer[PodGroup],
        members: Informer[JobPod],
        commands: Informer[Command],
        *,
        keep_pending: bool,
    ) -> None:
        self._client = context.client
        self._clock = context.clock
        self._events = context.events
        self._record = context.record
        self._forget_series = context.forget
        self._jobs = jobs
        self._groups = groups
        self._members = members
        self._commands = CommandBus(context.client, context.clock, commands, VOLCANO_JOBS)
        self._classes = context.informers.pod_classes
        self._keep_pending = keep_pending
        self._pod_expectations = PodExpectations(context.clock)
        self._lost_pods = LostPods(context.clock)
        self._creator = PodCreator(context.client, context.clock, self._pod_expectations, context.record)
        self._expectations = Expectations(context.clock)
        self._debounce = Debounce(context.clock, DEBOUNCE_S)  # with counts that changed
        self._unheeded: dict[Key, Any] = {}  # changes of groups that the server does not keep
        self._told: dict[Key, tuple[Event, ...]] = {}  # what was last said of each job without doing anything
        self._uids: dict[Key, Uid] = {}  # of the jobs that were looked at
        self._log = logger(__name__)
        workers = context.workers_for(VOLCANO_JOBS, WORKERS)
        self.reconciler = Reconciler("volcano.jobs", self.reconcile, context.clock, workers)
        self._follow()

    def _follow(self) -> None:
        self._members.add_index(_MEMBERS_OF, _job_uid)
        self._jobs.subscribe(lambda change: self.reconciler.enqueue(change.key))
        self._groups.subscribe(self._group_changed)
        self._members.subscribe(self._member_changed)
        self._commands.follow(self.reconciler.enqueue)
        self._classes.subscribe(self._class_changed)

    async def run(self) -> None:
        try:
            await self.reconciler.run()
        finally:  # whoever is at it next may never hear of those that go meanwhile
            for key in self._uids:
                self._forget_series({"job_name": str(key)})

    def _owned_changed(self, change: Change[Any]) -> None:
        for obj in (change.old, change.new):
            owner = None if obj is None else obj.metadata.controller
            if obj is not None and owner is not None and _is_job(owner):
                self.reconciler.enqueue(Key(obj.metadata.namespace, owner.name))

    def _group_changed(self, change: Change[PodGroup]) -> None:
        if change.new is None:
            self._unheeded.pop(change.key, None)
        self._owned_changed(change)

    def _member_changed(self, change: Change[JobPod]) -> None:
        gone = change.old if change.new is None else None
        if gone is not None and not self._pod_expectations.was_ended(gone.metadata.uid):
            self._lost_pods.note(gone)
        self._pod_expectations.seen(change)
        self._owned_changed(change)

    def _class_changed(self, change: Change[Any]) -> None:
        """Which replicas a job needs first follows from the priorities of their classes."""
        for job in self._jobs:
            self.reconciler.enqueue(job.metadata.key)

    async def reconcile(self, key: Key) -> float | None:
        job = self._jobs.get(key)
        if job is None:
            self._forget(key)
            return await self._commands.discard_orphans(key)
        self._uids[key] = job.metadata.uid
        until = self._expectations.pending_until(key, versions(VOLCANO_JOBS, (job,)))
        if until is not None:
            return until
        plan = decide(self._job_info(job, await self._commands.to(key, job.metadata.uid)))
        if self._only_counts(job, plan) and (due := self._debounce.defer_until(key)) is not None:
            return due
        self._debounce.clear(key)
        return await self._carry_out(job, plan)

    def _job_info(self, job: Job, commands: Sequence[Command]) -> JobInfo:
        members = self._pod_expectations.members(job, self._members.by_index(_MEMBERS_OF, job.metadata.uid))
        return JobInfo(
            job=job,
            members=members,
            group=self._group_of(job),
            commands=commands,
            lost=self._lost_pods.of(job, members),
            priorities={name: each.value for name, each in ByName(self._classes).items()},
            now=self._clock.now(),
            keep_pending=self._keep_pending,
        )

    def _group_of(self, job: Job) -> PodGroup | None:
        return self._pod_expectations.group(self._groups.get(Key(job.metadata.namespace, group_name(job))))

    def _only_counts(self, job: Job, plan: JobPlan) -> bool:
        """Whether there is nothing to do but to say how many pods there are, which may wait a moment."""
        acts = (
            plan.pods_to_delete
            or plan.pods_to_create
            or plan.group_to_delete
            or plan.handled_commands
            or plan.delete_job
        )
        return _same_phase(job, plan) and plan.status != job.status and not acts

    async def _carry_out(self, job: Job, plan: JobPlan) -> float | None:
        key = job.metadata.key
        # Pods that are about to be made would change the counts again.
        soon_outdated = bool(plan.pods_to_create) and _same_phase(job, plan)
        if not soon_outdated:
            await self._write_status(job, plan)
        if plan.action != SYNC:
            self._tell(job, plan.events, acts=True)
        await self._commands.consume(plan.handled_commands)
        # Before pods go or come: it says how many there must be.
        refused = "" if plan.group is None else await self._bring_group(plan.group)
        await self._delete(JOB_PODS, plan.pods_to_delete)
        if plan.group_to_delete is not None:
            await self._delete(POD_GROUPS, (plan.group_to_delete,))
        if plan.delete_job:
            await self._client.delete(VOLCANO_JOBS, key, uid=job.metadata.uid, propagation="Background")
            return None
        again, problems = (None, ()) if not plan.admitted else await self._create(job, plan)
        if soon_outdated and again is not None:
            await self._write_status(job, plan)
        if refused:
            again = self._clock.now() + REFUSED_S
        if plan.action == SYNC:
            failed = [Event("Warning", "FailedCreate", problem) for problem in problems]
            failed += [Event("Warning", "PodGroupError", refused)] if refused else []
            self._tell(job, (*plan.events, *failed), acts=False)
        return min((moment for moment in (plan.wake_at, again) if moment is not None), default=None)

    async def _create(self, job: Job, plan: JobPlan) -> tuple[float | None, tuple[str, ...]]:
        def is_admitted() -> bool:
            return not is_waiting(self._group_of(job))

        return await self._creator.create(plan.job, plan.pods_to_create, is_admitted)

    async def _delete(self, resource: Resource[Any], objects: Sequence[Any]) -> None:
        """Delete all of them, few at a time; the first failure is raised when its few are answered."""
        for start in range(0, len(objects), AT_ONCE):
            some = objects[start : start + AT_ONCE]
            outcomes = await asyncio.gather(
                *(self._delete_one(resource, obj.metadata) for obj in some), return_exceptions=True
            )
            for outcome in outcomes:
                if outcome is not None:
                    raise outcome

    async def _delete_one(self, resource: Resource[Any], metadata: ObjectMeta) -> None:
        self._pod_expectations.ended(metadata.uid)  # before: the watch may be faster than the answer
        try:
            await send(self._client, (Delete(resource, metadata.key, metadata.uid),))
        except (ApiError, Unreachable):
            self._pod_expectations.not_ended(metadata.uid)
            raise

    async def _bring_group(self, wanted: PodGroup) -> str:
        """Why the group cannot be what it is to be; empty when it can."""
        try:
            await self._write_group(wanted)
        except (AlreadyExists, Conflict):
            return ""  # made a moment ago, or still on its way out: the watch will tell
        except ApiError as refusal:
            return object_error(refusal)
        return ""

    async def _write_group(self, wanted: PodGroup) -> None:
        key = wanted.metadata.key
        group = self._groups.get(key)
        if group is None:
            await self._client.create(POD_GROUPS, wanted, key.namespace)
            self._log.info("pod group made", key=key)
            return
        changes = pod_group_patch(group, wanted)
        if (
            not changes
            or self._pod_expectations.was_ended(group.metadata.uid)
            or self._unheeded.get(key) == changes
        ):
            return
        body = {"metadata": {"resourceVersion": group.metadata.resource_version}, "spec": changes}
        stored = await self._client.patch(POD_GROUPS, key, body)
        # A definition of an older Volcano does not have all the fields: what it drops is not written again.
        if pod_group_patch(stored, wanted) == changes:
            self._unheeded[key] = changes

    async def _write_status(self, job: Job, plan: JobPlan) -> None:
        if plan.status is None:
            return
        metadata = job.metadata
        changes = merge_patch(job.status, plan.status)
        if not changes:
            return
        patch = Patch(VOLCANO_JOBS, metadata.key, metadata.resource_version, {"status": changes}, "status")
        await send(self._client, (patch,))
        self._expectations.expect(metadata.key, (patch,))
        phase = plan.status.state.phase
        if phase != job.status.state.phase:
            self._log.info("job", key=metadata.key, phase=phase, action=plan.action)
            if phase in COUNTED:
                labels = {"job_name": str(metadata.key), "queue_name": job.spec.queue or DEFAULT_QUEUE}
                self._record(COUNTED[phase], labels)

    def _tell(self, job: Job, events: tuple[Event, ...], *, acts: bool) -> None:
        """Show events on the job; what only describes it is not said twice in a row."""
        key = job.metadata.key
        if not acts and self._told.get(key, ()) == events:
            return
        if acts or not events:
            self._told.pop(key, None)
        else:
            self._told[key] = events
        regarding = reference_to(VOLCANO_JOBS, job)
        for event in events:
            self._events.event(regarding, event.type, event.reason, event.message, unique=not acts)
            self._log.info("job", key=key, did=event.reason, note=event.message)

    def _forget(self, key: Key) -> None:
        self._forget_series({"job_name": str(key)})
        self._expectations.forget(key)
        self._debounce.clear(key)
        self._told.pop(key, None)
        self._creator.forget(key)
        uid = self._uids.pop(key, None)
        if uid is not None:
            self._pod_expectations.forget(uid)
            self._lost_pods.forget(uid)
            self._creator.forget_resources(uid)


def _same_phase(job: Job, plan: JobPlan) -> bool:
    return plan.status is not None and plan.status.state.phase == job.status.state.phase


def _is_job(owner: OwnerReference) -> bool:
    return owner.kind == "Job" and owner.api_version.startswith(f"{GROUP}/")


def _job_uid(member: JobPod) -> tuple[Uid, ...]:
    owner = member.metadata.controller
    return (owner.uid,) if owner is not None and _is_job(owner) else ()
