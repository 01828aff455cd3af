"""How far a run has come: one line per job and per cluster queue, in words and numbers."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from quorate.api.core import Pod
from quorate.api.kueue import ClusterQueue, FlavorUsage, ResourceQuota
from quorate.api.meta import Condition, epoch, find_condition
from quorate.api.quantity import Quantity
from quorate.cli.run.amounts import in_words, plural, readable
from quorate.cli.run.deadlock import PROGRESSING, shortages
from quorate.cli.run.observation import ObservedCluster, ObservedJob, PodCount


@dataclass(frozen=True, slots=True)
class JobProgress:
    name: str
    state: str  # one or two words
    count: PodCount
    because: str  # what it waits for; empty when nothing is to be said


@dataclass(frozen=True, slots=True)
class QueueProgress:
    name: str
    pending: int
    admitted: int
    used: tuple[str, ...]  # "memory 12640Mi of 16858Mi", one per flavor and resource


Result = Literal["completed", "failed", "unfinished"]


@dataclass(frozen=True, slots=True)
class JobRecord:
    """The story of one job in a row: moments, and how it ended."""

    name: str
    submitted: datetime | None
    admitted: datetime | None  # the last time, if it was evicted in between
    started: datetime | None
    finished: datetime | None
    evictions: int
    result: Result
    reason: str = ""  # why it failed

    @property
    def waited_s(self) -> float | None:
        """From submission to the last admission."""
        if self.submitted is None or self.admitted is None:
            return None
        return epoch(self.admitted) - epoch(self.submitted)


def job_progress(view: ObservedJob, world: ObservedCluster, now: float) -> JobProgress:
    """The state of one job at ``now`` (seconds since the epoch)."""
    state, because = _state(view, world, now)
    return JobProgress(view.name, state, view.count, because)


def queue_progress(queue: ClusterQueue) -> QueueProgress:
    active = find_condition(queue.status.conditions, "Active")
    inactive = (f"inactive: {active.message}",) if active is not None and active.status == "False" else ()
    return QueueProgress(
        queue.metadata.name,
        queue.status.pending_workloads,
        queue.status.admitted_workloads,
        inactive + _used(queue),
    )


def job_record(view: ObservedJob) -> JobRecord:
    """What remains to be told of a job when the run is over."""
    admitted = view.condition("Admitted")
    return JobRecord(
        name=view.name,
        submitted=view.job.metadata.creation_timestamp,
        admitted=admitted.last_transition_time
        if admitted is not None and admitted.status == "True"
        else None,
        started=view.job.status.start_time,
        finished=view.finished_at,
        evictions=view.evictions,
        result="completed" if view.completed else "failed" if view.failure is not None else "unfinished",
        reason=_reason(view.failure) if view.failure is not None else "",
    )


def _state(view: ObservedJob, world: ObservedCluster, now: float) -> tuple[str, str]:
    if view.completed:
        return "completed", ""
    if view.failure is not None:
        return "failed", _reason(view.failure)
    if view.workload is not None:
        if not view.workload.spec.active:
            return "deactivated", _message(view.condition("Evicted"))
        if not view.has("QuotaReserved"):
            return _waiting(view, world, now)
        if view.has("Evicted"):
            return "evicted", _message(view.condition("Evicted"))
        if not view.has("Admitted"):
            return "reserved", "not all of its admission checks are ready"
    elif view.job.spec.suspend:
        return "suspended", _unseen(view) if view.queue else "it names no queue, and nobody has resumed it"
    return _started(view, world)


def _waiting(view: ObservedJob, world: ObservedCluster, now: float) -> tuple[str, str]:
    assert view.workload is not None, "only a workload waits for quota"
    evicted = _message(view.condition("Evicted"))
    requeue = view.workload.status.requeue_state
    if requeue is not None and requeue.requeue_at is not None:
        left_s = max(0, round(epoch(requeue.requeue_at) - now))
        return "backing off", f"{left_s} s more, after {plural(view.evictions, 'eviction')}: {evicted}"
    reserved = view.condition("QuotaReserved")
    if reserved is None:
        return "queued", _unseen(view)
    unready = [_unready(other) for other in world.jobs if other.has("QuotaReserved") and not _is_up(other)]
    if reserved.reason == "Waiting" and unready:
        return "queued", f"admitted once those before it are ready: {', '.join(unready)}"
    return "queued", reserved.message


def _is_up(view: ObservedJob) -> bool:
    return view.has("PodsReady") or view.has("Finished")


def _unready(view: ObservedJob) -> str:
    count = view.count
    return f"{view.name} has {count.ready + count.succeeded} of {plural(count.wanted, 'pod')} ready"


def _started(view: ObservedJob, world: ObservedCluster) -> tuple[str, str]:
    count = view.count
    if count.unplaced:
        unplaced = [pod for pod in view.pods if not pod.spec.node_name]
        judged = [
            pod for pod in unplaced if find_condition(pod.status.conditions, "PodScheduled") is not None
        ]
        lacks = shortages(judged, [world.free(node) for node in world.nodes])
        return "starting", "; ".join(
            map(str, lacks)
        ) or f"nodes are being chosen for {plural(count.unplaced, 'pod')}"
    if count.starting:
        return "starting", f"{plural(count.starting, 'pod')} on the way to be ready"
    if not count.running:
        return "starting", view.awaits_nodes
    # While only some of them are idle the last one has just come up, and the others are about to hear of it.
    idle = sum(_is_idle(pod) for pod in view.pods)
    return "running", f"its pods wait for each other: {count.running} run" if idle == count.running else ""


def _is_idle(pod: Pod) -> bool:
    progressing = find_condition(pod.status.conditions, PROGRESSING)
    return pod.status.phase == "Running" and progressing is not None and progressing.status == "False"


def _used(queue: ClusterQueue) -> tuple[str, ...]:
    reserved = {usage.name: usage for usage in queue.status.flavors_reservation}
    several = sum(len(group.flavors) for group in queue.spec.resource_groups) > 1
    return tuple(
        _use(quota, reserved.get(flavor.name), f"{flavor.name}: " if several else "")
        for group in queue.spec.resource_groups
        for flavor in group.flavors
        for quota in flavor.resources
    )


def _use(quota: ResourceQuota, usage: FlavorUsage | None, prefix: str) -> str:
    totals = {resource.name: resource.total for resource in usage.resources} if usage is not None else {}
    used = totals.get(quota.name, Quantity(0))
    return f"{prefix}{in_words({quota.name: used})} of {readable(quota.nominal_quota)}"


def _unseen(view: ObservedJob) -> str:
    return f"queue {view.queue} has not looked at it yet"


def _message(condition: Condition | None) -> str:
    return condition.message if condition is not None else ""


def _reason(condition: Condition) -> str:
    return f"{condition.reason}: {condition.message}" if condition.message else condition.reason
