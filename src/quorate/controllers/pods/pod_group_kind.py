"""Pod groups as a composable kind of job.

A group is admitted whole, made whole again when pods fail, and finished when enough pods have succeeded.
Its workload has the name of the group and is owned by all of its pods.  A finalizer keeps each pod until the
group has taken its end into account: as succeeded, or as replaced by another pod.
"""

from collections.abc import Sequence
from dataclasses import replace

from quorate.api.core.pod import Pod
from quorate.api.events import ObjectReference
from quorate.api.kueue import PodSet, Workload
from quorate.api.meta import Condition, ConditionStatus, find_condition, is_true, true_condition
from quorate.controllers.executor import ObjectEvent, normal_event, warning_event
from quorate.controllers.finalizers import remove_finalizer
from quorate.controllers.jobframework.construct_workload import (
    NotComposed,
    maximum_execution_s,
    prebuilt_name_of,
    workload_patch,
)
from quorate.controllers.jobframework.ensure_one_workload import (
    create_workload,
    not_composed,
    reduce_to_one,
    without_workload,
)
from quorate.controllers.jobframework.interface import (
    WORKLOAD_EVICTED_DUE_TO,
    ComposableJobKind,
    JobState,
    Outcome,
)
from quorate.controllers.jobframework.job_plan import IDLE, JobOptions, JobPlan
from quorate.controllers.jobframework.pod_counts import PodCounts
from quorate.controllers.jobframework.topology import TopologySource
from quorate.controllers.pods import constants
from quorate.controllers.pods.group_workload import construct_group_workload, owner_reference, unknown_total
from quorate.controllers.pods.pod_group import (
    CountedPods,
    PodGroup,
    by_precedence,
    count_pods,
    excess_pods,
)
from quorate.controllers.pods.pod_kind import PodsKind
from quorate.controllers.pods.pod_writes import delete_pods, remove_finalizers
from quorate.controllers.pods.queued_pod import can_count, is_suspended
from quorate.kube.resources import PLACEABLE_PODS, WORKLOADS, reference_to, versioned_reference_to
from quorate.kube.writes import status_patch
from quorate.queueing import conditions as c
from quorate.queueing.lifecycle.statuses import release_status


def _why_absent(pods: Sequence[Pod]) -> tuple[str, str]:
    """Return reason and message of why pods need replacement.

    Pods that were stopped for an eviction carry its reason, also when the workload has quota again.
    """
    stops = (
        (pod.history.stopped_at, find_condition(pod.status.conditions, constants.TERMINATION_TARGET))
        for pod in pods
    )
    of_evictions = [
        (at, stop)
        for at, stop in stops
        if at is not None and stop is not None and stop.reason.startswith(WORKLOAD_EVICTED_DUE_TO)
    ]
    if not of_evictions:
        return "PodsFailed", "Some Failed pods need replacement"
    _, latest = max(of_evictions, key=lambda stop: stop[0])
    return latest.reason.removeprefix(WORKLOAD_EVICTED_DUE_TO), latest.message


