"""What a job's pods amount to.

A pod carries the tracking finalizer until the job's status has recorded how it ended, so a pod that ended is
counted exactly once: while it carries the finalizer and its uid is in no list it is new; then its uid is in
``status.uncountedTerminatedPods``; and once the finalizer is gone it is in ``status.succeeded`` or
``status.failed``.  Of an indexed job the successes are the set of indexes, which needs no such care.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from quorate.api.batch import UncountedTerminatedPods
from quorate.api.meta import is_true
from quorate.local.controllers.job.failure_policy import (
    counts_against_limit,
    fails_index,
    has_failed,
    previous_failures,
)
from quorate.local.controllers.job.types import Job, JobSpec, Pod

IndexSet = frozenset[int]


def parse_indexes(text: str, completions: int) -> IndexSet:
    """The indexes named in ``text`` that are below ``completions``: an elastic job may have shrunk.

    Raises ``ValueError`` for what is no such text.
    """
    found: set[int] = set()
    for part in filter(None, text.split(",")):
        first, _, last = part.partition("-")
        found.update(range(int(first), min(int(last or first), completions - 1) + 1))
    return frozenset(found)


def format_indexes(indexes: Iterable[int]) -> str:
    runs: list[tuple[int, int]] = []
    for index in sorted(indexes):
        if runs and index == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return ",".join(_format_range(first, last) for first, last in runs)


def _format_range(first: int, last: int) -> str:
    if first == last:
        return str(first)
    return f"{first}-{last}" if last - first > 1 else f"{first},{last}"


@dataclass(frozen=True, slots=True)
class PodSummary:
    has_tracking_finalizer: tuple[Pod, ...]  # all that carry the finalizer
    active: tuple[Pod, ...]  # neither ended nor being deleted
    terminating: tuple[Pod, ...]  # being deleted, but not ended yet
    ready: int  # of the active ones
    new_succeeded: tuple[Pod, ...]
    new_failed: tuple[Pod, ...]
    succeeded: int  # in all, recorded or new
    failed: int  # likewise, without those the failure policy ignores
    completed: IndexSet
    failed_indexes: IndexSet
    # By index, the failed pod whose replacement must be told how often the index has failed.  It keeps its
    # finalizer, and so exists, until that replacement does.
    last_failed: Mapping[int, Pod]


def summarize_pods(job: Job, pods: Sequence[Pod]) -> PodSummary:
    spec, status = job.spec, job.status
    uncounted = status.uncounted_terminated_pods or UncountedTerminatedPods()
    has_tracking_finalizer = tuple(pod for pod in pods if pod.has_tracking_finalizer)
    new = [
        pod
        for pod in has_tracking_finalizer
        if not {pod.metadata.uid} & {*uncounted.succeeded, *uncounted.failed}
    ]
    in_range = [pod for pod in new if is_index_in_range(spec, pod)]
    new_succeeded = tuple(pod for pod in in_range if pod.status.phase == "Succeeded")
    new_failed = tuple(pod for pod in in_range if has_failed(spec, pod))
    active = tuple(pod for pod in pods if is_active(pod))
    completed = _completed_indexes(job, new_succeeded)
    failed_indexes = _failed_indexes(job, new_failed) - completed
    counted = len(uncounted.succeeded) + len(new_succeeded) + status.succeeded
    return PodSummary(
        has_tracking_finalizer=has_tracking_finalizer,
        active=active,
        terminating=tuple(pod for pod in pods if pod.metadata.deletion_timestamp and not has_ended(pod)),
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


def has_ended(pod: Pod) -> bool:
    return pod.status.phase in ("Succeeded", "Failed")


def is_active(pod: Pod) -> bool:
    return not has_ended(pod) and pod.metadata.deletion_timestamp is None


def count_ready(pods: Iterable[Pod]) -> int:
    return sum(is_true(pod.status.conditions, "Ready") for pod in pods)


def is_index_in_range(spec: JobSpec, pod: Pod) -> bool:
    """Whether the pod's outcome can matter: an elastic job that shrank disregards the indexes it gave up."""
    if not spec.indexed:
        return True
    return pod.index is not None and pod.index < (spec.completions or 0)


def _completed_indexes(job: Job, new_succeeded: Iterable[Pod]) -> IndexSet:
    if not job.spec.indexed:
        return frozenset()
    recorded = parse_indexes(job.status.completed_indexes, job.spec.completions or 0)
    return recorded | {pod.index for pod in new_succeeded if pod.index is not None}


def _failed_indexes(job: Job, new_failed: Iterable[Pod]) -> IndexSet:
    spec = job.spec
    if spec.backoff_limit_per_index is None:
        return frozenset()
    recorded = parse_indexes(job.status.failed_indexes or "", spec.completions or 0)
    return recorded | {pod.index for pod in new_failed if pod.index is not None and fails_index(spec, pod)}


def _last_failed_pods(
    spec: JobSpec, pods: Sequence[Pod], settled: IndexSet, active: Sequence[Pod]
) -> dict[int, Pod]:
    if spec.backoff_limit_per_index is None:
        return {}
    replaced = settled | {pod.index for pod in active}
    latest: dict[int, Pod] = {}
    for pod in sorted(pods, key=lambda pod: (previous_failures(pod).total, pod.metadata.name)):
        if has_failed(spec, pod) and is_index_in_range(spec, pod) and pod.index not in replaced:
            assert pod.index is not None
            latest[pod.index] = pod
    return latest
