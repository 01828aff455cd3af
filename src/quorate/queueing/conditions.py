"""The conditions of a Workload: their types, the reasons other rules look at, and what they say together."""

from collections.abc import Iterable, Sequence
from typing import Final, assert_never

from quorate.api.configuration.feature_gates import Gates
from quorate.api.kueue import Workload
from quorate.api.meta import (
    Condition,
    ConditionStatus,
    at_epoch,
    epoch,
    find_condition,
    is_true,
    with_condition,
)
from quorate.queueing import inadmissible_reasons as why

QUOTA_RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
PODS_READY: Final = "PodsReady"
EVICTED: Final = "Evicted"
PREEMPTED: Final = "Preempted"
REQUEUED: Final = "Requeued"
FINISHED: Final = "Finished"
DEACTIVATION_TARGET: Final = "DeactivationTarget"
BLOCKED_ON_PREEMPTION_GATES: Final = "BlockedOnPreemptionGates"

# Reasons of QuotaReserved=False
ON_HOLD: Final = "OnHold"
ADMISSION_GATED: Final = "AdmissionGated"

# Reasons of Evicted
PODS_READY_TIMEOUT: Final = "PodsReadyTimeout"
ADMISSION_CHECK: Final = "AdmissionCheck"
NODE_FAILURES: Final = "NodeFailures"
CLUSTER_QUEUE_STOPPED: Final = "ClusterQueueStopped"
LOCAL_QUEUE_STOPPED: Final = "LocalQueueStopped"
DEACTIVATED: Final = "Deactivated"  # alone (by the user) or as a prefix of DeactivatedDueTo<cause>

# Reasons of DeactivationTarget
REQUEUING_LIMIT_EXCEEDED: Final = "RequeuingLimitExceeded"
MAXIMUM_EXECUTION_TIME_EXCEEDED: Final = "MaximumExecutionTimeExceeded"

_MESSAGE_BYTES: Final = 32 * 1024  # the API refuses longer ones


def new_condition(
    type_: str,
    status: ConditionStatus,
    reason: str,
    message: str,
    now: float,
    generation: int = 0,
) -> Condition:
    return Condition(
        type=type_,
        status=status,
        reason=reason,
        message=truncate_message(message),
        last_transition_time=at_epoch(now),
        observed_generation=generation,
    )


def truncate_message(message: str) -> str:
    """The message, or as much of the beginning of it as the API takes."""
    encoded = message.encode()
    return message if len(encoded) <= _MESSAGE_BYTES else encoded[:_MESSAGE_BYTES].decode(errors="ignore")


def with_conditions(conditions: Iterable[Condition], *new: Condition) -> tuple[Condition, ...]:
    """``conditions`` with each of ``new`` in the place of the one of its type, or appended."""
    result = tuple(conditions)
    for one in new:
        result = with_condition(result, one)
    return result


def without_condition(conditions: Iterable[Condition], type_: str) -> tuple[Condition, ...]:
    return tuple(one for one in conditions if one.type != type_)


def is_unchanged(old: Condition | None, new: Condition) -> bool:
    """Whether writing ``new`` over ``old`` would tell nobody anything."""
    return old is not None and (old.status, old.reason, old.message) == (new.status, new.reason, new.message)


def transition_time(found: Condition) -> float:
    """When the condition took its present status, epoch seconds; 0.0 where it does not say.

    The API demands that it says, but not where it has no schema: then it has been so for ever.
    """
    return 0.0 if found.last_transition_time is None else epoch(found.last_transition_time)


def created_at(workload: Workload) -> float:
    created = workload.metadata.creation_timestamp
    assert created is not None, f"workload {workload.metadata.key} was never stored"
    return epoch(created)


def has_quota_reservation(workload: Workload) -> bool:
    return is_true(workload.status.conditions, QUOTA_RESERVED)


def is_admitted(workload: Workload) -> bool:
    return is_true(workload.status.conditions, ADMITTED)


def is_finished(workload: Workload) -> bool:
    return is_true(workload.status.conditions, FINISHED)


def is_evicted(workload: Workload) -> bool:
    return is_true(workload.status.conditions, EVICTED)


def is_preempted(workload: Workload) -> bool:
    """Whether it is being evicted for another workload."""
    evicted = find_condition(workload.status.conditions, EVICTED)
    return evicted is not None and (evicted.status, evicted.reason) == ("True", "Preempted")


def queued_since(workload: Workload) -> float:
    """When the present wait began: creation, or the last time the workload was requeued."""
    requeued = find_condition(workload.status.conditions, REQUEUED)
    if requeued is not None and requeued.status == "True" and requeued.last_transition_time is not None:
        return transition_time(requeued)
    return created_at(workload)


def requeue_at(workload: Workload) -> float | None:
    """The end of the backoff, epoch seconds; None when there is none."""
    state = workload.status.requeue_state
    return epoch(state.requeue_at) if state is not None and state.requeue_at is not None else None


def is_backing_off(workload: Workload, now: float) -> bool:
    """Whether a backoff or a stop keeps the workload from being tried, whatever happens in its queue."""
    requeued = find_condition(workload.status.conditions, REQUEUED)
    if requeued is not None and requeued.status == "False":
        return True
    until = requeue_at(workload)
    return until is not None and until > now


