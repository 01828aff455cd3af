"""Find out whether a run can still make progress; if not, which job holds what and what each job is short of.

The model: a cluster changes only when a component acts or a clock expires.  ``pending_changes`` names each
component and clock that may still act.  In doubt it reports a change, so that a run counts as deadlocked only
when

- no pod is being created, started, stopped or scheduled, no unschedulable pod would fit now (by the
  scheduler's own rule), and no pod adds to its running time;
- no job waits for its workload, or to be started, stopped or finished;
- no workload waits for its first evaluation, and none has a running readiness, execution or backoff clock.

The scheduler and the queueing cycle react after an event, so the caller must also observe an unchanged
cluster for as long as either may take.

Known limit: a pod that runs forever counts as a pending change, because it may be stopped from outside.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from quorate.api.configuration.pods_ready import WaitForPodsReady
from quorate.api.core import Node, Pod, Resources
from quorate.api.core.pod import ENDED_PHASES
from quorate.api.core.pod_resources import pod_requests, sum_resources
from quorate.api.kueue import Workload
from quorate.api.meta import find_condition
from quorate.api.quantity import Quantity
from quorate.gang.admission_record import REQUEUE_NOT_BEFORE
from quorate.inspect.formatting import format_quantity, format_resources, plural
from quorate.local.controllers.scheduler_filters import NodeInfo, SelectedNode, pod_amounts, select_node
from quorate.local.nodes.pod_status import PROGRESSING
from quorate.processes.local.observation import ObservedCluster, ObservedJob, wanted_pods


@dataclass(frozen=True, slots=True)
class Shortage:
    """``pods`` equal pods that fit no node; ``short``: the requests of a pod that no node can satisfy."""

    pods: int
    short: Resources  # empty when amounts are not the reason
    message: str  # the scheduler's own

    def __str__(self) -> str:
        pods = plural(self.pods, "more pod")
        if self.short:
            requests = format_resources(self.short)
            return f"{pods} needs {requests}" if self.pods == 1 else f"{pods} need {requests} each"
        return f"{pods} {'has' if self.pods == 1 else 'have'} no node: {self.message}"


@dataclass(frozen=True, slots=True)
class BlockedJob:
    name: str
    running: int
    wanted: int
    holds: Resources
    short_of: tuple[Shortage, ...]
    reason: str  # what the workload, or its pod group, waits for; empty when both are admitted

    def __str__(self) -> str:
        if self.reason:
            return f"{self.name} waits: {self.reason}"
        runs = f"{self.name} runs {self.running} of {plural(self.wanted, 'pod')}"
        short_of = "; ".join(map(str, self.short_of)) or "its pods make no progress"
        return f"{runs} and holds {format_resources(self.holds)}; {short_of}"


@dataclass(frozen=True, slots=True)
class NoProgress:
    """The unfinished jobs of a cluster without progress, and the free capacity of what they are short of."""

    jobs: tuple[BlockedJob, ...]
    free_capacity: tuple[str, ...]
    advice: str  # empty when there is none to give

    @property
    def is_deadlock(self) -> bool:
        """Return True if jobs block one another: at least two jobs hold pods and lack nodes for more pods."""
        return sum(bool(job.running and job.short_of) for job in self.jobs) >= 2


def pending_changes(cluster: ObservedCluster, readiness: WaitForPodsReady | None) -> Iterator[str]:
    """Yield a sentence for each change that may still happen without outside help."""
    for observed in cluster.jobs:
        if not observed.finished:
            yield from _job_changes(observed, readiness)
    node_infos = _node_infos(cluster)
    for pod in cluster.pods:
        if (change := _pod_change(pod, node_infos)) is not None:
            yield f"pod {pod.metadata.name} {change}"


def diagnose_deadlock(cluster: ObservedCluster, readiness: WaitForPodsReady | None) -> NoProgress:
    """Return what holds the unfinished jobs up, for a cluster without pending changes."""
    free = {node.metadata.name: cluster.free(node) for node in cluster.nodes}
    blocked = tuple(
        _blocked_job(observed, list(free.values())) for observed in cluster.jobs if not observed.finished
    )
    short = {name for job in blocked for shortage in job.short_of for name in shortage.short}
    no_progress = NoProgress(
        blocked, tuple(_free_capacity(cluster.nodes, free, name) for name in sorted(short)), ""
    )
    if not no_progress.is_deadlock or (readiness is not None and readiness.block_admission):
        return no_progress
    advice = (
        "each job holds resources that another needs; with waitForPodsReady and blockAdmission they would be "
        "admitted one after the other (--config)"
    )
    return NoProgress(no_progress.jobs, no_progress.free_capacity, advice)


def _job_changes(observed: ObservedJob, readiness: WaitForPodsReady | None) -> Iterator[str]:
    job, name = observed.job, observed.name
    if job.metadata.deletion_timestamp is not None:
        yield f"job {name} is being deleted"
    if observed.workload is None:
        if observed.queue:
            yield f"job {name} has no workload yet"
    else:
        for change in _workload_changes(observed, observed.workload, readiness):
            yield f"workload of {name} {change}"
    if job.spec.suspend:
        return
    if job.spec.active_deadline_seconds is not None:
        yield f"job {name} has a deadline"
    live = sum(pod.status.phase not in ENDED_PHASES for pod in observed.pods)
    left = wanted_pods(job.spec) - observed.count.succeeded
    if live < min(job.spec.parallelism, left) or left <= 0:
        yield f"job {name} has {plural(live, 'pod')} and will get more pods or be finished"


def _workload_changes(
    observed: ObservedJob, workload: Workload, readiness: WaitForPodsReady | None
) -> Iterator[str]:
    status = workload.status
    if observed.has("Finished"):
        yield "is finished, its job is not yet"
    if status.requeue_state is not None and status.requeue_state.requeue_at is not None:
        yield "waits for its backoff"
    if workload.spec.active and observed.condition("QuotaReserved") is None:
        yield "has not been evaluated yet"
    if not observed.has("QuotaReserved"):
        if not observed.job.spec.suspend and observed.queue:
            yield "has no quota, its job is to be stopped"
        return
    if observed.has("Evicted") or not workload.spec.active:
        yield "is being evicted"
    elif observed.has("Admitted"):
        yield from _admitted_changes(observed, workload, readiness)


def _admitted_changes(
    observed: ObservedJob, workload: Workload, readiness: WaitForPodsReady | None
) -> Iterator[str]:
    if observed.job.spec.suspend and not observed.pod_group_reason:
        yield "is admitted, its job is to be started"
    if observed.group is not None and REQUEUE_NOT_BEFORE in observed.group.metadata.annotations:
        yield "was requeued, its pod group is retried"
    if workload.spec.maximum_execution_time_seconds is not None:
        yield "has a maximum execution time"
    if readiness is None:
        return
    ready = observed.condition("PodsReady")
    if ready is None or ready.status != "True":
        recovering = ready is not None and ready.reason == "WaitForRecovery"
        if not recovering or readiness.recovery_timeout_s is not None:
            yield "runs against its readiness clock"


def _node_infos(cluster: ObservedCluster) -> dict[str, NodeInfo]:
    """Return the nodes as the scheduler sees them, with the resources that their pods use."""
    node_infos = {node.metadata.name: NodeInfo(node) for node in cluster.nodes}
    for pod in cluster.pods:
        if pod.spec.node_name in node_infos and pod.status.phase not in ENDED_PHASES:
            node_infos[pod.spec.node_name].add_pod(pod_amounts(pod.spec))
    return node_infos


def _pod_change(pod: Pod, node_infos: Mapping[str, NodeInfo]) -> str | None:
    if pod.metadata.deletion_timestamp is not None:
        return "is being deleted"
    if pod.status.phase in ENDED_PHASES:
        return None
    if not pod.spec.node_name:
        placed = find_condition(pod.status.conditions, "PodScheduled")
        if placed is None or placed.status != "False":
            return "has not been evaluated by the scheduler"
        fits_now = not pod.spec.scheduling_gates and isinstance(
            select_node(pod, node_infos.values()), SelectedNode
        )
        return "was unschedulable, but fits a node now" if fits_now else None
    if pod.spec.node_name not in node_infos:
        return None  # bound to a node that is not simulated
    if pod.status.phase == "Pending":
        return "is starting"
    progressing = find_condition(pod.status.conditions, PROGRESSING)
    return "runs" if progressing is None or progressing.status != "False" else None


def _blocked_job(observed: ObservedJob, free: list[Resources]) -> BlockedJob:
    count = observed.count
    holding = [pod for pod in observed.pods if pod.spec.node_name and pod.status.phase not in ENDED_PHASES]
    return BlockedJob(
        name=observed.name,
        running=count.running,
        wanted=count.wanted,
        holds=sum_resources(pod_requests(pod.spec) for pod in holding),
        short_of=shortages([pod for pod in observed.pods if not pod.spec.node_name], free),
        reason=_pending_reason(observed),
    )


def _pending_reason(observed: ObservedJob) -> str:
    """Return why a job is not admitted; empty when it is."""
    if observed.workload is None:
        return "it is suspended and names no queue" if observed.job.spec.suspend else ""
    if observed.has("QuotaReserved"):
        return (
            observed.pod_group_reason
            if observed.has("Admitted")
            else "it has quota, but not all of its admission checks are ready"
        )
    if not observed.workload.spec.active:
        evicted = observed.condition("Evicted")
        return evicted.message if evicted is not None else "its workload is deactivated"
    condition = observed.condition("QuotaReserved")
    return condition.message if condition is not None else f"queue {observed.queue} has not evaluated it"


def shortages(pods: list[Pod], free: list[Resources]) -> tuple[Shortage, ...]:
    """Return the pods without a node, grouped by what they are short of, the largest group first."""
    groups: dict[tuple[str, str], Shortage] = {}
    for pod in pods:
        requests = pod_requests(pod.spec)
        short = {name: amount for name, amount in requests.items() if _fits_nowhere(name, amount, free)}
        condition = find_condition(pod.status.conditions, "PodScheduled")
        message = "" if short or condition is None else condition.message
        same = (format_resources(short), message)
        counted = groups[same].pods if same in groups else 0
        groups[same] = Shortage(counted + 1, short, message)
    return tuple(groups[same] for same in sorted(groups, key=lambda same: (-groups[same].pods, same)))


def _fits_nowhere(name: str, amount: Quantity, free: list[Resources]) -> bool:
    return all(name not in free_capacity or free_capacity[name] < amount for free_capacity in free)


def _free_capacity(nodes: tuple[Node, ...], free: dict[str, Resources], name: str) -> str:
    """Return ``memory: 213Mi free of 8429Mi``; for several nodes also the most that is free on one."""
    having = [node for node in nodes if name in node.status.allocatable]
    if not having:
        return f"{name}: no node has any"
    total = sum_resources({name: node.status.allocatable[name]} for node in having)
    left = sum_resources({name: free[node.metadata.name][name]} for node in having)
    text = f"{name}: {format_quantity(left[name])} free of {format_quantity(total[name])}"
    if len(having) == 1:
        return text
    largest = max(free[node.metadata.name][name] for node in having)
    return f"{text} on {len(having)} nodes, at most {format_quantity(largest)} on one"
