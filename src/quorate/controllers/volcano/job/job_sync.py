"""What to do about one Volcano Job, as a pure function of all that concerns it.

No pod is made while the job's pod group waits; once it is admitted all that are missing are made.  What an
action is about to end stands in the status before anything is deleted (see ``intent``): cut short in between,
the rest is done by that.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Final

import msgspec

from quorate.api.batch import decode_template
from quorate.api.meta import epoch
from quorate.api.validation.volcano_jobs import volcano_job_findings, volcano_job_warnings
from quorate.api.volcano import UNSCHEDULABLE, PodGroup, find_condition
from quorate.api.volcano.job import Command, Job, JobPhase, JobStatus, with_defaults
from quorate.controllers.volcano.job.dependencies import creatable_tasks
from quorate.controllers.volcano.job.job_phases import (
    ACTIVE,
    FINISHED,
    TRANSITIONS,
    ActionScope,
    Transition,
    next_phase,
    total,
    with_retry_limit,
)
from quorate.controllers.volcano.job.job_pod_group import build_pod_group, is_waiting
from quorate.controllers.volcano.job.job_pods import JobPod, LostPod, PodCounts, count_pods, is_desired
from quorate.controllers.volcano.job.job_status import PhaseReason, updated_status
from quorate.controllers.volcano.job.kill_action import KillAction
from quorate.controllers.volcano.job.lifecycle_policies import (
    COMMAND_ISSUED,
    SYNC,
    JobEvent,
    RequestedAction,
    apply_policies,
    job_events,
)
from quorate.queueing.lifecycle.transition import Event

MAX_PODS: Final = 100_000  # of one job; it could never be placed, and would stop the work on all others
MAX_EVENTS: Final = 5  # told of one job; who corrects them hears of the others
MAX_CREATIONS: Final = 10_000  # pods made by one plan; when they are there, the next makes more


@dataclass(frozen=True, slots=True)
class JobInfo:
    """One job with all that is known of it."""

    job: Job
    members: Sequence[JobPod]  # by name, those included that are on their way out
    group: PodGroup | None
    commands: Sequence[Command]  # to this job, in the order they came
    lost: Sequence[LostPod]
    priorities: Mapping[str, int]  # of PriorityClasses, by name
    now: float
    keep_pending: bool = False  # pods without a node stay when their group has to wait again


@dataclass(frozen=True, slots=True)
class NewPod:
    task: str
    index: int


@dataclass(frozen=True, slots=True)
class JobPlan:
    """In the order in which it is carried out."""

    job: Job  # completed: what the pods to make are made of
    status: JobStatus | None = None  # None: it stays as it is
    handled_commands: tuple[Command, ...] = ()  # to delete
    group: PodGroup | None = None  # what the pod group is to be; None: nothing is to be done about it
    admitted: bool = False  # its pods may be there, and so may what they need besides
    pods_to_delete: tuple[JobPod, ...] = ()
    group_to_delete: PodGroup | None = None  # to delete
    pods_to_create: tuple[NewPod, ...] = ()
    delete_job: bool = False  # to delete it; its time is over
    events: tuple[Event, ...] = ()
    wake_at: float | None = None
    action: str = SYNC


def decide(case: JobInfo) -> JobPlan:
    """The one step to take now; taken twice, the second changes nothing."""
    job = with_defaults(case.job)
    if job.metadata.deletion_timestamp is not None:
        return JobPlan(job, handled_commands=tuple(case.commands))  # what it owns is garbage, and collected
    if problem := _unfit(job):
        return JobPlan(job, events=(Event("Warning", "InvalidJob", problem),))
    case = replace(case, job=job)
    phase: JobPhase = job.status.state.phase or "Pending"
    order, handled_commands, wake_at = _called_for(case, phase)
    move = None if order is None else TRANSITIONS.get(phase, {}).get(order.action)
    if order is not None and move is not None and _has_target(move, order):
        return replace(_moved(case, move, order), handled_commands=handled_commands)
    if phase in ACTIVE:
        plan = _synced(case)
    elif phase in FINISHED:
        plan = _finished(case)
    else:
        plan = _in_between(case)
    return replace(plan, handled_commands=handled_commands, wake_at=_earliest(plan.wake_at, wake_at))


def _unfit(job: Job) -> str:
    """Why nothing can be done for the job; empty when something can."""
    names = Counter(task.name for task in job.spec.tasks)
    for name, count in names.items():
        if count > 1:
            return f"spec.tasks: {name} is there {count} times, and its pods would have the same names"
    for at, task in enumerate(job.spec.tasks):
        try:
            decode_template(task.template)
        except msgspec.ValidationError as error:
            return f"spec.tasks[{at}].template: {error}"
    if total(job) > MAX_PODS:
        return f"spec.tasks: {total(job)} replicas in all, at most {MAX_PODS} are possible"
    return ""


def _called_for(
    case: JobInfo, phase: JobPhase
) -> tuple[RequestedAction | None, tuple[Command, ...], float | None]:
    """The action to take, the command that is thereby taken up, and when a policy calls for another one."""
    status = case.job.status
    if case.commands:
        command = case.commands[0]
        mark = PhaseReason.of_command(command)
        if mark.message == status.state.message:
            return None, (command,), None  # it was carried out, and only its removal is missing
        event = JobEvent(COMMAND_ISSUED, case.now, status.version, status.retry_count)
        return RequestedAction(command.action, event), (command,), None
    if phase not in ACTIVE:
        return None, (), None
    events = job_events(case.job, case.members, case.lost, case.group)
    order, wake_at = apply_policies(case.job, events, case.now)
    return order, (), wake_at


def _has_target(move: Transition, order: RequestedAction) -> bool:
    """Whether it is known whose pods the action ends: a command names none."""
    return move.scope is ActionScope.JOB or order.event.kind != COMMAND_ISSUED


def _moved(case: JobInfo, move: Transition, order: RequestedAction) -> JobPlan:
    job = case.job
    retries = job.status.retry_count + move.retries
    intent = KillAction.of(order.action, with_retry_limit(move, job, retries), order.event)
    ended = tuple(each for each in case.members if not each.is_terminating and intent.ends(each))
    cause = (
        PhaseReason.of_command(case.commands[0])
        if case.commands
        else PhaseReason.of_event(intent, order.event)
    )
    status = updated_status(job, _counts_without(case.members, ended), move.to, case.now, cause)
    # The new version makes old whatever happened to the pods before.
    version = status.version + (1 if move.scope is ActionScope.JOB else 0)
    status = msgspec.structs.replace(status, version=version, retry_count=retries)
    told = Event("Normal", "ExecuteAction", f"{intent} because of {order.event}")
    return JobPlan(
        job,
        pods_to_delete=ended,
        group_to_delete=_to_end(case.group),
        status=status,
        events=(told,),
        action=order.action,
    )


def _synced(case: JobInfo) -> JobPlan:
    job, group = case.job, case.group
    waiting = is_waiting(group)
    leaving = tuple(
        member
        for member in case.members
        if not member.is_terminating
        and (_is_surplus(member, job) or (waiting and not case.keep_pending and _is_unplaced(member)))
    )
    plan = _settled(case, leaving)
    assert plan.status is not None, "a sync always knows the status"
    if plan.status.state.phase not in ACTIVE:
        return plan
    wanted = build_pod_group(job, case.priorities)
    pods_to_create: tuple[NewPod, ...] = ()
    if not waiting:
        pods_to_create = tuple(islice(_missing(case), MAX_CREATIONS))
    events = _mistakes(job) if group is None else _waits(group) if waiting else ()
    return replace(plan, group=wanted, admitted=not waiting, pods_to_create=pods_to_create, events=events)


def _is_surplus(member: JobPod, job: Job) -> bool:
    """Not wanted any more: of a replica beyond the task's, or running for a version that is over."""
    return not is_desired(member, job) or (member.is_unfinished and member.version < job.status.version)


