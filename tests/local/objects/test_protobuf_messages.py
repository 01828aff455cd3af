"""Laws of the protobuf format for the messages of every kind."""

import base64
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from random import Random
from typing import Any

import pytest

from quorate.api.codec import Json
from quorate.local.objects.protobuf.envelope import write_message
from quorate.local.objects.protobuf.reader import read_message
from quorate.local.objects.protobuf.table import Field, FieldType, Message, find_message
from quorate.local.objects.schema_types import ListOf, MapOf, Scalar, Type, Untyped, builtin_type
from quorate.local.server.registry.kinds import Kind
from tests.local.objects.protobuf_bodies import KINDS, MESSAGES

EXAMPLES = 60  # of each message
MAX_PART_DEPTH = 6
TEXTS = ("", "a", "ü/b", "x" * 130)
DATES = tuple(datetime(year, 1, 1, tzinfo=UTC) for year in (1, 1969, 1970, 2000, 9999))
SCHEMA = find_message("apiextensions.k8s.io/v1", "JSONSchemaProps")


def text(rng: Random) -> str:
    return rng.choice(TEXTS)


def integer(rng: Random, bits: int) -> int:
    """Return an integer of any length; one in four is at an end of the range."""
    if rng.random() < 0.25:
        return rng.choice((0, -1, (1 << bits - 1) - 1, -(1 << bits - 1)))
    return rng.choice((1, -1)) * rng.getrandbits(rng.randrange(1, bits))


def date(rng: Random, timespec: str) -> str:
    moment = rng.choice(DATES) if rng.random() < 0.25 else DATES[0] + rng.random() * (DATES[-1] - DATES[0])
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


def any_json(rng: Random, depth: int = 0) -> Any:
    """Return a value of JSON that is not null, with null in it."""
    of_lists = (
        lambda: [any_json(rng, depth + 1) for _ in range(rng.randrange(3))],
        lambda: {text(rng): rng.choice((None, any_json(rng, depth + 1))) for _ in range(rng.randrange(3))},
    )
    of_scalars = (lambda: rng.random() < 0.5, lambda: integer(rng, 54), lambda: 0.5, lambda: text(rng))
    return rng.choice(of_scalars if depth > 1 else of_scalars + of_lists)()


VALUES: Mapping[str, Callable[[Random], Any]] = {
    "string": text,
    "bytes": lambda rng: base64.b64encode(rng.randbytes(rng.randrange(4))).decode(),
    "bool": lambda rng: rng.random() < 0.5,
    "int32": lambda rng: integer(rng, 32),
    "int64": lambda rng: integer(rng, 64),
    "double": lambda rng: rng.choice((0.5, rng.randint(-5, 5))),
    "json": any_json,
    "time": lambda rng: date(rng, "seconds"),
    "micro-time": lambda rng: date(rng, "microseconds"),
    "quantity": lambda rng: rng.choice(("0", "100m", "1Gi", "-5")),
    "int-or-string": lambda rng: rng.choice((integer(rng, 32), text(rng))),
    "strings": lambda rng: [text(rng) for _ in range(rng.randrange(3))],
    "raw": any_json,
    "fields": any_json,
    "any": any_json,
}
ALTERNATIVES: Mapping[str, Callable[[Random], Any]] = {
    "schema-or-array": lambda rng: [{"type": "string"}] * rng.randint(1, 2),
    "schema-or-bool": lambda rng: rng.random() < 0.5,
    "schema-or-strings": lambda rng: [text(rng) for _ in range(rng.randint(1, 2))],
}


def value(rng: Random, field: Field, depth: int) -> Any:
    """Return one value of a field, an item of its list or a value of its map."""
    match field.type:
        case str() as name:
            return VALUES[name](rng)
        case Message(is_special=True, name=name) if name in ALTERNATIVES:
            assert SCHEMA is not None
            return example(rng, SCHEMA, depth + 1) if rng.random() < 0.5 else ALTERNATIVES[name](rng)
        case Message(is_special=True, name=name):
            return VALUES[name](rng)
        case message_type:
            return example(rng, message_type, depth + 1)


def example(rng: Random, message_type: Message, depth: int = 0) -> Json:
    """Return the JSON that Go writes for a message with a few of its optional fields."""
    obj: Json = {}
    names = [field.name for field in message_type.fields if field.name]
    count = 0 if depth > MAX_PART_DEPTH else rng.randint(0, min(3, len(names)))
    chosen = set(rng.sample(names, count))
    for field in message_type.fields:
        if not field.name:
            obj |= value(rng, field, depth)
        elif field.is_list and field.name in chosen:
            obj[field.name] = [value(rng, field, depth) for _ in range(rng.randint(1, 2))]
        elif field.is_map and field.name in chosen:
            obj[field.name] = {text(rng): value(rng, field, depth) for _ in range(rng.randint(1, 2))}
        elif field.is_single and (field.is_required or is_struct(field)):
            obj[field.name] = value(rng, field, depth)
        elif field.name in chosen:
            single = value(rng, field, depth)
            if field.is_pointer or field.omits_zero or single:
                obj[field.name] = single
        elif field.is_required:
            obj[field.name] = None
    return obj


def is_struct(field: Field) -> bool:
    """Return True for a struct, which Go's JSON has even if it is empty."""
    return isinstance(field.type, Message) and not field.omits_zero


@pytest.mark.parametrize("name", sorted(MESSAGES))
def test_an_object_is_the_same_after_writing_and_reading(name: str) -> None:
    rng = Random(name)
    for _ in range(EXAMPLES):
        obj = example(rng, MESSAGES[name])
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
