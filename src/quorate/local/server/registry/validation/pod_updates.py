"""Validation of pod updates: few fields are mutable, and fewer without scheduling gates."""

from quorate.api.codec import Json
from quorate.local.objects.errors import Cause, forbidden_field, invalid_value
from quorate.local.server.registry.defaults.pod_resources import qos_class
from quorate.local.server.registry.validation.field_rules import MAX_INT32, Causes, check
from quorate.local.server.registry.validation.formats import check_format, qualified, subdomain

IMMUTABLE = "field is immutable"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
MUTABLE_FIELDS_MESSAGE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
SEPARATELY_CHECKED = ("activeDeadlineSeconds", "tolerations", "schedulingGates")


def validate_update(new: Json, old: Json) -> list[Cause]:
    """Validate an update; added or removed containers or a longer deadline end the validation."""
    was, now = old["spec"], new["spec"]
    for field in ("containers", "initContainers"):
        if len(now.get(field, ())) != len(was.get(field, ())):
            return [forbidden_field(f"spec.{field}", "pod updates may not add or remove containers")]
    deadline = list(_deadline(now.get("activeDeadlineSeconds"), was.get("activeDeadlineSeconds")))
    if deadline and "activeDeadlineSeconds" in now:
        return deadline
    return [*deadline, *_tolerations(now, was), *_gates(now, was), *_other_fields(now, was)]


def validate_resize(new: Json, old: Json) -> list[Cause]:
    """Validate an in-place resize: cpu and memory of containers, sidecars and of the pod may change."""
    was, now = old["spec"], new["spec"]
    findings = []
    if qos_class(now) != qos_class(was):
        message = "Pod QOS Class may not change as a result of resizing"
        findings.append(invalid_value("spec", qos_class(was), message))
    for field in ("containers", "initContainers"):
        before, after = was.get(field, ()), now.get(field, ())
        if len(before) != len(after):
            message = "containers may not be added or removed on resize"
            return [*findings, forbidden_field(f"spec.{field}", message)]
        for index, (container, resized) in enumerate(zip(before, after, strict=True)):
            fixed = field == "initContainers" and container.get("restartPolicy") != "Always"
            findings += _resized(container, resized, f"spec.{field}[{index}]", fixed=fixed)
    if not findings and _unresizable(now) != _unresizable(was):
        findings.append(forbidden_field("spec", "only cpu and memory resources are mutable"))
    return findings


def validate_ephemeral_containers(new: Json, old: Json) -> list[Cause]:
    """Validate an update of the ephemeral containers, which are only ever added."""
    path = "spec.ephemeralContainers"
    now = {container.get("name"): container for container in new["spec"].get("ephemeralContainers", ())}
    findings = []
    for container in old["spec"].get("ephemeralContainers", ()):
        name = container["name"]
        if now.get(name) != container:
            change = "changed" if name in now else "removed"
            message = f'existing ephemeral containers "{name}" may not be {change}'
            findings.append(forbidden_field(path, message))
    return findings


def _resized(container: Json, resized: Json, path: str, *, fixed: bool) -> Causes:
    was, now = container.get("resources", {}), resized.get("resources", {})
    if container.get("name") != resized.get("name"):
        yield forbidden_field(f"{path}.name", "containers may not be renamed or reordered on resize")
    elif fixed:
        if was != now:
            message = "resources for non-sidecar init containers are immutable"
            yield forbidden_field(f"{path}.resources", message)
    else:
        for field in ("requests", "limits"):
            if was.get(field, {}).keys() - now.get(field, {}).keys():
                yield forbidden_field(f"{path}.resources.{field}", f"resource {field} cannot be removed")


def _unresizable(spec: Json) -> list[Json]:
    """Return the amounts that no resize may change: all amounts but cpu and memory."""
    parts = (spec, *spec.get("containers", ()), *spec.get("initContainers", ()))
    maps = (part.get("resources", {}).get(field, {}) for part in parts for field in ("requests", "limits"))
    return [
        {name: amount for name, amount in amounts.items() if name not in ("cpu", "memory")}
        for amounts in maps
    ]


def _deadline(now: int | None, was: int | None) -> Causes:
    path = "spec.activeDeadlineSeconds"
    if now is None:
        if was is not None:
            yield invalid_value(path, now, "must not update from a positive integer to nil value")
    elif not 0 <= now <= MAX_INT32:
        yield invalid_value(path, now, f"must be between 0 and {MAX_INT32}, inclusive")
    elif was is not None and was < now:
        yield invalid_value(path, now, "must be less than or equal to previous value")


def _tolerations(now: Json, was: Json) -> Causes:
    kept = {_without_seconds(toleration) for toleration in now.get("tolerations", ())}
    if not all(_without_seconds(toleration) in kept for toleration in was.get("tolerations", ())):
        message = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden_field("spec.tolerations", message)
    for index, toleration in enumerate(now.get("tolerations", ())):
        yield from check("Toleration", toleration, f"spec.tolerations[{index}]")


def _without_seconds(toleration: Json) -> frozenset[tuple[str, str]]:
    return frozenset((name, value) for name, value in toleration.items() if name != "tolerationSeconds")


def _gates(now: Json, was: Json) -> Causes:
    old_gates = {gate.get("name", "") for gate in was.get("schedulingGates", ())}
    for index, gate in enumerate(now.get("schedulingGates", ())):
        name = gate.get("name", "")
        if name not in old_gates:
            message = f"only deletion is allowed, but found new scheduling gate '{name}'"
            yield forbidden_field(f"spec.schedulingGates[{index}].name", message)


