"""Protobuf's wire format, and Kubernetes' messages: numbers, names and types of fields, from `messages.txt`.

The table also says which fields Go writes although they are empty, in JSON and in protobuf, so that an object
is the same in both formats.
"""

from dataclasses import dataclass
from functools import cache, cached_property
from importlib.resources import files
from typing import Final, TypeAlias

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2

_MAX_UINT64 = (1 << 64) - 1


class Malformed(Exception):
    """The bytes are not a valid message of their kind."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}" if self.path else self.problem

    def inside(self, name: str) -> "Malformed":
        """Return the error with the name of the field that contains it."""
        self.path = ".".join(part for part in (name, self.path) if part)
        return self


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """Return a number (groups of seven bits, lowest first) and the offset after it.

    Raises Malformed for more than 64 bits, IndexError at the end of the data.
    """
    number = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number & _MAX_UINT64, at
    raise Malformed("a number of more than 64 bits")


def write_varint(number: int) -> bytes:
    """Return a number in groups of seven bits, lowest first."""
    groups = bytearray()
    while number > 127:
        groups.append(number & 127 | 128)
        number >>= 7
    groups.append(number)
    return bytes(groups)


SCALARS: Final = frozenset({"string", "bytes", "bool", "int32", "int64", "double", "json", "data"})
_WIRE_TYPES = {"bool": VARINT, "int32": VARINT, "int64": VARINT, "double": FIXED64}
SPECIAL: Final = "special"
"""The package of messages with a JSON form that is not an object of their fields (see ``go_json``)."""


@dataclass(eq=False)
class Message:
    """A message with its fields in ascending order of numbers."""

    package: str
    name: str
    notation: str

    @property
    def full_name(self) -> str:
        return f"{self.package}.{self.name}"

    @property
    def is_special(self) -> bool:
        return self.package == SPECIAL

    @cached_property
    def fields(self) -> tuple["Field", ...]:
        return tuple(_parse_field(notation, self.package) for notation in self.notation.split())


FieldType: TypeAlias = str | Message
"""A name of SCALARS, or a message."""


def wire_type(type_: FieldType) -> int:
    """Return the wire type of a value: VARINT, FIXED64 or BYTES."""
    return _WIRE_TYPES.get(type_, BYTES) if isinstance(type_, str) else BYTES


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message; `messages.txt` documents the notation of its attributes."""

    number: int
    name: str
    """in JSON; empty if the message's fields are fields of the owner in JSON"""
    type: FieldType
    is_list: bool
    is_map: bool
    is_pointer: bool
    is_required: bool
    omits_zero: bool

    @property
    def is_single(self) -> bool:
        """True for a value that Go always has: no list, map or pointer."""
        return not (self.is_list or self.is_map or self.is_pointer)


def find_message(api_version: str, kind: str) -> Message | None:
    """Return the message of a kind, or None if the kind has no protobuf format.

    Kinds of `meta.k8s.io`, such as DeleteOptions and Status, belong to every group.
    """
    messages, packages = _table()
    package = packages.get(api_version)
    if package is None:
        return None
    return messages.get(f"{package}.{kind}") or messages.get(f"meta.{kind}")


def message_named(full_name: str) -> Message:
    """Return a message by package and name.  Raises KeyError."""
    return _table()[0][full_name]


@cache
def _table() -> tuple[dict[str, Message], dict[str, str]]:
    """Return the messages by full name, and the packages by API version."""
    messages: dict[str, Message] = {}
    packages: dict[str, str] = {}
    package = ""
    for line in files(__package__).joinpath("messages.txt").read_text("utf-8").split("\n"):
        indent = len(line) - len(line.lstrip())
        if line.startswith("package "):
            _, package, *api_versions = line.split()
            packages |= dict.fromkeys(api_versions, package)
        elif indent == 2:
            name, _, notation = line.strip().partition(" ")
            message = messages[f"{package}.{name}"] = Message(package, name, notation)
        elif indent:
            message.notation += line
    return messages, packages


def _parse_field(notation: str, package: str) -> Field:
    name, number, *more = notation.rstrip("?!~").split(":")
    flags = notation[len(notation.rstrip("?!~")) :]
    type_name = "".join(more) or "string"
    bare = type_name.removeprefix("[]").removeprefix("{}")
    return Field(
        int(number),
        name if name != "+" else "",
        _field_type(bare, package),
        type_name.startswith("[]"),
        type_name.startswith("{}"),
        "?" in flags,
        "!" in flags,
        "~" in flags,
    )


def _field_type(name: str, package: str) -> FieldType:
    if name in SCALARS:
        return name
    if name[0].islower() and "." not in name:
        return message_named(f"{SPECIAL}.{name}")
    return message_named(name if "." in name else f"{package}.{name}")
