"""Rules that relate fields of ingresses, autoscalers, device claims, certificates and admission policies."""

from typing import Final

from quorate.api.codec import Json
from quorate.local.objects.errors import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
)
from quorate.local.server.admission_rules.policies import unsupported_parts
from quorate.local.server.registry.validation.field_rules import Causes, Scope, check, first_causes, relation
from quorate.local.server.registry.validation.formats import check_format, qualified
from quorate.local.server.registry.validation.resource_amounts import positive_amount

INVALID_PATH_PARTS: Final = ("//", "/./", "/../", "%2f", "%2F")
INVALID_PATH_ENDS: Final = ("/..", "/.")
METRIC_SOURCES: Final = {
    "Object": "object",
    "External": "external",
    "Pods": "pods",
    "Resource": "resource",
    "ContainerResource": "containerResource",
}
"""The fields of a metric's sources, by type."""
NODE_SELECTIONS: Final = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
DECISIONS: Final = ("Approved", "Denied")


@relation
def backend_or_rules(spec: Json, path: str, _: Scope) -> Causes:
    if not spec.get("rules") and "defaultBackend" not in spec:
        yield invalid_value(path, None, "either `defaultBackend` or `rules` must be specified")


@relation
def ingress_path(rule: Json, path: str, _: Scope) -> Causes:
    text, kind = rule.get("path", ""), rule.get("pathType")
    if kind is None or (kind == "ImplementationSpecific" and not text):
        return
    where = f"{path}.path"
    if not text.startswith("/"):
        yield invalid_value(where, text, "must be an absolute path")
    if kind == "ImplementationSpecific":
        return
    for part in INVALID_PATH_PARTS:
        if part in text:
            yield invalid_value(where, text, f"must not contain '{part}'")
    for end in INVALID_PATH_ENDS:
        if text.endswith(end):
            yield invalid_value(where, text, f"cannot end with '{end}'")


@relation
def ingress_backend(backend: Json, path: str, _: Scope) -> Causes:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield invalid_value(path, "", "cannot set both resource and service backends")
    elif service is not None:
        port = service.get("port", {})
        if not service.get("name"):
            yield required(f"{path}.service.name")
        if port.get("name") and port.get("number"):
            yield invalid_value(path, "", "cannot set both port name & port number")
        elif not port.get("name") and not port.get("number"):
            yield required(path, "port name or number is required")
    elif resource is None:
        yield invalid_value(path, "", "resource or service backend is required")


@relation
def replica_bounds(autoscaler: Json, path: str, _: Scope) -> Causes:
    spec = autoscaler["spec"]
    if spec.get("maxReplicas", 0) < spec.get("minReplicas", 1):
        message = "must be greater than or equal to `minReplicas`"
        yield invalid_value("spec.maxReplicas", spec.get("maxReplicas", 0), message)


@relation
def scale_to_zero(autoscaler: Json, path: str, _: Scope) -> Causes:
    """Check that a metric exists while no pod does, if there may be none."""
    spec = autoscaler["spec"]
    types = {metric.get("type") for metric in spec.get("metrics", ())}
    if spec.get("minReplicas") == 0 and not types & {"Object", "External"}:
        message = "must specify at least one Object or External metric to support scaling to zero replicas"
        yield forbidden_field("spec.metrics", message)


@relation
def metric_source(metric: Json, path: str, scope: Scope) -> Causes:
    present = [field for field in METRIC_SOURCES.values() if field in metric]
    expected = METRIC_SOURCES.get(metric.get("type", ""), "")
    if not expected and metric.get("type"):
        yield not_supported(f"{path}.type", metric["type"], sorted(METRIC_SOURCES))
    elif expected and expected not in present:
        yield required(f"{path}.{expected}", "must populate information for the given metric source")
    if len(present) > 1:
        for field in present:
            if field != expected:
                yield forbidden_field(f"{path}.{field}", "must populate the given metric source only")
    if expected in present:
        source = metric[expected]
        yield from check("MetricTarget", source.get("target", {}), f"{path}.{expected}.target", scope)
        yield from _metric_name(source, f"{path}.{expected}")


def _metric_name(source: Json, path: str) -> Causes:
    if path.endswith("esource"):
        if not source.get("name"):
            yield required(f"{path}.name", "must specify a resource name")
        target = source.get("target", {})
        if not target.keys() & {"averageUtilization", "averageValue"}:
            message = "must set either a target raw value or a target utilization"
            yield required(f"{path}.target.averageUtilization", message)
        elif target.keys() >= {"averageUtilization", "averageValue"}:
            message = "may not set both a target raw value and a target utilization"
            yield forbidden_field(f"{path}.target.averageValue", message)
    elif not source.get("metric", {}).get("name"):
        yield required(f"{path}.metric.name", "must specify a metric name")


