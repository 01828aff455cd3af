"""Kubernetes resource quantities, exact.

A quantity is an integer number of nano-units, the smallest unit that the API stores. No float is involved and
sums never round. The form of the text (``Mi``, ``M`` or ``e6``) does not affect comparisons; it is kept only
for formatting.

Source: the grammar and the canonical form documented with ``resource.Quantity`` in k8s.io/apimachinery.
Unlike the original, which caps at 2^63-1, quantities here have no upper bound.
"""

import re
from enum import Enum
from functools import lru_cache, total_ordering
from typing import Final

NANOS: Final = 10**9


class Form(Enum):
    """The notation of a quantity."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class InvalidQuantity(ValueError):
    """The value is not a quantity; the caller adds the path of the field."""

    def __init__(self, value: object) -> None:
        super().__init__(value)
        self.value = value

    def __str__(self) -> str:
        return f"{self.value!r:.60} is not a quantity (write 4, 500m or 16Gi)"


_GRAMMAR: Final = re.compile(
    r"(?P<sign>[+-]?)(?P<whole>[0-9]*)(?:\.(?P<fraction>[0-9]*))?"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?"
)
_BINARY: Final = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}  # powers of 1024
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY_SUFFIX: Final = {power: suffix for suffix, power in _BINARY.items()} | {0: ""}
_DECIMAL_SUFFIX: Final = {power: suffix for suffix, power in _DECIMAL.items()}
# A hostile exponent such as 1e999999999 must not become a gigabyte of digits.
_MAX_EXPONENT: Final = 100
_MAX_TEXT_LENGTH: Final = 400  # Python itself limits integers in text to 4300 digits


@total_ordering
class Quantity:
    """An exact amount.  Quantities with equal amounts are equal: ``1`` equals ``1000m``."""

    __slots__ = ("form", "nanos")

    nanos: int
    form: Form

    def __init__(self, nanos: int, form: Form = Form.DECIMAL_SI) -> None:
        self.nanos = nanos
        self.form = form

    @classmethod
    def of_units(cls, units: int, form: Form = Form.DECIMAL_SI) -> "Quantity":
        return cls(units * NANOS, form)

    @classmethod
    def of_milli(cls, milli: int) -> "Quantity":
        return cls(milli * (NANOS // 1000))

    @property
    def units(self) -> int:
        """Return whole units, rounded up: 1500m of memory is 2 bytes."""
        return -(-self.nanos // NANOS)

    @property
    def milli(self) -> int:
        """Return thousandths, rounded up: the base unit of cpu."""
        return -(-self.nanos * 1000 // NANOS)

    def __eq__(self, other: object) -> bool:
        return self.nanos == other.nanos if isinstance(other, Quantity) else NotImplemented

    def __lt__(self, other: "Quantity") -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    def __add__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos + other.nanos, self.form)

    def __sub__(self, other: "Quantity") -> "Quantity":
        return Quantity(self.nanos - other.nanos, self.form)

    def __mul__(self, factor: int) -> "Quantity":
        return Quantity(self.nanos * factor, self.form)

    def __bool__(self) -> bool:
        return self.nanos != 0

    def __repr__(self) -> str:
        return f"Quantity({str(self)!r})"

    def __str__(self) -> str:
        """Return the canonical form: no fraction, and the largest suffix that is exact."""
        if self.nanos == 0:
            return "0"
        match self.form:
            case Form.BINARY_SI if abs(self.nanos) >= 1024 * NANOS and self.nanos % NANOS == 0:
                mantissa, power = _strip(self.nanos // NANOS, 1024, limit=6)
                return f"{mantissa}{_BINARY_SUFFIX[power]}"
            case Form.DECIMAL_EXPONENT:
                mantissa, power = _strip(self.nanos, 1000, limit=None)
                exponent = 3 * power - 9
                return f"{mantissa}e{exponent}" if exponent else str(mantissa)
            case _:
                mantissa, power = _strip(self.nanos, 1000, limit=9)
                return f"{mantissa}{_DECIMAL_SUFFIX[3 * power - 9]}"


def _strip(amount: int, base: int, limit: int | None) -> tuple[int, int]:
    """Return mantissa and power of ``base``, with the largest exact power up to ``limit``."""
    power = 0
    while (limit is None or power < limit) and amount % base == 0:
        amount //= base
        power += 1
    return amount, power


def parse_quantity(value: str | int) -> Quantity:
    """Parse any form that the API accepts: ``1``, ``100m``, ``0.1``, ``8429Mi``, ``-1Ei``.

    Amounts below one nano-unit are rounded away from zero, as in the API, so that a positive request never
    becomes zero. Raises ``InvalidQuantity``.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return Quantity.of_units(value)
    if not isinstance(value, str):
        raise InvalidQuantity(value)
    return _parse(value)


@lru_cache(maxsize=4096)
def _parse(text: str) -> Quantity:
    match = _GRAMMAR.fullmatch(text) if len(text) <= _MAX_TEXT_LENGTH else None
    if match is None or not (match["whole"] or match["fraction"]):
        raise InvalidQuantity(text)
    fraction, suffix = match["fraction"] or "", match["suffix"] or ""
    digits = int(match["whole"] + fraction)
    if match["sign"] == "-":
        digits = -digits
    if suffix in _BINARY:
        numerator, shift, form = digits * 1024 ** _BINARY[suffix], 0, Form.BINARY_SI
    elif suffix in _DECIMAL:
        numerator, shift, form = digits, _DECIMAL[suffix], Form.DECIMAL_SI
    else:
        numerator, shift, form = digits, int(suffix[1:]), Form.DECIMAL_EXPONENT
        if abs(shift) > _MAX_EXPONENT:
            raise InvalidQuantity(text)
    power = shift - len(fraction) + 9
    if power >= 0:
        return Quantity(numerator * 10**power, form)
    quotient, rest = divmod(abs(numerator), 10**-power)
    nanos = quotient + (1 if rest else 0)
    return Quantity(nanos if numerator >= 0 else -nanos, form)
