"""What to do about a StatefulSet or LeaderWorkerSet: its workloads, and whom each of its pods belongs to.

The workloads are made from the set, before there are pods: those of an ordered set come one by one, and the
first would wait for quota that is given to all.  Pods join by what is written on them, and are from then on
looked after like those of any group (``group``).
"""

from collections.abc import Sequence
from typing import Final

from quorate.api.kueue import RESOURCE_IN_USE, Workload, WorkloadSpec
from quorate.api.meta import ObjectMeta, find_condition
from quorate.controllers.finalizers import released
from quorate.controllers.jobframework.construct_workload import (
    MissingPriorityClass,
    owner_of,
    queue_name_of,
    resolve_priority,
)
from quorate.controllers.jobframework.sync_workload import owed
from quorate.controllers.pods import constants
from quorate.controllers.pods.plan import Catalogue, PodPlan, PodRules, told, warned
from quorate.controllers.pods.queued_pod import PODS, QueuedPod, is_deleted
from quorate.controllers.serving.kinds import ServedGroup, ServingKind, ServingSet
from quorate.controllers.serving.set_templates import replicas
from quorate.kube.patches import merged
from quorate.kube.resources import WORKLOADS, reference_to
from quorate.kube.writes import Create, Delete, Patch, Write, status_patch
from quorate.queueing import conditions as c
from quorate.queueing.conditions import ON_HOLD, PENDING_EVALUATION
from quorate.queueing.lifecycle.statuses import unset_quota_reservation as without_quota

ON_HOLD_TEXT: Final = "{kind} scaled to zero; workload on hold"
PENDING_TEXT: Final = "Workload no longer on hold; waiting for quota reservation"
_LONGEST_LABEL: Final = 63


def decide_set(
    kind: ServingKind,
    obj: ServingSet,
    workloads: Sequence[Workload],
    pods: Sequence[QueuedPod],
    catalogue: Catalogue,
    rules: PodRules,
    now: float,
) -> PodPlan:
    """The next thing to do.  ``workloads`` are those the set controls, ``pods`` those made for it.

    Raises ``paths.Unfit``.
    """
    groups = kind.groups(obj, rules.gates.short_workload_names)
    plan = PodPlan()
    by_name = {workload.metadata.name: workload for workload in workloads}
    for group in groups:
        workload = by_name.pop(group.workload, None)
        step = (
            _created(kind, obj, group, catalogue)
            if workload is None
            else _followed(kind, obj, group, workload, catalogue, rules, now)
        )
        plan = plan.and_then(step)
    surplus = [workload for workload in by_name.values() if not c.is_finished(workload)]
    plan = plan.and_then(_dropped(surplus))
    return plan.and_then(PodPlan(pods=_joined(kind, obj, groups, pods)))


def _created(kind: ServingKind, obj: ServingSet, group: ServedGroup, catalogue: Catalogue) -> PodPlan:
    if not group.total or not replicas(obj.document):
        return PodPlan()
    metadata = obj.metadata
    priority = resolve_priority(
        metadata.labels, None, group.pod_sets, catalogue.workload_classes, catalogue.pod_classes
    )
    if isinstance(priority, MissingPriorityClass):
        why = str(priority)
        return PodPlan(told=(warned(reference_to(kind.resource, obj), "ErrWorkloadCompose", why),), lacks=why)
    resource = kind.resource
    annotations = {
        constants.IS_GROUP: "true",
        constants.OWNER_KIND: f"{resource.api_version}, Kind={resource.kind}",
        constants.OWNER_NAME: metadata.name,
        **({} if group.index is None else {constants.COMPONENT_INDEX: str(group.index)}),
    }
    workload = Workload(
        metadata=ObjectMeta(
            name=group.workload,
            namespace=metadata.namespace,
            annotations=annotations,
            finalizers=(RESOURCE_IN_USE,),
            owner_references=(owner_of(resource, metadata),),
        ),
        spec=WorkloadSpec(
            pod_sets=group.pod_sets,
            queue_name=queue_name_of(metadata),
            priority=priority.value,
            priority_class_ref=priority.source,
        ),
    )
    event = told(
        reference_to(kind.resource, obj), "CreatedWorkload", f"Created Workload: {workload.metadata.key}"
    )
    return PodPlan(workload=(Create(WORKLOADS, workload, metadata.namespace),), told=(event,))


