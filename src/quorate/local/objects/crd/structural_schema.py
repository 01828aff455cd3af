"""Validation of CRD schemas: structural form, compilable rules and patterns, valid defaults.

Sources: the API documentation on structural schemas, and the behavior of kube-apiserver. Not supported:
checking that fields in `allOf` and other combinators are declared.  What a rule costs is bounded when it is
evaluated.
"""

import copy
import re
from collections.abc import Iterator
from dataclasses import replace

from quorate.api.codec import Json
from quorate.api.go_regexp import InvalidPattern
from quorate.local.objects import errors
from quorate.local.objects.crd.cel import InvalidRule, undefined_field
from quorate.local.objects.crd.schema import IDENTITY, compile_schema, prune
from quorate.local.objects.crd.validation import validate
from quorate.local.objects.errors import Cause

UNSUPPORTED_KEYWORDS = ("$ref", "additionalItems", "definitions", "dependencies", "id", "patternProperties")
LIST_AND_MAP_TYPES = (
    ("x-kubernetes-list-type", "array", ("atomic", "set", "map")),
    ("x-kubernetes-map-type", "object", ("atomic", "granular")),
)
ROOT = "openAPIV3Schema"
SCHEMA_TYPES = ("array", "boolean", "integer", "number", "object", "string")
INT_OR_STRING = [{"type": "integer"}, {"type": "string"}]
REASONS = tuple(f"FieldValue{name}" for name in ("Duplicate", "Forbidden", "Invalid", "Required"))
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
    if "additionalProperties" in schema:
        yield errors.forbidden_field(f"{path}.additionalProperties", "must not be used at the root")
    if schema.get("nullable"):
        yield errors.forbidden_field(f"{path}.nullable", "nullable cannot be true at the root")
    yield from _identity_findings(schema, path)
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


def _identity_findings(schema: Json, path: str) -> Iterator[Cause]:
    """Validate the types of the fields that every object has."""
    for name, wanted in (("apiVersion", "string"), ("kind", "string"), ("metadata", "object")):
        kind = (schema.get("properties") or {}).get(name, {}).get("type") or wanted
        if kind != wanted:
            yield errors.invalid_value(f"{path}.properties[{name}].type", kind, f"must be {wanted}")


def _embedded_findings(schema: Json, path: str) -> Iterator[Cause]:
    if not schema.get("properties") and not schema.get("x-kubernetes-preserve-unknown-fields"):
        why = (
            "must not be empty if x-kubernetes-embedded-resource is true without"
            " x-kubernetes-preserve-unknown-fields"
        )
        yield errors.required(f"{path}.properties", why)
    if schema.get("type") not in (None, "", "object"):
        why = "must be object if x-kubernetes-embedded-resource is true"
        yield errors.invalid_value(f"{path}.type", schema["type"], why)
    yield from _identity_findings(schema, path)


def _is_typeless(schema: Json) -> bool:
    return bool(
        schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    )


def _findings(schema: Json, path: str) -> Iterator[Cause]:
    """Validate a schema and its descendants, except rules for the root and for defaults."""
    yield from _keyword_findings(schema, path)
    if schema.get("x-kubernetes-embedded-resource"):
        yield from _embedded_findings(schema, path)
    if schema.get("type") == "array" and "items" not in schema:
        yield errors.required(f"{path}.items", "must be specified")
    if schema.get("x-kubernetes-preserve-unknown-fields") is False:
        where = f"{path}.x-kubernetes-preserve-unknown-fields"
        yield errors.invalid_value(where, False, "must be true or undefined")
    yield from _kind_findings(schema, path)
    yield from _compilation_findings(schema, path)
    for where, condition in _value_validations(schema, path):
        yield from _value_validation_findings(condition, where)
    for where, part in _nested_schemas(schema, path):
        if not part.get("type") and not _is_typeless(part):
            what = "array items" if where.endswith(".items") else "object fields"
            yield errors.required(f"{where}.type", f"must not be empty for specified {what}")
        yield from _findings(part, where)


