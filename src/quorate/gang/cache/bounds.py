"""The time until which a gang runs at most, if a bound is declared and enforced.

- A gang with a Workload: the seconds of the label ``kueue.x-k8s.io/max-exec-time-seconds`` of its pod group,
  which the queueing controllers enforce.
- Any other gang: ``activeDeadlineSeconds`` of its pods, all of which need one.  The kubelet enforces it.
- A gang of which no pod exists yet: the label.  It is not enforced, and therefore compared with the pods once
  they exist: an admission that relies on a smaller bound than that of the pods is withdrawn.

The time of a replacement pod begins anew.
"""

import math
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from quorate.api.meta import epoch
from quorate.api.scheduler_configuration.actions import EnqueueArguments
from quorate.gang.cache.gang import Gang
from quorate.gang.cache.task import ALLOCATED_STATUSES, FINISHED_STATUSES, Task
from quorate.placement.vectors import Matrix


def bound_s(gang: Gang) -> float:
    """Return how many seconds ``gang`` runs at most once all its pods have started; infinite: unknown."""
    if (maximum_s := _declared_s(gang)) is not None:
        return maximum_s
    return max(map(_deadline_s, _running_or_starting(gang)), default=math.inf)


def ends_at(gang: Gang, now: float, rules: EnqueueArguments) -> float:
    """Return until when ``gang`` takes room on nodes at most, epoch seconds; infinite: unknown.

    A gang that has not started may do so until its admission times out.
    """
    if not gang.has_started:
        times_out_at = gang.admission.times_out_at(rules)
        latest = math.inf if times_out_at is None else max(now, times_out_at) + bound_s(gang)
        return latest if gang.admission.ends_by is None else min(latest, gang.admission.ends_by)
    if (maximum_s := _declared_s(gang)) is not None:
        return max((_started(task, now) for task in _running_or_starting(gang)), default=now) + maximum_s
    ends = (_started(task, now) + _deadline_s(task) for task in _running_or_starting(gang))
    return max(now, max(ends, default=math.inf))


def _declared_s(gang: Gang) -> int | None:
    """Return the seconds in the label of the pod group; None if the pods decide."""
    return gang.metadata.maximum_s if gang.quota_admission is not None or not gang.tasks else None


def _running_or_starting(gang: Gang) -> Iterator[Task]:
    """Yield the unfinished members; of a gang that has its minimum only those with a node."""
    is_complete = gang.task_counts.ready >= gang.min_member
    for task in gang.tasks.values():
        if task.status in ALLOCATED_STATUSES or not (is_complete or task.status in FINISHED_STATUSES):
            yield task


def _deadline_s(task: Task) -> float:
    deadline_s = task.pod.spec.active_deadline_seconds
    return math.inf if deadline_s is None else deadline_s


def _started(task: Task, now: float) -> float:
    """Return when the kubelet started the pod; now if it has not yet."""
    started = task.pod.status.start_time
    return now if started is None or not task.node else epoch(started)


class PlannedGroup(NamedTuple):
    """When a waiting group is admitted at the latest, and what is kept of the nodes until then."""

    gang: Gang
    at: float  # epoch seconds; infinite: a gang without a bound must end first
    kept: Matrix  # by resource and node: what is idle and has to stay so
    kept_total: Mapping[str, int]

    def is_outlived_by(self, gang: Gang, now: float) -> bool:
        """Return True if ``gang`` may still run at the planned start if its pods start now."""
        ends = now + bound_s(gang)
        return not math.isfinite(ends) or ends > self.at
