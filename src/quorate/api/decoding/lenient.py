"""Reading mappings that belong to others too: what is unknown or unreadable is told, and does no harm.

``strict`` refuses such things.  Here they become warnings: a file of Volcano's says things that another
version, or a plugin that is not here, would read.
"""

import re
from collections.abc import Callable
from difflib import get_close_matches
from fractions import Fraction
from typing import Final, TypeVar

from quorate.api.decoding.strict import Place, Reader, Refused, Section
from quorate.api.findings import shown
from quorate.api.syntax import LONGEST_S, InvalidDuration, parse_duration

T = TypeVar("T")


class OpenSection(Section):
    """A mapping in which fields nobody asked for are left alone, with a warning."""

    def close(self) -> None:
        known = sorted(self._known)
        for name in self.place.value:
            if name not in self._known:
                near = get_close_matches(name, known, n=1)
                hint = f" (did you mean {near[0]}?)" if near else ""
                self.at(name).warn(f"is unknown here and changes nothing{hint}")


class Arguments(OpenSection):
    """Free-form arguments: one that cannot be read keeps its default, with a warning."""

    def value(self, name: str, reader: Reader[T], default: T) -> T:
        place = self.at(name)
        if place.value is None:
            return default
        try:
            return reader(place)
        except Refused as refusal:
            place.warn(f"{shown(place.value)} {refusal.rule}: the default holds")
            return default


def open_section(read_fields: Callable[[OpenSection], T]) -> Reader[T]:
    def read(place: Place) -> T:
        if not isinstance(place.value, dict):
            raise Refused("is not a mapping of fields")
        fields = OpenSection(place)
        result = read_fields(fields)
        fields.close()
        return result

    return read


def arguments(read_arguments: Callable[[Arguments], T]) -> Reader[T]:
    """The same for arguments, which may also be absent."""

    def read(place: Place) -> T:
        if place.value is not None and not isinstance(place.value, dict):
            raise Refused("is not a mapping of arguments")
        given = Arguments(Place(place.reading, place.path, place.value or {}))
        result = read_arguments(given)
        given.close()
        return result

    return read


_TRUTHS: Final = {"true": True, "false": False}
_LARGEST: Final = 2**31 - 1
_DECIMAL: Final = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{1,20})?")


def flag(place: Place) -> bool:
    """A boolean, as such or in quotes."""
    value = place.value
    if isinstance(value, str):
        value = _TRUTHS.get(value.lower())
    if not isinstance(value, bool):
        raise Refused("is not a boolean (write true or false)")
    return value


def whole(place: Place) -> int:
    """A number of 0 or more, as such or in quotes."""
    number = decimal(place)
    if number.denominator != 1:
        raise Refused("is not a whole number")
    if not 0 <= number <= _LARGEST:
        raise Refused(f"is out of range, must be 0 to {_LARGEST}")
    return int(number)


def decimal(place: Place) -> Fraction:
    """A number exactly as it is written: ``1.2`` is six fifths."""
    value = place.value
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Refused("is not a number")
    written = str(value)  # of a float the shortest form, which is what was written
    if isinstance(value, str) and not _DECIMAL.fullmatch(written):
        raise Refused("is not a number")
    try:
        return Fraction(written)
    except ValueError as error:  # infinite, or no number by its own account
        raise Refused("is not a number") from error


def seconds(*, above: bool = False) -> Reader[float]:
    """A duration in Go's syntax, or a plain number of seconds; more than nothing if ``above``."""

    def read(place: Place) -> float:
        try:
            result = decimal(place)
        except Refused:
            result = Fraction(_duration(place))
        if result < 0 or (above and result == 0):
            raise Refused(f"is too short, must be {'more than' if above else 'at least'} 0s")
        if result > LONGEST_S:
            raise Refused("is too long, must be at most 292 years")
        return float(result)

    return read


def _duration(place: Place) -> float:
    try:
        return parse_duration(str(place.value))
    except InvalidDuration as error:
        raise Refused("is not a duration (write 10m, 1h30m or a number of seconds)") from error
