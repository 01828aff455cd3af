"""How many pods of a job may still run, and whether all that it needs are ready.

Each kind of job states the pods of each pod set once, as its own controller reports them.  What a workload
reports of its quota and of its readiness follows from these counts by the functions of this module.

A pod counts in one of the fields.  A pod that is being deleted holds its resources until it is gone, whether
or not another pod replaces it already.
"""

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec.structs import replace

from quorate.api.kueue import ReclaimablePod, Workload
from quorate.queueing.pending.effective_requests import held_count, held_counts


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


def are_ready(counts: PodCounts) -> bool:
    """Return True if all required pods of a job are ready or have ended."""
    return not any(count.missing for count in counts)


def requiring_at_most(counts: PodCounts, workload: Workload) -> PodCounts:
    """Return the counts, requiring at most the pods of ``workload``: more pods of a growing job are gated."""
    sizes = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    return tuple(
        dataclasses.replace(count, required=min(count.required, sizes.get(count.name, count.required)))
        for count in counts
    )


def reclaimable_pods(counts: PodCounts, workload: Workload) -> tuple[ReclaimablePod, ...]:
    """Return ``reclaimablePods``: by pod set, the size in the workload without the pods that may still run.

    A workload that was admitted with fewer pods than its size holds quota for the admitted pods only. While
    all admitted pods may run, the reported number stays if the rest of the quota suffices for them. An
    elastic job that has grown waits for a larger workload: its new pods need no quota of ``workload``.
    """
    sizes = {pod_set.name: pod_set.count for pod_set in workload.spec.pod_sets}
    admission = workload.status.admission
    assignments = () if admission is None else admission.pod_set_assignments
    held = sizes | {assignment.name: held_count(assignment, sizes) for assignment in assignments}
    reported = {reclaimable.name: reclaimable.count for reclaimable in workload.status.reclaimable_pods}
    found: list[ReclaimablePod] = []
    for each in counts:
        if each.name not in sizes:
            continue  # a workload is equivalent also if its pod sets have other names
        count = sizes[each.name] - each.may_run
        if each.may_run >= held[each.name]:
            count = min(reported.get(each.name, 0), sizes[each.name] - held[each.name])
        if each.required > sizes[each.name]:
            count = max(count, reported.get(each.name, 0))
        if count > 0:
            found.append(ReclaimablePod(name=each.name, count=count))
    return tuple(found)


def pods_running_again(workload: Workload, pods: tuple[ReclaimablePod, ...]) -> dict[str, int]:
    """Return by pod set how many pods need quota again that were reported as reclaimable.

    ``pods`` are the new ``reclaimablePods`` of ``workload``.
    """
    before = held_counts(workload)
    after = held_counts(replace(workload, status=replace(workload.status, reclaimable_pods=pods)))
    return {name: after[name] - before[name] for name in before if after[name] > before[name]}


def running_again_message(workload: Workload, again: Mapping[str, int]) -> str:
    """Return the text about the result of ``pods_running_again`` for an admitted workload."""
    admission = workload.status.admission
    assert admission is not None, f"{workload.metadata.key} has no admission"
    pods = ", ".join(f"{more} of pod set {name}" for name, more in again.items())
    return (
        f"pods run again of which the quota was released: {pods}; "
        f"cluster queue {admission.cluster_queue} may use more than its quota"
    )
