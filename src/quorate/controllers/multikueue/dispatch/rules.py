"""Which clusters get a copy of a workload, which one gets its job, and when both are taken back (KEP-693).

Quota is reserved in this cluster first.  Then copies of the workload are created in the nominated clusters,
and the first cluster that admits its copy gets the job.  The order of the rules is Kueue's, and so are the
texts.  What differs keeps a job from running in two clusters:

- The chosen cluster is recorded before the job is created there, so that a new process knows it.
- No cluster is chosen while a job of ours may run in another one: in a connected cluster until the job and
  its pods are gone, and in a lost cluster, if it was the last one chosen, until ``workerLostTimeout`` has
  passed.  That is also how long pods of a connected cluster are waited for: their node may be lost.
- A recorded cluster is never replaced by another one that also admitted its copy.
- Before copies are removed, or the workload is dispatched again, it is read whether the job has ended in the
  last cluster: a job that was deleted after its end does not run again.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from msgspec.structs import replace

from quorate.api.kueue import AdmissionCheckState, Workload, WorkloadStatus
from quorate.api.meta import Condition, at_epoch, find_condition, is_true, true_condition
from quorate.api.names.kueue import ELASTIC_JOB, SLICE_REPLACEMENT_FOR
from quorate.api.names.multikueue import CLUSTER_CHOICE, LAST_CLUSTER
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.multikueue.dispatch.dispatchers import NominationInput
from quorate.controllers.multikueue.dispatch.plan import (
    CreateCopy,
    DeactivateCopy,
    DispatchInput,
    DispatchPlan,
    NextGate,
    OpenGate,
    ReadEnd,
    RemoteAction,
    RemoveCopy,
    SyncJob,
    UpdateCopy,
    copy_update,
    is_out_of_sync,
    next_gate,
)
from quorate.controllers.multikueue.workload_copy import WorkloadCopy
from quorate.queueing import conditions as c
from quorate.queueing.lifecycle.admission_checks import admit
from quorate.queueing.lifecycle.statuses import finish_status
from quorate.queueing.lifecycle.transition import Event, Transition

OUT_OF_SYNC: Final = "OutOfSync"  # reason of Finished: the job differs from its prebuilt workload
EVENT: Final = "MultiKueue"
_ENDS: Final = ("Succeeded", "Failed")  # reasons of Finished of a job that has ended


def decide(info: DispatchInput) -> DispatchPlan:
    workload, check = info.workload, info.check
    if info.is_deleted:
        removals = tuple(_removals(info, info.remotes))
        return DispatchPlan(actions=removals, wake_at=_lost_until(info), ends_job=_is_stopped(info))
    if check is None or check.state == "Rejected":
        return DispatchPlan()
    is_finished = c.is_finished(workload)
    if info.rejection and not is_finished:
        if _recorded(workload):  # its job is gone, and it is about to be finished
            return DispatchPlan()
        return DispatchPlan(status=_with_state(info, check, "Rejected", info.rejection))
    if _is_handed_over(info):
        return DispatchPlan()
    if is_finished:
        return DispatchPlan(actions=tuple(_removals(info, info.remotes)))
    plan = _finish(info, check)
    if plan is not None:
        return plan
    if not c.has_quota_reservation(workload):
        plan = _read_end(info, _recorded(workload))
        return plan or DispatchPlan(actions=tuple(_removals(info, info.remotes)))
    if info.clusters is None:
        return DispatchPlan()
    if check.state == "Retry":
        return DispatchPlan()  # it is being evicted
    if c.is_evicted(workload):
        return _stop(info)
    plan = _redo_evicted(info, check)
    if plan is not None:
        return plan
    edits = tuple(_edits(info))
    edited = {edit.cluster: replace(info.remotes[edit.cluster], is_busy=True) for edit in edits}
    info = replace(info, remotes={**info.remotes, **edited})
    plan = _converge(info, check)
    return replace(plan, actions=(*edits, *plan.actions))


def last_cluster(workload: Workload) -> str:
    """Return the cluster in which the job was to run last; empty: it never was to run in one."""
    last = find_condition(workload.status.conditions, LAST_CLUSTER)
    return "" if last is None else last.message


def _recorded(workload: Workload) -> str:
    """Return the cluster that has the job, or had it last; empty: none."""
    return workload.status.cluster_name or last_cluster(workload)


def _is_elastic(info: DispatchInput) -> bool:
    annotations = info.workload.metadata.annotations
    return info.settings.elastic_jobs and annotations.get(ELASTIC_JOB) == "true"


def _is_handed_over(info: DispatchInput) -> bool:
    """Return True for a replaced slice, and for a slice that has no quota yet and will replace another slice.

    The job and the copies then belong to the other slice, too.
    """
    if not _is_elastic(info):
        return False
    finished = true_condition(info.workload.status.conditions, c.FINISHED)
    if finished is not None:
        return finished.reason == c.SLICE_REPLACED
    replaces = SLICE_REPLACEMENT_FOR in info.workload.metadata.annotations
    return replaces and not c.has_quota_reservation(info.workload)


def _removals(info: DispatchInput, clusters: Iterable[str]) -> Iterator[RemoveCopy | ReadEnd]:
    """Yield the removals of what exists in ``clusters``; before one, it is read whether the job has ended."""
    replaced = true_condition(info.workload.status.conditions, c.FINISHED)
    is_replaced = replaced is not None and replaced.reason == c.SLICE_REPLACED
    shared = info.components.clusters if info.components is not None else ()
    for name in clusters:
        remote = info.remotes[name]
        if not remote.is_busy and (remote.copy is not None or (remote.has_job and not remote.is_ending)):
            if name == _recorded(info.workload) and remote.end == "due" and not (info.is_deleted or replaced):
                yield ReadEnd(name)
                continue
            keeps_job = is_replaced or name in shared
            yield RemoveCopy(name, keeps_job, waits_for_pods=not (info.is_deleted or replaced))


def _remotes_with(info: DispatchInput, condition: str) -> list[tuple[Condition, str]]:
    """Return the clusters of which the copy has a True ``condition``, the earliest condition first.

    Once a cluster is recorded, only the recorded cluster counts.  Equal times are in the configured order.
    """
    chosen = info.workload.status.cluster_name
    with_condition = [
        (held, name)
        for name in _in_order(info)
        if (remote := info.remotes[name]).copy is not None
        and not remote.is_busy
        and (not chosen or name == chosen)
        and (held := true_condition(remote.copy.conditions, condition)) is not None
    ]
    return sorted(with_condition, key=lambda pair: c.transition_time(pair[0]))


def _in_order(info: DispatchInput) -> list[str]:
    """Return the connected clusters: first the configured ones in their order, then all others."""
    configured = [name for name in info.clusters or () if name in info.remotes]
    return [*configured, *sorted(name for name in info.remotes if name not in configured)]


def _is_dispatched(info: DispatchInput, check: AdmissionCheckState) -> bool:
    """Return True if a cluster was chosen; a new slice has the cluster of the slice that it replaces."""
    return check.state == "Ready" or (bool(info.workload.status.cluster_name) and not _is_elastic(info))


def _finish(info: DispatchInput, check: AdmissionCheckState) -> DispatchPlan | None:
    """Finish the workload as its copy or its job did, once the status of the job is here.

    A copy says nothing about the job if that was deleted, or if it is left of a removal that was interrupted.
    """
    last = info.remotes.get(_recorded(info.workload))
    if last is not None and isinstance(last.end, Outcome) and not last.is_busy:
        return DispatchPlan(
            status=finish_status(info.workload, _ENDS[not last.end.success], last.end.message, info.now)
        )
    for finished, name in _remotes_with(info, c.FINISHED):
        problem = ""
        if finished.reason == OUT_OF_SYNC and not _is_elastic(info):
            problem = "is out of sync with its user job"
        elif finished.reason == c.OWNER_NOT_FOUND:
            problem = "has no job any more"
        if problem and (plan := _read_end(info, name)) is not None:
            return plan
        if problem and check.state == "Ready" and c.has_quota_reservation(info.workload):
            text = f'Remote workload on worker cluster "{name}" {problem}, resetting for re-dispatch'
            return _retry(info, check, text, name, finished.reason)
        is_left = info.remotes[name].has_job is False and not info.workload.status.cluster_name
        if problem or (is_left and finished.reason not in _ENDS):
            return DispatchPlan(actions=tuple(_removals(info, (name,))))
        if info.remotes[name].job == "due":
            return DispatchPlan(actions=(SyncJob(name),))
        status = finish_status(info.workload, finished.reason, finished.message, info.now)
        return DispatchPlan(status=status)
    return None


def _read_end(info: DispatchInput, cluster: str) -> DispatchPlan | None:
    """Read whether the job has ended in the last cluster, if ``cluster`` is that; None: it is known."""
    remote = info.remotes.get(cluster)
    if remote is None or remote.end != "due" or cluster != _recorded(info.workload):
        return None
    return DispatchPlan(actions=() if remote.is_busy else (ReadEnd(cluster),))


def _stop(info: DispatchInput) -> DispatchPlan:
    """Stop the job of a workload that was evicted here; its quota is released when the job has ended."""
    last = info.remotes.get(last_cluster(info.workload))
    if last is not None and last.copy is None:
        plan = _read_end(info, last_cluster(info.workload))
        if plan is not None:
            return plan
    evicted = find_condition(info.workload.status.conditions, c.EVICTED)
    message = c.truncate_message(f"Evicted on manager: {'' if evicted is None else evicted.message}")
    actions: list[RemoteAction] = []
    wake_at = _lost_until(info)
    for name, remote in info.remotes.items():
        if remote.is_busy or (remote.copy is None and not remote.has_job):
            continue
        conditions = () if remote.copy is None else remote.copy.conditions
        if not remote.may_run or remote.copy is None:
            actions += _removals(info, (name,))
        elif is_true(conditions, c.EVICTED):
            if remote.job == "due":
                actions.append(SyncJob(name))
            wake_at = remote.sync_at or wake_at
        elif not is_true(conditions, c.DEACTIVATION_TARGET):
            actions.append(DeactivateCopy(name, message))
    return DispatchPlan(actions=tuple(actions), wake_at=wake_at, ends_job=_is_stopped(info))


def _is_stopped(info: DispatchInput) -> bool:
    """Return True if the job was to run in a cluster, and none runs it any more."""
    may_run = any(remote.is_busy or remote.may_run for remote in info.remotes.values())
    return bool(last_cluster(info.workload)) and not may_run and _lost_until(info) is None


def _lost_until(info: DispatchInput) -> float | None:
    """Return until when the job may run in its last cluster, which is lost.

    Return None if the cluster is not lost, or was lost for too long.
    """
    lost = info.lost.get(last_cluster(info.workload))
    until = None if lost is None else lost + info.settings.worker_lost_timeout_s
    return None if until is None or until <= info.now else until


def _redo_evicted(info: DispatchInput, check: AdmissionCheckState) -> DispatchPlan | None:
    """Evict the workload here if the chosen cluster evicted its copy."""
    if not _is_dispatched(info, check):
        return None
    for evicted, name in _remotes_with(info, c.EVICTED):
        text = (
            f'Workload evicted on worker cluster: "{info.workload.status.cluster_name}", resetting for '
            f're-admission. Previously: "{check.state}"'
        )
        status = _with_check(info, replace(check, state="Retry", message=c.truncate_message(text)))
        event = Event("Normal", EVENT, text)
        return DispatchPlan(status=status, events=(event,), evicted_in=name, eviction=evicted.reason)
    return None


def _edits(info: DispatchInput) -> Iterator[UpdateCopy | RemoveCopy | ReadEnd]:
    """Yield what copies with another spec than the workload need: an update in place if that can be done."""
    for name, remote in info.remotes.items():
        if remote.copy is None or remote.is_busy or not is_out_of_sync(info.workload, remote.copy):
            continue
        changes = copy_update(info.workload, remote.copy, is_elastic=_is_elastic(info))
        if changes:
            yield UpdateCopy(name, changes)
        else:
            yield from _removals(info, (name,))


def _converge(info: DispatchInput, check: AdmissionCheckState) -> DispatchPlan:
    """Follow the cluster that admitted its copy, or find one."""
    status = info.workload.status
    dispatched = _is_dispatched(info, check)
    for _, name in _remotes_with(info, c.ADMITTED):
        if dispatched or name in (status.cluster_name, *status.nominated_cluster_names):
            return _follow(info, check, name)
    if dispatched:
        return _without_admitted(info, check)
    gate = NextGate()
    if info.settings.orchestrates_preemption:
        gate = next_gate({name: info.remotes[name] for name in _in_order(info)}, info.now)
    plan = _nominate(info)
    opened = (OpenGate(gate.cluster),) if gate.cluster else ()
    actions = (*opened, *(action for action in plan.actions if action.cluster != gate.cluster))
    times = [time for time in (gate.wake_at, plan.wake_at) if time is not None]
    return replace(plan, actions=actions, wake_at=min(times, default=None))


def _without_admitted(info: DispatchInput, check: AdmissionCheckState) -> DispatchPlan:
    """Dispatch a workload again of which no admitted copy is left; a lost cluster has time to come back."""
    chosen = info.workload.status.cluster_name
    if not chosen:
        text = (
            "Admission check is Ready but no admitting cluster is recorded; this is unexpected, please "
            "report it"
        )
        return _retry(info, check, text, "", "")
    remote = info.remotes.get(chosen)
    if remote is not None and remote.is_busy:
        return DispatchPlan()
    if remote is None and info.clusters is not None and chosen in info.clusters:
        until = info.lost.get(chosen, info.now) + info.settings.worker_lost_timeout_s
        if until > info.now:
            return DispatchPlan(wake_at=until)
        return _retry(info, check, "Admitting remote lost", chosen, "ClusterLost")
    if (plan := _read_end(info, chosen)) is not None:
        return plan
    return _retry(info, check, "Admitting remote no longer exists", chosen, "CopyDeleted")


def _follow(info: DispatchInput, check: AdmissionCheckState, cluster: str) -> DispatchPlan:
    """Record the cluster that admitted its copy, create the job there, then make the check Ready."""
    remote, status = info.remotes[cluster], info.workload.status
    removals = tuple(_removals(info, [name for name in info.remotes if name != cluster]))
    if not status.cluster_name and check.state == "Pending":
        if (plan := _read_end(info, last_cluster(info.workload))) is not None:
            return plan
        may_choose, wake_at = _may_choose(info, cluster)
        if not may_choose:
            return DispatchPlan(actions=removals, wake_at=wake_at)
        status = _with_cluster(info, status, cluster)
    actions: tuple[RemoteAction, ...] = removals
    if remote.job == "due":
        actions = (SyncJob(cluster), *removals)
        if not remote.job_seen or _is_elastic(info):
            return DispatchPlan(status=_changed(info, status), actions=actions)
    text = f'The workload was admitted on "{cluster}"'
    status = _with_cluster(info, _with_delayed_topology(status, remote.copy), status.cluster_name)
    if (check.state, check.message) == ("Ready", text):
        return DispatchPlan(status=_changed(info, status), actions=actions, wake_at=remote.sync_at)
    ready = replace(check, state="Ready", message=text)
    status = replace(status, admission_checks=_with_check(info, ready).admission_checks)
    is_new = check.state != "Ready"
    admitted = admit(replace(info.workload, status=status), info.now, gives_places=info.settings.gives_places)
    if admitted is None:
        admitted = Transition(status)
    return DispatchPlan(
        status=admitted.status,
        events=(Event("Normal", EVENT, text), *admitted.events),
        actions=actions,
        wake_at=remote.sync_at,
        admitted_in=cluster if is_new else "",
    )


def _may_choose(info: DispatchInput, cluster: str) -> tuple[bool, float | None]:
    """Return whether the job may run in ``cluster``; and if not, when to decide again (None: at an event)."""
    if any(remote.may_run for name, remote in info.remotes.items() if name != cluster):
        return False, None
    until = None if last_cluster(info.workload) == cluster else _lost_until(info)
    return until is None, until


def _with_cluster(info: DispatchInput, status: WorkloadStatus, cluster: str) -> WorkloadStatus:
    if not cluster:
        return status
    last = c.new_condition(LAST_CLUSTER, "True", "Dispatched", cluster, info.now)
    return replace(
        status,
        cluster_name=cluster,
        nominated_cluster_names=(),
        conditions=_with_new(status.conditions, last),
    )


def _with_new(conditions: tuple[Condition, ...], new: Condition) -> tuple[Condition, ...]:
    """Return ``conditions`` with ``new``, of which also a new message makes the time a new one."""
    old = find_condition(conditions, new.type)
    if c.is_unchanged(old, new):
        return conditions
    return (*c.without_condition(conditions, new.type), new)


def _with_delayed_topology(status: WorkloadStatus, copy: WorkloadCopy | None) -> WorkloadStatus:
    """Mark the places of pod sets as found that got them in the worker cluster."""
    if status.admission is None or copy is None or not copy.placed:
        return status
    assignments = tuple(
        replace(assignment, delayed_topology_request="Ready")
        if assignment.name in copy.placed and assignment.delayed_topology_request == "Pending"
        else assignment
        for assignment in status.admission.pod_set_assignments
    )
    return replace(status, admission=replace(status.admission, pod_set_assignments=assignments))


def _changed(info: DispatchInput, status: WorkloadStatus) -> WorkloadStatus | None:
    return None if status == info.workload.status else status


def _nominate(info: DispatchInput) -> DispatchPlan:
    """Create copies in the nominated clusters, and remove them from all others."""
    workload = info.workload
    if any(state.state != "Ready" for state in workload.status.admission_checks if state != info.check):
        return DispatchPlan()
    components = info.components
    if components is not None and not components.are_complete:
        return DispatchPlan()
    assigned = set(components.clusters) if components is not None else set()
    if len(assigned) > 1:
        return DispatchPlan()  # it could not follow both
    if assigned:
        (cluster,) = assigned
        if cluster not in info.remotes:
            return DispatchPlan()
        nominated = workload.status.nominated_cluster_names
        return _dispatch(info, nominated if cluster in nominated else (cluster,), (cluster,), is_gated=False)
    if components is not None and not components.is_primary:
        return DispatchPlan()
    if _is_elastic(info) and workload.status.cluster_name:
        return _dispatch(info, None, (workload.status.cluster_name,), is_gated=True)
    return _ask_dispatcher(info)


def _ask_dispatcher(info: DispatchInput) -> DispatchPlan:
    nominated = info.workload.status.nominated_cluster_names
    if info.settings.dispatcher is None:
        return _dispatch(info, None, nominated, is_gated=True)
    choice = find_condition(info.workload.status.conditions, CLUSTER_CHOICE)
    nomination = info.settings.dispatcher(
        NominationInput(
            workload=info.workload,
            clusters=info.clusters or (),
            connected=frozenset(info.remotes),
            nominated=nominated,
            round_started=None if choice is None else c.transition_time(choice),
            now=info.now,
            estimates=info.estimates,
        )
    )
    plan = _dispatch(info, nomination.clusters, nomination.clusters, is_gated=True)
    plan = replace(plan, wake_at=nomination.wake_at)
    is_left_out = not nomination.clusters and (choice is None or choice.message != nomination.explanation)
    if not nomination.explanation or (plan.status is None and not is_left_out):
        return plan
    name = info.settings.dispatcher_name.rpartition("/")[2].removeprefix("multikueue-dispatcher-")
    reason = "".join(part.capitalize() for part in name.split("-"))
    choice = c.new_condition(CLUSTER_CHOICE, "True", reason, nomination.explanation, info.now)
    status = plan.status or info.workload.status
    conditions = (*c.without_condition(status.conditions, CLUSTER_CHOICE), choice)
    return replace(plan, status=replace(status, conditions=conditions))


def _dispatch(
    info: DispatchInput, stored: tuple[str, ...] | None, clusters: tuple[str, ...], *, is_gated: bool
) -> DispatchPlan:
    """Return the plan with copies in ``clusters`` only; ``stored`` are nominated, None: as they are."""
    status = info.workload.status
    if stored is not None and set(stored) != set(status.nominated_cluster_names):
        status = replace(status, nominated_cluster_names=stored)
    gated = is_gated and info.settings.orchestrates_preemption
    creations = [
        CreateCopy(name, gated)
        for name in _in_order(info)
        if name in clusters and info.remotes[name].copy is None and not info.remotes[name].is_busy
    ]
    others = _removals(info, [name for name in info.remotes if name not in clusters])
    return DispatchPlan(status=_changed(info, status), actions=(*creations, *others))


def _retry(
    info: DispatchInput, check: AdmissionCheckState, message: str, cluster: str, reason: str
) -> DispatchPlan:
    """Make the check Retry, which evicts the workload and makes it pending again."""
    status = _with_state(info, check, "Retry", message)
    text = f'{message}, Previously: "{check.state}"'
    event = Event("Warning", EVENT, text)
    return DispatchPlan(status=status, events=(event,), evicted_in=cluster, eviction=reason)


def _with_state(info: DispatchInput, check: AdmissionCheckState, state: str, message: str) -> WorkloadStatus:
    text = c.truncate_message(f'{message}, Previously: "{check.state}"')
    assert state in ("Retry", "Rejected"), state
    return _with_check(info, replace(check, state=state, message=text))


def _with_check(info: DispatchInput, new: AdmissionCheckState) -> WorkloadStatus:
    """Return the status with the state of the check, of which the time changes also with the message."""
    stamped = replace(new, last_transition_time=at_epoch(info.now))
    status = info.workload.status
    checks: tuple[AdmissionCheckState, ...] = tuple(
        stamped if check.name == new.name else check for check in status.admission_checks
    )
    return replace(status, admission_checks=checks)
