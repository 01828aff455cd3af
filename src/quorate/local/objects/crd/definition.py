"""CustomResourceDefinitions: defaulting, validation, status and compilation."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import msgspec

from quorate.api.codec import Json
from quorate.api.syntax import is_dns_subdomain
from quorate.local.objects import errors
from quorate.local.objects.crd import structural_schema
from quorate.local.objects.crd.schema import Schema, compile_schema, object_merge_type
from quorate.local.objects.errors import Cause
from quorate.local.objects.schema_types import MapOf

GROUP = "apiextensions.k8s.io"
FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
"""of a definition that is being deleted, until its objects are deleted"""
APPROVED = "api-approved.kubernetes.io"
NAMES = ("plural", "singular", "shortNames", "kind", "listKind", "categories")


class Column(msgspec.Struct, frozen=True, rename="camel"):
    """An additional printer column."""

    name: str
    type: str
    json_path: str
    format: str = ""
    description: str = ""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Paths of the fields behind the scale subresource, such as `.spec.replicas`."""

    spec_replicas: str
    status_replicas: str
    label_selector: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """A compiled version of a custom resource."""

    name: str
    served: bool
    schema: Schema
    type: MapOf
    columns: tuple[Column, ...]
    has_status: bool
    scale: ScalePaths | None
    warning: str
    """a warning for all responses; empty unless deprecated"""
    selectable: tuple[str, ...]
    """field paths allowed in field selectors"""


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    group: str
    plural: str
    singular: str
    kind: str
    list_kind: str
    short_names: tuple[str, ...]
    categories: tuple[str, ...]
    namespaced: bool
    versions: Mapping[str, Version]
    """by name, the preferred version first"""
    storage_version: str
    conversion: Json
    """`spec.conversion`: strategy None changes only apiVersion, Webhook calls a service"""


def set_defaults(definition: Json) -> None:
    """Set defaults of a definition, in place."""
    spec = definition["spec"]
    names = spec.setdefault("names", {})
    kind = names.get("kind", "")
    names.setdefault("singular", kind.lower())
    names.setdefault("listKind", f"{kind}List")
    spec.setdefault("conversion", {"strategy": "None"})
    for version in spec.get("versions") or []:
        if version.get("deprecated") is False:
            del version["deprecated"]


def compile_definition(definition: Json) -> Definition:
    """Return the compiled schemas, CEL rules and patterns of a definition.

    Servers in one process share the result for equal definitions.
    """
    return _compiled(msgspec.json.encode(definition["spec"]))


@lru_cache(maxsize=256)
def _compiled(encoded_spec: bytes) -> Definition:
    spec = msgspec.json.decode(encoded_spec)
    names = spec["names"]
    group, kind = spec["group"], names["kind"]
    return Definition(
        group=group,
        plural=names["plural"],
        singular=names["singular"],
        kind=kind,
        list_kind=names["listKind"],
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        namespaced=spec["scope"] == "Namespaced",
        versions={
            version["name"]: _compile_version(version, group, kind)
            for version in sorted(spec["versions"], key=lambda version: version_priority(version["name"]))
        },
        storage_version=next(version["name"] for version in spec["versions"] if version["storage"]),
        conversion=spec["conversion"],
    )


def _compile_version(version: Json, group: str, kind: str) -> Version:
    schema = compile_schema(version["schema"]["openAPIV3Schema"])
    subresources = version.get("subresources") or {}
    scale = subresources.get("scale")
    warning = ""
    if version.get("deprecated"):
        default = f"{group}/{version['name']} {kind} is deprecated"
        warning = version.get("deprecationWarning") or default
    return Version(
        name=version["name"],
        served=version["served"],
        schema=schema,
        type=object_merge_type(schema),
        columns=msgspec.convert(version.get("additionalPrinterColumns") or (), tuple[Column, ...]),
        has_status="status" in subresources,
        scale=ScalePaths(
            scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", "")
        )
        if scale
        else None,
        warning=warning,
        selectable=tuple(field["jsonPath"] for field in version.get("selectableFields") or []),
    )


_VERSION = re.compile(r"v(\d+)(?:(alpha|beta)(\d+))?")


def version_priority(version: str) -> tuple[Any, ...]:
    """Return a sort key for version priority: v2, v1, v1beta1, v1alpha2, then other names."""
    match = _VERSION.fullmatch(version)
    if not match:
        return 1, version
    major, stage, minor = match.groups()
    stability = {None: 2, "beta": 1, "alpha": 0}[stage]
    return 0, -stability, -int(major), -int(minor or 0)


