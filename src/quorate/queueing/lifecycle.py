"""The life of one Workload between decisions: what its status must become next.

Pure functions from the newest object to the whole new status.  ``decide_workload`` is the table of the
workload controller: one row acts at a time, the first that applies, and every call sees the result of the
previous one; a second call on the same world therefore changes nothing.  The others are the status that a
decision of the cycle, or the stopping of a job, brings.
"""

import math
from collections.abc import Iterable
from typing import Final, Literal

import msgspec

from quorate.api.configuration import Configuration, RequeuingStrategy
from quorate.api.kueue import (
    AdmissionCheckState,
    RequeueState,
    StopPolicy,
    Workload,
    WorkloadStatus,
)
from quorate.api.meta import at_epoch, epoch, find_condition, is_true
from quorate.queueing import conditions as c
from quorate.queueing.clocks import Overrides, clocks_of
from quorate.queueing.conditions import condition, merged, replace, without
from quorate.queueing.readiness import GiveUp, Running, on_expiry, running
from quorate.queueing.statuses import (
    admit_status,
    admitted,
    evict_status,
    finish_status,
    hold_status,
    not_admitted,
    preempt_status,
    release_status,
    released,
)

__all__ = [
    "ClusterQueueView",
    "Event",
    "LocalQueueView",
    "QueueView",
    "Transition",
    "admit_status",
    "decide_workload",
    "evict_status",
    "finish_status",
    "hold_status",
    "preempt_status",
    "release_status",
]

_DEACTIVATION_TEXT: Final = {
    c.REQUEUING_LIMIT_EXCEEDED: "exceeding the maximum number of re-queuing retries",
    c.MAXIMUM_EXECUTION_TIME_EXCEEDED: "exceeding the maximum execution time",
}


class LocalQueueView(msgspec.Struct, frozen=True):
    name: str
    found: bool
    stop_policy: StopPolicy = "None"


class ClusterQueueView(msgspec.Struct, frozen=True):
    name: str
    found: bool
    terminating: bool = False
    active: bool = False
    stop_policy: StopPolicy = "None"
    checks: tuple[str, ...] = ()  # that apply to the workload as it is, sorted
    overrides: Overrides = Overrides()  # of the readiness clocks


class QueueView(msgspec.Struct, frozen=True):
    """What one workload needs to know of its queues.

    ``cluster_queue`` is the one it holds quota in, else the one its local queue points to; None when it
    has neither.
    """

    local_queue: LocalQueueView
    cluster_queue: ClusterQueueView | None


class Event(msgspec.Struct, frozen=True):
    type: Literal["Normal", "Warning"]
    reason: str
    message: str


class Transition(msgspec.Struct, frozen=True):
    """What to write now, and when to look again if nothing changes before."""

    status: WorkloadStatus | None = None  # the whole new status; None: it stays
    deactivate: bool = False  # write spec.active=false
    events: tuple[Event, ...] = ()
    wake_at: float | None = None  # epoch seconds


def decide_workload(
    workload: Workload,
    queues: QueueView,
    configuration: Configuration,
    now: float,
    jitter: float,
    unplaced_since: float | None = None,
) -> Transition:
    """The next step of ``workload``; ``jitter`` in [0, 1) spreads the backoffs of many.

    ``unplaced_since`` is when the oldest of its pods that have no node was created (epoch seconds).

    The rows are those of the specification of Kueue's workload controller, in its order.
    """
    if c.is_finished(workload):
        return Transition()
    for row in (
        _undo_what_cannot_be,
        _follow_check_delay,
        _follow_activity,
        _follow_restarts,
        _follow_checks,
        _follow_queues,
    ):
        transition = row(workload, queues, now)
        if transition is not None:
            return transition
    rules = configuration.wait_for_pods_ready
    clock: Running | None = None
    if rules is not None:
        overrides = queues.cluster_queue.overrides if queues.cluster_queue is not None else Overrides()
        clocks = clocks_of(workload.metadata.annotations, overrides, rules)
        clock = running(workload, clocks, unplaced_since)
        if clock is not None and clock.expires_at <= now:
            return _expire(workload, clock, rules.requeuing_strategy, now, jitter)
    return _follow_execution(workload, clock, now)


