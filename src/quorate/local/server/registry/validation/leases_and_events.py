"""What components write down: leases and events."""

from quorate.local.server.errors import Cause, invalid_value, required
from quorate.local.server.registry.validation import formats
from quorate.local.server.registry.validation.field_rules import (
    IMMUTABLE,
    Causes,
    Json,
    not_negative,
    positive,
    spelled,
)

LASTING = (
    "action", "eventTime", "note", "reason", "regarding", "related", "reportingController",
    "reportingInstance", "type",
)  # fmt: skip
"""what of an events.k8s.io event is told once"""
CALLED = {"note": "message", "regarding": "involvedObject"}
"""by findings, which name the fields of the one kind that both groups are stored as"""
LONGEST_WORD = 128
LONGEST_NOTE = 1024


def lease(given: Json) -> list[Cause]:
    spec = given.get("spec", {})
    return [*positive(spec, "spec", "leaseDurationSeconds"), *not_negative(spec, "spec", "leaseTransitions")]


def core_event(given: Json) -> list[Cause]:
    """An event lies where the object lies that it is about; if that has no namespace, in default."""
    about = given.get("involvedObject", {}).get("namespace", "")
    if (about or "default") != given["metadata"].get("namespace", ""):
        return [invalid_value("involvedObject.namespace", about, "does not match event.namespace")]
    return []


def new_event(given: Json) -> list[Cause]:
    return list(_event(given))


def event_update(new: Json, old: Json) -> list[Cause]:
    """What an events.k8s.io event says stays; only how often it happened may change."""
    changed = [
        invalid_value(CALLED.get(field, field), new.get(field), IMMUTABLE)
        for field in LASTING
        if new.get(field) != old.get(field)
    ]
    return [*(_series(new) if new.get("series") != old.get("series") else ()), *changed]


def _series(given: Json) -> Causes:
    series = given.get("series")
    if series is None:
        return
    if series.get("count", 0) < 2:
        yield invalid_value("series.count", series.get("count", 0), "should be at least 2")
    if not series.get("lastObservedTime"):
        yield required("series.lastObservedTime")


def _event(given: Json) -> Causes:
    yield from _series(given)
    about = given.get("regarding", {}).get("namespace", "")
    if (about or "default") != given["metadata"].get("namespace", ""):
        yield invalid_value("involvedObject.namespace", about, "does not match event.namespace")
    for field in ("eventTime", "reportingController", "reportingInstance", "action", "reason"):
        if not given.get(field):
            yield required(field)
    for field in ("reportingInstance", "action", "reason"):
        if len(given.get(field, "")) > LONGEST_WORD:
            why = f"can have at most {LONGEST_WORD} characters"
            yield invalid_value(field, given[field], why)
    if given.get("reportingController"):
        yield from spelled(given["reportingController"], "reportingController", formats.qualified)
    if len(given.get("note", "").encode()) > LONGEST_NOTE:
        yield invalid_value("message", "", f"can have at most {LONGEST_NOTE} characters")
    if given.get("type") not in ("Normal", "Warning"):
        yield invalid_value("type", given.get("type", ""), "must be Normal or Warning")
