"""Partial admission: how many pods to do without, when not all of them fit (KEP-420).

Pod sets give up pods in proportion to what each can spare: step *h* of *T* takes ``range × h // T`` from
each, where *T* is the sum of the ranges.  A larger range loses more, and truncation favours small ranges.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

T = TypeVar("T")


class PodSetCounts(NamedTuple):
    """Of one pod set: how many pods it wants, and how few it can do with."""

    wanted: int
    least: int


def reduce_counts(counts: Sequence[PodSetCounts], attempt: Callable[[tuple[int, ...]], T | None]) -> T | None:
    """The result of ``attempt`` for the most pods for which it has one; None when it has none.

    Assumes that whoever can start with some pods can also start with fewer, and so needs few attempts:
    about the logarithm of *T*.  Full counts are not attempted unless they are also the only way to learn
    about the next step; no attempt is made when nothing can be spared.
    """
    ranges = [count.wanted - count.least for count in counts]
    steps = sum(ranges)
    best: T | None = None
    low, high = 0, steps  # the answer is in [low, high], if there is any
    while steps and low <= high:
        step = (low + high) // 2
        result = attempt(
            tuple(count.wanted - spare * step // steps for count, spare in zip(counts, ranges, strict=True))
        )
        if result is None:
            low = step + 1
        else:
            best, high = result, step - 1
    return best
