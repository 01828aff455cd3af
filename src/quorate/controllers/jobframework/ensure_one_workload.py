"""Kueue's ``ensureOneWorkload``: find or create one workload, delete surplus ones.

Either the framework constructs the workload, or the job names a prebuilt one that another controller made.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec

from quorate.api import codec
from quorate.api.batch import decode_template
from quorate.api.field_path import InvalidTemplate
from quorate.api.kueue import PodSet, Workload
from quorate.api.kueue.topology import PodSetTopologyRequest
from quorate.api.meta import Uid, is_true
from quorate.api.names.kueue import ELASTIC_JOB, JOB_UID, MAX_EXEC_TIME_SECONDS
from quorate.api.names.topology import POD_SET_PREFIX, PREFERRED, REQUIRED, SLICE_CONSTRAINTS, SLICE_LEVEL
from quorate.api.normal_form import normal_form
from quorate.api.syntax import is_label_value
from quorate.controllers.executor import ObjectEvent
from quorate.controllers.finalizers import remove_finalizer
from quorate.controllers.jobframework.construct_workload import NotComposed, unique_spec, workload_patch
from quorate.controllers.jobframework.interface import NO_MATCHING_WORKLOAD, J, JobState, ValidationScope
from quorate.controllers.jobframework.job_plan import IDLE, JobPlan
from quorate.controllers.jobframework.podset_info import read_template
from quorate.kube.resources import WORKLOADS
from quorate.kube.writes import Create, Delete, Write, status_patch
from quorate.queueing.conditions import has_quota_reservation, is_admitted, is_finished
from quorate.queueing.lifecycle.statuses import finish_status
from quorate.queueing.pods_ready import override_findings

_MISSING: Final = "Missing Workload; unable to restore pod templates"
_MISMATCH: Final = "No matching Workload; restoring pod templates according to existent Workload"

_TOPOLOGY_REQUESTS: Final = (REQUIRED, PREFERRED, SLICE_LEVEL, SLICE_CONSTRAINTS)
_TOPOLOGY_RULE: Final = (
    "is without effect: there is no topology-aware scheduling here, pods are admitted by quota alone "
    "(affinity can keep them together)"
)


def ensure_one_workload(state: JobState[J], owned: Sequence[Workload]) -> JobPlan | Workload:
    """Return the workload of the job, or what must be done first; ``owned`` are sorted by age."""
    match = next(
        (
            workload
            for workload in owned
            if state.kind.owns(state, workload) and is_in_sync(state, workload, placement=True)
        ),
        None,
    )
    surplus = [workload for workload in owned if workload is not match]
    if surplus:
        return reduce_to_one(state, match, surplus)
    return without_workload(state) if match is None else match


def ensure_prebuilt_workload(state: JobState[J], workload: Workload | None) -> JobPlan | Workload:
    """Return the workload that the job names, or what must be done first.

    The workload must exist, be controlled by the job or by no other object, and be equivalent to the job.
    """
    if workload is None:
        return _without_prebuilt(state)
    controller = workload.metadata.job_owner
    if controller is None:
        return JobPlan(writes=(workload_patch(workload, {"metadata": _adopted(state, workload)}),))
    if controller.uid != state.job.metadata.uid:
        text = f"Workload {workload.metadata.name} belongs to {controller.kind} {controller.name}"
        conflict = state.warning("WorkloadNameConflict", f"{text}: the job cannot run with it")
        return _without_prebuilt(state).then(JobPlan(events=(conflict,)))
    if is_finished(workload) or is_in_sync(state, workload):
        return workload
    text = "The prebuilt workload is out of sync with its user job"
    status = finish_status(workload, "OutOfSync", text, state.now)
    return JobPlan(writes=status_patch(WORKLOADS, workload, status)).then(_without_prebuilt(state))


def _without_prebuilt(state: JobState[J]) -> JobPlan:
    """A job does not run without the workload it names, and no other is created."""
    if state.outcome is not None:
        return JobPlan(concurrent=state.kind.finalize(state.job))
    if state.suspended:
        return IDLE
    return state.kind.stop_plan(state, None, NO_MATCHING_WORKLOAD, "missing workload")


def _adopted(state: JobState[J], workload: Workload) -> dict[str, object]:
    uid: Uid = state.job.metadata.uid
    labels = {JOB_UID: uid} if is_label_value(uid) else {}
    return {"ownerReferences": (*workload.metadata.owner_references, state.owner), "labels": labels}


def is_in_sync(state: JobState[J], workload: Workload, *, placement: bool = False) -> bool:
    """Return True if the job may go on with ``workload``; see ``is_equivalent`` for ``placement``."""
    if not has_quota_reservation(workload) and not _has_native_levels(state, workload):
        return False
    fits = is_equivalent(
        workload, state.pod_sets, state.maximum_execution_s, state.suspended, placement=placement
    )
    return fits or state.kind.may_run_with(state, workload)


def _has_native_levels(state: JobState[J], workload: Workload) -> bool:
    """Return True if each pod set of which a native group requires a topology level has a request."""
    if state.options.topology is None or state.native is None or not any(state.native.topology):
        return True
    requests = [pod_set.topology_request or PodSetTopologyRequest() for pod_set in workload.spec.pod_sets]
    return len(requests) == len(state.native.topology) and all(
        not wanted or request.required or request.preferred or request.unconstrained is not None
        for wanted, request in zip(state.native.topology, requests, strict=True)
    )


def reduce_to_one(
    state: JobState[J],
    match: Workload | None,
    surplus: Sequence[Workload],
    *,
    running: Workload | None = None,
) -> JobPlan:
    """Delete ``surplus``; without a match first update a workload in place or stop the job.

    ``running``: the workload with which the job runs, if it is one of several.
    """
    plan = IDLE
    if match is None:
        first = surplus[0]
        if state.suspended and state.kind.updates_in_place and _can_become_match(state, first):
            plan, surplus = _update_in_place(state, first), surplus[1:]
        elif not state.suspended and state.outcome is None:
            only = first if len(surplus) == 1 else running
            message = _MISSING if only is None else _MISMATCH
            plan = state.kind.stop_plan(state, only, NO_MATCHING_WORKLOAD, message)
            if plan.stopping:
                return plan
    return plan.then(_deleted(state, surplus))


def _deleted(state: JobState[J], workloads: Iterable[Workload]) -> JobPlan:
    writes: list[Write] = []
    events: list[ObjectEvent] = []
    for workload in workloads:
        metadata = workload.metadata
        writes += remove_finalizer(WORKLOADS, metadata)
        if metadata.deletion_timestamp is None:
            writes.append(Delete(WORKLOADS, metadata.key, metadata.uid))
            events.append(state.event("DeletedWorkload", f"Deleted not matching Workload: {metadata.key}"))
    return JobPlan(writes=tuple(writes), events=tuple(events))


def _can_become_match(state: JobState[J], workload: Workload) -> bool:
    return (
        state.kind.owns(state, workload)
        and workload.metadata.deletion_timestamp is None
        and not has_quota_reservation(workload)
        and not is_finished(workload)
    )


def _update_in_place(state: JobState[J], workload: Workload) -> JobPlan:
    """Make a workload without quota equivalent to its suspended job."""
    constructed = state.kind.construct(state)
    if isinstance(constructed, NotComposed):
        return not_composed(state, constructed)
    spec = constructed.spec
    body: dict[str, object] = {
        "spec": {
            "podSets": spec.pod_sets,
            "queueName": spec.queue_name,
            "priority": spec.priority,
            "priorityClassRef": spec.priority_class_ref,
            "maximumExecutionTimeSeconds": spec.maximum_execution_time_seconds,
        }
    }
    if metadata := state.kind.metadata_update(constructed):
        body["metadata"] = metadata
    message = f"Updated not matching Workload for suspended job: {workload.metadata.key}"
    return JobPlan(
        writes=(workload_patch(workload, body),), events=(state.event("UpdatedWorkload", message),)
    )


def without_workload(state: JobState[J]) -> JobPlan:
    """Create the workload of a suspended job; stop a job that runs without quota."""
    if state.outcome is not None:
        return JobPlan(concurrent=state.kind.finalize(state.job))
    if not state.suspended:
        return state.kind.stop_plan(state, None, NO_MATCHING_WORKLOAD, _MISSING)
    if state.kind.is_active(state.job):
        return IDLE  # its last pods still run without quota: they must end first
    if (counted_at := state.counted_at) is not None:
        return JobPlan(wake_at=counted_at)
    constructed = state.kind.construct(state)
    plan = create_workload(state, constructed)
    if isinstance(constructed, NotComposed) or not state.kind.reports_workload:
        return plan
    options = state.options
    per_workload = options.gates.workload_level_wait_for_pods_ready
    annotations = state.job.metadata.annotations
    overrides = override_findings(annotations, options.wait_for_pods_ready, per_workload=per_workload)
    ignored = (*overrides, *_invalid_metadata(state))
    if state.options.topology is None:
        ignored = (*ignored, *ignored_topology_findings(state.pod_sets))
    warnings = tuple(state.warning("IgnoredAnnotation", finding) for finding in ignored)
    return replace(plan, events=(*warnings, *plan.events))


def _invalid_metadata(state: JobState[J]) -> tuple[str, ...]:
    """Return one finding for each annotation or label that a webhook would refuse; they have no effect."""
    metadata = state.job.metadata
    scope = ValidationScope(
        queued=True, elastic=state.options.elastic_jobs and metadata.annotations.get(ELASTIC_JOB) == "true"
    )
    try:
        findings = tuple(state.kind.findings(None, state.job, scope))
    except InvalidTemplate:
        findings = ()
    problems = [str(finding) for finding in findings if finding.path.startswith("metadata.")]
    limit = metadata.labels.get(MAX_EXEC_TIME_SECONDS)
    if limit is not None and state.maximum_execution_s is None:
        problems.append(
            f"metadata.labels[{MAX_EXEC_TIME_SECONDS}]: {limit!r} is no number of seconds above 0"
        )
    return tuple(problems)


def create_workload(state: JobState[J], constructed: Workload | NotComposed) -> JobPlan:
    if isinstance(constructed, NotComposed):
        return not_composed(state, constructed)
    key = constructed.metadata.key
    event = state.event("CreatedWorkload", f"Created Workload: {key}")
    return JobPlan(writes=(Create(WORKLOADS, constructed, key.namespace),), events=(event,))


def not_composed(state: JobState[J], problem: NotComposed) -> JobPlan:
    event = ObjectEvent(state.kind.reference(state.job), problem.event)
    return JobPlan(events=(event,), missing_dependency=problem.missing_dependency)


def ignored_topology_findings(pod_sets: Iterable[PodSet]) -> tuple[str, ...]:
    """Return one finding for each topology request in a pod template; the requests are ignored."""
    return tuple(
        f"pod set {pod_set.name}: metadata.annotations[{key}]: {annotations[key]!r} {_TOPOLOGY_RULE}"
        for pod_set in pod_sets
        if POD_SET_PREFIX.encode() in bytes(pod_set.template)  # decode only templates that may have one
        for annotations in (decode_template(pod_set.template).metadata.annotations,)
        for key in _TOPOLOGY_REQUESTS
        if key in annotations
    )


# The fields of a pod spec, besides its containers, that determine what a pod requests.
_CONTAINERS: Final = ("initContainers", "containers")
_REQUESTING: Final = ("resources", "overhead", "runtimeClassName", "resourceClaims")
# The fields, besides tolerations, that determine which flavors and nodes a pod fits.
_PLACING: Final = ("nodeSelector", "affinity")


def is_equivalent(
    workload: Workload,
    pod_sets: Sequence[PodSet],
    maximum_execution_s: int | None,
    suspended: bool,
    *,
    running: bool = False,
    placement: bool = False,
) -> bool:
    """Return True if ``workload`` is equivalent to a job with ``pod_sets``.

    Once the workload is admitted, the job may be running: with injected tolerations, and with the admitted
    count of a partial admission, which finished pods reduce further.  Before that, tolerations are compared:
    the reserved flavor was chosen for them.  Labels and other annotations are never compared: they change
    neither the requested quota nor the flavors.  The minimum of a running job is not compared either: its
    native pod group may be created or deleted.
    ``running``: the job may run with the tolerations of another workload.
    ``placement``: before the admission node selectors, affinity and topology requests of a suspended job are
    compared, too: users may change them while the job waits.
    """
    if workload.spec.maximum_execution_time_seconds != maximum_execution_s:
        return False
    if len(workload.spec.pod_sets) != len(pod_sets):
        return False
    waits = suspended and not is_admitted(workload)
    compared = _shape_with_placement if placement and waits else _shape_with_tolerations
    if is_true(workload.status.conditions, "QuotaReserved"):
        shape = compared if waits else _shape
        if _are_equal(_as_admitted(workload), pod_sets, shape, minimums=suspended):
            return True
        if not suspended:
            return False
    return _are_equal(workload.spec.pod_sets, pod_sets, _shape if running else compared)


def _as_admitted(workload: Workload) -> tuple[PodSet, ...]:
    admission = workload.status.admission
    if admission is None:
        return workload.spec.pod_sets
    counts = {assignment.name: assignment.count for assignment in admission.pod_set_assignments}
    return tuple(
        pod_set
        if pod_set.min_count is msgspec.UNSET or (count := counts.get(pod_set.name)) is None
        else msgspec.structs.replace(pod_set, count=count)
        for pod_set in workload.spec.pod_sets
    )


def _are_equal(
    ours: Sequence[PodSet],
    theirs: Sequence[PodSet],
    shape: Callable[[dict[str, Any]], tuple[Any, ...]],
    minimums: bool = True,
) -> bool:
    return all(
        mine.count == other.count
        and (mine.min_count == other.min_count or not minimums)
        and _have_equal_shapes(read_template(mine.template), read_template(other.template), shape)
        for mine, other in zip(ours, theirs, strict=True)
    )


def _have_equal_shapes(
    mine: dict[str, Any], other: dict[str, Any], shape: Callable[[dict[str, Any]], tuple[Any, ...]]
) -> bool:
    return shape(mine) == shape(other) or shape(_normalized(mine)) == shape(_normalized(other))


def _normalized(template: dict[str, Any]) -> dict[str, Any]:
    """Return a template without nulls, and in normal form what its pods run and request.

    An empty selector of an affinity has a meaning.
    """
    template = codec.without_nulls(template)
    spec = template.get("spec") or {}
    requesting = {field: spec.get(field) for field in (*_CONTAINERS, *_REQUESTING)}
    return {**template, "spec": {**spec, **dict.fromkeys(requesting), **normal_form(requesting, zeros=True)}}


def _shape(template: dict[str, Any]) -> tuple[Any, ...]:
    spec = unique_spec(template.get("spec") or {})
    return (*(spec.get(field) or None for field in (*_CONTAINERS, *_REQUESTING)),)


def _shape_with_tolerations(template: dict[str, Any]) -> tuple[Any, ...]:
    spec = unique_spec(template.get("spec") or {})
    return (*_shape(template), spec.get("tolerations") or [])


def _shape_with_placement(template: dict[str, Any]) -> tuple[Any, ...]:
    spec = template.get("spec") or {}
    annotations = (template.get("metadata") or {}).get("annotations") or {}
    requests = {key: value for key, value in annotations.items() if key.startswith(POD_SET_PREFIX)}
    placing = (spec.get(field) or None for field in _PLACING)
    return (*_shape_with_tolerations(template), *placing, requests)
