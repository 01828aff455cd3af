"""The progress of a run: one line per job and per cluster queue, with numbers."""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from quorate.api.core import Pod
from quorate.api.kueue import ClusterQueue, FlavorUsage, ResourceQuota
from quorate.api.meta import Condition, epoch, find_condition
from quorate.api.quantity import Quantity
from quorate.inspect.formatting import format_quantity, format_resources, plural
from quorate.local.nodes.pod_status import PROGRESSING
from quorate.processes.local.deadlock import shortages
from quorate.processes.local.observation import ObservedCluster, ObservedJob, PodCount
from quorate.queueing import conditions as c


@dataclass(frozen=True, slots=True)
class JobProgress:
    name: str
    state: str  # Pending, Starting, Running, ..., as a word to show
    count: PodCount
    reason: str  # what it waits for; empty if nothing


@dataclass(frozen=True, slots=True)
class QueueProgress:
    name: str
    pending: int
    admitted: int
    used: tuple[str, ...]  # "memory 12640Mi of 16858Mi", one per flavor and resource


Result = Literal["completed", "failed", "unfinished"]


@dataclass(frozen=True, slots=True)
class JobRecord:
    """When one job was submitted, admitted, started and finished, and with which result."""

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
        """Return the time from submission to the last admission, seconds; None before both."""
        if self.submitted is None or self.admitted is None:
            return None
        return epoch(self.admitted) - epoch(self.submitted)


def job_progress(observed: ObservedJob, cluster: ObservedCluster, now: float) -> JobProgress:
    """Return the state of one job at ``now`` (seconds since the epoch)."""
    state, reason = _state(observed, cluster, now)
    return JobProgress(observed.name, state, observed.count, reason)


def queue_progress(queue: ClusterQueue) -> QueueProgress:
    active = find_condition(queue.status.conditions, "Active")
    inactive = (f"inactive: {active.message}",) if active is not None and active.status == "False" else ()
    return QueueProgress(
        queue.metadata.name,
        queue.status.pending_workloads,
        queue.status.admitted_workloads,
        inactive + _used(queue),
    )


def job_record(observed: ObservedJob) -> JobRecord:
    """Return the row of a job in the table that ends a run."""
    result: Result = "completed" if observed.completed else "unfinished"
    if observed.failure is not None and not observed.completed:
        result = "failed"
    admitted = observed.condition("Admitted") if observed.has("Admitted") else None
    return JobRecord(
        name=observed.name,
        submitted=observed.job.metadata.creation_timestamp,
        admitted=admitted.last_transition_time if admitted is not None else None,
        started=observed.job.status.start_time,
        finished=observed.finished_at,
        evictions=observed.evictions,
        result=result,
        reason=_reason(observed.failure) if observed.failure is not None else "",
    )


def _state(observed: ObservedJob, cluster: ObservedCluster, now: float) -> tuple[str, str]:
    if observed.completed:
        return "Completed", ""
    if observed.failure is not None:
        return "Failed", _reason(observed.failure)
    if observed.workload is not None:
        if not observed.workload.spec.active:
            return "Deactivated", _message(observed.condition("Evicted"))
        if not observed.has("QuotaReserved"):
            return _waiting(observed, cluster, now)
        if observed.has("Evicted"):
            return "Evicted", _message(observed.condition("Evicted"))
        if not observed.has("Admitted"):
            return "QuotaReserved", "not all of its admission checks are ready"
    elif observed.job.spec.suspend:
        return "Suspended", _not_evaluated(
            observed
        ) if observed.queue else "it names no queue and was not resumed"
    return _started(observed, cluster)


def _waiting(observed: ObservedJob, cluster: ObservedCluster, now: float) -> tuple[str, str]:
    assert observed.workload is not None, "only a workload waits for quota"
    evicted = _message(observed.condition("Evicted"))
    requeue = observed.workload.status.requeue_state
    if requeue is not None and requeue.requeue_at is not None:
        left_s = max(0, round(epoch(requeue.requeue_at) - now))
        return "Backing off", f"{left_s} s more, after {plural(observed.evictions, 'eviction')}: {evicted}"
    reserved = observed.condition("QuotaReserved")
    if reserved is None:
        return "Pending", _not_evaluated(observed)
    unready = [
        _unready(other) for other in cluster.jobs if other.has("QuotaReserved") and not _is_ready(other)
    ]
    # The second is the reason without its detail, see UnadmittedWorkloadsObservability.
    if reserved.reason in (c.WAITING_FOR_PODS_READY, "Waiting") and unready:
        return "Pending", f"waits until earlier admitted jobs are ready: {', '.join(unready)}"
    return "Pending", reserved.message


def _is_ready(observed: ObservedJob) -> bool:
    return observed.has("PodsReady") or observed.has("Finished")


def _unready(observed: ObservedJob) -> str:
    count = observed.count
    return f"{observed.name} has {count.ready + count.succeeded} of {plural(count.wanted, 'pod')} ready"


def _started(observed: ObservedJob, cluster: ObservedCluster) -> tuple[str, str]:
    count = observed.count
    if count.unplaced:
        unplaced = [pod for pod in observed.pods if not pod.spec.node_name]
        evaluated = [
            pod for pod in unplaced if find_condition(pod.status.conditions, "PodScheduled") is not None
        ]
        short_of = shortages(evaluated, [cluster.free(node) for node in cluster.nodes])
        return "Starting", "; ".join(
            map(str, short_of)
        ) or f"{plural(count.unplaced, 'pod')} not scheduled yet"
    if count.starting:
        return "Starting", f"{plural(count.starting, 'pod')} not ready yet"
    if not count.running:
        has_ended = count.succeeded + count.failed > 0  # its controller has yet to count the ended pods
        return ("Running", "") if has_ended else ("Starting", observed.pod_group_reason)
    # While only some pods are idle, the last one has just become ready and the rest will notice it soon.
    idle = sum(_is_idle(pod) for pod in observed.pods)
    return "Running", f"its pods wait for each other: {count.running} run" if idle == count.running else ""


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
    return f"{prefix}{format_resources({quota.name: used})} of {format_quantity(quota.nominal_quota)}"


def _not_evaluated(observed: ObservedJob) -> str:
    return f"not evaluated yet by local queue {observed.queue}"


def _message(condition: Condition | None) -> str:
    return condition.message if condition is not None else ""


def _reason(condition: Condition) -> str:
    return f"{condition.reason}: {condition.message}" if condition.message else condition.reason
