"""Reading a document strictly: every field taken once, every mistake recorded, nothing skipped in silence.

A *reader* turns one value into what it means or raises ``Refused`` with the rule it breaks.  A ``Section``
hands the values of one mapping to readers, records refusals as findings with path and line, and at the end
reports the fields nobody asked for.  So one reading lists everything that is wrong.
"""

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, TypeVar

from quorate.api.decoding.documents import Document, InvalidYaml, read_documents
from quorate.api.findings import Finding, child, listed
from quorate.api.meta import LabelSelector, Requirement
from quorate.api.quantity import InvalidQuantity, Quantity, parse_quantity
from quorate.api.syntax import InvalidDuration, is_label_value, is_qualified_name, parse_duration

T = TypeVar("T")
U = TypeVar("U")


class Refused(ValueError):
    """A value breaks a rule; the text completes the sentence "path: value ..."."""

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule


class InvalidConfiguration(ValueError):
    """A configuration that is refused, with everything that is wrong with it."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(self.findings)

    def __str__(self) -> str:
        return listed(self.findings)


class Reading:
    """One document being read: what is wrong with it, and what is right but deserves a word."""

    __slots__ = ("document", "findings", "warnings")

    def __init__(self, document: Document) -> None:
        self.document = document
        self.findings: list[Finding] = list(document.findings)
        self.warnings: list[str] = []

    def root(self) -> "Place":
        return Place(self, "", self.document.value)


def reading_of(text: str, rule: str) -> Reading:
    """The one document of a configuration file; ``rule`` says what it must hold.

    Raises ``InvalidConfiguration`` for what is no YAML, or another number of documents.
    """
    try:
        documents = read_documents(text)
    except InvalidYaml as invalid:
        written = text.split("\n")[invalid.line - 1][:40]
        raise InvalidConfiguration([Finding("", written, invalid.problem, invalid.line)]) from invalid
    if len(documents) != 1:
        raise InvalidConfiguration([Finding("", text[:40], f"holds {len(documents)} documents, {rule}")])
    return Reading(documents[0])


class Place:
    """One value of a document and where it stands."""

    __slots__ = ("path", "reading", "value")

    def __init__(self, reading: Reading, path: str, value: Any) -> None:
        self.reading, self.path, self.value = reading, path, value

    def refuse(self, rule: str) -> None:
        """Record that this value breaks ``rule`` and go on."""
        line = self.reading.document.line_of(self.path)
        self.reading.findings.append(Finding(self.path, self.value, rule, line))

    def warn(self, remark: str) -> None:
        self.reading.warnings.append(f"{self.path}: {remark}")

    def read(self, reader: "Reader[T]", otherwise: U) -> T | U:
        """What ``reader`` makes of this value, or ``otherwise`` after recording why not."""
        try:
            return reader(self)
        except Refused as refusal:
            self.refuse(refusal.rule)
            return otherwise

    def items(self) -> "list[Place]":
        """The entries of a list."""
        return [Place(self.reading, f"{self.path}[{at}]", value) for at, value in enumerate(self.value)]

    def entry(self, key: str) -> "Place":
        """One entry of a mapping, null when absent."""
        return Place(self.reading, child(self.path, key), self.value.get(key))


Reader = Callable[[Place], T]


class Section:
    """One mapping: its fields are taken by name, null being the same as absent."""

    def __init__(self, place: Place) -> None:
        self.place = place
        # Fields somebody asked for; the others are unknown.
        self._known: set[str] = set()

    def __contains__(self, name: str) -> bool:
        """Whether the field is given with something other than null."""
        return self.place.value.get(name) is not None

    def at(self, name: str) -> Place:
        self._known.add(name)
        return self.place.entry(name)

    def take(self, name: str, reader: Reader[T], default: U) -> T | U:
        place = self.at(name)
        return default if place.value is None else place.read(reader, default)

    def gone(self, name: str, rule: str) -> None:
        """Refuse a field that other versions have, saying what to write instead."""
        if name in self:
            self.at(name).refuse(rule)
        self._known.add(name)

    def close(self) -> None:
        known = sorted(self._known)
        for name in self.place.value:
            if name not in self._known:
                near = get_close_matches(name, known, n=1)
                hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(known)}"
                self.at(name).refuse(f"stands in an unknown field ({hint})")


def section(read_fields: Callable[[Section], T]) -> Reader[T]:
    """A mapping whose fields ``read_fields`` takes."""

    def read(place: Place) -> T:
        if not isinstance(place.value, dict):
            raise Refused("is not a mapping of fields")
        fields = Section(place)
        result = read_fields(fields)
        fields.close()
        return result

    return read


def checked(readers: dict[str, Reader[Any]]) -> Reader[None]:
    """A mapping that is only checked: nothing keeps its values."""

    def read_fields(fields: Section) -> None:
        for name, reader in readers.items():
            fields.take(name, reader, None)

    return section(read_fields)


def list_of(reader: Reader[T | None], *, least: int = 0, most: int | None = None) -> Reader[tuple[T, ...]]:
    """A list; items that are refused are recorded and left out, and so are those that are None."""

    def read(place: Place) -> tuple[T, ...]:
        if not isinstance(place.value, list):
            raise Refused("is not a list")
        count = len(place.value)
        if count < least or (most is not None and count > most):
            raise Refused(f"has {count} entries, must have {_bounds(least, most)}")
        kept = (item.read(reader, None) for item in place.items())
        return tuple(item for item in kept if item is not None)

    return read


def map_of(reader: Reader[T], *, most: int | None = None) -> Reader[dict[str, T]]:
    """A mapping with free keys; values that are refused are recorded and left out."""

    def read(place: Place) -> dict[str, T]:
        if not isinstance(place.value, dict):
            raise Refused("is not a mapping")
        if most is not None and len(place.value) > most:
            raise Refused(f"has {len(place.value)} entries, must have {_bounds(0, most)}")
        entries = {key: place.entry(key).read(reader, None) for key in place.value}
        return {key: entry for key, entry in entries.items() if entry is not None}

    return read


def boolean(place: Place) -> bool:
    if not isinstance(place.value, bool):
        raise Refused("is not a boolean (write true or false)")
    return place.value


def text(place: Place) -> str:
    if not isinstance(place.value, str):
        raise Refused("is not text (put it in quotes)")
    return place.value


def integer(least: int = -(2**31), most: int = 2**31 - 1) -> Reader[int]:
    def read(place: Place) -> int:
        if not isinstance(place.value, int) or isinstance(place.value, bool):
            raise Refused("is not a whole number")
        if not least <= place.value <= most:
            raise Refused(f"is out of range, must be {_bounds(least, most)}")
        return place.value

    return read


def number(place: Place) -> float:
    if not isinstance(place.value, int | float) or isinstance(place.value, bool):
        raise Refused("is not a number")
    return float(place.value)


def duration(*, least_s: float = 0.0, above: bool = False) -> Reader[float]:
    """Seconds; at least ``least_s``, or more than that if ``above``."""

    def read(place: Place) -> float:
        try:
            seconds = parse_duration(text(place))
        except InvalidDuration as invalid:
            raise Refused("is not a duration (write 10m, 1h30m or 500ms)") from invalid
        if seconds < least_s or (above and seconds == least_s):
            raise Refused(f"is too short, must be {'more than' if above else 'at least'} {least_s:g}s")
        return seconds

    return read


def quantity(place: Place) -> Quantity:
    value = place.value
    try:
        # Fractions written without quotes arrive as floats, whose shortest form is what was written.
        return parse_quantity(str(value) if isinstance(value, float) else value)
    except InvalidQuantity as invalid:
        raise Refused("is not a quantity (write 4, 500m or 16Gi)") from invalid


def choice(options: tuple[T, ...]) -> Reader[T]:
    """One of some words, given as ``get_args`` of the Literal that lists them."""

    def read(place: Place) -> T:
        for option in options:
            if place.value == option:
                return option
        raise Refused(f"is not allowed here (write {' or '.join(map(str, options))})")

    return read


def shaped(fits: Callable[[str], bool], noun: str) -> Reader[str]:
    """Text that ``fits``, where ``noun`` says what that would be."""

    def read(place: Place) -> str:
        value = text(place)
        if not fits(value):
            raise Refused(f"is not {noun}")
        return value

    return read


def label_selector(place: Place) -> LabelSelector:
    return section(_label_selector)(place)


def _label_selector(fields: Section) -> LabelSelector:
    return LabelSelector(
        match_labels=fields.take("matchLabels", map_of(_label_value), {}),
        match_expressions=fields.take("matchExpressions", list_of(section(_requirement)), ()),
    )


def _requirement(fields: Section) -> Requirement:
    values = fields.take("values", list_of(_label_value), ())
    operator = fields.take("operator", choice(("In", "NotIn", "Exists", "DoesNotExist")), "")
    if "operator" not in fields:
        fields.at("operator").refuse("is missing (write In, NotIn, Exists or DoesNotExist)")
    elif operator in ("In", "NotIn") and not values:
        fields.at("values").refuse(f"must list a value for operator {operator}")
    elif operator in ("Exists", "DoesNotExist") and values:
        fields.at("values").refuse(f"must be empty for operator {operator}")
    if "key" not in fields:
        fields.at("key").refuse("is missing (write the key of a label)")
    key = fields.take("key", shaped(is_qualified_name, "the key of a label"), "")
    return Requirement(key=key, operator=operator, values=values)


_label_value: Reader[str] = shaped(is_label_value, "the value of a label")


def _bounds(least: int, most: int | None) -> str:
    if most is None:
        return f"at least {least}"
    if least == -(2**31) or least == most:
        return f"at most {most}"
    return f"at least {least}" if most >= 2**31 - 1 else f"{least} to {most}"