class PodGroupKind(PodsKind[PodGroup], ComposableJobKind[PodGroup]):
    is_group = True

    def reference(self, job: PodGroup) -> ObjectReference:
        return versioned_reference_to(PLACEABLE_PODS, job.pods[0].metadata)

    def pods(self, job: PodGroup) -> Sequence[Pod]:
        return job.pods

    def pod_set_name(self, job: PodGroup, pod: Pod) -> str:
        return job.role_of(pod)

    def is_managed(self, job: PodGroup, options: JobOptions) -> bool:
        return bool(job.pods)

    def is_deleted(self, job: PodGroup) -> bool:
        return False  # a group without pods is not loaded

    def is_serving(self, job: PodGroup) -> bool:
        return job.is_serving

    def is_suspended(self, job: PodGroup) -> bool:
        return job.is_suspended

    def is_stopped(self, job: PodGroup) -> bool:
        return all(pod.is_leaving or is_suspended(pod) for pod in job.pods)

    def is_active(self, job: PodGroup) -> bool:
        return job.is_active

    def pod_sets(self, job: PodGroup) -> tuple[PodSet, ...]:
        return ()  # which pods count depends on the workload, see ``ensure_one_workload``

    def topology_sources(self, job: PodGroup) -> tuple[TopologySource, ...]:
        return ()  # for the same reason

    def finished(self, job: PodGroup) -> Outcome | None:
        return job.outcome

    def pod_counts(self, job: PodGroup) -> PodCounts:
        return job.counts

    def conditions(self, state: JobState[PodGroup], workload: Workload) -> tuple[Condition, ...]:
        """Return WaitingForReplacementPods: a group that is not whole is not queued."""
        was_waiting = is_true(workload.status.conditions, c.WAITING_FOR_REPLACEMENT)
        status: ConditionStatus = "True" if state.job.absent else "False"
        evicted = true_condition(workload.status.conditions, c.EVICTED)
        if state.job.absent and evicted is not None:
            reason, message = evicted.reason, evicted.message
        elif was_waiting == bool(state.job.absent):
            return ()
        elif state.job.absent:
            reason, message = _why_absent(state.job.pods)
        else:
            reason, message = "PodsReady", "No pods need replacement"
        generation = workload.metadata.generation
        return (c.new_condition(c.WAITING_FOR_REPLACEMENT, status, reason, message, state.now, generation),)

    def owns(self, state: JobState[PodGroup], workload: Workload) -> bool:
        return True  # the workload has the name of the group

    def metadata_update(self, constructed: Workload) -> dict[str, object]:
        return {"ownerReferences": constructed.metadata.owner_references}

    def construct(self, state: JobState[PodGroup], extra: str = "") -> Workload | NotComposed:
        return construct_group_workload(state.job, state.context, state.options)

    def ensure_one_workload(
        self, state: JobState[PodGroup], workload: Workload | None
    ) -> JobPlan | tuple[JobState[PodGroup], Workload]:
        group = state.job
        validated = state.options.gates.pod_integration_validate_group_owner
        if workload is not None and validated and not _is_group_workload(workload):
            return self._refuse(group, "is not a pod group workload")
        set_ = None if workload is None or not _is_of_set(workload) else workload.metadata.job_owner
        if workload is not None and set_ is not None:
            own, others = group.divided(_is_of_set_pod)
            if not own.pods:
                refused = self._refuse(others, f"belongs to {set_.kind} {set_.name}")
                return refused.then(self.orphan_plan(workload, state.options, state.now))
            if (released := self.release_ended(others)) != IDLE:
                return released
            group, state = own, JobState.of(self, own, state.context, state.options, state.now)
        if not group.total and (workload is None or not group.is_native):
            return self.release_ended(group).then(not_composed(state, unknown_total(group)))
        if workload is None:
            return self._without_workload(state)
        if c.is_finished(workload) or workload.metadata.deletion_timestamp is not None:
            return state, workload
        counted = count_pods(workload, group)
        fits = workload.spec.maximum_execution_time_seconds == maximum_execution_s(group.metadata)
        if not counted.kept or not fits:
            return reduce_to_one(state, None, [workload])
        if group.is_serving or group.is_native:
            # The owner of deleted pods would create them again.  They stay gated until the count grows.
            counted = replace(counted, excess=())
        if group.is_serving:
            # A set creates a pod again only when the one with its name is gone.
            counted = replace(counted, replaced=tuple(pod for pod in group.pods if pod.has_ended))
        plan = _release_others(workload, counted)
        if plan != IDLE:
            return plan
        roles = tuple((pod_set.name, pod_set.count) for pod_set in workload.spec.pod_sets)
        total = sum(count for _, count in roles) if group.is_native else group.total
        kept = replace(group, pods=counted.kept, total=total, absent=counted.absent, roles=roles)
        return JobState.of(self, kept, state.context, state.options, state.now), workload

    def _refuse(self, group: PodGroup, why: str) -> JobPlan:
        """Report that another object has the workload with the name of the group."""
        text = f'A Workload named "{group.name}" already exists but {why}; this pod group cannot be admitted'
        event = warning_event(self.reference(group), "WorkloadNameConflict", text)
        return self.release_ended(group).then(JobPlan(events=(event,)))

    def release_ended(self, job: PodGroup) -> JobPlan:
        ended = (pod for pod in job.pods if pod.is_leaving or pod.has_ended)
        return JobPlan(concurrent=remove_finalizers(ended))

    def _without_workload(self, state: JobState[PodGroup]) -> JobPlan:
        group = state.job
        if state.outcome is not None or not state.suspended or group.is_active:
            return without_workload(state)
        if prebuilt_name_of(group.metadata, by_annotation=True):
            return IDLE  # the controller that made the pods creates the workload
        replaced = JobPlan(concurrent=remove_finalizers(pod for pod in group.pods if not can_count(pod)))
        constructed = self.construct(state)
        if isinstance(constructed, NotComposed):
            return replaced.then(not_composed(state, constructed))
        counting = by_precedence(pod for pod in group.pods if can_count(pod))
        excess = excess_pods(counting, group.total)
        deleted = JobPlan(concurrent=delete_pods(excess), events=_excess_events(excess))
        return replaced.then(deleted).then(create_workload(state, constructed))

    def orphan_plan(self, workload: Workload, options: JobOptions, now: float) -> JobPlan:
        """Release the workload of a group without pods.

        A workload that a set controls stays until it is deleted; if it is evicted, its quota is released.
        """
        metadata = workload.metadata
        if not _is_group_workload(workload):
            return IDLE
        if metadata.job_owner is None or metadata.deletion_timestamp is not None:
            return JobPlan(writes=remove_finalizer(WORKLOADS, metadata))
        if not c.is_evicted(workload) or c.is_finished(workload):
            return IDLE
        status = release_status(workload, now, options.gates)
        return JobPlan(writes=status_patch(WORKLOADS, workload, status))


