"""Jobs."""

from collections.abc import Iterator
from typing import Any

from quorate.local.server.errors import Cause, invalid_value, not_supported, required
from quorate.local.server.validation import pods

Json = dict[str, Any]

COUNTS = (
    "parallelism",
    "completions",
    "backoffLimit",
    "backoffLimitPerIndex",
    "activeDeadlineSeconds",
    "ttlSecondsAfterFinished",
)
FIXED = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
MODES = ("NonIndexed", "Indexed")
SCHEDULING_DIRECTIVES = ("nodeSelector", "tolerations", "schedulingGates", "affinity", "priorityClassName")
"""What decides where pods go: may change while none of them runs."""


def validate(job: Json) -> list[Cause]:
    return list(_findings(job))


def _findings(job: Json) -> Iterator[Cause]:
    spec = job["spec"]
    for name in COUNTS:
        if spec.get(name, 0) < 0:
            yield invalid_value(f"spec.{name}", spec[name], "must be greater than or equal to 0")
    if spec["completionMode"] not in MODES:
        yield not_supported("spec.completionMode", spec["completionMode"], sorted(MODES))
    indexed = spec["completionMode"] == "Indexed"
    if indexed and "completions" not in spec:
        yield required("spec.completions", "when completion mode is Indexed")
    if "backoffLimitPerIndex" in spec and not indexed:
        why = "requires indexed completion mode"
        yield invalid_value("spec.backoffLimitPerIndex", spec["backoffLimitPerIndex"], why)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        yield required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    yield from _selector(spec)
    yield from pods.template_findings(spec["template"], "spec.template")
    policy = spec["template"]["spec"].get("restartPolicy")
    if policy not in ("OnFailure", "Never") and policy in pods.RESTART_POLICIES:
        yield required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"')
    if "podFailurePolicy" in spec and policy != "Never":
        why = 'only "Never" is supported when podFailurePolicy is specified'
        yield invalid_value("spec.template.spec.restartPolicy", policy, why)


def _selector(spec: Json) -> Iterator[Cause]:
    labels = spec["template"]["metadata"].get("labels")
    if "selector" not in spec:
        yield required("spec.selector")
        wanted = None
    else:
        wanted = spec["selector"].get("matchLabels", {})
    if wanted is None or not wanted.items() <= (labels or {}).items():
        why = "`selector` does not match template `labels`"
        yield invalid_value("spec.template.metadata.labels", labels, why)


def validate_update(new: Json, old: Json) -> list[Cause]:
    # kube-apiserver checks the whole job here too, so what is wrong with it is listed twice.
    return validate(new) + list(_changes(new, old))


def _changes(new: Json, old: Json) -> Iterator[Cause]:
    after, before = new["spec"], old["spec"]
    yield from _completions(after, before)
    for name in FIXED:
        if after.get(name) != before.get(name):
            yield invalid_value(f"spec.{name}", after.get(name), "field is immutable")
    # One that never started, or whose pods are gone.
    free = before.get("suspend", False) and (
        old.get("status", {}).get("startTime") is None or not old.get("status", {}).get("active")
    )
    if free and _settled(after["template"]["spec"]) != _settled(before["template"]["spec"]):
        yield invalid_value("spec.template.spec", after["template"]["spec"], "field is immutable")
    if not free and after["template"] != before["template"]:
        yield invalid_value("spec.template", after["template"], "field is immutable")


def _completions(after: Json, before: Json) -> Iterator[Cause]:
    """The size of an indexed job may change together with its parallelism."""
    size, was = after.get("completions"), before.get("completions")
    if size == was:
        return
    if before["completionMode"] != "Indexed":
        yield invalid_value("spec.completions", size, "field is immutable")
    elif size != after.get("parallelism"):
        yield invalid_value("spec.completions", size, "can only be modified in tandem with spec.parallelism")


def _settled(spec: Json) -> Json:
    """The spec of a template without what may change while none of its pods runs."""
    settled = {name: value for name, value in spec.items() if name not in SCHEDULING_DIRECTIVES}
    for name in ("containers", "initContainers"):
        if name in settled:
            settled[name] = [{k: v for k, v in item.items() if k != "resources"} for item in settled[name]]
    return settled


def validate_status(new: Json, old: Json) -> list[Cause]:
    """A job's counters are never negative, and a finished job stays finished."""
    status = new.get("status", {})
    findings = [
        invalid_value(f"status.{name}", status[name], "must be greater than or equal to 0")
        for name in ("active", "succeeded", "failed", "ready", "terminating")
        if status.get(name, 0) < 0
    ]
    reopened = any(
        _holds(old.get("status", {}), kind) and not _holds(status, kind) for kind in ("Complete", "Failed")
    )
    if reopened:
        findings.append(invalid_value("status.conditions", status.get("conditions"), "field is immutable"))
    return findings


def _holds(status: Json, kind: str) -> bool:
    return any(c.get("type") == kind and c.get("status") == "True" for c in status.get("conditions", []))