WAITING_FOR_QUOTA: Final = "WaitingForQuota"
NO_MATCHING_FLAVOR: Final = "NoMatchingFlavor"
EXCEEDS_MAX_QUOTA: Final = "ExceedsMaxQuota"
WAITING_FOR_PREEMPTED: Final = "WaitingForPreemptedWorkloads"
PENDING_EVALUATION: Final = "PendingEvaluation"
WAITING_FOR_PODS_READY: Final = "WaitingForPodsReady"
MISCONFIGURED: Final = "Misconfigured"
SUSPENDED: Final = "Suspended"
NO_RESERVATION: Final = "NoReservation"

_COARSE: Final = {
    WAITING_FOR_QUOTA: "Pending",
    NO_MATCHING_FLAVOR: "Pending",
    EXCEEDS_MAX_QUOTA: "Pending",
    WAITING_FOR_PREEMPTED: "Pending",
    PENDING_EVALUATION: "Pending",
    WAITING_FOR_PODS_READY: "Waiting",
    MISCONFIGURED: "Inadmissible",
    SUSPENDED: "Inadmissible",
}
CYCLE_REASONS: Final = frozenset(
    {
        WAITING_FOR_QUOTA,
        NO_MATCHING_FLAVOR,
        EXCEEDS_MAX_QUOTA,
        WAITING_FOR_PREEMPTED,
        WAITING_FOR_PODS_READY,
    }
)  # reasons that stand until the next cycle says something else
# How much it would take to help, most first.
_SEVERITY: Final = (NO_MATCHING_FLAVOR, EXCEEDS_MAX_QUOTA, WAITING_FOR_QUOTA)


def shown_reason(reason: str, gates: Gates) -> str:
    """The granular ``reason`` in the vocabulary that is switched on; others are the same in both."""
    return reason if gates.unadmitted_workloads_observability else _COARSE.get(reason, reason)


def granular_reason(reasons: Sequence[why.InadmissibleReason]) -> str:
    """The one granular reason for all of ``reasons``.

    What concerns the whole workload goes first.  Else each pod set is as far from fitting as the best of its
    flavors leaves it, and the worst pod set speaks.  A resource that no flavor covers is beyond any of them.
    """
    for cause in reasons:
        if not isinstance(cause, why.PodSetReason):
            return _of_workload(cause)
    by_pod_set: dict[str, list[str]] = {}
    for cause in reasons:
        assert isinstance(cause, why.PodSetReason), f"{cause} concerns no pod set"
        if isinstance(cause, why.ResourceUncovered):
            return NO_MATCHING_FLAVOR
        by_pod_set.setdefault(cause.pod_set, []).append(_of_flavor(cause))
    best = [max(reasons, key=_SEVERITY.index) for reasons in by_pod_set.values()]
    return min(best, key=_SEVERITY.index, default=PENDING_EVALUATION)


def _of_flavor(cause: why.PodSetReason) -> str:
    match cause:
        case why.QuotaShort():
            return WAITING_FOR_QUOTA
        case why.QuotaExceeded():
            return EXCEEDS_MAX_QUOTA
        case why.ResourceUncovered() | why.FlavorMissing():
            return NO_MATCHING_FLAVOR
        case why.TaintUntolerated() | why.AffinityMismatched():
            return NO_MATCHING_FLAVOR
    assert_never(cause)


def _of_workload(cause: why.WorkloadReason) -> str:
    match cause:
        case why.QueueInactive():
            return SUSPENDED
        case (
            why.QueueMissing()
            | why.NamespaceMismatched()
            | why.RequestsAboveLimits()
            | why.LimitRangeViolated()
        ):
            return MISCONFIGURED
        case why.NoLongerFits() | why.TargetsOverlap():
            return WAITING_FOR_QUOTA
        case why.AwaitingPreemption():
            return WAITING_FOR_PREEMPTED
        case why.AwaitingPodsReady():
            return WAITING_FOR_PODS_READY
        case why.ChecksFailed() | why.BackingOff():
            return PENDING_EVALUATION
    assert_never(cause)


def not_reserved(workload: Workload, reason: str, message: str, now: float, gates: Gates) -> Condition:
    """No quota, for the granular ``reason``."""
    return new_condition(
        QUOTA_RESERVED, "False", shown_reason(reason, gates), message, now, workload.metadata.generation
    )


def not_admitted(workload: Workload, now: float, gates: Gates, *, reserving: bool) -> Condition:
    """Not admitted, for want of a reservation or of checks that are ready."""
    all_ready = all(check.state == "Ready" for check in workload.status.admission_checks)
    granular = gates.unadmitted_workloads_observability
    if reserving:
        reason = "UnsatisfiedAdmissionChecks" if granular else "UnsatisfiedChecks"
        text = "The workload has not all checks ready"
    elif all_ready or granular:
        reason, text = NO_RESERVATION, "The workload has no reservation"
    else:
        reason = "NoReservationUnsatisfiedChecks"
        text = "The workload has no reservation and not all checks ready"
    return new_condition(ADMITTED, "False", reason, text, now, workload.metadata.generation)


def has_condition(workload: Workload, new: Condition) -> bool:
    """Whether the workload's status says already what ``new`` does."""
    return is_unchanged(find_condition(workload.status.conditions, new.type), new)