def _is_unplaced(member: JobPod) -> bool:
    return member.status.phase == "Pending" and not member.spec.node_name


def _missing(case: JobInfo) -> Iterator[NewPod]:
    have = {(member.task, member.index) for member in case.members}
    for task in creatable_tasks(case.job, case.members):
        yield from (
            NewPod(task.name, index) for index in range(task.replicas) if (task.name, index) not in have
        )


def _mistakes(job: Job) -> tuple[Event, ...]:
    """What is wrong with a job that is about to wait: where no webhook is, nobody else says so."""
    said = chain(map(str, volcano_job_findings(job)), volcano_job_warnings(job))
    return tuple(Event("Warning", "InvalidJob", each) for each in islice(said, MAX_EVENTS))


def _waits(group: PodGroup | None) -> tuple[Event, ...]:
    """Why the job's pods are not made, in the words of whoever decides about its group."""
    condition = None if group is None else find_condition(group.status.conditions, UNSCHEDULABLE)
    if group is None or condition is None or condition.status != "True":
        return ()
    text = f"pod group {group.metadata.key} waits: {condition.reason}: {condition.message}"
    return (Event("Warning", "PodGroupPending", text),)


def _in_between(case: JobInfo) -> JobPlan:
    """Restarting, or ending, or aborted: nothing is made, and what is to end is ended."""
    job = case.job
    if job.status.state.phase == "Restarting":
        return _restarting(case)
    leaving = tuple(each for each in case.members if each.is_unfinished and not each.is_terminating)
    return replace(_settled(case, leaving), group_to_delete=_to_end(case.group))


