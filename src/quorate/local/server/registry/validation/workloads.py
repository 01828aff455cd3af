"""Rules that relate fields of Jobs, CronJobs and the kinds that keep a set of pods."""

from quorate.api.codec import Json
from quorate.local.objects import errors
from quorate.local.server.registry.validation import formats
from quorate.local.server.registry.validation.field_rules import (
    IMMUTABLE,
    Causes,
    Scope,
    check,
    check_update,
    first_causes,
    relation,
)
from quorate.local.server.registry.validation.selectors import selector_matches

SELECTOR_MISMATCH = "`selector` does not match template `labels`"
STATEFUL_SET_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)

MAX_INDEXED_PARALLELISM = 100_000
"""Pods, or failed indexes, of an indexed job: what its status can list."""
MANY_COMPLETIONS = 100_000
MAX_PARALLELISM_OF_MANY = 10_000
"""The same for a job with more than MANY_COMPLETIONS and a backoff limit per index."""

COUNTS = {
    "Deployment.status": ("updatedReplicas", "readyReplicas", "availableReplicas"),
    "ReplicaSet.status": ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    "ReplicationController.status": ("fullyLabeledReplicas", "readyReplicas", "availableReplicas"),
    "StatefulSet.status": ("readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"),
}
"""By rules of a status, its counts that are parts of ``replicas``."""


@relation
def selector_selects_template(spec: Json, path: str, scope: Scope) -> Causes:
    selector = spec.get("selector")
    labels = spec["template"]["metadata"].get("labels", {})
    if selector is None:  # selects nothing
        yield errors.invalid_value(f"{path}.template.metadata.labels", labels, SELECTOR_MISMATCH)
        return
    if not (selector.get("matchLabels") or selector.get("matchExpressions")):
        kind = "deployment" if scope.type == "ReplicaSetSpec" else scope.type.removesuffix("Spec").lower()
        yield errors.invalid_value(f"{path}.selector", selector, f"empty selector is invalid for {kind}")
    if not selector_matches(selector, labels):
        yield errors.invalid_value(f"{path}.template.metadata.labels", labels, SELECTOR_MISMATCH)


@relation
def replica_counts(obj: Json, path: str, scope: Scope) -> Causes:
    """Check that the counts of a status are parts of its replicas."""
    status, too_many = obj.get("status", {}), "cannot be greater than {}"
    for field in COUNTS[scope.type]:
        count = status.get(field, 0)
        if count > status.get("replicas", 0):
            yield errors.invalid_value(f"status.{field}", count, too_many.format("status.replicas"))
    available = status.get("availableReplicas", 0)
    if available > status.get("readyReplicas", 0):
        whole = "status.readyReplicas" if scope.type == "StatefulSet.status" else "readyReplicas"
        yield errors.invalid_value("status.availableReplicas", available, too_many.format(whole))


@relation
def progress_deadline_after_ready(spec: Json, path: str, _: Scope) -> Causes:
    seconds = spec.get("progressDeadlineSeconds")
    if seconds is not None and seconds <= spec.get("minReadySeconds", 0):
        yield errors.invalid_value(
            f"{path}.progressDeadlineSeconds", seconds, "must be greater than minReadySeconds"
        )


@relation
def rolling_update_makes_progress(spec: Json, path: str, _: Scope) -> Causes:
    rolling = spec["strategy"].get("rollingUpdate", {})
    if all(rolling.get(name) in (0, "0%") for name in ("maxSurge", "maxUnavailable")):
        field, value = f"{path}.strategy.rollingUpdate.maxUnavailable", rolling["maxUnavailable"]
        yield errors.invalid_value(field, value, "may not be 0 when `maxSurge` is 0")


@relation
def labels_select_template(spec: Json, path: str, _: Scope) -> Causes:
    labels = spec["template"]["metadata"].get("labels", {})
    if not spec.get("selector", {}).items() <= labels.items():
        yield errors.invalid_value(f"{path}.template.metadata.labels", labels, SELECTOR_MISMATCH)


