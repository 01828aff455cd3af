"""The workloads of StatefulSets and LeaderWorkerSets, and the labels of their pods.

The workloads are constructed from the set before its pods exist: an ordered set creates its pods one by one,
and the first would wait for quota that is assigned to all.  Labels and annotations make each pod a member of
a pod group; from then on the pod group is reconciled like any other.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from quorate.api.core.pod import Pod
from quorate.api.events import ObjectReference
from quorate.api.field_path import look_up
from quorate.api.kueue import PodSet, Workload, WorkloadSpec
from quorate.api.meta import ObjectMeta, OwnerReference, find_condition
from quorate.api.names.kueue import JOB_UID, PREBUILT_WORKLOAD, QUEUE_NAME, RESOURCE_IN_USE
from quorate.api.names.topology import INDEX_OFFSET
from quorate.controllers.executor import ObjectEvent, Plan, normal_event, warning_event
from quorate.controllers.finalizers import remove_finalizer
from quorate.controllers.jobframework.construct_workload import (
    MissingPriorityClass,
    copied_annotations,
    owner_of,
    queue_name_of,
    resolve_priority,
    with_unique_items,
)
from quorate.controllers.jobframework.ensure_one_workload import is_equivalent
from quorate.controllers.jobframework.job_plan import JobOptions, ReconcileContext
from quorate.controllers.jobframework.sync_workload import workload_update
from quorate.controllers.limits import MAX_LABEL
from quorate.controllers.pods import constants
from quorate.controllers.pods.pod_writes import delete_pods
from quorate.controllers.pods.queued_pod import is_gated
from quorate.controllers.serving.kinds import (
    MAIN,
    WORKER,
    ServingGroup,
    ServingKind,
    ServingSet,
    group_topology_findings,
    with_requests,
)
from quorate.controllers.serving.set_templates import replicas
from quorate.kube.patches import merged
from quorate.kube.resources import PLACEABLE_PODS, WORKLOADS, Resource, reference_to
from quorate.kube.writes import Create, Delete, Patch, Write, status_patch
from quorate.queueing import conditions as c
from quorate.queueing.conditions import ON_HOLD, PENDING_EVALUATION
from quorate.queueing.lifecycle.statuses import unset_quota_reservation

_REVISION: Final = "controller-revision-hash"
_PARTITION: Final = ("updateStrategy", "rollingUpdate", "partition")
NOT_RESIZED: Final = "NotResized"  # reason of an event of our own: Kueue's webhooks refuse the change
ON_HOLD_TEXT: Final = "{kind} scaled to zero; workload on hold"
PENDING_TEXT: Final = "Workload no longer on hold; waiting for quota reservation"


def serving_plans(
    kind: ServingKind,
    obj: ServingSet,
    workloads: Sequence[Workload],
    pods: Sequence[Pod],
    context: ReconcileContext,
    options: JobOptions,
    now: float,
) -> tuple[Plan, ...]:
    """Return the next steps for a set, given its workloads and pods; a failed step delays no other.

    Raises ``InvalidTemplate``.
    """
    by_name = {workload.metadata.name: workload for workload in workloads}
    present = frozenset(by_name)
    groups = [_as_named(group, by_name) for group in kind.groups(obj, options.gates.short_workload_names)]
    if options.topology is not None:
        groups = [with_requests(kind, group, options.topology) for group in groups]
    plans: list[Plan] = []
    for group in groups:
        workload = by_name.pop(group.workload, None)
        plans.append(
            _create(kind, obj, group, context, options)
            if workload is None
            else _sync(kind, obj, group, workload, context, options, now)
        )
    surplus = [workload for workload in by_name.values() if not c.is_finished(workload)]
    # A pod joins its group only once that has a workload: without one a running pod would be stopped.  The
    # last pods of a set that is scaled to 0 keep their size of the group, as 0 is none.
    counted = [group for group in groups if group.workload in present and group.total]
    plans += map(_delete, surplus)
    outdated = {pod.metadata.uid: pod for pod in _outdated_pods(obj, pods)}
    added = _add_to_groups(kind, obj, counted, [pod for pod in pods if pod.metadata.uid not in outdated])
    plans.append(Plan(concurrent=(*added, *delete_pods(outdated.values()))))
    return tuple(plan for plan in plans if plan != Plan())


def _as_named(group: ServingGroup, workloads: Collection[str]) -> ServingGroup:
    """Return the group with the older workload name if only a workload with the older name exists."""
    if group.workload in workloads or group.older_name not in workloads:
        return group
    return replace(group, workload=group.older_name)


def _create(
    kind: ServingKind, obj: ServingSet, group: ServingGroup, context: ReconcileContext, options: JobOptions
) -> Plan:
    if not group.total or not replicas(obj.document) or obj.is_copy:
        return Plan()
    about = reference_to(kind.resource, obj.metadata)
    if options.topology is not None and (findings := group_topology_findings(kind, group, options.topology)):
        return Plan(events=(warning_event(about, "ErrWorkloadCompose", "; ".join(map(str, findings))),))
    metadata = obj.metadata
    priority = resolve_priority(
        metadata.labels, None, group.pod_sets, context.workload_classes, context.pod_classes
    )
    if isinstance(priority, MissingPriorityClass):
        return _without_class(about, priority)
    resource = kind.resource
    copies = group.index is not None  # as in Kueue, not for StatefulSets
    labels = options.label_keys_to_copy if copies else ()
    keys = options.annotation_keys_to_copy if copies else ()
    annotations = {
        **copied_annotations(metadata, keys, gated=options.gates.admission_gated_by),
        constants.IS_GROUP: "true",
        **_owner_annotations(resource, metadata),
        **({} if group.index is None else {constants.COMPONENT_INDEX: str(group.index)}),
    }
    workload = Workload(
        metadata=ObjectMeta(
            name=group.workload,
            namespace=metadata.namespace,
            labels={
                **{key: metadata.labels[key] for key in labels if key in metadata.labels},
                JOB_UID: metadata.uid,
            },
            annotations=annotations,
            finalizers=(RESOURCE_IN_USE,),
            owner_references=(_owner(kind, obj),),
        ),
        spec=WorkloadSpec(
            pod_sets=with_unique_items(group.pod_sets),
            queue_name=queue_name_of(metadata),
            priority=priority.value,
            priority_class_ref=priority.source,
        ),
    )
    event = normal_event(about, "CreatedWorkload", f"Created Workload: {workload.metadata.key}")
    return Plan(writes=(Create(WORKLOADS, workload, metadata.namespace),), events=(event,))


def _owner(kind: ServingKind, obj: ServingSet) -> OwnerReference:
    """Return the reference to the set, which does not control the workload.

    Kueue stops the pods of a group if an object other than a pod controls its workload.
    """
    controlling = owner_of(kind.resource, obj.metadata)
    return msgspec.structs.replace(controlling, controller=False, block_owner_deletion=False)


def _owner_annotations(resource: Resource[ServingSet], metadata: ObjectMeta) -> dict[str, str]:
    return {
        constants.OWNER_KIND: f"{resource.api_version}, Kind={resource.kind}",
        constants.OWNER_NAME: metadata.name,
    }


def is_adoptable(workload: Workload) -> bool:
    """Return True for a workload of a group that is of no set or other object yet."""
    metadata = workload.metadata
    return metadata.job_owner is None and metadata.annotations.get(constants.IS_GROUP) == "true"


def _adopted(kind: ServingKind, obj: ServingSet, workload: Workload) -> dict[str, object]:
    """Return the metadata of a workload that the set takes over; empty if it is the set's already."""
    own, references = _owner(kind, obj), workload.metadata.owner_references
    is_own = any(owner.uid == own.uid and owner.controller for owner in references)  # of an earlier version
    if not is_own and not is_adoptable(workload):
        return {}
    others = [owner for owner in references if owner.uid != own.uid]
    annotations = _owner_annotations(kind.resource, obj.metadata)
    return {"metadata": {"ownerReferences": [*others, own], "annotations": annotations}}


