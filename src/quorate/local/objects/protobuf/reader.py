"""Reading of protobuf messages into the JSON that Go writes for the same object."""

import base64
import math
import struct
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, NamedTuple, TypeAlias

import msgspec

from quorate.api.codec import Json
from quorate.kube.limits import MAX_VALUES
from quorate.kube.serving.json_values import exceeds_values
from quorate.local.objects.nesting import MAX_DEPTH, exceeds_depth
from quorate.local.objects.protobuf.go_json import FORMS, always_written
from quorate.local.objects.protobuf.table import (
    BYTES,
    VARINT,
    Field,
    FieldType,
    Malformed,
    Message,
    read_varint,
    wire_type,
)

NumberReader: TypeAlias = Callable[[int], Any]

SET, SET_ONCE, SET_NON_ZERO, APPEND, EXTEND, ENTRY, INLINE = range(7)
"""How a value is added to the JSON object of its message."""


class _FieldReader(NamedTuple):
    store: int
    name: str
    read: Any
    """by the wire type: a function of a number or eight bytes, or of data, start, end and limits"""


class _MessageReader(NamedTuple):
    by_tag: dict[int, _FieldReader]
    template: Json
    """scalars that JSON has always"""
    required: tuple[tuple[str, Callable[[], Any]], ...]
    """other fields that JSON has always, with functions that return their empty values"""


class _Limits:
    """The values and the levels of messages that a body may still contain; JSON has the same limits."""

    __slots__ = ("levels", "values")

    def __init__(self) -> None:
        self.values, self.levels = MAX_VALUES, MAX_DEPTH + 1


def read_message(message: Message, data: bytes) -> Json:
    """Return the JSON of a message.  Raises Malformed, which names the field."""
    try:
        return _read_fields(message, data, 0, len(data), _Limits())
    except IndexError as error:
        raise Malformed("the body is cut off") from error


def _read_fields(message: Message, data: bytes, at: int, end: int, limits: _Limits) -> Json:
    by_tag, template, required = _message_reader(message)
    limits.levels -= 1
    if limits.levels < 0:
        raise Malformed(f"exceeded max depth of {MAX_DEPTH}")
    read, count = template.copy(), 0
    while at < end:
        tag = data[at]
        at += 1
        if tag > 127:
            tag, at = read_varint(data, at - 1)
        reader = by_tag.get(tag)
        if reader is None:
            raise _unexpected_field(message, tag)
        store, name, read_value = reader
        count += 1
        try:
            if tag & 7 == BYTES:
                size = data[at]
                at += 1
                if size > 127:
                    size, at = read_varint(data, at - 1)
                stop = at + size
                if stop > end:
                    raise Malformed("a field is longer than its message")
                value = read_value(data, at, stop, limits)
                at = stop
            elif tag & 7 == VARINT:
                number, at = read_varint(data, at)
                value = read_value(number)
            else:
                value, at = read_value(data[at : at + 8]), at + 8
        except Malformed as error:
            raise error.inside(name) from None
        except ValueError as error:
            raise Malformed(str(error)).inside(name) from error
        if store == SET or (store == SET_NON_ZERO and value):
            read[name] = value
        elif store == SET_NON_ZERO:
            read.pop(name, None)
        elif store == APPEND:
            read.setdefault(name, []).append(value)
        elif store == ENTRY:
            key, content = value
            read.setdefault(name, {})[key] = content
        elif store == INLINE:
            read.update(value)
        elif store == EXTEND:
            read.setdefault(name, []).extend(value)
        elif name in read:
            raise Malformed("the field occurs twice").inside(name)
        else:
            read[name] = value
    if at > end:
        raise Malformed("a number is longer than its message")
    for name, empty in required:
        if name not in read:
            read[name] = empty()
    limits.levels += 1
    limits.values -= count
    if limits.values < 0:
        raise _too_many_values()
    return read


def _too_many_values() -> Malformed:
    return Malformed(f"more than {MAX_VALUES} values")


def _unexpected_field(message: Message, tag: int) -> Malformed:
    number, wire = tag >> 3, tag & 7
    if any(field.number == number for field in message.fields):
        return Malformed(f"field {number} of {message.full_name} has the wrong wire type {wire}")
    return Malformed(f"{message.full_name} has no field {number}")


