"""What happened to a workload between two versions of it, as samples of Kueue's counters and histograms.

A watch may leave out versions in between, when it had to list anew: what happened and was undone in such a
gap is not counted.
"""

from collections.abc import Iterator

import msgspec

from quorate.api.kueue import Workload
from quorate.api.meta import Condition, find_condition
from quorate.queueing import conditions as c
from quorate.queueing.pods_ready import RECOVERED


class Sample(msgspec.Struct, frozen=True):
    """``name`` is without prefix, and without the labels of the queue it happened in."""

    name: str
    labels: dict[str, str] = {}
    seconds: float | None = None  # None: it is only counted


def milestones(old: Workload, new: Workload) -> Iterator[Sample]:
    """Samples of all that became so from ``old`` to ``new``, two versions of one workload."""
    before, after = _held(old), _held(new)
    came = {type_: each for type_, each in after.items() if type_ not in before}
    class_ref = new.spec.priority_class_ref
    of_class = {"priority_class": class_ref.name if class_ref is not None else ""}
    waiting_since = c.queued_since(new)
    reserved_at = c.transition_time(after[c.QUOTA_RESERVED]) if c.QUOTA_RESERVED in after else None
    if c.QUOTA_RESERVED in came:
        yield Sample("quota_reserved_workloads_total", of_class)
        yield _timed("quota_reserved_wait_time_seconds", of_class, waiting_since, came[c.QUOTA_RESERVED])
    if c.ADMITTED in came:
        yield Sample("admitted_workloads_total", of_class)
        yield _timed("admission_wait_time_seconds", of_class, waiting_since, came[c.ADMITTED])
        if new.status.admission_checks and reserved_at is not None:
            yield _timed("admission_checks_wait_time_seconds", of_class, reserved_at, came[c.ADMITTED])
    if c.PODS_READY in came and c.ADMITTED in after and came[c.PODS_READY].reason != RECOVERED:
        ready, admitted_at = came[c.PODS_READY], c.transition_time(after[c.ADMITTED])
        yield _timed("ready_wait_time_seconds", of_class, waiting_since, ready)
        yield _timed("admitted_until_ready_wait_time_seconds", of_class, admitted_at, ready)
    if c.EVICTED in came:
        yield from _eviction(old, new, came[c.EVICTED], before.get(c.PODS_READY), of_class)
    released = find_condition(new.status.conditions, c.QUOTA_RESERVED)  # others may have taken it away
    if (
        c.EVICTED in before
        and c.QUOTA_RESERVED in before
        and released is not None
        and released.status != "True"
    ):
        reason = {"reason": _plain_reason(before[c.EVICTED])}
        evicted_at = c.transition_time(before[c.EVICTED])
        yield _timed("workload_eviction_latency_seconds", reason, evicted_at, released)
    if c.FINISHED in came:
        yield Sample("finished_workloads_total", of_class)


def _eviction(
    old: Workload, new: Workload, evicted: Condition, ready: Condition | None, of_class: dict[str, str]
) -> Iterator[Sample]:
    """The status counts evictions by reason and underlying cause: the count that rose tells both."""
    before, after = _evictions(old), _evictions(new)
    risen = [why for why, count in after.items() if count > before.get(why, 0)]
    for reason, cause in risen or [(_plain_reason(evicted), "")]:
        why = {"reason": reason, "underlying_cause": cause}
        yield Sample("evicted_workloads_total", why | of_class)
        if after.get((reason, cause)) == 1:
            yield Sample("evicted_workloads_once_total", why | of_class)
        if ready is not None:
            yield _timed("pods_ready_to_evicted_time_seconds", why, c.transition_time(ready), evicted)


def _evictions(workload: Workload) -> dict[tuple[str, str], int]:
    stats = workload.status.scheduling_stats
    counts = stats.evictions if stats is not None else ()
    return {(each.reason, each.underlying_cause): each.count for each in counts}


def _plain_reason(evicted: Condition) -> str:
    """The condition joins a deactivation and its cause: DeactivatedDueToX."""
    return c.DEACTIVATED if evicted.reason.startswith(c.DEACTIVATED) else evicted.reason


def _timed(name: str, labels: dict[str, str], since: float, until: Condition) -> Sample:
    return Sample(
        name, labels, max(0.0, c.transition_time(until) - since)
    )  # clocks of two processes may differ


def _held(workload: Workload) -> dict[str, Condition]:
    return {each.type: each for each in workload.status.conditions if each.status == "True"}
