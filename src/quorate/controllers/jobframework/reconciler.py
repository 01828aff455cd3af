"""The reconciler of the job framework: loads a job, applies the rules and executes the plan.

A ``JobSource`` loads the jobs of a kind: from one informer, or from an index if a job is several objects.
"""

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Generic

from quorate.api.core import Namespace
from quorate.api.core.pod import Pod
from quorate.api.kueue import Workload
from quorate.api.meta import Key, ObjectMeta, Uid, find_condition, matches_selector
from quorate.api.native_groups import PodGroup
from quorate.controllers.context import ControllerContext, record_workload_creations
from quorate.controllers.executor import PlanExecutor, name_conflict, warning_event
from quorate.controllers.informers import UNREADABLE_RETRY_S, WORKLOADS_OF, ByName, slices_of
from quorate.controllers.jobframework.ancestors import AncestorFinder, BrokenOwnerChain, OwnerNotFound
from quorate.controllers.jobframework.elastic_gates import ungate_elastic_pods
from quorate.controllers.jobframework.interface import J, JobKind, JobObject
from quorate.controllers.jobframework.job_plan import (
    JobChange,
    JobOptions,
    JobPlan,
    ReconcileContext,
    job_options,
)
from quorate.controllers.jobframework.native_gangs import wants_native_gangs
from quorate.controllers.jobframework.podset_info import Memberships
from quorate.controllers.jobframework.rules import decide
from quorate.controllers.jobframework.stopped_pods import StoppedPods, selector_of
from quorate.controllers.limits import (
    INVALID_RETRY_S,
    OWNER_CHAIN_RETRY_S,
    OWNER_RETRY_S,
    REFUSED_JOB_RETRY_S,
    STOPPED_PODS_RETRY_S,
    WORKERS,
)
from quorate.controllers.native_groups import NativeGangSupport, NativeGroups
from quorate.kube.computations import size_of
from quorate.kube.controller.expectations import Version, versions
from quorate.kube.controller.reconcile import Reconciler
from quorate.kube.errors import AlreadyExists, ApiError, is_refusal
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.object_faults import fault_of
from quorate.kube.resources import WORKLOADS
from quorate.kube.writes import Create, Patch, status_patch
from quorate.queueing.conditions import JOB_UPDATED, has_quota_reservation, is_admitted, transition_time
from quorate.queueing.lifecycle.statuses import refused_status

_NAMES_WORKLOAD: Final = "names workload"  # index of jobs by the key of their prebuilt workload
_NAMESPACE: Final = "namespace"


class JobSource(ABC, Generic[J]):
    """Where the jobs of one kind are loaded from."""

    @abstractmethod
    def cached(self, key: Key) -> J | None:
        """Return the job as the informers have it."""

    @abstractmethod
    async def live(self, key: Key) -> J | None:
        """Return the job as the API server has it."""

    @abstractmethod
    def versions(self, job: J) -> set[Version]:
        """Return the versions of the job's objects."""

    @abstractmethod
    def size_of(self, job: J) -> int:
        """Return about how many bytes the JSON of the job's objects has."""

    @abstractmethod
    def workloads(self, key: Key) -> Sequence[Workload]:
        """Return the workloads that jobs with this key control."""

    def prebuilt(self, job: J) -> Workload | None:
        """Return the workload that the job names, if it exists."""
        return None

    async def parent(self, job: J) -> Uid | None:
        """Return the object with which a new workload of the job is labelled instead of the job."""
        return None

    async def completed(self, job: J) -> J:
        """Return the job with what other objects say about it."""
        return job

    def uids(self, job: J) -> tuple[Uid, ...]:
        """Return the uids of the job's objects, which own its workloads."""
        return (job.metadata.uid,)


@dataclass(frozen=True, slots=True)
class _RefusedChange:
    """A change of a job that the API server refused, and when it is tried again (epoch seconds)."""

    resource_version: str
    reason: str
    until: float

    def is_about(self, job: JobObject, change: JobChange, now: float) -> bool:
        refused = (self.resource_version, self.reason)
        return now < self.until and refused == (job.metadata.resource_version, change.reason)


_UNGATING: Final = JobChange("UngatingRefused", "pods of the job cannot be ungated", None)


