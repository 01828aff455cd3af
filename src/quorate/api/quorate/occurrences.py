"""When a Reservation begins and ends: its next occurrences, from the spec and the time alone.

A recurrence is expanded by dateutil, of which a search ends only at a date that matches the rule.  The rules
that the schema admits match within a few years, and ``recurrence_problem`` refuses all others, which a server
without the schema may have stored.  A search begins shortly before the time it is asked for, never at a start
long ago, unless the rule has a COUNT, which is at most 999.
"""

import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Final, NamedTuple

from quorate.api.meta import epoch
from quorate.api.quorate import ReservationSpec

if TYPE_CHECKING:
    from dateutil.rrule import rrule

MAX_OCCURRENCES: Final = 32  # that are computed at once
_FIRST_START: Final = datetime(2000, 1, 1, tzinfo=UTC)
_MAX_DURATION_S: Final = 366 * 86_400
_LAST: Final = datetime(9000, 1, 1, tzinfo=UTC)  # of a start: later dates end the calendar

_DAY: Final = "(MO|TU|WE|TH|FR|SA|SU)"
_NUMBERS: Final = {
    "BYMONTH": "([1-9]|1[0-2])",
    "BYMONTHDAY": "-?([1-9]|1[0-9]|2[0-8])",
    "BYDAY": f"([+-]?[1-4])?{_DAY}",
    "BYHOUR": "(1?[0-9]|2[0-3])",
    "BYMINUTE": "[1-5]?[0-9]",
}
_PARTS: Final = (
    "INTERVAL=[1-9][0-9]{0,2}",
    "COUNT=[1-9][0-9]{0,2}",
    "UNTIL=[0-9]{8}T[0-9]{6}Z",
    f"WKST={_DAY}",
    *(f"{name}={item}(,{item})*" for name, item in _NUMBERS.items()),
    "BYSETPOS=-?1",
)
RECURRENCE: Final = f"^FREQ=(DAILY|WEEKLY|MONTHLY|YEARLY)(;({'|'.join(_PARTS)}))*$"
_RECURRENCE: Final = re.compile(RECURRENCE)
_MAX_LENGTH: Final = 256


class Interval(NamedTuple):
    """A half-open interval of epoch seconds."""

    opens: float
    closes: float


def occurrences(spec: ReservationSpec, now: float) -> tuple[Interval, ...]:
    """Return the occurrences that end after ``now``, in order, at most ``MAX_OCCURRENCES``.

    Occurrences that overlap or touch each other are one.  A spec that ``spec_problem`` refuses has none.
    """
    if spec_problem(spec) is not None:
        return ()
    duration_s = _duration_s(spec)
    if not spec.recurrence:
        opens = epoch(spec.start)
        return (Interval(opens, opens + duration_s),) if opens + duration_s > now else ()
    merged: list[Interval] = []
    for start in islice(_starts(spec, now - duration_s), MAX_OCCURRENCES):
        opens = epoch(start)
        if merged and opens <= merged[-1].closes:
            merged[-1] = Interval(merged[-1].opens, opens + duration_s)
        else:
            merged.append(Interval(opens, opens + duration_s))
    return tuple(merged)


class Occurrences:
    """The next windows of a rule, computed once for all questions about them.

    They are computed again only when the first one has ended, or when a caller passes an earlier time.
    """

    __slots__ = ("_known", "_requested_at", "_spec")

    def __init__(self, spec: ReservationSpec) -> None:
        self._spec = spec
        self._requested_at = math.inf  # the earliest time for which ``_known`` holds
        self._known: tuple[Interval, ...] = ()

    def at(self, now: float) -> tuple[Interval, ...]:
        """Return the occurrences that end after ``now``, in order; see ``occurrences``."""
        intervals = self._known
        if now < self._requested_at or (intervals and intervals[0].closes <= now):
            self._requested_at, self._known = now, occurrences(self._spec, now)
        return self._known


def spec_problem(spec: ReservationSpec) -> str | None:
    """Return why a spec has no occurrences, which a server with the schema does not store; None: it has."""
    if spec.start.tzinfo is None or (spec.end is not None and spec.end.tzinfo is None):
        return "spec.start and spec.end require a time zone"
    if not _FIRST_START <= spec.start <= _LAST:
        return "spec.start is not between the years 2000 and 9000"
    if (spec.end is None) == (spec.duration_seconds is None):
        return "either spec.end or spec.durationSeconds is required"
    if spec.end is not None and spec.end <= spec.start:
        return "spec.end is not after spec.start"
    if not 0 < _duration_s(spec) <= (_MAX_DURATION_S if spec.end is None else float("inf")):
        return "the duration is not between 1 s and 366 days"
    return _amounts_problem(spec) or recurrence_problem(spec.recurrence)