def _is_of_set(workload: Workload) -> bool:
    return constants.OWNER_KIND in workload.metadata.annotations


def _is_of_set_pod(pod: Pod) -> bool:
    """Return False for a pod that only names the group of a set."""
    return pod.metadata.annotations.get(constants.SERVING) == "true"


def _is_group_workload(workload: Workload) -> bool:
    return workload.metadata.annotations.get(constants.IS_GROUP) == "true"


def _release_others(workload: Workload, counted: CountedPods) -> JobPlan:
    """Add counted pods as owners; once they are, delete excess pods and release replaced ones.

    A released pod may be gone at once, and a workload without owners is garbage-collected.
    """
    owners = {owner.uid for owner in workload.metadata.owner_references}
    new = [owner_reference(pod) for pod in counted.kept if pod.metadata.uid not in owners]
    if new:
        body = {"metadata": {"ownerReferences": [*workload.metadata.owner_references, *new]}}
        text = f"Added {len(new)} owner reference(s)"
        event = normal_event(reference_to(WORKLOADS, workload.metadata), "OwnerReferencesAdded", text)
        return JobPlan(writes=(workload_patch(workload, body),), events=(event,))
    return JobPlan(
        concurrent=(*delete_pods(counted.excess), *remove_finalizers(counted.replaced)),
        events=_excess_events(counted.excess),
    )


def _excess_events(pods: Sequence[Pod]) -> tuple[ObjectEvent, ...]:
    return tuple(
        normal_event(reference_to(PLACEABLE_PODS, pod.metadata), "ExcessPodDeleted", "Excess pod deleted")
        for pod in pods
        if not pod.is_leaving
    )
