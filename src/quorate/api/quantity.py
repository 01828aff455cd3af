"""Kubernetes resource quantities, exact.

A quantity is an integer number of nano-units, the smallest unit that the API stores. No float is involved and
sums never round. The form of the text (``Mi``, ``M`` or ``e6``) does not affect comparisons; it is kept only
for formatting.

A quantity is at most ``LARGEST`` and at least ``-LARGEST``: an amount beyond that is read as the bound, and
so is a sum. The bound is far above what any node, quota or 64-bit number holds, so that a request that is too
large for every node is also too large here, and small enough for exact products and for floats. Amounts in
base units (``quota.amount``) have no bound.

Source: the grammar, the rounding and the canonical form of ``resource.Quantity`` in k8s.io/apimachinery. It
limits only amounts in powers of 1024, to 2^63-1 units, and so does parsing here. Where it overflows 64 bits
when it converts a larger decimal amount to an integer, nothing overflows here.
"""

import re
from enum import StrEnum
from functools import lru_cache, total_ordering
from typing import Final, NamedTuple

NANOS: Final = 10**9
PODS: Final = "pods"  # the resource that queues count themselves: pods must not request it


class Form(StrEnum):
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
_UNITS: Final = {suffix: 10 ** (power + 9) for suffix, power in _DECIMAL.items()} | {
    suffix: 1024**power * NANOS for suffix, power in _BINARY.items()
}  # in nano-units
_BINARY_SUFFIX: Final = {power: suffix for suffix, power in _BINARY.items()} | {0: ""}
_DECIMAL_SUFFIX: Final = {power: suffix for suffix, power in _DECIMAL.items()}

# The texts that are read without their parts: an object may have thousands of different ones.
_SHORT: Final = re.compile(
    r"([0-9]{1,18})(?:\.([0-9]{0,9}))?(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?[0-9]{1,2}))?", re.ASCII
)

