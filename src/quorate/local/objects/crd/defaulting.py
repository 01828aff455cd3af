"""Pruning and defaulting of custom resources before validation."""

import copy
from collections.abc import Iterator
from typing import Any

from quorate.api.codec import Json
from quorate.local.objects.crd.schema import IDENTITY, Schema
from quorate.local.objects.schema_types import MapOf, object_meta_type


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
