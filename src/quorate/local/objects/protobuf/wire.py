"""Protobuf's wire format: types of fields, numbers of variable size, and what is malformed."""

from typing import Final

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
