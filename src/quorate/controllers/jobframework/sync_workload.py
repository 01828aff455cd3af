"""Changes of a job that its workload follows: queue, priority, external gates and timeouts."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from quorate.api.kueue import GROUP, PriorityClassRef, Workload, WorkloadPriorityClass
from quorate.api.kueue.wait_for_pods_ready import WAIT_FOR_PODS_READY
from quorate.api.meta import ObjectMeta
from quorate.api.names.kueue import ADMISSION_GATED_BY, PRIORITY_CLASS
from quorate.api.names.multikueue import ORIGIN
from quorate.controllers.executor import ObjectEvent
from quorate.controllers.jobframework.construct_workload import (
    MissingPriorityClass,
    prebuilt_name_of,
    queue_name_of,
    workload_patch,
)
from quorate.controllers.jobframework.interface import J, JobState
from quorate.controllers.jobframework.job_plan import IDLE, JobPlan
from quorate.queueing.conditions import has_quota_reservation
from quorate.queueing.pods_ready import OVERRIDE_ANNOTATIONS, TIMEOUT_ANNOTATIONS


@dataclass(frozen=True, slots=True)
class WorkloadUpdate:
    """The patch of a workload, and the class that is missing before more can be patched."""

    body: Mapping[str, object] = field(default_factory=dict)
    missing: MissingPriorityClass | None = None


def workload_update(
    metadata: ObjectMeta,
    workload: Workload,
    classes: Mapping[str, WorkloadPriorityClass],
    *,
    suspended: bool,
    gated: bool,
) -> WorkloadUpdate:
    """Return the changes of the workload that follow from the labels and annotations of its job.

    ``gated``: external gates are enabled.  There are no changes for the copy of a job in a worker cluster:
    its workload follows the workload in the manager cluster.
    """
    if ORIGIN in metadata.labels:
        return WorkloadUpdate()
    spec: dict[str, object] = {}
    queue_name = queue_name_of(metadata)
    if suspended and workload.spec.queue_name != queue_name and not has_quota_reservation(workload):
        spec["queueName"] = queue_name
    priority = _priority(metadata, workload, classes)
    missing = priority if isinstance(priority, MissingPriorityClass) else None
    if not isinstance(priority, MissingPriorityClass):
        spec |= priority
    body: dict[str, object] = {"spec": spec} if spec else {}
    if annotations := _annotations(metadata, workload, gated=gated):
        body["metadata"] = {"annotations": annotations}
    return WorkloadUpdate(body, missing)


def sync_workload(state: JobState[J], workload: Workload) -> JobPlan:
    """Patch queue, priority and gates of the workload; no writes if it is in sync."""
    changes = workload_update(
        state.job.metadata,
        workload,
        state.context.workload_classes,
        suspended=state.suspended,
        gated=state.options.gates.admission_gated_by,
    )
    plan = IDLE
    if changes.missing is not None:
        event = ObjectEvent(state.kind.reference(state.job), changes.missing.event)
        plan = JobPlan(events=(event,), missing_dependency=str(changes.missing))
    if not changes.body:
        return plan
    updated = state.event("UpdatedWorkload", f"Updated Workload: {workload.metadata.key}")
    return plan.then(JobPlan(writes=(workload_patch(workload, changes.body),), events=(updated,)))


def _priority(
    metadata: ObjectMeta, workload: Workload, classes: Mapping[str, WorkloadPriorityClass]
) -> dict[str, object] | MissingPriorityClass:
    """Return the class of the label, also for running jobs; PriorityClasses cannot change."""
    name = metadata.labels.get(PRIORITY_CLASS, "")
    current = workload.spec.priority_class_ref
    if not name or (current is not None and (current.group != GROUP or current.name == name)):
        return {}
    if current is None and has_quota_reservation(workload):
        return {}
    wanted = classes.get(name)
    if wanted is None:
        return MissingPriorityClass("WorkloadPriorityClass", name)
    ref = PriorityClassRef(group=GROUP, kind="WorkloadPriorityClass", name=name)
    return {"priorityClassRef": ref, "priority": wanted.value}


def _annotations(metadata: ObjectMeta, workload: Workload, *, gated: bool) -> dict[str, str | None]:
    """Return the annotations of gates and timeouts that differ from the job's; null removes an annotation.

    A prebuilt workload, and timeouts of Quorate that a user gave to the workload, stay if the job sets none.
    """
    is_prebuilt = bool(prebuilt_name_of(metadata, by_annotation=True))
    differing: dict[str, str | None] = {}
    for key in (ADMISSION_GATED_BY, *TIMEOUT_ANNOTATIONS) if gated else TIMEOUT_ANNOTATIONS:
        wanted = metadata.annotations.get(key)
        is_own = key in OVERRIDE_ANNOTATIONS or (is_prebuilt and key == WAIT_FOR_PODS_READY)
        if wanted != workload.metadata.annotations.get(key) and not (wanted is None and is_own):
            differing[key] = wanted
    return differing
