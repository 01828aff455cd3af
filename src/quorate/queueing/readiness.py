"""waitForPodsReady: the clocks of a workload that should become ready, and what follows when it does not.

From admission the workload has ``timeout`` to get all its pods ready; when it loses one later it has
``recoveryTimeout`` to get it back.  Where ``schedulingTimeout`` is set, each of its pods has that long to get
a node: a pod that pulls a large image and one for which there is no room deserve different patience.  A
clock that runs out evicts the workload and lets it try again after a backoff that grows with every retry, or
deactivates it once its retries are used up.

Nothing is remembered between calls: the start of each clock is the transition time of a condition, so a
restarted controller computes the same remaining time.  Specified in Kueue's KEP-349 and KEP-1282, but for
``schedulingTimeout``, which is ours.
"""

import math
from typing import Final, Literal, assert_never

import msgspec

from quorate.api.configuration import RequeuingStrategy
from quorate.api.kueue import RequeueState, Workload
from quorate.api.meta import Condition, at_epoch, find_condition
from quorate.queueing.clocks import Clocks
from quorate.queueing.conditions import (
    ADMITTED,
    PODS_READY,
    condition,
    is_admitted,
    is_evicted,
    is_finished,
    since,
)

WAIT_FOR_START: Final = "WaitForStart"
STARTED: Final = "Started"
WAIT_FOR_RECOVERY: Final = "WaitForRecovery"
RECOVERED: Final = "Recovered"

Phase = Literal["WaitForScheduling", "WaitForStart", "WaitForRecovery"]

JITTER: Final = 0.0001  # of the delay, so that many workloads evicted together do not return together


class Retry(msgspec.Struct, frozen=True):
    """Evict, and try again no earlier than ``state.requeue_at``."""

    phase: Phase
    state: RequeueState


class Running(msgspec.Struct, frozen=True):
    """The clock that runs out first."""

    phase: Phase
    expires_at: float  # epoch seconds; infinite: never


class GiveUp(msgspec.Struct, frozen=True):
    """Deactivate: it has been retried ``retries`` times, which is as often as allowed."""

    retries: int


def pods_ready(workload: Workload, all_ready: bool, now: float) -> Condition | None:
    """The PodsReady condition for a job whose pods are, or are not, all ready or succeeded.

    None when the stored one already says so.
    """
    old = find_condition(workload.status.conditions, PODS_READY)
    reason = _readiness(old, is_admitted(workload), all_ready)
    ready = reason in (STARTED, RECOVERED)
    if old is not None and (old.status == "True", old.reason) == (ready, reason):
        return None
    match reason:
        case "WaitForStart":
            text = "Not all pods are ready or succeeded"
        case "WaitForRecovery":
            text = "At least one pod has failed, waiting for recovery"
        case "Started" | "Recovered":
            text = "All pods reached readiness and the workload is running"
        case _:
            assert_never(reason)
    return condition(
        PODS_READY, "True" if ready else "False", reason, text, now, workload.metadata.generation
    )


def _readiness(
    old: Condition | None, admitted: bool, all_ready: bool
) -> Literal["WaitForStart", "Started", "WaitForRecovery", "Recovered"]:
    if not admitted:
        return "WaitForStart"
    was_ready = old is not None and old.status == "True"
    was_lost = old is not None and old.reason in (WAIT_FOR_RECOVERY, RECOVERED)
    if all_ready:
        return "Recovered" if was_lost else "Started"
    return "WaitForRecovery" if was_ready or was_lost else "WaitForStart"


def running(workload: Workload, clocks: Clocks, unplaced_since: float | None = None) -> Running | None:
    """The clock of ``workload`` that expires first; None if none runs.

    Clocks run only while the workload is admitted, active, not finished and not evicted: a mere reservation
    that waits for admission checks has all the time in the world.  ``unplaced_since`` is when the oldest of
    its pods without a node was created (epoch seconds); a pod that was there before the admission waits for
    a node since then.
    """
    conditions = workload.status.conditions
    admitted = find_condition(conditions, ADMITTED)
    if (
        admitted is None
        or admitted.status != "True"
        or not workload.spec.active
        or is_finished(workload)
        or is_evicted(workload)
    ):
        return None
    ready = find_condition(conditions, PODS_READY)
    if ready is not None and ready.status == "True":
        return None
    if ready is not None and ready.reason == WAIT_FOR_RECOVERY:
        first = Running("WaitForRecovery", since(ready) + clocks.recovery_timeout_s)
    else:
        first = Running("WaitForStart", since(admitted) + clocks.timeout_s)
    if unplaced_since is None:
        return first
    placed_by = max(unplaced_since, since(admitted)) + clocks.scheduling_timeout_s
    return Running("WaitForScheduling", placed_by) if placed_by < first.expires_at else first


def on_expiry(
    workload: Workload, phase: Phase, strategy: RequeuingStrategy, now: float, jitter: float
) -> Retry | GiveUp:
    """What follows when the clock of ``phase`` has run out.

    ``jitter`` in [0, 1) comes from the caller.  The count of retries survives readiness and admission; only
    deactivation clears it.  An end of backoff that is set already never moves back.
    """
    old = workload.status.requeue_state or RequeueState()
    retry = (old.count or 0) + 1
    if strategy.backoff_limit_count is not None and retry > strategy.backoff_limit_count:
        return GiveUp(retry - 1)
    delay_s = backoff_s(retry, strategy) * (1 + JITTER * jitter)
    until = at_epoch(now + delay_s)
    if old.requeue_at is not None and old.requeue_at > until:
        until = old.requeue_at
    return Retry(phase, RequeueState(count=retry, requeue_at=until))


def backoff_s(retry: int, strategy: RequeuingStrategy) -> float:
    """The delay before the ``retry``-th retry (from 1): base × factor^(retry−1), at most the maximum.

    The first delay is the base even where that is more than the maximum.
    """
    assert retry >= 1, f"retries are counted from 1, not {retry}"
    if retry == 1:
        return strategy.backoff_base_s
    try:
        grown_s = strategy.backoff_base_s * strategy.backoff_factor ** (retry - 1)
    except OverflowError:  # after a thousand retries only the maximum matters
        grown_s = math.inf
    return min(grown_s, strategy.backoff_max_s)
