"""What to do about pods and the one workload that stands for them: the table for single pods and groups.

The rows are those of Kueue's generic job framework, the first that finds something to do makes the plan.
What differs from other jobs: a pod that was started can only be stopped for good, by deleting it.
"""

from dataclasses import replace

import msgspec

from quorate.api.configuration.feature_gates import Gates
from quorate.api.kueue import ReclaimablePod, Workload
from quorate.api.meta import Condition, find_condition
from quorate.controllers.finalizers import released
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.jobframework.podset_info import InjectionConflict
from quorate.controllers.jobframework.starting import FlavorNotSeen, NotAdmitted, pod_set_infos
from quorate.controllers.jobframework.sync_workload import owed
from quorate.controllers.pods.plan import IDLE, Catalogue, GatesOff, PodPlan, PodRules, dropped, let_go, told
from quorate.controllers.pods.queued_pod import QueuedPod, is_deleted, is_gated, is_suspended
from quorate.controllers.pods.start_stop import start, stop
from quorate.controllers.pods.units import PodGroup, Unit
from quorate.kube.resources import WORKLOADS
from quorate.kube.writes import Patch, Write, status_patch
from quorate.queueing import conditions as c
from quorate.queueing.lifecycle.statuses import finish_status, release_status
from quorate.queueing.lifecycle.timeouts import job_deletion_time
from quorate.queueing.pods_ready import pods_ready_condition

WAITING_FOR_REPLACEMENT = "WaitingForReplacementPods"


def decide_with_workload(
    unit: Unit, workload: Workload, catalogue: Catalogue, rules: PodRules, now: float
) -> PodPlan:
    if c.is_finished(workload):
        return PodPlan(let_go(unit.pods), released(WORKLOADS, workload.metadata))
    if workload.metadata.deletion_timestamp is not None:
        return _given_up(unit, workload, now)
    changes = _synced(unit, workload, catalogue, rules.gates)
    if changes.workload:
        return changes
    plan = _followed(unit, workload, catalogue, rules, now)
    return replace(plan, lacks=plan.lacks or changes.lacks)


def _followed(unit: Unit, workload: Workload, catalogue: Catalogue, rules: PodRules, now: float) -> PodPlan:
    """What follows from how the pods fare and from what became of their workload."""
    if unit.outcome is not None:
        return _finished(unit.outcome, workload, now)
    if explain_group := _replacement(unit, workload, now) or _readiness(unit, workload, rules, now):
        return PodPlan(workload=explain_group)
    plan = _next_step(unit, workload, catalogue, rules, now)
    if plan == IDLE and rules.gates.reclaimable_pods and (reclaimed := _reclaimed(unit, workload)):
        return PodPlan(workload=reclaimed, patient=True)
    return plan


def stopped(unit: Unit, reason: str, message: str, now: float) -> PodPlan:
    """End every pod that runs or could; those that are gated or have ended are no matter."""
    ending = [pod for pod in unit.pods if not is_deleted(pod) and not is_suspended(pod)]
    return _ended(ending, reason, message, now)


def _ended(pods: list[QueuedPod], reason: str, message: str, now: float) -> PodPlan:
    return PodPlan(
        pods=tuple(stop(pod, reason, message, now) for pod in pods),
        told=tuple(told(pod, "Stopped", message) for pod in pods),
    )


def _given_up(unit: Unit, workload: Workload, now: float) -> PodPlan:
    """Without its workload a pod may not stay, not even gated or done; nobody waits for its replacement."""
    ending = [pod for pod in unit.pods if not is_deleted(pod)]
    if ending:
        return _ended(ending, "WorkloadDeleted", "Workload is deleted", now)
    return PodPlan(let_go(unit.pods), released(WORKLOADS, workload.metadata))


def _finished(outcome: Outcome, workload: Workload, now: float) -> PodPlan:
    reason = "Succeeded" if outcome.success else "Failed"
    status = finish_status(workload, reason, outcome.message or f"Job {reason.lower()}", now)
    return PodPlan(workload=status_patch(WORKLOADS, workload, status))


def _replacement(unit: Unit, workload: Workload, now: float) -> tuple[Patch, ...]:
    """Say whether pods of the group are missing: a group that is not whole is not queued."""
    old = find_condition(workload.status.conditions, WAITING_FOR_REPLACEMENT)
    if not unit.absent and (old is None or old.status == "False"):
        return ()
    if unit.absent:
        evicted = find_condition(workload.status.conditions, c.EVICTED)
        if evicted is not None and evicted.status == "True":
            reason, message = evicted.reason, evicted.message
        elif old is not None and old.status == "True":
            return ()
        else:
            reason, message = "PodsFailed", "Some Failed pods need replacement"
    else:
        reason, message = "PodsReady", "No pods need replacement"
    new = c.new_condition(
        WAITING_FOR_REPLACEMENT,
        "True" if unit.absent else "False",
        reason,
        message,
        now,
        workload.metadata.generation,
    )
    if c.is_unchanged(old, new):
        return ()
    return _with_condition(workload, new)


def _readiness(unit: Unit, workload: Workload, rules: PodRules, now: float) -> tuple[Patch, ...]:
    if not rules.wait_for_pods_ready or not workload.status.conditions:
        return ()  # absent means not ready; whoever admits it or makes it wait says so in the same write
    ready = pods_ready_condition(workload, unit.ready, now)
    return () if ready is None else _with_condition(workload, ready)


