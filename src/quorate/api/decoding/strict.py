"""Strict decoding of documents: every field is decoded once, and every mistake is a finding.

A ``Decoder`` returns the meaning of one value or raises ``InvalidValue`` with the rule that it violates. A
``Section`` passes the values of a mapping to decoders, records violations as findings with path and line, and
finally reports unknown fields. So one pass finds all mistakes.
"""

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from msgspec import UNSET, UnsetType

from quorate.api.decoding.documents import Document, InvalidYaml, read_documents
from quorate.api.findings import Finding, child_path, format_findings
from quorate.api.meta import LabelSelector, SelectorRequirement
from quorate.api.quantity import InvalidQuantity, Quantity, parse_quantity
from quorate.api.syntax import InvalidDuration, is_label_value, is_qualified_name, parse_duration

T = TypeVar("T")
U = TypeVar("U")

MAX_NUMBER: Final = 1e300  # also refuses infinities and NaN


class InvalidValue(ValueError):
    """A value violates a rule; the text completes the sentence "path: value ..."."""

    def __init__(self, rule: str) -> None:
        super().__init__(rule)
        self.rule = rule


class InvalidConfiguration(ValueError):
    """A configuration is rejected, with all findings."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(self.findings)

    def __str__(self) -> str:
        return format_findings(self.findings)


class DecodeContext:
    """The document being decoded, with the findings and warnings so far."""

    __slots__ = ("document", "findings", "warnings")

    def __init__(self, document: Document) -> None:
        self.document = document
        self.findings: list[Finding] = list(document.findings)
        self.warnings: list[str] = []

    def root(self) -> "Field":
        return Field(self, "", self.document.value)


def decode_context(text: str, rule: str) -> DecodeContext:
    """Parse the single document of a configuration file; ``rule`` says what it must contain.

    Raises ``InvalidConfiguration`` if the text is not YAML, or has another number of documents.
    """
    try:
        documents = read_documents(text)
    except InvalidYaml as invalid:
        written = text.split("\n")[invalid.line - 1][:40]
        raise InvalidConfiguration([Finding("", written, invalid.problem, invalid.line)]) from invalid
    if len(documents) != 1:
        raise InvalidConfiguration([Finding("", text[:40], f"contains {len(documents)} documents, {rule}")])
    return DecodeContext(documents[0])


class Field:
    """One value of a document, with its path."""

    __slots__ = ("context", "path", "value")

    def __init__(self, context: DecodeContext, path: str, value: Any) -> None:
        self.context, self.path, self.value = context, path, value

    def reject(self, rule: str) -> None:
        """Record that this value violates ``rule``."""
        line = self.context.document.line_of(self.path)
        self.context.findings.append(Finding(self.path, self.value, rule, line))

    def warn(self, remark: str) -> None:
        self.context.warnings.append(f"{self.path}: {remark}")

    def decode(self, decoder: "Decoder[T]", fallback: U) -> T | U:
        """Return the decoded value, or ``fallback`` after recording a finding."""
        try:
            return decoder(self)
        except InvalidValue as invalid:
            self.reject(invalid.rule)
            return fallback

    def items(self) -> "list[Field]":
        """Return the entries of a list."""
        return [Field(self.context, f"{self.path}[{at}]", value) for at, value in enumerate(self.value)]

    def entry(self, key: str) -> "Field":
        """Return an entry of a mapping; its value is None if absent."""
        return Field(self.context, child_path(self.path, key), self.value.get(key))


Decoder = Callable[[Field], T]


class Section:
    """A mapping with fields that are decoded by name; null means absent."""

    def __init__(self, field: Field) -> None:
        self.field = field
        # Names of fields that were decoded or rejected; all other fields are unknown.
        self._known: set[str] = set()

    def __contains__(self, name: str) -> bool:
        """Return True if the field is present and not null."""
        return self.field.value.get(name) is not None

    def at(self, name: str) -> Field:
        self._known.add(name)
        return self.field.entry(name)

    def take(self, name: str, decoder: Decoder[T], default: U) -> T | U:
        field = self.at(name)
        return default if field.value is None else field.decode(decoder, default)

    def take_set(self, name: str, decoder: Decoder[T], default: U) -> T | U:
        """Like ``take``, but an empty text, an empty list and ``0s`` are absent values, too."""
        value = self.take(name, if_set(decoder), default)
        return default if isinstance(value, UnsetType) else value

    def require(self, *names: str, hint: str = "") -> None:
        """Reject each field that is absent; ``hint`` says what to write."""
        for name in names:
            if name not in self:
                self.at(name).reject(f"is missing ({hint})" if hint else "is missing")

    def reject_if_present(self, name: str, rule: str) -> None:
        """Reject a field of another version, and say what to write instead."""
        if name in self:
            self.at(name).reject(rule)
        self._known.add(name)

    def close(self) -> None:
        names = sorted(self._known)
        for name in self.field.value:
            if name not in self._known:
                near = get_close_matches(name, names, n=1)
                hint = f"did you mean {near[0]}?" if near else f"known here: {', '.join(names)}"
                self.at(name).reject(f"is in an unknown field ({hint})")


S = TypeVar("S", bound=Section)

_NO_TIME: Final = re.compile(r"(?:0+(?:ns|us|µs|ms|s|m|h))*")


def _is_zero(value: object) -> bool:
    return value == [] or (isinstance(value, str) and _NO_TIME.fullmatch(value) is not None)


def section(decode_fields: Callable[[Section], T]) -> Decoder[T]:
    """Return a decoder of a mapping; ``decode_fields`` decodes its fields."""
    return section_as(Section, "fields", decode_fields)


def section_as(type_: type[S], noun: str, decode_fields: Callable[[S], T]) -> Decoder[T]:
    """Return a decoder of a mapping of what ``noun`` says; ``decode_fields`` gets it as a ``type_``."""

    def decode(field: Field) -> T:
        if not isinstance(field.value, dict):
            raise InvalidValue(f"is not a mapping of {noun}")
        fields = type_(field)
        result = decode_fields(fields)
        fields.close()
        return result

    return decode


def struct_of(type_: type[T], **decoders: tuple[str, Decoder[Any]]) -> Callable[[Section], T]:
    """Return a function that decodes the fields of a mapping into a struct.

    ``decoders`` has, for each attribute of the struct, the name of its field and the decoder of its value. An
    attribute keeps its default in the struct if the field is absent or invalid.
    """

    def decode_fields(fields: Section) -> T:
        values = {key: fields.take(name, decoder, UNSET) for key, (name, decoder) in decoders.items()}
        return type_(**{key: value for key, value in values.items() if value is not UNSET})

    return decode_fields


def if_set(decoder: Decoder[T]) -> Decoder[T | UnsetType]:
    """Return a decoder that returns ``UNSET`` for an empty text, an empty list and ``0s``.

    A program in Go that marshals Kueue's types writes these values for fields that are not set.
    """
    return lambda field: UNSET if _is_zero(field.value) else decoder(field)


def ignored_section(readers: dict[str, Decoder[Any]]) -> Decoder[None]:
    """Return a decoder of a mapping that is validated and ignored."""

    def decode_fields(fields: Section) -> None:
        for name, decoder in readers.items():
            fields.take(name, decoder, None)

    return section(decode_fields)


def list_of(
    decoder: Decoder[T | None], *, minimum: int = 0, maximum: int | None = None
) -> Decoder[tuple[T, ...]]:
    """Return a decoder of a list, which omits invalid items and items decoded to None."""

    def decode(field: Field) -> tuple[T, ...]:
        if not isinstance(field.value, list):
            raise InvalidValue("is not a list")
        count = len(field.value)
        if count < minimum or (maximum is not None and count > maximum):
            raise InvalidValue(f"has {count} entries, must have {_range_text(minimum, maximum)}")
        kept = (item.decode(decoder, None) for item in field.items())
        return tuple(item for item in kept if item is not None)

    return decode


def distinct(decoder: Decoder[tuple[T, ...]]) -> Decoder[tuple[T, ...]]:
    """Return a decoder of a list that omits repeated items."""
    return lambda field: tuple(dict.fromkeys(decoder(field)))


def map_of(decoder: Decoder[T]) -> Decoder[dict[str, T]]:
    """Return a decoder of a mapping with arbitrary keys, which omits invalid values."""

    def decode(field: Field) -> dict[str, T]:
        if not isinstance(field.value, dict):
            raise InvalidValue("is not a mapping")
        entries = {key: field.entry(key).decode(decoder, None) for key in field.value}
        return {key: entry for key, entry in entries.items() if entry is not None}

    return decode


def boolean(field: Field) -> bool:
    if not isinstance(field.value, bool):
        raise InvalidValue("is not a boolean (write true or false)")
    return field.value


def text(field: Field) -> str:
    if not isinstance(field.value, str):
        raise InvalidValue("is not text (put it in quotes)")
    return field.value


def integer(minimum: int = -(2**31), maximum: int = 2**31 - 1) -> Decoder[int]:
    def decode(field: Field) -> int:
        if not isinstance(field.value, int) or isinstance(field.value, bool):
            raise InvalidValue("is not a whole number")
        if not minimum <= field.value <= maximum:
            raise InvalidValue(f"is out of range, must be {_range_text(minimum, maximum)}")
        return field.value

    return decode


def number(field: Field) -> float:
    if not isinstance(field.value, int | float) or isinstance(field.value, bool):
        raise InvalidValue("is not a number")
    if not -MAX_NUMBER <= field.value <= MAX_NUMBER:
        raise InvalidValue("is not a number of at most 1e300")
    return float(field.value)


def duration(*, minimum_s: float = 0.0, exclusive: bool = False) -> Decoder[float]:
    """Return a decoder of a duration in seconds with a minimum.

    If ``exclusive``, the duration must exceed the minimum.
    """

    def decode(field: Field) -> float:
        try:
            seconds = parse_duration(text(field))
        except InvalidDuration as invalid:
            raise InvalidValue("is not a duration (write 10m, 1h30m or 500ms)") from invalid
        if seconds < minimum_s or (exclusive and seconds == minimum_s):
            raise InvalidValue(
                f"is too short, must be {'more than' if exclusive else 'at least'} {minimum_s:g}s"
            )
        return seconds

    return decode


def quantity(field: Field) -> Quantity:
    value = field.value
    try:
        # Unquoted fractions arrive as floats; the shortest form of the float is the one in the file.
        return parse_quantity(str(value) if isinstance(value, float) else value)
    except InvalidQuantity as invalid:
        raise InvalidValue("is not a quantity (write 4, 500m or 16Gi)") from invalid


def choice(options: tuple[T, ...]) -> Decoder[T]:
    """Return a decoder that accepts one of ``options``, given as ``get_args`` of a Literal."""

    def decode(field: Field) -> T:
        for option in options:
            if field.value == option:
                return option
        raise InvalidValue(f"is not allowed here (write {' or '.join(map(str, options))})")

    return decode


def off_or(options: tuple[T, ...], off: T) -> Decoder[T]:
    """Return a decoder that accepts one of ``options``; YAML reads the option ``off`` as the value false."""
    decode = choice(options)
    return lambda field: off if field.value is False else decode(field)


def satisfying(decoder: Decoder[T], fits: Callable[[T], bool], rule: str) -> Decoder[T]:
    """Return a decoder of values that satisfy ``fits``; ``rule`` says what any other value is."""

    def decode(field: Field) -> T:
        value = decoder(field)
        if not fits(value):
            raise InvalidValue(rule)
        return value

    return decode


def text_matching(fits: Callable[[str], bool], noun: str) -> Decoder[str]:
    """Return a decoder of text that satisfies ``fits``; ``noun`` describes such text."""
    return satisfying(text, fits, f"is not {noun}")


def label_selector(field: Field) -> LabelSelector:
    return section(_label_selector)(field)


def _label_selector(fields: Section) -> LabelSelector:
    return LabelSelector(
        match_labels=fields.take("matchLabels", labels, {}),
        match_expressions=fields.take("matchExpressions", list_of(section(_requirement)), ()),
    )


def labels(field: Field) -> dict[str, str]:
    """Decode labels by key; reject an entry if its key or its value is not permitted in a label."""
    values = map_of(label_value)(field)
    for key in values:
        if not is_qualified_name(key):
            field.entry(key).reject("is not under the key of a label (write name or example.com/name)")
    return values


def _requirement(fields: Section) -> SelectorRequirement:
    values = fields.take("values", list_of(label_value), ())
    operator = fields.take("operator", choice(("In", "NotIn", "Exists", "DoesNotExist")), "")
    fields.require("operator", hint="write In, NotIn, Exists or DoesNotExist")
    if operator in ("In", "NotIn") and not values:
        fields.at("values").reject(f"must list a value for operator {operator}")
    elif operator in ("Exists", "DoesNotExist") and values:
        fields.at("values").reject(f"must be empty for operator {operator}")
    fields.require("key", hint="write the key of a label")
    key = fields.take("key", text_matching(is_qualified_name, "the key of a label"), "")
    return SelectorRequirement(key=key, operator=operator, values=values)


label_value: Decoder[str] = text_matching(
    is_label_value, "the value of a label (at most 63 letters, digits, '-', '_' or '.')"
)


def _range_text(minimum: int, maximum: int | None) -> str:
    if maximum is None:
        return f"at least {minimum}"
    if minimum == -(2**31) or minimum == maximum:
        return f"at most {maximum}"
    return f"at least {minimum}" if maximum >= 2**31 - 1 else f"{minimum} to {maximum}"
