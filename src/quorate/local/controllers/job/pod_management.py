"""Which pods an unfinished job creates and deletes, and the body of a new pod."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from quorate.api.batch import JOB_COMPLETION_INDEX
from quorate.api.codec import Json
from quorate.api.meta import epoch, is_true
from quorate.local.controllers import pod_control
from quorate.local.controllers.job.failure_policy import (
    Backoff,
    IndexFailures,
    backoff_delay_s,
    failures_including,
    finished_at,
)
from quorate.local.controllers.job.pod_summary import IndexSet, PodSummary, is_index_in_range
from quorate.local.controllers.job.types import (
    INDEX_FAILURES_ANNOTATION,
    INDEX_IGNORED_FAILURES_ANNOTATION,
    JOBS,
    TRACKING_FINALIZER,
    Job,
    Pod,
)
from quorate.local.controllers.pod_control import owner_references

MAX_PODS_PER_SYNC: Final = 500  # pods created or deleted at once; the rest follows in the next sync


@dataclass(frozen=True, slots=True)
class PodToCreate:
    """A pod to create, with its completion index and that index's failures, if they are tracked."""

    index: int | None = None
    failures: IndexFailures | None = None


@dataclass(frozen=True, slots=True)
class PodChanges:
    create: tuple[PodToCreate, ...] = ()
    discard: tuple[Pod, ...] = ()  # to delete without counting as failed
    wake_at: float | None = None  # end of the backoff that delays a pod


def manage_pods(job: Job, summary: PodSummary, now: float, backoff: Backoff) -> PodChanges:
    """Return the changes that bring the number of active pods to the desired number.

    A result never both creates and deletes pods, because an index may be reused only after its pod is gone.
    """
    if job.spec.suspend:
        return PodChanges(discard=summary.active)
    wanted = _wanted_active(job, summary)
    surplus = _excess_pods(job, summary.active, len(summary.active) - wanted)
    if surplus:
        return PodChanges(discard=surplus[:MAX_PODS_PER_SYNC])
    missing = wanted - len(summary.active)
    if not job.spec.replaces_terminating:
        missing -= len(summary.terminating)
    if missing <= 0:
        return PodChanges()
    if job.spec.backoff_limit_per_index is None and backoff.ready_at > now:
        return PodChanges(wake_at=backoff.ready_at)
    missing = min(missing, MAX_PODS_PER_SYNC)
    if not job.spec.indexed:
        return PodChanges(create=(PodToCreate(),) * missing)
    return _create_indexes(job, summary, _pending_indexes(job, summary, missing), now)


def _wanted_active(job: Job, summary: PodSummary) -> int:
    if job.spec.completions is None:
        # After one success the work queue is empty: running pods finish, and no pod is added.
        return len(summary.active) if summary.succeeded else job.spec.parallelism
    return min(max(0, job.spec.completions - summary.succeeded), job.spec.parallelism)


def _excess_pods(job: Job, active: Sequence[Pod], excess: int) -> tuple[Pod, ...]:
    """Return pods with an invalid or duplicate index, and further pods up to ``excess``."""
    expendable = sorted(active, key=_deletion_order)
    chosen: list[Pod] = []
    if job.spec.indexed:
        kept: dict[int | None, Pod] = {}
        for pod in reversed(expendable):
            if not is_index_in_range(job.spec, pod) or pod.index in kept:
                chosen.append(pod)
            else:
                kept[pod.index] = pod
    already = {pod.metadata.uid for pod in chosen}
    rest = [pod for pod in expendable if pod.metadata.uid not in already]
    return (*chosen, *rest[: max(0, excess - len(chosen))])


def _deletion_order(pod: Pod) -> tuple[bool, bool, bool, float, str]:
    """Return the deletion order: unscheduled, not running, not ready, youngest, by name."""
    created = pod.metadata.creation_timestamp
    return (
        bool(pod.spec.node_name),
        pod.status.phase == "Running",
        is_true(pod.status.conditions, "Ready"),
        -epoch(created) if created else 0.0,
        pod.metadata.name,
    )


def _pending_indexes(job: Job, summary: PodSummary, most: int) -> list[int]:
    pods = summary.active if job.spec.replaces_terminating else (*summary.active, *summary.terminating)
    taken = IndexSet.of(pod.index for pod in pods if pod.index is not None)
    return (taken | summary.completed | summary.failed_indexes).missing(job.spec.completions or 0, most)


def _create_indexes(job: Job, summary: PodSummary, indexes: Sequence[int], now: float) -> PodChanges:
    if job.spec.backoff_limit_per_index is None:
        return PodChanges(create=tuple(PodToCreate(index) for index in indexes))
    create: list[PodToCreate] = []
    delayed: list[float] = []
    for index in indexes:
        last = summary.last_failed.get(index)
        failures = failures_including(job.spec, last) if last else IndexFailures()
        ready_at = finished_at(last) + backoff_delay_s(failures.total) if last else now
        if ready_at <= now:
            create.append(PodToCreate(index, failures))
        else:
            delayed.append(ready_at)
    return PodChanges(create=tuple(create), wake_at=min(delayed, default=None))


INDEX_VARIABLE: Final = "JOB_COMPLETION_INDEX"
# The server shortens a prefix to which it would append five characters beyond 63: the index would be lost.
MAX_PREFIX_LENGTH: Final = 58


def pod_from_template(job: Job, new: PodToCreate) -> Json:
    """Return the body of a new pod: the job's template with metadata, and the completion index."""
    body = pod_control.pod_from_template(
        job.spec.template,
        owner_references(JOBS, job.metadata),
        generateName=name_prefix(job.metadata.name, new.index),
        namespace=job.metadata.namespace,
    )
    finalizers = body["metadata"]["finalizers"]
    if TRACKING_FINALIZER not in finalizers:
        finalizers.append(TRACKING_FINALIZER)
    if new.index is not None:
        _add_completion_index(job, new, body["metadata"], body["spec"])
    return body


def name_prefix(job_name: str, index: int | None) -> str:
    if index is None:
        return f"{job_name}-"
    tail = f"-{index}-"
    return job_name[: MAX_PREFIX_LENGTH - len(tail)] + tail


def _add_completion_index(job: Job, new: PodToCreate, metadata: Json, spec: Json) -> None:
    metadata["labels"][JOB_COMPLETION_INDEX] = str(new.index)
    metadata["annotations"][JOB_COMPLETION_INDEX] = str(new.index)
    if new.failures is not None:
        metadata["annotations"][INDEX_FAILURES_ANNOTATION] = str(new.failures.counted)
        if new.failures.ignored:
            metadata["annotations"][INDEX_IGNORED_FAILURES_ANNOTATION] = str(new.failures.ignored)
    spec["hostname"] = f"{job.metadata.name}-{new.index}"
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{JOB_COMPLETION_INDEX}']"}}
    for container in (*spec.get("initContainers", ()), *spec["containers"]):
        variables = container.setdefault("env", [])
        if all(variable["name"] != INDEX_VARIABLE for variable in variables):
            variables.append({"name": INDEX_VARIABLE, "valueFrom": source})
