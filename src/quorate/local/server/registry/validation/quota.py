"""What bounds a namespace: ResourceQuotas and LimitRanges."""

from quorate.api.quantity import parse_quantity
from quorate.local.server.errors import Cause, duplicate, forbidden_field, invalid_value, required
from quorate.local.server.registry.validation import formats
from quorate.local.server.registry.validation.field_rules import Causes, Json, spelled, unchanged
from quorate.local.server.registry.validation.resource_amounts import (
    amount,
    container_resource_name,
    known_name,
    may_overcommit,
    quota_resource_name,
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
NAMED_SCOPES = ("PriorityClass", "VolumeAttributesClass")
"""Those that tell objects apart by the name of something."""
OPPOSITES = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
LIMITED = ("Container", "PersistentVolumeClaim", "Pod")


def resource_quota(quota: Json) -> list[Cause]:
    spec = quota.get("spec", {})
    return [
        *_amounts(spec.get("hard", {}), "spec.hard"),
        *_scopes(spec.get("scopes", []), "spec.scopes"),
        *_scope_selector(spec.get("scopeSelector", {}), "spec.scopeSelector"),
    ]


def _amounts(amounts: dict[str, str], path: str) -> Causes:
    for name, value in amounts.items():
        yield from quota_resource_name(name, f"{path}[{name}]")
        yield from amount(name, value, f"{path}[{name}]")


def _scopes(scopes: list[str], path: str) -> Causes:
    for scope in scopes:
        if scope not in SCOPES:
            yield invalid_value(path, scopes, "unsupported scope")
    if any(pair <= set(scopes) for pair in OPPOSITES):
        yield invalid_value(path, scopes, "conflicting scopes")


def _scope_selector(selector: Json, path: str) -> Causes:
    for index, requirement in enumerate(selector.get("matchExpressions", ())):
        here = f"{path}.matchExpressions[{index}]"
        scope, operator = requirement.get("scopeName", ""), requirement.get("operator", "")
        values = requirement.get("values", [])
        if scope not in SCOPES:
            yield invalid_value(f"{here}.scopeName", scope, "unsupported scope")
        elif scope not in NAMED_SCOPES and operator != "Exists":
            why = "must be 'Exist' when scope is any of ResourceQuotaScopeTerminating,"
            why += " ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort,"
            why += " ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
            yield invalid_value(f"{here}.operator", operator, why)
        elif operator not in ("In", "NotIn", "Exists", "DoesNotExist"):
            yield invalid_value(f"{here}.operator", operator, "not a valid selector operator")
        elif operator in ("In", "NotIn") and not values:
            why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            yield required(f"{here}.values", why)
        elif operator in ("Exists", "DoesNotExist") and values:
            why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            yield invalid_value(f"{here}.values", values, why)


def resource_quota_update(new: Json, old: Json) -> list[Cause]:
    return list(unchanged(new.get("spec", {}), old.get("spec", {}), "spec", "scopes"))


def resource_quota_status(new: Json, _: Json) -> list[Cause]:
    status = new.get("status", {})
    return [
        cause for field in ("hard", "used") for cause in _amounts(status.get(field, {}), f"status.{field}")
    ]


def limit_range(limits: Json) -> list[Cause]:
    return list(_limits(limits.get("spec", {}).get("limits", []), "spec.limits"))


def _limits(items: list[Json], path: str) -> Causes:
    known = set()
    for index, item in enumerate(items):
        here, kind = f"{path}[{index}]", item.get("type", "")
        yield from _limited(kind, f"{here}.type")
        if kind in known:
            yield duplicate(f"{here}.type", kind)
        known.add(kind)
        for field in ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio"):
            if kind == "Pod" and field.startswith("default") and item.get(field):
                yield forbidden_field(f"{here}.{field}", "may not be specified when `type` is 'Pod'")
            for name in item.get(field, {}):
                check = container_resource_name if kind == "Container" else known_name
                yield from check(name, f"{here}.{field}[{name}]")
        if kind == "PersistentVolumeClaim" and "storage" not in {*item.get("min", {}), *item.get("max", {})}:
            yield required(f"{here}.limits", "either minimum or maximum storage value is required")
        yield from _in_order(item, here)


def _limited(kind: str, path: str) -> Causes:
    misspelled = [*spelled(kind, path, formats.qualified)]
    yield from misspelled
    if not misspelled and "/" not in kind and kind not in LIMITED:
        yield invalid_value(path, kind, "must be a standard limit type or fully qualified")


def _in_order(item: Json, path: str) -> Causes:
    """min <= defaultRequest <= default <= max, of each resource."""
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
                why = f"{lower} value {low} is greater than {upper} value {high}"
                yield invalid_value(f"{path}.{blamed}[{name}]", item[blamed][name], why)
            elif {lower, upper} == {"default", "defaultRequest"} and low != high and not may_overcommit(name):
                why = f"default value {high} must equal to defaultRequest value {low} in {name}"
                yield invalid_value(f"{path}.{blamed}[{name}]", item[blamed][name], why)
    for name, ratio in sorted(bounds["maxLimitRequestRatio"].items()):
        if ratio < parse_quantity(1):
            why = f"ratio {ratio} is less than 1"
            yield invalid_value(f"{path}.maxLimitRequestRatio[{name}]", str(ratio), why)