def _other_change(kind: JobKind[J], plan: JobPlan) -> JobChange | None:
    """Return the change of a plan that neither starts nor stops its job; None if it changes nothing."""
    changes_job = any(
        isinstance(write, Patch) and write.resource == kind.resource for write in plan.all_writes
    )
    return JobChange("UpdateRefused", "the job cannot be changed", None) if changes_job else None


class JobReconciler(Generic[J]):
    """Keeps each job of one kind in sync with its workload.

    ``ancestors`` None: jobs of the kind are never children of managed jobs.  ``memberships``: pod groups
    that must be admitted as well.  ``native``: the pod groups of Kubernetes that jobs may name.
    ``reconcile``: wraps the method of that name.
    """

    def __init__(
        self,
        context: ControllerContext,
        kind: JobKind[J],
        source: JobSource[J],
        name: str,
        *,
        ancestors: AncestorFinder | None = None,
        memberships: Memberships | None = None,
        native: NativeGroups | None = None,
        reconcile: Callable[[Key], Awaitable[float | None]] | None = None,
    ) -> None:
        self.kind = kind
        self.options: JobOptions = job_options(context.configuration)
        self._context = context
        self._source = source
        self._ancestors = ancestors
        self._memberships = memberships
        self._native = native
        self._selector = context.configuration.managed_jobs_namespace_selector
        self._ancestor_of: dict[Key, Uid] = {}  # of the jobs that are children of managed jobs
        self._children: dict[Uid, set[Key]] = {}  # the inverse of _ancestor_of
        self._refused: dict[Key, _RefusedChange] = {}  # the last change of each job, if it was refused
        self._native_gangs = NativeGangSupport(context.client, context.clock)
        self._stopped_pods = StoppedPods(context.client, context.informers)
        self._log = logger(__name__).bind(kind=kind.resource.kind)
        workers = context.workers_for(kind.resource, WORKERS)
        self.reconciler = Reconciler(
            name, reconcile or self.reconcile, context.clock, workers, report=self._report
        )
        self.executor = PlanExecutor(context, kind.resource, self.reconciler.enqueue)
        informers = context.informers
        self.executor.retry_on(informers.flavors, informers.workload_classes, informers.pod_classes)

    def _report(self, key: Key, error: Exception) -> None:
        """Report an exception on the job ``key``; for a pod group, on its first pod."""
        about = key
        try:
            job = self._source.cached(key)
            if job is not None:
                about = job.metadata.key
        except Exception:
            job = None  # what is reported may have been raised there; a group may have no pods
        self._context.client.faults.report(fault_of(self.kind.resource, "reconcile", about, job, error))

    def enqueue_children(self, ancestor: Uid) -> None:
        for key in sorted(self._children.get(ancestor, ())):
            self.reconciler.enqueue(key)

    def manages_namespace(self, name: str) -> bool:
        namespace = self._context.informers.namespaces.get(Key("", name))
        return namespace is not None and matches_selector(self._selector, namespace.metadata.labels)

    def _is_namespace_deleted(self, name: str) -> bool:
        namespace = self._context.informers.namespaces.get(Key("", name))
        return namespace is not None and namespace.metadata.deletion_timestamp is not None

    async def reconcile(self, key: Key) -> float | None:
        job = self._source.cached(key)
        workloads = self._source.workloads(key)
        if job is None and not workloads:
            self._forget(key)
            return None
        seen = self._versions(job, workloads)
        until = self.executor.pending_until(key, seen)
        if until is not None:
            return until
        if job is None or self.executor.is_stale(key, seen):
            # The workload of a job that exists must never be finished, nor its quota released while it runs.
            job = await self._source.live(key)
        if job is not None and self._context.informers.has_unreadable_workload(*self._source.uids(job)):
            # Without its workload the job would be stopped, or get another one.
            return self._context.clock.now() + UNREADABLE_RETRY_S
        ancestor = await self._managing_ancestor(job)
        if isinstance(ancestor, OwnerNotFound):
            self._log.debug("owner not found yet", key=key, owner=ancestor.owner.name)
            return self._context.clock.now() + OWNER_RETRY_S
        if isinstance(ancestor, BrokenOwnerChain):
            if job is not None:
                reason = "ErrWorkloadCompose" if ancestor.circular else "JobNestingTooDeep"
                event = warning_event(self.kind.reference(job), reason, ancestor.problem)
                self.executor.record(key, (event,), unique=True)
            return self._context.clock.now() + OWNER_CHAIN_RETRY_S
        self._set_ancestor(key, ancestor)
        context = self._reconcile_context(key, job, ancestor)
        if job is not None:
            job = await self._source.completed(job)
            if not workloads:
                context = replace(context, parent=await self._source.parent(job))
            elif self._starts_as_native_gang(job, workloads):
                context = replace(context, native_gangs=await self._native_gangs.availability())
        plan = await self._decide(job, workloads, context)
        selector = selector_of(self.kind, job) if job is not None and plan.releases else ""
        if selector and await self._stopped_pods.may_run(plan.releases, selector):
            return self._context.clock.now() + STOPPED_PODS_RETRY_S
        return await self._execute_or_report(key, job, workloads, plan)

    async def _execute_or_report(
        self, key: Key, job: J | None, workloads: Sequence[Workload], plan: JobPlan
    ) -> float | None:
        """Execute the plan; report a change of the job that the API server refuses, and try it later."""
        if job is None:
            return await self.executor.execute(key, plan)
        change = plan.change or _other_change(self.kind, plan)
        if change is not None:
            refused = self._refused.get(key)
            if refused is not None and refused.is_about(job, change, self._context.clock.now()):
                return refused.until
        try:
            again_at = await self._execute(key, job, plan)
            if self.kind.has_slices and self.options.elastic_jobs:
                change = _UNGATING
                unscheduled = self._context.informers.unscheduled_pods
                flavors = ByName(self._context.informers.flavors)
                await ungate_elastic_pods(
                    self._context.client, unscheduled, self.kind, job, workloads, flavors
                )
        except ApiError as refusal:
            if change is None or not is_refusal(refusal):
                raise
            return await self._report_refusal(key, job, change, refusal)
        self._refused.pop(key, None)
        return again_at

    async def _report_refusal(self, key: Key, job: J, change: JobChange, refusal: ApiError) -> float:
        """Tell on the job and its workload which change is refused; return when to try it again.

        The pause is as long as it has been refused.
        """
        text = f"{change.refusal}: {refusal.message or refusal.reason}"
        now, since, workload = self._context.clock.now(), None, change.workload
        if workload is not None:
            before = find_condition(workload.status.conditions, JOB_UPDATED)
            since = None if before is None or before.reason != change.reason else transition_time(before)
            status = refused_status(workload, change.reason, text, now)
            await self.executor.execute(key, JobPlan(writes=status_patch(WORKLOADS, workload, status)))
        event = warning_event(self.kind.reference(job), change.reason, text)
        self.executor.record(key, (event,), unique=True)
        pause_s = REFUSED_JOB_RETRY_S if since is None else max(REFUSED_JOB_RETRY_S, now - since)
        until = now + min(pause_s, INVALID_RETRY_S)
        self._refused[key] = _RefusedChange(job.metadata.resource_version, change.reason, until)
        return until

    async def _decide(
        self, job: J | None, workloads: Sequence[Workload], context: ReconcileContext
    ) -> JobPlan:
        """Return the plan; that of a large job is made in a thread, because templates are compared."""
        size = sum(len(pod_set.template) for workload in workloads for pod_set in workload.spec.pod_sets)
        if job is not None:
            size += self._source.size_of(job)
        arguments = (self.kind, job, workloads, context, self.options, self._context.clock.now())
        return await self._context.computations.run(size, decide, *arguments)

    def _versions(self, job: J | None, workloads: Sequence[Workload]) -> set[Version]:
        prebuilt = None if job is None else self._source.prebuilt(job)
        seen = versions(WORKLOADS, workloads if prebuilt is None else (*workloads, prebuilt))
        return seen if job is None else seen | self._source.versions(job)

    async def _execute(self, key: Key, job: J, plan: JobPlan) -> float | None:
        try:
            return await self.executor.execute(key, plan, partial(self._record, job, plan))
        except AlreadyExists:
            about, workloads = self.kind.reference(job), self._context.informers.workloads
            conflict = name_conflict(about, plan.all_writes, workloads, self._source.uids(job))
            if conflict is None:
                raise
            event = conflict
        except ApiError as refusal:
            creates = any(isinstance(write, Create) and write.resource == WORKLOADS for write in plan.writes)
            if not (creates and is_refusal(refusal)):
                raise
            text = f"no Workload can be made of the job as it is: {refusal.message or refusal.reason}"
            event = warning_event(self.kind.reference(job), "ErrWorkloadCompose", text)
        self.executor.record(key, (event,), unique=True)
        return self._context.clock.now() + INVALID_RETRY_S

    def _record(self, job: J, plan: JobPlan, produced: list[Any]) -> None:
        record = self._context.record
        if plan.ungated is not None:
            plan.ungated.record(record, self._context.clock.now())
        if self.options.gates.metric_for_workload_creation_latency:
            record_workload_creations(record, self.kind.resource.kind, job.metadata, plan.writes, produced)

    async def _managing_ancestor(self, job: J | None) -> Uid | OwnerNotFound | BrokenOwnerChain | None:
        if self._ancestors is None or job is None or job.metadata.deletion_timestamp is not None:
            return None  # the owner of a deleted job may have been deleted before it
        return await self._ancestors.managing_ancestor(job.metadata)

    def _starts_as_native_gang(self, job: J, workloads: Sequence[Workload]) -> bool:
        """Return True if the job starts now, and with native pod groups."""
        if not (self.kind.joins_native_groups and self.kind.is_suspended(job)) or self.kind.is_serving(job):
            return False
        queues = ByName(self._context.informers.cluster_queues)
        return any(
            is_admitted(workload)
            and wants_native_gangs(job.metadata, workload, queues, self.options.native_gangs)
            for workload in workloads
        )

    def _set_ancestor(self, key: Key, ancestor: Uid | None) -> None:
        """Remember the ancestor; changes of its workload reconcile the child."""
        before = self._ancestor_of.pop(key, None)
        if before is not None:
            self._children[before].discard(key)
            if not self._children[before]:
                del self._children[before]
        if ancestor is not None:
            self._ancestor_of[key] = ancestor
            self._children.setdefault(ancestor, set()).add(key)

    def _forget(self, key: Key) -> None:
        self._set_ancestor(key, None)
        self._refused.pop(key, None)
        self.executor.forget(key)

    def _reconcile_context(self, key: Key, job: J | None, ancestor: Uid | None) -> ReconcileContext:
        informers = self._context.informers
        groups = self._native.view(job.metadata.uid, informers.topologies) if self._native and job else None
        return ReconcileContext(
            namespace_managed=self.manages_namespace(key.namespace),
            namespace_deleted=self._is_namespace_deleted(key.namespace),
            flavors=ByName(informers.flavors),
            workload_classes=ByName(informers.workload_classes),
            pod_classes=ByName(informers.pod_classes),
            ancestor_workloads=None
            if ancestor is None
            else tuple(informers.workloads.by_index(WORKLOADS_OF, ancestor)),
            prebuilt=None if job is None else self._source.prebuilt(job),
            membership=None if self._memberships is None or job is None else self._memberships.of(job),
            native_groups=groups,
            checks=ByName(informers.checks),
        )