def naming_status(definition: Json, served: Sequence[Definition], now: str, problem: str = "") -> Json:
    """Return a definition's status after checking its names; `now` is RFC 3339.

    A definition with conflicting names is not established, unless it was established before.  A definition
    with a ``problem`` that prevents serving it is not established.
    """
    spec, old = definition["spec"], definition.get("status") or {}
    conflict = _name_conflict(spec, served)
    if conflict:
        accepted = (False, "NameConflict", conflict)
        ready = (False, "NotAccepted", "not all names are accepted")
    else:
        accepted = (True, "NoConflicts", "no conflicts found")
        ready = (True, "InitialNamesAccepted", "the initial names have been accepted")
    old_conditions = {condition.get("type", ""): condition for condition in old.get("conditions") or []}
    if old_conditions.get("Established", {}).get("status") == "True":
        ready = (True, "InitialNamesAccepted", "the initial names have been accepted")
    if problem:
        ready = (False, "CannotBeServed", problem)
    storage = next(version["name"] for version in spec["versions"] if version["storage"])
    stored = old.get("storedVersions") or []
    conditions = [
        _condition("NamesAccepted", accepted, old_conditions, now),
        _condition("Established", ready, old_conditions, now),
    ]
    if "deletionTimestamp" in definition["metadata"]:
        deletion = (True, "InstanceDeletionInProgress", "CustomResource deletion is in progress")
        conditions.append(_condition("Terminating", deletion, old_conditions, now))
    return {
        "conditions": conditions,
        "acceptedNames": (old.get("acceptedNames") or {"plural": "", "kind": ""})
        if conflict
        else dict(spec["names"]),
        "storedVersions": stored if storage in stored else [*stored, storage],
    }


def _condition(kind: str, outcome: tuple[bool, str, str], old: Mapping[str, Json], now: str) -> Json:
    is_true, reason, message = outcome
    status = "True" if is_true else "False"
    before = old.get(kind, {})
    return {
        "type": kind,
        "status": status,
        "lastTransitionTime": (before.get("status") == status and before.get("lastTransitionTime")) or now,
        "reason": reason,
        "message": message,
    }


def _name_conflict(spec: Json, served: Sequence[Definition]) -> str:
    names = spec["names"]
    words = {names["plural"], names["singular"], *names.get("shortNames", ())}
    kinds = {names["kind"], names["listKind"]}
    for other in served:
        if other.group != spec["group"] or other.plural == names["plural"]:
            continue
        both = words & {other.plural, other.singular, *other.short_names}
        both |= kinds & {other.kind, other.list_kind}
        if both:
            return f'"{min(both)}" is already in use'
    return ""


_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_LOWERCASE_NAME = (
    "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic"
    " character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for"
    " validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"
)
_ABOUT_APPROVAL = "see https://github.com/kubernetes/enhancements/pull/1111"


def definition_findings(definition: Json) -> list[Cause]:
    """Validate a definition, new or updated."""
    spec = definition.get("spec") or {}
    return [*_name_findings(spec), *_version_findings(spec), *_stored_version_findings(spec)]


def creation_findings(definition: Json) -> list[Cause]:
    """Validate the name of a new definition, and the approval annotation of protected groups."""
    return [*_own_name_findings(definition), *_approval_findings(definition)]


def _own_name_findings(definition: Json) -> Iterator[Cause]:
    spec, name = definition["spec"], definition["metadata"].get("name")
    if name != f"{spec['names'].get('plural', '')}.{spec.get('group', '')}":
        yield errors.invalid_value("metadata.name", name, 'must be spec.names.plural+"."+spec.group')


def _approval_findings(definition: Json) -> Iterator[Cause]:
    """Validate that a definition in a Kubernetes community group is marked as approved."""
    group = definition["spec"].get("group", "")
    if not f".{group}".endswith((".k8s.io", ".kubernetes.io")):
        return
    approval = definition["metadata"].get("annotations", {}).get(APPROVED, "")
    where, why = (
        f"metadata.annotations[{APPROVED}]",
        f'protected groups must have approval annotation "{APPROVED}"',
    )
    url = urlsplit(approval)
    if not approval:
        yield errors.required(where, f"{why}, {_ABOUT_APPROVAL}")
    elif not approval.startswith("unapproved") and not (url.scheme and url.netloc):
        why += ' with either a URL or a reason starting with "unapproved"'
        yield errors.invalid_value(where, approval, f"{why}, {_ABOUT_APPROVAL}")