def _amounts_problem(spec: ReservationSpec) -> str | None:
    negative = (
        f"spec.amounts: {resource} of flavor {amounts.flavor} is negative"
        for amounts in spec.amounts
        for resource, quantity in amounts.resources.items()
        if quantity.nanos < 0
    )
    if spec.nodes is not None and spec.nodes.count is not None and spec.nodes.count < 1:
        return "spec.nodes.count is not a positive number"
    if spec.notice_seconds < 0:
        return "spec.noticeSeconds is negative"
    return next(negative, None)


def recurrence_problem(rule: str) -> str | None:
    """Return why a recurrence is refused; None if it is used, or empty."""
    if not rule:
        return None
    if len(rule) > _MAX_LENGTH or _RECURRENCE.fullmatch(rule) is None:
        return (
            "spec.recurrence is not a rule that Reservations support (write FREQ=DAILY, WEEKLY, MONTHLY or "
            "YEARLY first; times are in UTC)"
        )
    parts = _parts(rule)
    frequency = parts["FREQ"]
    if "UNTIL" in parts and not _is_moment(parts["UNTIL"]):
        return "spec.recurrence: UNTIL is not a date and time"
    by_day, by_month_day = "BYDAY" in parts, "BYMONTHDAY" in parts
    excluded = (
        ("COUNT" in parts and "UNTIL" in parts, "COUNT and UNTIL exclude each other"),
        (by_day and by_month_day, "BYDAY and BYMONTHDAY exclude each other"),
        (
            by_month_day and frequency not in ("MONTHLY", "YEARLY"),
            "BYMONTHDAY requires FREQ=MONTHLY or FREQ=YEARLY",
        ),
        (
            "BYMONTH" in parts and (frequency != "YEARLY" or not (by_day or by_month_day)),
            "BYMONTH requires FREQ=YEARLY with BYDAY or BYMONTHDAY",
        ),
        (frequency == "DAILY" and by_day and "INTERVAL" in parts, "BYDAY excludes INTERVAL with FREQ=DAILY"),
    )
    return next((f"spec.recurrence: {text}" for holds, text in excluded if holds), None)


def _parts(rule: str) -> dict[str, str]:
    return dict(part.split("=") for part in rule.split(";"))


def _is_moment(text: str) -> bool:
    try:
        datetime.strptime(text, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError:
        return False
    return True


def _duration_s(spec: ReservationSpec) -> float:
    if spec.end is not None:
        return epoch(spec.end) - epoch(spec.start)
    return spec.duration_seconds or 0


def _starts(spec: ReservationSpec, after: float) -> Iterator[datetime]:
    """Yield the starts of a recurrence later than ``after``, in order."""
    first = spec.start.astimezone(UTC).replace(tzinfo=None, microsecond=0)
    limit = _at(after)
    rule = _rule(spec.recurrence, first if "COUNT=" in spec.recurrence else _anchor(spec, first, limit))
    for start in rule:
        if start >= first and start > limit:
            yield start.replace(tzinfo=UTC)


def _at(moment: float) -> datetime:
    """Return the time without a zone, UTC, within the years that a search may reach."""
    return datetime.fromtimestamp(min(max(0.0, moment), epoch(_LAST)), UTC).replace(tzinfo=None)


def _anchor(spec: ReservationSpec, first: datetime, limit: datetime) -> datetime:
    """Return a start for a rule without COUNT, in phase with ``first`` and shortly before ``limit``."""
    parts = _parts(spec.recurrence)
    interval = int(parts.get("INTERVAL", "1"))
    if limit <= first:
        return first
    match parts["FREQ"]:
        case "DAILY" | "WEEKLY":
            period = timedelta(days=interval * (7 if parts["FREQ"] == "WEEKLY" else 1))
            return first + max(0, (limit - first) // period - 1) * period
        case frequency:
            years = limit.year - first.year
            months = years * 12 + limit.month - first.month
            step = interval * (12 if frequency == "YEARLY" else 1)
            skipped = max(0, months // step - 1) * step
            years, month = divmod(first.month - 1 + skipped, 12)
            # The 29th to 31st, on which a rule without a day recurs, are not in every month.
            has_day = "BYDAY" in parts or "BYMONTHDAY" in parts
            if first.day > 28 and not has_day:
                return first
            return first.replace(year=first.year + years, month=month + 1, day=min(first.day, 28))


@lru_cache(maxsize=256)
def _rule(recurrence: str, start: datetime) -> "rrule":
    from dateutil.rrule import rrulestr  # only clusters with a recurrence need it

    rule: rrule = rrulestr(recurrence.replace("Z", ""), dtstart=start)
    return rule