# White space that a JSON text may contain unescaped: the original trims the text before it is unescaped.
SPACES: Final = (
    " \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)

_MAX_DIGITS: Final = 100
LARGEST: Final = 10**_MAX_DIGITS * NANOS  # in nano-units
_MAX_BINARY: Final = (2**63 - 1) * NANOS
# A multiple of a power of 1024 nano-units has at most this many decimals.
_BINARY_DECIMALS: Final = 80
_MAX_CACHED_LENGTH: Final = 64
_MAX_EXPONENT_DIGITS: Final = 19  # of an int64


@total_ordering
class Quantity:
    """An exact amount.  Quantities with equal amounts are equal: ``1`` equals ``1000m``."""

    __slots__ = ("form", "nanos")

    nanos: int
    form: Form

    def __init__(self, nanos: int, form: Form = Form.DECIMAL_SI) -> None:
        self.nanos = nanos if -LARGEST <= nanos <= LARGEST else LARGEST if nanos > 0 else -LARGEST
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
        return _canonical(self.nanos, self.form)


@lru_cache(maxsize=4096)
def _canonical(nanos: int, form: Form) -> str:
    if nanos == 0:
        return "0"
    match form:
        # Beyond 2^63-1 units a binary text would be read as a smaller amount.
        case Form.BINARY_SI if 1024 * NANOS <= abs(nanos) <= _MAX_BINARY and nanos % NANOS == 0:
            mantissa, power = _strip(nanos // NANOS, 1024, limit=6)
            return f"{mantissa}{_BINARY_SUFFIX[power]}"
        case Form.DECIMAL_EXPONENT:
            mantissa, power = _strip(nanos, 1000, limit=None)
            exponent = 3 * power - 9
            return f"{mantissa}e{exponent}" if exponent else str(mantissa)
        case _:
            mantissa, power = _strip(nanos, 1000, limit=9)
            return f"{mantissa}{_DECIMAL_SUFFIX[3 * power - 9]}"


def _strip(amount: int, base: int, limit: int | None) -> tuple[int, int]:
    """Return mantissa and power of ``base``, with the largest exact power up to ``limit``."""
    power = 0
    while (limit is None or power < limit) and amount % base == 0:
        amount //= base
        power += 1
    return amount, power


class Notation(NamedTuple):
    """The parts of the text of a quantity: ``digits * 10**exponent * 1024**power``."""

    negative: bool
    whole: str  # digits without leading zeros
    fraction: str
    exponent: int  # of the suffix, an int32
    power: int
    form: Form

    @property
    def digits(self) -> str:
        return (self.whole + self.fraction).lstrip("0")

    @property
    def scale(self) -> int:
        """The power of ten of the last digit, an int32."""
        return _int32(self.exponent - len(self.fraction))


def split_quantity(text: str) -> Notation:
    """Return the parts of a quantity, in any form that the API accepts.

    Costs time proportional to the length of the text. The original reads exponents as int64 and keeps the
    lower 32 bits, and reads a missing number as 0 unless it is very small or very large. Raises
    ``InvalidQuantity``.
    """
    match = _GRAMMAR.fullmatch(text)
    if match is None or not text:
        raise InvalidQuantity(text)
    whole, fraction, suffix = match["whole"].lstrip("0"), match["fraction"] or "", match["suffix"] or ""
    negative = match["sign"] == "-"
    if suffix in _BINARY:
        notation = Notation(negative, whole, fraction, 0, _BINARY[suffix], Form.BINARY_SI)
    elif suffix in _DECIMAL:
        notation = Notation(negative, whole, fraction, _DECIMAL[suffix], 0, Form.DECIMAL_SI)
    else:
        exponent = _exponent(suffix[1:])
        if exponent is None:
            raise InvalidQuantity(text)
        notation = Notation(negative, whole, fraction, exponent, 0, Form.DECIMAL_EXPONENT)
    without_number = not match["whole"] and not fraction
    if without_number and (notation.power > _BINARY["Ti"] or notation.exponent < _DECIMAL["n"]):
        raise InvalidQuantity(text)
    return notation


def _exponent(text: str) -> int | None:
    """Return the lower 32 bits of an int64, None if ``text`` is beyond it."""
    digits = text.lstrip("+-").lstrip("0")
    if len(digits) > _MAX_EXPONENT_DIGITS:
        return None
    exponent = int(digits or "0") * (-1 if text.startswith("-") else 1)
    return _int32(exponent) if -(2**63) <= exponent < 2**63 else None


def _int32(number: int) -> int:
    return (number + 2**31) % 2**32 - 2**31


def parse_quantity(value: str | int) -> Quantity:
    """Parse any form that the API accepts: ``1``, ``100m``, ``0.1``, ``8429Mi``, ``-1Ei``, ``1E400``.

    Amounts below one nano-unit are rounded away from zero, as in the API, so that a positive request never
    becomes zero. Raises ``InvalidQuantity``.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return Quantity.of_units(value)
    if not isinstance(value, str):
        raise InvalidQuantity(value)
    return parse_text(value)


def parse_text(text: str) -> Quantity:
    """Parse a quantity like ``parse_quantity``."""
    # A cache of long texts could hold as much memory as a hostile client likes.
    return _parse_cached(text) if len(text) <= _MAX_CACHED_LENGTH else _parse(text)


def _parse(text: str) -> Quantity:
    short = _SHORT.fullmatch(text)
    if short is not None:
        return _parse_short(*short.groups())
    notation = split_quantity(text.strip(SPACES))
    nanos = _nanos(notation)
    return Quantity(-nanos if notation.negative else nanos, notation.form)


def _parse_short(whole: str, fraction: str | None, suffix: str | None, exponent: str | None) -> Quantity:
    number, decimals = (int(whole + fraction), len(fraction)) if fraction else (int(whole), 0)
    if exponent is not None:
        shift = 9 + int(exponent) - decimals
        nanos = number * 10**shift if shift >= 0 else -(-number // 10**-shift)
        return Quantity(nanos, Form.DECIMAL_EXPONENT)
    nanos = number * _UNITS[suffix or ""]
    if decimals:
        nanos = -(-nanos // 10**decimals)
    if suffix in _BINARY:
        return Quantity(min(nanos, _MAX_BINARY), Form.BINARY_SI)
    return Quantity(nanos)


_parse_cached = lru_cache(maxsize=4096)(_parse)


def _nanos(notation: Notation) -> int:
    """Return the absolute amount, rounded up and limited; digits beyond the limits cost nothing."""
    digits, scale = notation.digits, notation.scale
    if not digits:
        return 0
    if len(digits) + scale > _MAX_DIGITS:
        return _MAX_BINARY if notation.form is Form.BINARY_SI else LARGEST
    if notation.form is not Form.BINARY_SI:
        return _shift(digits, scale + 9)
    numerator = _shift(digits, scale + _BINARY_DECIMALS) * 1024**notation.power * NANOS
    nanos: int = -(-numerator // 10**_BINARY_DECIMALS)
    return min(nanos, _MAX_BINARY)


def _shift(digits: str, places: int) -> int:
    """Return ``digits * 10**places``, rounded up."""
    if places >= 0:
        return int(digits + "0" * places)
    kept, cut = digits[:places], digits[places:]
    return int(kept or "0") + (1 if cut.strip("0") else 0)
