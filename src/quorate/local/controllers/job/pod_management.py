"""How many pods a job that goes on should have now: which to create, which to give up."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from quorate.api.meta import epoch, is_true
from quorate.local.controllers.job.failure_policy import (
    Backoff,
    IndexFailures,
    delay_s,
    failures_with,
    finished_at,
)
from quorate.local.controllers.job.pod_summary import Census, within
from quorate.local.controllers.job.types import Job, Pod

MOST_PER_SYNC: Final = 500  # pods created or given up at once; the others follow in the next round


@dataclass(frozen=True, slots=True)
class NewPod:
    """A pod to create: of an indexed job its index, and how often that failed if the job keeps count."""

    index: int | None = None
    failures: IndexFailures | None = None


@dataclass(frozen=True, slots=True)
class Staffing:
    create: tuple[NewPod, ...] = ()
    discard: tuple[Pod, ...] = ()  # to be deleted without counting as failed
    wake_at: float | None = None  # when a pod that may not be created yet may be


def staff(job: Job, census: Census, now: float, backoff: Backoff) -> Staffing:
    """What brings the number of active pods to the number wanted.

    Never both creates and discards: what is discarded may free an index only when it is gone.
    """
    if job.spec.suspend:
        return Staffing(discard=census.active)
    wanted = _wanted(job, census)
    surplus = _surplus(job, census.active, len(census.active) - wanted)
    if surplus:
        return Staffing(discard=surplus[:MOST_PER_SYNC])
    room = wanted - len(census.active)
    if not job.spec.replaces_terminating:
        room -= len(census.terminating)
    if room <= 0:
        return Staffing()
    if job.spec.backoff_limit_per_index is None and backoff.ready_at > now:
        return Staffing(wake_at=backoff.ready_at)
    room = min(room, MOST_PER_SYNC)
    if not job.spec.indexed:
        return Staffing(create=(NewPod(),) * room)
    return _create_indexes(job, census, _pending_indexes(job, census, room), now)


def _wanted(job: Job, census: Census) -> int:
    if job.spec.completions is None:
        # One success says that the queue is empty: who is at work finishes, nobody is added.
        return len(census.active) if census.succeeded else job.spec.parallelism
    return min(max(0, job.spec.completions - census.succeeded), job.spec.parallelism)


def _surplus(job: Job, active: Sequence[Pod], excess: int) -> tuple[Pod, ...]:
    """Pods of no valid index or of an index another pod has too, and then enough to give up ``excess``."""
    expendable = sorted(active, key=_worth)
    chosen: list[Pod] = []
    if job.spec.indexed:
        kept: dict[int | None, Pod] = {}
        for pod in reversed(expendable):
            if not within(job.spec, pod) or pod.index in kept:
                chosen.append(pod)
            else:
                kept[pod.index] = pod
    already = {pod.metadata.uid for pod in chosen}
    others = [pod for pod in expendable if pod.metadata.uid not in already]
    return (*chosen, *others[: max(0, excess - len(chosen))])


def _worth(pod: Pod) -> tuple[bool, bool, bool, float, str]:
    """The order in which pods are given up: unbound, not running, not ready, youngest, by name."""
    created = pod.metadata.creation_timestamp
    return (
        bool(pod.spec.node_name),
        pod.status.phase == "Running",
        is_true(pod.status.conditions, "Ready"),
        -epoch(created) if created else 0.0,
        pod.metadata.name,
    )


def _pending_indexes(job: Job, census: Census, most: int) -> list[int]:
    taken = {pod.index for pod in census.active} | census.completed | census.failed_indexes
    if not job.spec.replaces_terminating:
        taken |= {pod.index for pod in census.terminating}
    pending: list[int] = []
    for index in range(job.spec.completions or 0):
        if len(pending) == most:
            break
        if index not in taken:
            pending.append(index)
    return pending


def _create_indexes(job: Job, census: Census, indexes: Sequence[int], now: float) -> Staffing:
    if job.spec.backoff_limit_per_index is None:
        return Staffing(create=tuple(NewPod(index) for index in indexes))
    create: list[NewPod] = []
    delayed: list[float] = []
    for index in indexes:
        last = census.inherited.get(index)
        failures = failures_with(job.spec, last) if last else IndexFailures()
        ready_at = finished_at(last) + delay_s(failures.total) if last else now
        if ready_at <= now:
            create.append(NewPod(index, failures))
        else:
            delayed.append(ready_at)
    return Staffing(create=tuple(create), wake_at=min(delayed, default=None))
