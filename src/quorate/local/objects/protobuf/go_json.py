"""The JSON that Go writes for an object: which of its empty fields it has.

Go's tags decide: a field without `omitempty` is always there, a struct as well, and a pointer if it is set.
Some messages have a JSON form that is not an object of their fields: times, quantities, JSON, alternatives.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache, lru_cache, partial
from typing import Any, NamedTuple, TypeAlias

from quorate.api.codec import Json
from quorate.kube.patches import without_nulls
from quorate.local.objects.protobuf.table import Field, Message

_EPOCH = datetime.fromtimestamp(0, UTC)


class SpecialForm(NamedTuple):
    """Conversions between a message, as the JSON object of its fields, and its JSON form.

    Both conversions raise ValueError for a value that the other form cannot express.
    """

    to_json: Callable[[Json], Any]
    from_json: Callable[[Any], Json]


def _time_text(message: Json) -> str | None:
    """Return a time of whole seconds; None if it is not set."""
    return _format_time(message.get("seconds", 0), 0, "seconds") if message else None


def _micro_time_text(message: Json) -> str | None:
    if not message:
        return None
    return _format_time(message.get("seconds", 0), int(message.get("nanos", 0) / 1000), "microseconds")


@lru_cache(maxsize=1024)  # the objects of a list have few distinct times
def _format_time(seconds: int, micros: int, precision: str) -> str:
    try:
        moment = _EPOCH + timedelta(seconds=seconds, microseconds=micros)
    except OverflowError as refusal:
        raise ValueError("a time that is not in the years 1 to 9999") from refusal
    return f"{moment.replace(tzinfo=None).isoformat(timespec=precision)}Z"


@lru_cache(maxsize=1024)
def _parse_time(text: str) -> tuple[int, int]:
    """Return seconds since the epoch and nanoseconds."""
    passed = datetime.fromisoformat(text) - _EPOCH
    return passed.days * 86_400 + passed.seconds, passed.microseconds * 1000


def _time_message(text: str) -> Json:
    seconds, nanos = _parse_time(text)
    return {"seconds": seconds, "nanos": nanos}


def _int_or_string(message: Json) -> int | str:
    kind = message.get("type", 0)
    if kind not in (0, 1):
        raise ValueError(f"type {kind} of a value that is an integer (0) or a string (1)")
    value: int | str = message.get("strVal", "") if kind else message.get("intVal", 0)
    return value


def _int_or_string_message(value: int | str) -> Json:
    if isinstance(value, str):
        return {"type": 1, "strVal": value}
    return {"type": 0, "intVal": value}


def _schema_or_bool(message: Json) -> Json | bool:
    schema: Json | None = message.get("schema")
    return schema if schema is not None else message.get("allows", False)


def _schema_or_bool_message(value: Json | bool) -> Json:
    return {"allows": value} if isinstance(value, bool) else {"allows": True, "schema": value}


def _field(name: str, absent: object = None) -> SpecialForm:
    """Return the form of a message that is the value of its field ``name`` in JSON, such as a quantity.

    ``absent``: the JSON of a message without the field.
    """
    return SpecialForm(lambda message: message.get(name, absent), lambda value: {name: value})


def _schema_or_list(name: str) -> SpecialForm:
    """Return the form of a message that is either a schema or a list in the field ``name``."""
    return SpecialForm(
        lambda message: message.get(name) or message.get("schema"),
        lambda value: {name: value} if isinstance(value, list) else {"schema": value},
    )


FORMS: Mapping[str, SpecialForm] = {
    "time": SpecialForm(_time_text, _time_message),
    "micro-time": SpecialForm(_micro_time_text, _time_message),
    "quantity": _field("string", "0"),
    "int-or-string": SpecialForm(_int_or_string, _int_or_string_message),
    "raw": _field("raw"),
    "fields": _field("Raw"),
    "any": _field("raw"),
    "strings": SpecialForm(lambda message: message.get("items") or [], lambda value: {"items": value}),
    "schema-or-array": _schema_or_list("jSONSchemas"),
    "schema-or-bool": SpecialForm(_schema_or_bool, _schema_or_bool_message),
    "schema-or-strings": _schema_or_list("property"),
}


_Recursion: TypeAlias = Callable[[Message, Json], Json]

_ZEROS: Mapping[str, Any] = {"string": "", "bytes": None, "bool": False, "int32": 0, "int64": 0}


def complete(message: Message, obj: Json) -> Json:
    """Return an object without the fields that Go omits, and with the fields that Go always writes.

    The nulls that Go writes for times, lists and pointers are left out: they mean the same, and functions
    that read objects need not expect them.
    """
    form = _omit_empty(message, obj, complete)
    scalars, parts = always_written(message)
    for name, value in scalars.items():
        if value is not None:
            form.setdefault(name, value)
    for name, empty in parts:
        if name not in form and (value := without_nulls(empty())) is not None:
            form[name] = value
    return form


def empty_object(message: Message) -> Json:
    """Return the JSON of an object without set fields; absent times, lists and pointers are null."""
    scalars, parts = always_written(message)
    return scalars | {name: empty() for name, empty in parts}


def without_empty(message: Message, obj: Json) -> Json:
    """Return an object without the fields that Go omits, and with all structs: before defaults are set."""
    form = _omit_empty(message, obj, without_empty)
    for name, struct in _structs(message):
        if name not in form:
            form[name] = without_empty(struct, {})
    return form


@cache
def always_written(message: Message) -> tuple[Json, tuple[tuple[str, Callable[[], Any]], ...]]:
    """Return the fields that JSON has although they are empty.

    Scalars have their empty values; other fields have functions that return a new empty value.
    """
    scalars: Json = {}
    parts: list[tuple[str, Callable[[], Any]]] = []
    for field in message.fields:
        match field.type:
            case Message() as inner if not field.name:
                inner_scalars, inner_parts = always_written(inner)
                scalars |= inner_scalars
                parts.extend(inner_parts)
            case Message(is_special=True, name=name) if field.is_single and not field.omits_zero:
                parts.append((field.name, partial(FORMS[name].to_json, {})))
            case Message() as inner if field.is_single and not field.omits_zero:
                parts.append((field.name, partial(empty_object, inner)))
            case str() as scalar if field.is_single and field.is_required:
                scalars[field.name] = _ZEROS[scalar]
            case _ if field.is_required:
                parts.append((field.name, lambda: None))
    return scalars, tuple(parts)


@cache
def _structs(message: Message) -> tuple[tuple[str, Message], ...]:
    """Return the fields that are structs, and their messages."""
    structs: list[tuple[str, Message]] = []
    for field in message.fields:
        if isinstance(field.type, Message) and not field.name:
            structs.extend(_structs(field.type))
        elif isinstance(field.type, Message) and field.is_single and not field.type.is_special:
            structs.append((field.name, field.type))
    return tuple(structs)


NO_OBJECTS, ONE, MANY, BY_KEY, SCHEMAS = range(5)
"""How many objects a value of a field contains."""


class _Rule(NamedTuple):
    omits_empty: bool
    objects: int = NO_OBJECTS
    message: Message | None = None
    """of the objects"""


_TYPE_META = _Rule(omits_empty=False)
"""apiVersion and kind, which messages do not have"""


def _omit_empty(message: Message, obj: Json, recurse: _Recursion) -> Json:
    rules, form = _rules(message), {}
    for name, value in obj.items():
        omits_empty, objects, inner = rules.get(name, _TYPE_META)
        part = value
        if inner is not None and value is not None:
            if objects == ONE:
                part = recurse(inner, value)
            elif objects == MANY:
                part = [recurse(inner, item) for item in value]
            elif objects == BY_KEY:
                part = {key: recurse(inner, item) for key, item in value.items()}
            else:
                part = _in_schemas(inner, recurse, value)
        if part or not omits_empty:
            form[name] = part
    return form


def _in_schemas(schema: Message, recurse: _Recursion, value: Any) -> Any:
    """Apply ``recurse`` to a schema or to each schema of a list; return any other value as it is."""
    match value:
        case dict():
            return recurse(schema, value)
        case list():
            return [_in_schemas(schema, recurse, part) for part in value]
    return value


@cache
def _rules(message: Message) -> Mapping[str, _Rule]:
    rules: dict[str, _Rule] = {}
    for field in message.fields:
        if not field.name:
            assert isinstance(field.type, Message)
            rules |= _rules(field.type)
            continue
        is_optional = field.is_list or field.is_map or (field.is_single and isinstance(field.type, str))
        omits_empty = field.omits_zero or (is_optional and not field.is_required)
        rules[field.name] = _Rule(omits_empty, *_objects_of(field))
    return rules


def _objects_of(field: Field) -> tuple[int, Message | None]:
    match field.type:
        case str():
            return NO_OBJECTS, None
        case Message(is_special=True, fields=parts):
            schemas = [part.type for part in parts if part.name == "schema"]
            if schemas and isinstance(schemas[0], Message) and not field.is_map:
                return SCHEMAS, schemas[0]
            return NO_OBJECTS, None
        case message:
            return MANY if field.is_list else BY_KEY if field.is_map else ONE, message
