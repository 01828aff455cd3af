"""The conditions of a pod group, and when a new condition is equivalent to the old one.

A group has at most one condition of each type.  Conditions that differ only in session, time or in the
amounts that are free at the moment are equivalent: with ten thousand waiting groups, every pod that starts or
ends would otherwise cause a write for each of them.  The amounts in a condition are those when its reason
began, until they are renewed.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Final

import msgspec

from quorate.api.meta import ConditionStatus, at_epoch, micro_time
from quorate.api.volcano import READY_TO_BE_SCHEDULED, SCHEDULED, UNSCHEDULABLE, PodGroupCondition

Conditions = tuple[PodGroupCondition, ...]

# What messages of reasons with equal ``equivalence_key`` may differ in.
_CURRENT_AMOUNTS: Final = re.compile(
    r"need \S+ have \S+ of \S+ now|have \S+ now| \(\S+ without overcommit\)|"
    r"[0-9]+ of (?=[0-9]+ members fit)|have \S+ on the best of [0-9]+ nodes?|"
    r", waits for [0-9]+ pods? to leave|[0-9]+ of [0-9]+ pod groups?(?= had their turn)|"
    r"room for [0-9]+ \(\S+\)(?:, and by resources alone for [0-9]+)?"
)
_NODES_AVAILABLE: Final = " nodes are available: "  # between the numbers of nodes and the reasons of nodes
_NUMBER: Final = re.compile(r"[0-9]\S*")


@dataclass(frozen=True, slots=True)
class TransitionStamp:
    """The session that writes a condition, and its time."""

    session: str  # its time to the microsecond: no leader has two sessions at once
    time: datetime


def transition_stamp(now: float) -> TransitionStamp:
    return TransitionStamp(micro_time(now), at_epoch(now))


def with_unschedulable(
    conditions: Conditions, reason: str, message: str, stamp: TransitionStamp
) -> Conditions:
    """Return ``conditions`` with Unschedulable; the same object if that is equivalent."""
    return _with(conditions, UNSCHEDULABLE, "True", reason, message, stamp)


def with_scheduled(
    conditions: Conditions, stamp: TransitionStamp, *, message: str = "", clears: bool
) -> Conditions:
    """Return ``conditions`` with Scheduled; ``clears`` removes Unschedulable."""
    conditions = without_unschedulable(conditions) if clears else conditions
    return _with(conditions, SCHEDULED, "True", READY_TO_BE_SCHEDULED, message, stamp)


def without_unschedulable(conditions: Conditions) -> Conditions:
    """Return ``conditions`` without Unschedulable; the same object if they have none."""
    kept = tuple(condition for condition in conditions if condition.type != UNSCHEDULABLE)
    return conditions if len(kept) == len(conditions) else kept


def renewed(conditions: Conditions, message: str, stamp: TransitionStamp) -> Conditions:
    """Return ``conditions`` with ``message`` for Unschedulable, which began no later; or the same object."""
    new = [
        msgspec.structs.replace(condition, message=message, transition_id=stamp.session)
        if condition.type == UNSCHEDULABLE and condition.message != message
        else condition
        for condition in conditions
    ]
    return conditions if new == list(conditions) else tuple(new)


def written_before(conditions: Conditions, moment: float) -> bool:
    """Return True if a session before ``moment`` wrote Unschedulable."""
    return any(
        condition.type == UNSCHEDULABLE and condition.transition_id < micro_time(moment)
        for condition in conditions
    )


def stable_part(message: str) -> str:
    """Return ``message`` without the parts that change with every pod that starts or ends."""
    numbers, separator, reasons = _CURRENT_AMOUNTS.sub("", message).partition(_NODES_AVAILABLE)
    return numbers.rstrip("0123456789/") + _NUMBER.sub("", reasons) if separator else numbers


def _with(
    conditions: Conditions,
    type_: str,
    status: ConditionStatus,
    reason: str,
    message: str,
    stamp: TransitionStamp,
) -> Conditions:
    new = PodGroupCondition(
        type=type_,
        status=status,
        transition_id=stamp.session,
        last_transition_time=stamp.time,
        reason=reason,
        message=message,
    )
    for index, old in enumerate(conditions):
        if old.type == type_:
            if (old.status, old.reason, stable_part(old.message)) == (status, reason, stable_part(message)):
                return conditions
            if old.status == status and old.last_transition_time is not None:
                new = msgspec.structs.replace(new, last_transition_time=old.last_transition_time)
            return (*conditions[:index], new, *conditions[index + 1 :])
    return (*conditions, new)
