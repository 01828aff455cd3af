"""Reading mappings that belong to others too: what is unknown or unreadable is told, and does no harm.

``strict`` refuses such things.  Here they become warnings: a file of Volcano's says things that another
version, or a plugin that is not here, would read.
"""

import re
from collections.abc import Callable
from difflib import get_close_matches
from fractions import Fraction
from typing import Final, TypeVar

from quorate.api.decoding.strict import Decoder, Field, InvalidValue, Section
from quorate.api.findings import quote_value
from quorate.api.syntax import LONGEST_S, InvalidDuration, parse_duration

T = TypeVar("T")


class LenientSection(Section):
    """A mapping in which fields nobody asked for are left alone, with a warning."""

    def close(self) -> None:
        known = sorted(self._known)
        for name in self.field.value:
            if name not in self._known:
                near = get_close_matches(name, known, n=1)
                hint = f" (did you mean {near[0]}?)" if near else ""
                self.at(name).warn(f"is unknown here and changes nothing{hint}")


class Arguments(LenientSection):
    """Free-form arguments: one that cannot be read keeps its default, with a warning."""

    def value(self, name: str, decoder: Decoder[T], default: T) -> T:
        field = self.at(name)
        if field.value is None:
            return default
        try:
            return decoder(field)
        except InvalidValue as refusal:
            field.warn(f"{quote_value(field.value)} {refusal.rule}: the default holds")
            return default


def lenient_section(read_fields: Callable[[LenientSection], T]) -> Decoder[T]:
    def read(field: Field) -> T:
        if not isinstance(field.value, dict):
            raise InvalidValue("is not a mapping of fields")
        fields = LenientSection(field)
        result = read_fields(fields)
        fields.close()
        return result

    return read


def arguments(read_arguments: Callable[[Arguments], T]) -> Decoder[T]:
    """The same for arguments, which may also be absent."""

    def read(field: Field) -> T:
        if field.value is not None and not isinstance(field.value, dict):
            raise InvalidValue("is not a mapping of arguments")
        given = Arguments(Field(field.context, field.path, field.value or {}))
        result = read_arguments(given)
        given.close()
        return result

    return read


_BOOLEANS: Final = {"true": True, "false": False}
_LARGEST: Final = 2**31 - 1
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{1,20})?")


def lenient_boolean(field: Field) -> bool:
    """A boolean, as such or in quotes."""
    value = field.value
    if isinstance(value, str):
        value = _BOOLEANS.get(value.lower())
    if not isinstance(value, bool):
        raise InvalidValue("is not a boolean (write true or false)")
    return value


def non_negative_integer(field: Field) -> int:
    """A number of 0 or more, as such or in quotes."""
    number = exact_number(field)
    if number.denominator != 1:
        raise InvalidValue("is not a whole number")
    if not 0 <= number <= _LARGEST:
        raise InvalidValue(f"is out of range, must be 0 to {_LARGEST}")
    return int(number)


def exact_number(field: Field) -> Fraction:
    """A number exactly as it is written: ``1.2`` is six fifths."""
    value = field.value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidValue("is not a number")
    written = str(value)  # of a float the shortest form, which is what was written
    if isinstance(value, str) and not _DECIMAL.fullmatch(written):
        raise InvalidValue("is not a number")
    try:
        return Fraction(written)
    except ValueError as error:  # infinite, or no number by its own account
        raise InvalidValue("is not a number") from error


def duration_or_seconds(*, exclusive: bool = False) -> Decoder[float]:
    """A duration in Go's syntax, or a plain number of seconds; more than nothing if ``exclusive``."""

    def read(field: Field) -> float:
        try:
            result = exact_number(field)
        except InvalidValue:
            result = Fraction(_duration(field))
        if result < 0 or (exclusive and result == 0):
            raise InvalidValue(f"is too short, must be {'more than' if exclusive else 'at least'} 0s")
        if result > LONGEST_S:
            raise InvalidValue("is too long, must be at most 292 years")
        return float(result)

    return read


def _duration(field: Field) -> float:
    try:
        return parse_duration(str(field.value))
    except InvalidDuration as error:
        raise InvalidValue("is not a duration (write 10m, 1h30m or a number of seconds)") from error
