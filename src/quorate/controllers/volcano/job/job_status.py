"""The status of a Volcano Job: its phase with why and since when, its history, and counts of pods."""

from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from quorate.api.meta import at_epoch, epoch
from quorate.api.syntax import format_duration
from quorate.api.volcano.job import (
    Command,
    Job,
    JobCondition,
    JobPhase,
    JobState,
    JobStatus,
    TaskState,
    VolumeSpec,
)
from quorate.controllers.volcano.job.job_phases import FINISHED, total
from quorate.controllers.volcano.job.job_pods import PodCounts
from quorate.controllers.volcano.job.kill_action import KillAction
from quorate.controllers.volcano.job.lifecycle_policies import COMMAND_ISSUED, JobEvent

HISTORY: Final = 100  # conditions kept, the newest: a job may change between phases without end


@dataclass(frozen=True, slots=True)
class PhaseReason:
    """Why a job is in its phase."""

    reason: str = ""
    message: str = ""

    @classmethod
    def of_command(cls, command: Command) -> "PhaseReason":
        """It names the one command, so that it is known later to have been carried out."""
        name, uid = command.metadata.name, command.metadata.uid
        return cls(COMMAND_ISSUED, f"{command.action} by command {name} ({uid})")

    @classmethod
    def of_event(cls, intent: KillAction, event: JobEvent) -> "PhaseReason":
        return cls(event.kind, f"{intent} because of {event}")

    @classmethod
    def of_phase(cls, job: Job, phase: JobPhase, counts: PodCounts) -> "PhaseReason":
        """Of a phase that follows from what stands; one on the way somewhere keeps what set it going."""
        state = job.status.state
        if phase == "Failed" and state.phase == "Restarting":
            most = job.spec.max_retry
            return cls(
                "MaxRetryReached", f"restarted {job.status.retry_count} times, at most {most} are allowed"
            )
        if phase in FINISHED and state.phase == "Running":
            ended = f"{counts.succeeded} of {total(job)} pods succeeded, {counts.failed} failed"
            return cls("PodsEnded", f"{ended}; {_needed(job)} must succeed")
        return cls() if phase == "Running" else cls(state.reason, state.message)


def _needed(job: Job) -> int:
    return job.spec.min_available if job.spec.min_success is None else job.spec.min_success


def updated_status(job: Job, counts: PodCounts, phase: JobPhase, now: float, cause: PhaseReason) -> JobStatus:
    """The whole new status of a completed job; version and retries stay what they are."""
    old = job.status
    state, conditions = old.state, old.conditions
    if phase != state.phase:
        moment = at_epoch(now)
        state = JobState(phase=phase, reason=cause.reason, message=cause.message, last_transition_time=moment)
        conditions = (*conditions, JobCondition(status=phase, last_transition_time=moment))[-HISTORY:]
    new = replace(
        old,
        state=state,
        conditions=conditions,
        min_available=job.spec.min_available,
        task_status_count={name: TaskState(phase=of_task) for name, of_task in counts.by_task.items()},
        pending=counts.pending,
        running=counts.running,
        succeeded=counts.succeeded,
        failed=counts.failed,
        terminating=counts.terminating,
        unknown=counts.unknown,
        controlled_resources=_controlled(job),
    )
    return replace(new, running_duration=_ran_for(new))


def _controlled(job: Job) -> dict[str, str]:
    """What else is made for the job, in Volcano's words."""
    plugins = {f"plugin-{name}": name for name in sorted(job.spec.plugins)}
    names = (claim_name(job, index) for index in range(len(job.spec.volumes)))
    return plugins | {f"volume-pvc-{name}": name for name in names if name}


def claim_name(job: Job, index: int) -> str:
    """The claim of the job's ``index``-th volume; one to be made without a name is named after the job.

    Empty where the volume is an empty directory.
    """
    volume = job.spec.volumes[index]
    if volume.volume_claim_name:
        return volume.volume_claim_name
    return f"{job.metadata.name}-volume-{index}" if makes_claim(volume) else ""


def makes_claim(volume: VolumeSpec) -> bool:
    return bytes(volume.volume_claim) != b"{}"


def _ran_for(status: JobStatus) -> str:
    """How long it was from its first pod running to its end; empty before that."""
    if status.state.phase not in (*FINISHED, "Aborted") or status.state.last_transition_time is None:
        return ""
    began = next((each for each in status.conditions if each.status == "Running"), None)
    if began is None or began.last_transition_time is None:
        return ""
    return format_duration(epoch(status.state.last_transition_time) - epoch(began.last_transition_time))
