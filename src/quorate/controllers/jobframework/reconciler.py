"""Carrying out the plans for the jobs of one kind."""

from collections.abc import Callable, Iterable
from typing import Any, Generic

from quorate.api.core import Namespace
from quorate.api.kueue import Workload
from quorate.api.meta import Key, Uid, matches_selector
from quorate.controllers.context import ControllerContext
from quorate.controllers.informers import WORKLOADS_OF, ByName
from quorate.controllers.jobframework.ancestors import AncestorFinder, BrokenOwnerChain, OwnerNotFound
from quorate.controllers.jobframework.construct_workload import ELASTIC_JOB, prebuilt_name_of
from quorate.controllers.jobframework.elastic_gates import let_pods_go
from quorate.controllers.jobframework.interface import J, JobKind
from quorate.controllers.jobframework.job_plan import JobPlan, JobRules, Surroundings, not_composed
from quorate.controllers.jobframework.pod_group_membership import Memberships
from quorate.controllers.jobframework.rules import decide
from quorate.controllers.jobframework.workload_slices import in_order
from quorate.controllers.metrics import record_creations
from quorate.controllers.unplaced import UnscheduledPod, slices_of, unscheduled_of_slices
from quorate.kube.debounce import Debounce
from quorate.kube.errors import ApiError, Invalid, NotFound, Unreachable, Unreadable
from quorate.kube.expectations import Expectations, versions
from quorate.kube.informer import Change, Informer
from quorate.kube.log import logger
from quorate.kube.reconcile import Reconciler
from quorate.kube.resources import WORKLOADS, reference_to
from quorate.kube.writes import Create, send
from quorate.queueing.conditions import is_admitted, is_evicted, is_finished
from quorate.queueing.lifecycle.transition import Event

JOB_WORKERS = 16  # a run mostly waits for the answers to its two or three writes
DEBOUNCE_S = 1.0  # pods of one job tend to end together: one write can tell of many
OWNER_S = 1.0  # after so long an owner that was not seen is looked for again
REFUSED_S = (
    60.0  # after so long a workload that the API refused is tried again; a change of its job goes first
)
CHAIN_S = 60.0  # after so long a chain of owners that had no end is followed again


_NAMING = "naming"  # index of jobs by the key of the workload they name as their own


def as_stored(job: J) -> J:
    return job


