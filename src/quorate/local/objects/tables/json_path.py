"""JSONPath as client-go's ``util/jsonpath`` reads it, for printer columns.

.spec.size   .metadata.labels.a\\.b   .list[-1:].type   .list[?(@.type=="Ready")].status   ..name   .list[0,2]
.list[*].name   .map['key']

A dot within a name needs a backslash, also in quotes: ``['a.b']`` is ``.a.b``.  Knowingly missing, as they
are for templates: ``range`` and ``end`` select nothing, and what follows a closing brace is ignored.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, TypeAlias

MAX_VALUES: Final = 10_000
"""How many values one evaluation may select, intermediate ones included: about a millisecond."""


class Unreadable(Exception):
    """A path does not fit an object, such as an index out of bounds.

    ``selected``: what client-go returns with the error; a filter without operator counts it as existing.
    """

    def __init__(self, reason: str, selected: Sequence[Any] = ()) -> None:
        super().__init__(reason)
        self.selected = selected


@dataclass(slots=True)
class Budget:
    """The number of values that an evaluation may still select."""

    left: int = MAX_VALUES

    def spend(self, values: list[Any]) -> list[Any]:
        self.left -= len(values) + 1
        if self.left < 0:
            raise Unreadable(f"more than {MAX_VALUES} values")
        return values


Step: TypeAlias = Callable[[list[Any], Budget], list[Any]]


def compile_path(path: str) -> Callable[[Any], list[Any]]:
    """Return a function that finds all values at a path, in order; none if the path does not fit.

    Raises ValueError for text that is not a JSONPath.
    """
    find = _Parser(path).parse()

    def values_at(value: Any) -> list[Any]:
        try:
            return find([value], Budget())
        except Unreadable:
            return []

    return values_at


_FIELD = re.compile(r"(?:\\.|[^\\ \t\r\n.,\[\]$@{}])*", re.DOTALL)
_IDENTIFIER = re.compile(r"[^ \t\r\n.,\[\]$@{}]+")
_NUMBER = re.compile(r"[+-]?[\d.]*", re.ASCII)
_QUOTED = re.compile(r"""(?P<quote>['"])(?P<text>(?:[^\n](?<!(?P=quote))|(?<=\\)(?P=quote))*)(?P=quote)""")
_ESCAPE = re.compile(r"""\\(?:x(..)|u(....)|U(........)|(.?))""", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "\\": "\\"}
_SLICE = re.compile(r"(-?\d*)(:-?\d*)?(:-?\d*)?", re.ASCII)
_OPERATORS: Mapping[str, Callable[[Any, Any], bool]] = {
    "==": eq, "!=": ne, "<": lt, "<=": le, ">": gt, ">=": ge,
}  # fmt: skip
_COMPARISON = re.compile(r"([^!<>=]+)([!<>=]+)(.+)")


class _Parser:
    """Reads one path from left to right."""

    def __init__(self, path: str) -> None:
        self._path, self._at = path, 0

    def parse(self) -> Step:
        steps: list[Step] = []
        while self._at < len(self._path) and not self._starts_with("}"):
            steps += self._steps(steps[-1] if steps else None)
        return partial(_in_sequence, steps)

    def _steps(self, previous: Step | None) -> list[Step]:
        """Return the steps of the next token."""
        if self._starts_with("[?("):
            return [self._filter()]
        if self._starts_with(".."):
            if previous is _descend:
                raise self._invalid("multiple recursive descent")
            self._at += 2
            following = self._path[self._at : self._at + 1]
            return [_descend, *([self._field()] if following.isalnum() or following == "_" else ())]
        character = self._path[self._at]
        match character:
            case " " | "@" | "$":
                self._at += 1
                return []
            case "[":
                return self._array()
            case "'" | '"':
                return [partial(_text, self._quoted())]
            case ".":
                self._at += 1
                return [self._field()]
            case "+" | "-" | _ if character in "+-0123456789":
                return [partial(_constant, self._number())]
            case _ if character.isalnum() or character == "_":
                return [self._identifier()]
        raise self._invalid(f"unrecognized character {character!r}")

    def _starts_with(self, text: str) -> bool:
        return self._path.startswith(text, self._at)

    def _invalid(self, reason: str) -> ValueError:
        return ValueError(f"{self._path}: not a JSONPath from character {self._at}: {reason}")

    def _take(self, pattern: re.Pattern[str]) -> re.Match[str]:
        match = pattern.match(self._path, self._at)
        if match is None:
            raise self._invalid("unterminated")
        self._at = match.end()
        return match

    def _field(self) -> Step:
        name = self._take(_FIELD)[0]
        return _every if name == "*" else partial(_member, name.replace("\\", ""))

    def _identifier(self) -> Step:
        name = self._take(_IDENTIFIER)[0]
        return partial(_constant, name == "true") if name in ("true", "false") else _unreadable

    def _number(self) -> int | float:
        text = self._take(_NUMBER)[0]
        try:
            number = float(text)
            return int(text) if "." not in text and abs(number) < 1 << 63 else number
        except ValueError:
            raise self._invalid(f"{text} is not a number") from None

    def _quoted(self) -> str:
        match = self._take(_QUOTED)

        def character(escape: re.Match[str]) -> str:
            digits = escape[1] or escape[2] or escape[3]
            if digits:
                return chr(int(digits, 16))
            if escape[4] == match["quote"]:
                return match["quote"]
            return _ESCAPED[escape[4]]

        try:
            return _ESCAPE.sub(character, match["text"])
        except (KeyError, ValueError, OverflowError):
            raise self._invalid(f"the escapes in {match[0]}") from None

    def _array(self) -> list[Step]:
        start, end = self._at + 1, self._path.find("]", self._at)
        text = self._path[start:end]
        if end < 0 or "\n" in text:
            raise self._invalid("unterminated array")
        self._at = end + 1
        if "," in text:
            return [partial(_union, [_Parser(f"[{part.strip(' ')}]").parse() for part in text.split(",")])]
        if text[:1] == text[-1:] == "'" and text.count("'") == 2:
            return [_Parser(f".{text[1:-1]}").parse()]
        return [partial(_items, self._slice(":" if text == "*" else text))]

    def _slice(self, text: str) -> "_Slice":
        match = _SLICE.fullmatch(text)
        if match is None:
            raise self._invalid(f"array index [{text}]")
        try:
            start, stop, step = (
                int(part.removeprefix(":")) if part.strip(":") else None for part in match.groups("")
            )
        except ValueError:
            raise self._invalid(f"array index [{text}]") from None
        if match[2]:
            return _Slice(start or 0, stop, step)
        return _Slice(start or 0, (start or 0) + 1, step, is_index=True)

    def _filter(self) -> Step:
        start, self._at = self._at + 3, self._at + 3
        quote, closed = "", False
        while True:
            character = self._path[self._at : self._at + 1]
            self._at += 1
            if character in ("", "\n"):
                raise self._invalid("unterminated filter")
            if character in "'\"" and not quote:
                quote = character
            elif character == quote and self._path[self._at - 2] != "\\":
                closed = True
            elif character == ")" and bool(quote) == closed:
                break
        text = self._path[start : self._at - 1]
        if not self._starts_with("]"):
            raise self._invalid("unclosed filter")
        self._at += 1
        comparison = _COMPARISON.fullmatch(text)
        if comparison is None:
            return partial(_filter, partial(_exists, _Parser(text).parse()))
        left, operator, right = comparison.groups()
        return partial(_filter, partial(_compare, _Parser(left).parse(), operator, _Parser(right).parse()))


def _in_sequence(steps: Sequence[Step], values: list[Any], budget: Budget) -> list[Any]:
    for step in steps:
        values = budget.spend(step(values, budget))
    return values


def _constant(constant: Any, values: list[Any], _: Budget) -> list[Any]:
    return [constant for _ in values]


def _text(text: str, _values: list[Any], _: Budget) -> list[Any]:
    return [text]


def _unreadable(values: list[Any], _: Budget) -> list[Any]:
    raise Unreadable("an identifier", values)


def _member(name: str, values: list[Any], _: Budget) -> list[Any]:
    return [value[name] for value in values if isinstance(value, dict) and name in value]


def _children(value: Any) -> list[Any]:
    match value:
        case dict():
            return list(value.values())
        case list():
            return value
        case str():  # its bytes, as in Go
            return list(value[: MAX_VALUES + 1].encode())
    return []


def _every(values: list[Any], _: Budget) -> list[Any]:
    return [child for value in values for child in _children(value)]


def _descend(values: list[Any], budget: Budget) -> list[Any]:
    """Return the values and all values in them, each before its parts, without numbers and empty values."""
    selected, left = [], values[::-1]
    while left:
        value = left.pop()
        if children := _children(value):
            selected.append(value)
            left += budget.spend(children)[::-1]
    return selected


def _union(parts: Sequence[Step], values: list[Any], budget: Budget) -> list[Any]:
    try:
        return [value for part in parts for value in budget.spend(part(values, budget))]
    except Unreadable as error:
        raise Unreadable(str(error), values) from error


@dataclass(frozen=True, slots=True)
class _Slice:
    """The bounds of a slice; None is the length of the list, and the step 1."""

    start: int
    stop: int | None
    step: int | None
    is_index: bool = False

    def of(self, items: list[Any]) -> list[Any] | None:
        """Return the items; None if the slice is empty.  Raises Unreadable for bounds outside of the list."""
        length = len(items)
        start = self.start + length if self.start < 0 else self.start
        stop = length if self.stop is None else self.stop
        if stop < 0 or (stop == 0 and self.is_index):
            stop += length
        if start == stop:
            return None
        if (
            not 0 <= start < length
            or not start < stop <= length
            or (self.step is not None and self.step <= 0)
        ):
            raise Unreadable(f"{self} of {length} items")
        return items[start : stop : self.step or 1]


def _items(bounds: _Slice, values: list[Any], _: Budget) -> list[Any]:
    selected: list[Any] = []
    for value in values:
        if value is None:
            continue
        if not isinstance(value, list):
            raise Unreadable("not a list", values)
        try:
            items = bounds.of(value)
        except Unreadable as error:
            raise Unreadable(str(error), values) from error
        if items is None:
            return selected  # client-go ends here, also if other lists follow
        selected += items
    return selected


def _filter(keeps: Callable[[Any, Budget], bool], values: list[Any], budget: Budget) -> list[Any]:
    selected: list[Any] = []
    for value in values:
        if not isinstance(value, list):
            raise Unreadable("not a list", values)
        selected += (item for item in budget.spend(value) if keeps(item, budget))
    return selected


def _exists(path: Step, item: Any, budget: Budget) -> bool:
    try:
        return bool(path([item], budget))
    except Unreadable as error:
        return bool(error.selected)


def _compare(left: Step, operator: str, right: Step, item: Any, budget: Budget) -> bool:
    lefts = left([item], budget)
    rights = right([item], budget) if len(lefts) == 1 else []
    if not lefts or (len(lefts) == 1 and not rights):
        return False
    if len(lefts) > 1 or len(rights) > 1:
        raise Unreadable("a comparison of several values", [item])
    first, second = lefts[0], rights[0]
    compared = (bool, int, float, str) if operator in ("==", "!=") else (int, float, str)
    if type(first) is not type(second) or type(first) not in compared:
        raise Unreadable(f"a comparison of {first!r} and {second!r}", [item])
    if operator not in _OPERATORS:
        raise Unreadable(f"the operator {operator}", [item])
    return _OPERATORS[operator](first, second)
