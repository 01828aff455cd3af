"""Validation of CRD schemas: structural form, compilable rules and patterns, valid defaults.

Sources: the API documentation on structural schemas, and the behavior of kube-apiserver. Not supported:
checking that fields in `allOf` and other combinators are declared.  What a rule costs is bounded when it is
evaluated.
"""

import copy
from collections.abc import Iterator
from dataclasses import replace

from quorate.api.codec import Json
from quorate.api.go_regexp import InvalidPattern
from quorate.local.objects import errors
from quorate.local.objects.crd.cel import InvalidRule
from quorate.local.objects.crd.schema import IDENTITY, compile_schema, prune
from quorate.local.objects.crd.validation import validate
from quorate.local.objects.errors import Cause

UNSUPPORTED_KEYWORDS = ("$ref", "additionalItems", "definitions", "dependencies", "id", "patternProperties")
LIST_AND_MAP_TYPES = (
    ("x-kubernetes-list-type", "array", ("atomic", "map", "set")),
    ("x-kubernetes-map-type", "object", ("atomic", "granular")),
)
SCHEMA_TYPES = ("array", "boolean", "integer", "number", "object", "string")
INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
STRUCTURAL_KEYWORDS = (
    "additionalProperties", "default", "description", "nullable", "title", "type",
    "x-kubernetes-embedded-resource", "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type", "x-kubernetes-map-type", "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
)  # fmt: skip
"""keywords that may occur only in the structural part of a schema, not in value validations"""


def schema_findings(schema: Json, path: str) -> list[Cause]:
    """Validate an `openAPIV3Schema` at `path`."""
    findings = [*_root_findings(schema, path), *_findings(schema, path)]
    return findings or list(_defaults_findings(schema, path))


def _root_findings(schema: Json, path: str) -> Iterator[Cause]:
    kind = schema.get("type")
    if not kind and not _is_typeless(schema):
        yield errors.required(f"{path}.type", "must not be empty at the root")
    elif kind and kind != "object":
        yield errors.invalid_value(f"{path}.type", kind, "must be object at the root")
    if schema.get("additionalProperties"):
        yield errors.forbidden_field(f"{path}.additionalProperties", "must not be used at the root")
    properties = schema.get("properties") or {}
    for name in IDENTITY:
        if "default" in properties.get(name, {}):
            where = f"{path}.properties[{name}].default"
            yield errors.forbidden_field(where, f"must not be set in top-level {name}")
    metadata = properties.get("metadata") or {}
    if set(metadata) - {"type", "properties"} or set(metadata.get("properties") or ()) - {
        "name", "generateName"
    }:  # fmt: skip
        why = (
            "must not specify anything other than name and generateName, but metadata is implicitly specified"
        )
        yield errors.forbidden_field(f"{path}.properties[metadata]", why)


def _is_typeless(schema: Json) -> bool:
    return bool(
        schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    )


def _findings(schema: Json, path: str) -> Iterator[Cause]:
    """Validate a schema and its descendants, except rules for the root and for defaults."""
    if isinstance(schema.get("items"), list):
        yield errors.forbidden_field(f"{path}.items", "items must be a schema object and not an array")
    if schema.get("type") == "array" and "items" not in schema:
        yield errors.required(f"{path}.items", "must be specified")
    if "properties" in schema and schema.get("additionalProperties"):
        why = "additionalProperties and properties are mutual exclusive"
        yield errors.forbidden_field(f"{path}.additionalProperties", why)
    if schema.get("uniqueItems"):
        yield errors.forbidden_field(f"{path}.uniqueItems", "uniqueItems cannot be set to true")
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        where = f"{path}.x-kubernetes-preserve-unknown-fields"
        yield errors.invalid_value(where, False, "must be true or undefined")
    for name in UNSUPPORTED_KEYWORDS:
        if name in schema:
            yield errors.forbidden_field(f"{path}.{name}", f"{name} is not supported")
    yield from _kind_findings(schema, path)
    yield from _compilation_findings(schema, path)
    for where, condition in _value_validations(schema, path):
        yield from _value_validation_findings(condition, where)
    for where, part in _nested_schemas(schema, path):
        if not part.get("type") and not _is_typeless(part):
            what = "array items" if where.endswith(".items") else "object fields"
            yield errors.required(f"{where}.type", f"must not be empty for specified {what}")
        yield from _findings(part, where)


