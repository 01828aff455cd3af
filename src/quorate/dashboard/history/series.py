"""Series for charts from stored samples: means over equal intervals, for a caller."""

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from quorate.api.meta import at_epoch
from quorate.dashboard.history.recorder import ADMITTED_COUNT, PENDING_COUNT, WAITS
from quorate.dashboard.history.store import StoredSample, mean_of
from quorate.dashboard.schema import Sample, Series

Range = Literal["hour", "day", "week", "month"]
SOURCE: Final = "history of this dashboard"
# By range: its length and the interval of its samples, in seconds.
RANGES: Final[dict[Range, tuple[int, int]]] = {
    "hour": (3_600, 10),
    "day": (86_400, 300),
    "week": (7 * 86_400, 1_800),
    "month": (30 * 86_400, 7_200),
}


def first_interval(range_: Range, now: float) -> int:
    """Return the begin of the first interval of a range that ends now."""
    length_s, interval_s = RANGES[range_]
    return (int(now) - length_s) // interval_s * interval_s + interval_s


def no_series(range_: Range) -> Series:
    """Return the series of a dashboard without a history."""
    return Series(interval_s=RANGES[range_][1], names=(), samples=(), source="no history is kept")


def series_of(samples: Iterable[StoredSample], range_: Range) -> Series:
    """Return the means of the samples of ``subject``; intervals without samples are left out."""
    return _series(_by_interval(samples, range_), range_)


def sum_of_queues(samples: Iterable[StoredSample], range_: Range) -> Series:
    """Return the series of an overview from the samples of some cluster queues; waits are not known."""
    of_queues: dict[int, list[StoredSample]] = {}
    for (_, at), sample in _by_interval(samples, range_).items():
        of_queues.setdefault(at, []).append(sample)
    return _series({("", at): _sum(at, group) for at, group in of_queues.items()}, range_)


def _by_interval(samples: Iterable[StoredSample], range_: Range) -> dict[tuple[str, int], StoredSample]:
    interval_s = RANGES[range_][1]
    groups: dict[tuple[str, int], list[StoredSample]] = {}
    for sample in samples:
        groups.setdefault((sample.subject, sample.at // interval_s * interval_s), []).append(sample)
    return {(subject, at): mean_of(subject, interval_s, at, group) for (subject, at), group in groups.items()}


def _sum(at: int, group: Sequence[StoredSample]) -> StoredSample:
    counts = {
        name: sum(sample.means.get(name, 0.0) for sample in group) for name in (PENDING_COUNT, ADMITTED_COUNT)
    }
    amounts: dict[tuple[str, str], float] = {}  # by resource, and "used" or "nominal"
    for sample in group:
        for name, value in sample.means.items():
            pair, _, what = name.rpartition(" ")
            if what in ("used", "nominal"):
                key = pair.partition("/")[2], what
                amounts[key] = amounts.get(key, 0.0) + value
    shares = {
        f"{resource} used share": amounts.get((resource, "used"), 0.0) / nominal
        for (resource, what), nominal in sorted(amounts.items())
        if what == "nominal" and nominal > 0
    }
    return StoredSample("", 0, at, 1, counts | shares)


def _series(samples: dict[tuple[str, int], StoredSample], range_: Range) -> Series:
    names = {name for sample in samples.values() for name in sample.means}
    return Series(
        interval_s=RANGES[range_][1],
        names=(ordered := in_order(names)),
        samples=tuple(
            Sample(at=at_epoch(at), values=tuple(sample.means.get(name) for name in ordered))
            for (_, at), sample in sorted(samples.items(), key=lambda entry: entry[0][1])
        ),
        source=SOURCE,
    )


def in_order(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names in the order that ``Series`` documents."""
    first = (PENDING_COUNT, ADMITTED_COUNT)

    def rank(name: str) -> tuple[int, str, bool]:
        if name in first:
            return first.index(name), "", False
        pair, _, what = name.rpartition(" ")
        return (3 if name in WAITS else 2), pair, what == "nominal" or name == "wait p90"

    return tuple(sorted(names, key=rank))