def _undo_what_cannot_be(workload: Workload, queues: QueueView, now: float) -> Transition | None:
    """Conditions that somebody wrote by hand, without what they stand on.

    Kueue's webhook refuses the first of them; this holds where no webhook runs.
    """
    status = workload.status
    if c.is_reserving(workload) and status.admission is None:
        message = (
            f"workload {workload.metadata.key}: status.admission: nothing while the condition QuotaReserved "
            "was True, must name the cluster queue and flavors (leave both to the controllers)"
        )
        event = Event("Warning", "Inadmissible", message)
        return Transition(released(workload, "Inadmissible", message, now), events=(event,))
    if c.is_admitted(workload) and not c.is_reserving(workload):
        return Transition(replace(status, conditions=merged(status.conditions, not_admitted(workload, now))))
    return None


def _follow_check_delay(workload: Workload, queues: QueueView, now: float) -> Transition | None:
    """A check that wants a retry later moves the end of the backoff, forward only."""
    moments = [
        epoch(check.last_transition_time) + check.requeue_after_seconds
        for check in workload.status.admission_checks
        if check.state == "Retry" and check.requeue_after_seconds and check.last_transition_time
    ]
    if not moments or max(moments) <= now or max(moments) <= (c.requeue_at(workload) or 0.0):
        return None
    state = replace(workload.status.requeue_state or RequeueState(), requeue_at=at_epoch(max(moments)))
    return Transition(replace(workload.status, requeue_state=state))


def _follow_activity(workload: Workload, queues: QueueView, now: float) -> Transition | None:
    """Deactivation, reactivation and the end of a backoff."""
    status = workload.status
    if not workload.spec.active:
        return _deactivation(workload, now)
    if is_true(status.conditions, c.DEACTIVATION_TARGET):
        return Transition(deactivate=True)
    until = c.requeue_at(workload)
    if until is not None and until > now:
        return Transition(wake_at=until) if not c.is_reserving(workload) else None
    requeued = find_condition(status.conditions, c.REQUEUED)
    parked_for = requeued.reason if requeued is not None and requeued.status == "False" else ""
    if parked_for.startswith(c.DEACTIVATED):
        return _requeue(workload, "Reactivated", "The workload was reactivated", now)
    if c.is_reserving(workload):
        return None
    if parked_for in (c.PODS_READY_TIMEOUT, c.ADMISSION_CHECK):
        return _requeue(workload, "BackoffFinished", "The workload backoff was finished", now)
    if until is not None:
        return Transition(_without_backoff(workload))
    return None


def _requeue(workload: Workload, reason: str, message: str, now: float) -> Transition:
    requeued = condition(c.REQUEUED, "True", reason, message, now, workload.metadata.generation)
    status = _without_backoff(workload)
    return Transition(replace(status, conditions=merged(status.conditions, requeued)))


def _without_backoff(workload: Workload) -> WorkloadStatus:
    """The end of the backoff removed, the count of retries kept."""
    state = workload.status.requeue_state
    count = state.count if state is not None else None
    return replace(workload.status, requeue_state=None if count is None else RequeueState(count=count))


def _deactivation(workload: Workload, now: float) -> Transition | None:
    if c.is_evicted(workload):
        if workload.status.requeue_state is None:
            return None
        return Transition(replace(workload.status, requeue_state=None))
    target = find_condition(workload.status.conditions, c.DEACTIVATION_TARGET)
    cause = target.reason if target is not None and target.status == "True" else ""
    reason = f"{c.DEACTIVATED}DueTo{cause}" if cause else c.DEACTIVATED
    message = "The workload is deactivated"
    if target is not None and cause:
        message = f"{message} due to {target.message}"
    evicted = evict_status(workload, reason, message, now, counted_as=(c.DEACTIVATED, cause))
    status = replace(
        evicted, conditions=without(evicted.conditions, c.DEACTIVATION_TARGET), requeue_state=None
    )
    return Transition(status, events=_eviction_events(workload, reason, message))


