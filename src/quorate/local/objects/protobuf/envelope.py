"""Bodies in Kubernetes' protobuf format: four bytes, then an envelope with the kind and its message.

Objects are written with the bytes that Go writes for the same object.
"""

import base64
import struct
from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from quorate.api.codec import Json
from quorate.local.objects.protobuf.go_json import FORMS
from quorate.local.objects.protobuf.reader import read_message
from quorate.local.objects.protobuf.table import (
    BYTES,
    Field,
    FieldType,
    Malformed,
    Message,
    find_message,
    message_named,
    wire_type,
    write_varint,
)

Writer: TypeAlias = Callable[[Any], bytes]
TYPE_META = {"apiVersion", "kind"}
"""Fields that are in the envelope instead of the message, if the message does not have them."""
_MASK = (1 << 64) - 1


class Unwritable(Exception):
    """A JSON value has no form in protobuf: an unknown field, or a value of the wrong type."""


class _FieldWriter(NamedTuple):
    name: str
    write: Writer
    """returns tags and values"""
    absent: bytes
    """what is written if the field is not set"""


class _MessageWriter(NamedTuple):
    fields: tuple[_FieldWriter, ...]
    names: frozenset[str]


def write_message(message: Message, obj: Json) -> bytes:
    """Return a message.  Raises Unwritable."""
    fields, names = _message_writer(message)
    if not obj.keys() <= names:
        raise Unwritable(f"{message.full_name} has no field {min(obj.keys() - names)}")
    return _write_fields(fields, obj)


def _write_fields(fields: tuple[_FieldWriter, ...], obj: Json) -> bytes:
    parts: list[bytes] = []
    for name, write, absent in fields:
        value = obj.get(name) if name else obj
        if value is not None:
            parts.append(write(value))
        elif absent:
            parts.append(absent)
    return b"".join(parts)


@cache
def _message_writer(message: Message) -> _MessageWriter:
    fields = tuple(_field_writer(field) for field in message.fields)
    names = {field.name for field in message.fields if field.name}
    for field in message.fields:
        if not field.name:
            assert isinstance(field.type, Message)
            names |= _message_writer(field.type).names
    return _MessageWriter(fields, frozenset(names) | TYPE_META)


def _field_writer(field: Field) -> _FieldWriter:
    tag = write_varint(field.number << 3 | (BYTES if field.is_map else wire_type(field.type)))
    if field.is_map:
        return _FieldWriter(field.name, partial(_write_map, tag, _value_writer(b"\x12", field.type)), b"")
    if not field.name:
        assert isinstance(field.type, Message)
        inner = _message_writer(field.type).fields
        return _FieldWriter("", lambda obj: _sized(tag, _write_fields(inner, obj)), b"")
    write = _value_writer(tag, field.type)
    if field.is_list:
        return _FieldWriter(field.name, lambda values: b"".join(map(write, values)), b"")
    return _FieldWriter(field.name, write, _zero(tag, field) if field.is_single else b"")


def _zero(tag: bytes, field: Field) -> bytes:
    """Return what Go writes for a value that is not set."""
    match field.type:
        case "bytes" | "json":
            return b""
        case Message(is_special=True, name=("quantity" | "int-or-string") as name):
            return _value_writer(tag, field.type)({"quantity": "0", "int-or-string": 0}[name])
        case Message(is_special=True):
            return tag + b"\0"
        case Message():
            return _value_writer(tag, field.type)({})
        case scalar:
            return tag + (b"\0" * 8 if scalar == "double" else b"\0")


def _value_writer(tag: bytes, type_: FieldType) -> Writer:
    match type_:
        case Message(is_special=True, name=name):
            from_json = FORMS[name].from_json
            return lambda value: _sized(tag, _write_special(type_, from_json, value))
        case Message():
            return lambda obj: _sized(tag, write_message(type_, obj))
        case "string":
            return lambda text: _sized(tag, text.encode())
        case "bytes":
            return lambda text: _sized(tag, base64.b64decode(text))
        case "json":
            return lambda value: _sized(tag, msgspec.json.encode(value))
        case "data":
            return lambda data: _sized(tag, data)
        case "bool":
            return lambda value: tag + (b"\1" if value else b"\0")
        case "double":
            return lambda number: tag + struct.pack("<d", number)
        case _:
            return lambda number: tag + write_varint(number & _MASK)


def _write_special(message: Message, from_json: Callable[[Any], Json], value: Any) -> bytes:
    """Return a special message; null, in a list or map, is an empty one."""
    return b"" if value is None else write_message(message, from_json(value))


def _write_map(tag: bytes, write: Writer, entries: Mapping[str, Any]) -> bytes:
    return b"".join(
        _sized(tag, _sized(b"\x0a", key.encode()) + write(entries[key])) for key in sorted(entries)
    )


def _sized(tag: bytes, content: bytes) -> bytes:
    size = len(content)
    return tag + (_SIZES[size] if size < 128 else write_varint(size)) + content


_SIZES = [bytes([size]) for size in range(128)]


MAGIC: Final = b"k8s\0"
ENVELOPE: Final = "runtime.Unknown"


class Envelope(NamedTuple):
    api_version: str
    kind: str
    message: bytes

    def read(self) -> Json:
        """Return the object, with `apiVersion` and `kind`.  Raises Malformed."""
        message = find_message(self.api_version, self.kind)
        if message is None:
            raise Malformed(f"{self.kind} of {self.api_version} has no protobuf format")
        type_meta = {"apiVersion": self.api_version, "kind": self.kind}
        return type_meta | read_message(message, self.message)


def open_envelope(body: bytes) -> Envelope:
    """Return the content of a body without reading its message.  Raises Malformed."""
    if not body.startswith(MAGIC):
        raise Malformed(
            "provided data does not appear to be a protobuf message,"
            f" expected prefix [{' '.join(str(byte) for byte in MAGIC)}]"
        )
    fields = read_message(message_named(ENVELOPE), body[len(MAGIC) :])
    names = fields["typeMeta"]
    return Envelope(names.get("apiVersion", ""), names.get("kind", ""), fields.get("raw", b""))


def write_body(obj: Json) -> bytes:
    """Return the body of an object with `apiVersion` and `kind`; lists of it may be iterators.

    Raises Unwritable.
    """
    message = find_message(obj["apiVersion"], obj["kind"])
    if message is None:
        raise Unwritable(f"{obj['kind']} of {obj['apiVersion']} has no protobuf format")
    type_meta = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    fields = {"typeMeta": type_meta, "raw": write_message(message, obj)}
    return MAGIC + write_message(message_named(ENVELOPE), fields)


def write_watch_event(event: str, body: bytes) -> bytes:
    """Return one frame of a watch: its size in four bytes, then an event with the body of an object."""
    fields = {"type": event, "object": {"raw": body}}
    message = write_message(message_named("runtime.WatchEvent"), fields)
    return len(message).to_bytes(4, "big") + message
