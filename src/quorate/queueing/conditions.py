"""The conditions of a Workload: their types, the reasons other rules look at, and what they say together."""

from collections.abc import Iterable
from typing import Final

import msgspec

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


def condition(
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
        message=cut(message),
        last_transition_time=at_epoch(now),
        observed_generation=generation,
    )


def cut(message: str) -> str:
    """The message, or as much of the beginning of it as the API takes."""
    encoded = message.encode()
    return message if len(encoded) <= _MESSAGE_BYTES else encoded[:_MESSAGE_BYTES].decode(errors="ignore")


def merged(conditions: Iterable[Condition], *new: Condition) -> tuple[Condition, ...]:
    """``conditions`` with each of ``new`` in the place of the one of its type, or appended."""
    result = tuple(conditions)
    for one in new:
        result = with_condition(result, one)
    return result


def without(conditions: Iterable[Condition], type_: str) -> tuple[Condition, ...]:
    return tuple(one for one in conditions if one.type != type_)


def says_the_same(old: Condition | None, new: Condition) -> bool:
    """Whether writing ``new`` over ``old`` would tell nobody anything."""
    return old is not None and (old.status, old.reason, old.message) == (new.status, new.reason, new.message)


def since(found: Condition) -> float:
    """When the condition took its present status, epoch seconds; 0.0 where it does not say.

    The API demands that it says, but not where it has no schema: then it has been so for ever.
    """
    return 0.0 if found.last_transition_time is None else epoch(found.last_transition_time)


def created_at(workload: Workload) -> float:
    created = workload.metadata.creation_timestamp
    assert created is not None, f"workload {workload.metadata.key} was never stored"
    return epoch(created)


def is_reserving(workload: Workload) -> bool:
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
        return since(requeued)
    return created_at(workload)


def requeue_at(workload: Workload) -> float | None:
    """The end of the backoff, epoch seconds; None when there is none."""
    state = workload.status.requeue_state
    return epoch(state.requeue_at) if state is not None and state.requeue_at is not None else None


def is_parked(workload: Workload, now: float) -> bool:
    """Whether a backoff or a stop keeps the workload from being tried, whatever happens in its queue."""
    requeued = find_condition(workload.status.conditions, REQUEUED)
    if requeued is not None and requeued.status == "False":
        return True
    until = requeue_at(workload)
    return until is not None and until > now


replace = msgspec.structs.replace
