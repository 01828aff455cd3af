"""What runs out for a workload: readiness, the maximum execution time, and how long it is kept.

Each starts at the transition time of a condition, so a restarted controller computes the same moments.
"""

import math
from typing import Final

from msgspec.structs import replace

from quorate.api.kueue import Workload
from quorate.api.meta import find_condition, is_true
from quorate.queueing import conditions as c
from quorate.queueing.conditions import new_condition, with_conditions
from quorate.queueing.lifecycle.transition import Event, Transition, WorkloadContext, evict
from quorate.queueing.pods_ready import (
    Deactivate,
    RunningTimeout,
    TimeoutOverrides,
    effective_timeouts,
    on_timeout,
    running_timeout,
)

_DEACTIVATION_TEXT: Final = {
    c.REQUEUING_LIMIT_EXCEEDED: "exceeding the maximum number of re-queuing retries",
    c.MAXIMUM_EXECUTION_TIME_EXCEEDED: "exceeding the maximum execution time",
}


def apply_retention(case: WorkloadContext) -> Transition:
    """What is left to do for a finished workload: to delete it once it was kept long enough."""
    finished = find_condition(case.workload.status.conditions, c.FINISHED)
    assert finished is not None, f"{case.workload.metadata.key} is not finished"
    keep_s = case.configuration.retention.finished_s
    if keep_s is None or case.workload.metadata.deletion_timestamp is not None:
        return Transition()
    until = c.transition_time(finished) + keep_s
    if case.now < until:
        return Transition(wake_at=until)
    event = Event("Normal", "Deleted", "Deleted finished workload due to elapsed retention")
    return Transition(release=True, delete=True, events=(event,))


def job_deletion_time(workload: Workload, keep_s: float | None) -> float | None:
    """When the job of a workload is deleted that the system deactivated (epoch seconds).

    ``None``: it stays, for ``keep_s`` does not say for how long, or its user deactivated it, who may think
    again.
    """
    evicted = find_condition(workload.status.conditions, c.EVICTED)
    if keep_s is None or workload.spec.active or evicted is None or evicted.status != "True":
        return None
    by_us = evicted.reason.startswith(f"{c.DEACTIVATED}DueTo")
    return c.transition_time(evicted) + keep_s if by_us else None


def check_timeouts(case: WorkloadContext) -> Transition:
    """The readiness clocks and the maximum execution time of a workload that runs."""
    clock = _readiness_clock(case)
    if clock is not None and clock.expires_at <= case.now:
        return _not_ready_in_time(case, clock)
    run_s = _execution_remaining_s(case)
    if run_s is not None and run_s <= 0:
        return _run_out(case)
    moments = [] if clock is None or clock.expires_at == math.inf else [clock.expires_at]
    if run_s is not None:
        moments.append(case.now + run_s)
    return Transition(wake_at=min(moments, default=None))


def _readiness_clock(case: WorkloadContext) -> RunningTimeout | None:
    rules, cluster_queue = case.configuration.wait_for_pods_ready, case.queues.cluster_queue
    if rules is None:
        return None
    overrides = cluster_queue.overrides if cluster_queue is not None else TimeoutOverrides()
    clocks = effective_timeouts(case.workload.metadata.annotations, overrides, rules)
    return running_timeout(case.workload, clocks, case.unplaced_since)


def _not_ready_in_time(case: WorkloadContext, clock: RunningTimeout) -> Transition:
    rules = case.configuration.wait_for_pods_ready
    assert rules is not None, "a readiness clock runs although none is configured"
    verdict = on_timeout(case.workload, clock.phase, rules.requeuing_strategy, case.now, case.jitter)
    if isinstance(verdict, Deactivate):
        return _target(case, c.REQUEUING_LIMIT_EXCEEDED)
    which = "scheduling" if clock.phase == "WaitForScheduling" else "PodsReady"
    message = f"Exceeded the {which} timeout {case.workload.metadata.key}"
    eviction = evict(case.workload, c.PODS_READY_TIMEOUT, message, case.now, cause=clock.phase)
    assert eviction.status is not None, f"{case.workload.metadata.key} is evicted without a status"
    return replace(eviction, status=replace(eviction.status, requeue_state=verdict.state))


def _execution_remaining_s(case: WorkloadContext) -> float | None:
    workload = case.workload
    limit_s = workload.spec.maximum_execution_time_seconds
    admitted = find_condition(workload.status.conditions, c.ADMITTED)
    if (
        limit_s is None
        or admitted is None
        or admitted.status != "True"
        or not workload.spec.active
        or c.is_evicted(workload)
    ):
        return None
    past_s = workload.status.accumulated_past_execution_time_seconds or 0
    return limit_s - past_s - (case.now - c.transition_time(admitted))


def _run_out(case: WorkloadContext) -> Transition:
    if is_true(case.workload.status.conditions, c.DEACTIVATION_TARGET):
        return Transition()
    limit_s = case.workload.spec.maximum_execution_time_seconds
    target = _target(case, c.MAXIMUM_EXECUTION_TIME_EXCEEDED)
    assert target.status is not None, "a target is a status"
    text = f"The maximum execution time ({limit_s}s) exceeded"
    return Transition(
        replace(target.status, accumulated_past_execution_time_seconds=None),
        events=(Event("Warning", "MaximumExecutionTimeExceeded", text),),
    )


def _target(case: WorkloadContext, cause: str) -> Transition:
    workload = case.workload
    text, generation = _DEACTIVATION_TEXT[cause], workload.metadata.generation
    new = new_condition(c.DEACTIVATION_TARGET, "True", cause, text, case.now, generation)
    return Transition(replace(workload.status, conditions=with_conditions(workload.status.conditions, new)))
