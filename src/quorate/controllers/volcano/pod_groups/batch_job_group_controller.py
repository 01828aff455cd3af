"""Carrying out what is decided for the pod groups of batch/v1 Jobs, and telling who starts them."""

from collections.abc import Callable
from typing import Any, Final

from quorate.api.batch import Job
from quorate.api.configuration.gang import GangScheduling
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.api.volcano import PodGroup
from quorate.controllers.context import ControllerContext
from quorate.controllers.informers import WORKLOADS_OF
from quorate.controllers.jobframework.construct_workload import queue_name_of
from quorate.controllers.jobframework.pod_group_membership import Membership
from quorate.controllers.volcano.job.job_pod_group import is_waiting
from quorate.controllers.volcano.pod_groups.batch_job_groups import (
    BatchJobInfo,
    GroupPlan,
    admitted_pods,
    decide,
    group_name,
    is_gang_scheduled,
)
from quorate.controllers.volcano.pod_groups.pod_group_builder import pod_group_patch
from quorate.kube.errors import AlreadyExists, Forbidden, Invalid
from quorate.kube.expectations import Expectations, versions
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import JOBS, POD_GROUPS, reference_to
from quorate.kube.writes import Delete, send

WORKERS: Final = 16


class BatchJobMemberships:
    """What is known of pod groups to whoever starts Jobs; it is made before there is anything to know.

    Until it is known whether the cluster has pod groups, a Job that would have one is held back.
    """

    def __init__(self, rules: GangScheduling) -> None:
        self._names = frozenset(rules.scheduler_names)
        self._groups: Informer[PodGroup] | None = None
        self._unserved = False  # the cluster has no pod groups, and Jobs start without
        self._jobs: set[Key] = set()  # those that were told to wait before it was known
        self._told: list[Callable[[Key], None]] = []

    def of(self, job: Any) -> Membership | None:
        if self._unserved or not isinstance(job, Job) or not is_gang_scheduled(job, self._names):
            return None
        key = Key(job.metadata.namespace, group_name(job))
        if self._groups is None:
            self._jobs.add(job.metadata.key)
            return Membership(key, admitted=False)
        return Membership(key, admitted=not is_waiting(self._groups.get(key)))

    def subscribe(self, on_change: Callable[[Key], None]) -> None:
        self._told.append(on_change)

    def known(self, groups: Informer[PodGroup]) -> None:
        """From now on ``groups`` has all that is stored."""
        self._groups, self._unserved = groups, False
        groups.subscribe(self._group_changed)
        self._tell_those_that_wait()

    def unserved(self) -> None:
        """There are no pod groups, for now."""
        self._unserved = True
        self._tell_those_that_wait()

    def _tell_those_that_wait(self) -> None:
        for key in sorted(self._jobs):
            self._tell(key)
        self._jobs.clear()

    def _group_changed(self, change: Change[PodGroup]) -> None:
        for group in (change.old, change.new):
            for key in _job_of(group):
                self._tell(key)

    def _tell(self, job: Key) -> None:
        for on_change in self._told:
            on_change(job)


