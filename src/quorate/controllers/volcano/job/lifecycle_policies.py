"""What happened to a job and what its policies say to do about it.

Events are read off what stands: a pod that failed is one, as long as it is there.  An action makes the
events behind it old, by raising the version of the job or its count of retries, so each acts once, however
often one looks and whoever looks after a crash.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.api.meta import epoch
from quorate.api.syntax import InvalidDuration, parse_duration
from quorate.api.volcano import UNKNOWN, UNSCHEDULABLE, PodGroup, find_condition
from quorate.api.volcano.job import Job, LifecyclePolicy, TaskSpec
from quorate.controllers.volcano.job.job_pods import JobPod, LostPod, is_desired

ANY: Final = "*"
POD_FAILED: Final = "PodFailed"
POD_EVICTED: Final = "PodEvicted"
POD_PENDING: Final = "PodPending"
GROUP_UNKNOWN: Final = "Unknown"
TASK_COMPLETED: Final = "TaskCompleted"
TASK_FAILED: Final = "TaskFailed"
COMMAND_ISSUED: Final = "CommandIssued"
OUT_OF_SYNC: Final = "OutOfSync"
JOB_UPDATED: Final = "JobUpdated"
# Of events of one moment: who goes first.
_RANKS: Final = (POD_FAILED, POD_EVICTED, TASK_FAILED, TASK_COMPLETED, GROUP_UNKNOWN, POD_PENDING)
# On these nothing is done but to look: a policy of any event does not mean them.
ONLY_SYNC: Final = frozenset({OUT_OF_SYNC, COMMAND_ISSUED, JOB_UPDATED})

SYNC: Final = "SyncJob"
_RESTARTS_BY_DEFAULT: Final = 3  # of the containers of a task, before the task counts as failed
_UNBOUNDED: Final = -1


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One thing that happened, to a pod, a task or the whole job."""

    kind: str
    since: float  # epoch seconds
    version: int  # of the job, at the time
    retry: int
    task: str = ""
    pod: str = ""
    partition: str = ""
    exit_code: int | None = None

    def __str__(self) -> str:
        about = self.pod or self.task
        text = f"{self.kind} of {about}" if about else self.kind
        return text if self.exit_code is None else f"{text} with exit code {self.exit_code}"


@dataclass(frozen=True, slots=True)
class RequestedAction:
    """An action to take, and what calls for it."""

    action: str
    event: JobEvent


def apply_policies(
    job: Job, events: Iterable[JobEvent], now: float
) -> tuple[RequestedAction | None, float | None]:
    """The action of the first event that calls for one, and when else to look again.

    The earliest event goes first.  A policy with a timeout calls for its action that long after the event.
    """
    wake_at: float | None = None
    for event in events:
        policy = matching_policy(job, event)
        if policy is None or policy.action in ("", SYNC):
            continue
        due = event.since + timeout_s(policy)
        if due <= now:
            return RequestedAction(policy.action, event), None
        wake_at = due if wake_at is None else min(wake_at, due)
    return None, wake_at


def matching_policy(job: Job, event: JobEvent) -> LifecyclePolicy | None:
    """The first policy that matches, of the event's task and then of the job; none for what is outdated."""
    if event.kind in ONLY_SYNC:
        return None
    if event.version < job.status.version or event.retry < job.status.retry_count:
        return None
    of_task = next((task.policies for task in job.spec.tasks if task.name == event.task), ())
    return next((policy for policy in (*of_task, *job.spec.policies) if _matches(policy, event)), None)


def _matches(policy: LifecyclePolicy, event: JobEvent) -> bool:
    named = {*policy.events, policy.event}
    if event.kind in named or ANY in named:
        # That a pod is pending is no event by itself, only that it has been for too long.
        return event.kind != POD_PENDING or bool(policy.timeout)
    return policy.exit_code is not None and policy.exit_code == event.exit_code


def timeout_s(policy: LifecyclePolicy) -> float:
    """How long after its event the policy acts; one that is no duration is as good as none."""
    try:
        return parse_duration(policy.timeout) if policy.timeout else 0.0
    except InvalidDuration:
        return 0.0


def job_events(
    job: Job, members: Sequence[JobPod], lost: Iterable[LostPod], group: PodGroup | None
) -> list[JobEvent]:
    """What happened to a completed job: the earliest first, then by rank, by task and by pod."""
    events = [event for member in members for event in _of_member(job, member)]
    events += (
        JobEvent(POD_EVICTED, pod.at, pod.version, pod.retry, pod.task, pod.key.name, pod.partition)
        for pod in lost
    )
    events += _of_tasks(job, members)
    if group is not None and group.status.phase == UNKNOWN:
        status = job.status
        events.append(JobEvent(GROUP_UNKNOWN, _unknown_since(group), status.version, status.retry_count))
    return sorted(events, key=lambda event: (event.since, _RANKS.index(event.kind), event.task, event.pod))


def _of_member(job: Job, member: JobPod) -> Iterator[JobEvent]:
    if not is_desired(member, job):
        return
    name, status = member.metadata.name, member.status
    version, task, partition = member.version, member.task, member.partition
    if member.is_terminating:
        # Deleted by whoever; those that never had a node are taken back when their group has to wait.
        if member.is_unfinished and member.spec.node_name:
            at = member.metadata.deletion_timestamp
            since = 0.0 if at is None else epoch(at)
            yield JobEvent(POD_EVICTED, since, version, member.retry, task, name, partition)
        return
    retry = job.status.retry_count  # one that a restart left standing is part of what was restarted
    if status.phase == "Failed":
        code = member.exit_code
        yield JobEvent(POD_FAILED, member.ended_at, version, retry, task, name, partition, code)
    elif status.phase == "Pending" and member.metadata.creation_timestamp is not None:
        since = epoch(member.metadata.creation_timestamp)
        yield JobEvent(POD_PENDING, since, version, retry, task, name, partition)


def _of_tasks(job: Job, members: Sequence[JobPod]) -> Iterator[JobEvent]:
    for task in job.spec.tasks:
        own = [
            member
            for member in members
            if member.task == task.name and 0 <= member.index < task.replicas and not member.is_terminating
        ]
        if not own:
            continue
        version, retry = min(member.version for member in own), job.status.retry_count
        if len(own) == task.replicas and all(member.status.phase == "Succeeded" for member in own):
            ended = max(member.ended_at for member in own)
            yield JobEvent(TASK_COMPLETED, ended, version, retry, task.name)
        if _restarted_too_often(task, own):
            yield JobEvent(TASK_FAILED, max(member.ended_at for member in own), version, retry, task.name)


def _restarted_too_often(task: TaskSpec, own: Iterable[JobPod]) -> bool:
    """Whether the containers of its pods, in place, were started anew as often as the task allows."""
    most = task.max_retry or _RESTARTS_BY_DEFAULT
    return most != _UNBOUNDED and sum(member.restarts for member in own if member.is_unfinished) >= most


def _unknown_since(group: PodGroup) -> float:
    condition = find_condition(group.status.conditions, UNSCHEDULABLE)
    if condition is None or condition.last_transition_time is None:
        return 0.0
    return epoch(condition.last_transition_time)
