"""Rules that relate fields of ResourceQuotas, LimitRanges and PodDisruptionBudgets."""

from quorate.api.codec import Json
from quorate.api.quantity import parse_quantity
from quorate.local.objects.errors import forbidden_field, invalid_value, required
from quorate.local.server.registry.validation.field_rules import Causes, Scope, relation
from quorate.local.server.registry.validation.resource_amounts import (
    container_resource_name,
    known_name,
    may_overcommit,
)

SCOPES = (
    "BestEffort",
    "CrossNamespacePodAffinity",
    "NotBestEffort",
    "NotTerminating",
    "PriorityClass",
    "Terminating",
    "VolumeAttributesClass",
)
SCOPES_WITH_VALUES = ("PriorityClass", "VolumeAttributesClass")
CONFLICTING_SCOPES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
EXISTS_ONLY = (
    "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating,"
    " ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort,"
    " ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)

NOT_OF_SCOPE = "unsupported scope applied to resource"
COMPUTE_OF_PODS = frozenset(
    {"pods", *(f"{side}{name}" for side in ("", "requests.", "limits.") for name in ("cpu", "memory"))}
)
SCOPED_RESOURCES = {
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
} | dict.fromkeys(
    ("CrossNamespacePodAffinity", "NotBestEffort", "NotTerminating", "PriorityClass", "Terminating"),
    COMPUTE_OF_PODS,
)
"""By scope, the resources of Kubernetes that a quota with the scope may limit."""


@relation
def quota_scopes(quota: Json, path: str, _: Scope) -> Causes:
    scopes = quota.get("spec", {}).get("scopes", [])
    for scope in scopes:
        if scope not in SCOPES:
            yield invalid_value("spec.scopes", scopes, "unsupported scope")
    for scope in scopes:
        for _name in unscoped_resources(quota, scope):
            yield invalid_value("spec.scopes", scopes, NOT_OF_SCOPE)
    if any(pair <= set(scopes) for pair in CONFLICTING_SCOPES):
        yield invalid_value("spec.scopes", scopes, "conflicting scopes")


def unscoped_resources(quota: Json, scope: str) -> list[str]:
    """Return the resources of a quota that it cannot count by a scope."""
    counted = SCOPED_RESOURCES.get(scope)
    names = quota.get("spec", {}).get("hard", {})
    return [] if counted is None else [name for name in names if "/" not in name and name not in counted]


@relation
def scope_requirement(requirement: Json, path: str, owner: Scope) -> Causes:
    scope, operator = requirement.get("scopeName", ""), requirement.get("operator", "")
    values = requirement.get("values", [])
    for _name in unscoped_resources(owner.container.obj, scope):
        where = path.rpartition("[")[0]
        terms = owner.container.obj["spec"]["scopeSelector"]["matchExpressions"]
        listed = [
            {
                "ScopeName": term.get("scopeName", ""),
                "Operator": term.get("operator", ""),
                "Values": term.get("values"),
            }
            for term in terms
        ]
        yield invalid_value(where, {"MatchExpressions": listed}, NOT_OF_SCOPE)
    if scope not in SCOPES:
        yield invalid_value(f"{path}.scopeName", scope, "unsupported scope")
    elif scope not in SCOPES_WITH_VALUES and operator != "Exists":
        yield invalid_value(f"{path}.operator", operator, EXISTS_ONLY)
    elif operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
        yield invalid_value(f"{path}.operator", operator, "not a valid selector operator")
    elif operator in ("In", "NotIn") and not values:
        message = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
        yield required(f"{path}.values", message)
    elif operator in ("Exists", "DoesNotExist") and values:
        message = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
        yield invalid_value(f"{path}.values", values, message)


@relation
def limit_range_item(item: Json, path: str, _: Scope) -> Causes:
    kind = item.get("type", "")
    check_name = container_resource_name if kind == "Container" else known_name
    for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
        if kind == "Pod" and field.startswith("default") and item.get(field):
            yield forbidden_field(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
        for name in item.get(field, {}):
            yield from check_name(name, f"{path}.{field}[{name}]")
    if kind == "PersistentVolumeClaim" and "storage" not in {*item.get("min", {}), *item.get("max", {})}:
        yield required(f"{path}.limits", "either minimum or maximum storage value is required")
    yield from _bounds_in_order(item, path)


def _bounds_in_order(item: Json, path: str) -> Causes:
    """Check that min <= defaultRequest <= default <= max for each resource."""
    bounds = {
        field: {name: parse_quantity(value) for name, value in item.get(field, {}).items()}
        for field in ("min", "defaultRequest", "default", "max", "maxLimitRequestRatio")
    }
    for lower, upper, blamed in (
        ("min", "max", "min"),
        ("min", "defaultRequest", "defaultRequest"),
        ("defaultRequest", "max", "defaultRequest"),
        ("defaultRequest", "default", "defaultRequest"),
        ("min", "default", "default"),
        ("default", "max", "default"),
    ):
        for name in sorted(bounds[lower].keys() & bounds[upper].keys()):
            low, high = bounds[lower][name], bounds[upper][name]
            if low > high:
                message = f"{lower} value {low} is greater than {upper} value {high}"
                yield invalid_value(f"{path}.{blamed}[{name}]", item[blamed][name], message)
            elif {lower, upper} == {"default", "defaultRequest"} and low != high and not may_overcommit(name):
                message = f"default value {high} must equal to defaultRequest value {low} in {name}"
                yield invalid_value(f"{path}.{blamed}[{name}]", item[blamed][name], message)
    for name, ratio in sorted(bounds["maxLimitRequestRatio"].items()):
        if ratio < parse_quantity(1):
            message = f"ratio {ratio} is less than 1"
            yield invalid_value(f"{path}.maxLimitRequestRatio[{name}]", str(ratio), message)
