"""The syntax tree of a compiled CEL expression, from the runtime's serialized form.

The form is the message `cel.expr.CheckedExpr` of CEL's specification (`checked.proto` and `syntax.proto`),
inside a `google.protobuf.Any`. Macros are expanded: `all`, `map` and their like are comprehensions.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from cel_expr_python import cel

from quorate.local.objects.protobuf.wire import as_bytes, as_text, fields


@dataclass(frozen=True, slots=True, eq=False)
class Literal:
    type: str
    length: int
    """characters of a string, bytes of bytes, otherwise 1"""
    value: str | int | None = None
    """of a string or an int"""


@dataclass(frozen=True, slots=True, eq=False)
class Identifier:
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Select:
    operand: "Node"
    field: str
    is_presence_test: bool
    """whether it is `has(operand.field)`"""


@dataclass(frozen=True, slots=True, eq=False)
class FunctionCall:
    function: str
    target: "Node | None"
    arguments: tuple["Node", ...]


@dataclass(frozen=True, slots=True, eq=False)
class ListOfItems:
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True, eq=False)
class MapOfEntries:
    entries: tuple[tuple["Node", "Node"], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Comprehension:
    """A fold of `step` over `source`; the accumulator begins as `initial`."""

    variable: str
    source: "Node"
    accumulator: str
    initial: "Node"
    condition: "Node"
    step: "Node"
    result: "Node"


Node: TypeAlias = Literal | Identifier | Select | FunctionCall | ListOfItems | MapOfEntries | Comprehension


class UnknownSyntax(Exception):
    """The expression has a part that this module does not read, such as a message."""


def syntax_tree(program: cel.Expression) -> Node:
    """Return the tree of a compiled expression.  Raises UnknownSyntax."""
    checked = dict(fields(as_bytes(dict(fields(program.serialize()))[2])))
    return _node(as_bytes(checked[4]))


_LITERAL_TYPES = {1: "null_type", 2: "bool", 3: "int", 4: "uint", 5: "double", 6: "string", 7: "bytes"}


def _node(data: bytes) -> Node:
    for number, value in fields(data):
        if number in _READERS:
            return _READERS[number](as_bytes(value))
        if number > 2:  # 2 is the identity of the node
            raise UnknownSyntax(f"expression of kind {number}")
    raise UnknownSyntax("an empty expression")


_LITERAL_TYPES = {1: "null_type", 2: "bool", 3: "int", 4: "uint", 5: "double", 6: "string", 7: "bytes"}


def _literal(data: bytes) -> Literal:
    for number, value in fields(data):
        kind = _LITERAL_TYPES.get(number)
        if kind == "string":
            text = as_text(value)
            return Literal(kind, len(text), text)
        if kind == "bytes":
            return Literal(kind, len(as_bytes(value)))
        if kind is not None:
            return Literal(kind, 1, value if kind == "int" and isinstance(value, int) else None)
    raise UnknownSyntax("a constant of another type")


def _identifier(data: bytes) -> Identifier:
    return Identifier(as_text(dict(fields(data))[1]).removeprefix("."))


def _select(data: bytes) -> Select:
    parts = dict(fields(data))
    return Select(_node(as_bytes(parts[1])), as_text(parts[2]), bool(parts.get(3)))


def _call(data: bytes) -> FunctionCall:
    parts = dict(fields(data))
    target = _node(as_bytes(parts[1])) if 1 in parts else None
    return FunctionCall(as_text(parts[2]), target, tuple(map(_node, _repeated(data, 3))))


def _list(data: bytes) -> ListOfItems:
    return ListOfItems(tuple(map(_node, _repeated(data, 1))))


def _map(data: bytes) -> MapOfEntries:
    if 1 in dict(fields(data)):
        raise UnknownSyntax("a message")
    entries = [dict(fields(entry)) for entry in _repeated(data, 2)]
    return MapOfEntries(tuple((_node(as_bytes(entry[3])), _node(as_bytes(entry[4]))) for entry in entries))


def _comprehension(data: bytes) -> Comprehension:
    parts = dict(fields(data))
    if parts.get(8):
        raise UnknownSyntax("a comprehension with two variables")
    source, initial, condition, step, result = (_node(as_bytes(parts[each])) for each in (2, 4, 5, 6, 7))
    return Comprehension(as_text(parts[1]), source, as_text(parts[3]), initial, condition, step, result)


def _repeated(data: bytes, wanted: int) -> Iterator[bytes]:
    return (as_bytes(value) for number, value in fields(data) if number == wanted)


_READERS: dict[int, Callable[[bytes], Node]] = {
    3: _literal,
    4: _identifier,
    5: _select,
    6: _call,
    7: _list,
    8: _map,
    9: _comprehension,
}
