"""Conversion between JSON and typed objects, including quantities."""

import math
from collections.abc import Mapping
from contextvars import ContextVar
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from quorate.api.quantity import InvalidQuantity, Quantity, parse_quantity, parse_text

T = TypeVar("T")
Json = dict[str, Any]

MAX_QUANTITIES: Final = 8192
"""Quantities of one object.

The largest objects in use have hundreds; a cluster queue with quotas and limits of 16 resources in 64 flavors
has 7,168 with its status.  As each is a Python object, 40,000 different ones in an object of the largest size
would hold the event loop for 0.1 s, whatever reads it.
"""

TOO_MANY_QUANTITIES: Final = f"more than {MAX_QUANTITIES} quantities, which are not read"
NESTED_TOO_DEEPLY: Final = "Nested too deeply: a few hundred levels can be read"


_ANYTHING: Final[Any] = Any  # a type to decode as


class _Number(float):
    """A JSON number with a fraction or exponent, and its original text.

    A quantity is parsed exactly from the text. Without a declared type the value behaves as a float and is
    encoded with its original text.
    """

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> "_Number":
        number = super().__new__(cls, text)
        number.text = text
        return number


class _Allowance:
    """How many more quantities the decoding in progress reads."""

    __slots__ = ("quantities",)

    def __init__(self, quantities: float) -> None:
        self.quantities = quantities


_allowance: Final[ContextVar[_Allowance]] = ContextVar("allowance")  # large objects are decoded in threads


def _decode_hook(type_: type[Any], value: Any) -> Any:
    if type_ is Quantity:
        allowance = _allowance.get()
        allowance.quantities -= 1
        if allowance.quantities < 0:
            raise ValueError(TOO_MANY_QUANTITIES)
        if type(value) is str:  # nearly all
            return parse_text(value)
        if isinstance(value, _Number):
            return parse_text(value.text)
        if not isinstance(value, int):
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


MAX_PROBLEM: Final = 1024  # characters of the text of an error


@cache
def _decoder(type_: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(type_, dec_hook=_decode_hook, float_hook=_Number)


_encoder = msgspec.json.Encoder(enc_hook=_encode_hook)
_sorting_encoder = msgspec.json.Encoder(enc_hook=_encode_hook, order="sorted")


def decode(type_: type[T], data: bytes | str | msgspec.Raw) -> T:
    """Decode JSON as an object of ``type_`` and skip fields that the type does not declare.

    Raises ``msgspec.ValidationError`` (wrong type or shape, with the path, nested too deeply, or more than
    ``MAX_QUANTITIES``) or ``msgspec.DecodeError`` (not JSON).
    """
    try:
        return decode_as_given(type_, data)
    except msgspec.ValidationError as error:
        if TOO_MANY_QUANTITIES in str(error) or not has_nulls(data):
            raise
        return decode_as_given(type_, json_without_nulls(data))


def decode_any_quantities(type_: type[T], data: bytes | str | msgspec.Raw) -> T:
    """Decode like ``decode``, but as many quantities as there are: for threads beside an event loop."""
    return decode_as_given(type_, json_without_nulls(data) if has_nulls(data) else data, math.inf)


def decode_as_given(
    type_: type[T], data: bytes | str | msgspec.Raw, most_quantities: float = MAX_QUANTITIES
) -> T:
    """Decode like ``decode``, but do not take a null field as absent: that is an error of its type."""
    hashable: Any = type_
    decoder: msgspec.json.Decoder[T] = _decoder(hashable)
    outer = _allowance.set(_Allowance(most_quantities))  # a decoding may call this one, to intern a field
    try:
        return decoder.decode(data)
    except msgspec.ValidationError as error:
        text = str(error)
        if len(text) <= MAX_PROBLEM:
            raise
        raise msgspec.ValidationError(shortened(text)) from None
    except RecursionError as error:
        raise msgspec.ValidationError(NESTED_TOO_DEEPLY) from error
    finally:
        _allowance.reset(outer)


def shortened(problem: str) -> str:
    """Return the text of an error without its middle if it is long: it may quote what a client wrote.

    The place in the object is at its end.
    """
    if len(problem) <= MAX_PROBLEM:
        return problem
    return f"{problem[: MAX_PROBLEM // 2]}… {problem[-MAX_PROBLEM // 2 :]}"


def has_nulls(data: bytes | str | msgspec.Raw) -> bool:
    """Return False if a JSON text has no null, without decoding it; a text in it may say so too."""
    return "null" in data if isinstance(data, str) else b"null" in bytes(data)


def json_without_nulls(data: bytes | str | msgspec.Raw) -> bytes:
    """Return a JSON text without the fields that are null.

    The API treats null and absent alike, and some servers and clients write null for an empty map or list.
    Handling it here keeps ``None`` out of the struct types.  Raises like ``decode``.
    """
    return encode_without_nulls(decode_as_given(_ANYTHING, data))


def encode_without_nulls(document: object) -> bytes:
    """Encode a decoded document without the fields that are null.  Raises like ``decode``."""
    try:
        return encode(without_nulls(document))
    except RecursionError as error:
        raise msgspec.ValidationError(NESTED_TOO_DEEPLY) from error


def without_nulls(value: Any) -> Any:
    """Return decoded JSON without the fields that are null."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value


def convert(type_: type[T], value: object) -> T:
    """Decode ``value`` (dicts, lists and scalars, as from YAML) as an object of ``type_``."""
    return decode(type_, encode(value))


def encode(value: object) -> bytes:
    """Encode an object as JSON."""
    return _encoder.encode(value)


def encode_sorted(value: object) -> bytes:
    """Encode an object as JSON with the keys of all maps in order."""
    return _sorting_encoder.encode(value)


def to_builtins(value: object) -> Any:
    """Return an object as dicts, lists and scalars, as in its JSON form."""
    return msgspec.json.decode(encode(value))