def _follow_restarts(workload: Workload, queues: QueueView, now: float) -> Transition | None:
    """A queue that runs again takes back the workloads it was stopped under, whenever it was restarted."""
    requeued = find_condition(workload.status.conditions, c.REQUEUED)
    if requeued is None or requeued.status == "True":
        return None
    local, cluster = queues.local_queue, queues.cluster_queue
    if requeued.reason == c.LOCAL_QUEUE_STOPPED and local.found and local.stop_policy == "None":
        return _requeue(workload, "LocalQueueRestarted", "The LocalQueue was restarted", now)
    if (
        requeued.reason == c.CLUSTER_QUEUE_STOPPED
        and cluster is not None
        and cluster.found
        and cluster.stop_policy == "None"
    ):
        return _requeue(workload, "ClusterQueueRestarted", "The ClusterQueue was restarted", now)
    return None


def _follow_checks(workload: Workload, queues: QueueView, now: float) -> Transition | None:
    """The list of checks, admission once all are ready, and what a refusing check brings."""
    status = workload.status
    if workload.spec.active and queues.cluster_queue is not None and queues.cluster_queue.found:
        checks = _listed_checks(status.admission_checks, queues.cluster_queue.checks, now)
        if checks != status.admission_checks:
            return Transition(replace(status, admission_checks=checks))
    if not c.is_reserving(workload):
        return None
    if c.is_evicted(workload):
        return None
    if not c.is_admitted(workload) and all(check.state == "Ready" for check in status.admission_checks):
        reserved = find_condition(status.conditions, c.QUOTA_RESERVED)
        waited_s = int(now - c.since(reserved)) if reserved is not None else 0
        cluster_queue = status.admission.cluster_queue if status.admission is not None else ""
        event = Event(
            "Normal",
            "Admitted",
            f"Admitted by ClusterQueue {cluster_queue}, wait time since reservation was {waited_s}s",
        )
        return Transition(
            replace(status, conditions=merged(status.conditions, admitted(workload, now))), events=(event,)
        )
    rejected = [check for check in status.admission_checks if check.state == "Rejected"]
    if rejected:
        if is_true(status.conditions, c.DEACTIVATION_TARGET):
            return None
        text = _checks_text("Rejected", rejected)
        target = condition(
            c.DEACTIVATION_TARGET, "True", c.ADMISSION_CHECK, text, now, workload.metadata.generation
        )
        return Transition(
            replace(status, conditions=merged(status.conditions, target)),
            events=(Event("Warning", "AdmissionCheckRejected", f"Deactivated due to {text}"),),
        )
    retried = [check for check in status.admission_checks if check.state == "Retry"]
    if retried:
        text = f"Evicted due to {_checks_text('Retry', retried)}"
        return _evict(workload, c.ADMISSION_CHECK, text, now)
    return None


def _listed_checks(
    listed: tuple[AdmissionCheckState, ...], required: tuple[str, ...], now: float
) -> tuple[AdmissionCheckState, ...]:
    if {check.name for check in listed} == set(required):
        return listed
    by_name = {check.name: check for check in listed}
    return tuple(
        by_name.get(name)
        or AdmissionCheckState(name=name, state="Pending", last_transition_time=at_epoch(now))
        for name in sorted(required)
    )


def _checks_text(state: str, checks: Iterable[AdmissionCheckState]) -> str:
    texts = [f'"{check.name}" ({check.message})' for check in sorted(checks, key=lambda check: check.name)]
    return f"AdmissionCheck{'s' if len(texts) > 1 else ''} in {state} state: {'; '.join(texts)}"


def _follow_queues(workload: Workload, queues: QueueView, now: float) -> Transition | None:
    """Queues that are stopped or gone: local queue first."""
    local, cluster = queues.local_queue, queues.cluster_queue
    if not c.is_reserving(workload):
        return _follow_queues_pending(workload, queues, now) if workload.spec.active else None
    if c.is_evicted(workload):
        return None
    if c.is_admitted(workload):
        if local.found and local.stop_policy == "HoldAndDrain":
            return _evict(workload, c.LOCAL_QUEUE_STOPPED, "The LocalQueue is stopped", now)
        if cluster is not None and cluster.found and cluster.stop_policy == "HoldAndDrain":
            return _evict(workload, c.CLUSTER_QUEUE_STOPPED, "The ClusterQueue is stopped", now)
        return None
    message = _lost_queue_text("LocalQueue", local.name, local.found, local.stop_policy)
    if not message and cluster is not None:
        present = cluster.found and not cluster.terminating
        message = _lost_queue_text("ClusterQueue", cluster.name, present, cluster.stop_policy)
    return Transition(released(workload, "Inadmissible", message, now)) if message else None


