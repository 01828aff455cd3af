"""jobset.x-k8s.io JobSet: one pod set for each replicated job."""

from typing import Final

from quorate.api.field_path import Path, read_count, read_entries, read_field
from quorate.api.kueue import ReclaimablePod
from quorate.api.kueue.topology_annotations import PodIndex
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.jobs.batch import COMPLETION_INDEX
from quorate.controllers.jobs.unstructured import (
    PodSetSpec,
    UnstructuredJob,
    UnstructuredJobKind,
    counts_by_name,
    outcome_of_conditions,
    unstructured_resource,
)

_JOBS: Path = ("spec", "replicatedJobs")
_STATUSES: Path = ("status", "replicatedJobsStatus")

_JOB_INDEX: Final = "jobset.sigs.k8s.io/job-index"


def replicated_job_index(replicas: int) -> PodIndex:
    """Return how the pods of a replicated job are numbered: within a job, and the jobs."""
    return PodIndex(COMPLETION_INDEX.label, _JOB_INDEX, replicas)


class JobSet(UnstructuredJobKind):
    def __init__(self) -> None:
        super().__init__(
            unstructured_resource("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"),
            suspend=("spec", "suspend"),
        )

    def pod_set_specs(self, job: UnstructuredJob) -> tuple[PodSetSpec, ...]:
        return tuple(
            PodSetSpec(
                name=read_field(job.document, (*path, "name"), str),
                template=(*path, "template", "spec", "template"),
                count=_replicas(job, path) * _pods_per_replica(job, path),
                index=replicated_job_index(_replicas(job, path)),
            )
            for path in _job_paths(job)
        )

    def is_active(self, job: UnstructuredJob) -> bool:
        return any(counts_by_name(job, _STATUSES, "active").values())

    def finished(self, job: UnstructuredJob) -> Outcome | None:
        return outcome_of_conditions(job, "Completed", "Failed")

    def pods_ready(self, job: UnstructuredJob) -> bool:
        wanted = sum(_replicas(job, path) for path in _job_paths(job))
        ready, succeeded = (counts_by_name(job, _STATUSES, field) for field in ("ready", "succeeded"))
        return sum(ready.values()) + sum(succeeded.values()) == wanted

    def reclaimable(self, job: UnstructuredJob) -> tuple[ReclaimablePod, ...]:
        succeeded = counts_by_name(job, _STATUSES, "succeeded")
        done = (
            (spec.name, succeeded.get(spec.name, 0) * _pods_per_replica(job, path))
            for spec, path in zip(self.pod_set_specs(job), _job_paths(job), strict=True)
        )
        return tuple(ReclaimablePod(name=name, count=count) for name, count in done if count)


def _job_paths(job: UnstructuredJob) -> list[Path]:
    return [(*_JOBS, index) for index in range(len(read_entries(job.document, _JOBS)))]


def _replicas(job: UnstructuredJob, path: Path) -> int:
    return read_count(job.document, (*path, "replicas"), 1)


def _pods_per_replica(job: UnstructuredJob, path: Path) -> int:
    """Return how many pods one replica of a replicated job runs at once."""
    spec: Path = (*path, "template", "spec")
    parallelism = read_count(job.document, (*spec, "parallelism"), 1)
    return min(parallelism, read_count(job.document, (*spec, "completions"), parallelism))
