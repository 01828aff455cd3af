"""What a copy of a job contains, and what job and copy take from each other: pure functions of JSON."""

from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, Final

from quorate.api import codec
from quorate.api.field_path import InvalidTemplate, Path, look_up
from quorate.api.kueue import PodSet
from quorate.api.names.kueue import PREBUILT_WORKLOAD, STOPPING
from quorate.api.names.multikueue import CONTROLLER, ORIGIN, ORIGIN_UID
from quorate.controllers.jobframework.interface import EndStatus, JobKind, Outcome
from quorate.controllers.jobs.unstructured import UnstructuredJob
from quorate.controllers.limits import MAX_LABEL
from quorate.controllers.multikueue.jobs.remote_kinds import Forwarded, RemoteKind
from quorate.controllers.pods.constants import ADMISSION_GATE
from quorate.kube.patches import document_merge_patch, merged
from quorate.kube.resources import Json

_POD_SCHEDULED: Final = "PodScheduled"
_JOB_SUSPENDED: Final = "Suspended"
_ADAPTER: Final = "MultiKueueAdapter"  # reason of conditions that no copy has


def job_copy(
    kind: RemoteKind, job: UnstructuredJob, pod_sets: Sequence[PodSet], workload: str, origin: str
) -> Json:
    """Return the object for a worker cluster: the suspended job, without fields of this cluster only.

    ``pod_sets`` are those of the workload: a job that was started here gets its pod templates back.
    """
    metadata = job.metadata
    document: Json = {
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "labels": {**metadata.labels, ORIGIN: origin},
            "annotations": {**metadata.annotations, ORIGIN_UID: metadata.uid},
        },
        "spec": job.spec,
    }
    if kind.names_workload:
        document = merged(document, {"metadata": workload_name(workload)})
    if kind.kind is not None:
        document = _stopped(kind.kind, document, pod_sets)
    for path in (*kind.dropped, ("metadata", "annotations", STOPPING)):
        document = without_field(document, path)
    if kind.managed_by is not None:
        document = without_field(document, kind.managed_by)
    return document if kind.clean is None else kind.clean(document)


def workload_name(name: str) -> Json:
    """Return the patch of the metadata of a copy with which it names its workload.

    Every version of Kueue reads the label, which is too short for some names.
    """
    if len(name) > MAX_LABEL:
        return {"annotations": {PREBUILT_WORKLOAD: name}}
    return {"annotations": {PREBUILT_WORKLOAD: name}, "labels": {PREBUILT_WORKLOAD: name}}


def _stopped(kind: JobKind[Any], document: Json, pod_sets: Sequence[PodSet]) -> Json:
    job = codec.convert(kind.resource.type, document)
    for originals in (pod_sets, None):
        with suppress(InvalidTemplate):  # the pod sets depend on objects that are not read here
            for patch in kind.stop(job, originals).patches:
                if not patch.subresource:
                    document = merged(document, patch.body)
            return document
    return document


def without_field(document: Json, path: Path) -> Json:
    """Return ``document`` without the field at ``path``, which leads through objects only."""
    first, rest = str(path[0]), path[1:]
    inner = document.get(first)
    if rest and isinstance(inner, dict):
        return {**document, first: without_field(inner, rest)}
    return document if rest else {name: value for name, value in document.items() if name != first}


def refusal(kind: RemoteKind, job: UnstructuredJob) -> str:
    """Return why the job must not run in a worker cluster, in Kueue's words; empty if it may."""
    if kind.managed_by is None:
        return ""
    named = look_up(job.document, kind.managed_by)
    if named == CONTROLLER or (kind.stays_suspended and not named):
        return ""
    return f'Expecting {kind.managed_by_text} to be "{CONTROLLER}" not "{named or ""}"'


def has_started(kind: RemoteKind, job: UnstructuredJob) -> bool:
    """Return False for a job that stays suspended here although its copy runs."""
    return not kind.stays_suspended or (
        kind.managed_by is not None and look_up(job.document, kind.managed_by) == CONTROLLER
    )


def outcome_of(kind: RemoteKind, job: UnstructuredJob, status: Json) -> Outcome | None:
    """Return how the job has ended with ``status``; None: it has not, or its kind has no end."""
    if kind.is_pod:
        phase = status.get("phase")
        has_ended = phase in ("Succeeded", "Failed")
        return Outcome(phase == "Succeeded", status.get("message") or "") if has_ended else None
    if kind.kind is None:
        return None
    try:
        return kind.kind.finished(_typed(kind.kind, job, status))
    except InvalidTemplate:
        return None


def _typed(kind: JobKind[Any], job: UnstructuredJob, status: Json) -> Any:
    document = {"metadata": {"name": job.metadata.name}, "spec": job.spec, "status": status}
    return codec.convert(kind.resource.type, document)


def pod_status(pod: UnstructuredJob, status: Json) -> Json:
    """Return the status of a pod from that of its copy.

    A pod that stays gated here keeps the condition that says so while its copy has no node: the cluster
    autoscaler of this cluster would add a node for an unschedulable one.
    """
    here, there = _condition(pod.status, _POD_SCHEDULED), _condition(status, _POD_SCHEDULED)
    gates = look_up(pod.spec, ("schedulingGates",)) or ()
    gated = any(gate.get("name") == ADMISSION_GATE for gate in gates)
    if not gated or here is None or (there is not None and there.get("status") == "True"):
        return status
    return with_condition(status, here)


