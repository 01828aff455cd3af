"""The annotations by which a cluster queue opts into planned starts, read once for each version of it."""

from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from msgspec.structs import replace

from quorate.api.configuration.planned_starts import (
    BACKFILL,
    BACKFILL_MODES,
    LEAST_MAXIMUM_S,
    MAX_DEPTH,
    MAX_SLACK,
    ON_OVERRUN,
    PlannedStartRules,
)
from quorate.api.syntax import InvalidDuration, parse_duration, positive_int32

DEPTH: Final = "quorate.dev/backfill-depth"
SLACK: Final = "quorate.dev/backfill-slack-percent"
RESERVE_AFTER: Final = "quorate.dev/reserve-after"
DEFAULT_MAXIMUM: Final = "quorate.dev/default-maximum-execution-time"
OVERRUN: Final = "quorate.dev/on-overrun"

T = TypeVar("T")


class _Invalid(ValueError):
    """An annotation violates a rule; the text completes the sentence "annotation: value ..."."""


def annotated_rules(
    annotations: Mapping[str, str], defaults: PlannedStartRules
) -> tuple[PlannedStartRules, tuple[str, ...]]:
    """Return the rules of a cluster queue, and one text for each annotation that does not count.

    An annotation that cannot be read leaves the default, as if it were not there.
    """
    if annotations.keys().isdisjoint(_READERS):
        return defaults, ()
    annotated: dict[str, object] = {}
    findings: list[str] = []
    for name, (attribute, read) in _READERS.items():
        if name in annotations:
            try:
                annotated[attribute] = read(annotations[name])
            except _Invalid as invalid:
                findings.append(f"metadata.annotations[{name}]: {annotations[name][:60]!r} {invalid}")
    return replace(defaults, **annotated), tuple(findings)


def _one_of(options: tuple[T, ...]) -> Callable[[str], T]:
    def read(text: str) -> T:
        for option in options:
            if text == option:
                return option
        raise _Invalid(f"is not allowed here (write {', '.join(map(str, options))})")

    return read


def _depth(text: str) -> int:
    depth = positive_int32(text)
    if depth is None or depth > MAX_DEPTH:
        raise _Invalid(f"is not a whole number from 1 to {MAX_DEPTH} (write 10)")
    return depth


def _slack(text: str) -> int:
    percent = 0 if text == "0" else positive_int32(text)
    if percent is None or percent > MAX_SLACK:
        raise _Invalid(f"is not a whole number from 0 to {MAX_SLACK} (write 50)")
    return percent


def _duration(least_s: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            seconds = parse_duration(text)
        except InvalidDuration as invalid:
            raise _Invalid("is not a duration (write 10m, 1h30m or 500ms)") from invalid
        if seconds < least_s:
            raise _Invalid(f"is too short, must be at least {least_s:g}s")
        return seconds

    return read


# By annotation the attribute of the rules, and how its text is read.
_READERS: Final[Mapping[str, tuple[str, Callable[[str], object]]]] = {
    BACKFILL: ("backfill", _one_of(BACKFILL_MODES)),
    DEPTH: ("depth", _depth),
    SLACK: ("slack_percent", _slack),
    RESERVE_AFTER: ("reserve_after_s", _duration(0.0)),
    DEFAULT_MAXIMUM: ("default_maximum_s", _duration(LEAST_MAXIMUM_S)),
    OVERRUN: ("on_overrun", _one_of(ON_OVERRUN)),
}