@relation
def daemon_set_strategy(spec: Json, path: str, _: Scope) -> Causes:
    strategy = spec["updateStrategy"]
    if strategy.get("type") == "OnDelete":
        return
    if strategy.get("type") != "RollingUpdate":
        yield errors.not_supported(f"{path}.updateStrategy", strategy, ("OnDelete", "RollingUpdate"))
        return
    rolling, where = strategy.get("rollingUpdate", {}), f"{path}.updateStrategy.rollingUpdate"
    for name in ("maxUnavailable", "maxSurge"):
        yield from formats.check_format(rolling.get(name, 0), f"{where}.{name}", formats.share)
    unavailable, surge = (rolling.get(name, 0) not in (0, "0%") for name in ("maxUnavailable", "maxSurge"))
    if unavailable and surge:
        message = "may not be set when maxUnavailable is non-zero"
        yield errors.invalid_value(f"{where}.maxSurge", rolling["maxSurge"], message)
    elif not unavailable and not surge:
        yield errors.required(f"{where}.maxUnavailable", "cannot be 0 when maxSurge is 0")


def validate_stateful_set(obj: Json) -> list[errors.Cause]:
    """Validate a StatefulSet. A claim template replaces the volume of its name in the pods."""
    spec, template = obj["spec"], obj["spec"]["template"]
    names = [claim.get("metadata", {}).get("name", "") for claim in spec.get("volumeClaimTemplates", ())]
    if names:
        others = [volume for volume in template["spec"].get("volumes", ()) if volume.get("name") not in names]
        claims = [{"name": name, "persistentVolumeClaim": {"claimName": "of-the-pod"}} for name in names]
        template = {**template, "spec": {**template["spec"], "volumes": [*claims, *others]}}
    return first_causes(check("StatefulSet", {**obj, "spec": {**spec, "template": template}}))


def validate_stateful_set_update(new: Json, old: Json) -> list[errors.Cause]:
    if _immutable_part(new["spec"]) == _immutable_part(old["spec"]):
        return []
    *names, last = (f"'{field}'" for field in STATEFUL_SET_MUTABLE)
    message = f"updates to statefulset spec for fields other than {', '.join(names)} and {last} are forbidden"
    return [errors.forbidden_field("spec", message)]


def _immutable_part(spec: Json) -> Json:
    return {name: value for name, value in spec.items() if name not in STATEFUL_SET_MUTABLE}


@relation
def indexed_pod_hostnames(job: Json, path: str, _: Scope) -> Causes:
    """Check that the name of an indexed job, with the last index, is a valid host name."""
    spec, name = job["spec"], job["metadata"].get("name", "")
    if spec.get("completionMode") == "Indexed" and spec.get("completions", 0) > 0:
        last = f"{name}-{spec['completions'] - 1}"
        if any(formats.label(last)):
            message = f"will not able to create pod with invalid DNS label: {last}"
            yield errors.invalid_value("metadata.name", name, message)


@relation
def generated_job_selector(job: Json, path: str, _: Scope) -> Causes:
    spec, meta = job["spec"], job["metadata"]
    if spec.get("manualSelector") or "selector" not in spec:
        return
    labels = {
        f"{prefix}{key}": value
        for prefix in ("batch.kubernetes.io/", "")
        for key, value in (("controller-uid", meta.get("uid", "")), ("job-name", meta.get("name", "")))
    }
    if not selector_matches(spec["selector"], labels):
        yield errors.invalid_value("spec.selector", spec["selector"], "`selector` not auto-generated")