def _restarting(case: JobInfo) -> JobPlan:
    """The job begins anew only once all is told to go that belongs to what was before."""
    job, intent = case.job, KillAction.read(case.job)
    leaving = tuple(
        member
        for member in case.members
        if not member.is_terminating and (intent.is_to_end(member, job) or _is_surplus(member, job))
    )
    plan = replace(_settled(case, leaving), group_to_delete=_to_end(case.group))
    if plan.status is None or plan.status.state.phase != "Pending" or not (leaving or plan.group_to_delete):
        return plan
    status = updated_status(
        job, _counts_without(case.members, leaving), "Restarting", case.now, PhaseReason()
    )
    return replace(plan, status=status)


def _finished(case: JobInfo) -> JobPlan:
    job = case.job
    leaving = tuple(member for member in case.members if member.is_unfinished and not member.is_terminating)
    plan = replace(_settled(case, leaving), group_to_delete=_to_end(case.group))
    ended_at, ttl_s = job.status.state.last_transition_time, job.spec.ttl_seconds_after_finished
    if ttl_s is None or ended_at is None:
        return plan
    due = epoch(ended_at) + ttl_s
    return replace(plan, delete_job=True) if due <= case.now else replace(plan, wake_at=due)


def _settled(case: JobInfo, leaving: tuple[JobPod, ...]) -> JobPlan:
    """The phase and the counts as they are once ``leaving`` are told to leave."""
    job = case.job
    counts = _counts_without(case.members, leaving)
    live = sum(1 for member in case.members if member.is_unfinished)
    phase = next_phase(job, counts, live)
    cause = PhaseReason.of_phase(job, phase, counts)
    return JobPlan(job, pods_to_delete=leaving, status=updated_status(job, counts, phase, case.now, cause))


def _counts_without(members: Sequence[JobPod], leaving: tuple[JobPod, ...]) -> PodCounts:
    gone = {member.metadata.uid for member in leaving}
    counts = count_pods(member for member in members if member.metadata.uid not in gone)
    counts.terminating += len(leaving)
    return counts


def _to_end(group: PodGroup | None) -> PodGroup | None:
    return None if group is None or group.metadata.deletion_timestamp is not None else group


def _earliest(*moments: float | None) -> float | None:
    return min((moment for moment in moments if moment is not None), default=None)
