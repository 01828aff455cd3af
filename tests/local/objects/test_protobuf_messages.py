"""Laws of the protobuf format for the messages of every kind."""

import base64
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quorate.local.objects.protobuf.reader import read_message
from quorate.local.objects.protobuf.table import Field, FieldType, Message, find_message
from quorate.local.objects.protobuf.writer import write_message
from quorate.local.objects.schema_types import Json, ListOf, MapOf, Scalar, Type, Untyped, builtin_type
from quorate.local.server.registry.kinds import Kind
from tests.local.objects.protobuf_bodies import KINDS, MESSAGES

TEXT = st.sampled_from(("", "a", "ü/b", "x" * 130))
BYTES = st.binary(max_size=3).map(lambda data: base64.b64encode(data).decode())
DATES = st.datetimes()
ANY = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.just(0.5) | TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2),
    max_leaves=4,
)
INT32 = st.integers(-(2**31), 2**31 - 1)
VALUES: Mapping[str, st.SearchStrategy[Any]] = {
    "string": TEXT,
    "bytes": BYTES,
    "bool": st.booleans(),
    "int32": INT32,
    "int64": st.integers(-(2**63), 2**63 - 1),
    "double": st.integers(-5, 5) | st.just(0.5),
    "json": ANY.filter(lambda value: value is not None),
    "time": DATES.map(lambda date: date.isoformat(timespec="seconds") + "Z"),
    "micro-time": DATES.map(lambda date: date.isoformat(timespec="microseconds") + "Z"),
    "quantity": st.sampled_from(("0", "100m", "1Gi", "-5")),
    "int-or-string": INT32 | TEXT,
    "strings": st.lists(TEXT, max_size=2),
    "raw": ANY.filter(lambda value: value is not None),
    "fields": ANY.filter(lambda value: value is not None),
    "any": ANY.filter(lambda value: value is not None),
}
SCHEMA = find_message("apiextensions.k8s.io/v1", "JSONSchemaProps")
ALTERNATIVES: Mapping[str, st.SearchStrategy[Any]] = {
    "schema-or-array": st.lists(st.just({"type": "string"}), min_size=1, max_size=2),
    "schema-or-bool": st.booleans(),
    "schema-or-strings": st.lists(TEXT, min_size=1, max_size=2),
}
MAX_PART_DEPTH = 6


@cache  # Hypothesis checks each new strategy
def values(field: Field, depth: int) -> st.SearchStrategy[Any]:
    """Return a strategy for one value of a field, an item of its list or a value of its map."""
    match field.type:
        case str() as name:
            return VALUES[name]
        case Message(is_special=True, name=name) if name in ALTERNATIVES:
            assert SCHEMA is not None
            return objects(SCHEMA, depth + 1) | ALTERNATIVES[name]
        case Message(is_special=True, name=name):
            return VALUES[name]
        case message_type:
            return objects(message_type, depth + 1)


@st.composite
def objects(draw: st.DrawFn, message_type: Message, depth: int = 0) -> Json:
    """Return the JSON that Go writes for a message with a few of its optional fields."""
    obj: Json = {}
    chosen = set() if depth > MAX_PART_DEPTH else draw(some_names(message_type))
    for field in message_type.fields:
        one = values(field, depth)
        if not field.name:
            obj |= draw(one)
        elif field.is_list and field.name in chosen:
            obj[field.name] = draw(lists_of(one))
        elif field.is_map and field.name in chosen:
            obj[field.name] = draw(maps_of(one))
        elif field.is_single and (field.is_required or is_struct(field)):
            obj[field.name] = draw(one)
        elif field.name in chosen:
            value = draw(one)
            if field.is_pointer or field.omits_zero or value:
                obj[field.name] = value
        elif field.is_required:
            obj[field.name] = None
    return obj


@cache
def some_names(message_type: Message) -> st.SearchStrategy[set[str]]:
    names = [field.name for field in message_type.fields if field.name]
    return st.sets(st.sampled_from(names), max_size=3) if names else st.just(set())


@cache
def lists_of(item: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Any]]:
    return st.lists(item, min_size=1, max_size=2)


@cache
def maps_of(value: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    return st.dictionaries(TEXT, value, min_size=1, max_size=2)


def is_struct(field: Field) -> bool:
    """Return True for a struct, which Go's JSON has even if it is empty."""
    return isinstance(field.type, Message) and not field.omits_zero


@pytest.mark.parametrize("name", sorted(MESSAGES))
@settings(max_examples=15, suppress_health_check=list(HealthCheck), deadline=None)
@given(st.data())
def test_an_object_is_the_same_after_writing_and_reading(name: str, data: st.DataObject) -> None:
    obj = data.draw(objects(MESSAGES[name]))
    assert read_message(MESSAGES[name], write_message(MESSAGES[name], obj)) == obj


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: f"{kind.api_version} {kind.kind}")
def test_the_fields_of_messages_are_those_of_the_types(kind: Kind) -> None:
    """A field in one table only is lost, and a value of another type cannot be written."""
    types, message_type = builtin_type(kind.api_version, kind.kind), find_message(kind.api_version, kind.kind)
    assert types is not None
    assert message_type is not None
    assert list(differences(types, message_type, set())) == []


SCALAR_TYPES = {
    "bytes": ("bytes",),
    "boolean": ("bool",),
    "integer": ("int32", "int64"),
    "number": ("double",),
}
"""The types of numbers and bytes in messages; other types have the same names in both tables."""


def differences(types: MapOf, message_type: Message, seen: set[MapOf]) -> Iterator[str]:
    if types in seen:
        return
    seen.add(types)
    fields = fields_in_json(message_type)
    declared = {name for name in types.fields if name in fields or name not in ("apiVersion", "kind")}
    for name in declared ^ fields.keys():
        yield f"{message_type.full_name}.{name} is in one table only"
    for name in declared & fields.keys():
        part, field = types.fields[name], fields[name]
        match part:
            case ListOf(item) if field.is_list:
                part = item
            case MapOf(name="", rest=rest) if field.is_map and rest is not None:
                part = rest
        if isinstance(part, MapOf) and part.name and isinstance(field.type, Message):
            yield from differences(part, field.type, seen)
        elif not is_same_type(part, field.type):
            yield f"{message_type.full_name}.{name} has the types {part} and {field.type}"


def fields_in_json(message_type: Message) -> Mapping[str, Field]:
    fields: dict[str, Field] = {}
    for field in message_type.fields:
        inlined = {} if field.name or isinstance(field.type, str) else fields_in_json(field.type)
        fields |= {field.name: field} if field.name else inlined
    return fields


def is_same_type(part: Type, type_: FieldType) -> bool:
    name = type_ if isinstance(type_, str) else type_.name
    match part:
        case Scalar(scalar):
            return name in SCALAR_TYPES.get(scalar, (scalar,))
        case ListOf(Scalar("string")):
            return name == "strings"
        case Untyped():
            return isinstance(type_, Message) and type_.is_special
    return False