class BatchJobGroupController:
    """Keeps the pod group of each Job that takes part in step with it; ``queued``: Jobs are queued here."""

    def __init__(
        self, context: ControllerContext, jobs: Informer[Job], groups: Informer[PodGroup], *, queued: bool
    ) -> None:
        self._client = context.client
        self._events = context.events
        self._informers = context.informers
        self._jobs = jobs
        self._groups = groups
        self._queued = queued
        self._without_name = context.configuration.manage_jobs_without_queue_name
        self._rules = context.configuration.gang
        self._names = frozenset(self._rules.scheduler_names)
        self._expectations = Expectations(context.clock)
        self._log = logger(__name__)
        workers = context.workers_for(POD_GROUPS, WORKERS)
        self.reconciler = Reconciler("volcano.batch", self.reconcile, context.clock, workers)
        jobs.subscribe(self._job_changed)
        groups.subscribe(self._group_changed)
        context.informers.workloads.subscribe(self._workload_changed)

    def _job_changed(self, change: Change[Job]) -> None:
        job = change.new if change.new is not None else change.old
        if job is not None and is_gang_scheduled(job, self._names):
            self.reconciler.enqueue(change.key)

    def _group_changed(self, change: Change[PodGroup]) -> None:
        for group in (change.old, change.new):
            for key in _job_of(group):
                self.reconciler.enqueue(key)

    def _workload_changed(self, change: Change[Workload]) -> None:
        for workload in (change.old, change.new):
            owner = None if workload is None else workload.metadata.controller
            if workload is None or owner is None or owner.kind != "Job":
                continue
            key = Key(workload.metadata.namespace, owner.name)
            job = self._jobs.get(key)
            if job is not None and is_gang_scheduled(job, self._names):
                self.reconciler.enqueue(key)

    async def reconcile(self, key: Key) -> float | None:
        job = self._jobs.get(key)
        if job is None:
            self._expectations.forget(key)
            return None  # its group is garbage, and collected
        if not is_gang_scheduled(job, self._names):
            return None
        until = self._expectations.pending_until(key, versions(JOBS, (job,)))
        if until is not None:
            return until
        group = self._groups.get(Key(key.namespace, group_name(job)))
        await self._carry_out(job, group, decide(self._job_info(job, group)))
        return None

    def _job_info(self, job: Job, group: PodGroup | None) -> BatchJobInfo:
        workloads = self._informers.workloads.by_index(WORKLOADS_OF, job.metadata.uid)
        named = bool(queue_name_of(job.metadata)) or self._without_name
        namespace = self._informers.namespaces.get(Key("", job.metadata.namespace))
        return BatchJobInfo(
            job=job,
            group=group,
            queued=self._queued and (named or bool(workloads)),
            admitted_pods=admitted_pods(workloads),
            namespace_annotations={} if namespace is None else namespace.metadata.annotations,
            keep_pending=self._rules.keep_pending_pods_on_rollback,
        )

    async def _carry_out(self, job: Job, group: PodGroup | None, plan: GroupPlan) -> None:
        key = job.metadata.key
        if plan.group_to_delete is not None:
            metadata = plan.group_to_delete.metadata
            await send(self._client, (Delete(POD_GROUPS, metadata.key, metadata.uid),))
        if plan.group is not None:
            await self._bring(job, group, plan.group)
        if plan.patches:
            await send(self._client, plan.patches)
            self._expectations.expect(key, plan.patches)
            self._log.info("job", key=key, group=group_phase(group))

    async def _bring(self, job: Job, group: PodGroup | None, wanted: PodGroup) -> None:
        if group is None:
            try:
                await self._client.create(POD_GROUPS, wanted, wanted.metadata.namespace)
            except AlreadyExists:
                return  # made a moment ago, or still on its way out: the watch will tell
            except (Forbidden, Invalid) as refusal:
                about = reference_to(JOBS, job)
                self._events.event(about, "Warning", "PodGroupError", refusal.message, unique=True)
                raise
            self._log.info("pod group made", key=wanted.metadata.key, min_member=wanted.spec.min_member)
        elif changes := pod_group_patch(group, wanted):
            version = {"resourceVersion": group.metadata.resource_version}
            await self._client.patch(POD_GROUPS, group.metadata.key, {"metadata": version, "spec": changes})


def group_phase(group: PodGroup | None) -> str:
    return "" if group is None else group.status.phase


def _job_of(group: PodGroup | None) -> tuple[Key, ...]:
    owner = None if group is None else group.metadata.controller
    if group is None or owner is None or (owner.api_version, owner.kind) != ("batch/v1", "Job"):
        return ()
    return (Key(group.metadata.namespace, owner.name),)
