"""What the labels and annotations of a job still change in the workload that stands for it."""

from quorate.api.kueue import ADMISSION_GATED_BY, GROUP, PRIORITY_CLASS, PriorityClassRef, Workload
from quorate.controllers.jobs import J
from quorate.controllers.jobs.construct import MissingPriorityClass, queue_name_of
from quorate.controllers.jobs.plans import Case, JobPlan, told, updated
from quorate.queueing.conditions import is_reserving


def synced(case: Case[J], workload: Workload) -> JobPlan:
    """One patch for queue, priority and gates; no writes when they are as the job says."""
    spec: dict[str, object] = {}
    queue_name = queue_name_of(case.job.metadata)
    if case.suspended and workload.spec.queue_name != queue_name and not is_reserving(workload):
        spec["queueName"] = queue_name
    priority = _priority(case, workload)
    lacks = ""
    if isinstance(priority, MissingPriorityClass):
        lacks = str(priority)
    else:
        spec |= priority
    body: dict[str, object] = {"spec": spec} if spec else {}
    if gates := _gates(case, workload):
        body["metadata"] = {"annotations": gates}
    if not body:
        return JobPlan(lacks=lacks)
    event = told("UpdatedWorkload", f"Updated Workload: {workload.metadata.key}")
    return JobPlan((updated(workload, body),), (event,), lacks)


def _priority(case: Case[J], workload: Workload) -> dict[str, object] | MissingPriorityClass:
    """The class a label now names, running or not; a class that pods name is fixed with them."""
    name = case.job.metadata.labels.get(PRIORITY_CLASS, "")
    now_of = workload.spec.priority_class_ref
    if not name or (now_of is not None and (now_of.group != GROUP or now_of.name == name)):
        return {}
    if now_of is None and is_reserving(workload):
        return {}
    asked = case.around.workload_classes.get(name)
    if asked is None:
        return MissingPriorityClass("WorkloadPriorityClass", name)
    ref = PriorityClassRef(group=GROUP, kind="WorkloadPriorityClass", name=name)
    return {"priorityClassRef": ref, "priority": asked.value}


def _gates(case: Case[J], workload: Workload) -> dict[str, str | None]:
    """The gates of the job, where its workload has others; null where it has none left."""
    asked = case.job.metadata.annotations.get(ADMISSION_GATED_BY)
    if not case.rules.gates.admission_gated_by:
        return {}
    if asked == workload.metadata.annotations.get(ADMISSION_GATED_BY):
        return {}
    return {ADMISSION_GATED_BY: asked}