def update_findings(definition: Json, old: Json) -> list[Cause]:
    """Validate that an update does not change immutable fields."""
    spec, before = definition["spec"], old["spec"]
    names, former_names = spec["names"], before["names"]
    fixed = (
        ("spec.group", spec["group"], before["group"]),
        ("spec.names.plural", names["plural"], former_names["plural"]),
        ("spec.names.kind", names["kind"], former_names["kind"]),
        ("spec.scope", spec["scope"], before["scope"]),
    )
    changed = [
        errors.invalid_value(path, new, "field is immutable") for path, new, former in fixed if new != former
    ]
    stored = (old.get("status") or {}).get("storedVersions") or []
    present = {version["name"] for version in spec["versions"]}
    lost = [
        errors.invalid_value("status.storedVersions", version, "must appear in spec.versions")
        for version in stored
        if version not in present
    ]
    return [*changed, *lost]


def _name_findings(spec: Json) -> Iterator[Cause]:
    names, group = spec.get("names") or {}, spec.get("group", "")
    if not group:
        yield errors.required("spec.group")
    elif not is_dns_subdomain(group) or "." not in group:
        yield errors.invalid_value("spec.group", group, "should be a domain with at least one dot")
    if not spec.get("scope"):
        yield errors.required("spec.scope")
    elif spec["scope"] not in ("Cluster", "Namespaced"):
        yield errors.not_supported("spec.scope", spec["scope"], ("Cluster", "Namespaced"))
    for name in ("plural", "singular", "kind", "listKind"):
        value = names.get(name)
        if not value:
            yield errors.required(f"spec.names.{name}")
        elif not _LABEL.fullmatch(value.lower()) or (
            name in ("plural", "singular") and value != value.lower()
        ):
            yield errors.invalid_value(f"spec.names.{name}", value, _LOWERCASE_NAME)
    for name in ("shortNames", "categories"):
        for index, value in enumerate(names.get(name, ())):
            if not _LABEL.fullmatch(value):
                yield errors.invalid_value(f"spec.names.{name}[{index}]", value, _LOWERCASE_NAME)
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        why = "kind and listKind may not be the same"
        yield errors.invalid_value("spec.names.listKind", names["listKind"], why)


def _stored_version_findings(spec: Json) -> Iterator[Cause]:
    """Validate the status that follows from the versions."""
    storage = [version.get("name") for version in spec.get("versions") or [] if version.get("storage")]
    if not storage:
        yield errors.invalid_value("status.storedVersions", None, "must have at least one stored version")
    elif storage[-1] != storage[0]:
        rule = f"must have the storage version {storage[-1]}"
        yield errors.invalid_value("status.storedVersions", storage[:1], rule)


_COLUMN_FORMATS = ("byte", "date", "date-time", "double", "float", "int32", "int64", "password")
_COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")


def _column_findings(columns: Sequence[Json], path: str) -> Iterator[Cause]:
    for index, column in enumerate(columns):
        where = f"{path}.additionalPrinterColumns[{index}]"
        if not column.get("name"):
            yield errors.required(f"{where}.name")
        kind, json_path = column.get("type", ""), column.get("jsonPath", "")
        if not kind:
            yield errors.required(f"{where}.type")
        elif kind not in _COLUMN_TYPES:
            rule = f"must be one of {','.join(_COLUMN_TYPES)}"
            yield errors.invalid_value(f"{where}.type", kind, rule)
        if column.get("format") and column["format"] not in _COLUMN_FORMATS:
            rule = f"must be one of {','.join(_COLUMN_FORMATS)}"
            yield errors.invalid_value(f"{where}.format", column["format"], rule)
        if not json_path:
            yield errors.required(f"{where}.JSONPath")
        elif not json_path.startswith("."):
            rule = "must be a simple json path starting with ."
            yield errors.invalid_value(f"{where}.JSONPath", json_path, rule)


def _scale_findings(scale: Json, path: str) -> Iterator[Cause]:
    """Validate the paths of the scale subresource; the path of the label selector is optional."""
    for field, parents in (
        ("specReplicasPath", (".spec",)),
        ("statusReplicasPath", (".status",)),
        ("labelSelectorPath", (".spec", ".status")),
    ):
        where, json_path = f"{path}.{field}", scale.get(field, "")
        if not json_path:
            if field != "labelSelectorPath":
                yield errors.required(where)
        elif not json_path.startswith("."):
            yield errors.invalid_value(where, json_path, "must be a simple json path starting with .")
        elif not json_path.startswith(tuple(f"{parent}." for parent in parents)):
            allowed = " or ".join(parents)
            rule = f"should be a json path under {'either ' * (len(parents) > 1)}{allowed}"
            yield errors.invalid_value(where, json_path, rule)


