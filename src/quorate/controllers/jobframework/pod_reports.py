"""What a workload reports of the pods of its job: the condition PodsReady, and ``reclaimablePods``.

Both follow from the counts of the job's pods (``pod_counts``).
"""

import dataclasses
from collections.abc import Mapping

from msgspec.structs import replace

from quorate.api.kueue import PODS_RUN_AGAIN, ReclaimablePod, Workload
from quorate.api.meta import find_condition
from quorate.api.validation.workloads import shrunk_pod_sets
from quorate.controllers.executor import ObjectEvent
from quorate.controllers.jobframework.interface import J, JobState
from quorate.controllers.jobframework.job_plan import IDLE, JobPlan
from quorate.controllers.jobframework.pod_counts import PodCounts
from quorate.kube.resources import WORKLOADS
from quorate.kube.writes import Patch, status_patch
from quorate.queueing import conditions as c
from quorate.queueing.pending.effective_requests import held_count, held_counts
from quorate.queueing.pods_ready import pods_ready_condition


def report_pods_ready(state: JobState[J], workload: Workload) -> tuple[Patch, ...]:
    """Set PodsReady, except in a status that the cycle has not written yet: its first write adds it.

    Pods that are ready have found nodes, so that a NodeFit condition is true no more.
    """
    status = workload.status
    waits = state.options.wait_for_pods_ready is not None
    is_reported = find_condition(status.conditions, c.NODE_FIT) is not None
    is_unwritten = state.options.scheduling and not status.conditions
    if is_unwritten or not (waits or is_reported):
        return ()
    all_ready = are_ready(requiring_at_most(state.kind.pod_counts(state.job), workload))
    conditions = c.without_condition(status.conditions, c.NODE_FIT) if all_ready else status.conditions
    ready = pods_ready_condition(workload, all_ready, state.now) if waits else None
    if ready is not None:
        conditions = c.with_conditions(conditions, ready)
    return status_patch(WORKLOADS, workload, replace(status, conditions=conditions))


def report_reclaimable(state: JobState[J], workload: Workload) -> JobPlan:
    """Report how many pods need their quota no longer (``reclaimablePods``).

    Other workloads may use that quota already when pods run again, for example those of a JobSet that
    restarts.  Then the usage may exceed the quota, and a condition and an event tell which pods it is.  A job
    that has shrunk in place is counted anew: pods that it gave up may have been among the ended ones.
    """
    pods = reclaimable_now(state, workload)
    status = replace(workload.status, reclaimable_pods=pods)
    again = pods_running_again(workload, pods) if c.has_quota_reservation(workload) else {}
    if state.is_elastic:
        again = {name: more for name, more in again.items() if name not in shrunk_pod_sets(workload)}
    events: tuple[ObjectEvent, ...] = ()
    if again:
        text = running_again_message(workload, again)
        generation = workload.metadata.generation
        condition = c.new_condition(PODS_RUN_AGAIN, "True", "PodsRestarted", text, state.now, generation)
        status = replace(status, conditions=c.with_conditions(status.conditions, condition))
        events = (state.warning("PodsRunAgain", text),)
    patches = status_patch(WORKLOADS, workload, status)
    return JobPlan(writes=patches, events=events, deferrable=not again) if patches else IDLE


def reclaimable_now(state: JobState[J], workload: Workload) -> tuple[ReclaimablePod, ...]:
    """Return the ``reclaimablePods`` of the workload by the counts of its job; a single pod has none."""
    pods = sum(pod_set.count for pod_set in workload.spec.pod_sets)
    if not state.options.gates.reclaimable_pods or pods <= 1:
        return ()  # the quota of a single pod is released with the end of its job
    return reclaimable_pods(state.kind.pod_counts(state.job), workload)


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
    result: list[ReclaimablePod] = []
    for counted in counts:
        if counted.name not in sizes:
            continue  # a workload is equivalent also if its pod sets have other names
        count = sizes[counted.name] - counted.may_run
        if counted.may_run >= held[counted.name]:
            count = min(reported.get(counted.name, 0), sizes[counted.name] - held[counted.name])
        if counted.required > sizes[counted.name]:
            count = max(count, reported.get(counted.name, 0))
        if count > 0:
            result.append(ReclaimablePod(name=counted.name, count=count))
    return tuple(result)


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