def _sync(
    kind: ServingKind,
    obj: ServingSet,
    group: ServingGroup,
    workload: Workload,
    context: ReconcileContext,
    options: JobOptions,
    now: float,
) -> Plan:
    """Hold the workload of a set scaled to 0; otherwise sync size, queue and priority."""
    if workload.metadata.deletion_timestamp is not None or c.is_finished(workload):
        return Plan()
    reserved = find_condition(workload.status.conditions, c.QUOTA_RESERVED)
    on_hold = reserved is not None and reserved.reason == ON_HOLD
    if not replicas(obj.document):
        if on_hold:
            return Plan()
        text = ON_HOLD_TEXT.format(kind=kind.resource.kind)
        status = unset_quota_reservation(workload, ON_HOLD, text, now, options.gates)
        return Plan(writes=status_patch(WORKLOADS, workload, status))
    changes = workload_update(
        obj.metadata,
        workload,
        context.workload_classes,
        suspended=True,
        gated=options.gates.admission_gated_by,
    )
    body = merged(dict(changes.body), _adopted(kind, obj, workload))
    about, metadata = reference_to(kind.resource, obj.metadata), workload.metadata
    events: tuple[ObjectEvent, ...] = ()
    if not obj.is_copy and c.has_quota_reservation(workload):
        if _counts(workload.spec.pod_sets) != _counts(group.pod_sets):
            events = (warning_event(about, NOT_RESIZED, _not_resized_text(group, workload)),)
    elif not obj.is_copy and not is_equivalent(
        workload, group.pod_sets, workload.spec.maximum_execution_time_seconds, suspended=True, placement=True
    ):
        body = merged(body, {"spec": {"podSets": with_unique_items(group.pod_sets)}})
    writes: tuple[Write, ...] = ()
    if body:
        writes = (Patch(WORKLOADS, metadata.key, metadata.resource_version, body),)
        events += (normal_event(about, "UpdatedWorkload", f"Updated Workload: {metadata.key}"),)
    if on_hold:
        status = unset_quota_reservation(workload, PENDING_EVALUATION, PENDING_TEXT, now, options.gates)
        writes = (*writes, *status_patch(WORKLOADS, workload, status))
    plan = Plan(writes=writes, events=events)
    return plan if changes.missing is None else plan.then(_without_class(about, changes.missing))


