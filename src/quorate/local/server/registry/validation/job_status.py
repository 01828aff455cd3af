"""Validation of the status of a job.

A finished job stays finished, counters do not decrease, and the final status is consistent.  Most rules
apply only to fields that an update changes, so an object that already violates a rule can still be updated.
"""

from collections.abc import Iterable

from quorate.api.codec import Json
from quorate.local.objects.errors import Cause, duplicate, invalid_value, required
from quorate.local.server.registry.validation.field_rules import IMMUTABLE, Causes, check
from quorate.local.server.registry.validation.workloads import count_indexes

TERMINAL = ("Failed", "Complete", "FailureTarget", "SuccessCriteriaMet")
PRECEDED_BY = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}
EXCLUSIVE = (
    ("Complete", "Failed"),
    ("Complete", "FailureTarget"),
    ("SuccessCriteriaMet", "Failed"),
    ("SuccessCriteriaMet", "FailureTarget"),
)


def validate_status(new: Json, old: Json) -> list[Cause]:
    now, was = new.get("status", {}), old.get("status", {})
    return [
        *check("JobStatus", now, "status"),
        *_uncounted(now.get("uncountedTerminatedPods", {})),
        *_conditions(now, was),
        *_times(new["spec"], now, was),
        *_pods(new["spec"], now, was),
        *_indexes(new["spec"], now, was),
    ]


def _true_conditions(status: Json) -> set[str]:
    return {c.get("type", "") for c in status.get("conditions", ()) if c.get("status") == "True"}


def _changed(now: Json, was: Json, *fields: str) -> bool:
    return any(now.get(field) != was.get(field) for field in fields)


def _finished_changes(now: Json, was: Json) -> bool:
    """Return True if the update changes whether the job is finished."""
    ends = {"Complete", "Failed"}
    return bool(_true_conditions(now) & ends) != bool(_true_conditions(was) & ends)


def _uncounted(pods: Json) -> Causes:
    seen = set()
    for side in ("succeeded", "failed"):
        for index, uid in enumerate(pods.get(side, ())):
            path = f"status.uncountedTerminatedPods.{side}[{index}]"
            if not uid:
                yield invalid_value(path, uid, "must not be empty")
            elif uid in seen:
                yield duplicate(path, uid)
            seen.add(uid)


def _conditions(now: Json, was: Json) -> Causes:
    path, conditions = "status.conditions", now.get("conditions", [])
    true_now, true_before = _true_conditions(now), _true_conditions(was)
    for terminal, preceding in PRECEDED_BY.items():
        if (
            terminal in true_now
            and preceding not in true_now
            and (terminal in true_now ^ true_before or preceding in true_before)
        ):
            message = f"cannot set {terminal}=True condition without the {preceding}=true condition"
            yield invalid_value(path, conditions, message)
    for one, other in EXCLUSIVE:
        if {one, other} <= true_now and {one, other} & (true_now ^ true_before):
            yield invalid_value(path, conditions, f"cannot set {one}=True and {other}=true conditions")
    if "Complete" in true_before and "SuccessCriteriaMet" in true_now - true_before:
        message = "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions"
        yield invalid_value(path, conditions, message)
    for condition in TERMINAL:
        if condition in true_before - true_now:
            yield invalid_value(path, conditions, f"cannot disable the terminal {condition}=True condition")


def _times(spec: Json, now: Json, was: Json) -> Causes:
    started, completed = now.get("startTime"), now.get("completionTime")
    complete = "Complete" in _true_conditions(now)
    completes = complete != ("Complete" in _true_conditions(was))
    if completes or _changed(now, was, "completionTime"):
        if complete and completed is None:
            yield required("status.completionTime", "completionTime is required for Complete jobs")
        if completed is not None and not complete:
            message = "cannot set completionTime when there is no Complete=True condition"
            yield invalid_value("status.completionTime", completed, message)
    if was.get("completionTime") is not None and completed not in (None, was["completionTime"]):
        yield invalid_value("status.completionTime", completed, "completionTime cannot be mutated")
    # Timestamps are in UTC and whole seconds, so they sort as strings.
    if started and completed and _changed(now, was, "startTime", "completionTime") and completed < started:
        yield invalid_value(
            "status.completionTime", completed, "completionTime cannot be set before startTime"
        )
    resumes = "Suspended" in _true_conditions(was) - _true_conditions(now)
    may_change = was.get("startTime") is None or spec.get("suspend") or resumes
    if _changed(now, was, "startTime") and not may_change:
        yield invalid_value("status.startTime", started, f"{IMMUTABLE} for unsuspended job once set")
    never_ran = spec.get("suspend") and spec.get("completions") == 0
    start_required = _is_finished(now) and (_finished_changes(now, was) or _changed(now, was, "startTime"))
    if start_required and started is None and not never_ran:
        yield required("status.startTime", "startTime is required for finished job")


def _is_finished(status: Json) -> bool:
    return bool(_true_conditions(status) & {"Complete", "Failed"})


def _pods(spec: Json, now: Json, was: Json) -> Causes:
    """Check the pod counters; a finished job has no active pods."""
    for field in _decreased(spec, now, was):
        yield invalid_value(f"status.{field}", now.get(field, 0), f"cannot decrease the {field} counter")
    ready = now.get("ready")
    if _changed(now, was, "ready", "active") and ready is not None and ready > now.get("active", 0):
        yield invalid_value("status.ready", ready, "cannot set more ready pods than active")
    if not _is_finished(now):
        return
    for field in ("active", "terminating"):
        if now.get(field, 0) > 0 and (_finished_changes(now, was) or _changed(now, was, field)):
            yield invalid_value(f"status.{field}", now[field], f"{field}>0 is invalid for finished job")
    field = "uncountedTerminatedPods"
    if any(now.get(field, {}).values()) and (_finished_changes(now, was) or _changed(now, was, field)):
        yield invalid_value(f"status.{field}", now[field], f"{field} needs to be empty for finished job")


def _decreased(spec: Json, now: Json, was: Json) -> Iterable[str]:
    if now.get("failed", 0) < was.get("failed", 0):
        yield "failed"
    # An elastic indexed job may have been scaled down; indexes above its size no longer count.
    elastic = spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")
    if now.get("succeeded", 0) < was.get("succeeded", 0) and not elastic:
        yield "succeeded"


def _indexes(spec: Json, now: Json, was: Json) -> Causes:
    indexed = spec.get("completionMode") == "Indexed"
    rules = (
        (
            "completedIndexes",
            indexed,
            "cannot set non-empty completedIndexes when non-indexed completion mode",
        ),
        (
            "failedIndexes",
            "backoffLimitPerIndex" in spec,
            "cannot set failedIndexes without backoffLimitPerIndex",
        ),
    )
    for field, applies, message in rules:
        if field not in now or not _changed(now, was, field):
            continue
        if not applies:
            yield invalid_value(f"status.{field}", now[field], message)
        if "completions" in spec:
            try:
                count_indexes(now[field], spec["completions"])
            except ValueError as refusal:
                yield invalid_value(f"status.{field}", now[field], f"error parsing {field}: {refusal}")
