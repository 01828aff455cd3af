"""The status that an admission decision gives to its workload."""

from typing import Final, assert_never

from msgspec.structs import replace

from quorate.api.configuration import Configuration
from quorate.api.kueue import Workload, WorkloadStatus
from quorate.api.meta import is_true
from quorate.queueing import conditions as c
from quorate.queueing.conditions import with_conditions
from quorate.queueing.decisions import (
    AssignTopology,
    Decision,
    Evict,
    Hold,
    Preempt,
    Reserve,
    SecondPassFailed,
)
from quorate.queueing.lifecycle.statuses import (
    admit_status,
    evict_status,
    hold_status,
    placed_status,
    preempt_status,
    unplaced_status,
)
from quorate.queueing.pods_ready import pods_ready_condition


def decided_status(
    workload: Workload, decision: Decision, now: float, configuration: Configuration
) -> WorkloadStatus | None:
    """Return the whole status of ``workload`` after ``decision``; None if it stays as it is.

    ``now`` is in epoch seconds.
    """
    match decision:
        case Reserve():
            reserved = _with_not_admitted(workload, admit_status(workload, decision, now), now, configuration)
            return _with_pods_ready(workload, reserved, now, configuration)
        case Hold():
            status = hold_status(workload, decision, now, configuration.gates)
            return _with_pods_ready(workload, status, now, configuration)
        case Preempt():
            return preempt_status(workload, decision, now)
        case AssignTopology():
            return placed_status(workload, decision)
        case SecondPassFailed():
            return unplaced_status(workload, now, configuration.gates)
        case Evict(reason=reason, message=message):
            return evict_status(workload, reason, message, now, counted_as=(reason, ""))
    assert_never(decision)


def still_applies(decision: Decision, decided_on: Workload, newest: Workload) -> bool:
    """Return True if nothing that ``decision`` rests on has changed since.

    The conditions and counts that only report something do not matter, nor does the end of a backoff.
    """
    return newest is decided_on or _basis(decision, decided_on) == _basis(decision, newest)


_DECISIVE: Final = (
    c.QUOTA_RESERVED,
    c.ADMITTED,
    c.EVICTED,
    c.FINISHED,
    c.DEACTIVATION_TARGET,
    c.BLOCKED_ON_PREEMPTION_GATES,
)


def _basis(decision: Decision, workload: Workload) -> tuple[object, ...]:
    """Return what ``decision`` rests on; an eviction rests on the reservation only."""
    metadata, status = workload.metadata, workload.status
    reservation = (status.admission, *(is_true(status.conditions, type_) for type_ in _DECISIVE))
    if isinstance(decision, Preempt | Evict):
        return reservation
    return (
        *reservation,
        (metadata.labels, metadata.annotations, metadata.deletion_timestamp, workload.spec),
        status.reclaimable_pods,
        status.unhealthy_nodes,
        tuple((check.name, check.state, check.pod_set_updates) for check in status.admission_checks),
    )


def _with_not_admitted(
    workload: Workload, status: WorkloadStatus, now: float, configuration: Configuration
) -> WorkloadStatus:
    """Add Admitted=False to the status of a workload with quota that waits for checks: it saves a write."""
    if is_true(status.conditions, c.ADMITTED) or not configuration.gates.unadmitted_workloads_observability:
        return status
    waiting = c.not_admitted(replace(workload, status=status), now, configuration.gates, reserving=True)
    return replace(status, conditions=with_conditions(status.conditions, waiting))


def _with_pods_ready(
    workload: Workload, status: WorkloadStatus | None, now: float, configuration: Configuration
) -> WorkloadStatus | None:
    """Add PodsReady=False to the first status of a workload, which saves a write.

    A workload without a job has no such condition, which is about the pods of the job.
    """
    if status is None or configuration.wait_for_pods_ready is None or workload.status.conditions:
        return status
    if not workload.metadata.owner_references:
        return status
    waiting = pods_ready_condition(workload, False, now)
    assert waiting is not None, f"{workload.metadata.key} has no conditions, so none of PodsReady"
    return replace(status, conditions=with_conditions(status.conditions, waiting))
