"""The life of a workload or pod group as milestones, from its status and from what was recorded before.

A status has only the last transition of each condition; the history of the dashboard has the earlier ones.
"""

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from quorate.api.kueue import Workload
from quorate.api.meta import Condition
from quorate.api.volcano import SCHEDULED, UNSCHEDULABLE, PodGroup
from quorate.dashboard.schema import Milestone, Transition
from quorate.queueing import conditions as c

# The step of a condition that is true, in the order in which they follow each other at one moment.
_STEPS: Final = {
    c.QUOTA_RESERVED: "QuotaReserved",
    c.ADMITTED: "Admitted",
    c.PODS_READY: "PodsReady",
    c.PREEMPTED: "Preempted",
    c.EVICTED: "Evicted",
    c.REQUEUED: "Requeued",
    c.FINISHED: "Finished",
}
ORDER: Final = (
    "Created",
    "Queued",
    "Resumed",
    "QuotaReserved",
    "CheckReady",
    "Admitted",
    "PodsCreated",
    "PodsReady",
    "Preempted",
    "Evicted",
    "Deactivated",
    "Requeued",
    "Finished",
)
_RANK: Final = {step: rank for rank, step in enumerate(ORDER)}


def true_steps(workload: Workload) -> Iterator[Milestone]:
    """Yield the steps that the status shows with their times, in no particular order."""
    for condition in workload.status.conditions:
        moment = condition.last_transition_time
        if condition.status == "True" and condition.type in _STEPS and moment is not None:
            yield Milestone(
                at=moment, step=_step_of(condition), reason=condition.reason, message=condition.message
            )
    for check in workload.status.admission_checks:
        if check.state == "Ready" and check.last_transition_time is not None:
            yield Milestone(
                at=check.last_transition_time, step="CheckReady", reason=check.name, message=check.message
            )


def _step_of(condition: Condition) -> str:
    if condition.type == c.EVICTED and condition.reason.startswith(c.DEACTIVATED):
        return "Deactivated"
    return _STEPS[condition.type]


def milestones_of(
    workload: Workload,
    recorded: Iterable[Transition],
    pods_created: datetime | None,
    readable: Callable[[str], str],
) -> tuple[Milestone, ...]:
    """Return the life of a workload in order of time.

    ``pods_created``: when its first pod was, if that is known.  ``readable`` hides what the caller may not
    read in a message.
    """
    milestones = [*_created(workload.metadata.creation_timestamp), *true_steps(workload)]
    if pods_created is not None:
        milestones.append(Milestone(at=pods_created, step="PodsCreated", reason="", message=""))
    return _in_order((*milestones, *map(_recorded, recorded)), readable)


def group_milestones(
    group: PodGroup, recorded: Iterable[Transition], readable: Callable[[str], str]
) -> tuple[Milestone, ...]:
    milestones = [*_created(group.metadata.creation_timestamp), *map(_recorded, recorded)]
    for condition in group.status.conditions:
        moment = condition.last_transition_time
        if condition.status == "True" and condition.type in (SCHEDULED, UNSCHEDULABLE) and moment is not None:
            milestones.append(
                Milestone(at=moment, step=condition.type, reason=condition.reason, message=condition.message)
            )
    return _in_order(milestones, readable)


def _created(moment: datetime | None) -> Iterator[Milestone]:
    if moment is not None:
        yield Milestone(at=moment, step="Created", reason="", message="")
        yield Milestone(at=moment, step="Queued", reason="", message="")


def _recorded(transition: Transition) -> Milestone:
    return Milestone(
        at=transition.at, step=transition.step, reason=transition.reason, message=transition.message
    )


def _in_order(milestones: Iterable[Milestone], readable: Callable[[str], str]) -> tuple[Milestone, ...]:
    """Return each step once, in order of time."""
    once: dict[tuple[datetime, str, str], Milestone] = {}
    for milestone in milestones:
        once.setdefault((milestone.at, milestone.step, milestone.reason), milestone)
    ordered = sorted(
        once.values(),
        key=lambda milestone: (milestone.at, _RANK.get(milestone.step, len(_RANK)), milestone.reason),
    )
    return tuple(replace(milestone, message=readable(milestone.message)) for milestone in ordered)
