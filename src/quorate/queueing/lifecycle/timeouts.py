"""Lifecycle rules about time: pods-ready timeouts, the maximum execution time, and retention.

Each period starts at the transition time of a condition, so a restarted controller computes the same times.
"""

import math
from typing import Final

from msgspec.structs import replace

from quorate.api.configuration.planned_starts import PlannedStartRules
from quorate.api.configuration.pods_ready import RequeuingStrategy
from quorate.api.kueue import Workload
from quorate.api.meta import find_condition, is_true
from quorate.queueing import conditions as c
from quorate.queueing.conditions import new_condition, with_conditions
from quorate.queueing.lifecycle.transition import Event, Transition, WorkloadContext, evict
from quorate.queueing.limits import REFUSED_START_S
from quorate.queueing.planning.bounds import maximum_execution_time_s
from quorate.queueing.pods_ready import (
    Deactivate,
    RunningTimeout,
    TimeoutOverrides,
    effective_timeouts,
    on_timeout,
    pods_ready_condition,
    running_timeout,
)

_AFTER_REFUSED_STARTS: Final = RequeuingStrategy(backoff_limit_count=4)

_DEACTIVATION_TEXT: Final = {
    c.START_REFUSED: "exceeding the maximum number of refused starts",
    c.REQUEUING_LIMIT_EXCEEDED: "exceeding the maximum number of re-queuing retries",
    c.MAXIMUM_EXECUTION_TIME_EXCEEDED: "exceeding the maximum execution time",
}


def apply_retention(context: WorkloadContext) -> Transition:
    """Delete a finished workload once its retention period has passed."""
    finished = find_condition(context.workload.status.conditions, c.FINISHED)
    assert finished is not None, f"{context.workload.metadata.key} is not finished"
    retention_s = context.configuration.retention.finished_s
    if retention_s is None or context.workload.metadata.deletion_timestamp is not None:
        return Transition()
    until = c.transition_time(finished) + retention_s
    if context.now < until:
        return Transition(wake_at=until)
    event = Event("Normal", "Deleted", "Deleted finished workload due to elapsed retention")
    return Transition(release=True, delete=True, events=(event,))


def job_deletion_time(workload: Workload, retention_s: float | None) -> float | None:
    """Return when to delete the job of a workload that the system deactivated (epoch seconds).

    None without a retention period, and if a user deactivated the workload: it may be reactivated.
    """
    evicted = find_condition(workload.status.conditions, c.EVICTED)
    if retention_s is None or workload.spec.active or evicted is None or evicted.status != "True":
        return None
    by_system = evicted.reason.startswith(f"{c.DEACTIVATED}DueTo")
    return c.transition_time(evicted) + retention_s if by_system else None


def check_timeouts(context: WorkloadContext) -> Transition:
    """Apply the timeouts and the maximum execution time of an admitted workload."""
    refused_until = _refused_start_until(context.workload)
    if refused_until is not None and refused_until <= context.now:
        return _on_refused_start(context)
    timeout = _pods_ready_timeout(context)
    if timeout is not None and timeout.expires_at <= context.now:
        return _on_pods_ready_timeout(context, timeout)
    remaining_s = _remaining_execution_time_s(context)
    if remaining_s is not None and remaining_s <= 0:
        return _on_execution_time_exceeded(context)
    times = [] if timeout is None or timeout.expires_at == math.inf else [timeout.expires_at]
    if remaining_s is not None:
        times.append(context.now + remaining_s)
    if refused_until is not None:
        times.append(refused_until)
    backoff_ends_at = c.requeue_at(context.workload)
    if backoff_ends_at is not None and backoff_ends_at > context.now:
        times.append(backoff_ends_at)  # also while the workload is still being evicted
    return Transition(wake_at=min(times, default=None))


def _refused_start_until(workload: Workload) -> float | None:
    """Return until when a job that cannot be started keeps its quota; None if it is not refused."""
    refused = find_condition(workload.status.conditions, c.JOB_UPDATED)
    if refused is None or (refused.status, refused.reason) != ("False", c.START_REFUSED):
        return None
    if not c.is_admitted(workload) or c.is_evicted(workload) or not workload.spec.active:
        return None
    return c.transition_time(refused) + REFUSED_START_S


