"""The decision about one Volcano Job, from the job, its pods, pod group and commands.

No pod is created before the job's pod group is admitted; then all missing pods are.  What an action deletes
is written into the status before anything is deleted (see ``job_phases.KillAction``), so that an action that
is interrupted in between is resumed.  A job that is queued has no pod group before a cluster queue admits it.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Final

import msgspec

from quorate.api.batch import decode_template
from quorate.api.meta import epoch, true_condition
from quorate.api.validation.volcano_jobs import volcano_job_findings, volcano_job_warnings
from quorate.api.volcano import UNSCHEDULABLE, PodGroup
from quorate.api.volcano.job import (
    INVALID_JOB,
    Command,
    Job,
    JobPhase,
    JobStatus,
    TaskSpec,
    task_min_available,
    with_defaults,
)
from quorate.controllers.jobframework.podset_info import InjectionConflict
from quorate.controllers.limits import MAX_CREATIONS, MAX_JOB_EVENTS, MAX_JOB_PODS
from quorate.controllers.volcano.job.job_phases import (
    ACTIVE,
    FINISHED,
    TRANSITIONS,
    ActionScope,
    KillAction,
    Transition,
    next_phase,
    total_replicas,
    transition_of,
    with_retry_limit,
)
from quorate.controllers.volcano.job.job_pod_group import awaits_admission, build_pod_group
from quorate.controllers.volcano.job.job_pods import (
    JobPod,
    LostPod,
    PodCounts,
    count_pods,
    desired_replicas,
    is_desired,
)
from quorate.controllers.volcano.job.job_status import (
    PhaseReason,
    releases_plugins,
    status_of_invalid,
    updated_status,
    without_invalid,
    without_plugins,
)
from quorate.controllers.volcano.job.lifecycle_policies import (
    COMMAND_ISSUED,
    SYNC,
    JobEvent,
    RequestedAction,
    requested_action,
)
from quorate.controllers.volcano.job.quota_admission import (
    admitted_pod_sets,
    as_admitted,
    forget_admission,
    is_stopping,
    is_suspended,
    stop_completed,
)
from quorate.controllers.volcano.pod_defaults import NO_POD_DEFAULTS, PodDefaults
from quorate.kube.writes import Patch
from quorate.queueing.lifecycle.transition import Event

_SUSPENDED: Final = "the job waits until its Workload is admitted"


@dataclass(frozen=True, slots=True)
class JobInfo:
    """One job and everything the decision depends on."""

    job: Job
    pods: Sequence[JobPod]  # by name, terminating ones included
    group: PodGroup | None
    commands: Sequence[Command]  # to this job, oldest first
    lost: Sequence[LostPod]
    priorities: Mapping[str, int]  # PriorityClass values by name
    now: float
    keep_pending: bool = False  # keep pods without a node when their pod group becomes pending again
    is_queued: bool = False  # the job starts only when a cluster queue admits it
    defaults: PodDefaults = NO_POD_DEFAULTS  # of the pods of its namespace

    @property
    def is_suspended(self) -> bool:
        return self.is_queued and is_suspended(self.job)


@dataclass(frozen=True, slots=True)
class NewPod:
    task: str
    index: int


@dataclass(frozen=True, slots=True)
class JobPlan:
    """What to do, in the order of execution."""

    job: Job  # with defaults, as it was admitted; the source of the pods to create
    patch: Patch | None = None  # of the record of its admission
    status: JobStatus | None = None  # None: it does not change
    handled_commands: tuple[Command, ...] = ()  # to delete
    handled_losses: tuple[LostPod, ...] = ()  # which the action replaces or ends
    group: PodGroup | None = None  # the desired pod group; None: it is not written
    admitted: bool = False  # pods, and the objects they need, may be created
    pods_to_delete: tuple[JobPod, ...] = ()
    group_to_delete: PodGroup | None = None
    pods_to_create: tuple[NewPod, ...] = ()
    delete_job: bool = False  # its ttlSecondsAfterFinished is over
    events: tuple[Event, ...] = ()
    wake_at: float | None = None
    action: str = SYNC

    @property
    def releases_plugins(self) -> bool:
        """Return True if the objects of the job's plugins are to be deleted, before the status is written."""
        return self.status is not None and releases_plugins(self.job.status, self.status)