def _with_condition(workload: Workload, new: Condition) -> tuple[Patch, ...]:
    status = workload.status
    return status_patch(
        WORKLOADS,
        workload,
        msgspec.structs.replace(status, conditions=c.with_conditions(status.conditions, new)),
    )


def _next_step(unit: Unit, workload: Workload, catalogue: Catalogue, rules: PodRules, now: float) -> PodPlan:
    if c.is_evicted(workload):
        evicted = _evicted(unit, workload, rules.gates, now)
        if evicted != IDLE or c.has_quota_reservation(workload):
            return evicted
    goes_at = job_deletion_time(workload, rules.deactivated_kept_s)
    if goes_at is not None and not _is_serving(unit):
        return PodPlan(wake_at=goes_at) if now < goes_at else _expired(unit)
    if c.is_admitted(workload):
        return _started(unit, workload, catalogue, rules.gates, now)
    if not unit.suspended:
        return stopped(unit, "NotAdmitted", "Not admitted by cluster queue", now)
    return IDLE


def _is_serving(unit: Unit) -> bool:
    """Whether its pods are made anew as often as they go."""
    return isinstance(unit, PodGroup) and unit.serving


def _expired(unit: Unit) -> PodPlan:
    events = [
        told(pod, "Deleted", "Deleted job due to elapsed retention")
        for pod in unit.pods
        if not is_deleted(pod)
    ]
    return PodPlan(pods=dropped(unit.pods), told=tuple(events))


def _evicted(unit: Unit, workload: Workload, gates: Gates, now: float) -> PodPlan:
    """Stop the pods; once none holds capacity any more, give the quota back.

    That of a single pod goes with the stop: deleted, it is no longer asked what became of it.  A group is
    told first which of its pods are missing.
    """
    evicted = find_condition(workload.status.conditions, c.EVICTED)
    assert evicted is not None, f"{workload.metadata.key} is evicted without saying why"
    stop_now = stopped(unit, f"WorkloadEvictedDueTo{evicted.reason}", evicted.message, now)
    if unit.active(now) or (stop_now != IDLE and isinstance(unit, PodGroup)):
        return stop_now
    status = release_status(workload, now, gates)
    if status is None:
        return stop_now
    fresh = msgspec.structs.replace(
        status, reclaimable_pods=_done(unit, workload) if gates.reclaimable_pods else ()
    )
    return replace(stop_now, workload=status_patch(WORKLOADS, workload, fresh))


def _reclaimed(unit: Unit, workload: Workload) -> tuple[Patch, ...]:
    done = _done(unit, workload)
    return status_patch(WORKLOADS, workload, msgspec.structs.replace(workload.status, reclaimable_pods=done))


def _done(unit: Unit, workload: Workload) -> tuple[ReclaimablePod, ...]:
    sizes = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    return tuple(
        ReclaimablePod(name=each.name, count=min(each.count, sizes[each.name]))
        for each in unit.reclaimable()
        if each.name in sizes
    )


def _started(unit: Unit, workload: Workload, catalogue: Catalogue, gates: Gates, now: float) -> PodPlan:
    gated = [pod for pod in unit.pods if is_gated(pod) and not is_deleted(pod)]
    if not gated:
        return IDLE
    infos = pod_set_infos(workload, catalogue.flavors, with_queue_labels=gates.assign_queue_labels_for_pods)
    if isinstance(infos, FlavorNotSeen | NotAdmitted):
        return PodPlan(lacks=str(infos))
    if isinstance(infos, InjectionConflict):
        return _cannot_start(workload, infos.message, now)
    by_role = {info.name: info for info in infos}
    writes: list[tuple[Write, ...]] = []
    for pod in gated:
        role = unit.role_of(pod)
        if role not in by_role:
            return _cannot_start(workload, f"the workload has no pod set {role!r}, the role of a pod", now)
        patch = start(pod, by_role[role])
        if isinstance(patch, InjectionConflict):
            return _cannot_start(workload, patch.message, now)
        writes.append((patch,))
    admission = workload.status.admission
    assert admission is not None, f"{workload.metadata.key} has pod sets to start without an admission"
    message = f"Admitted by clusterQueue {admission.cluster_queue}"
    admitted = find_condition(workload.status.conditions, c.ADMITTED)
    assert admitted is not None, f"{workload.metadata.key} starts without being admitted"
    is_group = isinstance(unit, PodGroup)
    return PodPlan(
        tuple(writes),
        told=tuple(told(pod, "Started", message) for pod in gated),
        gates_off=GatesOff(len(gated), admission.cluster_queue, is_group, c.transition_time(admitted)),
    )


def _cannot_start(workload: Workload, why: str, now: float) -> PodPlan:
    return PodPlan(
        workload=status_patch(WORKLOADS, workload, finish_status(workload, "FailedToStart", why, now))
    )


def _synced(unit: Unit, workload: Workload, catalogue: Catalogue, gates: Gates) -> PodPlan:
    """The workload follows its pods to another queue or priority; that of a set follows the set."""
    if _is_serving(unit):
        return IDLE
    first = unit.pods[0]
    changes = owed(
        first.metadata,
        workload,
        catalogue.workload_classes,
        suspended=unit.suspended,
        gated=gates.admission_gated_by,
    )
    if not changes.body:
        return PodPlan(lacks=changes.lacks)
    metadata = workload.metadata
    patch = Patch(WORKLOADS, metadata.key, metadata.resource_version, changes.body)
    event = told(first, "UpdatedWorkload", f"Updated Workload: {metadata.key}")
    return PodPlan(workload=(patch,), told=(event,), lacks=changes.lacks)
