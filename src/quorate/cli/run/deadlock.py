"""Find out whether a run can still make progress; if not, which job holds what and what each job is short of.

The model: a cluster changes only when a component acts or a clock expires.  ``pending_changes`` names each
component and clock that may still act; it errs towards movement, so that a run is declared dead only when

- no pod is being created, started, stopped or judged by the scheduler, none that it refused would find room
  now (asked of the scheduler's own rule), and none adds to its running time;
- no job waits to be given a workload, started, stopped or finished;
- no workload waits for its first verdict, runs against a readiness, execution or backoff clock.

Verdicts lag behind events (the scheduler's, the queueing cycle's), so the caller must also see the same
world, unchanged, for as long as any of them may take.

Knowingly missing: a pod told to run for ever is taken as movement, for it may be stopped from outside.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from quorate.api.configuration import WaitForPodsReady
from quorate.api.core import Node, Pod, Resources
from quorate.api.core.pod_resources import pod_requests, sum_resources
from quorate.api.kueue import Workload
from quorate.api.meta import find_condition
from quorate.api.quantity import Quantity
from quorate.cli.run.amounts import in_words, plural, readable
from quorate.cli.run.observation import TERMINAL, ObservedCluster, ObservedJob, wanted_pods
from quorate.gang.cache.status_annotations import REQUEUE_NOT_BEFORE
from quorate.local.controllers.scheduler_filters import NodeInfo, SelectedNode, pod_amounts, select_node

PROGRESSING = "simulate.quorate.dev/Progressing"


@dataclass(frozen=True, slots=True)
class Shortage:
    """``pods`` equal pods that no node can take; ``each`` is what one asks of what is short everywhere."""

    pods: int
    each: Resources  # empty when amounts are not the reason
    message: str  # the scheduler's own

    def __str__(self) -> str:
        pods = plural(self.pods, "more pod")
        if self.each:
            each = in_words(self.each)
            return f"{pods} needs {each}" if self.pods == 1 else f"{pods} need {each} each"
        return f"{pods} {'has' if self.pods == 1 else 'have'} no node: {self.message}"


@dataclass(frozen=True, slots=True)
class BlockedJob:
    name: str
    running: int
    wanted: int
    holds: Resources
    lacks: tuple[Shortage, ...]
    because: str  # what the workload, or its pod group, waits for; empty when both are admitted

    def __str__(self) -> str:
        if self.because:
            return f"{self.name} waits: {self.because}"
        runs = f"{self.name} runs {self.running} of {plural(self.wanted, 'pod')}"
        lacks = "; ".join(map(str, self.lacks)) or "its pods make no progress"
        return f"{runs} and holds {in_words(self.holds)}; {lacks}"


@dataclass(frozen=True, slots=True)
class NoProgress:
    """Why nothing moves: every unfinished job, and the room that is left of what they lack."""

    jobs: tuple[BlockedJob, ...]
    room: tuple[str, ...]
    advice: str  # empty when there is none to give

    @property
    def is_deadlock(self) -> bool:
        """Whether jobs block one another: at least two hold pods and lack some."""
        return sum(bool(job.running and job.lacks) for job in self.jobs) >= 2


def pending_changes(world: ObservedCluster, readiness: WaitForPodsReady | None) -> Iterator[str]:
    """Everything that may still change the world without anybody's help, in words."""
    for view in world.jobs:
        if not view.finished:
            yield from _job_changes(view, readiness)
    rooms = _rooms(world)
    for pod in world.pods:
        if (movement := _pod_change(pod, rooms)) is not None:
            yield f"pod {pod.metadata.name} {movement}"


def analyse(world: ObservedCluster, readiness: WaitForPodsReady | None) -> NoProgress:
    """What to tell of a world in which nothing moves."""
    free = {node.metadata.name: world.free(node) for node in world.nodes}
    stuck = tuple(_stuck(view, list(free.values())) for view in world.jobs if not view.finished)
    short = {name for job in stuck for shortage in job.lacks for name in shortage.each}
    standstill = NoProgress(stuck, tuple(_room(world.nodes, free, name) for name in sorted(short)), "")
    if not standstill.is_deadlock or (readiness is not None and readiness.block_admission):
        return standstill
    advice = (
        "each job holds room that another needs; with waitForPodsReady and blockAdmission they would be "
        "admitted one after the other (--config)"
    )
    return NoProgress(standstill.jobs, standstill.room, advice)


def _job_changes(view: ObservedJob, readiness: WaitForPodsReady | None) -> Iterator[str]:
    job, name = view.job, view.name
    if job.metadata.deletion_timestamp is not None:
        yield f"job {name} is being deleted"
    if view.workload is None:
        if view.queue:
            yield f"job {name} has no workload yet"
    else:
        for movement in _workload_changes(view, view.workload, readiness):
            yield f"workload of {name} {movement}"
    if job.spec.suspend:
        return
    if job.spec.active_deadline_seconds is not None:
        yield f"job {name} has a deadline"
    live = sum(pod.status.phase not in TERMINAL for pod in view.pods)
    left = wanted_pods(job.spec) - view.count.succeeded
    if live < min(job.spec.parallelism, left) or left <= 0:
        yield f"job {name} has {plural(live, 'pod')} and will be given others or be finished"