def decide(info: JobInfo) -> JobPlan:
    """Return the next step for a job; applied to its own result, it changes nothing."""
    job = with_defaults(info.job)
    if job.metadata.deletion_timestamp is not None:
        return JobPlan(job, handled_commands=tuple(info.commands))  # its dependents are garbage-collected
    phase: JobPhase = job.phase or "Pending"
    admitted = admitted_pod_sets(job) if info.is_queued else None
    if admitted is not None and phase == "Aborted":
        return JobPlan(job, patch=forget_admission(job))  # when it is resumed, it needs quota again
    effective = job if admitted is None else as_admitted(job, admitted)
    problem = str(effective.message) if isinstance(effective, InjectionConflict) else ""
    if problem := problem or _validation_error(job):
        status = status_of_invalid(job, problem, info.now)
        return JobPlan(job, status=status, events=(Event("Warning", INVALID_JOB, problem),))
    assert isinstance(effective, Job), problem
    job = msgspec.structs.replace(effective, status=without_invalid(effective.status))
    info = replace(info, job=job)
    requested, commands, wake_at = _requested_action(info, phase)
    transition = None if requested is None else TRANSITIONS.get(phase, {}).get(requested.action)
    if requested is not None and transition is not None and requested.event.has_target(requested.action):
        plan = _kill_job(info, transition, requested)
        return replace(plan, handled_commands=commands, events=(*_command_events(commands), *plan.events))
    if phase in ACTIVE:
        plan = _suspend(info) if info.is_suspended else _sync_job(info)
    elif phase in FINISHED:
        plan = _clean_up(info)
    else:
        plan = _sync_transition(info)
    if requested is not None:
        ignored = _command_events(commands, f" has no effect in phase {phase}")
        plan = replace(plan, events=(*ignored, *plan.events))
    wakes = [moment for moment in (plan.wake_at, wake_at) if moment is not None]
    return replace(plan, handled_commands=commands, wake_at=min(wakes, default=None))


def _command_events(commands: Iterable[Command], effect: str = "") -> tuple[Event, ...]:
    return tuple(
        Event("Normal", COMMAND_ISSUED, f"{PhaseReason.from_command(command).message}{effect}")
        for command in commands
    )


def _validation_error(job: Job) -> str:
    """Return why the job cannot be synced; empty if it can."""
    names = Counter(task.name for task in job.spec.tasks)
    for name, count in names.items():
        if count > 1:
            return f"spec.tasks: {count} tasks have the name {name}, and their pods would have the same names"
    for at, task in enumerate(job.spec.tasks):
        try:
            decode_template(task.template)
        except msgspec.ValidationError as error:
            return f"spec.tasks[{at}].template: {error}"
    if total_replicas(job) > MAX_JOB_PODS:
        return f"spec.tasks: {total_replicas(job)} replicas in total, at most {MAX_JOB_PODS} are possible"
    if job.phase in ("", "Pending") and job.spec.min_available > total_replicas(job):  # it would never start
        return next(
            (str(finding) for finding in volcano_job_findings(job) if finding.path == "spec.minAvailable"), ""
        )
    return ""


def _requested_action(
    info: JobInfo, phase: JobPhase
) -> tuple[RequestedAction | None, tuple[Command, ...], float | None]:
    """Return the action to execute, its command, and when a policy requests another."""
    status = info.job.status
    if info.commands:
        command = info.commands[0]
        if PhaseReason.from_command(command).message == status.state.message:
            return None, (command,), None  # it was executed, but not yet deleted
        event = JobEvent(COMMAND_ISSUED, info.now, status.version, status.retry_count)
        return RequestedAction(command.action, event), (command,), None
    if phase not in ACTIVE or info.is_suspended:
        return None, (), None
    requested, wake_at = requested_action(info.job, info.pods, info.lost, info.group, info.now)
    return requested, (), wake_at


def _kill_job(info: JobInfo, transition: Transition, requested: RequestedAction) -> JobPlan:
    """Execute an action: change the phase, delete the pods of its target, and a whole job's pod group."""
    job, event = info.job, requested.event
    retries = job.status.retry_count + transition.retries
    action = KillAction.from_event(requested.action, with_retry_limit(transition, job, retries), event)
    killed = tuple(pod for pod in info.pods if not pod.is_terminating and action.kills(pod))
    if info.commands:
        reason = PhaseReason.from_command(info.commands[0])
    else:
        reason = PhaseReason.from_event(action, event)
    status = updated_status(job, _counts_without(info.pods, killed), transition.phase, info.now, reason)
    # The new version outdates all earlier events of the pods.
    version = status.version + (1 if transition.scope is ActionScope.JOB else 0)
    status = msgspec.structs.replace(status, version=version, retry_count=retries)
    if transition.scope is ActionScope.JOB:
        status = without_plugins(status)
    state = msgspec.structs.replace(status.state, reason=reason.reason, message=reason.message)
    status = msgspec.structs.replace(status, state=state)
    return JobPlan(
        job,
        handled_losses=tuple(
            pod for pod in info.lost if action.targets(pod.task, pod.partition, pod.key.name)
        ),
        pods_to_delete=killed,
        group_to_delete=_group_to_delete(info, transition),
        status=status,
        events=(Event("Normal", "ExecuteAction", f"{action} because of {event}"),),
        action=requested.action,
    )


