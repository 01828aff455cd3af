"""The controller of pod groups for batch/v1 Jobs, and their admission as Jobs see it."""

from collections.abc import Callable
from typing import Any

from quorate.api.batch import Job
from quorate.api.configuration.gang import GangScheduling
from quorate.api.kueue import Workload
from quorate.api.meta import Key
from quorate.api.volcano import PodGroup
from quorate.controllers.context import ControllerContext
from quorate.controllers.executor import Plan, PlanExecutor
from quorate.controllers.informers import UNREADABLE_RETRY_S, WORKLOADS_OF
from quorate.controllers.jobframework.construct_workload import queue_name_of
from quorate.controllers.jobframework.podset_info import Membership
from quorate.controllers.limits import WORKERS
from quorate.controllers.volcano.job.job_pod_group import awaits_admission
from quorate.controllers.volcano.pod_defaults import on_changed_defaults, pod_defaults
from quorate.controllers.volcano.pod_groups.batch_job_groups import (
    BatchGroupPlan,
    BatchJobInfo,
    admitted_pods,
    decide,
    group_name,
    is_gang_scheduled,
)
from quorate.controllers.volcano.pod_groups.pod_group_controller import PodGroupWriter
from quorate.kube.computations import size_of
from quorate.kube.controller.expectations import versions
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.resources import JOBS, POD_GROUPS, reference_to
from quorate.kube.writes import Delete


class BatchJobMemberships:
    """The pod group membership of batch Jobs, for the reconciler that starts them.

    It exists before the pod group informer does.  Until it is known whether the cluster serves pod groups, a
    Job that would have a group is not started.
    """

    def __init__(self, rules: GangScheduling) -> None:
        self._names = frozenset(rules.scheduler_names)
        self._groups: Informer[PodGroup] | None = None
        self._unserved = False  # the cluster serves no pod groups, and Jobs start without one
        self._undecided: set[Key] = set()  # Jobs looked up before either was known
        self._subscribers: list[Callable[[Key], None]] = []

    def of(self, job: Any) -> Membership | None:
        if self._unserved or not isinstance(job, Job) or not is_gang_scheduled(job, self._names):
            return None
        key = Key(job.metadata.namespace, group_name(job))
        if self._groups is None:
            self._undecided.add(job.metadata.key)
            return Membership(key, admitted=False)
        return Membership(key, admitted=not awaits_admission(self._groups.get(key)))

    def subscribe(self, on_change: Callable[[Key], None]) -> None:
        self._subscribers.append(on_change)

    def set_groups(self, groups: Informer[PodGroup]) -> None:
        """Read from ``groups``, which has synced, from now on."""
        self._groups, self._unserved = groups, False
        groups.subscribe(self._group_changed)
        self._notify_undecided()

    def set_unserved(self) -> None:
        """Start Jobs without a group for now: the cluster serves no pod groups."""
        self._unserved = True
        self._notify_undecided()

    def _notify_undecided(self) -> None:
        for key in sorted(self._undecided):
            self._notify(key)
        self._undecided.clear()

    def _group_changed(self, change: Change[PodGroup]) -> None:
        for group in change.versions:
            for key in _job_of(group):
                self._notify(key)

    def _notify(self, job: Key) -> None:
        for on_change in self._subscribers:
            on_change(job)


