"""Label and field selectors of list and watch requests."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from quorate.local.objects.errors import bad_request
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.storage.store import Entry

Requirement = Callable[[Mapping[str, str]], bool]

_TOKEN = re.compile(r"\s*(==|!=|=|!|<|>|\(|\)|,|[^\s=!<>(),]+)")


@dataclass(frozen=True, slots=True)
class Selector:
    """Parsed label and field requirements; without any, every object matches."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()
    kind: Kind | None = None

    def matches(self, entry: Entry) -> bool:
        if not all(required(entry.labels) for required in self.labels):
            return False
        if not self.fields:
            return True
        assert self.kind is not None
        values = field_values(self.kind, entry)
        return all(required(values) for required in self.fields)


def parse(kind: Kind, labels: str, fields: str) -> Selector:
    """Parse selectors.

    Raises StatusError(400) for a syntax error or a field that the kind does not support.
    """
    return Selector(tuple(_label_requirements(labels)), tuple(_field_requirements(kind, fields)), kind)


def field_values(kind: Kind, entry: Entry) -> dict[str, str]:
    """Return the selectable fields of an object as strings."""
    values = {"metadata.name": entry.key.name}
    if kind.namespaced:
        values["metadata.namespace"] = entry.key.namespace
    if kind.selectable_fields:
        obj = entry.decode()
        values |= {
            label: _field_text(_field_at(obj, label), absent)
            for label, absent in kind.selectable_fields.items()
        }
    return values


def _field_at(value: Any, path: str) -> Any:
    for part in path.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _field_text(value: Any, absent: str) -> str:
    match value:
        case None:
            return absent
        case bool():
            return str(value).lower()
        case _:
            return str(value)


def _field_requirements(kind: Kind, text: str) -> Iterator[Requirement]:
    for term in filter(None, text.split(",")):
        match = re.fullmatch(r"([^=!]*)(==|!=|=)(.*)", term)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        label, operator, value = match.groups()
        supported = [
            "metadata.name",
            *(["metadata.namespace"] if kind.namespaced else []),
            *kind.selectable_fields,
        ]
        if label not in supported:
            if kind.selectable_fields:
                raise bad_request(f"field label not supported: {label}")
            offered = 'only "metadata.name", "metadata.namespace"'
            raise bad_request(f'"{label}" is not a known field selector: {offered}')
        equal = operator != "!="
        yield lambda values, label=label, value=value, equal=equal: (values[label] == value) is equal  # type: ignore[misc]


class _Lexer:
    """The tokens of a label selector, with one token of lookahead."""

    def __init__(self, text: str) -> None:
        self._words = _TOKEN.findall(text)
        self._next = 0

    def peek(self) -> str:
        return self._words[self._next] if self._next < len(self._words) else ""

    def take(self) -> str:
        word = self.peek()
        self._next += 1
        return word

    def expect(self, *expected: str) -> str:
        word = self.take()
        if word not in expected:
            raise bad_request(f"unable to parse requirement: found '{word}', expected: {', '.join(expected)}")
        return word


def _label_requirements(text: str) -> Iterator[Requirement]:
    tokens = _Lexer(text)
    while tokens.peek():
        yield _requirement(tokens)
        if tokens.peek():
            tokens.expect(",")


def _requirement(tokens: _Lexer) -> Requirement:
    """Parse ``a``, ``!a``, ``a=b``, ``a!=b``, ``a in (b,c)``, ``a notin (b)`` or ``a>1``."""
    absent = tokens.peek() == "!"
    if absent:
        tokens.take()
    key = _label_key(tokens.take())
    if absent:
        return lambda labels: key not in labels
    match tokens.peek():
        case "" | ",":
            return lambda labels: key in labels
        case "=" | "==":
            tokens.take()
            value = _value(tokens)
            return lambda labels: labels.get(key) == value
        case "!=":
            tokens.take()
            value = _value(tokens)
            return lambda labels: labels.get(key) != value
        case "in":
            tokens.take()
            values = _value_set(tokens)
            return lambda labels: labels.get(key) in values
        case "notin":
            tokens.take()
            values = _value_set(tokens)
            return lambda labels: labels.get(key) not in values
        case ">" | "<" as operator:
            tokens.take()
            return _integer_requirement(key, operator, _value(tokens))
        case other:
            expected = "in, notin, =, ==, !=, gt, lt"
            raise bad_request(f"unable to parse requirement: found '{other}', expected: {expected}")


def _integer_requirement(key: str, operator: str, text: str) -> Requirement:
    if not re.fullmatch(r"[+-]?\d+", text):
        raise bad_request(
            f'unable to parse requirement: values[0][{key}]: Invalid value: "{text}": '
            "for 'Gt', 'Lt' operators, the value must be an integer"
        )
    bound = int(text)

    def holds(labels: Mapping[str, str]) -> bool:
        number = labels.get(key, "")
        if not re.fullmatch(r"[+-]?\d+", number):
            return False
        return int(number) > bound if operator == ">" else int(number) < bound

    return holds


LABEL_KEY = re.compile(r"(?:[a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")


def _label_key(word: str) -> str:
    if not LABEL_KEY.fullmatch(word) or len(word.rpartition("/")[2]) > 63:
        raise bad_request(
            f'unable to parse requirement: <nil>: Invalid value: "{word}": name part must consist of '
            "alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
            "character"
        )
    return word


def _value(tokens: _Lexer) -> str:
    if tokens.peek() in ("", ","):
        return ""
    return _label_value(tokens.take())


def _label_value(word: str) -> str:
    if not LABEL_VALUE.fullmatch(word) or len(word) > 63:
        raise bad_request(
            f'unable to parse requirement: values[0]: Invalid value: "{word}": a valid label must be '
            "an empty string or consist of alphanumeric characters, '-', '_' or '.'"
        )
    return word


def _value_set(tokens: _Lexer) -> frozenset[str]:
    tokens.expect("(")
    values = {_value(tokens)} if tokens.peek() != ")" else {""}
    while tokens.peek() == ",":
        tokens.take()
        values.add(_value(tokens) if tokens.peek() != ")" else "")
    tokens.expect(")")
    return frozenset(values)
