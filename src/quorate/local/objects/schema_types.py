"""Types of objects for structured merge: fields, and how lists and maps merge.

The types of built-in kinds are in `builtin_types.yaml`, which documents its notation. The types of custom
resources come from their CRD's schema (`crd.schema`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

import yaml

Json: TypeAlias = dict[str, Any]


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
    """A value without parts; `SCALARS` lists the names."""

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

    def field_type(self, name: str) -> "Type | None":
        return self.fields.get(name, self.rest)


Type: TypeAlias = Scalar | Untyped | ListOf | MapOf

SCALARS = (
    "string",
    "integer",
    "number",
    "boolean",
    "time",
    "micro-time",
    "quantity",
    "bytes",
    "int-or-string",
)


def builtin_type(api_version: str, kind: str) -> MapOf | None:
    """Return the type of a built-in kind, or None."""
    kinds, types = _builtin_types()
    name = kinds.get(f"{api_version}/{kind}")
    return types[name] if name else None


def object_meta_type() -> MapOf:
    """Return the type of `metadata`, which all kinds share."""
    return _builtin_types()[1]["ObjectMeta"]


@cache
def _builtin_types() -> tuple[dict[str, str], dict[str, MapOf]]:
    text = files(__package__).joinpath("builtin_types.yaml").read_text("utf-8")
    document = yaml.load(text, Loader=yaml.CSafeLoader)
    atomic = set(document["atomic"])
    types = {name: MapOf(name, atomic=name in atomic) for name in document["types"]}
    for name, fields in document["types"].items():
        for field_name, notation in fields.items():
            words = notation.split()
            types[name].fields[field_name] = _parse_notation(words, types)
    return document["kinds"], types


def _parse_notation(words: list[str], types: Mapping[str, MapOf]) -> Type:
    """Parse one field's notation, split into words (see `builtin_types.yaml`)."""
    match words:
        case ["list", *rest]:
            return _parse_list_notation(rest, types)
        case ["map", *rest]:
            return MapOf(rest=_parse_notation(rest, types), atomic="atomic" in rest)
        case ["schema-or", *alternative]:
            schema, other = types["JSONSchemaProps"], _parse_notation(alternative, types)
            return SchemaOr(atomic=True, schema=schema, alternative=other)
        case ["any", *_]:
            return Untyped(atomic=True)
        case [name, *_] if name in SCALARS:
            return Scalar(name)
        case [name, *_]:
            return types[name]
    raise ValueError("a field without a type")


def _parse_list_notation(words: list[str], types: Mapping[str, MapOf]) -> ListOf:
    item = _parse_notation(words, types)
    argument = dict(zip(words, [*words[1:], ""], strict=True))
    keys = argument.get("keys") or argument.get("by") or ""
    relation = ListMergeType.SET if "set" in words else ListMergeType.MAP if keys else ListMergeType.ATOMIC
    return ListOf(
        item,
        relation,
        tuple(keys.split("+")) if keys else (),
        defaults={"protocol": "TCP"} if "protocol" in keys.split("+") else {},
        merges="merge" in words or "by" in words,
        merge_key=argument.get("merge") or argument.get("by") or "",
        retain_keys="retainKeys" in words,
    )
