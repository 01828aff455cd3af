"""The smaller kinds."""

from collections.abc import Callable, Iterator
from typing import Any

from quorate.api.quantity import parse_quantity
from quorate.local.server.errors import Cause, forbidden_field, invalid_value, not_supported, required
from quorate.local.server.validation import quantities

Json = dict[str, Any]

HIGHEST_USER_PRIORITY = 1_000_000_000
SYSTEM_CLASSES = ("system-cluster-critical", "system-node-critical")
SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
COUNTED = (
    "configmaps",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
)
"""Kinds that a quota counts under their own name."""
QUOTA_RESOURCES = (
    *COUNTED,
    *(f"{prefix}{name}" for prefix in ("", "requests.", "limits.") for name in quantities.DIVISIBLE),
)


def immutable_data(*fields: str) -> Callable[[Json, Json], list[Cause]]:
    """The rule of config maps and secrets: once marked immutable, these fields stay."""

    def validate_update(new: Json, old: Json) -> list[Cause]:
        if not old.get("immutable"):
            return []
        return [
            forbidden_field(name, "field is immutable when `immutable` is set")
            for name in ("immutable", *fields)
            if new.get(name) != old.get(name)
        ]

    return validate_update


config_map_update = immutable_data("data", "binaryData")


def secret_update(new: Json, old: Json) -> list[Cause]:
    findings = immutable_data("data")(new, old)
    if new["type"] != old["type"]:
        findings.append(invalid_value("type", new["type"], "field is immutable"))
    return findings


def priority_class(obj: Json) -> list[Cause]:
    name = obj["metadata"].get("name", "")
    if name in SYSTEM_CLASSES:
        return []
    findings: list[Cause] = []
    if name.startswith("system-"):
        why = (
            "priority class names with 'system-' prefix are reserved for system use only."
            f" error: {name} is not a known system priority class"
        )
        findings.append(forbidden_field("metadata.name", why))
    if obj["value"] > HIGHEST_USER_PRIORITY:
        why = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
        findings.append(forbidden_field("value", why))
    policies = ("Never", "PreemptLowerPriority")
    if obj["preemptionPolicy"] not in policies:
        findings.append(not_supported("preemptionPolicy", obj["preemptionPolicy"], policies))
    return findings


def priority_class_update(new: Json, old: Json) -> list[Cause]:
    findings: list[Cause] = []
    if new["value"] != old["value"]:
        findings.append(forbidden_field("value", "may not be changed in an update."))
    if new["preemptionPolicy"] != old["preemptionPolicy"]:
        findings.append(invalid_value("preemptionPolicy", new["preemptionPolicy"], "field is immutable"))
    return findings


def resource_quota(obj: Json) -> list[Cause]:
    hard = obj.get("spec", {}).get("hard", {})
    findings: list[Cause] = []
    for name, amount in sorted(hard.items()):
        path = f"spec.hard[{name}]"
        if "/" not in name and name not in QUOTA_RESOURCES:
            findings.append(invalid_value(path, name, "must be a standard resource type or fully qualified"))
            findings.append(invalid_value(path, name, "must be a standard resource for quota"))
        if (name in COUNTED or name.startswith("count/")) and parse_quantity(amount).milli % 1000:
            findings.append(invalid_value(path, amount, "must be an integer"))
    return findings + list(quantities.not_negative(hard, "spec.hard"))


def limit_range(obj: Json) -> list[Cause]:
    limits = obj.get("spec", {}).get("limits", [])
    return [
        finding for index, item in enumerate(limits) for finding in _limits(item, f"spec.limits[{index}]")
    ]


def _limits(item: Json, path: str) -> Iterator[Cause]:
    """What is given must be in order: min, default request, default, max."""
    if not item.get("type"):
        yield required(f"{path}.type")
    order = (("min", "min"), ("defaultRequest", "default request"), ("default", "default"), ("max", "max"))
    for name in sorted({name for field, _ in order for name in item.get(field, {})}):
        amounts = [(field, words, item.get(field, {}).get(name)) for field, words in order]
        given = {field: (words, amount) for field, words, amount in amounts if amount is not None}
        for lower, upper, blamed in (
            ("min", "max", "min"),
            ("min", "defaultRequest", "defaultRequest"),
            ("defaultRequest", "max", "defaultRequest"),
            ("defaultRequest", "default", "defaultRequest"),
            ("min", "default", "default"),
            ("default", "max", "default"),
        ):
            if lower in given and upper in given:
                yield from _ordered(f"{path}.{blamed}[{name}]", given[lower], given[upper], given[blamed][1])


def _ordered(path: str, lower: tuple[str, str], upper: tuple[str, str], blamed: str) -> Iterator[Cause]:
    if parse_quantity(upper[1]) < parse_quantity(lower[1]):
        why = f"{lower[0]} value {lower[1]} is greater than {upper[0]} value {upper[1]}"
        yield invalid_value(path, blamed, why)


def service(obj: Json) -> list[Cause]:
    spec = obj.get("spec", {})
    findings: list[Cause] = []
    ports = spec.get("ports", [])
    if not ports and spec["type"] != "ExternalName" and spec.get("clusterIP") != "None":
        findings.append(required("spec.ports"))
    for index, port in enumerate(ports):
        if len(ports) > 1 and not port.get("name"):
            findings.append(required(f"spec.ports[{index}].name"))
        if not 1 <= port.get("port", 0) <= 65_535:
            why = "must be between 1 and 65535, inclusive"
            findings.append(invalid_value(f"spec.ports[{index}].port", port.get("port", 0), why))
    if spec["type"] not in SERVICE_TYPES:
        findings.append(not_supported("spec.type", spec["type"], SERVICE_TYPES))
    if spec["type"] == "ExternalName" and not spec.get("externalName"):
        findings.append(required("spec.externalName"))
    return findings


def service_update(new: Json, old: Json) -> list[Cause]:
    before, after = old["spec"].get("clusterIP"), new["spec"].get("clusterIP")
    if before and after != before and new["spec"]["type"] != "ExternalName":
        return [invalid_value("spec.clusterIPs[0]", [after], "may not change once set")]
    return []