def _followed(
    kind: ServingKind,
    obj: ServingSet,
    group: ServedGroup,
    workload: Workload,
    catalogue: Catalogue,
    rules: PodRules,
    now: float,
) -> PodPlan:
    """A workload that is on hold while its set is scaled to nothing, and follows it to another queue."""
    if workload.metadata.deletion_timestamp is not None or c.is_finished(workload):
        return PodPlan()
    reserved = find_condition(workload.status.conditions, c.QUOTA_RESERVED)
    on_hold = reserved is not None and reserved.reason == ON_HOLD
    if not replicas(obj.document):
        if on_hold:
            return PodPlan()
        text = ON_HOLD_TEXT.format(kind=kind.resource.kind)
        status = without_quota(workload, ON_HOLD, text, now, rules.gates)
        return PodPlan(workload=status_patch(WORKLOADS, workload, status))
    changes = owed(
        obj.metadata,
        workload,
        catalogue.workload_classes,
        suspended=True,
        gated=rules.gates.admission_gated_by,
    )
    body = merged(dict(changes.body), {"spec": resized} if (resized := _resized(group, workload)) else {})
    metadata = workload.metadata
    writes: tuple[Write, ...] = ()
    if body:
        writes = (Patch(WORKLOADS, metadata.key, metadata.resource_version, body),)
    if on_hold:
        status = without_quota(workload, PENDING_EVALUATION, PENDING_TEXT, now, rules.gates)
        writes = (*writes, *status_patch(WORKLOADS, workload, status))
    return PodPlan(workload=writes, lacks=changes.lacks)


def _resized(group: ServedGroup, workload: Workload) -> dict[str, object]:
    """A workload without quota takes over the size of its set."""
    counts = [(each.name, each.count) for each in workload.spec.pod_sets]
    if c.has_quota_reservation(workload) or counts == [(each.name, each.count) for each in group.pod_sets]:
        return {}
    return {"podSets": group.pod_sets}


def _dropped(workloads: Sequence[Workload]) -> PodPlan:
    writes: list[Write] = []
    for workload in workloads:
        metadata = workload.metadata
        if metadata.deletion_timestamp is None:
            writes.append(Delete(WORKLOADS, metadata.key, metadata.uid))
        else:
            writes += released(WORKLOADS, metadata)
    return PodPlan(workload=tuple(writes))


def _joined(
    kind: ServingKind, obj: ServingSet, groups: Sequence[ServedGroup], pods: Sequence[QueuedPod]
) -> tuple[tuple[Write, ...], ...]:
    """Write on each pod which group it is of; those of groups that are surplus leave with their workload."""
    by_index = {group.index: group for group in groups}
    queue = queue_name_of(obj.metadata)
    writes: list[tuple[Write, ...]] = []
    for pod in pods:
        seat = kind.seat_of(pod)
        group = by_index.get(seat.index) if seat is not None else None
        if seat is None or group is None or is_deleted(pod):
            continue
        roles = {pod_set.name for pod_set in group.pod_sets}
        role = seat.role if seat.role in roles else "main"
        if patch := _membership(pod, group, role, queue):
            writes.append((patch,))
    return tuple(writes)


def _membership(pod: QueuedPod, group: ServedGroup, role: str, queue: str) -> Patch | None:
    annotations = {
        constants.GROUP_NAME: group.workload,
        constants.TOTAL_COUNT: str(group.total),
        constants.FAST_ADMISSION: "true",
        constants.SERVING: "true",
        constants.ROLE_HASH: role,
        constants.PREBUILT: group.workload,
    }
    labels = {constants.MANAGED: "true", "kueue.x-k8s.io/queue-name": queue}
    if len(group.workload) <= _LONGEST_LABEL:
        labels |= {constants.GROUP_NAME: group.workload, constants.PREBUILT: group.workload}
    metadata = pod.metadata
    missing: dict[str, dict[str, str]] = {}
    for field, wanted, present in (
        ("labels", labels, metadata.labels),
        ("annotations", annotations, metadata.annotations),
    ):
        if lacking := {key: value for key, value in wanted.items() if present.get(key) != value}:
            missing[field] = lacking
    if not missing:
        return None
    return Patch(PODS, metadata.key, metadata.resource_version, {"metadata": missing})
