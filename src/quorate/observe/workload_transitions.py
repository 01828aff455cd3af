"""Transitions between two versions of a workload, as samples of counters and histograms.

A watch that had to list again may skip versions: a transition that was reverted in such a gap is not counted.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from quorate.api.kueue import Workload
from quorate.api.meta import Condition, find_condition, true_condition
from quorate.queueing import conditions as c
from quorate.queueing.cluster_queue import ClusterQueueState, usage_of
from quorate.queueing.planning.announced_starts import stored_announcement
from quorate.queueing.pods_ready import RECOVERED, WAIT_FOR_RECOVERY

_STARTED: Final = "Started"  # reason of the condition PlannedStart once the workload has quota
_WHOLE_S: Final = 1.0  # times in conditions are whole seconds
# Part of the nominal quota that a workload uses of the resource of which it uses most, up to the first bound.
_SIZES: Final = ((0.1, "small"), (0.5, "medium"))
_LARGEST: Final = "large"


class Sample(msgspec.Struct, frozen=True):
    """One increment or observation; ``name`` has no prefix, ``labels`` has no label of the queue."""

    name: str
    labels: dict[str, str] = {}
    seconds: float | None = None  # None: a counter


def transition_samples(old: Workload, new: Workload) -> Iterator[Sample]:
    """Yield a sample for each condition that became true from ``old`` to ``new``."""
    before, after = _true_conditions(old), _true_conditions(new)
    became_true = {type_: condition for type_, condition in after.items() if type_ not in before}
    if not became_true and c.EVICTED not in before:
        return  # as mostly
    class_ref = new.spec.priority_class_ref
    class_label = {"priority_class": class_ref.name if class_ref is not None else ""}
    waiting_since = c.queued_since(new)
    reserved_at = c.transition_time(after[c.QUOTA_RESERVED]) if c.QUOTA_RESERVED in after else None
    if c.QUOTA_RESERVED in became_true:
        yield Sample("quota_reserved_workloads_total", class_label)
        yield _timed(
            "quota_reserved_wait_time_seconds", class_label, waiting_since, became_true[c.QUOTA_RESERVED]
        )
    if c.ADMITTED in became_true:
        yield Sample("admitted_workloads_total", class_label)
        yield _timed("admission_wait_time_seconds", class_label, waiting_since, became_true[c.ADMITTED])
        if new.status.admission_checks and reserved_at is not None:
            yield _timed(
                "admission_checks_wait_time_seconds", class_label, reserved_at, became_true[c.ADMITTED]
            )
    if c.PODS_READY in became_true and c.ADMITTED in after and became_true[c.PODS_READY].reason != RECOVERED:
        ready, admitted_at = became_true[c.PODS_READY], c.transition_time(after[c.ADMITTED])
        yield _timed("ready_wait_time_seconds", class_label, waiting_since, ready)
        yield _timed("admitted_until_ready_wait_time_seconds", class_label, admitted_at, ready)
    if c.PODS_READY in became_true and became_true[c.PODS_READY].reason == RECOVERED:
        lost = find_condition(old.status.conditions, c.PODS_READY)
        if lost is not None and lost.reason == WAIT_FOR_RECOVERY:
            lost_at = c.transition_time(lost)
            yield _timed(
                "workload_recovery_wait_time_seconds", class_label, lost_at, became_true[c.PODS_READY]
            )
    if c.EVICTED in became_true:
        yield from _eviction(old, new, became_true[c.EVICTED], before.get(c.PODS_READY), class_label)
    released = find_condition(new.status.conditions, c.QUOTA_RESERVED)  # None: removed by another client
    if (
        c.EVICTED in before
        and c.QUOTA_RESERVED in before
        and released is not None
        and released.status != "True"
    ):
        reason = {"reason": _plain_reason(before[c.EVICTED])}
        evicted_at = c.transition_time(before[c.EVICTED])
        yield _timed("workload_eviction_latency_seconds", reason, evicted_at, released)
    if c.FINISHED in became_true:
        yield Sample("finished_workloads_total", class_label)
        past_s = new.status.accumulated_past_execution_time_seconds or 0
        if c.ADMITTED in before or past_s:
            finished = became_true[c.FINISHED]
            last_s = c.transition_time(finished) - (
                c.transition_time(before[c.ADMITTED]) if c.ADMITTED in before else c.transition_time(finished)
            )
            yield Sample("execution_time_seconds", class_label, past_s + max(0.0, last_s))


def _eviction(
    old: Workload, new: Workload, evicted: Condition, ready: Condition | None, class_label: dict[str, str]
) -> Iterator[Sample]:
    """Derive reason and underlying cause of an eviction from the count in the status that increased."""
    before, after = _evictions(old), _evictions(new)
    increased = [reasons for reasons, count in after.items() if count > before.get(reasons, 0)]
    for reason, cause in increased or [(_plain_reason(evicted), "")]:
        labels = {"reason": reason, "underlying_cause": cause}
        yield Sample("evicted_workloads_total", labels | class_label)
        if after.get((reason, cause)) == 1:
            yield Sample("evicted_workloads_once_total", labels | class_label)
        if ready is not None:
            yield _timed("pods_ready_to_evicted_time_seconds", labels, c.transition_time(ready), evicted)


def _evictions(workload: Workload) -> dict[tuple[str, str], int]:
    stats = workload.status.scheduling_stats
    counts = stats.evictions if stats is not None else ()
    return {(eviction.reason, eviction.underlying_cause): eviction.count for eviction in counts}


def _plain_reason(evicted: Condition) -> str:
    """Return the reason without the cause that it contains for deactivations (DeactivatedDueToX)."""
    return c.DEACTIVATED if evicted.reason.startswith(c.DEACTIVATED) else evicted.reason


def _timed(name: str, labels: dict[str, str], since: float, until: Condition) -> Sample:
    # At least 0: the clocks of two processes may differ.
    return Sample(name, labels, max(0.0, c.transition_time(until) - since))


def _true_conditions(workload: Workload) -> dict[str, Condition]:
    return {
        condition.type: condition for condition in workload.status.conditions if condition.status == "True"
    }


def planned_start_samples(old: Workload, new: Workload) -> Iterator[Sample]:
    """Yield a sample for a start that was planned, moved later, kept, or not kept."""
    planned = find_condition(new.status.conditions, c.PLANNED_START)
    if planned is None:
        return
    before, after = stored_announcement(old), stored_announcement(new)
    if before is None and after is not None:
        yield Sample("quorate_planned_starts_total")
    if before is not None and after is not None and after.revisions != before.revisions and after.revisions:
        yield Sample("quorate_planned_start_revisions_total", {"cause": after.revisions[-1].reason})
    if before is None or after is not None:
        return
    reserved = true_condition(new.status.conditions, c.QUOTA_RESERVED)
    if planned.reason != _STARTED or reserved is None:
        result = "dropped"
    elif before.revisions:
        result = "revised"
    else:
        result = "kept" if c.transition_time(reserved) <= before.at + _WHOLE_S else "late"
    yield Sample("quorate_planned_starts_ended_total", {"result": result})


def wait_by_size(old: Workload, new: Workload, queue: ClusterQueueState) -> Iterator[Sample]:
    """Yield how long a workload of ``queue`` waited that was admitted, by its size."""
    admitted = true_condition(new.status.conditions, c.ADMITTED)
    if admitted is None or true_condition(old.status.conditions, c.ADMITTED) is not None:
        return
    waited_s = max(0.0, c.transition_time(admitted) - c.queued_since(new))
    yield Sample("quorate_admission_wait_by_size_seconds", {"size": size_class(new, queue)}, waited_s)


def size_class(workload: Workload, queue: ClusterQueueState) -> str:
    """Return ``small`` up to a tenth of the nominal quota of ``queue``, ``medium`` up to half, ``large``."""
    admission = workload.status.admission
    part = 0.0
    for pair, amount in (usage_of(workload, admission) if admission is not None else {}).items():
        limits = queue.node.limits.get(pair)
        nominal = 0 if limits is None else limits.nominal
        if amount:
            part = max(part, amount / nominal if nominal else 1.0)
    return next((name for most, name in _SIZES if part <= most), _LARGEST)
