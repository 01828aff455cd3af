"""The phases of a Volcano Job: which action leads where, and what the pods make of it.

Source: Volcano's Job controller (v1.15).  The table of actions is ``TRANSITIONS``; ``next_phase`` is what
happens without an action, by the counts of pods alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from quorate.api.volcano.job import Job, JobPhase
from quorate.controllers.volcano.job.job_pods import PodCounts


class ActionScope(Enum):
    """Whose pods an action ends."""

    JOB = "job"
    TASK = "task"
    PARTITION = "partition"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class Transition:
    """Where an action leads: pods of ``scope`` end, but for those in a phase that ``keeps`` names."""

    to: JobPhase
    scope: ActionScope = ActionScope.JOB
    keeps: frozenset[str] = frozenset()
    retries: int = 0  # what is added to the count of retries


_ENDED: Final = frozenset({"Succeeded", "Failed"})
RESTART: Final = Transition("Restarting", retries=1)
_FROM_ACTIVE: Final[Mapping[str, Transition]] = {
    "RestartJob": RESTART,
    "RestartTask": Transition("Restarting", ActionScope.TASK, retries=1),
    "RestartPartition": Transition("Restarting", ActionScope.PARTITION, retries=1),
    "RestartPod": Transition("Restarting", ActionScope.POD, retries=1),
    "AbortJob": Transition("Aborting", keeps=_ENDED),
    "TerminateJob": Transition("Terminating", keeps=_ENDED),
    "CompleteJob": Transition("Completing", keeps=_ENDED),
}
# What was done before the job was aborted need not be done again; what failed is given another chance.
_FROM_ABORTED: Final[Mapping[str, Transition]] = {
    "ResumeJob": Transition("Restarting", keeps=frozenset({"Succeeded"}))
}

TRANSITIONS: Final[Mapping[JobPhase, Mapping[str, Transition]]] = {
    "Pending": _FROM_ACTIVE,
    "Running": _FROM_ACTIVE,
    "Aborting": _FROM_ABORTED,
    "Aborted": _FROM_ABORTED,
}
ACTIVE: Final[frozenset[JobPhase]] = frozenset({"Pending", "Running"})
ENDING: Final[Mapping[JobPhase, JobPhase]] = {
    "Aborting": "Aborted",
    "Terminating": "Terminated",
    "Completing": "Completed",
}
FINISHED: Final[frozenset[JobPhase]] = frozenset({"Completed", "Failed", "Terminated"})


def with_retry_limit(move: Transition, job: Job, retries: int) -> Transition:
    """``move`` of a completed job that has then been restarted ``retries`` times.

    A restart beyond the last that is allowed spares the pods that have ended: nothing takes their place, and
    they may tell why.
    """
    is_last = move.to == "Restarting" and retries >= job.spec.max_retry
    return replace(move, keeps=_ENDED) if is_last else move


def transition_of(action: str) -> Transition | None:
    """Where an action leads from wherever it leads somewhere."""
    return _FROM_ACTIVE.get(action) or _FROM_ABORTED.get(action)


def next_phase(job: Job, counts: PodCounts, live: int) -> JobPhase:
    """The phase of a completed job by its pods; ``live`` counts those that have not ended, leaving or not."""
    phase = job.status.state.phase or "Pending"
    match phase:
        case "Pending":
            started = counts.running + counts.succeeded + counts.failed
            return "Running" if started >= job.spec.min_available else "Pending"
        case "Running":
            return _while_running(job, counts)
        case "Restarting":
            if job.status.retry_count >= job.spec.max_retry:
                return "Failed"
            left = total(job) - counts.terminating
            return "Pending" if left >= job.spec.min_available else "Restarting"
        case "Aborting" | "Terminating" | "Completing":
            return phase if live else ENDING[phase]
        case _:
            return phase


def _while_running(job: Job, counts: PodCounts) -> JobPhase:
    replicas, spec = total(job), job.spec
    if replicas == 0:
        return "Running"
    if spec.min_success is not None and counts.succeeded >= spec.min_success:
        return "Completed"
    if counts.succeeded + counts.failed == replicas:
        return _outcome(job, counts)
    return "Pending" if counts.pending > replicas - spec.min_available else "Running"


def _outcome(job: Job, counts: PodCounts) -> JobPhase:
    """How a job ended, all of whose pods have."""
    spec = job.spec
    minimums = [(task.name, task.min_available or 0) for task in spec.tasks]
    every_task_counts = spec.min_available >= sum(minimum for _, minimum in minimums)
    if every_task_counts and any(counts.count_of(name, "Succeeded") < least for name, least in minimums):
        return "Failed"
    if spec.min_success is not None and counts.succeeded < spec.min_success:
        return "Failed"
    return "Completed" if counts.succeeded >= spec.min_available else "Failed"


def total(job: Job) -> int:
    """The pods of all its tasks together."""
    return sum(task.replicas for task in job.spec.tasks)