def _lost_queue_text(kind: str, name: str, present: bool, stop_policy: StopPolicy) -> str:
    if not present:
        return f"{kind} {name} is terminating or missing"
    return f"{kind} {name} is stopped" if stop_policy != "None" else ""


def _follow_queues_pending(workload: Workload, queues: QueueView, now: float) -> Transition | None:
    old = find_condition(workload.status.conditions, c.QUOTA_RESERVED)
    if old is not None and old.reason == c.ON_HOLD:
        return None
    local, cluster = queues.local_queue, queues.cluster_queue
    if not local.found:
        message = f"LocalQueue {local.name} doesn't exist"
    elif local.stop_policy != "None":
        message = f"LocalQueue {local.name} is inactive"
    elif cluster is None or not cluster.found:
        message = f"ClusterQueue {cluster.name if cluster is not None else ''} doesn't exist"
    elif not cluster.active:
        message = f"ClusterQueue {cluster.name} is inactive"
    else:
        return None
    new = condition(c.QUOTA_RESERVED, "False", "Inadmissible", message, now, workload.metadata.generation)
    if c.says_the_same(old, new):
        return None
    return Transition(replace(workload.status, conditions=merged(workload.status.conditions, new)))


def _expire(
    workload: Workload, clock: Running, strategy: RequeuingStrategy, now: float, jitter: float
) -> Transition:
    """A readiness clock has run out."""
    verdict = on_expiry(workload, clock.phase, strategy, now, jitter)
    if isinstance(verdict, GiveUp):
        return _target(workload, c.REQUEUING_LIMIT_EXCEEDED, now)
    which = "scheduling" if clock.phase == "WaitForScheduling" else "PodsReady"
    message = f"Exceeded the {which} timeout {workload.metadata.key}"
    evicted = _evict(workload, c.PODS_READY_TIMEOUT, message, now, cause=clock.phase)
    assert evicted.status is not None
    return replace(evicted, status=replace(evicted.status, requeue_state=verdict.state))


def _follow_execution(workload: Workload, clock: Running | None, now: float) -> Transition:
    """The maximum execution time; ``clock`` is the readiness clock that runs beside it."""
    run_s = _execution_remaining_s(workload, now)
    if run_s is not None and run_s <= 0:
        if is_true(workload.status.conditions, c.DEACTIVATION_TARGET):
            return Transition()
        limit_s = workload.spec.maximum_execution_time_seconds
        target = _target(workload, c.MAXIMUM_EXECUTION_TIME_EXCEEDED, now)
        assert target.status is not None
        return Transition(
            replace(target.status, accumulated_past_execution_time_seconds=None),
            events=(
                Event(
                    "Warning",
                    "MaximumExecutionTimeExceeded",
                    f"The maximum execution time ({limit_s}s) exceeded",
                ),
            ),
        )
    moments = [] if clock is None or clock.expires_at == math.inf else [clock.expires_at]
    if run_s is not None:
        moments.append(now + run_s)
    return Transition(wake_at=min(moments, default=None))


def _execution_remaining_s(workload: Workload, now: float) -> float | None:
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
    return limit_s - past_s - (now - c.since(admitted))


def _target(workload: Workload, cause: str, now: float) -> Transition:
    new = condition(
        c.DEACTIVATION_TARGET, "True", cause, _DEACTIVATION_TEXT[cause], now, workload.metadata.generation
    )
    return Transition(replace(workload.status, conditions=merged(workload.status.conditions, new)))


def _evict(workload: Workload, reason: str, message: str, now: float, cause: str = "") -> Transition:
    return Transition(
        evict_status(workload, reason, message, now, counted_as=(reason, cause)),
        events=_eviction_events(workload, reason, message),
    )


def _eviction_events(workload: Workload, reason: str, message: str) -> tuple[Event, ...]:
    if workload.status.admission is None:
        return ()
    return (Event("Normal", f"EvictedDueTo{reason}", message),)