class JobController(JobSource[J]):
    """Watches and reconciles the jobs of a kind with one object per job.

    ``completed`` adds to a job what other objects say about it.
    """

    def __init__(
        self,
        context: ControllerContext,
        kind: JobKind[J],
        jobs: Informer[J],
        ancestors: AncestorFinder,
        native_groups: NativeGroups,
        completed: Callable[[J], Awaitable[J]],
        memberships: Memberships | None,
    ) -> None:
        self._client = context.client
        self._kind = kind
        self._jobs = jobs
        self._completed = completed
        self._ancestors = ancestors
        self._workloads = context.informers.workloads
        name = f"jobs.{kind.resource.plural}"
        memberships = memberships if kind.awaits_pod_groups else None
        self._framework = JobReconciler(
            context, kind, self, name, ancestors=ancestors, memberships=memberships, native=native_groups
        )
        self.reconciler = self._framework.reconciler
        self._owner_kind = (kind.resource.api_version, kind.resource.kind)
        self._owner_index = f"controlled by {kind.resource.api_version} {kind.resource.kind}"
        self._slice_index = f"slices {self._owner_index}"
        self._watch(context, memberships)
        native_groups.subscribe(self._native_group_changed)

    def cached(self, key: Key) -> J | None:
        return self._jobs.get(key)

    async def live(self, key: Key) -> J | None:
        return await self._client.find(self._kind.resource, key)

    async def completed(self, job: J) -> J:
        return await self._completed(job)

    def is_queued(self, job: J) -> bool:
        """Return True if the job starts only with a workload of its own; what a queued job owns has none."""
        metadata = job.metadata
        return (
            self._framework.manages_namespace(metadata.namespace)
            and self._kind.is_managed(job, self._framework.options)
            and not self._ancestors.is_owned_by_queued_kind(metadata)
        )

    def versions(self, job: J) -> set[Version]:
        return versions(self._kind.resource, (job,))

    def size_of(self, job: J) -> int:
        return size_of(job)

    def workloads(self, key: Key) -> Sequence[Workload]:
        return self._workloads.by_index(self._owner_index, key)

    def prebuilt(self, job: J) -> Workload | None:
        return next((self._workloads.get(key) for key in self._prebuilt_key(job)), None)

    def _prebuilt_key(self, job: J) -> tuple[Key, ...]:
        by_annotation = self._framework.options.gates.workload_identifier_annotations
        name = self._kind.prebuilt_name(job, by_annotation=by_annotation)
        return (Key(job.metadata.namespace, name),) if name else ()

    def _owner_key(self, owned: ObjectMeta) -> tuple[Key, ...]:
        owner = owned.controller
        if owner is None or (owner.api_version, owner.kind) != self._owner_kind:
            return ()
        return (Key(owned.namespace, owner.name),)

    def _watch(self, context: ControllerContext, memberships: Memberships | None) -> None:
        self._jobs.add_index(_NAMESPACE, lambda job: (job.metadata.namespace,))
        self._jobs.add_index(_NAMES_WORKLOAD, self._prebuilt_key)
        index = partial(self._workloads.add_index, of_metadata=True)
        index(self._owner_index, lambda workload: self._owner_key(workload.metadata))
        self._jobs.subscribe(self._job_changed)
        self._workloads.subscribe(self._workload_changed)
        context.informers.namespaces.subscribe(self._namespace_changed)
        if memberships is not None:
            memberships.subscribe(self.reconciler.enqueue)
        if self._kind.has_slices:
            index(
                self._slice_index,
                lambda workload: slices_of(workload.metadata) if self._owner_key(workload.metadata) else (),
            )
            context.informers.unscheduled_pods.subscribe(self._unscheduled_pod_changed)

    def _job_changed(self, change: Change[J]) -> None:
        self.reconciler.enqueue(change.key)

    def _workload_changed(self, change: Change[Workload]) -> None:
        for workload in change.versions:
            if (owner := workload.metadata.job_owner) is not None:
                for key in self._owner_key(workload.metadata):
                    # In a burst, jobs that may start or must stop do not wait for the workloads of new jobs.
                    self.reconciler.enqueue(key, urgent=has_quota_reservation(workload))
                self._framework.enqueue_children(owner.uid)
        self._enqueue(self._jobs.by_index(_NAMES_WORKLOAD, change.key))

    def _native_group_changed(self, change: Change[PodGroup]) -> None:
        """Reconcile the jobs that wait for a native group, and the job of the changed group."""
        if change.old is None:
            self._framework.executor.dependency_changed()
        for group in change.versions:
            for key in self._owner_key(group.metadata):
                self.reconciler.enqueue(key)

    def _unscheduled_pod_changed(self, change: Change[Pod]) -> None:
        """Reconcile an elastic job with a new pod: the pod may have to be ungated."""
        if change.new is None or change.old is not None:
            return
        for slices in slices_of(change.new.metadata):
            for workload in self._workloads.by_index(self._slice_index, slices):
                for key in self._owner_key(workload.metadata):
                    self.reconciler.enqueue(key)

    def _namespace_changed(self, change: Change[Namespace]) -> None:
        old, new = change.old, change.new
        if new is not None and (old is None or old.metadata.labels != new.metadata.labels):
            self._enqueue(self._jobs.by_index(_NAMESPACE, new.metadata.name))

    def _enqueue(self, jobs: Iterable[J]) -> None:
        for job in jobs:
            self.reconciler.enqueue(job.metadata.key)
