"""What the labels and annotations of a job still change in the workload that stands for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from quorate.api.kueue import (
    ADMISSION_GATED_BY,
    GROUP,
    PRIORITY_CLASS,
    PriorityClassRef,
    Workload,
    WorkloadPriorityClass,
)
from quorate.api.meta import ObjectMeta
from quorate.controllers.jobframework.construct_workload import MissingPriorityClass, queue_name_of
from quorate.controllers.jobframework.interface import J
from quorate.controllers.jobframework.job_plan import Case, JobPlan, told, updated
from quorate.queueing.conditions import has_quota_reservation


@dataclass(frozen=True, slots=True)
class Owed:
    """What is to be patched, if anything, and what must come to be before more can be."""

    body: Mapping[str, object] = field(default_factory=dict)
    lacks: str = ""


def owed(
    metadata: ObjectMeta,
    workload: Workload,
    classes: Mapping[str, WorkloadPriorityClass],
    *,
    suspended: bool,
    gated: bool,
) -> Owed:
    """Queue, priority and gates that differ from what the job with ``metadata`` now says.

    ``gated``: whether external gates of admission count.
    """
    spec: dict[str, object] = {}
    queue_name = queue_name_of(metadata)
    if suspended and workload.spec.queue_name != queue_name and not has_quota_reservation(workload):
        spec["queueName"] = queue_name
    priority = _priority(metadata, workload, classes)
    lacks = ""
    if isinstance(priority, MissingPriorityClass):
        lacks = str(priority)
    else:
        spec |= priority
    body: dict[str, object] = {"spec": spec} if spec else {}
    if gated and (gates := _gates(metadata, workload)):
        body["metadata"] = {"annotations": gates}
    return Owed(body, lacks)


def synced(case: Case[J], workload: Workload) -> JobPlan:
    """One patch for queue, priority and gates; no writes when they are as the job says."""
    changes = owed(
        case.job.metadata,
        workload,
        case.around.workload_classes,
        suspended=case.suspended,
        gated=case.rules.gates.admission_gated_by,
    )
    if not changes.body:
        return JobPlan(lacks=changes.lacks)
    event = told("UpdatedWorkload", f"Updated Workload: {workload.metadata.key}")
    return JobPlan((updated(workload, changes.body),), (event,), changes.lacks)


def _priority(
    metadata: ObjectMeta, workload: Workload, classes: Mapping[str, WorkloadPriorityClass]
) -> dict[str, object] | MissingPriorityClass:
    """The class a label now names, running or not; a class that pods name is fixed with them."""
    name = metadata.labels.get(PRIORITY_CLASS, "")
    now_of = workload.spec.priority_class_ref
    if not name or (now_of is not None and (now_of.group != GROUP or now_of.name == name)):
        return {}
    if now_of is None and has_quota_reservation(workload):
        return {}
    asked = classes.get(name)
    if asked is None:
        return MissingPriorityClass("WorkloadPriorityClass", name)
    ref = PriorityClassRef(group=GROUP, kind="WorkloadPriorityClass", name=name)
    return {"priorityClassRef": ref, "priority": asked.value}


def _gates(metadata: ObjectMeta, workload: Workload) -> dict[str, str | None]:
    """The gates of the job, where its workload has others; null where it has none left."""
    asked = metadata.annotations.get(ADMISSION_GATED_BY)
    return (
        {} if asked == workload.metadata.annotations.get(ADMISSION_GATED_BY) else {ADMISSION_GATED_BY: asked}
    )
