"""Schedules of CronJobs: five fields or a descriptor such as `@daily`, as Kubernetes reads them.

The rules are those of robfig/cron v3 (`ParseStandard`, `SpecSchedule.Next`): days match by day of month *or*
day of week if both are restricted, Sunday is 0 only, and a local time that the change to daylight saving
time skips does not occur. Why no library does this: docs/decisions/0018-cron-schedules.md.
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from quorate.api.syntax import InvalidDuration, parse_duration

YEARS_AHEAD: Final = 5  # a schedule such as 30 February has no time
DESCRIPTORS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_ZONE_PART: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_+.-]*")


class InvalidSchedule(ValueError):
    """A schedule or a time zone that cannot be read."""


@dataclass(frozen=True, slots=True)
class _Field:
    """The values that match one field of a schedule, such as the minutes 0 and 30."""

    values: frozenset[int]
    any: bool
    """The field is `*` or `?`: it does not restrict the schedule."""


@dataclass(frozen=True, slots=True)
class _Unit:
    name: str
    low: int
    high: int
    words: tuple[str, ...] = ()


_UNITS: Final = (
    _Unit("minute", 0, 59),
    _Unit("hour", 0, 23),
    _Unit("day of month", 1, 31),
    _Unit("month", 1, 12, _MONTHS),
    _Unit("day of week", 0, 6, _WEEKDAYS),
)


@dataclass(frozen=True, slots=True)
class Schedule:
    """The times of a schedule in a time zone."""

    minutes: _Field
    hours: _Field
    days: _Field
    months: _Field
    weekdays: _Field
    zone: ZoneInfo

    def next_after(self, moment: float) -> float | None:
        """Return the first time after `moment`, in epoch seconds; None if no time matches in five years."""
        at = datetime.fromtimestamp(int(moment // 60 + 1) * 60, self.zone)
        last_year = at.year + YEARS_AHEAD
        is_reset = False  # the parts below the one that advances are at their lowest
        while at.year <= last_year:
            if at.month not in self.months.values:
                start = at if is_reset else self._at(at, day=1, hour=0, minute=0)
                year, month = start.year + start.month // 12, start.month % 12 + 1
                at = self._at(start, year=year, month=month, day=1)
                at = self._at(at + timedelta(days=start.day - 1))
            elif not self._matches_day(at):
                start = at if is_reset else self._at(at, hour=0, minute=0)
                at = self._midnight(self._at(start + timedelta(days=1)))
            elif at.hour not in self.hours.values:
                at = _later(at if is_reset else self._at(at, minute=0), timedelta(hours=1))
            elif at.minute not in self.minutes.values:
                at = _later(at, timedelta(minutes=1))
            else:
                return at.timestamp()
            is_reset = True
        return None

    def _at(self, at: datetime, **changed: int) -> datetime:
        """Return a time on the wall clock; a skipped or repeated time is resolved as by Go's `time.Date`."""
        wall = at.replace(tzinfo=UTC, fold=0, **changed)
        guess = wall - (wall.astimezone(self.zone).utcoffset() or timedelta())
        offset = guess.astimezone(self.zone).utcoffset() or timedelta()
        return (wall - offset).astimezone(self.zone)

    def _midnight(self, at: datetime) -> datetime:
        """Return the midnight next to a time; the change to daylight saving time may skip midnight."""
        hours = 24 - at.hour if at.hour > 12 else -at.hour
        return _later(at, timedelta(hours=hours)) if at.hour else at

    def _matches_day(self, at: datetime) -> bool:
        by_month, by_week = at.day in self.days.values, at.isoweekday() % 7 in self.weekdays.values
        return by_month and by_week if self.days.any or self.weekdays.any else by_month or by_week


@dataclass(frozen=True, slots=True)
class ConstantDelay:
    """`@every 90s`: a fixed time after the previous one."""

    delay_s: int

    def next_after(self, moment: float) -> float:
        return int(moment) + self.delay_s


@lru_cache(maxsize=1000)
def parse_schedule(text: str, zone: str = "UTC") -> Schedule | ConstantDelay:
    """Parse a schedule.  Raises InvalidSchedule."""
    if text.startswith("@every "):
        return ConstantDelay(_delay_s(text.removeprefix("@every ")))
    fields = DESCRIPTORS.get(text, text).split()
    if text.startswith("@") and text not in DESCRIPTORS:
        raise InvalidSchedule(f"unrecognized descriptor: {text}")
    if len(fields) != len(_UNITS):
        raise InvalidSchedule(f"expected exactly {len(_UNITS)} fields, found {len(fields)}: [{text}]")
    minutes, hours, days, months, weekdays = (
        _field(field, unit) for field, unit in zip(fields, _UNITS, strict=True)
    )
    return Schedule(minutes, hours, days, months, weekdays, time_zone(zone))


def time_zone(name: str) -> ZoneInfo:
    """Return the time zone of a name of the IANA database.  Raises InvalidSchedule."""
    with suppress(ZoneInfoNotFoundError, ValueError, OSError):
        if all(_ZONE_PART.fullmatch(part) for part in name.split("/")):
            return ZoneInfo(name)
    raise InvalidSchedule(f"unknown time zone {name}")


def _field(text: str, unit: _Unit) -> _Field:
    values: set[int] = set()
    is_any = False
    for part in text.split(","):
        span, slash, step_text = part.partition("/")
        first, dash, last = span.partition("-")
        step = _number(step_text, unit) if slash else 1
        if span in ("*", "?"):
            low, high = unit.low, unit.high
            is_any = is_any or step == 1
        else:
            low = _number(first, unit)
            high = _number(last, unit) if dash else unit.high if slash else low
        if low < unit.low or high > unit.high or low > high or step < 1:
            raise InvalidSchedule(f"{unit.name} must be from {unit.low} to {unit.high}, rising: {part}")
        values.update(range(low, high + 1, step))
    return _Field(frozenset(values), is_any)


def _number(text: str, unit: _Unit) -> int:
    if text.lower() in unit.words:
        return unit.words.index(text.lower()) + unit.low
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise InvalidSchedule(f"failed to parse int from {text!r} in {unit.name}")
    return int(text)


def _delay_s(text: str) -> int:
    try:
        return max(int(parse_duration(text)), 1)
    except InvalidDuration as error:
        raise InvalidSchedule(f"failed to parse duration @every {text}: {error}") from error


def _later(at: datetime, span: timedelta) -> datetime:
    """Return the time that is `span` later on the clock of the universe, not on the wall."""
    return (at.astimezone(UTC) + span).astimezone(at.tzinfo)
