"""Types of objects for structured merge: fields, and how lists and maps merge.

The types of built-in kinds are those of their protobuf messages, with the rules of `merge_rules.yaml`. The
types of custom resources come from their CRD's schema (`crd.schema`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cache
from importlib.resources import files
from itertools import pairwise
from typing import Any, TypeAlias

import msgspec
import yaml

from quorate.local.objects.protobuf.table import Field, FieldType, Message, find_message, message_named


class ListMergeType(Enum):
    """How managers own parts of a list or map."""

    ATOMIC = "atomic"
    """one owner for the whole value"""
    SET = "set"
    """one owner per item (lists of scalars)"""
    MAP = "map"
    """one owner per entry"""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value without parts.

    Its name is string, bytes, boolean, integer, int32, int64, number, time, micro-time, quantity or
    int-or-string.
    """

    name: str


@dataclass(frozen=True, slots=True)
class Untyped:
    """A value of undeclared type: scalars and lists are atomic, maps merge by key."""

    atomic: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaOr(Untyped):
    """A schema (`JSONSchemaProps`), or a value of the alternative type."""

    schema: "MapOf"
    alternative: "Type"


@dataclass(frozen=True, slots=True)
class ListOf:
    item: "Type"
    relation: ListMergeType = ListMergeType.ATOMIC
    keys: tuple[str, ...] = ()
    """with ListMergeType.MAP: the fields that identify an item"""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """default values of absent keys"""
    merges: bool = False
    """a strategic merge patch merges the list instead of replacing it"""
    merge_key: str = ""
    """in merging lists of objects: the field that identifies an item"""
    retain_keys: bool = False
    """a strategic merge patch may contain $retainKeys for its items"""


@dataclass(frozen=True, slots=True, eq=False)
class MapOf:
    """An object with declared fields, a map with arbitrary keys, or both.

    Types may be recursive, so equality is identity, and `fields` is filled after construction.
    """

    name: str = ""
    fields: dict[str, "Type"] = field(default_factory=dict)
    rest: "Type | None" = None
    """type of undeclared fields; None: not allowed"""
    atomic: bool = False
    patch_strategy: str = ""
    """replace: a strategic merge patch replaces the object; retainKeys: it may contain $retainKeys"""

    def field_type(self, name: str) -> "Type | None":
        return self.fields.get(name, self.rest)


Type: TypeAlias = Scalar | Untyped | ListOf | MapOf


def builtin_type(api_version: str, kind: str) -> MapOf | None:
    """Return the type of a built-in kind, or None."""
    message = find_message(api_version, kind)
    return _type_of(message) if message else None


def object_meta_type() -> MapOf:
    """Return the type of `metadata`, which all kinds share."""
    return _type_of(message_named("meta.ObjectMeta"))


class _MergeRules(msgspec.Struct):
    merge: dict[str, dict[str, str]]
    atomic: frozenset[str]
    names: dict[str, str]
    embedded: frozenset[str]


@cache
def _merge_rules() -> _MergeRules:
    text = files(__package__).joinpath("merge_rules.yaml").read_text("utf-8")
    return msgspec.convert(yaml.load(text, Loader=yaml.CSafeLoader), _MergeRules)


_TYPES: dict[str, MapOf] = {}
"""By name, filled when they are used."""


def _type_of(message: Message) -> MapOf:
    rules = _merge_rules()
    name = rules.names.get(message.full_name, message.name)
    if name not in _TYPES:
        _TYPES[name] = type_ = MapOf(name, atomic=name in rules.atomic)  # which may contain itself
        merge = rules.merge.get(name, {})
        fields = {field.name: _field_type(field, merge.get(field.name, "")) for field in _fields(message)}
        if name == "DeleteOptions" or ("metadata" in fields and name not in rules.embedded):
            fields |= {"apiVersion": Scalar("string"), "kind": Scalar("string")}
        type_.fields.update(sorted(fields.items()))
    return _TYPES[name]


def _fields(message: Message) -> Iterator[Field]:
    """Yield the fields of a message, and the fields of each message that JSON inlines into it."""
    for part in message.fields:
        if part.name:
            yield part
        elif isinstance(part.type, Message):
            yield from _fields(part.type)


def _field_type(part: Field, merge: str) -> Type:
    if part.is_list:
        return _list_type(part, merge.split())
    if part.is_map:
        return MapOf(rest=_value_type(part.type), atomic=merge == "atomic")
    type_ = _value_type(part.type)
    if isinstance(type_, MapOf) and merge:
        # The dictionary of fields, which may not be complete yet, is shared.
        if merge == "granular":
            return replace(type_, atomic=False)
        return replace(type_, patch_strategy=merge)
    return type_


def _value_type(type_: FieldType) -> Type:
    if isinstance(type_, str):
        return Scalar(_JSON_TYPES[type_]) if type_ in _JSON_TYPES else Untyped(atomic=True)
    if not type_.is_special:
        return _type_of(type_)
    match type_.name:
        case "time" | "micro-time" | "quantity" | "int-or-string" as name:
            return Scalar(name)
        case "strings":
            return ListOf(Scalar("string"))
        case "schema-or-array" | "schema-or-bool" | "schema-or-strings" as name:
            schema = _type_of(message_named("apiextensions.JSONSchemaProps"))
            return SchemaOr(atomic=True, schema=schema, alternative=_alternative(name, schema))
    return Untyped(atomic=True)


_JSON_TYPES = {
    "string": "string",
    "bytes": "bytes",
    "bool": "boolean",
    "int32": "int32",
    "int64": "int64",
    "double": "number",
}


def _alternative(name: str, schema: MapOf) -> Type:
    if name == "schema-or-bool":
        return Scalar("boolean")
    return ListOf(schema if name == "schema-or-array" else Scalar("string"))


LOCAL_REFERENCE = "LocalObjectReference"


def _key_defaults(part: Field, keys: list[str]) -> Mapping[str, Any]:
    """Return the values of absent keys: zero of required fields and of names in references."""
    if not isinstance(part.type, Message):
        return {}
    fields = {field.name: field for field in _fields(part.type) if field.name in keys}
    is_defaulted = part.type.name == LOCAL_REFERENCE
    zeros = {
        name: "" if field.type == "string" else 0
        for name, field in fields.items()
        if field.is_required or is_defaulted
    }
    return zeros | ({"protocol": "TCP"} if "protocol" in keys else {})


def _list_type(part: Field, words: list[str]) -> ListOf:
    """Return the type of a list that merges as `merge_rules.yaml` says in these words."""
    argument = dict(pairwise([*words, ""]))
    keys = argument.get("keys") or argument.get("by") or ""
    relation = ListMergeType.SET if "set" in words else ListMergeType.MAP if keys else ListMergeType.ATOMIC
    return ListOf(
        _value_type(part.type),
        relation,
        tuple(keys.split("+")) if keys else (),
        defaults=_key_defaults(part, keys.split("+")),
        merges="merge" in words or "by" in words,
        merge_key=argument.get("merge") or argument.get("by") or "",
        retain_keys="retainKeys" in words,
    )
