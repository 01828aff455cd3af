"""What an action is about to end: written into the status of the job before anything is done.

Whoever began may stop in between, and what called for the action may be gone by then: a pod that failed is
among those that are deleted.  So the message of the status begins with the action and its target, and the
rest is done by that.
"""

from dataclasses import dataclass

from quorate.api.volcano.job import Job
from quorate.controllers.volcano.job.job_phases import (
    RESTART,
    ActionScope,
    Transition,
    transition_of,
    with_retry_limit,
)
from quorate.controllers.volcano.job.job_pods import JobPod
from quorate.controllers.volcano.job.lifecycle_policies import JobEvent


@dataclass(frozen=True, slots=True)
class KillAction:
    """An action with the name of its target: empty for the whole job."""

    action: str
    move: Transition
    target: str = ""

    @classmethod
    def of(cls, action: str, move: Transition, event: JobEvent) -> "KillAction":
        match move.scope:
            case ActionScope.JOB:
                return cls(action, move)
            case ActionScope.TASK:
                return cls(action, move, event.task)
            case ActionScope.PARTITION:
                return cls(action, move, f"{event.task}/{event.partition}")
            case ActionScope.POD:
                return cls(action, move, event.pod)

    @classmethod
    def read(cls, job: Job) -> "KillAction":
        """That of a completed job that restarts; one in other words, as of another controller: all of it."""
        action, _, rest = job.status.state.message.partition(" ")
        move = transition_of(action)
        if move is None or move.to != "Restarting":
            action, move = "RestartJob", RESTART
        target = "" if move.scope is ActionScope.JOB else rest.partition(" ")[0]
        return cls(action, with_retry_limit(move, job, job.status.retry_count), target)

    def __str__(self) -> str:
        return f"{self.action} {self.target}" if self.target else self.action

    def covers(self, member: JobPod) -> bool:
        match self.move.scope:
            case ActionScope.JOB:
                return True
            case ActionScope.TASK:
                return member.task == self.target
            case ActionScope.PARTITION:
                return f"{member.task}/{member.partition}" == self.target
            case ActionScope.POD:
                return member.metadata.name == self.target

    def ends(self, member: JobPod) -> bool:
        return self.covers(member) and member.status.phase not in self.move.keeps

    def is_to_end(self, member: JobPod, job: Job) -> bool:
        """Whether the pod should have been ended by a restart of ``job`` that is under way."""
        status = job.status
        older = (
            member.version < status.version
            if self.move.scope is ActionScope.JOB
            else member.retry < status.retry_count
        )
        return older and self.ends(member)