def _suspend(info: JobInfo) -> JobPlan:
    """Delete the pods and the pod group of a job without quota; end its stop when they are gone."""
    pods = tuple(pod for pod in info.pods if not pod.is_terminating)
    status = updated_status(
        info.job, _counts_without(info.pods, pods), "Pending", info.now, PhaseReason("Suspended", _SUSPENDED)
    )
    is_over = is_stopping(info.job) and not info.pods and info.group is None
    return JobPlan(
        info.job,
        patch=stop_completed(info.job) if is_over else None,
        pods_to_delete=pods,
        group_to_delete=_unless_terminating(info.group),
        status=status,
    )


def _sync_job(info: JobInfo) -> JobPlan:
    """Sync the pods and the pod group of an active job with its spec."""
    job, group = info.job, info.group
    waiting, replicas = awaits_admission(group), desired_replicas(job)
    surplus = tuple(
        pod
        for pod in info.pods
        if not pod.is_terminating
        and (_is_surplus(pod, job, replicas) or (waiting and not info.keep_pending and _is_unscheduled(pod)))
    )
    plan = _with_phase(info, surplus)
    assert plan.status is not None, "a sync always returns a status"
    if plan.status.state.phase not in ACTIVE:
        return plan
    wanted = build_pod_group(job, info.priorities, info.defaults)
    pods_to_create: tuple[NewPod, ...] = ()
    if not waiting:
        pods_to_create = tuple(islice(_missing_pods(info), MAX_CREATIONS))
    events = _validation_events(job) if group is None else _pending_events(group) if waiting else ()
    return replace(plan, group=wanted, admitted=not waiting, pods_to_create=pods_to_create, events=events)


def _is_surplus(pod: JobPod, job: Job, replicas: Mapping[str, int]) -> bool:
    """Return True for a pod beyond the replicas, or unfinished of an earlier version."""
    return not is_desired(pod, replicas) or (not pod.is_finished and pod.version < job.status.version)


def _is_unscheduled(pod: JobPod) -> bool:
    return pod.phase == "Pending" and not pod.node_name


def _missing_pods(info: JobInfo) -> Iterator[NewPod]:
    present = {(pod.task, pod.index) for pod in info.pods}
    for task in creatable_tasks(info.job, info.pods):
        yield from (
            NewPod(task.name, index) for index in range(task.replicas) if (task.name, index) not in present
        )


def creatable_tasks(job: Job, pods: Sequence[JobPod]) -> Iterator[TaskSpec]:
    """Yield the tasks that may get pods now, each after the tasks in its ``dependsOn``.

    A task is creatable once all tasks it depends on (with iteration ``any``: one of them) have their minimum
    number of pods ready or succeeded.  A task that depends on an unknown task, or directly or indirectly on
    itself, never is.
    """
    ready_pods = Counter(pod.task for pod in pods if _is_ready(pod))
    ready = {task.name: ready_pods[task.name] >= task_min_available(task) for task in job.spec.tasks}
    for task in _dependency_order(job.spec.tasks):
        depends = task.depends_on
        results = [] if depends is None else [ready.get(name, False) for name in depends.name]
        enough = any(results) if depends is not None and depends.iteration == "any" else all(results)
        if enough or not results:
            yield task


def _is_ready(pod: JobPod) -> bool:
    return pod.is_ready and not pod.is_terminating


def _dependency_order(tasks: Iterable[TaskSpec]) -> list[TaskSpec]:
    """Return ``tasks`` in topological order of ``dependsOn``, as far as there is one."""
    by_name = {task.name: task for task in tasks}
    ordered: dict[str, TaskSpec] = {}
    visited: set[str] = set()
    for first in by_name:
        path = [first]  # a stack: a chain of dependencies may be deeper than recursion
        while path:
            task = by_name[path[-1]]
            if task.name not in visited:
                visited.add(task.name)
                names = () if task.depends_on is None else task.depends_on.name
                path.extend(name for name in reversed(names) if name in by_name and name not in visited)
            else:
                ordered.setdefault(path.pop(), task)
    return list(ordered.values())


def _validation_events(job: Job) -> tuple[Event, ...]:
    """Return the findings about a new job: there may be no webhook to refuse it."""
    messages = chain(map(str, volcano_job_findings(job)), volcano_job_warnings(job))
    return tuple(Event("Warning", INVALID_JOB, message) for message in islice(messages, MAX_JOB_EVENTS))


