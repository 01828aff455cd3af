"""Jobs: what one may say, and what may change in it once it exists."""

from quorate.local.server.errors import Cause, invalid_value, required
from quorate.local.server.registry.validation import formats
from quorate.local.server.registry.validation.field_rules import (
    IMMUTABLE,
    Causes,
    Json,
    not_negative,
    one_of,
    unchanged,
    well_named,
)
from quorate.local.server.registry.validation.pods import pod_spec
from quorate.local.server.registry.validation.selectors import label_selector, selector_matches
from quorate.local.server.registry.validation.workloads.job_policies import failure_policy, success_policy

COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
FIXED = (
    "selector",
    "completionMode",
    "podFailurePolicy",
    "backoffLimitPerIndex",
    "managedBy",
    "successPolicy",
)
MODES = ("Indexed", "NonIndexed")
INDEXED_ONLY = ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy")
REPLACEMENT_POLICIES = ("Failed", "TerminatingOrFailed")
ENDING_POLICIES = ("OnFailure", "Never")

MOST_AT_ONCE = 100_000
"""Pods, or failed indexes, of an indexed job: what its status can list."""
MANY_INDEXES = 100_000
MOST_AT_ONCE_OF_MANY = 10_000
"""The same for a job of more than MANY_INDEXES with a retry limit for each."""
LONGEST_MANAGER = 63


def validate(job: Json) -> list[Cause]:
    return [*_name(job), *_generated_selector(job), *_spec(job["spec"])]


def _name(job: Json) -> Causes:
    """An indexed job's pods take its name and their index for a host name."""
    spec, name = job["spec"], job["metadata"].get("name", "")
    if spec.get("completionMode") == "Indexed" and spec.get("completions", 0) > 0:
        last = f"{name}-{spec['completions'] - 1}"
        if any(formats.label(last)):
            why = f"will not able to create pod with invalid DNS label: {last}"
            yield invalid_value("metadata.name", name, why)


def _generated_selector(job: Json) -> Causes:
    spec, meta = job["spec"], job["metadata"]
    if spec.get("manualSelector") or "selector" not in spec:
        return
    own = {
        f"{prefix}{key}": value
        for prefix in ("batch.kubernetes.io/", "")
        for key, value in (("controller-uid", meta.get("uid", "")), ("job-name", meta.get("name", "")))
    }
    if not selector_matches(spec["selector"], own):
        yield invalid_value("spec.selector", spec["selector"], "`selector` not auto-generated")


def _spec(spec: Json) -> Causes:
    yield from not_negative(spec, "spec", *COUNTS)
    yield from one_of(spec, "spec", "completionMode", MODES)
    if "maxFailedIndexes" in spec and "backoffLimitPerIndex" not in spec:
        yield required("spec.backoffLimitPerIndex", "when maxFailedIndexes is specified")
    yield from _indexes(spec)
    yield from well_named(spec, "spec", "managedBy", formats.domain_path)
    if len(spec.get("managedBy", "")) > LONGEST_MANAGER:
        why = f"may not be more than {LONGEST_MANAGER} bytes"
        yield Cause("spec.managedBy", "FieldValueTooLong", f"Too long: {why}")
    yield from failure_policy(spec, "spec.podFailurePolicy")
    replacing = REPLACEMENT_POLICIES if "podFailurePolicy" not in spec else ("Failed",)
    yield from one_of(spec, "spec", "podReplacementPolicy", replacing)
    yield from pod_spec.template(spec["template"], "spec.template")
    yield from _restart_policy(spec)
    yield from _selector(spec)