class JobController(Generic[J]):
    """Keeps each job of one kind in step with its workload."""

    def __init__(
        self,
        context: ControllerContext,
        kind: JobKind[J],
        jobs: Informer[J],
        ancestors: AncestorFinder,
        completed: Callable[[J], J] = as_stored,
        memberships: Memberships | None = None,
    ) -> None:
        """``completed`` adds to a job what other objects say about it; ``memberships`` hold some back."""
        self._client = context.client
        self._clock = context.clock
        self._record = context.record
        self._events = context.events
        self._informers = context.informers
        self._kind = kind
        self._jobs = jobs
        self._ancestry = ancestors
        self._completed = completed
        self._memberships = memberships
        configuration = context.configuration
        self._selector = configuration.managed_jobs_namespace_selector
        self._rules = JobRules(
            manage_jobs_without_queue_name=configuration.manage_jobs_without_queue_name,
            wait_for_pods_ready=configuration.wait_for_pods_ready is not None,
            label_keys_to_copy=configuration.integrations.label_keys_to_copy,
            gates=configuration.gates,
            elastic_jobs=configuration.webhook_gates.elastic_jobs,
            deactivated_kept_s=configuration.retention.deactivated_s,
        )
        self._lacking: set[Key] = set()  # jobs for which something must come to be first
        self._expectations = Expectations(context.clock)
        self._debounce = Debounce(context.clock, DEBOUNCE_S)  # with patient plans
        self._managers: dict[Key, Uid] = {}  # of the jobs that are parts, whose
        self._parts: dict[Uid, set[Key]] = {}  # the same, the other way around
        self._told: dict[Key, tuple[Event, ...]] = {}  # what was last said of each job without doing anything
        self._log = logger(__name__).bind(kind=kind.resource.kind)
        name = f"jobs.{kind.resource.plural}"
        workers = context.workers_for(kind.resource, JOB_WORKERS)
        self.reconciler = Reconciler(name, self.reconcile, context.clock, workers)
        self._owner_index = f"controlled by {kind.resource.api_version} {kind.resource.kind}"
        self._slice_index = f"slices {self._owner_index}"
        context.informers.workloads.add_index(self._owner_index, self._owners)
        self._follow()

    def _owners(self, workload: Workload) -> tuple[Key, ...]:
        owner = workload.metadata.controller
        ours = (self._kind.resource.api_version, self._kind.resource.kind)
        if owner is None or (owner.api_version, owner.kind) != ours:
            return ()
        return (Key(workload.metadata.namespace, owner.name),)

    def _named(self, job: J) -> tuple[Key, ...]:
        """The workload that the job names as its own, if it names one."""
        if not self._kind.supports_prebuilt:
            return ()
        by_annotation = self._rules.gates.workload_identifier_annotations
        name = prebuilt_name_of(job.metadata, by_annotation=by_annotation)
        return (Key(job.metadata.namespace, name),) if name else ()

    def _prebuilt(self, job: J | None) -> Workload | None:
        for key in () if job is None else self._named(job):
            return self._informers.workloads.get(key)
        return None

    def _follow(self) -> None:
        self._jobs.add_index("namespace", lambda job: (job.metadata.namespace,))
        self._jobs.add_index(_NAMING, self._named)
        self._jobs.subscribe(self._job_changed)
        self._informers.workloads.subscribe(self._workload_changed)
        self._informers.namespaces.subscribe(self._namespace_changed)
        self._informers.flavors.subscribe(self._something_came)
        self._informers.workload_classes.subscribe(self._something_came)
        self._informers.pod_classes.subscribe(self._something_came)
        if self._memberships is not None:
            self._memberships.subscribe(self.reconciler.enqueue)
        if self._kind.has_slices:
            self._informers.workloads.add_index(
                self._slice_index,
                lambda workload: slices_of(workload.metadata) if self._owners(workload) else (),
            )
            self._informers.unscheduled_pods.subscribe(self._unplaced_pod_changed)

    def _job_changed(self, change: Change[J]) -> None:
        for job in (change.old, change.new):
            if job is not None:
                self.reconciler.enqueue(job.metadata.key)

    def _workload_changed(self, change: Change[Workload]) -> None:
        for workload in (change.old, change.new):
            if workload is not None:
                for key in self._owners(workload):
                    self.reconciler.enqueue(key)
                for uid in _owner_uid(workload):
                    for key in sorted(self._parts.get(uid, ())):
                        self.reconciler.enqueue(key)
                self._enqueue(self._jobs.by_index(_NAMING, workload.metadata.key))

    def _unplaced_pod_changed(self, change: Change[UnscheduledPod]) -> None:
        """A new pod of an elastic job may go, however it came to be."""
        if change.new is None or change.old is not None:
            return
        for slices in slices_of(change.new.metadata):
            for workload in self._informers.workloads.by_index(self._slice_index, slices):
                for key in self._owners(workload):
                    self.reconciler.enqueue(key)

    def _enqueue(self, jobs: Iterable[J]) -> None:
        for job in jobs:
            self.reconciler.enqueue(job.metadata.key)

    def _namespace_changed(self, change: Change[Namespace]) -> None:
        old, new = change.old, change.new
        if new is not None and (old is None or old.metadata.labels != new.metadata.labels):
            self._enqueue(self._jobs.by_index("namespace", new.metadata.name))

    def _something_came(self, change: Change[Any]) -> None:
        for key in sorted(self._lacking):
            self.reconciler.enqueue(key)

    async def reconcile(self, key: Key) -> float | None:
        job = self._jobs.get(key)
        workloads = self._informers.workloads.by_index(self._owner_index, key)
        if job is None and not workloads:
            self._forget(key)
            return None
        prebuilt = self._prebuilt(job)
        seen = versions(WORKLOADS, workloads if prebuilt is None else (*workloads, prebuilt))
        if job is not None:
            seen |= versions(self._kind.resource, (job,))
        until = self._expectations.pending_until(key, seen)
        if until is not None:
            return until
        if job is None or self._expectations.is_stale(key, seen):
            job = await self._if_it_lives(key)
        manager = await self._managing_ancestor(job)
        if isinstance(manager, OwnerNotFound):
            self._log.debug("owner not seen yet", key=key, owner=manager.owner.name)
            return self._clock.now() + OWNER_S
        if isinstance(manager, BrokenOwnerChain):
            if job is not None:
                self._tell(job, _endless(manager))
            return self._clock.now() + CHAIN_S
        self._belongs(key, manager)
        if job is not None:
            job = self._completed(job)
        around = self._surroundings(key, manager, prebuilt, job)
        plan = decide(self._kind, job, workloads, around, self._rules, self._clock.now())
        if (due := await self._carry_out(key, job, plan)) is not None:
            return due
        if job is not None:
            self._tell(job, plan)
            await self._let_pods_go(job, workloads)
        return plan.wake_at

    async def _carry_out(self, key: Key, job: J | None, plan: JobPlan) -> float | None:
        """Send the writes of a plan, or answer when, if they may wait."""
        if plan.lacks:
            self._lacking.add(key)
        else:
            self._lacking.discard(key)
        if plan.patient and (due := self._debounce.defer_until(key)) is not None:
            return due
        self._debounce.clear(key)
        if plan.writes:
            try:
                answers = await send(self._client, plan.writes)
            except Invalid as refusal:
                if job is None or not _makes_workload(plan):
                    raise
                self._tell(
                    job, not_composed(f"no Workload can be made of the job as it is: {refusal.message}")
                )
                return self._clock.now() + REFUSED_S
            except (ApiError, Unreachable, Unreadable):
                self._expectations.doubt(key, plan.writes)
                raise
            if job is not None and self._rules.gates.metric_for_workload_creation_latency:
                kind = self._kind.resource.kind
                record_creations(self._record, kind, job.metadata, plan.writes, answers)
            self._expectations.expect(key, plan.writes)
        return None

    async def _let_pods_go(self, job: J, workloads: Iterable[Workload]) -> None:
        """As many pods of an elastic job as its admitted slice has: each new one comes with a gate."""
        if not self._kind.has_slices or job.metadata.annotations.get(ELASTIC_JOB) != "true":
            return
        admitted = in_order(
            [
                each
                for each in workloads
                if is_admitted(each) and not is_evicted(each) and not is_finished(each)
            ]
        )
        owner = self._kind.pods_label(job)
        if owner and admitted and self._rules.elastic_jobs and not self._kind.is_suspended(job):
            counts = {pod_set.name: pod_set.count for each in admitted for pod_set in each.spec.pod_sets}
            slices = next(iter(slices_of(admitted[-1].metadata)), admitted[-1].metadata.key)
            unplaced = unscheduled_of_slices(self._informers.unscheduled_pods, slices)
            by_hand = any(pod.metadata.labels.get(owner[0]) != owner[1] for pod in unplaced)
            await let_pods_go(self._client, slices, owner, counts, all_=by_hand)

    async def _managing_ancestor(self, job: J | None) -> Uid | OwnerNotFound | BrokenOwnerChain | None:
        if job is None or job.metadata.deletion_timestamp is not None:
            return None  # on its way out, maybe after its owner, it stands for itself
        return await self._ancestry.managing_ancestor(job.metadata)

    def _belongs(self, key: Key, manager: Uid | None) -> None:
        """Remember whose part a job is, so that it is looked at when that one's workload changes."""
        before = self._managers.pop(key, None)
        if before is not None:
            self._parts[before].discard(key)
            if not self._parts[before]:
                del self._parts[before]
        if manager is not None:
            self._managers[key] = manager
            self._parts.setdefault(manager, set()).add(key)

    def _forget(self, key: Key) -> None:
        self._lacking.discard(key)
        self._debounce.clear(key)
        self._told.pop(key, None)
        self._belongs(key, None)
        self._expectations.forget(key)

    def _tell(self, job: J, plan: JobPlan) -> None:
        """Show the plan's events on the job; what only describes it is not said twice in a row."""
        key = job.metadata.key
        for workload, event in plan.of_workload:
            self._events.event(reference_to(WORKLOADS, workload), event.type, event.reason, event.message)
        if not plan.events or (not plan.writes and self._told.get(key) == plan.events):
            return
        if plan.writes:
            self._told.pop(key, None)
        else:
            self._told[key] = plan.events
        regarding = reference_to(self._kind.resource, job)
        for event in plan.events:
            unique = not plan.writes
            self._events.event(regarding, event.type, event.reason, event.message, unique=unique)
            self._log.info("job", key=key, did=event.reason, note=event.message)

    async def _if_it_lives(self, key: Key) -> J | None:
        """The job as it is, whatever our copy says: the workload of a living job must never be finished.

        Nor may the quota of one be given back that runs, which we may have had started without hearing of it.
        """
        try:
            return await self._client.get(self._kind.resource, key)
        except NotFound:
            return None

    def _surroundings(
        self, key: Key, manager: Uid | None, prebuilt: Workload | None, job: J | None
    ) -> Surroundings:
        namespace = self._informers.namespaces.get(Key("", key.namespace))
        return Surroundings(
            namespace_managed=namespace is not None
            and matches_selector(self._selector, namespace.metadata.labels),
            flavors=ByName(self._informers.flavors),
            workload_classes=ByName(self._informers.workload_classes),
            pod_classes=ByName(self._informers.pod_classes),
            part_of=None
            if manager is None
            else tuple(self._informers.workloads.by_index(WORKLOADS_OF, manager)),
            prebuilt=prebuilt,
            membership=None if self._memberships is None or job is None else self._memberships.of(job),
        )


def _owner_uid(obj: Any) -> tuple[Uid, ...]:
    owner = obj.metadata.controller
    return () if owner is None else (owner.uid,)


def _makes_workload(plan: JobPlan) -> bool:
    return any(isinstance(write, Create) and write.resource == WORKLOADS for write in plan.writes)


def _endless(chain: BrokenOwnerChain) -> JobPlan:
    reason = "ErrWorkloadCompose" if chain.circular else "JobNestingTooDeep"
    return JobPlan(events=(Event("Warning", reason, chain.problem),))