def _nested_schemas(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    """Yield the schemas of fields, items and additional properties."""
    for name, part in (schema.get("properties") or {}).items():
        yield f"{path}.properties[{name}]", part
    for name in ("items", "additionalProperties"):
        if isinstance(schema.get(name), dict):
            yield f"{path}.{name}", schema[name]


def _value_validations(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    """Yield the value validations of a schema, without the two standard forms of int-or-string."""
    for name in ("allOf", "anyOf", "oneOf"):
        conditions = schema.get(name) or []
        if name == "anyOf" and conditions == INT_OR_STRING:
            continue
        for index, condition in enumerate(conditions):
            stated = condition
            if (name, index) == ("allOf", 0) and condition.get("anyOf") == INT_OR_STRING:
                stated = {key: value for key, value in condition.items() if key != "anyOf"}
            yield f"{path}.{name}[{index}]", stated
    if "not" in schema:
        yield f"{path}.not", schema["not"]


def _value_validation_findings(condition: Json, path: str) -> Iterator[Cause]:
    for name in STRUCTURAL_KEYWORDS:
        if condition.get(name):
            yield errors.forbidden_field(f"{path}.{name}", "must be undefined to be structural")
    if "metadata" in (condition.get("properties") or {}):
        where = f"{path}.properties[metadata]"
        yield errors.forbidden_field(where, "must not be specified in a nested context")
    for where, part in (*_nested_schemas(condition, path), *_value_validations(condition, path)):
        yield from _value_validation_findings(part, where)


def _kind_findings(schema: Json, path: str) -> Iterator[Cause]:
    kind = schema.get("type", "")
    if kind and kind not in SCHEMA_TYPES:
        yield errors.not_supported(f"{path}.type", kind, SCHEMA_TYPES)
    for name, needed, supported in LIST_AND_MAP_TYPES:
        value = schema.get(name)
        if value is None:
            continue
        if kind != needed:
            yield errors.invalid_value(f"{path}.type", kind, f"must be {needed} if {name} is specified")
        if value not in supported:
            yield errors.not_supported(f"{path}.{name}", value, supported)
    if schema.get("x-kubernetes-list-type") == "map":
        yield from _key_findings(schema, path)
    elif schema.get("x-kubernetes-list-map-keys"):
        where, why = (
            f"{path}.x-kubernetes-list-type",
            "must be map if x-kubernetes-list-map-keys is non-empty",
        )
        yield errors.invalid_value(where, schema.get("x-kubernetes-list-type", ""), why)


def _key_findings(schema: Json, path: str) -> Iterator[Cause]:
    keys = schema.get("x-kubernetes-list-map-keys") or []
    if not keys:
        why = "must not be empty if list-type is map"
        yield errors.required(f"{path}.x-kubernetes-list-map-keys", why)
    items = schema.get("items") or {}
    for index, key in enumerate(keys):
        part = (items.get("properties") or {}).get(key)
        at = f"{path}.x-kubernetes-list-map-keys[{index}]"
        if part is None:
            yield errors.invalid_value(
                at, key, f"entries must all be names of item properties ({key} is not)"
            )
        elif key not in items.get("required", ()) and "default" not in part:
            where = f"{path}.items.properties[{key}].default"
            yield errors.required(where, f"the key {key} must be required or have a default")


def _compilation_findings(schema: Json, path: str) -> Iterator[Cause]:
    for index, rule in enumerate(schema.get("x-kubernetes-validations", ())):
        if not rule.get("rule", "").strip():
            yield errors.required(f"{path}.x-kubernetes-validations[{index}].rule", "rule is not specified")
            return
    alone: Json = {name: schema[name] for name in ("pattern", "x-kubernetes-validations") if name in schema}
    if not alone:
        return
    try:
        compile_schema(alone)
    except InvalidPattern as refusal:
        why = f"must be a valid regular expression: {refusal}"
        yield errors.invalid_value(f"{path}.pattern", schema["pattern"], why)
    except InvalidRule as refusal:
        where = f"{path}.x-kubernetes-validations[{refusal.index}].{refusal.field}"
        yield errors.invalid_value(where, refusal.text, refusal.why)


def _defaults_findings(schema: Json, path: str) -> Iterator[Cause]:
    """Validate that the defaults of an otherwise valid schema satisfy it, as they are inserted."""
    if schema.get("default") is not None:
        yield from _default_findings(schema, path)
    for where, part in _nested_schemas(schema, path):
        yield from _defaults_findings(part, where)


def _default_findings(schema: Json, path: str) -> Iterator[Cause]:
    holder = compile_schema({"type": "object", "properties": {"default": schema}})
    value = {"default": copy.deepcopy(schema["default"])}
    if prune(value, holder):
        yield errors.invalid_value(f"{path}.default", schema["default"], "must not have unknown fields")
    for cause in validate(value, holder):
        yield replace(cause, field=f"{path}.{cause.field}")