@cache
def _message_reader(message: Message) -> _MessageReader:
    by_tag: dict[int, _FieldReader] = {}
    for field in message.fields:
        by_tag |= _field_readers(field)
    return _MessageReader(by_tag, *always_written(message))


def _field_readers(field: Field) -> dict[int, _FieldReader]:
    """Return the readers of a field by tag."""
    name, read = field.name, _value_reader(field.type)
    tag = field.number << 3 | wire_type(field.type)
    if field.is_map:
        return {field.number << 3 | BYTES: _FieldReader(ENTRY, name, partial(_read_entry, field.type, read))}
    if not name:
        return {tag: _FieldReader(INLINE, name, read)}
    if field.is_list:
        packed = _FieldReader(EXTEND, name, partial(_read_packed, read))
        return {field.number << 3 | BYTES: packed} | {tag: _FieldReader(APPEND, name, read)}
    if field.omits_zero or (field.is_single and isinstance(field.type, str) and not field.is_required):
        return {tag: _FieldReader(SET_NON_ZERO, name, read)}
    is_object = isinstance(field.type, Message) and not field.type.is_special
    return {tag: _FieldReader(SET_ONCE if is_object else SET, name, read)}


def _read_entry(
    type_: FieldType, read: Any, data: bytes, at: int, end: int, limits: _Limits
) -> tuple[str, Any]:
    """Return one entry of a map: key is field 1, value is field 2."""
    key, value = "", _NOTHING
    while at < end:
        tag, at = read_varint(data, at)
        size, at = read_varint(data, at)
        if at + size > end:
            raise Malformed("an entry of a map is cut off")
        if tag == 1 << 3 | BYTES:
            key = _read_string(data, at, at + size, limits)
        elif tag == 2 << 3 | BYTES:
            value = read(data, at, at + size, limits)
        else:
            raise Malformed(f"an entry of a map has no field {tag >> 3} of wire type {tag & 7}")
        at += size
    return key, read(b"", 0, 0, limits) if value is _NOTHING else value


_NOTHING = object()


def _read_packed(read: NumberReader, data: bytes, at: int, end: int, _: _Limits) -> list[Any]:
    values = []
    while at < end:
        number, at = read_varint(data, at)
        values.append(read(number))
    if at > end:
        raise Malformed("a number is longer than its list")
    return values


def _value_reader(type_: FieldType) -> Any:
    """Return the function that reads a value, with the arguments of its wire type."""
    match type_:
        case Message(is_special=True, name=name):
            return partial(_read_special, type_, FORMS[name].to_json)
        case Message():
            return partial(_read_fields, type_)
        case scalar:
            return _SCALAR_READERS[scalar]


def _read_special(
    message: Message, to_json: Callable[[Json], Any], data: bytes, at: int, end: int, limits: _Limits
) -> Any:
    return to_json(_read_fields(message, data, at, end, limits))


def _read_string(data: bytes, at: int, end: int, _: _Limits) -> str:
    return data[at:end].decode()


def _read_bytes(data: bytes, at: int, end: int, _: _Limits) -> str:
    return base64.b64encode(data[at:end]).decode("ascii")


def _read_data(data: bytes, at: int, end: int, _: _Limits) -> bytes:
    return data[at:end]


def _read_json(data: bytes, at: int, end: int, limits: _Limits) -> Any:
    """Return the value of a JSON text, or the object of an embedded body."""
    text = data[at:end]
    if not text:
        return None
    if exceeds_values(text, limits.values):
        raise _too_many_values()
    if exceeds_depth(text):
        raise Malformed(f"exceeded max depth of {MAX_DEPTH}")
    return msgspec.json.decode(text)


def _read_double(data: bytes) -> int | float:
    """Return a number as Go writes it: without a fraction if it is whole."""
    (number,) = struct.unpack("<d", data)
    if not math.isfinite(number):
        raise Malformed(f"{number} has no form in JSON")
    return int(number) if number.is_integer() and abs(number) < 1e21 else number


def _read_int32(number: int) -> int:
    return ((number & 0xFFFFFFFF) ^ 0x80000000) - 0x80000000


def _read_int64(number: int) -> int:
    return (number ^ 1 << 63) - (1 << 63)


_SCALAR_READERS: Mapping[str, Any] = {
    "string": _read_string,
    "bytes": _read_bytes,
    "json": _read_json,
    "data": _read_data,
    "bool": bool,
    "int32": _read_int32,
    "int64": _read_int64,
    "double": _read_double,
}