def _workload_changes(
    view: ObservedJob, workload: Workload, readiness: WaitForPodsReady | None
) -> Iterator[str]:
    status = workload.status
    if view.has("Finished"):
        yield "is finished, its job is not yet"
    if status.requeue_state is not None and status.requeue_state.requeue_at is not None:
        yield "waits for its backoff"
    if workload.spec.active and view.condition("QuotaReserved") is None:
        yield "has not been judged yet"
    if not view.has("QuotaReserved"):
        if not view.job.spec.suspend and view.queue:
            yield "has no quota, its job is to be stopped"
        return
    if view.has("Evicted") or not workload.spec.active:
        yield "is being evicted"
    elif view.has("Admitted"):
        yield from _admitted_changes(view, workload, readiness)


def _admitted_changes(
    view: ObservedJob, workload: Workload, readiness: WaitForPodsReady | None
) -> Iterator[str]:
    if view.job.spec.suspend and not view.awaits_nodes:
        yield "is admitted, its job is to be started"
    if view.group is not None and REQUEUE_NOT_BEFORE in view.group.metadata.annotations:
        yield "was sent back, its pod group is tried again"
    if workload.spec.maximum_execution_time_seconds is not None:
        yield "has a maximum execution time"
    if readiness is None:
        return
    ready = view.condition("PodsReady")
    if ready is None or ready.status != "True":
        recovering = ready is not None and ready.reason == "WaitForRecovery"
        if not recovering or readiness.recovery_timeout_s is not None:
            yield "runs against its readiness clock"


def _rooms(world: ObservedCluster) -> dict[str, NodeInfo]:
    """The nodes as the scheduler sees them: with what the pods on them take."""
    rooms = {node.metadata.name: NodeInfo(node) for node in world.nodes}
    for pod in world.pods:
        if pod.spec.node_name in rooms and pod.status.phase not in TERMINAL:
            rooms[pod.spec.node_name].add_pod(pod_amounts(pod.spec))
    return rooms


def _pod_change(pod: Pod, rooms: Mapping[str, NodeInfo]) -> str | None:
    if pod.metadata.deletion_timestamp is not None:
        return "is being deleted"
    if pod.status.phase in TERMINAL:
        return None
    if not pod.spec.node_name:
        placed = find_condition(pod.status.conditions, "PodScheduled")
        if placed is None or placed.status != "False":
            return "has not been judged by the scheduler"
        finds_room = not pod.spec.scheduling_gates and isinstance(
            select_node(pod, rooms.values()), SelectedNode
        )
        return "was refused by the scheduler, but finds room now" if finds_room else None
    if pod.spec.node_name not in rooms:
        return None  # bound to a node that nobody plays
    if pod.status.phase == "Pending":
        return "is starting"
    progressing = find_condition(pod.status.conditions, PROGRESSING)
    return "runs" if progressing is None or progressing.status != "False" else None


def _stuck(view: ObservedJob, free: list[Resources]) -> BlockedJob:
    count = view.count
    holding = [pod for pod in view.pods if pod.spec.node_name and pod.status.phase not in TERMINAL]
    return BlockedJob(
        name=view.name,
        running=count.running,
        wanted=count.wanted,
        holds=sum_resources(pod_requests(pod.spec) for pod in holding),
        lacks=shortages([pod for pod in view.pods if not pod.spec.node_name], free),
        because=_waits(view),
    )


def _waits(view: ObservedJob) -> str:
    """What keeps a job from being admitted; empty when it is."""
    if view.workload is None:
        return "it is suspended and names no queue" if view.job.spec.suspend else ""
    if view.has("QuotaReserved"):
        return (
            view.awaits_nodes
            if view.has("Admitted")
            else "it has quota, but not all of its admission checks are ready"
        )
    if not view.workload.spec.active:
        evicted = view.condition("Evicted")
        return evicted.message if evicted is not None else "its workload is deactivated"
    verdict = view.condition("QuotaReserved")
    return verdict.message if verdict is not None else f"queue {view.queue} has not judged it"


def shortages(pods: list[Pod], free: list[Resources]) -> tuple[Shortage, ...]:
    """The pods without a node, those that lack the same counted together, the largest group first."""
    groups: dict[tuple[str, str], Shortage] = {}
    for pod in pods:
        requests = pod_requests(pod.spec)
        short = {name: amount for name, amount in requests.items() if _fits_nowhere(name, amount, free)}
        verdict = find_condition(pod.status.conditions, "PodScheduled")
        message = "" if short or verdict is None else verdict.message
        same = (in_words(short), message)
        counted = groups[same].pods if same in groups else 0
        groups[same] = Shortage(counted + 1, short, message)
    return tuple(groups[same] for same in sorted(groups, key=lambda same: (-groups[same].pods, same)))


def _fits_nowhere(name: str, amount: Quantity, free: list[Resources]) -> bool:
    return all(name not in room or room[name] < amount for room in free)


def _room(nodes: tuple[Node, ...], free: dict[str, Resources], name: str) -> str:
    """``memory: 213Mi free of 8429Mi`` on one node; on several also the largest piece."""
    having = [node for node in nodes if name in node.status.allocatable]
    if not having:
        return f"{name}: no node has any"
    total = sum_resources({name: node.status.allocatable[name]} for node in having)
    left = sum_resources({name: free[node.metadata.name][name]} for node in having)
    text = f"{name}: {readable(left[name])} free of {readable(total[name])}"
    if len(having) == 1:
        return text
    largest = max(free[node.metadata.name][name] for node in having)
    return f"{text} on {len(having)} nodes, at most {readable(largest)} on one"
