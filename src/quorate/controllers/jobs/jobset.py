"""jobset.x-k8s.io JobSet: one pod set for each replicated job."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from quorate.api.field_path import Path, read_count, read_entries, read_field
from quorate.api.kueue.topology_annotations import PodIndex
from quorate.controllers.jobframework.interface import ManagedBy
from quorate.controllers.jobframework.pod_counts import PodCounts, PodSetCounts
from quorate.controllers.jobs.batch import COMPLETION_INDEX
from quorate.controllers.jobs.unstructured import (
    PodSetSpec,
    UnstructuredJob,
    UnstructuredJobKind,
    counts_by_name,
    unstructured_resource,
)
from quorate.kube.resources import Json

_JOBS: Path = ("spec", "replicatedJobs")
_STATUSES: Path = ("status", "replicatedJobsStatus")

_JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"


def replicated_job_index(replicas: int) -> PodIndex:
    """Return how the pods of a replicated job are numbered: within a job, and the jobs."""
    return PodIndex(COMPLETION_INDEX.label, _JOB_INDEX, replicas)


class JobSet(UnstructuredJobKind):
    success_condition = "Completed"
    managed_by = ManagedBy(("spec", "managedBy"), "jobset.sigs.k8s.io/jobset-controller")

    def __init__(self) -> None:
        super().__init__(unstructured_resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"))

    def pod_set_specs(self, job: UnstructuredJob) -> tuple[PodSetSpec, ...]:
        return tuple(
            read_replicated_job(job.document, path).pod_set((*path, "template", "spec", "template"))
            for path in _job_paths(job)
        )

    def is_active(self, job: UnstructuredJob) -> bool:
        return any(counts_by_name(job, _STATUSES, "active").values())

    def pod_counts(self, job: UnstructuredJob) -> PodCounts:
        replicated_jobs = [read_replicated_job(job.document, path) for path in _job_paths(job)]
        return replicated_job_counts(job, _STATUSES, replicated_jobs)


class ReplicatedJob(NamedTuple):
    """What the pods of a replicated job depend on, besides their template."""

    name: str
    replicas: int
    pods: int  # of one replica
    depends_on: Sequence[Json]  # replicated jobs that must be Ready or Complete before this one is created

    def pod_set(self, template: Path, effective_template: Json | None = None) -> PodSetSpec:
        """Return the pod set of its pods, which are numbered within a job, as the jobs are."""
        index = replicated_job_index(self.replicas)
        count = self.replicas * self.pods
        return PodSetSpec(self.name, template, count, effective_template=effective_template, index=index)


def read_replicated_job(document: Json, path: Path) -> ReplicatedJob:
    """Return the replicated job at ``path``.  Raises ``InvalidTemplate``."""
    spec: Path = (*path, "template", "spec")
    parallelism = read_count(document, (*spec, "parallelism"), 1)
    return ReplicatedJob(
        read_field(document, (*path, "name"), str),
        read_count(document, (*path, "replicas"), 1),
        min(parallelism, read_count(document, (*spec, "completions"), parallelism)),
        read_entries(document, (*path, "dependsOn")),
    )


def replicated_job_counts(
    job: UnstructuredJob, statuses: Path, replicated_jobs: Sequence[ReplicatedJob]
) -> PodCounts:
    """Return the counts of replicated jobs.

    ``statuses``: where the JobSet controller counts the replicas.  A restarted JobSet creates all replicas
    again, so the number of succeeded replicas may fall.  A replicated job that waits for another replicated
    job needs no ready pods.
    """
    replicas = {replicated_job.name: replicated_job.replicas for replicated_job in replicated_jobs}
    active, ready, succeeded = (
        counts_by_name(job, statuses, field) for field in ("active", "ready", "succeeded")
    )

    def waits_for(dependency: Json) -> bool:
        name = dependency.get("name", "")
        done = succeeded.get(name, 0) + (ready.get(name, 0) if dependency.get("status") == "Ready" else 0)
        return done < replicas.get(name, 0)

    counts: list[PodSetCounts] = []
    for replicated_job in replicated_jobs:
        done = min(succeeded.get(replicated_job.name, 0), replicated_job.replicas)
        running = min(active.get(replicated_job.name, 0), replicated_job.replicas - done)
        waits = not (running or done) and any(map(waits_for, replicated_job.depends_on))
        counts.append(
            PodSetCounts(
                replicated_job.name,
                required=0 if waits else replicated_job.replicas * replicated_job.pods,
                active=running * replicated_job.pods,
                ready=min(ready.get(replicated_job.name, 0), replicated_job.replicas - done)
                * replicated_job.pods,
                succeeded=done * replicated_job.pods,
                coming=(replicated_job.replicas - done - running) * replicated_job.pods,
            )
        )
    return tuple(counts)


def _job_paths(job: UnstructuredJob) -> list[Path]:
    return [(*_JOBS, index) for index in range(len(read_entries(job.document, _JOBS)))]
