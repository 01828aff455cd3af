"""The status of a Workload after a decision of the admission cycle, or after its job has stopped.

Each function returns the whole new status, so that one write applies it; None if nothing changes.
"""

from datetime import datetime
from typing import Final

from msgspec.structs import replace

from quorate.api.configuration.feature_gates import Gates
from quorate.api.kueue import (
    PODS_RUN_AGAIN,
    AdmissionCheckState,
    EvictionCount,
    PreemptionGateState,
    SchedulingStats,
    Workload,
    WorkloadStatus,
)
from quorate.api.meta import Condition, at_epoch, find_condition, is_true
from quorate.queueing import conditions as c
from quorate.queueing.decisions import AssignTopology, Hold, Preempt, Reserve
from quorate.queueing.inadmissible_reasons import DevicesUncounted, PreemptionGated, workload_reason_text
from quorate.queueing.planning.announced_starts import planned_start_conditions
from quorate.queueing.typed_reasons import waiting_condition

_ENDED_BY_ADMISSION: Final = frozenset({c.EVICTED, c.PREEMPTED, c.BLOCKED_ON_PREEMPTION_GATES})
_REQUEUED_AT_ONCE: Final = frozenset({"Preempted", c.NODE_FAILURES, c.RESERVED_WINDOW, c.BOUND_OVERRUN})
_RAN_TOO_LONG: Final = f"{c.DEACTIVATED}DueTo{c.MAXIMUM_EXECUTION_TIME_EXCEEDED}"


def admit_status(workload: Workload, reserve: Reserve, now: float) -> WorkloadStatus:
    """Return the status with quota reserved, admitted too if no check is outstanding, and not evicted."""
    generation = workload.metadata.generation
    reserved = c.new_condition(
        c.QUOTA_RESERVED,
        "True",
        "QuotaReserved",
        f"Quota reserved in ClusterQueue {reserve.cluster_queue}",
        now,
        generation,
    )
    new = [reserved]
    if (again := c.restarted(workload, now)) is not None:
        new.append(again)
    if reserve.admitted:
        new.append(admitted_condition(workload, now))
    for old in workload.status.conditions:
        if old.status == "True" and old.type in _ENDED_BY_ADMISSION:
            message = f"Previously: {old.message}"
            new.append(c.new_condition(old.type, "False", "QuotaReserved", message, now, generation))
    if reserve.unplaced:
        text = f"admitted by quota, but {'; '.join(reason.text for reason in reserve.unplaced)}"
        new.append(c.new_condition(c.NODE_FIT, "False", "InsufficientNodes", text, now, generation))
    return replace(
        workload.status,
        conditions=c.with_conditions(without_former_pods(workload), *new),
        admission=reserve.admission,
        admission_checks=synced_checks(workload.status.admission_checks, reserve.checks, now),
        cluster_name=reserve.cluster or workload.status.cluster_name,
        accumulated_past_execution_time_seconds=(
            workload.status.accumulated_past_execution_time_seconds
            if reserve.executed_s is None
            else reserve.executed_s
        ),
        resource_requests=(),
    )


def synced_checks(
    stored: tuple[AdmissionCheckState, ...], required: tuple[str, ...], now: float
) -> tuple[AdmissionCheckState, ...]:
    """Return the states of the required checks; a check without a state is Pending."""
    if {check.name for check in stored} == set(required):
        return stored
    by_name = {check.name: check for check in stored}
    return tuple(
        by_name.get(name)
        or AdmissionCheckState(name=name, state="Pending", last_transition_time=at_epoch(now))
        for name in sorted(required)
    )


def without_former_pods(workload: Workload) -> tuple[Condition, ...]:
    """Return the conditions without conditions about the pods of an earlier admission."""
    conditions = c.without_condition(workload.status.conditions, c.NODE_FIT)
    return c.without_condition(conditions, PODS_RUN_AGAIN)


def admitted_condition(workload: Workload, now: float) -> Condition:
    generation = workload.metadata.generation
    return c.new_condition(c.ADMITTED, "True", "Admitted", "The workload is admitted", now, generation)


def hold_status(workload: Workload, hold: Hold, now: float, gates: Gates) -> WorkloadStatus | None:
    """Return the status of a workload kept pending; None if it says so already."""
    old = find_condition(workload.status.conditions, c.QUOTA_RESERVED)
    reason = hold_reason(hold, gates)
    new = c.new_condition(c.QUOTA_RESERVED, "False", reason, hold.message, now, workload.metadata.generation)
    planned = planned_start_conditions(workload, hold.announced, now)
    kinds = {type(reason) for reason in hold.reasons}
    if PreemptionGated in kinds:
        planned = (*planned, *_blocked_on_gates(workload, now))
    if DevicesUncounted in kinds:
        planned = (*planned, *_inadmissible(workload, hold, now))
    if not planned and c.is_unchanged(old, new) and workload.status.resource_requests == hold.requests:
        return None
    waiting = waiting_condition(hold.reasons, now, workload.metadata.generation, hold.groups)
    admitted = _shown_not_admitted(workload, now, gates)
    return replace(
        workload.status,
        conditions=c.with_conditions(workload.status.conditions, new, *admitted, *waiting, *planned),
        resource_requests=hold.requests,
    )