def suspended_status(status: Json, now: datetime) -> Json:
    """Return the status of a suspended Job with what lets its template be changed.

    That is the condition, and no start time.
    """
    status = without_field(status, ("startTime",))
    condition = _condition(status, _JOB_SUSPENDED)
    if condition is not None and condition.get("status") == "True":
        return status
    return with_condition(
        status,
        {
            "type": _JOB_SUSPENDED,
            "status": "True",
            "reason": _ADAPTER,
            "message": "Set by MultiKueue adapter",
            "lastProbeTime": now,
            "lastTransitionTime": now,
        },
    )


def _condition(status: Json, type_: str) -> Json | None:
    conditions: list[Json] = status.get("conditions") or []
    return next((condition for condition in conditions if condition.get("type") == type_), None)


def with_condition(status: Json, condition: Json) -> Json:
    """Return ``status`` with ``condition`` in place of the condition of the same type."""
    conditions: list[Json] = status.get("conditions") or []
    types = [present.get("type") for present in conditions]
    if condition["type"] not in types:
        return {**status, "conditions": [*conditions, condition]}
    at = types.index(condition["type"])
    return {**status, "conditions": [*conditions[:at], condition, *conditions[at + 1 :]]}


def without_conditions(status: Json, types: Sequence[str]) -> Json:
    """Return ``status`` without the conditions of these types."""
    conditions: list[Json] = status.get("conditions") or []
    kept = [condition for condition in conditions if condition.get("type") not in types]
    return status if len(kept) == len(conditions) else {**status, "conditions": kept}


def with_growing_counts(kind: RemoteKind, here: Json, status: Json) -> Json:
    """Return ``status`` with counts that are not below the counts in ``here``.

    A job may have had another copy before, and the pods of that copy stay counted.
    """
    greater = {
        name: here[name]
        for name in kind.growing_counts
        if isinstance(here.get(name), int) and here[name] > (status.get(name) or 0)
    }
    return {**status, **greater}


def with_valid_times(here: Json, status: Json) -> Json:
    """Return ``status`` with the start time that a started Job has ``here``: the API server keeps that.

    It is of an earlier copy, perhaps in a cluster with another clock; no end may be before it.
    """
    if (started := here.get("startTime")) is None:
        return status
    completed = status.get("completionTime")
    # Both are in UTC and whole seconds, so they sort as texts.
    times = {"startTime": started} | ({"completionTime": max(completed, started)} if completed else {})
    return {**status, **times}


def ended_status(kind: RemoteKind, job: UnstructuredJob, end: Outcome, now: datetime) -> Json | None:
    """Return the status of a job that ended with ``end`` and of which no copy is left.

    None: no status of its kind shows that end.
    """
    before = job.status
    shown = _end_status(kind, job, end)
    if shown is None:
        return None
    status = merged(merged(before, kind.no_pods or {}), shown.fields)
    for type_ in shown.conditions:
        condition = {"type": type_, "status": "True", "reason": _ADAPTER, "message": end.message}
        status = with_condition(status, {**condition, "lastTransitionTime": now})
    if kind.starts_late:
        status["startTime"] = before.get("startTime") or now
        if end.success:
            pods = job.spec.get("completions") or 1
            status |= {"completionTime": now, "succeeded": max(pods, before.get("succeeded") or 0)}
        status = with_valid_times(before, codec.decode(dict[str, Any], codec.encode(status)))
    return status


def _end_status(kind: RemoteKind, job: UnstructuredJob, end: Outcome) -> EndStatus | None:
    if kind.is_pod:
        return EndStatus(fields={"phase": "Succeeded" if end.success else "Failed", "message": end.message})
    if kind.kind is None:
        return None
    return kind.kind.end_status(_typed(kind.kind, job, job.status), end)


def forwarded_patch(rule: Forwarded, local: Json, remote: Json) -> Json:
    """Return the merge patch of a copy to which the fields of a changed job are forwarded; empty: none."""
    here, there = look_up(local, rule.within), look_up(remote, rule.within)
    if rule.entries_by:
        by_name = {entry.get(rule.entries_by): entry for entry in here or ()}
        changed: Any = [
            _with_fields(rule, entry, by_name.get(entry.get(rule.entries_by), entry)) for entry in there or ()
        ]
    else:
        changed = _with_fields(rule, there or {}, here or {})
    if changed == (there or type(changed)()):
        return {}
    *steps, last = map(str, rule.within)
    old, new = {last: there}, {last: changed}
    for step in reversed(steps):
        old, new = {step: old}, {step: new}
    return document_merge_patch(old, new)


def _with_fields(rule: Forwarded, target: Json, source: Json) -> Json:
    kept = {name: value for name, value in target.items() if name not in rule.fields}
    return kept | {name: source[name] for name in rule.fields if source.get(name) is not None}
