"""The writes to worker clusters: at most one in flight for a workload and cluster.

A slow cluster delays its own writes only: each has its own queue and its own number of concurrent writes.  An
action that fails is not repeated as it is: after a pause the workload is decided again.
"""

import asyncio
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import Final, Literal

from msgspec.structs import replace

from quorate.api.kueue import PreemptionGateState, Workload, WorkloadStatus
from quorate.api.meta import Key, Uid, at_epoch
from quorate.api.names.kueue import JOB_UID
from quorate.api.names.multikueue import ORIGIN, PREEMPTION_GATE
from quorate.controllers.context import ControllerContext
from quorate.controllers.finalizers import remove_finalizer
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.multikueue.dispatch.job_adapter import JobAdapter, JobRef, Member, Presence
from quorate.controllers.multikueue.dispatch.plan import (
    CreateCopy,
    DeactivateCopy,
    JobSync,
    OpenGate,
    ReadEnd,
    RemoteAction,
    RemoteState,
    RemoveCopy,
    SyncJob,
    UpdateCopy,
    workload_copy,
)
from quorate.controllers.multikueue.dispatch.rules import EVENT
from quorate.controllers.multikueue.workers import Worker
from quorate.controllers.multikueue.workload_copy import WorkloadCopy
from quorate.kube import errors
from quorate.kube.controller.reconcile import RETRY
from quorate.kube.limits import OWN_WRITE_TIMEOUT_S
from quorate.kube.log import logger
from quorate.kube.resources import WORKLOADS, reference_to
from quorate.kube.writes import Delete, Patch, send, status_patch
from quorate.queueing import conditions as c

WRITES_TO_ONE_CLUSTER: Final = 16
DEFERRED_S: Final = 2.0  # until a job with a deferred status is synced again, as in Kueue
_GONE: Final = ("absent", "removed")
EVICTED_ON_MANAGER: Final = "EvictedOnManagerCluster"  # reason of DeactivationTarget


class _Progress:
    """The open write to one cluster for a workload, and the versions and jobs that earlier ones left.

    It is the only state of a job in a cluster that this process remembers.
    """

    __slots__ = (
        "copied",
        "deleted",
        "end",
        "ending_since",
        "failures",
        "has_job",
        "in_flight",
        "replaced",
        "sync_at",
        "synced",
        "until",
        "wanted",
    )

    def __init__(self) -> None:
        self.in_flight = False
        self.replaced: frozenset[str] = frozenset()  # versions of the copy that our writes have replaced
        self.until = 0.0  # steady time until which the cluster counts as busy
        self.failures = 0  # consecutive
        self.wanted, self.synced = 1, 0  # numbers of the last change, and of that which the job reflects
        self.sync_at: float | None = None  # steady time at which a deferred job is synced again
        self.has_job = False  # we may have created it, and have not deleted it since
        self.copied: tuple[int, ...] | None = None  # of the last sync of that job
        # How that job ended, as read since something changed last; "due": it was not.
        self.end: Outcome | Literal["due"] | None = "due"
        self.deleted = False  # we have deleted the job, and the cache may not show that yet
        self.ending_since: float | None = None  # steady time since which the deleted job has been seen


# Whether it creates a copy, the number of the write, and the arguments of ``_run``.
_Queued = tuple[bool, int, Worker, _Progress, RemoteAction, Workload, JobRef | None]


class ForeignCopy(Exception):
    """A Workload in the worker cluster that is not ours has the name of a copy."""


