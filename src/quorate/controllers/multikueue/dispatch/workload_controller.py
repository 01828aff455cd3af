"""The dispatch controller: decides about each workload with a MultiKueue check, and executes the decision.

The status of the local workload is written before anything in a worker cluster.  The controller stores
nothing: a new process finds the results of the former process's writes in the caches.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from quorate.api.kueue import AdmissionCheck, AdmissionCheckState, Workload
from quorate.api.kueue.multikueue import MultiKueueConfig
from quorate.api.meta import Key, is_true
from quorate.api.names.multikueue import CONTROLLER
from quorate.controllers.context import ControllerContext
from quorate.controllers.executor import ObjectEvent, Plan, PlanExecutor
from quorate.controllers.informers import WORKLOADS_OF, checks_of_workload
from quorate.controllers.limits import WORKERS
from quorate.controllers.multikueue.dispatch.dispatchers import (
    ClusterStart,
    configured_dispatchers,
    earliest_start,
)
from quorate.controllers.multikueue.dispatch.job_adapter import JobAdapter, JobRef
from quorate.controllers.multikueue.dispatch.plan import (
    DispatchInput,
    DispatchPlan,
    DispatchSettings,
    RemoteState,
)
from quorate.controllers.multikueue.dispatch.remote_writes import RemoteWrites
from quorate.controllers.multikueue.dispatch.rules import decide, last_cluster
from quorate.controllers.multikueue.workers import Workers
from quorate.kube.controller.expectations import versions
from quorate.kube.informer import Change, Informer
from quorate.kube.resources import WORKLOADS, reference_to
from quorate.kube.writes import status_patch
from quorate.queueing import conditions as c

_BY_CHECK: Final = "dispatched workloads by check"  # index of workloads by the names of their checks

# Gets a workload and its configured clusters; returns the start in each cluster of which it is known.
StartsOf = Callable[[Workload, tuple[str, ...]], Mapping[str, ClusterStart]]


class DispatchController:
    def __init__(
        self,
        context: ControllerContext,
        configs: Informer[MultiKueueConfig],
        workers: Workers,
        jobs: JobAdapter,
        starts_of: StartsOf,
    ) -> None:
        self._context, self._configs, self._workers, self._jobs = context, configs, workers, jobs
        self._starts_of = starts_of
        self._settings = _settings(context)
        self._workloads, self._checks = context.informers.workloads, context.informers.checks
        self._deleted: dict[Key, Workload] = {}  # local workloads that may have copies
        # Since when we know of no connection to a cluster of a workload.
        self._absent: dict[Key, dict[str, float]] = {}
        self.reconciler = context.reconciler("multikueue_workload", self.reconcile, self._workloads, WORKERS)
        self.writes = RemoteWrites(context, jobs, self._enqueue)
        self._executor = PlanExecutor(context, WORKLOADS, self._enqueue)
        self._workloads.add_index(_BY_CHECK, checks_of_workload)
        self._workloads.subscribe(self._workload_changed)
        self._checks.subscribe(self._check_changed)
        configs.subscribe(self._config_changed)
        workers.subscribe_workloads(self._remote_changed)
        workers.subscribe_workers(self._worker_changed)

    async def run(self) -> None:
        """Dispatch until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.writes.run(), name="writes to worker clusters")
            tasks.create_task(self.reconciler.run(), name=self.reconciler.name)

    def _enqueue(self, key: Key) -> None:
        """Decide about a workload soon.

        A workload with a job that may run in a cluster comes before new workloads, also while many of these
        arrive.
        """
        workload = self._workloads.get(key)
        urgent = workload is None or bool(workload.status.cluster_name) or c.is_finished(workload)
        if not urgent:
            copies = (worker.workloads.get(key) for worker in self._workers)
            urgent = any(copy is not None and is_true(copy.conditions, c.ADMITTED) for copy in copies)
        self.reconciler.enqueue(key, urgent=urgent)

    def _workload_changed(self, change: Change[Workload]) -> None:
        old, new = change.old, change.new
        if new is None:
            assert old is not None, "a workload that never was is deleted"
            if old.status.admission_checks:
                self._deleted[change.key] = old
            self._enqueue(change.key)
        elif new.status.admission_checks:
            if old is None or _concerns_job(old, new):
                self.writes.job_changed(change.key)
            self._deleted.pop(change.key, None)
            self._enqueue(change.key)
            if old is None or old.status.cluster_name != new.status.cluster_name:
                self._enqueue_components(new)

    def _enqueue_components(self, workload: Workload) -> None:
        """Decide again about the other workloads of the same job, which wait for it and go where it goes."""
        owner = workload.metadata.job_owner
        for other in () if owner is None else self._workloads.by_index(WORKLOADS_OF, owner.uid):
            if other.metadata.name != workload.metadata.name:
                self._enqueue(other.metadata.key)

    def _remote_changed(self, key: Key) -> None:
        self.writes.job_changed(key)
        self._enqueue(key)

    def _worker_changed(self, name: str) -> None:
        self.writes.reconnected(name)
        for key in self._deleted:
            self._enqueue(key)
        for check in self._checks:
            if check.spec.controller_name == CONTROLLER:
                self._enqueue_by_check(check.metadata.name)

    def _check_changed(self, change: Change[AdmissionCheck]) -> None:
        if any(check.spec.controller_name == CONTROLLER for check in change.versions):
            self._enqueue_by_check(change.key.name)

    def _config_changed(self, change: Change[MultiKueueConfig]) -> None:
        for check in self._checks:
            if _config_name(check) == change.key.name:
                self._enqueue_by_check(check.metadata.name)

    def _enqueue_by_check(self, check: str) -> None:
        for workload in self._workloads.by_index(_BY_CHECK, check):
            self._enqueue(workload.metadata.key)

    async def reconcile(self, key: Key) -> float | None:
        stored = self._workloads.get(key)
        workload = stored or self._deleted.get(key)
        check = None if workload is None else self._check_of(workload)
        if workload is None or check is None:
            self._forget(key)
            return None
        if stored is not None:
            until = self._executor.pending_until(key, versions(WORKLOADS, (workload,)))
            if until is not None:
                return until
        info = await self._input(workload, check, is_deleted=stored is None)
        plan = decide(info)
        await self._execute(workload, info, plan)
        is_over = stored is None or c.is_finished(workload)
        if is_over and not plan.actions and not any(remote.is_busy for remote in info.remotes.values()):
            self.writes.forget(key)
            if stored is None:
                self._forget(key)  # what lost clusters have is collected there
        times = (plan.wake_at, self.writes.busy_until(key))
        return min((time for time in times if time is not None), default=None)

    def _forget(self, key: Key) -> None:
        self.writes.forget(key)
        self._executor.forget(key)
        for by_key in (self._deleted, self._absent):
            by_key.pop(key, None)

    async def _input(
        self, workload: Workload, check: AdmissionCheckState, *, is_deleted: bool
    ) -> DispatchInput:
        key, now = workload.metadata.key, self._context.clock.now()
        is_deleted = is_deleted or workload.metadata.deletion_timestamp is not None
        job_or_gap = self._jobs.job_of(workload)
        job = job_or_gap if isinstance(job_or_gap, JobRef) else None
        rejection, count = "", 1
        if job is None:
            owner = "" if isinstance(job_or_gap, JobRef) else job_or_gap.owner
            rejection = f"No multikueue adapter found{f' for owner kind {owner!s}' if owner else ''}"
        elif self._is_new(workload, check) and not is_deleted:
            local = await self._jobs.local_job(job)
            rejection = f"The owner is not managed by Kueue: {local.refusal}" if local.refusal else ""
            count = local.workloads
        config = self._configs.get(Key("", _config_name(self._checks.get(Key("", check.name)))))
        clusters = None if config is None else config.spec.clusters
        asks = (
            self._settings.dispatcher is earliest_start
            and check.state == "Pending"
            and c.has_quota_reservation(workload)
            and not workload.status.cluster_name
        )
        return DispatchInput(
            workload=workload,
            check=check,
            clusters=clusters,
            remotes=dict(self._remotes(key, job, clusters or ())),
            lost={
                name: since
                for name in (workload.status.cluster_name, last_cluster(workload))
                if (since := self._lost_since(key, name, now)) is not None
            },
            settings=self._settings,
            now=now,
            rejection=rejection,
            is_deleted=is_deleted,
            components=None if job is None else self._jobs.components(workload, job, count),
            estimates=self._starts_of(workload, clusters or ()) if asks else {},
        )

    def _lost_since(self, key: Key, cluster: str, now: float) -> float | None:
        """Return since when a cluster is not connected, also one without a MultiKueueCluster (any more)."""
        if not cluster or self._workers.get(cluster) is not None:
            self._absent.get(key, {}).pop(cluster, None)
            return None
        since = self._workers.lost_since(cluster)
        return self._absent.setdefault(key, {}).setdefault(cluster, now) if since is None else since

    def _is_new(self, workload: Workload, check: AdmissionCheckState) -> bool:
        """Return True if it is still to be decided whether the job can run in another cluster."""
        status = workload.status
        is_nominated = bool(status.cluster_name or status.nominated_cluster_names)
        return check.state == "Pending" and c.has_quota_reservation(workload) and not is_nominated

    def _remotes(
        self, key: Key, job: JobRef | None, clusters: tuple[str, ...]
    ) -> Iterator[tuple[str, RemoteState]]:
        """Yield the state in each connected cluster that is configured or may have something of ours."""
        for worker in self._workers:
            state = self.writes.state(worker, key, job)
            if worker.name in clusters or state.copy is not None or state.has_job:
                yield worker.name, state

    def _check_of(self, workload: Workload) -> AdmissionCheckState | None:
        """Return the state of the workload's MultiKueue check; None: it has none."""
        for state in workload.status.admission_checks:
            check = self._checks.get(Key("", state.name))
            if check is not None and check.spec.controller_name == CONTROLLER:
                return state
        return None

    async def _execute(self, workload: Workload, info: DispatchInput, plan: DispatchPlan) -> None:
        key = workload.metadata.key
        written: list[Workload] = []
        patches = status_patch(WORKLOADS, workload, plan.status)
        events = tuple(
            ObjectEvent(reference_to(WORKLOADS, workload.metadata), event) for event in plan.events
        )
        if patches or events:
            await self._executor.execute(key, Plan(writes=patches, events=events), written.extend)
            self._count(workload, plan)
        newest = written[-1] if written else workload
        job = self._jobs.job_of(workload)
        if plan.ends_job and isinstance(job, JobRef):
            await self._jobs.lost(job)
        for action in plan.actions:
            worker = self._workers.get(action.cluster)
            if worker is not None:  # otherwise it was lost meanwhile
                self.writes.start(worker, action, newest, job if isinstance(job, JobRef) else None)

    def _count(self, workload: Workload, plan: DispatchPlan) -> None:
        admission = workload.status.admission
        queue = "" if admission is None else admission.cluster_queue
        record = self._context.record
        if plan.admitted_in:
            labels = {"cluster_queue": queue, "cluster": plan.admitted_in}
            record("multikueue_workloads_admitted_total", labels)
        if plan.evicted_in:
            labels = {"cluster_queue": queue, "cluster": plan.evicted_in, "reason": plan.eviction}
            record("multikueue_workloads_evicted_total", labels)


def _concerns_job(old: Workload, new: Workload) -> bool:
    """Return True if the remote job, or the status copied from it, may have to change."""
    members = [workload.metadata.owner_references for workload in (old, new)]  # a group may get other pods
    return (old.spec, members[0]) != (new.spec, members[1]) or any(
        holds(old) != holds(new) for holds in (c.is_admitted, c.is_evicted, c.has_quota_reservation)
    )


def _config_name(check: AdmissionCheck | None) -> str:
    if check is None or check.spec.controller_name != CONTROLLER or check.spec.parameters is None:
        return ""
    return check.spec.parameters.name


def _settings(context: ControllerContext) -> DispatchSettings:
    configuration = context.configuration
    rules = configuration.multikueue
    return DispatchSettings(
        worker_lost_timeout_s=rules.worker_lost_timeout_s,
        dispatcher_name=rules.dispatcher,
        dispatcher=configured_dispatchers(configuration).get(rules.dispatcher),
        gives_places=configuration.topology_gates is not None,
        orchestrates_preemption=configuration.multikueue_gates.orchestrated_preemption,
        elastic_jobs=configuration.gates.elastic_jobs_via_workload_slices,
    )
