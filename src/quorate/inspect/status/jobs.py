"""The jobs of a namespace or of all: state, pods, times, and why they wait."""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Final

from msgspec.structs import replace

from quorate.api.batch import Job as BatchJob
from quorate.api.explanation import NO_START, ExplainedState, Explanation, ExplanationSummary, StartEstimate
from quorate.api.kueue import Workload
from quorate.api.meta import Key, Struct, Uid, is_true
from quorate.api.names.kueue import QUEUE_NAME
from quorate.api.volcano import DEFAULT_QUEUE, PodGroup
from quorate.api.volcano.job import Job as VolcanoJob
from quorate.inspect.explain.summaries import Summaries, VolcanoJobStates
from quorate.kube.resources import JOBS, POD_GROUPS, VOLCANO_JOBS

_ENDED: Final = ("Complete", "Failed")  # conditions of a batch Job


class JobStatus(Struct, omit_defaults=False):
    """One job; ``since`` is when its state began."""

    namespace: str
    name: str
    kind: str
    queue: str
    state: ExplainedState
    running_pods: int
    requested_pods: int
    since: datetime | None
    why: str
    code: str = ""  # of the reason that decides the state
    enough: tuple[str, ...] = ()  # what would let it start, one sentence each
    estimate: StartEstimate | None = None

    @property
    def has_started(self) -> bool:
        return self.state in ("Admitted", "Running", "RunningInPart", "Stuck")


def job_uids(workload: Workload) -> tuple[Uid, ...]:
    """Return the UIDs of the jobs of a workload; its own if it has none."""
    return tuple(owner.uid for owner in workload.metadata.owner_references) or (workload.metadata.uid,)


def of_workload(
    workload: Workload, summary: ExplanationSummary, estimates: Mapping[Key, StartEstimate]
) -> JobStatus:
    """Return the status of the job of a workload, which is that of its summary."""
    metadata, spec, pods = workload.metadata, workload.spec, summary.pods
    owner = next(iter(metadata.owner_references), None)
    has_reason = summary.state not in ("Running", "Finished")
    return JobStatus(
        namespace=metadata.namespace,
        name=metadata.name if owner is None else owner.name,
        kind="Workload" if owner is None else owner.kind,
        queue=spec.queue_name,
        state=summary.state,
        running_pods=0 if pods is None else pods.running or 0,
        requested_pods=sum(pod_set.count for pod_set in spec.pod_sets) if pods is None else pods.admitted,
        since=summary.since or metadata.creation_timestamp,
        why=summary.message if has_reason else "",
        code=summary.code if has_reason else "",
        enough=summary.enough if has_reason else (),
        estimate=None if summary.state in NO_START else estimates.get(metadata.key),
    )


def without_workload(
    batch_jobs: Iterable[BatchJob],
    volcano_jobs: Iterable[VolcanoJob],
    groups: Iterable[PodGroup],
    with_workload: frozenset[Uid],
    explained: Mapping[Uid, Explanation],
    of_groups: Summaries,
) -> Iterator[JobStatus]:
    """Yield the status of each job that neither has a Workload nor belongs to another job.

    ``with_workload``: the UIDs of the jobs that have a Workload.  ``groups``: the pod groups, of which the
    states ``of_groups`` are those of Volcano Jobs and tell what the pods of other jobs wait for.
    ``explained``: why batch Jobs have no Workload, as far as it is known.
    """
    states = VolcanoJobStates({
        owner.uid: of_groups.of_pod_group(group)
        for group in groups
        for owner in group.metadata.owner_references
    })  # fmt: skip
    for job in batch_jobs:
        if job.metadata.uid not in with_workload and job.metadata.controller is None:
            status = _batch_job(job, explained.get(job.metadata.uid))
            yield _waiting_with_group(status, states.by_job.get(job.metadata.uid))
    for volcano_job in volcano_jobs:
        if volcano_job.metadata.uid not in with_workload and volcano_job.metadata.controller is None:
            yield _volcano_job(volcano_job, states.of_job(volcano_job))


def _waiting_with_group(job: JobStatus, group: ExplanationSummary | None) -> JobStatus:
    """Return ``job`` with the state of its pod group if it waits for that."""
    if group is None or job.state != "Admitted" or group.state in ("Running", "Finished"):
        return job
    return replace(job, state=group.state, why=group.message, code=group.code, enough=group.enough)


def of_pod_group(group: PodGroup, summary: ExplanationSummary) -> JobStatus:
    """Return the status of a pod group that belongs to no job, which is that of its summary."""
    pods, has_reason = summary.pods, summary.state != "Running"
    return JobStatus(
        namespace=group.metadata.namespace,
        name=group.metadata.name,
        kind=POD_GROUPS.kind,
        queue=group.spec.queue,
        state=summary.state,
        running_pods=0 if pods is None else pods.running or 0,
        requested_pods=group.spec.min_member,
        since=summary.since or group.metadata.creation_timestamp,
        why=summary.message if has_reason else "",
        code=summary.code if has_reason else "",
        enough=summary.enough if has_reason else (),
    )


def _batch_job(job: BatchJob, explanation: Explanation | None) -> JobStatus:
    requested, ready, metadata = job.spec.parallelism, job.status.ready, job.metadata
    state: ExplainedState = "Running" if ready >= requested else "RunningInPart" if ready else "Admitted"
    why, code = "", ""
    if any(is_true(job.status.conditions, ended) for ended in _ENDED):
        state = "Finished"
    elif job.spec.suspend:
        state = "NotQueued"
        why = "it has no workload" if QUEUE_NAME in metadata.labels else "it is suspended, and in no queue"
        if explanation is not None:
            why, code = explanation.message, explanation.code
    return JobStatus(
        namespace=metadata.namespace,
        name=metadata.name,
        kind=JOBS.kind,
        queue=metadata.labels.get(QUEUE_NAME, ""),
        state=state,
        running_pods=ready,
        requested_pods=requested,
        since=job.status.completion_time or job.status.start_time or metadata.creation_timestamp,
        why=why,
        code=code,
    )


def _volcano_job(job: VolcanoJob, summary: ExplanationSummary) -> JobStatus:
    metadata = job.metadata
    return JobStatus(
        namespace=metadata.namespace,
        name=metadata.name,
        kind=VOLCANO_JOBS.kind,
        queue=job.spec.queue or DEFAULT_QUEUE,
        state=summary.state,
        running_pods=job.status.running,
        requested_pods=sum(task.replicas for task in job.spec.tasks),
        since=job.status.state.last_transition_time or metadata.creation_timestamp,
        why="" if summary.state == "Running" else summary.message,
        code=summary.code,
        enough=summary.enough,
    )