@relation
def job_indexes(spec: Json, path: str, scope: Scope) -> Causes:
    if spec.get("completionMode") != "Indexed":
        return
    completions, max_failed = spec.get("completions"), spec.get("maxFailedIndexes")
    if completions is not None:
        if "successPolicy" in spec:
            yield from check("SuccessPolicy", spec["successPolicy"], f"{path}.successPolicy", scope)
        if max_failed is not None and max_failed > completions:
            message = "must be less than or equal to completions"
            yield errors.invalid_value(f"{path}.maxFailedIndexes", max_failed, message)
    many = (completions or 0) > MANY_COMPLETIONS and "backoffLimitPerIndex" in spec
    if many and max_failed is None:
        yield errors.required(f"{path}.maxFailedIndexes", f"when completions is above {MANY_COMPLETIONS}")
    limit = MAX_PARALLELISM_OF_MANY if many else MAX_INDEXED_PARALLELISM
    for field in ("parallelism", "maxFailedIndexes"):
        if spec.get(field, 0) > limit:
            yield errors.invalid_value(
                f"{path}.{field}", spec[field], f"must be less than or equal to {limit}"
            )


@relation
def job_restart_policy(spec: Json, path: str, _: Scope) -> Causes:
    """Check that the pods of a job can end."""
    field = f"{path}.template.spec.restartPolicy"
    policy = spec["template"].get("spec", {}).get("restartPolicy", "Always")
    if policy == "Always":
        yield errors.required(field, 'valid values: "OnFailure", "Never"')
    elif policy not in ("OnFailure", "Never"):
        yield errors.not_supported(field, policy, ("OnFailure", "Never"))
    elif policy != "Never" and "podFailurePolicy" in spec:
        yield errors.invalid_value(
            field, policy, 'only "Never" is supported when podFailurePolicy is specified'
        )


@relation
def job_selector_selects_template(spec: Json, path: str, _: Scope) -> Causes:
    labels = spec["template"].get("metadata", {}).get("labels")
    if "selector" not in spec or not selector_matches(spec["selector"], labels or {}):
        yield errors.invalid_value(f"{path}.template.metadata.labels", labels, SELECTOR_MISMATCH)


@relation
def fail_index_needs_backoff_limit(rule: Json, path: str, scope: Scope) -> Causes:
    spec = scope.container.container.obj
    if rule.get("action") == "FailIndex" and "backoffLimitPerIndex" not in spec:
        yield errors.invalid_value(
            f"{path}.action", "FailIndex", "requires the backoffLimitPerIndex to be set"
        )


@relation
def exit_codes_or_pod_conditions(rule: Json, path: str, _: Scope) -> Causes:
    codes, patterns = rule.get("onExitCodes"), rule.get("onPodConditions", [])
    if codes is not None and patterns:
        yield errors.invalid_object(path, "specifying both OnExitCodes and OnPodConditions is not supported")
    if codes is None and not patterns:
        yield errors.invalid_object(path, "specifying one of OnExitCodes and OnPodConditions is required")


@relation
def exit_code_container(requirement: Json, path: str, scope: Scope) -> Causes:
    policy = scope.container.container
    template = policy.container.obj["template"].get("spec", {})
    names = {
        container.get("name")
        for field in ("containers", "initContainers")
        for container in template.get(field, ())
    }
    if requirement.get("containerName") not in names | {None}:
        message = "must be one of the container or initContainer names in the pod template"
        yield errors.invalid_value(f"{path}.containerName", requirement["containerName"], message)


@relation
def exit_code_order(requirement: Json, path: str, _: Scope) -> Causes:
    values = requirement.get("values", [])
    for index, value in enumerate(values):
        if value == 0 and requirement.get("operator") == "In":
            yield errors.invalid_value(f"{path}.values[{index}]", value, "must not be 0 for the In operator")
        if value in values[:index]:
            yield errors.duplicate(f"{path}.values[{index}]", value)
    if values != sorted(values):
        yield errors.invalid_value(f"{path}.values", values, "must be ordered")