class RemoteWrites:
    """Sends the actions of plans; ``decide_again`` is called with the key after each."""

    def __init__(
        self, context: ControllerContext, jobs: JobAdapter, decide_again: Callable[[Key], None]
    ) -> None:
        self._context, self._jobs, self._decide_again = context, jobs, decide_again
        self._clock, self._steady = context.clock, context.clock.steady
        self._progress: dict[Key, dict[str, _Progress]] = {}
        self._queues: dict[str, list[_Queued]] = {}  # heaps
        self._numbers = count()
        self._running: dict[str, int] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._log = logger(__name__)

    async def run(self) -> None:
        """Send actions until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            self._tasks = tasks
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                self._tasks = None  # actions that are in flight end, and no other starts

    def state(self, worker: Worker, key: Key, job: JobRef | None) -> RemoteState:
        """Return what is known of a workload in a connected cluster."""
        copy = worker.workloads.get(key)
        presence = None if job is None else self._jobs.presence(worker, job)
        job_seen = presence == "present" and job is not None and len(job.members) == 1
        progress = self._progress.get(key, {}).get(worker.name)
        if progress is None and presence == "ending":
            progress = self._progress.setdefault(key, {})[worker.name] = _Progress()
        if progress is None:
            has_job = None if presence is None else presence not in _GONE
            return RemoteState(copy=copy, has_job=has_job, job_seen=job_seen, end=_end_to_read(presence))
        is_ending = presence == "ending"
        if is_ending and progress.ending_since is None:
            progress.ending_since = self._steady.now()
        elif not is_ending:
            progress.ending_since = None
        is_given_up = is_ending and self._ends_until(progress) <= self._steady.now()
        has_job = None if presence is None else presence not in _GONE and not is_given_up
        is_busy = progress.in_flight or self._is_waiting(progress, copy, presence)
        is_idle = not (is_busy or progress.has_job or progress.failures or is_ending)
        if is_idle and progress.end == "due":
            del self._progress[key][worker.name]  # most clusters never get the job
            if not self._progress[key]:
                del self._progress[key]
        sync: JobSync = "due"
        if progress.synced == progress.wanted:
            sync = "done" if progress.sync_at is None else "deferred"
            if progress.sync_at is not None and progress.sync_at <= self._steady.now():
                sync = "due"
        return RemoteState(
            copy=copy,
            has_job=not is_given_up if progress.has_job else has_job,
            job_seen=job_seen,
            is_ending=is_ending,
            is_busy=is_busy,
            job=sync,
            sync_at=None if progress.sync_at is None else self._epoch(progress.sync_at),
            end=_end_to_read(presence) if progress.end == "due" else progress.end,
        )

    def _is_waiting(self, progress: _Progress, copy: WorkloadCopy | None, presence: Presence | None) -> bool:
        """Return True during the pause after a failure, and until the cache shows our last write."""
        if progress.until <= self._steady.now():
            return False
        is_deletion_late = progress.deleted and presence == "present"
        version = "" if copy is None else copy.metadata.resource_version
        return bool(progress.failures) or is_deletion_late or version in progress.replaced

    def _ends_until(self, progress: _Progress) -> float:
        """Return the steady time until which a deleted job with pods may run; 0 if there is none."""
        timeout_s = self._context.configuration.multikueue.worker_lost_timeout_s
        return 0.0 if progress.ending_since is None else progress.ending_since + timeout_s

    def busy_until(self, key: Key) -> float | None:
        """Return when a cluster ends to count as busy if nothing happens before, epoch seconds."""
        now = self._steady.now()
        of_clusters = self._progress.get(key, {}).values()
        times = [
            until
            for cluster in of_clusters
            for until in (cluster.until, self._ends_until(cluster))
            if until > now
        ]
        return self._epoch(min(times)) if times else None

    def _epoch(self, steady: float) -> float:
        return self._clock.now() + steady - self._steady.now()

    def job_changed(self, key: Key) -> None:
        """Sync the job again: something of it or of its workload has changed, here or there."""
        for progress in self._progress.get(key, {}).values():
            progress.wanted += 1
            progress.sync_at, progress.end = None, "due"

    def reconnected(self, cluster: str) -> None:
        """Forget the writes over a connection that has ended, but keep that a job may exist there."""
        self._queues.pop(cluster, None)
        for key, by_cluster in tuple(self._progress.items()):
            former = by_cluster.pop(cluster, None)
            if former is not None and former.has_job:
                by_cluster[cluster] = progress = _Progress()
                progress.has_job, progress.copied = True, ()
            elif not by_cluster:
                del self._progress[key]

    def forget(self, key: Key) -> None:
        self._progress.pop(key, None)

    def start(self, worker: Worker, action: RemoteAction, workload: Workload, job: JobRef | None) -> None:
        """Queue an action for its cluster; it counts as in flight from now on."""
        key = workload.metadata.key
        progress = self._progress.setdefault(key, {}).setdefault(worker.name, _Progress())
        assert not progress.in_flight, f"{key}: two actions at once in cluster {worker.name}"
        progress.in_flight = True
        if isinstance(action, SyncJob):
            progress.has_job = True
        is_new = isinstance(action, CreateCopy)  # in a burst, jobs that may run do not wait for new copies
        queued = (is_new, next(self._numbers), worker, progress, action, workload, job)
        heappush(self._queues.setdefault(worker.name, []), queued)
        self._start_next(worker.name)

    def _start_next(self, cluster: str) -> None:
        queue = self._queues.get(cluster)
        while queue and self._tasks is not None and self._running.get(cluster, 0) < WRITES_TO_ONE_CLUSTER:
            self._running[cluster] = self._running.get(cluster, 0) + 1
            self._tasks.create_task(self._run(*heappop(queue)[2:]))

    async def _run(
        self,
        worker: Worker,
        progress: _Progress,
        action: RemoteAction,
        workload: Workload,
        job: JobRef | None,
    ) -> None:
        key, wanted = workload.metadata.key, progress.wanted
        progress.deleted = False
        try:
            replaced = await self._send(worker, action, workload, job, progress)
        except Exception as error:
            progress.failures += 1
            pause_s = RETRY.delay_s(progress.failures)
            progress.until = self._steady.now() + pause_s
            self._report(error, worker, action, workload, pause_s)
        else:
            progress.failures = 0
            progress.replaced = replaced
            waits = bool(replaced) or progress.deleted
            progress.until = self._steady.now() + OWN_WRITE_TIMEOUT_S if waits else 0.0
            if isinstance(action, SyncJob):
                progress.synced = wanted
        finally:
            progress.in_flight = False
            self._running[worker.name] -= 1
            self._start_next(worker.name)
            if not self._running[worker.name]:
                del self._running[worker.name]
            self._decide_again(key)

    async def _job_of_copy(self, worker: Worker, workload: Workload) -> JobRef | None:
        """Return the job of a workload that has lost its deleted job as owner, by the owner of its copy."""
        uid = Uid(workload.metadata.labels.get(JOB_UID, ""))
        try:
            job = self._jobs.job_of(await worker.client.get(WORKLOADS, workload.metadata.key))
        except errors.NotFound:
            return None
        return replace(job, members=(Member(job.key.name, uid),)) if isinstance(job, JobRef) else None

    def _report(
        self, error: Exception, worker: Worker, action: RemoteAction, workload: Workload, retry_in_s: float
    ) -> None:
        """Log why a write failed; a refusal by the worker cluster is also an event of the workload."""
        about = {"key": workload.metadata.key, "cluster": worker.name, "action": type(action).__name__}
        if not isinstance(error, errors.RequestFailed | ForeignCopy):
            self._log.fault("worker cluster not written", error, **about, retry_in_s=retry_in_s)
            return
        text = str(error)
        self._log.warning("worker cluster not written", **about, problem=text, retry_in_s=retry_in_s)
        if _is_refusal(error, action):
            note = f'Worker cluster "{worker.name}" refuses it: {text}'
            self._context.events.event(reference_to(WORKLOADS, workload.metadata), "Warning", EVENT, note)

    async def _send(
        self,
        worker: Worker,
        action: RemoteAction,
        workload: Workload,
        job: JobRef | None,
        progress: _Progress,
    ) -> frozenset[str]:
        """Send one action; return the versions of the copy that it replaced ("": there was none)."""
        key = workload.metadata.key
        copy = worker.workloads.get(key)
        match action:
            case CreateCopy():
                await self._create(worker, action, workload)
                return frozenset(("",))
            case RemoveCopy(_, keeps_job, waits_for_pods):
                if job is None and copy is not None and not keeps_job:
                    job = await self._job_of_copy(worker, workload)
                if job is not None and not keeps_job:
                    may_exist = progress.has_job
                    await self._jobs.delete(worker, job, may_exist=may_exist, waits_for_pods=waits_for_pods)
                    progress.has_job, progress.copied, progress.deleted = False, None, True
                return await _remove(worker, copy)
            case SyncJob():
                assert job is not None, f"{key} has no job"
                copied, progress.copied = progress.copied, progress.copied or ()
                synced = await self._jobs.sync(worker, job, workload, copied)
                progress.copied = synced.copied
                if synced.problem:
                    raise ForeignCopy(synced.problem)
                progress.sync_at = self._steady.now() + DEFERRED_S if synced.deferred else None
                return frozenset()
            case ReadEnd():
                assert job is not None, f"{key} has no job"
                progress.end = await self._jobs.end(worker, job)
                return frozenset()
        if copy is None:
            return frozenset()
        version = copy.metadata.resource_version
        if isinstance(action, UpdateCopy):
            await send(worker.client, (Patch(WORKLOADS, key, version, {"spec": action.changes}),))
            return frozenset((version,))
        stored = await worker.client.get(WORKLOADS, key)
        status = _changed_status(stored, action, self._clock.now())
        await send(worker.client, status_patch(WORKLOADS, stored, status))
        return frozenset((version, stored.metadata.resource_version))

    async def _create(self, worker: Worker, action: CreateCopy, workload: Workload) -> None:
        copy = workload_copy(
            workload, self._context.configuration.multikueue.origin, is_gated=action.is_gated
        )
        try:
            await worker.client.create(WORKLOADS, copy, workload.metadata.namespace)
        except errors.AlreadyExists as error:
            stored = await worker.client.get(WORKLOADS, workload.metadata.key)
            if stored.metadata.labels.get(ORIGIN) != copy.metadata.labels[ORIGIN]:
                raise ForeignCopy(f"another Workload has its name: {error}") from error
            return  # an earlier request created it
        admission = workload.status.admission
        labels = {
            "cluster_queue": "" if admission is None else admission.cluster_queue,
            "cluster": worker.name,
        }
        self._context.record("multikueue_workloads_dispatched_total", labels)


async def _remove(worker: Worker, copy: WorkloadCopy | None) -> frozenset[str]:
    if copy is None:
        return frozenset()
    metadata = copy.metadata
    produced = await send(worker.client, remove_finalizer(WORKLOADS, metadata))
    await send(worker.client, (Delete(WORKLOADS, metadata.key, metadata.uid),))
    return frozenset((metadata.resource_version, *(obj.metadata.resource_version for obj in produced)))


def _changed_status(stored: Workload, action: DeactivateCopy | OpenGate, now: float) -> WorkloadStatus:
    match action:
        case DeactivateCopy(_, message):
            target = c.new_condition(c.DEACTIVATION_TARGET, "True", EVICTED_ON_MANAGER, message, now)
            return replace(stored.status, conditions=c.with_conditions(stored.status.conditions, target))
        case OpenGate():
            opened = PreemptionGateState(
                name=PREEMPTION_GATE, position="Open", last_transition_time=at_epoch(now)
            )
            others = (gate for gate in stored.status.preemption_gates if gate.name != PREEMPTION_GATE)
            return replace(stored.status, preemption_gates=(*others, opened))


def _is_refusal(error: Exception, action: RemoteAction) -> bool:
    """Return True if an administrator must change the worker cluster, such as create the namespace."""
    if isinstance(error, errors.NotFound):
        return isinstance(action, CreateCopy)
    return not isinstance(error, (errors.Conflict, *errors.PASSING))


def _end_to_read(presence: Presence | None) -> Literal["due"] | None:
    """Return "due" unless it is known that no job has left anything to read."""
    return None if presence == "absent" else "due"