def _keyword_findings(schema: Json, path: str) -> Iterator[Cause]:
    """Validate what holds for schemas and for conditions on values."""
    if isinstance(schema.get("items"), list):
        yield errors.forbidden_field(f"{path}.items", "items must be a schema object and not an array")
    if schema.get("properties") and "additionalProperties" in schema:
        why = "additionalProperties and properties are mutual exclusive"
        yield errors.forbidden_field(f"{path}.additionalProperties", why)
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield errors.forbidden_field(f"{path}.uniqueItems", why)
    for name in UNSUPPORTED_KEYWORDS:
        if name in schema:
            yield errors.forbidden_field(f"{path}.{name}", f"{name} is not supported")
    if schema.get("$schema"):
        root = path[: path.index(ROOT) + len(ROOT)] if ROOT in path else path
        yield errors.invalid_value(root, "", "OpenAPIV3Schema 'schema' is not supported")


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
    yield from _keyword_findings(condition, path)
    yield from _compilation_findings(
        {name: condition[name] for name in ("pattern",) if name in condition}, path
    )
    for name in STRUCTURAL_KEYWORDS:
        value = condition.get(name)
        if value not in (None, False, "", []) or (name == "default" and name in condition):
            what = "empty" if name in ("description", "title", "type") else "undefined"
            yield errors.forbidden_field(f"{path}.{name}", f"must be {what} to be structural")
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
        why = "must be map if x-kubernetes-list-map-keys is non-empty"
        yield errors.required(f"{path}.x-kubernetes-list-type", why)
    if schema.get("x-kubernetes-list-type") == "set" and isinstance(schema.get("items"), dict):
        yield from _member_findings(schema["items"], f"{path}.items")


def _member_findings(items: Json, path: str) -> Iterator[Cause]:
    """Validate the items of a set, which are compared as a whole."""
    if items.get("nullable"):
        why = "cannot be nullable when x-kubernetes-list-type is set"
        yield errors.forbidden_field(f"{path}.nullable", why)
    for kind, name in (("object", "x-kubernetes-map-type"), ("array", "x-kubernetes-list-type")):
        absent = None if kind == "object" else "atomic"
        if items.get("type") == kind and items.get(name, absent) != "atomic":
            why = "must be atomic as item of a list with x-kubernetes-list-type=set"
            yield errors.invalid_value(f"{path}.{name}", items.get(name), why)


def _key_findings(schema: Json, path: str) -> Iterator[Cause]:
    keys = schema.get("x-kubernetes-list-map-keys") or []
    if not keys:
        why = "must not be empty if x-kubernetes-list-type is map"
        yield errors.required(f"{path}.x-kubernetes-list-map-keys", why)
    elif len(set(keys)) < len(keys):
        why = "must not contain duplicate entries"
        yield errors.invalid_value(f"{path}.x-kubernetes-list-map-keys", keys, why)
    items = schema.get("items") or {}
    for index, key in enumerate(keys):
        part = (items.get("properties") or {}).get(key)
        at = f"{path}.x-kubernetes-list-map-keys[{index}]"
        if part is None:
            yield errors.invalid_value(
                at, key, f"entries must all be names of item properties ({key} is not)"
            )
            continue
        where, reason = (
            f"{path}.items.properties[{key}]",
            "this property is in x-kubernetes-list-map-keys, so it",
        )
        if key not in items.get("required", ()) and "default" not in part:
            yield errors.required(
                f"{where}.default", f"{reason} must have a default or be a required property"
            )
        if part.get("nullable"):
            yield errors.forbidden_field(f"{where}.nullable", f"{reason} cannot be nullable")
        if part.get("type") in ("array", "object"):
            why = "must be a scalar type if parent array's x-kubernetes-list-type is map"
            yield errors.invalid_value(f"{where}.type", part["type"], why)


def _compilation_findings(schema: Json, path: str) -> Iterator[Cause]:
    for index, rule in enumerate(schema.get("x-kubernetes-validations", ())):
        if not rule.get("rule", "").strip():
            yield errors.required(f"{path}.x-kubernetes-validations[{index}].rule", "rule is not specified")
            return
        yield from _rule_findings(rule, schema, f"{path}.x-kubernetes-validations[{index}]")
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


def _rule_findings(rule: Json, schema: Json, path: str) -> Iterator[Cause]:
    """Validate what a rule says beside its expressions."""
    if "\n" in rule.get("message", ""):
        yield errors.invalid_value(f"{path}.message", rule["message"], "must not contain line breaks")
    for field in ("rule", "messageExpression"):
        if name := undefined_field(rule.get(field, ""), schema):
            why = f"compilation failed: undefined field '{name}'"
            yield errors.invalid_value(f"{path}.{field}", rule[field], why)
    if "reason" in rule and rule["reason"] not in REASONS:
        yield errors.not_supported(f"{path}.reason", rule["reason"], REASONS)
    if rule.get("optionalOldSelf") is not None and "oldSelf" not in rule["rule"]:
        why = "may not be set if oldSelf is not used in rule"
        yield errors.invalid_value(f"{path}.optionalOldSelf", rule["optionalOldSelf"], why)
    first = re.match(r"\.([A-Za-z_]\w*)", rule.get("fieldPath", ""))
    if first and first[1] not in (schema.get("properties") or ()) and "additionalProperties" not in schema:
        yield errors.invalid_value(f"{path}.fieldPath", rule["fieldPath"], "must be a valid path")


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
