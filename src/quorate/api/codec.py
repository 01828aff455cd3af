"""JSON to typed objects and back: the one place that knows how a quantity travels."""

from collections.abc import Mapping
from functools import cache
from typing import Any, TypeVar

import msgspec

from quorate.api.quantity import InvalidQuantity, Quantity, parse_quantity

T = TypeVar("T")


class _Number(float):
    """A JSON number with a fraction or exponent, and how it was written: a quantity reads its digits exactly.

    Where no type says what a number is, it is a float to whoever reads it and goes out as it came in.
    """

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> "_Number":
        number = super().__new__(cls, text)
        number.text = text
        return number


def _decode_hook(type_: type[Any], value: Any) -> Any:
    if type_ is Quantity:
        if isinstance(value, _Number):
            return parse_quantity(value.text)
        if not isinstance(value, str | int):
            raise InvalidQuantity(value)
        return parse_quantity(value)
    raise NotImplementedError(type_)


def _encode_hook(value: Any) -> Any:
    if isinstance(value, Quantity):
        return str(value)
    if isinstance(value, _Number):
        return msgspec.Raw(value.text.encode())
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(type(value))


@cache
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_, dec_hook=_decode_hook, float_hook=_Number)


_encoder = msgspec.json.Encoder(enc_hook=_encode_hook)


def decode(type_: type[T], data: bytes | str | msgspec.Raw) -> T:
    """JSON as an object of ``type_``; fields the type does not name are skipped.

    Raises ``msgspec.ValidationError`` (a wrong shape, with its path) or ``msgspec.DecodeError`` (no JSON).
    """
    hashable: Any = type_
    decoder: msgspec.json.Decoder[T] = _decoder(hashable)
    try:
        return decoder.decode(data)
    except msgspec.ValidationError:
        present = _without_nulls(_decoder(Any).decode(data))
    return decoder.decode(encode(present))


def _without_nulls(value: Any) -> Any:
    """``value`` without the fields that are null.

    To the API null and absent are one; some servers and clients write null for an empty map or list.  Types
    that allowed for it everywhere would burden every reader for the sake of a few objects.
    """
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def convert(type_: type[T], value: object) -> T:
    """The same for JSON that was read already, as YAML gives it."""
    return decode(type_, encode(value))


def encode(value: object) -> bytes:
    """An object as JSON."""
    return _encoder.encode(value)


def to_builtins(value: object) -> Any:
    """An object as dicts, lists and scalars, as JSON would show it."""
    return msgspec.json.decode(encode(value))
