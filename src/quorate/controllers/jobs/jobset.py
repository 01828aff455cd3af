"""jobset.x-k8s.io JobSet: one pod set for each of its replicated jobs."""

from quorate.api.kueue import ReclaimablePod
from quorate.api.paths import Path, read, read_count, read_entries
from quorate.controllers.jobs import Outcome
from quorate.controllers.jobs.foreign import ForeignJob, ForeignKind, Role, counts_by_name, ended, foreign

_JOBS: Path = ("spec", "replicatedJobs")
_STATUSES: Path = ("status", "replicatedJobsStatus")


class JobSet(ForeignKind):
    def __init__(self) -> None:
        super().__init__(
            foreign("jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"), suspend=("spec", "suspend")
        )

    def roles(self, job: ForeignJob) -> tuple[Role, ...]:
        return tuple(
            Role(
                name=read(job.document, (*path, "name"), str),
                template=(*path, "template", "spec", "template"),
                count=_replicas(job, path) * _pods_of_each(job, path),
            )
            for path in _job_paths(job)
        )

    def is_active(self, job: ForeignJob) -> bool:
        return any(counts_by_name(job, _STATUSES, "active").values())

    def finished(self, job: ForeignJob) -> Outcome | None:
        return ended(job, "Completed", "Failed")

    def pods_ready(self, job: ForeignJob) -> bool:
        wanted = sum(_replicas(job, path) for path in _job_paths(job))
        ready, succeeded = (counts_by_name(job, _STATUSES, field) for field in ("ready", "succeeded"))
        return sum(ready.values()) + sum(succeeded.values()) == wanted

    def reclaimable(self, job: ForeignJob) -> tuple[ReclaimablePod, ...]:
        succeeded = counts_by_name(job, _STATUSES, "succeeded")
        done = (
            (role.name, succeeded.get(role.name, 0) * _pods_of_each(job, path))
            for role, path in zip(self.roles(job), _job_paths(job), strict=True)
        )
        return tuple(ReclaimablePod(name=name, count=count) for name, count in done if count)


def _job_paths(job: ForeignJob) -> list[Path]:
    return [(*_JOBS, index) for index in range(len(read_entries(job.document, _JOBS)))]


def _replicas(job: ForeignJob, path: Path) -> int:
    return read_count(job.document, (*path, "replicas"), 1)


def _pods_of_each(job: ForeignJob, path: Path) -> int:
    """Pods that one replica of a replicated job runs at once."""
    spec: Path = (*path, "template", "spec")
    parallelism = read_count(job.document, (*spec, "parallelism"), 1)
    return min(parallelism, read_count(job.document, (*spec, "completions"), parallelism))
