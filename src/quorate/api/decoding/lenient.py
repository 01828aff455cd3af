"""Lenient decoding of documents that contain fields of other programs.

Unlike ``strict``, unknown fields and invalid arguments produce warnings: a Volcano file may contain fields
for other versions or for plugins that are not available here.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Final, TypeVar

from quorate.api.decoding.strict import Decoder, Field, InvalidValue, Section, section_as
from quorate.api.findings import quote_value
from quorate.api.suggestions import suggestion
from quorate.api.syntax import MAX_DURATION_S, InvalidDuration, parse_duration

T = TypeVar("T")
U = TypeVar("U")


class LenientSection(Section):
    """A mapping in which unknown fields produce warnings."""

    def close(self) -> None:
        names = sorted(self._known)
        for name in self.field.value:
            if name not in self._known:
                self.at(name).warn(f"is unknown and has no effect{suggestion(name, names)}")


class Arguments(LenientSection):
    """Free-form arguments; an invalid one keeps its default and produces a warning."""

    def take(self, name: str, decoder: Decoder[T], default: U) -> T | U:
        field = self.at(name)
        if field.value is None:
            return default
        try:
            return decoder(field)
        except InvalidValue as invalid:
            field.warn(f"{quote_value(field.value)} {invalid.rule}: the default is used")
            return default


def lenient_section(decode_fields: Callable[[LenientSection], T]) -> Decoder[T]:
    return section_as(LenientSection, "fields", decode_fields)


def arguments(decode_arguments: Callable[[Arguments], T]) -> Decoder[T]:
    """Return a decoder of arguments, which may be absent."""
    decode = section_as(Arguments, "arguments", decode_arguments)
    return lambda field: decode(Field(field.context, field.path, {} if field.value is None else field.value))


_BOOLEANS: Final = {"true": True, "false": False}
_MAX_INT32: Final = 2**31 - 1
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{1,20})?")


def lenient_boolean(field: Field) -> bool:
    """Decode a boolean, which may be quoted."""
    value = field.value
    if isinstance(value, str):
        value = _BOOLEANS.get(value.lower())
    if not isinstance(value, bool):
        raise InvalidValue("is not a boolean (write true or false)")
    return value


def non_negative_integer(field: Field) -> int:
    """Decode a non-negative integer, which may be quoted."""
    number = exact_number(field)
    if number.denominator != 1:
        raise InvalidValue("is not a whole number")
    if not 0 <= number <= _MAX_INT32:
        raise InvalidValue(f"is out of range, must be 0 to {_MAX_INT32}")
    return int(number)


def exact_number(field: Field) -> Fraction:
    """Decode a number exactly as written: ``1.2`` is 6/5."""
    value = field.value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidValue("is not a number")
    written = str(value)  # the shortest form of a float is the one in the file
    if isinstance(value, str) and not _DECIMAL.fullmatch(written):
        raise InvalidValue("is not a number")
    try:
        return Fraction(written)
    except ValueError as error:  # infinite or NaN
        raise InvalidValue("is not a number") from error


def duration_or_seconds(*, exclusive: bool = False) -> Decoder[float]:
    """Return a decoder of a duration in Go's syntax or in seconds; not zero if ``exclusive``."""

    def decode(field: Field) -> float:
        try:
            result = exact_number(field)
        except InvalidValue:
            result = Fraction(_duration(field))
        if result < 0 or (exclusive and result == 0):
            raise InvalidValue(f"is too short, must be {'more than' if exclusive else 'at least'} 0s")
        if result > MAX_DURATION_S:
            raise InvalidValue("is too long, must be at most 292 years")
        return float(result)

    return decode


def _duration(field: Field) -> float:
    try:
        return parse_duration(str(field.value))
    except InvalidDuration as error:
        raise InvalidValue("is not a duration (write 10m, 1h30m or a number of seconds)") from error
