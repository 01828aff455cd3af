"""The status of a Volcano Job: phase, reason, conditions and pod counts."""

from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from quorate.api.meta import at_epoch, epoch
from quorate.api.syntax import format_duration
from quorate.api.volcano.job import (
    INVALID_JOB,
    Command,
    Job,
    JobCondition,
    JobPhase,
    JobState,
    JobStatus,
    TaskState,
    VolumeSpec,
)
from quorate.controllers.limits import BYTES_PER_POD, MAX_CONDITIONS
from quorate.controllers.volcano.job.job_phases import ACTIVE, FINISHED, KillAction, total_replicas
from quorate.controllers.volcano.job.job_pods import PodCounts
from quorate.controllers.volcano.job.lifecycle_policies import COMMAND_ISSUED, JobEvent
from quorate.controllers.volcano.job.pod_manifest import object_name
from quorate.kube.computations import size_of

_PLUGIN: Final = "plugin-"  # prefix of the plugins in controlledResources


@dataclass(frozen=True, slots=True)
class PhaseReason:
    """Why a job is in its phase: ``status.state.reason`` and ``message``."""

    reason: str = ""
    message: str = ""

    @classmethod
    def from_command(cls, command: Command) -> "PhaseReason":
        """The message contains the command's uid, which shows later that the command was executed."""
        name, uid = command.metadata.name, command.metadata.uid
        return cls(COMMAND_ISSUED, f"{command.action} by command {name} ({uid})")

    @classmethod
    def from_event(cls, action: KillAction, event: JobEvent) -> "PhaseReason":
        return cls(event.kind, f"{action} because of {event}")

    @classmethod
    def from_pods(cls, job: Job, phase: JobPhase, counts: PodCounts) -> "PhaseReason":
        """Return the reason of a phase that follows from the pods.

        A phase on the way to another (``Aborting``, then ``Aborted``) keeps the reason of the first.
        """
        state = job.status.state
        if phase == "Failed" and state.phase == "Restarting":
            retries, max_retry = job.status.retry_count, job.spec.max_retry
            return cls("MaxRetryReached", f"restarted {retries} times, at most {max_retry} are allowed")
        if phase in FINISHED and state.phase == "Running":
            finished = f"{counts.succeeded} of {total_replicas(job)} pods succeeded, {counts.failed} failed"
            return cls("PodsEnded", f"{finished}; {_required_successes(job)} must succeed")
        return cls() if phase == "Running" else cls(state.reason, state.message)


def _required_successes(job: Job) -> int:
    return job.spec.min_available if job.spec.min_success is None else job.spec.min_success


def updated_status(
    job: Job, counts: PodCounts, phase: JobPhase, now: float, reason: PhaseReason
) -> JobStatus:
    """Return the whole new status of a defaulted job; version and retry count do not change."""
    old = job.status
    state, conditions = old.state, old.conditions
    if phase != state.phase:
        moment = at_epoch(now)
        state = JobState(
            phase=phase, reason=reason.reason, message=reason.message, last_transition_time=moment
        )
        condition = JobCondition(status=phase, last_transition_time=moment)
        conditions = (*conditions, condition)[-MAX_CONDITIONS:]
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
        controlled_resources=_controlled_resources(job, phase),
    )
    return replace(new, running_duration=_running_duration(new))


def status_of_invalid(job: Job, problem: str, now: float) -> JobStatus:
    """Return the status of a job that cannot be synced: the phase that it has, with the reason."""
    state = job.status.state
    moment = state.last_transition_time or at_epoch(now)
    invalid = JobState(
        phase=state.phase or "Pending", reason=INVALID_JOB, message=problem, last_transition_time=moment
    )
    return replace(job.status, state=invalid)


def without_invalid(status: JobStatus) -> JobStatus:
    """Return the status of a job that can be synced again."""
    state = status.state
    if state.reason != INVALID_JOB:
        return status
    return replace(status, state=replace(state, reason="", message=""))


def _controlled_resources(job: Job, phase: JobPhase) -> dict[str, str]:
    """Return what exists for the job besides pods in ``phase``, in Volcano's notation.

    The objects of plugins exist while the job has pods to run.  A restart does not change them by itself:
    that of a single task retains them for the pods of the other tasks (see ``without_plugins``).
    """
    plugins: dict[str, str] = {}
    if phase in ACTIVE:
        plugins = {f"{_PLUGIN}{name}": name for name in sorted(job.spec.plugins)}
    elif phase == "Restarting":
        recorded = job.status.controlled_resources
        plugins = {key: name for key, name in recorded.items() if key.startswith(_PLUGIN)}
    names = (claim_name(job, index) for index in range(len(job.spec.volumes)))
    return plugins | {f"volume-pvc-{name}": name for name in names if name}


def without_plugins(status: JobStatus) -> JobStatus:
    """Return ``status`` without the plugins, of which no object exists any more."""
    recorded = status.controlled_resources
    remaining = {key: name for key, name in recorded.items() if not key.startswith(_PLUGIN)}
    return replace(status, controlled_resources=remaining)


def releases_plugins(old: JobStatus, new: JobStatus) -> bool:
    """Return True if the objects of plugins exist in ``old`` and are to be deleted before ``new``."""
    return _has_plugins(old) and not _has_plugins(new)


def _has_plugins(status: JobStatus) -> bool:
    return any(key.startswith(_PLUGIN) for key in status.controlled_resources)


def claim_name(job: Job, index: int) -> str:
    """Return the claim of the job's ``index``-th volume; empty for an empty directory.

    A claim that the controller creates has the name that the volume gives, or one derived from the job's.
    """
    volume = job.spec.volumes[index]
    if volume.volume_claim_name:
        return volume.volume_claim_name
    return object_name(job.metadata.name, f"volume-{index}") if has_claim_template(volume) else ""


def has_claim_template(volume: VolumeSpec) -> bool:
    return bytes(volume.volume_claim) != b"{}"


def job_size(job: Job, pods: int = 0) -> int:
    """Return the size of a job with ``pods``, in bytes of JSON, which decides where it is processed.

    The lists of hosts grow with the replicas.
    """
    return size_of(job) + BYTES_PER_POD * (pods + total_replicas(job))


def _running_duration(status: JobStatus) -> str:
    """Return the time from the first ``Running`` condition to the end; empty before the end."""
    if status.state.phase not in (*FINISHED, "Aborted") or status.state.last_transition_time is None:
        return ""
    began = next((condition for condition in status.conditions if condition.status == "Running"), None)
    if began is None or began.last_transition_time is None:
        return ""
    return format_duration(epoch(status.state.last_transition_time) - epoch(began.last_transition_time))
