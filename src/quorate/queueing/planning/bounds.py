"""Until when a workload runs at most, and where that is known from.

A bound is declared (``maximumExecutionTimeSeconds``, which is enforced), or learned from finished workloads
of its kind, or the default of its queue.  A workload that has run longer than a learned bound, or than a
default that is not enforced, is expected to run as long again, and so on: twice, four times, eight times the
bound.  So the bound is a function of the stored objects and the time, and few plans are revised.
"""

import math
from collections.abc import Mapping
from typing import Final, Literal, NamedTuple

from quorate.api.configuration.planned_starts import PlannedStartRules
from quorate.api.kueue import Workload
from quorate.queueing.planning.work_kinds import WorkKind, kind_of

Origin = Literal["Declared", "Learned", "Default"]
LearnedBounds = Mapping[WorkKind, float]  # seconds, by kind of work and by queue
_SAME_BOUND: Final = 0.1  # relative change of a learned bound below which plans stay as they are
LONGEST: Final = 4  # times a learned bound, which few workloads exceed: twice doubled
_LEAST_S: Final = 1.0  # of a bound that is not enforced


class RunBound(NamedTuple):
    """How long a workload runs at most once it is admitted; infinite without an origin."""

    seconds: float
    origin: Origin | None
    is_enforced: bool

    def ends_at(self, since: float, now: float) -> float:
        """Return until when a workload admitted at ``since`` runs at most; times are epoch seconds.

        A workload that has run longer than an enforced bound ends at any moment.
        """
        end = since + self.seconds
        if end >= now or self.is_enforced:
            return max(now, end)
        return since + math.ldexp(self.seconds, math.ceil(math.log2((now - since) / self.seconds)))


UNBOUNDED: Final = RunBound(math.inf, None, False)


class BoundInputs:
    """What bounds depend on beside the workloads and the annotations of their queues."""

    def __init__(self, defaults: PlannedStartRules) -> None:
        self.defaults = defaults  # of queues without annotations
        self.learned: LearnedBounds = {}  # empty until run times have been learned, also after a restart

    def learn(self, bounds: LearnedBounds) -> bool:
        """Take ``bounds`` over; return True if any has changed by more than a tenth."""
        former = self.learned
        kept = {
            kind: former[kind] if kind in former and _is_close(former[kind], seconds) else seconds
            for kind, seconds in bounds.items()
        }
        self.learned = kept
        return kept != former


def _is_close(known_s: float, learned_s: float) -> bool:
    return abs(learned_s - known_s) <= _SAME_BOUND * known_s


def maximum_execution_time_s(workload: Workload, rules: PlannedStartRules) -> float | None:
    """Return how long ``workload`` may run, as declared or as its queue enforces; None: no limit."""
    declared_s = workload.spec.maximum_execution_time_seconds
    if declared_s is not None or not rules.enforces_default:
        return declared_s
    return rules.default_maximum_s


def run_bound(workload: Workload, rules: PlannedStartRules, learned: LearnedBounds) -> RunBound:
    """Return how long ``workload`` runs at most in a queue with ``rules``; ``UNBOUNDED`` if unknown."""
    past_s = workload.status.accumulated_past_execution_time_seconds or 0
    declared_s = workload.spec.maximum_execution_time_seconds
    if declared_s is not None:
        return RunBound(max(0.0, declared_s - past_s), "Declared", True)
    learned_s = _learned_s(workload, learned) if learned else None
    default_s, enforced = rules.default_maximum_s, rules.enforces_default
    left_s = math.inf if default_s is None else max(0.0 if enforced else _LEAST_S, default_s - past_s)
    if learned_s is not None and not (enforced and left_s <= learned_s):
        return RunBound(learned_s, "Learned", False)
    if default_s is not None:
        return RunBound(left_s, "Default", enforced)
    return UNBOUNDED


def _learned_s(workload: Workload, learned: LearnedBounds) -> float | None:
    """Return the learned run time of workloads of this kind, else of the queue; None if none is known.

    With fewer pods than requested the run time is longer in proportion.
    """
    kind = kind_of(workload)
    seconds = learned.get(kind)
    if seconds is None:
        seconds = learned.get(WorkKind(kind.queue))
    part = granted_part(workload)
    return None if seconds is None or not part else max(_LEAST_S, seconds) / part


def granted_part(workload: Workload) -> float:
    """Return the part of the requested pods that was admitted: the work takes longer in proportion."""
    wanted, admission = sum(pod_set.count for pod_set in workload.spec.pod_sets), workload.status.admission
    if admission is None or not wanted:
        return 1.0
    granted = [
        assignment.count for assignment in admission.pod_set_assignments if assignment.count is not None
    ]
    return sum(granted) / wanted if len(granted) == len(workload.spec.pod_sets) else 1.0
