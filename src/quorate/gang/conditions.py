"""The conditions of a pod group, and when a new one says nothing new.

A group has at most one condition of each type.  What only names another session or another moment is no
news, and neither is how much was free at the moment: with ten thousand groups waiting, every pod that comes
or goes would have all of them written.  The numbers of the moment are those of when the reason arose.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from quorate.api.meta import ConditionStatus, at_epoch, micro_time
from quorate.api.volcano import READY_TO_BE_SCHEDULED, SCHEDULED, UNSCHEDULABLE, PodGroupCondition

Conditions = tuple[PodGroupCondition, ...]

_AT_THE_MOMENT: Final = re.compile(r"have \S+ now|waits for [0-9]+ pods? to leave")
_BY_NODES: Final = " nodes are available: "  # how many, before; why the others are not, behind
_NUMBER: Final = re.compile(r"[0-9]\S*")


@dataclass(frozen=True, slots=True)
class Stamp:
    """Which session writes a condition, and when."""

    session: str  # its time to the microsecond: no leader has two sessions at once
    moment: datetime


def stamp_of(now: float) -> Stamp:
    """The stamp of the session at ``now``."""
    return Stamp(micro_time(now), at_epoch(now))


def with_unschedulable(conditions: Conditions, reason: str, message: str, stamp: Stamp) -> Conditions:
    """``conditions`` with the group unschedulable; the very same object where that is no news."""
    return _with(conditions, UNSCHEDULABLE, "True", reason, message, stamp)


def with_scheduled(conditions: Conditions, stamp: Stamp, *, clears: bool) -> Conditions:
    """``conditions`` with the group ready; with ``clears`` it is no longer called unschedulable."""
    if clears and any(condition.type == UNSCHEDULABLE for condition in conditions):
        conditions = tuple(condition for condition in conditions if condition.type != UNSCHEDULABLE)
    return _with(conditions, SCHEDULED, "True", READY_TO_BE_SCHEDULED, "", stamp)


def holds(conditions: Conditions, type_: str, reason: str = "") -> bool:
    """Whether the condition is true, for ``reason`` if one is given."""
    return any(
        condition.type == type_ and condition.status == "True" and reason in ("", condition.reason)
        for condition in conditions
    )


def lasting(message: str) -> str:
    """What of ``message`` does not change with every pod that comes or goes."""
    said, by_nodes, why = message.partition(_BY_NODES)
    if by_nodes:
        said, why = said.rstrip("0123456789/"), _NUMBER.sub("", why)
    return _AT_THE_MOMENT.sub("", said) + why


def _with(
    conditions: Conditions, type_: str, status: ConditionStatus, reason: str, message: str, stamp: Stamp
) -> Conditions:
    new = PodGroupCondition(
        type=type_,
        status=status,
        transition_id=stamp.session,
        last_transition_time=stamp.moment,
        reason=reason,
        message=message,
    )
    for index, old in enumerate(conditions):
        if old.type == type_:
            if (old.status, old.reason, lasting(old.message)) == (status, reason, lasting(message)):
                return conditions
            if old.status == status and old.last_transition_time is not None:
                new = msgspec.structs.replace(new, last_transition_time=old.last_transition_time)
            return (*conditions[:index], new, *conditions[index + 1 :])
    return (*conditions, new)
