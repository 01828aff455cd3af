"""Partial admission: the search for the largest pod counts that can be admitted (KEP-420).

Pod sets give up pods in proportion to their ranges: step *h* of *T* takes ``range × h // T`` from each, where
*T* is the sum of the ranges.  A larger range loses more pods, and truncation favors small ranges.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

T = TypeVar("T")


class PodSetCounts(msgspec.Struct, frozen=True):
    """The requested and the minimum number of pods of one pod set."""

    requested: int
    minimum: int


def reduce_counts(counts: Sequence[PodSetCounts], attempt: Callable[[tuple[int, ...]], T | None]) -> T | None:
    """Return the result of ``attempt`` for the largest counts for which it has one; None if it has none.

    The search is binary, about log *T* attempts: it assumes that a workload that fits with some counts also
    fits with smaller ones.  Full counts are attempted only if the search arrives there.  Without a range
    there is no attempt.
    """
    ranges = [count.requested - count.minimum for count in counts]
    steps = sum(ranges)
    best: T | None = None
    low, high = 0, steps  # the answer, if there is one, is in [low, high]
    while steps and low <= high:
        step = (low + high) // 2
        result = attempt(
            tuple(
                count.requested - spare * step // steps for count, spare in zip(counts, ranges, strict=True)
            )
        )
        if result is None:
            low = step + 1
        else:
            best, high = result, step - 1
    return best