@relation
def positive_metric_target(target: Json, path: str, _: Scope) -> Causes:
    for name in ("value", "averageValue"):
        if name in target:
            yield from positive_amount(target[name], f"{path}.{name}")


@relation
def known_requests(part: Json, path: str, scope: Scope) -> Causes:
    """Check that a part of a claim names requests of the claim, or alternatives of a request."""
    names = set()
    for request in scope.container.obj.get("requests", ()):
        names.add(request.get("name", ""))
        names |= {
            f"{request.get('name')}/{alternative.get('name')}"
            for alternative in request.get("firstAvailable", ())
        }
    for index, name in enumerate(part.get("requests", ())):
        if name not in names:
            message = (
                "must be the name of a request, or the names of a request and a subrequest separated by '/'"
            )
            yield invalid_value(f"{path}.requests[{index}]", name, message)


@relation
def one_constraint_attribute(constraint: Json, path: str, _: Scope) -> Causes:
    names = [name for name in ("matchAttribute", "distinctAttribute") if name in constraint]
    if len(names) != 1:
        yield required(path, 'exactly one of "matchAttribute" or "distinctAttribute" is required')
    for name in names:
        if "/" not in constraint[name]:
            yield invalid_value(f"{path}.{name}", constraint[name], "must include a domain")
        yield from check_format(constraint[name], f"{path}.{name}", qualified)


@relation
def one_node_selection(spec: Json, path: str, _: Scope) -> Causes:
    names = [name for name in NODE_SELECTIONS if spec.get(name)]
    choice = ", ".join(f"`{name}`" for name in NODE_SELECTIONS)
    if not names:
        yield required(path, f"exactly one of {choice} is required")
    elif len(names) > 1:
        message = f"exactly one of {choice} is required, but multiple fields are set"
        yield invalid_value(path, f"{{{', '.join(names)}}}", message)


@relation
def approved_or_denied(request: Json, path: str, _: Scope) -> Causes:
    types = {condition.get("type") for condition in request.get("status", {}).get("conditions", ())}
    if types >= set(DECISIONS):
        message = "Approved and Denied conditions are mutually exclusive"
        yield invalid_value("status.conditions", "Denied", message)
    for index, condition in enumerate(request.get("status", {}).get("conditions", ())):
        if condition.get("type") in (*DECISIONS, "Failed") and condition.get("status", "True") != "True":
            yield not_supported(f"status.conditions[{index}].status", condition["status"], ("True",))


def validate_request_status(new: Json, old: Json) -> list[Cause]:
    """Validate an update of a certificate request's status, which must not approve or deny it."""
    return first_causes(_request_changes(new, old, frozen=DECISIONS, may_issue=True))


def validate_request_approval(new: Json, old: Json) -> list[Cause]:
    """Validate an update of a certificate request's conditions by an approver."""
    return first_causes(_request_changes(new, old, frozen=(), may_issue=False))


def _request_changes(new: Json, old: Json, *, frozen: tuple[str, ...], may_issue: bool) -> Causes:
    yield from check("CertificateSigningRequest", new)
    for type_ in (*DECISIONS, "Failed"):
        now, was = (_conditions(request, type_) for request in (new, old))
        if len(now) < len(was):
            message = f'updates may not remove a condition of type "{type_}"'
            yield forbidden_field("status.conditions", message)
        elif type_ in frozen and now != was:
            change = "add" if len(now) > len(was) else "modify"
            message = f'updates may not {change} a condition of type "{type_}"'
            yield forbidden_field("status.conditions", message)
    issued, before = (request.get("status", {}).get("certificate", "") for request in (new, old))
    if issued != before and not may_issue:
        yield forbidden_field("status.certificate", "updates may not set certificate content")
    elif issued != before and before:
        yield forbidden_field("status.certificate", "updates may not modify existing certificate content")


def _conditions(request: Json, type_: str) -> list[Json]:
    conditions = request.get("status", {}).get("conditions", ())
    return [condition for condition in conditions if condition.get("type") == type_]


def policy_warnings(policy: Json) -> list[str]:
    return list(unsupported_parts(policy))


@relation
def deny_or_warn(binding: Json, path: str, _: Scope) -> Causes:
    actions = binding["spec"].get("validationActions", [])
    if {"Deny", "Warn"} <= set(actions):
        message = (
            "must not contain both Deny and Warn (repeating the same validation failure information in the"
            " API response and headers serves no purpose)"
        )
        yield invalid_value("spec.validationActions", actions, message)
    for index, action in enumerate(actions):
        if action in actions[:index]:
            yield duplicate(f"spec.validationActions[{index}]", action)