def _inadmissible(workload: Workload, hold: Hold, now: float) -> tuple[Condition, ...]:
    """Return Requeued=False, because devices cannot be counted, if the workload does not say so yet."""
    generation = workload.metadata.generation
    requeued = c.new_condition(c.REQUEUED, "False", c.INADMISSIBLE, hold.message, now, generation)
    return () if c.has_condition(workload, requeued) else (requeued,)


def _blocked_on_gates(workload: Workload, now: float) -> tuple[Condition, ...]:
    """Return the condition by which the owner of a preemption gate sees that the workload needs it open."""
    generation = workload.metadata.generation
    text = workload_reason_text(PreemptionGated(0))
    blocked = c.new_condition(c.BLOCKED_ON_PREEMPTION_GATES, "True", "PreemptionGated", text, now, generation)
    return () if c.has_condition(workload, blocked) else (blocked,)


def _shown_not_admitted(workload: Workload, now: float, gates: Gates) -> tuple[Condition, ...]:
    """Return Admitted=False if the gates show it and it is not there: it would be the next write."""
    if not gates.unadmitted_workloads_observability:
        return ()
    new = c.not_admitted(workload, now, gates, reserving=False)
    return () if c.has_condition(workload, new) else (new,)


def hold_reason(hold: Hold, gates: Gates) -> str:
    if not gates.unadmitted_workloads_observability:
        return hold.condition_reason
    return c.granular_reason(hold.reasons, hold.groups)


def preempt_status(workload: Workload, preempt: Preempt, now: float) -> WorkloadStatus | None:
    """Return the status of a preempted workload; None if it is being evicted already."""
    if c.is_evicted(workload):
        return None
    evicted = evict_status(workload, "Preempted", preempt.message, now, counted_as=("Preempted", ""))
    preempted = c.new_condition(c.PREEMPTED, "True", preempt.reason, preempt.message, now)
    return replace(evicted, conditions=c.with_conditions(evicted.conditions, preempted))


def placed_status(workload: Workload, decision: AssignTopology) -> WorkloadStatus:
    """Return the status with the places of a second pass, of which no host has failed."""
    return replace(workload.status, admission=decision.admission, unhealthy_nodes=())


def unplaced_status(workload: Workload, now: float, gates: Gates) -> WorkloadStatus | None:
    """Return the status of a workload that waits for its first places; None if it says so already."""
    if c.is_admitted(workload) or not c.awaits_places(workload.status.admission):
        return None
    waiting = c.not_admitted(workload, now, gates, reserving=True)
    if c.has_condition(workload, waiting):
        return None
    return replace(workload.status, conditions=c.with_conditions(workload.status.conditions, waiting))


def evict_status(
    workload: Workload, reason: str, message: str, now: float, *, counted_as: tuple[str, str]
) -> WorkloadStatus:
    """Return the status of an evicted workload; its job must stop.

    Admission checks are reset.  The quota stays reserved until ``release_status``.  ``counted_as`` is the
    reason and underlying cause by which the eviction is counted.
    """
    status, generation = workload.status, workload.metadata.generation
    new = [c.new_condition(c.EVICTED, "True", reason, message, now, generation)]
    if is_true(status.conditions, c.BLOCKED_ON_PREEMPTION_GATES):
        new.append(c.new_condition(c.BLOCKED_ON_PREEMPTION_GATES, "False", reason, message, now, generation))
    return replace(
        status,
        conditions=c.with_conditions(status.conditions, *new),
        admission_checks=reset_admission_checks(workload, now),
        scheduling_stats=_counted(status.scheduling_stats, *counted_as),
        cluster_name="",
        nominated_cluster_names=(),
        unhealthy_nodes=(),
        preemption_gates=tuple(_closed(gate, at_epoch(now)) for gate in status.preemption_gates),
    )


def _closed(gate: PreemptionGateState, now: datetime) -> PreemptionGateState:
    return gate if gate.position == "Closed" else replace(gate, position="Closed", last_transition_time=now)


def reset_admission_checks(workload: Workload, now: float) -> tuple[AdmissionCheckState, ...]:
    """Return all checks as Pending, for the next reservation."""
    return tuple(_reset_check(check, at_epoch(now)) for check in workload.status.admission_checks)


