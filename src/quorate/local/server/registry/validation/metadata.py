"""Validation of metadata, the same for all kinds."""

from collections.abc import Callable, Iterator
from typing import Any

from quorate.local.server.errors import (
    Cause,
    forbidden_field,
    format_value,
    invalid_value,
    required,
    too_long,
)
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.registry.validation import formats

Json = dict[str, Any]

STANDARD_FINALIZERS = ("kubernetes", "orphan", "foregroundDeletion")
ANNOTATIONS_LIMIT = 256 * 1024  # bytes of all keys and values together

NAME_RULES: dict[str, Callable[[str], Iterator[str]]] = {
    "namespaces": formats.label,
    "services": formats.service_label,
    "roles.rbac.authorization.k8s.io": formats.path_segment,
    "rolebindings.rbac.authorization.k8s.io": formats.path_segment,
    "clusterroles.rbac.authorization.k8s.io": formats.path_segment,
    "clusterrolebindings.rbac.authorization.k8s.io": formats.path_segment,
}
"""Resources whose names are not DNS subdomains."""


def validate(kind: Kind, obj: Json) -> list[Cause]:
    metadata: Json = obj["metadata"]
    rule = NAME_RULES.get(kind.resource, formats.subdomain)
    findings = []
    if "generateName" in metadata:
        base = metadata["generateName"].removesuffix("-")
        findings += [
            invalid_value("metadata.generateName", metadata["generateName"], why) for why in rule(base)
        ]
    findings += _name(metadata.get("name", ""), rule)
    findings += labels(metadata.get("labels") or {}, "metadata.labels")
    findings += annotations(metadata.get("annotations") or {}, "metadata.annotations")
    findings += _finalizers(metadata.get("finalizers") or [])
    findings += _owners(metadata.get("ownerReferences") or [])
    return findings


def _name(name: str, rule: Callable[[str], Iterator[str]]) -> list[Cause]:
    if not name:
        return [required("metadata.name", "name or generateName is required")]
    return [invalid_value("metadata.name", name, why) for why in rule(name)]


def labels(given: dict[str, str], path: str) -> list[Cause]:
    findings = [invalid_value(path, key, why) for key in sorted(given) for why in formats.qualified(key)]
    return findings + [
        invalid_value(path, value, why)
        for _, value in sorted(given.items())
        for why in formats.label_value(value)
    ]


def annotations(given: dict[str, str], path: str) -> list[Cause]:
    findings = [
        invalid_value(path, key, why) for key in sorted(given) for why in formats.qualified(key.lower())
    ]
    if sum(len(key.encode()) + len(value.encode()) for key, value in given.items()) > ANNOTATIONS_LIMIT:
        findings.append(too_long(path, "", ANNOTATIONS_LIMIT))
    return findings


def _finalizers(given: list[str]) -> list[Cause]:
    findings: list[Cause] = []
    for index, finalizer in enumerate(given):
        path = f"metadata.finalizers[{index}]"
        problems = list(formats.qualified(finalizer))
        if not problems and "/" not in finalizer and finalizer not in STANDARD_FINALIZERS:
            problems = ["name is neither a standard finalizer name nor is it fully qualified"]
        findings += [invalid_value(path, finalizer, why) for why in problems]
    if "orphan" in given and "foregroundDeletion" in given:
        why = "finalizer orphan and foregroundDeletion cannot be both set"
        findings.append(invalid_value("metadata.finalizers", given, why))
    return findings


def _owners(given: list[Json]) -> list[Cause]:
    path = "metadata.ownerReferences"
    findings = [
        invalid_value(f"{path}.{field}", "", "must not be empty")
        for owner in given
        for field in ("apiVersion", "kind", "name", "uid")
        if not owner.get(field)
    ]
    controllers = [owner for owner in given if owner.get("controller")]
    if len(controllers) > 1:
        first, second = (f"{owner.get('kind')}/{owner.get('name')}" for owner in controllers[:2])
        why = (
            "Only one reference can have Controller set to true."
            f' Found "true" in references for {first} and {second}'
        )
        findings.append(invalid_value(path, given, why))
    return findings


def validate_update(kind: Kind, new: Json, old: Json) -> list[Cause]:
    """Validate an update of metadata, in addition to ``validate``."""
    findings: list[Cause] = []
    added = [
        finalizer
        for finalizer in new["metadata"].get("finalizers") or []
        if finalizer not in (old["metadata"].get("finalizers") or [])
    ]
    if added and old["metadata"].get("deletionTimestamp"):
        listed = ", ".join(format_value(finalizer) for finalizer in added)
        why = (
            "no new finalizers can be added if the object is being deleted,"
            f" found new finalizers []string{{{listed}}}"
        )
        findings.append(forbidden_field("metadata.finalizers", why))
    for field in ("name", "namespace", "uid", "creationTimestamp"):
        if new["metadata"].get(field) != old["metadata"].get(field):
            value = new["metadata"].get(field, "")
            findings.append(invalid_value(f"metadata.{field}", value, "field is immutable"))
    return findings