@relation
def success_policy_rule(rule: Json, path: str, scope: Scope) -> Causes:
    completions: int = scope.container.container.obj["completions"]
    count, indexes = rule.get("succeededCount"), rule.get("succeededIndexes")
    if count is None and indexes is None:
        yield errors.required(path, "at least one of succeededCount or succeededIndexes must be specified")
    index_count = 0
    if indexes is not None:
        try:
            index_count = count_indexes(indexes, completions)
        except ValueError as error:
            message = f"error parsing succeededIndexes: {error}"
            yield errors.invalid_value(f"{path}.succeededIndexes", indexes, message)
    if count is None:
        return
    if count <= 0:
        yield errors.invalid_value(f"{path}.succeededCount", count, "must be greater than zero")
    if count > completions:
        message = f"must be less than or equal to {completions} (the number of specified completions)"
        yield errors.invalid_value(f"{path}.succeededCount", count, message)
    if indexes is not None and count > index_count:
        message = f"must be less than or equal to {index_count} (the number of succeededIndexes)"
        yield errors.invalid_value(f"{path}.succeededCount", count, message)


def count_indexes(text: str, completions: int) -> int:
    """Return how many indexes ``1,3-5`` lists.  Raises ValueError unless they rise, below ``completions``."""
    count, last = 0, -1
    for interval in text.split(",") if text else ():
        first, dash, end = interval.partition("-")
        if not first.isdecimal() or (dash and not end.isdecimal()):
            raise ValueError(f"{interval!r} is no index and no interval of indexes")
        low, high = int(first), int(end or first)
        if low <= last or (dash and high <= low):
            raise ValueError(f"{interval!r} does not rise")
        if high >= completions:
            raise ValueError(f"{high} is not below the completions, {completions}")
        count, last = count + high - low + 1, high
    return count


def validate_job_update(new: Json, old: Json) -> list[errors.Cause]:
    # kube-apiserver validates the whole spec here as well, so each of its findings is listed twice.
    return [*check("JobSpec", new["spec"], "spec"), *_job_changes(new, old)]


def _job_changes(new: Json, old: Json) -> Causes:
    now, was = new["spec"], old["spec"]
    yield from _completions_change(now, was)
    yield from check_update("JobSpec.update", now, was, "spec")
    if not _is_template_mutable(old):
        if now.get("template") != was.get("template"):
            yield errors.invalid_value("spec.template", now.get("template"), IMMUTABLE)
    elif _immutable_pod_spec(now["template"]["spec"]) != _immutable_pod_spec(was["template"]["spec"]):
        yield errors.invalid_value("spec.template.spec", now["template"]["spec"], IMMUTABLE)


def _completions_change(now: Json, was: Json) -> Causes:
    """Check that completions change only for an indexed job, together with its parallelism."""
    size = now.get("completions")
    if size == was.get("completions"):
        return
    if now.get("completionMode") != "Indexed":
        yield errors.invalid_value("spec.completions", size, IMMUTABLE)
    elif size is not None and size != now.get("parallelism"):
        yield errors.invalid_value(
            "spec.completions", size, "can only be modified in tandem with spec.parallelism"
        )


def _is_template_mutable(job: Json) -> bool:
    """Return True if the job is suspended and has no pod made from the old template."""
    status = job.get("status", {})
    stopped = "startTime" not in status or any(
        condition.get("type") == "Suspended" and condition.get("status") == "True"
        for condition in status.get("conditions", ())
    )
    return bool(job["spec"].get("suspend")) and stopped and not status.get("active")


def _immutable_pod_spec(spec: Json) -> Json:
    """Return what a suspended job may not change: all but scheduling directives and resources."""
    fixed = {
        name: value
        for name, value in spec.items()
        if name not in ("nodeSelector", "tolerations", "schedulingGates")
    }
    for field in ("containers", "initContainers"):
        fixed[field] = [
            {name: value for name, value in container.items() if name != "resources"}
            for container in spec.get(field, ())
        ]
    affinity = spec.get("affinity", {})
    fixed["affinity"] = {name: value for name, value in affinity.items() if name != "nodeAffinity"}
    return fixed