def _reset_check(check: AdmissionCheckState, now: datetime, cause: str = "eviction") -> AdmissionCheckState:
    if check.state == "Pending":
        return check
    retries = (check.retry_count or 0) + 1 if check.state == "Retry" else check.retry_count
    if check.state == "Rejected":
        retries = None  # a workload that is activated again has all its retries
    return replace(
        check,
        state="Pending",
        last_transition_time=now,
        message=f"Reset to Pending after {cause}. Previously: {check.state}",
        retry_count=retries,
        pod_set_updates=(),
    )


def _counted(stats: SchedulingStats | None, reason: str, cause: str) -> SchedulingStats:
    evictions = list(stats.evictions) if stats is not None else []
    for index, one in enumerate(evictions):
        if (one.reason, one.underlying_cause) == (reason, cause):
            evictions[index] = replace(one, count=one.count + 1)
            return SchedulingStats(evictions=tuple(evictions))
    evictions.append(EvictionCount(reason=reason, underlying_cause=cause, count=1))
    return SchedulingStats(evictions=tuple(evictions))


def refused_status(workload: Workload, reason: str, message: str, now: float) -> WorkloadStatus:
    """Return the status of a workload with a job that the API server keeps from being changed."""
    refused = c.new_condition(c.JOB_UPDATED, "False", reason, message, now, workload.metadata.generation)
    return replace(workload.status, conditions=c.with_conditions(workload.status.conditions, refused))


def release_status(workload: Workload, now: float, gates: Gates) -> WorkloadStatus | None:
    """Return the status of an evicted workload with a stopped job: without quota reservation.

    None if there is no reservation.  Workloads that were preempted, or evicted for failed nodes, a window or
    a bound that they overran, are requeued at once; other workloads when a lifecycle rule sets Requeued to
    True.  The workload of a single pod that was admitted is never requeued, because its pod has ended.
    """
    evicted = find_condition(workload.status.conditions, c.EVICTED)
    if evicted is None or evicted.status != "True" or not c.has_quota_reservation(workload):
        return None
    status = unset_quota_reservation(workload, c.PENDING_EVALUATION, evicted.message, now, gates)
    has_run = gates.skip_reassignment_for_pod_owned_workloads and c.is_admitted(workload)
    is_final = has_run and c.is_of_single_pod(workload)
    requeued = c.new_condition(
        c.REQUEUED,
        "True" if evicted.reason in _REQUEUED_AT_ONCE and not is_final else "False",
        evicted.reason,
        evicted.message,
        now,
        workload.metadata.generation,
    )
    return replace(status, conditions=c.with_conditions(status.conditions, requeued))


def unset_quota_reservation(
    workload: Workload, reason: str, message: str, now: float, gates: Gates
) -> WorkloadStatus:
    """Return the status without reservation, for the granular ``reason``; not admitted and not ready."""
    unreserved = c.not_reserved(workload, reason, message, now, gates)
    return clear_reservation(workload, now, gates, unreserved)


def clear_reservation(workload: Workload, now: float, gates: Gates, *conditions: Condition) -> WorkloadStatus:
    """Return the status without everything that depends on the reservation, with ``conditions`` added.

    A check that is Ready is so for the reserved flavors and numbers of pods only.
    """
    status, generation = workload.status, workload.metadata.generation
    new = list(conditions)
    if gates.unadmitted_workloads_observability or c.is_admitted(workload):
        new.append(c.not_admitted(workload, now, gates, reserving=False))
    past_s = c.executed_s(workload, now)
    evicted = find_condition(status.conditions, c.EVICTED)
    if evicted is not None and evicted.reason == _RAN_TOO_LONG:
        past_s = None  # a workload that is activated again may run for the whole time
    ready = find_condition(status.conditions, c.PODS_READY)
    if ready is not None and ready.reason != "WaitForStart":
        # Otherwise the next admission, if within the same second, would begin as ready.
        text = "Not all pods are ready or succeeded"
        new.append(c.new_condition(c.PODS_READY, "False", "WaitForStart", text, now, generation))
    return replace(
        status,
        conditions=c.with_conditions(without_former_pods(workload), *new),
        admission=None,
        admission_checks=tuple(
            _reset_check(check, at_epoch(now), "the loss of quota") if check.state == "Ready" else check
            for check in status.admission_checks
        ),
        accumulated_past_execution_time_seconds=past_s,
    )


def finish_status(workload: Workload, reason: str, message: str, now: float) -> WorkloadStatus | None:
    """Return the status of a finished workload; None if it is finished already."""
    if c.is_finished(workload):
        return None
    finished = c.new_condition(c.FINISHED, "True", reason, message, now, workload.metadata.generation)
    return replace(workload.status, conditions=c.with_conditions(workload.status.conditions, finished))
