"""Label and field selectors of list and watch requests."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from quorate.local.objects.errors import bad_request
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.registry.validation import formats
from quorate.local.server.storage.store import Entry

Requirement = Callable[[Mapping[str, str]], bool]

_TERM = re.compile(r"(?:[^,\\]|\\.)+")  # of a field selector, in which a backslash escapes , = and itself
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
    values = {"metadata.name": entry.key.name, "metadata.namespace": entry.key.namespace}
    if kind.selectable_fields:
        obj = entry.decode()
        values |= {
            label: _field_text(_first_at(obj, kind.field_paths.get(label, (label,))), absent)
            for label, absent in kind.selectable_fields.items()
        }
    return values


def _first_at(value: Any, paths: Iterable[str]) -> Any:
    return next(filter(None, (_field_at(value, path) for path in paths)), None)


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
    for term in _TERM.findall(text):
        match = re.fullmatch(r"((?:[^=!\\]|\\.)*)(==|!=|=)(.*)", term)
        if match is None:
            raise bad_request(f"invalid selector: '{text}'; can't understand '{term}'")
        label, operator, value = match.groups()
        value = re.sub(r"\\(.)", r"\1", value)
        supported = [
            "metadata.name",
            *(["metadata.namespace"] if kind.namespaced or not kind.selectable_fields else []),
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

    @property
    def is_identifier(self) -> bool:
        """Return True if the next token is a key or a value."""
        return self.peek() not in ("", ",", "(", ")", "=", "==", "!=", "!", "<", ">")


def _label_requirements(text: str) -> Iterator[Requirement]:
    tokens = _Lexer(text)
    while word := tokens.peek():
        if word != "!" and not tokens.is_identifier:
            raise bad_request(f"found '{word}', expected: !, identifier, or 'end of string'")
        yield _requirement(tokens)
        separator = tokens.take()
        if separator not in ("", ","):
            raise bad_request(f"found '{separator}', expected: ',' or 'end of string'")
        if separator and tokens.peek() != "!" and not tokens.is_identifier:
            raise bad_request(f"found '{tokens.peek()}', expected: identifier after ','")


def _requirement(tokens: _Lexer) -> Requirement:
    """Parse ``a``, ``!a``, ``a=b``, ``a!=b``, ``a in (b,c)``, ``a notin (b)`` or ``a>1``."""
    absent = tokens.peek() == "!"
    if absent:
        tokens.take()
    if not tokens.is_identifier:
        raise bad_request(f"unable to parse requirement: found '{tokens.peek()}', expected: identifier")
    key = _label_key(tokens.take())
    if absent:
        return lambda labels: key not in labels
    match tokens.peek():
        case "" | ",":
            return lambda labels: key in labels
        case "=" | "==":
            tokens.take()
            value = _value(tokens, key)
            return lambda labels: labels.get(key) == value
        case "!=":
            tokens.take()
            value = _value(tokens, key)
            return lambda labels: labels.get(key) != value
        case "in":
            tokens.take()
            values = _value_set(tokens, key)
            return lambda labels: labels.get(key) in values
        case "notin":
            tokens.take()
            values = _value_set(tokens, key)
            return lambda labels: labels.get(key) not in values
        case ">" | "<" as operator:
            tokens.take()
            return _integer_requirement(key, operator, _value(tokens, key))
        case other:
            expected = "in, notin, =, ==, !=, gt, lt"
            raise bad_request(f"unable to parse requirement: found '{other}', expected: {expected}")


def _integer_requirement(key: str, operator: str, text: str) -> Requirement:
    if not re.fullmatch(r"[+-]?\d+", text):
        raise bad_request(
            f'unable to parse requirement: values[0]: Invalid value: "{text}": '
            "for 'Gt', 'Lt' operators, the value must be an integer"
        )
    bound = int(text)

    def holds(labels: Mapping[str, str]) -> bool:
        number = labels.get(key, "")
        if not re.fullmatch(r"[+-]?\d+", number):
            return False
        return int(number) > bound if operator == ">" else int(number) < bound

    return holds


def _label_key(word: str) -> str:
    for problem in formats.qualified(word):
        raise bad_request(f'unable to parse requirement: <nil>: Invalid value: "{word}": {problem}')
    return word


def _value(tokens: _Lexer, key: str, index: int = 0) -> str:
    if tokens.peek() in ("", ","):
        return ""
    word = tokens.take()
    for problem in formats.label_value(word):
        where = f"values[{index}][{key}]"
        raise bad_request(f'unable to parse requirement: {where}: Invalid value: "{word}": {problem}')
    return word


def _value_set(tokens: _Lexer, key: str) -> frozenset[str]:
    if (word := tokens.take()) != "(":
        raise bad_request(f"unable to parse requirement: found '{word}' expected: '('")
    values = [_value(tokens, key) if tokens.peek() != ")" else ""]
    while tokens.peek() == ",":
        tokens.take()
        values.append(_value(tokens, key, len(values)) if tokens.peek() != ")" else "")
    if (word := tokens.take()) != ")":
        raise bad_request(f"unable to parse requirement: found '{word}', expected: ',' or ')'")
    return frozenset(values)