def _other_fields(now: Json, was: Json) -> Causes:
    gated = bool(was.get("schedulingGates"))
    if gated:
        yield from _node_selector(now.get("nodeSelector", {}), was.get("nodeSelector", {}))
        yield from _node_affinity(_terms(now), _terms(was))
    grace_period_fixed = (
        was.get("terminationGracePeriodSeconds", 0) < 0 and now.get("terminationGracePeriodSeconds") == 1
    )
    if _immutable_part(now, gated, grace_period_fixed) != _immutable_part(was, gated, grace_period_fixed):
        yield forbidden_field("spec", MUTABLE_FIELDS_MESSAGE)


def _immutable_part(spec: Json, gated: bool, grace_period_fixed: bool) -> Json:
    """Return the part of a spec that must not change."""
    mutable = {*SEPARATELY_CHECKED}
    if gated:
        mutable |= {"nodeSelector", "affinity"}
    if grace_period_fixed:
        mutable.add("terminationGracePeriodSeconds")
    fixed = {name: value for name, value in spec.items() if name not in mutable}
    for field in ("containers", "initContainers"):
        fixed[field] = [
            {name: value for name, value in container.items() if name != "image"}
            for container in spec.get(field, ())
        ]
    if gated:
        affinity = spec.get("affinity", {})
        fixed["affinity"] = {name: value for name, value in affinity.items() if name != "nodeAffinity"}
    return fixed


def _node_selector(now: dict[str, str], was: dict[str, str]) -> Causes:
    if not was.items() <= now.items():
        message = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        yield invalid_value("spec.nodeSelector", now, message)


def _terms(spec: Json) -> list[Json]:
    required: Json = spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED, {})
    return list(required.get("nodeSelectorTerms", ()))


def _node_affinity(now: list[Json], was: list[Json]) -> Causes:
    """Check that no term is added, and that terms only get more requirements.

    Terms are alternatives, so an added term would allow more nodes; the requirements of a term all hold.
    """
    path = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    if not was:
        return
    if len(now) != len(was):
        message = "no additions/deletions to non-empty NodeSelectorTerms list are allowed"
        yield invalid_value(path, now, message)
        return
    for index, (term, old_term) in enumerate(zip(now, was, strict=True)):
        kept = all(
            term.get(field, [])[: len(old_term.get(field, []))] == old_term.get(field, [])
            for field in ("matchExpressions", "matchFields")
        )
        if not kept:
            message = "only additions are allowed (no mutations or deletions)"
            yield invalid_value(f"{path}[{index}]", term, message)


def validate_status(new: Json, old: Json) -> list[Cause]:
    return [*_status_fields(new.get("status", {}), old.get("status", {})), *_ended_containers(new, old)]


def _status_fields(now: Json, was: Json) -> Causes:
    """Check the conditions, the node that a preemption nominates, the addresses and the QoS class."""
    yield from _generation(now, "status")
    for index, condition in enumerate(now.get("conditions", ())):
        yield from _generation(condition, f"status.conditions[{index}]")
        yield from check_format(condition.get("type", ""), f"status.conditions[{index}].Type", qualified)
    node = now.get("nominatedNodeName", "")
    if node and node != was.get("nominatedNodeName"):
        yield from check_format(node, "status.nominatedNodeName", subdomain)
    addresses = [address.get("ip", "") for address in now.get("podIPs", ())]
    families = [":" in address for address in addresses]
    if addresses and len(set(families)) < len(families):
        yield invalid_value(
            "status.podIPs", now["podIPs"], "may specify no more than one IP for each IP family"
        )
    if was.get("qosClass") and now.get("qosClass") != was["qosClass"]:
        yield invalid_value("status.qosClass", now.get("qosClass", ""), IMMUTABLE)


def _generation(part: Json, path: str) -> Causes:
    generation = part.get("observedGeneration", 0)
    if generation < 0:
        yield invalid_value(f"{path}.observedGeneration", generation, "must be a non-negative integer")


def _ended_containers(new: Json, old: Json) -> Causes:
    spec = old["spec"]
    containers = {container.get("name", ""): container for container in spec.get("containers", ())}
    everywhere = (*spec.get("initContainers", ()), *containers.values())
    rules = (rule for container in everywhere for rule in container.get("restartPolicyRules", ()))
    if any(rule.get("action") == "RestartAllContainers" for rule in rules):
        return
    old_statuses = {
        status.get("name", ""): status for status in old.get("status", {}).get("containerStatuses", ())
    }
    for index, status in enumerate(new.get("status", {}).get("containerStatuses", ())):
        name = status.get("name", "")
        terminated = old_statuses.get(name, {}).get("state", {}).get("terminated")
        if terminated is None or "terminated" in status.get("state", {}):
            continue
        if not _restarts(
            containers.get(name, {}), spec.get("restartPolicy", "Always"), terminated.get("exitCode", 0)
        ):
            message = "may not be transitioned to non-terminated state"
            yield forbidden_field(f"status.containerStatuses[{index}].state", message)


def _restarts(container: Json, policy_of_pod: str, exit_code: int) -> bool:
    """Return True if a container that ended with the exit code starts again."""
    for rule in container.get("restartPolicyRules", ()):
        codes = rule.get("exitCodes") or {}
        if (exit_code in codes.get("values", ())) is (codes.get("operator") == "In"):
            return True
    policy = container.get("restartPolicy", policy_of_pod)
    return bool(policy == "Always" or (policy == "OnFailure" and exit_code != 0))
