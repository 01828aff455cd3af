"""Compiled structural schemas of custom resources, one per version; pruning and defaulting by them.

The source is `openAPIV3Schema` with Kubernetes' extensions (API documentation, "structural schemas").
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import msgspec

from quorate.api.codec import Json
from quorate.api.go_regexp import Pattern
from quorate.local.objects.crd.cel import Rule, cel_name, compile_rules
from quorate.local.objects.schema_types import (
    ListMergeType,
    ListOf,
    MapOf,
    Scalar,
    Type,
    Untyped,
    object_meta_type,
)

IDENTITY = ("apiVersion", "kind", "metadata")
"""fields that every object has, whatever its schema declares"""


class ValueValidation(msgspec.Struct, frozen=True, rename="camel"):
    """Value validations of a schema; None means no limit."""

    enum: tuple[Any, ...] | None = None
    pattern: str = ""
    format: str = ""
    minimum: int | float | None = None
    maximum: int | float | None = None
    exclusive_minimum: bool = False
    exclusive_maximum: bool = False
    multiple_of: int | float | None = None
    min_length: int | None = None
    max_length: int | None = None
    min_items: int | None = None
    max_items: int | None = None
    min_properties: int | None = None
    max_properties: int | None = None


NO_VALUE_VALIDATION = ValueValidation()
compiled_pattern = lru_cache(maxsize=4096)(Pattern)


@dataclass(frozen=True)
class Schema:
    type: str = ""
    """object, array, string, integer, number or boolean; empty: any type"""
    properties: Mapping[str, "Schema"] = field(default_factory=dict)
    values: "Schema | None" = None
    """schema of fields that are not in properties"""
    items: "Schema | None" = None
    required: tuple[str, ...] = ()
    nullable: bool = False
    has_default: bool = False
    default: Any = None
    preserve_unknown_fields: bool = False
    embedded: bool = False
    int_or_string: bool = False
    list_type: str = "atomic"
    list_keys: tuple[str, ...] = ()
    map_type: str = "granular"
    limits: ValueValidation = NO_VALUE_VALIDATION
    all_of: tuple["Schema", ...] = ()
    any_of: tuple["Schema", ...] = ()
    one_of: tuple["Schema", ...] = ()
    not_: "Schema | None" = None
    rules: tuple[Rule, ...] = ()

    @cached_property
    def has_rules(self) -> bool:
        """Return True if this schema or a descendant has CEL rules."""
        return bool(self.rules) or any(child.has_rules for child in self.children)

    @cached_property
    def has_defaults(self) -> bool:
        """Return True if this schema or a descendant has a default."""
        return self.has_default or any(child.has_defaults for child in self.children)

    @cached_property
    def has_escaped_names(self) -> bool:
        """Return True if a field here or below has a name that must be escaped in CEL."""
        return any(cel_name(name) != name for name in self.properties) or any(
            child.has_escaped_names for child in self.children
        )

    @cached_property
    def has_distinct_items(self) -> bool:
        """Return True if a list here or below is a set or a map."""
        return self.list_type in ("set", "map") or any(child.has_distinct_items for child in self.children)

    @cached_property
    def has_combinators(self) -> bool:
        """Return True if the schema has allOf, anyOf, oneOf or not."""
        return bool(self.all_of or self.any_of or self.one_of or self.not_)

    @property
    def children(self) -> tuple["Schema", ...]:
        inner = (self.items, self.values)
        return (*self.properties.values(), *(child for child in inner if child))

    def field_schema(self, name: str) -> "Schema | None":
        return self.properties.get(name, self.values)


def compile_schema(source: Json) -> Schema:
    """Compile a schema.  Raises InvalidPattern and InvalidRule."""
    free = source.get("additionalProperties")
    if free is True:
        free = {"x-kubernetes-preserve-unknown-fields": True}
    int_or_string = bool(source.get("x-kubernetes-int-or-string"))
    return Schema(
        type=source.get("type", ""),
        properties={name: compile_schema(part) for name, part in source.get("properties", {}).items()},
        values=compile_schema(free) if isinstance(free, dict) else None,
        items=compile_schema(source["items"]) if "items" in source else None,
        required=tuple(source.get("required", ())),
        nullable=bool(source.get("nullable")),
        has_default="default" in source,
        default=source.get("default"),
        preserve_unknown_fields=bool(source.get("x-kubernetes-preserve-unknown-fields")),
        embedded=bool(source.get("x-kubernetes-embedded-resource")),
        int_or_string=int_or_string,
        list_type=source.get("x-kubernetes-list-type", "atomic"),
        list_keys=tuple(source.get("x-kubernetes-list-map-keys", ())),
        map_type=source.get("x-kubernetes-map-type", "granular"),
        limits=_limits(source),
        all_of=tuple(map(compile_schema, source.get("allOf", ()))),
        # A structural schema's anyOf next to int-or-string can only repeat its two types.
        any_of=() if int_or_string else tuple(map(compile_schema, source.get("anyOf", ()))),
        one_of=tuple(map(compile_schema, source.get("oneOf", ()))),
        not_=compile_schema(source["not"]) if "not" in source else None,
        rules=compile_rules(source.get("x-kubernetes-validations", ())),
    )


def _limits(source: Json) -> ValueValidation:
    """Return the limits; without any, the singleton, so that ``is`` detects it.  Raises InvalidPattern."""
    limits = msgspec.convert(source, ValueValidation)
    if limits.pattern:
        compiled_pattern(limits.pattern)
    return NO_VALUE_VALIDATION if limits == NO_VALUE_VALIDATION else limits


def object_merge_type(schema: Schema) -> MapOf:
    """Return the type of whole objects, for patches and managed fields."""
    kind = merge_type(schema)
    fields: dict[str, Type] = dict(kind.fields) if isinstance(kind, MapOf) else {}
    fields |= {"apiVersion": Scalar("string"), "kind": Scalar("string"), "metadata": object_meta_type()}
    return MapOf(fields=fields, rest=Untyped() if schema.preserve_unknown_fields else None)


def merge_type(schema: Schema) -> Type:
    """Return how values of this schema merge."""
    if schema.int_or_string:
        return Scalar("int-or-string")
    match schema.type:
        case "object":
            return _map_merge_type(schema)
        case "array" if schema.items:
            return _list_merge_type(schema, schema.items)
        case "string" | "integer" | "number" | "boolean":
            return Scalar(schema.type)
        case _:
            return Untyped()


def _map_merge_type(schema: Schema) -> Type:
    rest: Type | None = None
    if schema.values:
        rest = merge_type(schema.values)
    elif schema.preserve_unknown_fields or schema.embedded:
        rest = Untyped()
    fields = {name: merge_type(part) for name, part in schema.properties.items()}
    return MapOf(fields=fields, rest=rest, atomic=schema.map_type == "atomic")


def _list_merge_type(schema: Schema, items: Schema) -> Type:
    relations = {"set": ListMergeType.SET, "map": ListMergeType.MAP}
    defaults = {
        key: items.properties[key].default
        for key in schema.list_keys
        if key in items.properties and items.properties[key].has_default
    }
    return ListOf(
        merge_type(items),
        relations.get(schema.list_type, ListMergeType.ATOMIC),
        schema.list_keys,
        defaults=defaults,
    )


def prune(value: Json, schema: Schema) -> list[str]:
    """Remove fields that the schema does not declare, in place; return their paths.

    `apiVersion`, `kind` and `metadata` of the object and of embedded resources are always kept.
    """
    return list(_prune_object(value, schema, "", embedded=True))


def _prune(value: Any, schema: Schema, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        yield from _prune_object(value, schema, path, embedded=schema.embedded)
    elif isinstance(value, list) and schema.items:
        for index, item in enumerate(value):
            yield from _prune(item, schema.items, f"{path}[{index}]")


def _prune_object(value: Json, schema: Schema, path: str, *, embedded: bool) -> Iterator[str]:
    for name in sorted(value):
        here = f"{path}.{name}" if path else name
        inner = schema.field_schema(name)
        if embedded and name in IDENTITY:
            if name == "metadata":
                yield from _prune_metadata(value[name], object_meta_type(), here)
        elif inner:
            yield from _prune(value[name], inner, here)
        elif not schema.preserve_unknown_fields:
            del value[name]
            yield here


def _prune_metadata(value: Any, kind: MapOf, path: str) -> Iterator[str]:
    if isinstance(value, dict):
        for name in sorted(set(value) - set(kind.fields)):
            del value[name]
            yield f"{path}.{name}"


def apply_defaults(value: Any, schema: Schema) -> None:
    """Set absent fields to their defaults, in place; an invalid null counts as absent.

    Defaults apply to the inserted default value too.
    """
    if isinstance(value, dict):
        for name, part in schema.properties.items():
            left_out = name not in value or (value[name] is None and not part.nullable)
            if part.has_default and left_out:
                value[name] = copy.deepcopy(part.default)
        for name in list(value):
            inner = schema.field_schema(name)
            if inner and value[name] is None and not inner.nullable:
                del value[name]
            elif inner:
                apply_defaults(value[name], inner)
    elif isinstance(value, list) and schema.items:
        for item in value:
            apply_defaults(item, schema.items)