def _without_class(about: ObjectReference, missing: MissingPriorityClass) -> Plan:
    return Plan(events=(ObjectEvent(about, missing.event),), missing_dependency=str(missing))


def _counts(pod_sets: Sequence[PodSet]) -> list[tuple[str, int]]:
    return [(pod_set.name, pod_set.count) for pod_set in pod_sets if pod_set.count]


def _not_resized_text(group: ServingGroup, workload: Workload) -> str:
    held = sum(pod_set.count for pod_set in workload.spec.pod_sets)
    return (
        f"workload {workload.metadata.name} has quota for {held} pods and the set wants {group.total}: the "
        "quota changes when the set is scaled to 0 and back; until then further pods stay gated"
    )


def _delete(workload: Workload) -> Plan:
    metadata = workload.metadata
    if metadata.deletion_timestamp is None:
        return Plan(writes=(Delete(WORKLOADS, metadata.key, metadata.uid),))
    return Plan(writes=remove_finalizer(WORKLOADS, metadata))


def _outdated_pods(obj: ServingSet, pods: Sequence[Pod]) -> list[Pod]:
    """Return the gated pods that a StatefulSet made of an earlier template.

    A set that creates its pods in order replaces none before it is ready, and the quota of the set is for
    pods of the present template.
    """
    revision = look_up(obj.status, ("updateRevision",))
    observed = look_up(obj.status, ("observedGeneration",))
    if not revision or observed != obj.metadata.generation or look_up(obj.spec, _PARTITION):
        return []
    return [
        pod
        for pod in pods
        if is_gated(pod) and not pod.is_leaving and pod.metadata.labels.get(_REVISION, revision) != revision
    ]


def _add_to_groups(
    kind: ServingKind, obj: ServingSet, groups: Sequence[ServingGroup], pods: Sequence[Pod]
) -> tuple[tuple[Write, ...], ...]:
    """Label each pod with its group; pods of surplus groups are deleted with their workload."""
    by_index = {group.index: group for group in groups}
    queue = queue_name_of(obj.metadata)
    writes: list[tuple[Write, ...]] = []
    for pod in pods:
        position = kind.position_of(pod)
        group = by_index.get(position.index) if position is not None else None
        if position is None or group is None or pod.is_leaving:
            continue
        roles = {pod_set.name for pod_set in group.pod_sets}
        role = position.role if position.role in roles else MAIN
        if patch := _membership(pod, group, role, queue):
            writes.append((patch,))
    return tuple(writes)


def _membership(pod: Pod, group: ServingGroup, role: str, queue: str) -> Patch | None:
    annotations = {
        constants.GROUP_NAME: group.workload,
        constants.TOTAL_COUNT: str(group.total),
        constants.FAST_ADMISSION: "true",
        constants.SERVING: "true",
        constants.ROLE_HASH: role,
        PREBUILT_WORKLOAD: group.workload,
        **_index_offset(group, role),
    }
    labels = {constants.MANAGED: "true"}
    if is_gated(pod) or QUEUE_NAME not in pod.metadata.labels:
        labels[QUEUE_NAME] = queue  # that of a pod with quota cannot change
    if len(group.workload) <= MAX_LABEL:
        labels |= {constants.GROUP_NAME: group.workload, PREBUILT_WORKLOAD: group.workload}
    metadata = pod.metadata
    missing: dict[str, dict[str, str]] = {}
    for field, wanted, present in (
        ("labels", labels, metadata.labels),
        ("annotations", annotations, metadata.annotations),
    ):
        if different := {key: value for key, value in wanted.items() if present.get(key) != value}:
            missing[field] = different
    if not missing:
        return None
    return Patch(PLACEABLE_PODS, metadata.key, metadata.resource_version, {"metadata": missing})


def _index_offset(group: ServingGroup, role: str) -> dict[str, str]:
    """Number workers from 1 beside a leader; in a group of pod sets the leader is counted anyway."""
    request = next(pod_set.topology_request for pod_set in group.pod_sets if pod_set.name == role)
    if role != WORKER or request is msgspec.UNSET or request.pod_set_group_name:
        return {}
    return {INDEX_OFFSET: "1"}
