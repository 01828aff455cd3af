"""Series of planned starts, from two versions of a workload."""

from collections.abc import Iterator
from typing import Final

from quorate.api.kueue import Workload
from quorate.api.meta import find_condition, true_condition
from quorate.observe.workload_transitions import Sample
from quorate.queueing import conditions as c
from quorate.queueing.planning.announced_starts import stored_announcement

_STARTED: Final = "Started"  # reason of the condition once the workload has quota
_WHOLE_S: Final = 1.0  # times in conditions are whole seconds


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
