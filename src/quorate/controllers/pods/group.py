"""A group of pods: admitted whole, made whole again when pods fail, done when enough have succeeded.

Its workload bears the group's name and is owned by every pod of it.  Pods are kept by a finalizer until the
group has taken note of how they ended: as succeeded, or as replaced by another.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from quorate.api.configuration.feature_gates import Gates
from quorate.api.kueue import Workload
from quorate.api.meta import ObjectMeta
from quorate.controllers.finalizers import released
from quorate.controllers.jobframework.construct_workload import (
    MissingPriorityClass,
    maximum_execution_s,
    prebuilt_name_of,
)
from quorate.controllers.pods import constants
from quorate.controllers.pods.census import Census, by_age, by_worth, take_census
from quorate.controllers.pods.compose import (
    NotComposed,
    disagreement,
    group_workload,
    is_fast,
    owner,
    total_of,
)
from quorate.controllers.pods.decide import decide_with_workload, stopped
from quorate.controllers.pods.plan import (
    IDLE,
    Catalogue,
    PodPlan,
    PodRules,
    Told,
    dropped,
    let_go,
    told,
    warned,
)
from quorate.controllers.pods.queued_pod import QueuedPod, can_count, is_deleted, is_managed
from quorate.controllers.pods.single import created, deleted, not_composed
from quorate.controllers.pods.units import PodGroup
from quorate.kube.resources import WORKLOADS
from quorate.kube.writes import Patch, Write, status_patch
from quorate.queueing.conditions import has_quota_reservation, is_evicted, is_finished
from quorate.queueing.lifecycle.statuses import release_status


def decide_group(
    name: str,
    pods: Sequence[QueuedPod],
    workload: Workload | None,
    catalogue: Catalogue,
    rules: PodRules,
    now: float,
) -> PodPlan:
    """The next thing to do for group ``name``.  ``workload`` is the one of that name, whoever made it."""
    members = by_age(pod for pod in pods if is_managed(pod))
    if not members:
        return IDLE if pods or workload is None else _bereft(workload, rules.gates, now)
    checked = rules.gates.pod_integration_validate_group_owner
    if workload is not None and checked and not _is_of_group(workload):
        why = (
            f'A Workload named "{name}" already exists but is not a pod group workload; '
            "this pod group cannot be admitted"
        )
        return PodPlan(told=(warned(members[0], "WorkloadNameConflict", why),))
    total = total_of(name, members)
    if isinstance(total, NotComposed):
        return not_composed(members[0], str(total))
    group = _group(members, total, rules)
    if workload is None:
        return _without_workload(name, group, catalogue, rules, now)
    if is_finished(workload) or workload.metadata.deletion_timestamp is not None:
        return decide_with_workload(group, workload, catalogue, rules, now)
    census = take_census(workload, members, now)
    fits = workload.spec.maximum_execution_time_seconds == maximum_execution_s(members[0].metadata)
    if not census.kept or not fits:
        return _mismatched(name, group, workload, catalogue, rules, now)
    return _with_workload(group, census, workload, catalogue, rules, now)


def _bereft(workload: Workload, gates: Gates, now: float) -> PodPlan:
    """No pod of the group is left, or there are none yet.

    A workload that another made for its pods stays until it is deleted; evicted, it has nothing to wait for.
    """
    metadata = workload.metadata
    if not _is_of_group(workload):
        return IDLE
    if metadata.controller is None or metadata.deletion_timestamp is not None:
        return PodPlan(workload=released(WORKLOADS, metadata))
    if not is_evicted(workload) or is_finished(workload):
        return IDLE
    return PodPlan(workload=status_patch(WORKLOADS, workload, release_status(workload, now, gates)))


def _is_of_group(workload: Workload) -> bool:
    return workload.metadata.annotations.get(constants.IS_GROUP) == "true"


def _group(pods: Sequence[QueuedPod], total: int, rules: PodRules, absent: int = 0) -> PodGroup:
    return PodGroup(
        pods=tuple(pods),
        total=total,
        absent=absent,
        serving=pods[0].metadata.annotations.get(constants.SERVING) == "true",
        fast_quota_release=rules.gates.fast_quota_release_in_pod_integration,
    )


# There is a workload.


def _with_workload(
    group: PodGroup,
    census: Census,
    workload: Workload,
    catalogue: Catalogue,
    rules: PodRules,
    now: float,
) -> PodPlan:
    if group.serving:
        # Who made the set would make them again: they wait, gated, until the workload is of their number.
        census = replace(census, excess=())
    tidied = _tidied(workload, census)
    if tidied != IDLE:
        return tidied
    absent = census.absent
    if is_fast(group.pods):  # pods that never were are yet to come, one by one
        absent = 0 if group.serving else sum(not can_count(pod) for pod in census.kept)
    kept = _group(census.kept, group.total, rules, absent)
    return decide_with_workload(kept, workload, catalogue, rules, now)


def _tidied(workload: Workload, census: Census) -> PodPlan:
    """Every pod owns the workload; pods that are too many are dropped, those that were replaced let go."""
    events = [*_excess_events(census.excess)]
    owners = {reference.uid for reference in workload.metadata.owner_references}
    new = [owner(pod) for pod in census.kept if pod.metadata.uid not in owners]
    writes: tuple[Write, ...] = ()
    if new:
        metadata = workload.metadata
        body: Mapping[str, object] = {
            "metadata": {"ownerReferences": [*workload.metadata.owner_references, *new]}
        }
        writes = (Patch(WORKLOADS, metadata.key, metadata.resource_version, body),)
        added = f"Added {len(new)} owner reference(s)"
        events.append(told(workload, "OwnerReferencesAdded", added))
    return PodPlan((*dropped(census.excess), *let_go(census.replaced)), writes, tuple(events))


def _excess_events(pods: Iterable[QueuedPod]) -> tuple[Told, ...]:
    return tuple(told(pod, "ExcessPodDeleted", "Excess pod deleted") for pod in pods if not is_deleted(pod))


def _mismatched(
    name: str, group: PodGroup, workload: Workload, catalogue: Catalogue, rules: PodRules, now: float
) -> PodPlan:
    first = group.pods[0]
    if group.suspended and not has_quota_reservation(workload):
        fresh = _composed(name, group, catalogue, rules)
        if not isinstance(fresh, Workload):
            return fresh
        metadata = workload.metadata
        body = {"spec": {**_spec_of(fresh)}, "metadata": {"ownerReferences": fresh.metadata.owner_references}}
        message = f"Updated not matching Workload for suspended job: {metadata.key}"
        event = told(first, "UpdatedWorkload", message)
        patch = Patch(WORKLOADS, metadata.key, metadata.resource_version, body)
        return PodPlan(workload=(patch,), told=(event,))
    plan = IDLE
    if not group.suspended and group.outcome is None:
        message = "No matching Workload; restoring pod templates according to existent Workload"
        plan = stopped(group, "NoMatchingWorkload", message, now)
    return plan.and_then(deleted(first, (workload,)))


def _spec_of(workload: Workload) -> Mapping[str, object]:
    spec = workload.spec
    return {
        "podSets": spec.pod_sets,
        "queueName": spec.queue_name,
        "priority": spec.priority,
        "priorityClassRef": spec.priority_class_ref,
        "maximumExecutionTimeSeconds": spec.maximum_execution_time_seconds,
    }


# There is none yet.


def _without_workload(
    name: str, group: PodGroup, catalogue: Catalogue, rules: PodRules, now: float
) -> PodPlan:
    if group.outcome is not None:
        return PodPlan(let_go(group.pods))
    if not group.suspended:
        return stopped(group, "NoMatchingWorkload", "Missing Workload; unable to restore pod templates", now)
    if group.active(now) or _is_prebuilt(group.pods[0].metadata):
        return IDLE  # pods still run outside of any quota, or whoever made the group makes the workload
    forgotten = let_go(pod for pod in group.pods if not can_count(pod))
    composed = _composed(name, group, catalogue, rules)
    if not isinstance(composed, Workload):
        return PodPlan(forgotten).and_then(composed)
    runnable = by_worth(pod for pod in group.pods if can_count(pod))
    excess = runnable[group.total :]
    cleared = PodPlan((*forgotten, *dropped(excess)), told=_excess_events(excess))
    return cleared.and_then(created(group.pods[0], composed))


def _is_prebuilt(metadata: ObjectMeta) -> bool:
    return bool(prebuilt_name_of(metadata, by_annotation=True))


def _composed(name: str, group: PodGroup, catalogue: Catalogue, rules: PodRules) -> Workload | PodPlan:
    """The workload of the pods that count, as many as the group has places; else what to say."""
    first = group.pods[0]
    runnable = by_worth(pod for pod in group.pods if can_count(pod))
    if not runnable or (len(runnable) < group.total and not is_fast(group.pods)):
        return not_composed(first, f"'{name}' group has fewer runnable pods than expected")
    problem = disagreement(group.pods)
    if problem is not None:
        return not_composed(first, str(problem))
    composed = group_workload(name, by_age(runnable[: group.total]), group.total, catalogue, rules)
    match composed:
        case MissingPriorityClass():
            return not_composed(first, str(composed), lacks=str(composed))
        case NotComposed():
            return not_composed(first, str(composed))
        case _:
            return composed
