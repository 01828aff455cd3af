"""The status that an admission decision gives to its workload."""

from typing import assert_never

from msgspec.structs import replace

from quorate.api.configuration import Configuration
from quorate.api.kueue import Workload, WorkloadStatus
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
            return _with_pods_ready(workload, admit_status(workload, decision, now), now, configuration)
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


def _with_pods_ready(
    workload: Workload, status: WorkloadStatus | None, now: float, configuration: Configuration
) -> WorkloadStatus | None:
    """Add PodsReady=False to the first status of a workload, which saves a write.

    A workload without a job has no such condition: it is that of the pods of the job.
    """
    if status is None or configuration.wait_for_pods_ready is None or workload.status.conditions:
        return status
    if not workload.metadata.owner_references:
        return status
    waiting = pods_ready_condition(workload, False, now)
    assert waiting is not None, f"{workload.metadata.key} has no conditions, so none of PodsReady"
    return replace(status, conditions=with_conditions(status.conditions, waiting))