def _pending_events(group: PodGroup | None) -> tuple[Event, ...]:
    """Return why the job has no pods: the scheduler's message on the pending pod group."""
    condition = None if group is None else true_condition(group.status.conditions, UNSCHEDULABLE)
    if group is None or condition is None:
        return ()
    text = f"pod group {group.metadata.key} is pending: {condition.reason}: {condition.message}"
    return (Event("Warning", "PodGroupPending", text),)


def _sync_transition(info: JobInfo) -> JobPlan:
    """Sync a job that is restarting, ending or aborted: delete pods, create none."""
    if info.job.phase == "Restarting":
        return _sync_restart(info)
    return _delete_unfinished(info)


def _sync_restart(info: JobInfo) -> JobPlan:
    """Delete the rest of the restart's target; become Pending only after that.

    While pods of the target, or the pod group of a whole job, are to delete, the phase stays Restarting.
    """
    job, action = info.job, KillAction.from_status(info.job)
    replicas = desired_replicas(job)
    killed = tuple(
        pod
        for pod in info.pods
        if not pod.is_terminating and (action.kills_on_restart(pod, job) or _is_surplus(pod, job, replicas))
    )
    if not killed and (further := _further_restart(info, action)) is not None:
        return further
    plan = replace(_with_phase(info, killed), group_to_delete=_group_to_delete(info, action.transition))
    if plan.status is None or plan.status.state.phase != "Pending" or not (killed or plan.group_to_delete):
        return plan
    status = updated_status(job, _counts_without(info.pods, killed), "Restarting", info.now, PhaseReason())
    return replace(plan, status=status)


def _further_restart(info: JobInfo, action: KillAction) -> JobPlan | None:
    """Return the plan to restart one more part of a job in which ``action`` restarts a part.

    It adds no retry: the loss of a node ends several pods, one after the other.  Return None if no event
    requests it, or if the job has no retry left.
    """
    job = info.job
    if action.transition.scope is ActionScope.JOB or job.status.retry_count >= job.spec.max_retry:
        return None
    requested, _ = requested_action(job, info.pods, info.lost, info.group, info.now)
    transition = None if requested is None else transition_of(requested.action)
    if requested is None or transition is None or transition.scope is ActionScope.JOB:
        return None
    return _kill_job(replace(info, commands=()), replace(transition, retries=0), requested)


def _group_to_delete(info: JobInfo, transition: Transition) -> PodGroup | None:
    """Return the pod group if an action ends it.

    An action on a part of the job is no new admission: the other pods keep their nodes, and the pod group
    keeps the room of the replaced pods.
    """
    return _unless_terminating(info.group) if transition.scope is ActionScope.JOB else None


def _clean_up(info: JobInfo) -> JobPlan:
    """Delete the pods and the pod group of a finished job, and the job after its TTL."""
    job, plan = info.job, _delete_unfinished(info)
    finished_at, ttl_s = job.status.state.last_transition_time, job.spec.ttl_seconds_after_finished
    if ttl_s is None or finished_at is None:
        return plan
    due = epoch(finished_at) + ttl_s
    return replace(plan, delete_job=True) if due <= info.now else replace(plan, wake_at=due)


def _delete_unfinished(info: JobInfo) -> JobPlan:
    unfinished = tuple(pod for pod in info.pods if not pod.is_finished and not pod.is_terminating)
    return replace(_with_phase(info, unfinished), group_to_delete=_unless_terminating(info.group))


def _with_phase(info: JobInfo, to_delete: tuple[JobPod, ...]) -> JobPlan:
    """Return the plan to delete ``to_delete``, with the resulting phase and counts."""
    job = info.job
    counts = _counts_without(info.pods, to_delete)
    unfinished = sum(1 for pod in info.pods if not pod.is_finished)
    phase = next_phase(job, counts, unfinished)
    reason = PhaseReason.from_pods(job, phase, counts)
    status = updated_status(job, counts, phase, info.now, reason)
    return JobPlan(job, pods_to_delete=to_delete, status=status)


def _counts_without(pods: Sequence[JobPod], deleted: tuple[JobPod, ...]) -> PodCounts:
    uids = {pod.metadata.uid for pod in deleted}
    counts = count_pods(pod for pod in pods if pod.metadata.uid not in uids)
    counts.terminating += len(deleted)
    return counts


def _unless_terminating(group: PodGroup | None) -> PodGroup | None:
    return None if group is None or group.metadata.deletion_timestamp is not None else group
