"""Durations and ages in tables: at most two units, fewer for long durations."""

from datetime import UTC, datetime

MINUTE, HOUR, DAY, YEAR = 60, 3600, 86_400, 365 * 86_400

_STEPS = (
    # (upper bound in seconds, unit, its letter, second unit or 0, its letter)
    (2 * MINUTE, 1, "s", 0, ""),
    (10 * MINUTE, MINUTE, "m", 1, "s"),
    (3 * HOUR, MINUTE, "m", 0, ""),
    (8 * HOUR, HOUR, "h", MINUTE, "m"),
    (2 * DAY, HOUR, "h", 0, ""),
    (8 * DAY, DAY, "d", HOUR, "h"),
    (2 * YEAR, DAY, "d", 0, ""),
    (8 * YEAR, YEAR, "y", DAY, "d"),
)


def human_duration(duration_s: float) -> str:
    """Return `45s`, `4m12s`, `2d5h`, `3y40d`; `<invalid>` if more than a second in the future."""
    seconds = int(duration_s)
    if seconds < -1:
        return "<invalid>"
    seconds = max(seconds, 0)
    for below, unit, letter, second, second_letter in _STEPS:
        if seconds < below:
            rest = seconds % unit // second if second else 0
            return f"{seconds // unit}{letter}" + (f"{rest}{second_letter}" if rest else "")
    return f"{seconds // YEAR}y"


_UNITS = ((2 * DAY, DAY, "days"), (2 * HOUR, HOUR, "hours"), (2 * MINUTE, MINUTE, "minutes"))


def spelled_duration(duration_s: float) -> str:
    """Return `90 seconds`, `40 minutes`, `3 hours` or `5 days`: the largest unit of which there are two."""
    for least, unit, name in _UNITS:
        if duration_s >= least:
            return f"{int(duration_s // unit)} {name}"
    seconds = max(0, int(duration_s))
    return f"{seconds} second{'' if seconds == 1 else 's'}"


def epoch(time: str) -> float:
    """Return the epoch seconds of an RFC 3339 time.  Raises ValueError."""
    moment = datetime.fromisoformat(time)
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def age(time: str | None, now: float) -> str:
    """Return the age of an RFC 3339 time; `<unknown>` if empty."""
    return human_duration(now - epoch(time)) if time else "<unknown>"
