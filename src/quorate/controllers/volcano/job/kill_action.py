"""What an action is about to end: written into the status of the job before anything is done.

Whoever began may stop in between, and what called for the action may be gone by then: a pod that failed is
among those that are deleted.  So the message of the status begins with the action and its target, and the
rest is done by that.
"""

from dataclasses import dataclass

from quorate.api.volcano_job import Job
from quorate.controllers.volcano.job.job_phases import RESTART, Move, Scope, move_of, spared
from quorate.controllers.volcano.job.job_pods import Member
from quorate.controllers.volcano.job.lifecycle_policies import JobEvent


@dataclass(frozen=True, slots=True)
class Intent:
    """An action with the name of its target: empty for the whole job."""

    action: str
    move: Move
    target: str = ""

    @classmethod
    def of(cls, action: str, move: Move, event: JobEvent) -> "Intent":
        match move.scope:
            case Scope.JOB:
                return cls(action, move)
            case Scope.TASK:
                return cls(action, move, event.task)
            case Scope.PARTITION:
                return cls(action, move, f"{event.task}/{event.partition}")
            case Scope.POD:
                return cls(action, move, event.pod)

    @classmethod
    def read(cls, job: Job) -> "Intent":
        """That of a completed job that restarts; one in other words, as of another controller: all of it."""
        action, _, rest = job.status.state.message.partition(" ")
        move = move_of(action)
        if move is None or move.to != "Restarting":
            action, move = "RestartJob", RESTART
        target = "" if move.scope is Scope.JOB else rest.partition(" ")[0]
        return cls(action, spared(move, job, job.status.retry_count), target)

    def __str__(self) -> str:
        return f"{self.action} {self.target}" if self.target else self.action

    def covers(self, member: Member) -> bool:
        match self.move.scope:
            case Scope.JOB:
                return True
            case Scope.TASK:
                return member.task == self.target
            case Scope.PARTITION:
                return f"{member.task}/{member.partition}" == self.target
            case Scope.POD:
                return member.metadata.name == self.target

    def ends(self, member: Member) -> bool:
        return self.covers(member) and member.status.phase not in self.move.keeps

    def is_to_end(self, member: Member, job: Job) -> bool:
        """Whether the pod should have been ended by a restart of ``job`` that is under way."""
        status = job.status
        older = (
            member.version < status.version
            if self.move.scope is Scope.JOB
            else member.retry < status.retry_count
        )
        return older and self.ends(member)
