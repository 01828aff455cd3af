"""Sets of completion indexes, as ranges: a job may have two billion of them.

Their text is documented with ``status.completedIndexes`` in batch/v1: increasing, separated by commas, with
three and more consecutive indexes as a range.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice

Range = tuple[int, int]  # first index, and the index after the last


class IndexSet:
    """An immutable set of indexes.  Its size is that of its text, whatever number of indexes it has."""

    __slots__ = ("_ranges",)

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        """Build the union of ``ranges``, which may be in any order, overlap or be empty."""
        merged: list[Range] = []
        for first, end in sorted(ranges):
            if first >= end:
                continue
            if merged and first <= merged[-1][1]:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((first, end))
        self._ranges = tuple(merged)

    @classmethod
    def of(cls, indexes: Iterable[int]) -> "IndexSet":
        return cls((index, index + 1) for index in indexes)

    def __len__(self) -> int:
        return sum(end - first for first, end in self._ranges)

    def __contains__(self, index: int | None) -> bool:
        if index is None:
            return False
        at = bisect_right(self._ranges, index, key=lambda interval: interval[0]) - 1
        return at >= 0 and index < self._ranges[at][1]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IndexSet) and self._ranges == other._ranges

    def __hash__(self) -> int:
        return hash(self._ranges)

    def __or__(self, other: "IndexSet") -> "IndexSet":
        return IndexSet((*self._ranges, *other._ranges))

    def __and__(self, other: "IndexSet") -> "IndexSet":
        return self - (self - other)

    def __sub__(self, other: "IndexSet") -> "IndexSet":
        return IndexSet(
            gap for first, end in self._ranges for gap in _gaps(other._overlapping(first, end), first, end)
        )

    def missing(self, end: int, most: int) -> list[int]:
        """Return the first ``most`` indexes below ``end`` that are not in the set."""
        gaps = _gaps(self._ranges, 0, end)
        return list(islice((index for first, stop in gaps for index in range(first, stop)), most))

    def _overlapping(self, first: int, end: int) -> Iterator[Range]:
        start = max(0, bisect_right(self._ranges, first, key=lambda interval: interval[0]) - 1)
        for interval in islice(self._ranges, start, None):
            if interval[0] >= end:
                return
            if interval[1] > first:
                yield interval

    def __str__(self) -> str:
        return ",".join(_format_range(first, end - 1) for first, end in self._ranges)


def _gaps(ranges: Iterable[Range], first: int, end: int) -> Iterator[Range]:
    """Yield what increasing ``ranges`` leave of ``first`` to ``end``."""
    for start, stop in ranges:
        if start >= end:
            break
        if start > first:
            yield first, start
        first = max(first, stop)
    if first < end:
        yield first, end


def _format_range(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first}-{last}" if last - first > 1 else f"{first},{last}"


def parse_indexes(text: str, completions: int) -> IndexSet:
    """Parse the indexes in ``text`` below ``completions``, as an elastic job may have shrunk.

    Raises ``ValueError`` for invalid text.
    """
    ranges = []
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        ranges.append((int(first), min(int(last or first), completions - 1) + 1))
    return IndexSet(ranges)
