"""The status of a Reservation as a function of its spec, of what conflicts with it, and of the time."""

from collections.abc import Sequence
from typing import NamedTuple

from quorate.api.meta import Condition, ConditionStatus, at_epoch, is_true, with_condition
from quorate.api.quorate import ACTIVE, CONFLICTING, ENDED, SCHEDULED, Reservation, ReservationStatus
from quorate.api.quorate.occurrences import Interval, occurrences, spec_problem
from quorate.queueing.conditions import new_condition
from quorate.queueing.lifecycle.transition import Event


class ReservationStep(NamedTuple):
    """The status to write, the events about it, and when it changes next (epoch seconds)."""

    status: ReservationStatus
    events: tuple[Event, ...]
    wake_at: float | None


def decide_reservation(reservation: Reservation, conflicts: Sequence[str], now: float) -> ReservationStep:
    """Return the next status of a Reservation; ``conflicts`` has a sentence for each conflict."""
    windows = occurrences(reservation.spec, now)
    current = windows[0] if windows else None
    is_active = current is not None and current.opens <= now
    old = reservation.status.conditions
    new = old
    for type_, status, reason, message in _conditions(reservation, current, conflicts, is_active=is_active):
        generation = reservation.metadata.generation
        new = with_condition(new, new_condition(type_, status, reason, message, now, generation))
    if current is None:
        start, end = reservation.status.start, reservation.status.end
        ended = ReservationStatus(start=start, end=end, conditions=new)
        return ReservationStep(ended, _events(old, new), None)
    shown = ReservationStatus(start=at_epoch(current.opens), end=at_epoch(current.closes), conditions=new)
    wake_at = current.closes if is_active else current.opens
    return ReservationStep(shown, _events(old, new), wake_at)


def _conditions(
    reservation: Reservation, current: Interval | None, conflicts: Sequence[str], *, is_active: bool
) -> Sequence[tuple[str, ConditionStatus, str, str]]:
    problem = spec_problem(reservation.spec)
    if problem is not None:
        return (
            (SCHEDULED, "False", "Invalid", problem),
            (ACTIVE, "False", "Invalid", problem),
            (CONFLICTING, "False", "Invalid", problem),
            (ENDED, "False", "Invalid", problem),
        )
    if current is None:
        text = "no window follows"
        return (
            (SCHEDULED, "False", "Ended", text),
            (ACTIVE, "False", "Ended", text),
            (CONFLICTING, "False", "Ended", text),
            (ENDED, "True", "Ended", text),
        )
    start, end = (f"{at_epoch(moment):%Y-%m-%d %H:%M:%S} UTC" for moment in current)
    text = f"from {start} to {end}"
    conflicting: tuple[str, ConditionStatus, str, str] = (CONFLICTING, "False", "NoConflict", "")
    if conflicts:
        conflicting = (CONFLICTING, "True", "Conflict", "; ".join(conflicts))
    return (
        (SCHEDULED, "True", "Scheduled", text),
        (ACTIVE, "True", "Started", text) if is_active else (ACTIVE, "False", "NotStarted", text),
        conflicting,
        (ENDED, "False", "NotEnded", ""),
    )


def _events(old: Sequence[Condition], new: Sequence[Condition]) -> tuple[Event, ...]:
    """Return the events of the conditions that became or ceased to be true."""
    events: list[Event] = []
    for condition in new:
        was = is_true(old, condition.type)
        holds = condition.status == "True"
        if condition.type == ACTIVE and holds != was:
            reason = "ReservationStarted" if holds else "ReservationEnded"
            events.append(Event("Normal", reason, condition.message))
        elif condition.type == CONFLICTING and holds and not was:
            events.append(Event("Warning", "ReservationConflicting", condition.message))
        elif condition.type == SCHEDULED and condition.reason == "Invalid" and not _has(old, condition):
            events.append(Event("Warning", "ReservationInvalid", condition.message))
    return tuple(events)


def _has(conditions: Sequence[Condition], wanted: Condition) -> bool:
    return any((one.type, one.reason) == (wanted.type, wanted.reason) for one in conditions)
