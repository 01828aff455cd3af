"""How many pods of a job may still run, and whether all that it needs are ready.

Each kind of job states the pods of each pod set once, as its own controller reports them.  What a workload
reports of its quota and of its readiness follows from these counts: see ``pod_reports``.

A pod counts in one of the fields.  A pod that is being deleted holds its resources until it is gone, whether
or not another pod replaces it already.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PodSetCounts:
    """The pods of one pod set."""

    name: str
    required: int  # so many must be ready or have ended for the job to count as ready
    active: int = 0  # exist, have not ended and are not being deleted
    ready: int = 0  # of the active pods
    terminating: int = 0  # are being deleted
    succeeded: int = 0
    failed: int = 0  # for good: no other pod replaces them
    coming: int = 0  # the job creates them, at first or instead of others

    @property
    def may_run(self) -> int:
        """Return how many pods hold resources or may still get some."""
        return self.active + self.terminating + self.coming

    @property
    def missing(self) -> int:
        """Return how many required pods are not ready; a pod that has ended for good is not missing."""
        return max(0, self.required - self.ready - self.succeeded - self.failed)


PodCounts = tuple[PodSetCounts, ...]  # of the pod sets of one job


def all_or_none_ready(
    sizes: Iterable[tuple[str, int]], *, ready: bool, succeeded: Mapping[str, int] | None = None
) -> PodCounts:
    """Return the counts of a job that reports only whether all its pods are ready.

    ``sizes`` are the names and sizes of its pod sets, ``succeeded`` the pods that will not run again.
    """
    counts: list[PodSetCounts] = []
    for name, size in sizes:
        done = min((succeeded or {}).get(name, 0), size)
        left = size - done
        active = left if ready else 0
        counts.append(
            PodSetCounts(name, size, active=active, ready=active, succeeded=done, coming=left - active)
        )
    return tuple(counts)
