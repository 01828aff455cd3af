"""What an object may contain, and how its lists and maps merge.

A type is what the patch formats need to know about a place in an object.  Built-in kinds have theirs in
`builtin_types.yaml`, which explains its notation; custom resources get theirs from their definition's schema
(`crd.schema`).
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
    """Who may own what in a list or a map."""

    ATOMIC = "atomic"
    """one owner for the whole"""
    SET = "set"
    """one owner per value (lists of scalars)"""
    MAP = "map"
    """one owner per entry"""


@dataclass(frozen=True, slots=True)
class Scalar:
    """A value without parts; `SCALARS` are their names."""

    name: str


@dataclass(frozen=True, slots=True)
class Untyped:
    """A value whose type nobody declared: scalars and lists are wholes, maps merge key by key."""

    atomic: bool = False


@dataclass(frozen=True, slots=True)
class ListOf:
    item: "Type"
    relation: ListMergeType = ListMergeType.ATOMIC
    keys: tuple[str, ...] = ()
    """for Relation.MAP: the fields that tell two items apart"""
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """values of absent keys"""
    merges: bool = False
    """a strategic merge patch adds to the list instead of replacing it"""
    merge_key: str = ""
    """for lists of objects that merge: the field that tells two items apart"""
    retain_keys: bool = False
    """a strategic merge patch may name the fields of an item that survive"""


@dataclass(frozen=True, slots=True, eq=False)
class MapOf:
    """An object with declared fields, a map with free keys, or both.

    Types refer to each other in circles, so equality is identity and `fields` is filled after construction.
    """

    name: str = ""
    fields: dict[str, "Type"] = field(default_factory=dict)
    rest: "Type | None" = None
    """the type of fields that are not declared; None: there may be no others"""
    atomic: bool = False
    always: set[str] = field(default_factory=set)
    """fields that the server's own form of an object has even when nobody set them"""

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
    """The type of a built-in kind, None if it is not one of them."""
    kinds, types = _builtin_types()
    name = kinds.get(f"{api_version}/{kind}")
    return types[name] if name else None


def object_meta_type() -> MapOf:
    """The type of `metadata`, the same in every kind."""
    return _builtin_types()[1]["ObjectMeta"]


def empty_object(kind: MapOf) -> Json:
    """The server's form of an object of which nothing is set; a creation owns what it adds to this."""
    bare: Json = {}
    for name in sorted(kind.always):
        match kind.fields[name]:
            case MapOf() as inner:
                bare[name] = empty_object(inner)
            case _:
                bare[name] = None
    return bare


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
            if "always" in words:
                types[name].always.add(field_name)
    return document["kinds"], types


def _parse_notation(words: list[str], types: Mapping[str, MapOf]) -> Type:
    """One field's notation, split into words: see `builtin_types.yaml`."""
    match words:
        case ["list", *rest]:
            return _parse_list_notation(rest, types)
        case ["map", *rest]:
            return MapOf(rest=_parse_notation(rest, types), atomic="atomic" in rest)
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