class BatchJobGroupController:
    """Keeps the pod group of each included Job in sync; ``queued``: this process queues Jobs."""

    def __init__(
        self, context: ControllerContext, jobs: Informer[Job], groups: Informer[PodGroup], *, queued: bool
    ) -> None:
        self._informers = context.informers
        self._jobs = jobs
        self._groups = groups
        self._queued = queued
        self._manage_all = context.configuration.manage_jobs_without_queue_name
        self._rules = context.configuration.gang
        self._names = frozenset(self._rules.scheduler_names)
        self._clock = context.clock
        self._writer = PodGroupWriter(context)
        self._computations = context.computations
        self._log = logger(__name__)
        self.reconciler = context.reconciler("volcano.batch", self.reconcile, jobs, WORKERS, POD_GROUPS)
        self._executor = PlanExecutor(context, JOBS, self.reconciler.enqueue)
        jobs.subscribe(self._job_changed)
        groups.subscribe(self._group_changed)
        context.informers.workloads.subscribe(self._workload_changed)
        on_changed_defaults(context.informers, self._defaults_changed)

    def _job_changed(self, change: Change[Job]) -> None:
        job = change.new if change.new is not None else change.old
        if job is not None and is_gang_scheduled(job, self._names):
            self.reconciler.enqueue(change.key)

    def _defaults_changed(self, namespace: str | None) -> None:
        for job in self._jobs:
            if namespace in (None, job.metadata.namespace) and is_gang_scheduled(job, self._names):
                self.reconciler.enqueue(job.metadata.key)

    def _group_changed(self, change: Change[PodGroup]) -> None:
        for group in change.versions:
            for key in _job_of(group):
                self.reconciler.enqueue(key)

    def _workload_changed(self, change: Change[Workload]) -> None:
        for workload in change.versions:
            owner = workload.metadata.controller
            if owner is None or owner.kind != "Job":
                continue
            key = Key(workload.metadata.namespace, owner.name)
            job = self._jobs.get(key)
            if job is not None and is_gang_scheduled(job, self._names):
                self.reconciler.enqueue(key)

    async def reconcile(self, key: Key) -> float | None:
        job = self._jobs.get(key)
        if job is None:
            self._executor.forget(key)
            return None  # its group is garbage-collected
        if not is_gang_scheduled(job, self._names):
            return None
        until = self._executor.pending_until(key, versions(JOBS, (job,)))
        if until is not None:
            return until
        if self._informers.has_unreadable_workload(job.metadata.uid):
            return self._clock.now() + UNREADABLE_RETRY_S
        group = self._groups.get(Key(key.namespace, group_name(job)))
        info, size = self._job_info(job, group), size_of(job)
        await self._execute(job, group, await self._computations.run(size, decide, info), size)
        return None

    def _job_info(self, job: Job, group: PodGroup | None) -> BatchJobInfo:
        workloads = self._informers.workloads.by_index(WORKLOADS_OF, job.metadata.uid)
        names_queue = bool(queue_name_of(job.metadata)) or self._manage_all
        namespace = self._informers.namespaces.get(Key("", job.metadata.namespace))
        return BatchJobInfo(
            job=job,
            group=group,
            queued=self._queued and (names_queue or bool(workloads)),
            admitted_pods=admitted_pods(workloads),
            namespace_annotations={} if namespace is None else namespace.metadata.annotations,
            keep_pending=self._rules.keep_pending_pods_on_rollback,
            defaults=pod_defaults(self._informers, job.metadata.namespace),
        )

    async def _execute(self, job: Job, group: PodGroup | None, plan: BatchGroupPlan, size: int) -> None:
        if plan.group is not None and group is None:
            await self._writer.create(plan.group, reference_to(JOBS, job.metadata))
        elif plan.group is not None and group is not None:
            await self._writer.update(group, plan.group, size)
        deletions: tuple[Delete, ...] = ()
        if plan.group_to_delete is not None:
            metadata = plan.group_to_delete.metadata
            deletions = (Delete(POD_GROUPS, metadata.key, metadata.uid),)
        await self._executor.execute(job.metadata.key, Plan(writes=(*deletions, *plan.patches)))
        if plan.patches:
            phase = "" if group is None else group.status.phase
            self._log.info("job started or suspended", key=job.metadata.key, pod_group_phase=phase)


def _job_of(group: PodGroup) -> tuple[Key, ...]:
    owner = group.metadata.controller
    if owner is None or (owner.api_version, owner.kind) != ("batch/v1", "Job"):
        return ()
    return (Key(group.metadata.namespace, owner.name),)