MAX_SELECTABLE_FIELDS = 8


def _selectable_field_findings(fields: Sequence[Json], schema: Json, path: str) -> Iterator[Cause]:
    """Validate that selectable fields are distinct scalars that the schema declares."""
    seen = set[str]()
    for index, field in enumerate(fields):
        where, json_path = f"{path}[{index}].jsonPath", field.get("jsonPath", "")
        if not json_path:
            yield errors.required(where)
            continue
        declared: Json | None = schema
        for name in json_path.removeprefix(".").split("."):
            declared = ((declared or {}).get("properties") or {}).get(name)
        if declared is None or not json_path.startswith("."):
            why = "is an invalid path: does not refer to a valid field"
            yield errors.invalid_value(where, json_path, why)
            continue
        if json_path.startswith(".metadata."):
            yield errors.invalid_value(where, json_path, "must not point to fields in metadata")
        if declared.get("type") not in ("string", "boolean", "integer"):
            rule = (
                "must point to a field of type string, boolean or integer."
                " Enum string fields and strings with formats are allowed."
            )
            yield errors.invalid_value(where, json_path, rule)
        if json_path in seen:
            yield errors.duplicate(where, json_path)
        seen.add(json_path)
    if len(seen) > MAX_SELECTABLE_FIELDS:
        yield errors.too_many(path, len(seen), MAX_SELECTABLE_FIELDS)


def _common_path(versions: Sequence[Json], field: str, name: str, index: int) -> str:
    """Return where findings about a field of a version are: in spec if all versions have the same value."""
    first = versions[0].get(field)
    same = all(version.get(field) == first for version in versions)
    return f"spec{name}" if same else f"spec.versions[{index}]{name.replace('.validation', '.schema')}"


def _deprecation_findings(version: Json, path: str) -> Iterator[Cause]:
    warning, where = version.get("deprecationWarning"), f"{path}.deprecationWarning"
    if warning is None:
        return
    if not version.get("deprecated"):
        yield errors.invalid_value(where, warning, "can only be set for deprecated versions")
    if not warning:
        yield errors.invalid_value(where, warning, "must not be an empty string")
    at = next((index for index, letter in enumerate(warning) if not letter.isprintable()), None)
    if at is not None:
        why = f"must only contain printable UTF-8 characters; non-printable character found at index {at}"
        yield errors.invalid_value(where, warning, why)


def _version_findings(spec: Json) -> Iterator[Cause]:
    if spec.get("preserveUnknownFields"):
        why = (
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in"
            " spec.versions[*].schema instead"
        )
        yield errors.invalid_value("spec.preserveUnknownFields", True, why)
    versions = spec.get("versions") or []
    if sum(bool(version.get("storage")) for version in versions) != 1:
        why = "must have exactly one version marked as storage version"
        yield errors.invalid_value("spec.versions", [version.get("name") for version in versions], why)
    seen = set[str]()
    for index, version in enumerate(versions):
        path, name = f"spec.versions[{index}]", version.get("name", "")
        if not _LABEL.fullmatch(name):
            yield errors.invalid_value(f"{path}.name", name, _LOWERCASE_NAME)
        if name in seen:
            yield errors.invalid_value(f"{path}.name", name, "must be unique")
        seen.add(name)
        yield from _deprecation_findings(version, path)
        shared_columns = _common_path(versions, "additionalPrinterColumns", "", index)
        if index == 0 or shared_columns != "spec":
            yield from _column_findings(version.get("additionalPrinterColumns") or [], shared_columns)
        scale = (version.get("subresources") or {}).get("scale")
        shared_subresources = _common_path(versions, "subresources", "", index)
        if scale is not None and (index == 0 or shared_subresources != "spec"):
            yield from _scale_findings(scale, f"{shared_subresources}.subresources.scale")
        schema = (version.get("schema") or {}).get("openAPIV3Schema")
        if not schema:
            yield errors.required(f"{path}.schema.openAPIV3Schema")
            continue
        selectable = version.get("selectableFields") or []
        shared_fields = _common_path(versions, "selectableFields", "", index)
        if index == 0 or shared_fields != "spec":
            yield from _selectable_field_findings(selectable, schema, f"{shared_fields}.selectableFields")
        where = _common_path(versions, "schema", ".validation", index)
        if index == 0 or where.startswith("spec.versions"):  # otherwise those of the first count for it
            yield from structural_schema.schema_findings(schema, f"{where}.openAPIV3Schema")
