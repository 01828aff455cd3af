"""The phases of a Volcano Job, and the transitions by actions and by its pods.

``TRANSITIONS`` is the table of actions; ``next_phase`` is what happens without an action, by the counts of
pods alone.  A ``KillAction`` is an action on its target: the pods of the job, of a task or of a partition, or
one pod.  Before any pod is deleted, its text is written into the message of the job's status.  The controller
may end before all pods are deleted, and the event that requested the action may not exist by then (the
failed pod is one of the deleted pods), so the deletions resume from that message.

Source: Volcano's job controller (v1.15).
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from quorate.api.core.pod import ENDED_PHASES
from quorate.api.volcano.job import Job, JobPhase
from quorate.controllers.volcano.job.job_pods import JobPod, PodCounts
from quorate.controllers.volcano.job.lifecycle_policies import JobEvent


class ActionScope(Enum):
    """The set of pods that an action deletes."""

    JOB = "job"
    TASK = "task"
    PARTITION = "partition"
    POD = "pod"


@dataclass(frozen=True, slots=True)
class Transition:
    """The effect of an action: pods of ``scope`` are deleted, except those in a retained phase."""

    phase: JobPhase  # of the job, afterwards
    scope: ActionScope = ActionScope.JOB
    retained_phases: frozenset[str] = frozenset()
    retries: int = 0  # added to the retry count


_RETAIN_FINISHED: Final = frozenset(ENDED_PHASES)
RESTART: Final = Transition("Restarting", retries=1)
_ENDING_ACTIONS: Final[Mapping[str, Transition]] = {
    "AbortJob": Transition("Aborting", retained_phases=_RETAIN_FINISHED),
    "TerminateJob": Transition("Terminating", retained_phases=_RETAIN_FINISHED),
    "CompleteJob": Transition("Completing", retained_phases=_RETAIN_FINISHED),
}
_FROM_ACTIVE: Final[Mapping[str, Transition]] = {
    "RestartJob": RESTART,
    "RestartTask": Transition("Restarting", ActionScope.TASK, retries=1),
    "RestartPartition": Transition("Restarting", ActionScope.PARTITION, retries=1),
    "RestartPod": Transition("Restarting", ActionScope.POD, retries=1),
    **_ENDING_ACTIONS,
}
# Pods that succeeded before the job was aborted need not run again; failed pods are retried.
_FROM_ABORTED: Final[Mapping[str, Transition]] = {
    "ResumeJob": Transition("Restarting", retained_phases=frozenset({"Succeeded"}))
}

TRANSITIONS: Final[Mapping[JobPhase, Mapping[str, Transition]]] = {
    "Pending": _FROM_ACTIVE,
    "Running": _FROM_ACTIVE,
    "Restarting": _ENDING_ACTIONS,  # by a command, which Volcano drops in this phase
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


def with_retry_limit(transition: Transition, job: Job, retries: int) -> Transition:
    """Return the transition for a defaulted job that then has ``retries`` retries.

    A restart beyond ``maxRetry`` retains finished pods: no pod replaces them, and their status may show why
    the job failed.
    """
    is_last = transition.phase == "Restarting" and retries >= job.spec.max_retry
    return replace(transition, retained_phases=_RETAIN_FINISHED) if is_last else transition


def transition_of(action: str) -> Transition | None:
    """Return the transition of an action, from any phase that has one."""
    return _FROM_ACTIVE.get(action) or _FROM_ABORTED.get(action)


@dataclass(frozen=True, slots=True)
class KillAction:
    """An action with the name of its target; the target of an action on the whole job is empty."""

    action: str
    transition: Transition
    target: str = ""

    @classmethod
    def from_event(cls, action: str, transition: Transition, event: JobEvent) -> "KillAction":
        match transition.scope:
            case ActionScope.JOB:
                return cls(action, transition)
            case ActionScope.TASK:
                return cls(action, transition, event.task)
            case ActionScope.PARTITION:
                return cls(action, transition, f"{event.task}/{event.partition}")
            case ActionScope.POD:
                return cls(action, transition, event.pod)

    @classmethod
    def from_status(cls, job: Job) -> "KillAction":
        """Parse the status message of a defaulted job that is restarting.

        A message in another format, such as that of another controller, means RestartJob.
        """
        state = job.status.state
        action, _, rest = state.message.partition(" ")
        transition = transition_of(action)
        if transition is None or transition.phase != "Restarting":
            action, transition = "RestartJob", RESTART
        target = "" if transition.scope is ActionScope.JOB else rest.partition(" ")[0]
        return cls(action, with_retry_limit(transition, job, job.status.retry_count), target)

    def __str__(self) -> str:
        return f"{self.action} {self.target}" if self.target else self.action

    def kills(self, pod: JobPod) -> bool:
        is_target = self.targets(pod.task, pod.partition, pod.metadata.name)
        return is_target and pod.phase not in self.transition.retained_phases

    def kills_on_restart(self, pod: JobPod, job: Job) -> bool:
        """Return True if the restart of ``job`` in progress kills the pod, which predates it."""
        status = job.status
        predates = (
            pod.version < status.version
            if self.transition.scope is ActionScope.JOB
            else pod.retry < status.retry_count
        )
        return predates and self.kills(pod)

    def targets(self, task: str, partition: str, pod: str) -> bool:
        """Return True if the pod named ``pod`` belongs to the target of the action."""
        match self.transition.scope:
            case ActionScope.JOB:
                return True
            case ActionScope.TASK:
                return task == self.target
            case ActionScope.PARTITION:
                return f"{task}/{partition}" == self.target
            case ActionScope.POD:
                return pod == self.target


def next_phase(job: Job, counts: PodCounts, unfinished: int) -> JobPhase:
    """Return the phase of a defaulted job that follows from its pods.

    ``unfinished``: the number of pods that have not finished, terminating or not.
    """
    phase = job.phase or "Pending"
    match phase:
        case "Pending":
            started = counts.running + counts.succeeded + counts.failed
            return "Running" if started >= job.spec.min_available else "Pending"
        case "Running":
            return _after_running(job, counts)
        case "Restarting":
            if job.status.retry_count >= job.spec.max_retry:
                return "Failed"
            left = total_replicas(job) - counts.terminating
            return "Pending" if left >= job.spec.min_available else "Restarting"
        case "Aborting" | "Terminating" | "Completing":
            return phase if unfinished else ENDING[phase]
        case _:
            return phase


def _after_running(job: Job, counts: PodCounts) -> JobPhase:
    replicas, spec = total_replicas(job), job.spec
    if replicas == 0:
        return "Running"
    if spec.min_success is not None and counts.succeeded >= spec.min_success:
        return "Completed"
    if counts.succeeded + counts.failed == replicas:
        return _final_phase(job, counts)
    # Pods that do not exist count as pending: while its pod group waits, a job has none.
    waiting = counts.pending + max(0, replicas - counts.existing)
    return "Pending" if waiting > replicas - spec.min_available else "Running"


def _final_phase(job: Job, counts: PodCounts) -> JobPhase:
    """Return the final phase of a job after all its pods have finished."""
    spec = job.spec
    minimums = [(task.name, task.min_available or 0) for task in spec.tasks]
    every_task_counts = spec.min_available >= sum(minimum for _, minimum in minimums)
    if every_task_counts and any(counts.count_of(name, "Succeeded") < minimum for name, minimum in minimums):
        return "Failed"
    if spec.min_success is not None and counts.succeeded < spec.min_success:
        return "Failed"
    return "Completed" if counts.succeeded >= spec.min_available else "Failed"


def total_replicas(job: Job) -> int:
    return sum(task.replicas for task in job.spec.tasks)
