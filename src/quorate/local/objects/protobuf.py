"""Decoding of Kubernetes' protobuf format, which Go clients such as `kubectl create` prefer.

A body consists of four magic bytes and an envelope, which names the kind and contains a message of that kind.
`protobuf_numbers.yaml` maps field numbers to names, and the schema types give the fields' types. Responses
are never in this format, because clients that send it also accept JSON.
"""

import base64
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.resources import files
from typing import Any, TypeAlias

import yaml

from quorate.local.objects.schema_types import Json, ListOf, MapOf, Scalar, Type, Untyped, builtin_type

MAGIC = b"k8s\x00"
_EPOCH = datetime.fromtimestamp(0, UTC)
_MAX_UINT64 = (1 << 64) - 1

Wire: TypeAlias = int | bytes
"""A field's value before its type is known: a varint or bytes, which are also numbers of fixed size."""


class Malformed(Exception):
    """The body is not a valid message of its kind."""


def read(body: bytes) -> Json:
    """Decode a body to an object with `apiVersion` and `kind`.  Raises Malformed."""
    if not body.startswith(MAGIC):
        raise Malformed("the body does not begin with the protobuf marker of Kubernetes")
    envelope = dict(fields(body[len(MAGIC) :]))
    names = dict(fields(as_bytes(envelope.get(1, b""))))
    api_version, name = as_text(names.get(1, b"")), as_text(names.get(2, b""))
    kind = builtin_type(api_version, name)
    if kind is None or kind.name not in _numbers():
        raise Malformed(f"{name} of {api_version} is not known in the protobuf format")
    return {"apiVersion": api_version, "kind": name} | _message(as_bytes(envelope.get(2, b"")), kind)


@cache
def _numbers() -> Mapping[str, Mapping[int, str]]:
    """Return field names by number, for each type."""
    text = files(__package__).joinpath("protobuf_numbers.yaml").read_text("utf-8")
    listed = yaml.load(text, Loader=yaml.CSafeLoader)
    return {kind: {number: name for name, number in fields.items()} for kind, fields in listed.items()}


def _message(data: bytes, kind: MapOf) -> Json:
    read: Json = {}
    names = _numbers().get(kind.name, {})
    for number, value in fields(data):
        name = names.get(number, "")
        match kind.fields.get(name):
            case None:
                continue
            case ListOf(item):
                read.setdefault(name, []).append(_value(value, item))
            case MapOf(name="", rest=rest) if rest is not None:
                key, inner = _entry(as_bytes(value))
                read.setdefault(name, {})[key] = _value(inner, rest)
            case declared:
                read[name] = _value(value, declared)
    return read


def _entry(data: bytes) -> tuple[str, Wire]:
    """Return one entry of a map: key is field 1, value is field 2."""
    entry = dict(fields(data))
    return as_text(entry.get(1, b"")), entry.get(2, b"")


def _value(value: Wire, kind: Type) -> Any:
    match kind:
        case MapOf():
            return _message(as_bytes(value), kind)
        case Scalar("string"):
            return as_text(value)
        case Scalar("bytes"):
            return base64.b64encode(as_bytes(value)).decode("ascii")
        case Scalar("boolean"):
            return bool(value)
        case Scalar("integer"):
            return _signed(value)
        case Scalar("quantity"):
            return as_text(dict(fields(as_bytes(value))).get(1, b""))
        case Scalar("time" | "micro-time"):
            return _time(as_bytes(value), with_fraction=kind.name == "micro-time")
        case Scalar("int-or-string"):
            parts = dict(fields(as_bytes(value)))
            return as_text(parts.get(3, b"")) if parts.get(1) else _signed(parts.get(2, 0))
        case Scalar() | ListOf() | Untyped():
            raise Malformed("a field of a type that no message has")


def _time(data: bytes, *, with_fraction: bool) -> str | None:
    """Return a time from seconds (1) and nanoseconds (2); None if both are absent.

    Like the original, a time without a fraction ignores the nanoseconds, and others may be any int32.
    """
    parts = dict(fields(data))
    if not parts:
        return None
    seconds, nanos = _signed(parts.get(1, 0)), _int32(parts.get(2, 0))
    micros = int(nanos / 1000) if with_fraction else 0
    try:
        return (_EPOCH + timedelta(seconds=seconds, microseconds=micros)).isoformat()
    except OverflowError as refusal:
        raise Malformed("a time that is not in the years 1 to 9999") from refusal


def fields(data: bytes) -> Iterator[tuple[int, Wire]]:
    """Yield the fields of a message in order, as number and value."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        match tag & 7:
            case 0:
                value, at = _varint(data, at)
                yield tag >> 3, value
            case 2:
                size, at = _varint(data, at)
                if at + size > len(data):
                    raise Malformed("a field is longer than its message")
                yield tag >> 3, data[at : at + size]
                at += size
            case 1:
                if at + 8 > len(data):
                    raise Malformed("a number is cut off")
                yield tag >> 3, data[at : at + 8]
                at += 8
            case other:
                raise Malformed(f"a field of wire type {other}")


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a varint (groups of seven bits, lowest first) and the offset after it."""
    number = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            raise Malformed("a number is cut off")
        number |= (data[at] & 127) << shift
        at += 1
        if data[at - 1] < 128:
            return number & _MAX_UINT64, at
    raise Malformed("a number of more than 64 bits")


def _signed(value: Wire) -> int:
    if not isinstance(value, int):
        raise Malformed("bytes where a number belongs")
    return value - (1 << 64) if value >> 63 else value


def _int32(value: Wire) -> int:
    return (_signed(value) + (1 << 31)) % (1 << 32) - (1 << 31)


def as_bytes(value: Wire) -> bytes:
    if not isinstance(value, bytes):
        raise Malformed("a number where bytes belong")
    return value


def as_text(value: Wire) -> str:
    try:
        return as_bytes(value).decode("utf-8")
    except UnicodeDecodeError as refusal:
        raise Malformed("a string that is not UTF-8") from refusal