def _on_refused_start(context: WorkloadContext) -> Transition:
    """Give the quota back and try again after a backoff; deactivate a job that is always refused."""
    workload, rules = context.workload, context.configuration.wait_for_pods_ready
    limited = rules is not None and rules.requeuing_strategy.backoff_limit_count is not None
    strategy = rules.requeuing_strategy if rules is not None and limited else _AFTER_REFUSED_STARTS
    action = on_timeout(workload, "WaitForStart", strategy, context.now, context.jitter)
    if isinstance(action, Deactivate):
        return _deactivation_target(context, c.START_REFUSED)
    refused = find_condition(workload.status.conditions, c.JOB_UPDATED)
    assert refused is not None, f"{workload.metadata.key} is evicted for a start that was not refused"
    eviction = evict(workload, c.START_REFUSED, refused.message, context.now)
    assert eviction.status is not None, f"{workload.metadata.key} is evicted without a status"
    return replace(eviction, status=replace(eviction.status, requeue_state=action.state))


def _pods_ready_timeout(context: WorkloadContext) -> RunningTimeout | None:
    rules, cluster_queue = context.configuration.wait_for_pods_ready, context.queues.cluster_queue
    if rules is None:
        return None
    overrides = cluster_queue.overrides if cluster_queue is not None else TimeoutOverrides()
    per_workload = context.configuration.gates.workload_level_wait_for_pods_ready
    annotations = context.workload.metadata.annotations
    timeouts = effective_timeouts(annotations, overrides, rules, per_workload=per_workload)
    return running_timeout(context.workload, timeouts, context.unplaced_since)


def report_unscheduled_pods(context: WorkloadContext) -> Transition | None:
    """Tell in the reason of PodsReady=False whether pods wait for a node, if that has a timeout."""
    workload, rules = context.workload, context.configuration.wait_for_pods_ready
    old = find_condition(workload.status.conditions, c.PODS_READY)
    if rules is None or rules.scheduling_timeout_s is None or old is None or old.status == "True":
        return None
    unscheduled = context.unplaced_since is not None
    new = pods_ready_condition(workload, False, context.now, unscheduled=unscheduled)
    if new is None or c.is_evicted(workload):
        return None
    # the time is that of the transition to False
    new = replace(new, last_transition_time=old.last_transition_time)
    return Transition(replace(workload.status, conditions=with_conditions(workload.status.conditions, new)))


def _on_pods_ready_timeout(context: WorkloadContext, timeout: RunningTimeout) -> Transition:
    rules = context.configuration.wait_for_pods_ready
    assert rules is not None, "a pods-ready timeout expired although none is configured"
    action = on_timeout(
        context.workload, timeout.phase, rules.requeuing_strategy, context.now, context.jitter
    )
    if isinstance(action, Deactivate):
        return _deactivation_target(context, c.REQUEUING_LIMIT_EXCEEDED)
    name = "scheduling" if timeout.phase == "WaitForScheduling" else "PodsReady"
    message = f"Exceeded the {name} timeout {context.workload.metadata.key}"
    eviction = evict(context.workload, c.PODS_READY_TIMEOUT, message, context.now, cause=timeout.phase)
    assert eviction.status is not None, f"{context.workload.metadata.key} is evicted without a status"
    return replace(eviction, status=replace(eviction.status, requeue_state=action.state))


def _maximum_execution_time_s(context: WorkloadContext) -> float | None:
    """Return how long the workload may run in its queue; None: no limit."""
    queue = context.queues.cluster_queue
    rules = PlannedStartRules() if queue is None else queue.planned_start_rules
    return maximum_execution_time_s(context.workload, rules)


def _remaining_execution_time_s(context: WorkloadContext) -> float | None:
    workload, limit_s = context.workload, _maximum_execution_time_s(context)
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
    return limit_s - past_s - (context.now - c.transition_time(admitted))


def _on_execution_time_exceeded(context: WorkloadContext) -> Transition:
    if is_true(context.workload.status.conditions, c.DEACTIVATION_TARGET):
        return Transition()
    limit_s = _maximum_execution_time_s(context)
    target = _deactivation_target(context, c.MAXIMUM_EXECUTION_TIME_EXCEEDED)
    text = f"The maximum execution time ({limit_s:.0f}s) exceeded"
    return replace(target, events=(Event("Warning", "MaximumExecutionTimeExceeded", text),))


def _deactivation_target(context: WorkloadContext, cause: str) -> Transition:
    workload = context.workload
    text, generation = _DEACTIVATION_TEXT[cause], workload.metadata.generation
    new = new_condition(c.DEACTIVATION_TARGET, "True", cause, text, context.now, generation)
    return Transition(replace(workload.status, conditions=with_conditions(workload.status.conditions, new)))