def _indexes(spec: Json) -> Causes:
    if spec.get("completionMode") != "Indexed":
        for field in INDEXED_ONLY:
            if field in spec:
                yield invalid_value(f"spec.{field}", spec[field], "requires indexed completion mode")
        return
    completions, failed = spec.get("completions"), spec.get("maxFailedIndexes")
    if completions is None:
        yield required("spec.completions", "when completion mode is Indexed")
    else:
        yield from success_policy(spec, "spec.successPolicy")
        if failed is not None and failed > completions:
            yield invalid_value("spec.maxFailedIndexes", failed, "must be less than or equal to completions")
    many = (completions or 0) > MANY_INDEXES and "backoffLimitPerIndex" in spec
    if many and failed is None:
        yield required("spec.maxFailedIndexes", f"when completions is above {MANY_INDEXES}")
    most = MOST_AT_ONCE_OF_MANY if many else MOST_AT_ONCE
    for field in ("parallelism", "maxFailedIndexes"):
        if spec.get(field, 0) > most:
            yield invalid_value(f"spec.{field}", spec[field], f"must be less than or equal to {most}")


def _restart_policy(spec: Json) -> Causes:
    """A pod that always starts again never ends, and a job waits for its pods to end."""
    path, policy = "spec.template.spec", spec["template"].get("spec", {}).get("restartPolicy", "Always")
    if policy == "Always":
        yield required(f"{path}.restartPolicy", 'valid values: "OnFailure", "Never"')
    elif policy not in ENDING_POLICIES:
        yield from one_of({"restartPolicy": policy}, path, "restartPolicy", ENDING_POLICIES)
    elif policy != "Never" and "podFailurePolicy" in spec:
        why = 'only "Never" is supported when podFailurePolicy is specified'
        yield invalid_value(f"{path}.restartPolicy", policy, why)


def _selector(spec: Json) -> Causes:
    labels = spec["template"].get("metadata", {}).get("labels")
    if "selector" not in spec:
        yield required("spec.selector")
    else:
        yield from label_selector(spec["selector"], "spec.selector")
    if "selector" not in spec or not selector_matches(spec["selector"], labels or {}):
        why = "`selector` does not match template `labels`"
        yield invalid_value("spec.template.metadata.labels", labels, why)


def validate_update(new: Json, old: Json) -> list[Cause]:
    # kube-apiserver checks the whole spec here too, so what is wrong with it is listed twice.
    return [*_spec(new["spec"]), *_changes(new, old)]


def _changes(new: Json, old: Json) -> Causes:
    now, was = new["spec"], old["spec"]
    yield from _completions(now, was)
    yield from unchanged(now, was, "spec", *FIXED)
    if not _may_be_sent_elsewhere(old):
        yield from unchanged(now, was, "spec", "template")
    elif _settled(now["template"]["spec"]) != _settled(was["template"]["spec"]):
        yield invalid_value("spec.template.spec", now["template"]["spec"], IMMUTABLE)


def _completions(now: Json, was: Json) -> Causes:
    """The size of an indexed job may change together with its parallelism."""
    size = now.get("completions")
    if now.get("completionMode") != "Indexed":
        yield from unchanged(now, was, "spec", "completions")
    elif size is not None and size != was.get("completions") and size != now.get("parallelism"):
        yield invalid_value("spec.completions", size, "can only be modified in tandem with spec.parallelism")


def _may_be_sent_elsewhere(job: Json) -> bool:
    """Whether the job is suspended and has no pod whose template could no longer be told from the new one."""
    status = job.get("status", {})
    stopped = "startTime" not in status or any(
        condition.get("type") == "Suspended" and condition.get("status") == "True"
        for condition in status.get("conditions", ())
    )
    return bool(job["spec"].get("suspend")) and stopped and not status.get("active")


def _settled(spec: Json) -> Json:
    """What stays though no pod runs yet: all but where they may go, and how much they ask for."""
    settled = {
        name: value
        for name, value in spec.items()
        if name not in ("nodeSelector", "tolerations", "schedulingGates")
    }
    for field in ("containers", "initContainers"):
        settled[field] = [
            {name: value for name, value in container.items() if name != "resources"}
            for container in spec.get(field, ())
        ]
    affinity = spec.get("affinity", {})
    settled["affinity"] = {name: value for name, value in affinity.items() if name != "nodeAffinity"}
    return settled
