"""Counts of a job's pods, and sets of completion indexes, which have the text of ``status.completedIndexes``.

A pod has the tracking finalizer until the job's status has recorded its outcome, so that each finished pod is
counted exactly once. With the finalizer, a finished pod is new if its uid is in no list. Then its uid is in
``status.uncountedTerminatedPods``. Once the finalizer is removed, the pod is counted in ``status.succeeded``
or ``status.failed``. An indexed job needs no such bookkeeping for successes, which are a set of indexes.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from quorate.api.batch import UncountedTerminatedPods
from quorate.local.controllers.job.failure_policy import (
    counts_against_limit,
    fails_index,
    has_failed,
    previous_failures,
)
from quorate.local.controllers.job.types import Job, JobSpec, Pod
from quorate.local.controllers.pod_control import is_active, is_ready, is_terminating

Range = tuple[int, int]  # first index, and the index after the last


class IndexSet:
    """An immutable set of completion indexes, stored as ranges: a job may have two billion indexes.

    Its text, documented with ``status.completedIndexes`` in batch/v1, is increasing and separated by commas,
    with three and more consecutive indexes as a range.
    """

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


@dataclass(frozen=True, slots=True)
class PodSummary:
    tracked: tuple[Pod, ...]  # pods with the tracking finalizer
    active: tuple[Pod, ...]  # neither finished nor terminating
    terminating: tuple[Pod, ...]  # terminating, not finished
    ready: int  # ready pods among the active ones
    new_succeeded: tuple[Pod, ...]
    new_failed: tuple[Pod, ...]
    succeeded: int  # recorded and new successes
    failed: int  # recorded and new failures, without those that the failure policy ignores
    completed: IndexSet
    failed_indexes: IndexSet
    # By index, the failed pod from which its replacement takes the failure count of the index. It keeps its
    # finalizer until the replacement exists.
    last_failed: Mapping[int, Pod]


def summarize_pods(job: Job, pods: Sequence[Pod]) -> PodSummary:
    spec, status = job.spec, job.status
    uncounted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    tracked = tuple(pod for pod in pods if pod.has_tracking_finalizer)
    new = [pod for pod in tracked if not {pod.metadata.uid} & {*uncounted.succeeded, *uncounted.failed}]
    in_range = [pod for pod in new if is_index_in_range(spec, pod)]
    new_succeeded = tuple(pod for pod in in_range if pod.status.phase == "Succeeded")
    new_failed = tuple(pod for pod in in_range if has_failed(spec, pod))
    active = tuple(filter(is_active, pods))
    completed = _completed_indexes(job, new_succeeded)
    failed_indexes = _failed_indexes(job, new_failed) - completed
    counted = len(uncounted.succeeded) + len(new_succeeded) + status.succeeded
    return PodSummary(
        tracked=tracked,
        active=active,
        terminating=tuple(filter(is_terminating, pods)),
        ready=count_ready(active),
        new_succeeded=new_succeeded,
        new_failed=new_failed,
        succeeded=len(completed) if spec.indexed else counted,
        failed=status.failed
        + len(uncounted.failed)
        + sum(counts_against_limit(spec, pod) for pod in new_failed),
        completed=completed,
        failed_indexes=failed_indexes,
        last_failed=_last_failed_pods(spec, pods, completed | failed_indexes, active),
    )


def count_ready(pods: Iterable[Pod]) -> int:
    return sum(map(is_ready, pods))


def is_index_in_range(spec: JobSpec, pod: Pod) -> bool:
    """Return True if the index is below completions, which elastic jobs may reduce."""
    if not spec.indexed:
        return True
    return pod.index is not None and pod.index < (spec.completions or 0)


def _completed_indexes(job: Job, new_succeeded: Iterable[Pod]) -> IndexSet:
    if not job.spec.indexed:
        return IndexSet()
    recorded = parse_indexes(job.status.completed_indexes, job.spec.completions or 0)
    return recorded | IndexSet.of(pod.index for pod in new_succeeded if pod.index is not None)


def _failed_indexes(job: Job, new_failed: Iterable[Pod]) -> IndexSet:
    spec = job.spec
    if spec.backoff_limit_per_index is None:
        return IndexSet()
    recorded = parse_indexes(job.status.failed_indexes or "", spec.completions or 0)
    failed = (pod.index for pod in new_failed if pod.index is not None and fails_index(spec, pod))
    return recorded | IndexSet.of(failed)


def _last_failed_pods(
    spec: JobSpec, pods: Sequence[Pod], settled: IndexSet, active: Sequence[Pod]
) -> dict[int, Pod]:
    if spec.backoff_limit_per_index is None:
        return {}
    replaced = settled | IndexSet.of(pod.index for pod in active if pod.index is not None)
    latest: dict[int, Pod] = {}
    for pod in sorted(pods, key=lambda pod: (previous_failures(pod).total, pod.metadata.name)):
        if has_failed(spec, pod) and is_index_in_range(spec, pod) and pod.index not in replaced:
            assert pod.index is not None
            latest[pod.index] = pod
    return latest
