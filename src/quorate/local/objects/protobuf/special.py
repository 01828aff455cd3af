"""Messages with a JSON form that is not an object of their fields: times, quantities, JSON, alternatives."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from quorate.api.codec import Json

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
