"""Lifecycle policies of a Volcano Job: its events, and the actions they request.

Events are derived from the objects as they are now: a failed pod is an event as long as it exists.  An action
outdates the events that precede it, by raising the job's version or its retry count.  So each event causes
one action, however often it is evaluated, also after a restart of the controller.  A pod is evicted if
something else than this controller deletes it, whatever its phase was or becomes (``LostPods``).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from quorate.api.meta import epoch, find_condition
from quorate.api.syntax import InvalidDuration, parse_duration
from quorate.api.volcano import UNKNOWN, UNSCHEDULABLE, PodGroup
from quorate.api.volcano.job import Job, LifecyclePolicy, TaskSpec
from quorate.controllers.limits import TASK_RETRIES
from quorate.controllers.volcano.job.job_pods import JobPod, LostPod, desired_replicas, is_desired

ANY: Final = "*"
POD_FAILED: Final = "PodFailed"
POD_EVICTED: Final = "PodEvicted"
POD_PENDING: Final = "PodPending"
GROUP_UNKNOWN: Final = "Unknown"
TASK_COMPLETED: Final = "TaskCompleted"
TASK_FAILED: Final = "TaskFailed"
COMMAND_ISSUED: Final = "CommandIssued"
_TASK_EVENTS: Final = (TASK_COMPLETED, TASK_FAILED)
# The order of events with the same time.
_EVENT_ORDER: Final = (POD_EVICTED, POD_FAILED, TASK_FAILED, TASK_COMPLETED, GROUP_UNKNOWN, POD_PENDING)

SYNC: Final = "SyncJob"
_UNLIMITED: Final = -1


@dataclass(frozen=True, slots=True)
class JobEvent:
    """One event of a pod, of a task or of the whole job."""

    kind: str
    since: float  # epoch seconds
    version: int  # of the job, when the event happened
    retry: int
    task: str = ""
    pod: str = ""
    partition: str = ""
    exit_code: int | None = None

    def has_target(self, action: str) -> bool:
        """Return False for an action on a task, a partition or a pod if the event concerns none."""
        match action:
            case "RestartTask":
                return bool(self.task)
            case "RestartPartition":
                return bool(self.partition)
            case "RestartPod":
                return bool(self.pod)
            case _:
                return True

    def __str__(self) -> str:
        target = self.task if self.kind in _TASK_EVENTS else self.pod or self.task
        text = f"{self.kind} of {target}" if target else self.kind
        return text if self.exit_code is None else f"{text} with exit code {self.exit_code}"


@dataclass(frozen=True, slots=True)
class RequestedAction:
    """An action, and the event that requests it."""

    action: str
    event: JobEvent


def requested_action(
    job: Job, pods: Sequence[JobPod], lost: Iterable[LostPod], group: PodGroup | None, now: float
) -> tuple[RequestedAction | None, float | None]:
    """Return the action that the first event of a defaulted job requests, and when to check again.

    A policy with a timeout requests its action that long after the event.
    """
    if not job.spec.policies and not any(task.policies for task in job.spec.tasks):
        return None, None
    return _apply_policies(job, _job_events(job, pods, lost, group), now)


def _apply_policies(
    job: Job, events: Iterable[JobEvent], now: float
) -> tuple[RequestedAction | None, float | None]:
    """Return the action of the first of the ordered events that requests one, and when to check again."""
    of_tasks: dict[str, _PolicyIndex] = {}
    for task in job.spec.tasks:
        if task.policies:
            of_tasks.setdefault(task.name, _PolicyIndex(task.policies))
    of_job = _PolicyIndex(job.spec.policies)
    wake_at: float | None = None
    for event in events:
        if event.version < job.status.version or event.retry < job.status.retry_count:
            continue  # outdated
        of_task = of_tasks.get(event.task)
        policy = (None if of_task is None else of_task.first(event)) or of_job.first(event)
        if policy is None or policy.action in ("", SYNC) or not event.has_target(policy.action):
            continue
        due = event.since + _timeout_s(policy)
        if due <= now:
            return RequestedAction(policy.action, event), None
        wake_at = due if wake_at is None else min(wake_at, due)
    return None, wake_at


class _PolicyIndex:
    """Policies by what they match: a job may have thousands of them, and thousands of events."""

    def __init__(self, policies: Sequence[LifecyclePolicy]) -> None:
        self._policies = policies
        # The first policy for each kind of event or exit code, by its position.
        self._of_kind: dict[str, int] = {}
        self._of_exit_code: dict[int | None, int] = {}
        # Every pod is pending at first: PodPending is an event only for a policy with a timeout.
        self._of_pending: dict[str, int] = {}
        for at, policy in enumerate(policies):
            for kind in (*policy.events, policy.event):
                self._of_kind.setdefault(kind, at)
                if policy.timeout:
                    self._of_pending.setdefault(kind, at)
            if policy.exit_code is not None:
                self._of_exit_code.setdefault(policy.exit_code, at)

    def first(self, event: JobEvent) -> LifecyclePolicy | None:
        """Return the first policy that matches ``event``."""
        of_kind = self._of_pending if event.kind == POD_PENDING else self._of_kind
        matching = (of_kind.get(event.kind), of_kind.get(ANY), self._of_exit_code.get(event.exit_code))
        positions = [at for at in matching if at is not None]
        return self._policies[min(positions)] if positions else None


def _timeout_s(policy: LifecyclePolicy) -> float:
    """Return the seconds from the event to the action; 0 for a malformed timeout."""
    try:
        return parse_duration(policy.timeout) if policy.timeout else 0.0
    except InvalidDuration:
        return 0.0


def _job_events(
    job: Job, pods: Sequence[JobPod], lost: Iterable[LostPod], group: PodGroup | None
) -> list[JobEvent]:
    """Return the events of a defaulted job, ordered by time, kind, task and pod."""
    replicas = desired_replicas(job)
    events = [event for pod in pods if is_desired(pod, replicas) for event in _pod_events(job, pod)]
    events += (event for pod in lost for event in _lost_pod_events(job, pod))
    events += _task_events(job, pods)
    if group is not None and group.status.phase == UNKNOWN:
        status = job.status
        events.append(JobEvent(GROUP_UNKNOWN, _unknown_since(group), status.version, status.retry_count))
    return sorted(
        events, key=lambda event: (event.since, _EVENT_ORDER.index(event.kind), event.task, event.pod)
    )


def _pod_events(job: Job, pod: JobPod) -> Iterator[JobEvent]:
    name = pod.metadata.name
    version, task, partition = pod.version, pod.task, pod.partition
    if pod.is_terminating:
        return  # if something else deletes it, it is lost, whatever its phase is by now
    retry = job.status.retry_count  # a pod that a restart retained belongs to the restarted job
    if pod.phase == "Failed":
        code = pod.exit_code
        if pod.is_disrupted:  # it may never be deleted, as when the kubelet evicts it
            yield JobEvent(POD_EVICTED, pod.ended_at, version, retry, task, name, partition)
        yield JobEvent(POD_FAILED, pod.ended_at, version, retry, task, name, partition, code)
    elif pod.phase == "Pending" and pod.metadata.creation_timestamp is not None:
        since = epoch(pod.metadata.creation_timestamp)
        yield JobEvent(POD_PENDING, since, version, retry, task, name, partition)


def _lost_pod_events(job: Job, pod: LostPod) -> Iterator[JobEvent]:
    version, retry, task, name = pod.version, job.status.retry_count, pod.task, pod.key.name
    yield JobEvent(POD_EVICTED, pod.at, version, retry, task, name, pod.partition)
    if pod.failed_at is not None:
        yield JobEvent(POD_FAILED, pod.failed_at, version, retry, task, name, pod.partition, pod.exit_code)


def _task_events(job: Job, pods: Sequence[JobPod]) -> Iterator[JobEvent]:
    """Yield the events of tasks.  An action on a pod then has the pod that ended last as its target."""
    by_task: dict[str, list[JobPod]] = {}
    for pod in pods:
        if not pod.is_terminating:
            by_task.setdefault(pod.task, []).append(pod)
    for task in job.spec.tasks:
        own = [pod for pod in by_task.get(task.name, ()) if 0 <= pod.index < task.replicas]
        if not own:
            continue
        if len(own) == task.replicas and all(pod.phase == "Succeeded" for pod in own):
            yield _task_event(TASK_COMPLETED, task, own, job.status.retry_count)
        restarted = [pod for pod in own if pod.restarts and not pod.is_finished]
        if restarted and _exceeds_retries(task, restarted):
            yield _task_event(TASK_FAILED, task, restarted, job.status.retry_count)


def _task_event(kind: str, task: TaskSpec, pods: Sequence[JobPod], retry: int) -> JobEvent:
    """Return the event of ``task`` that the last of ``pods`` to end caused.

    Pods that a resumption retained have an earlier version than the others.
    """
    last = max(pods, key=lambda pod: (pod.ended_at, pod.metadata.name))
    version = max(pod.version for pod in pods)
    return JobEvent(kind, last.ended_at, version, retry, task.name, last.metadata.name, last.partition)


def _exceeds_retries(task: TaskSpec, restarted: Iterable[JobPod]) -> bool:
    """Return True if the task's containers were restarted as often as ``maxRetry`` allows."""
    limit = task.max_retry or TASK_RETRIES
    return limit != _UNLIMITED and sum(pod.restarts for pod in restarted) >= limit


def _unknown_since(group: PodGroup) -> float:
    condition = find_condition(group.status.conditions, UNSCHEDULABLE)
    if condition is None or condition.last_transition_time is None:
        return 0.0
    return epoch(condition.last_transition_time)
