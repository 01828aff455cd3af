"""The text as which kube-apiserver stores a quantity of a built-in kind, and its errors.

Source: ``resource.Quantity`` in k8s.io/apimachinery, with its exceptions from the canonical form: a text with
few digits is kept if its exponent is a multiple of three and it does not end in zeros (``1.500`` and ``+5``,
but not ``1.50``), and a decimal amount without a suffix for its power of ten loses that power.
"""

import re
from typing import Final

from quorate.api.quantity import SPACES, Form, Notation, Quantity, parse_quantity, split_quantity

_SUFFIXES: Final = {-9: "n", -6: "u", -3: "m", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_MAX_KEPT_DIGITS: Final = 18  # they fit into 64 bits
NANO: Final = -9
MILLI: Final = -3  # the smallest unit in maps of resources

_PATTERN: Final = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_WITH_SUFFIX: Final = re.compile(r"[+-]?[0-9]*(\.[0-9]*)?(?P<suffix>[eEinumkKMGTP]*[-+]?[0-9]*)")
_NO_DIGITS: Final = re.compile(r"[+-]?\.?([KMGTPE]i|e-[0-9]+|E-[0-9]+)")


def stored_text(text: str, finest: int = NANO) -> str:
    """Return the text that the server answers for a quantity.  Raises ``InvalidQuantity``.

    ``finest`` is the power of ten of the smallest unit, to which amounts are rounded up.
    """
    text = text.strip(SPACES)
    notation = split_quantity(text)
    if _is_kept(notation, finest):
        return text
    if notation.form is Form.BINARY_SI:
        return str(_rounded(parse_quantity(text), finest))
    return _decimal_text(notation, finest)


def quantity_error(text: str) -> str:
    """Return the server's message about a text that is no quantity."""
    text = text.strip(SPACES)
    if text and _NO_DIGITS.fullmatch(text):
        return "unable to parse numeric part of quantity"
    if text and _WITH_SUFFIX.fullmatch(text):
        return "unable to parse quantity's suffix"
    return f"quantities must match the regular expression '{_PATTERN}'"


def _rounded(quantity: Quantity, finest: int) -> Quantity:
    unit: int = 10 ** (finest - NANO)
    rounded = -(-abs(quantity.nanos) // unit) * unit
    return Quantity(rounded if quantity.nanos >= 0 else -rounded, quantity.form)


def _is_kept(notation: Notation, finest: int) -> bool:
    """Return True if the server regards the text as canonical."""
    digits = (notation.whole or "0") + notation.fraction
    if notation.form is Form.BINARY_SI:
        # A power of 1024 takes three digits.
        fits = not notation.fraction and len(digits) + 3 * notation.power < 15
        return fits and int(digits) % 8 != 0
    return (
        len(digits) <= _MAX_KEPT_DIGITS
        and notation.scale >= finest
        and notation.scale % 3 == 0
        and not digits.startswith("0")
        and not digits.endswith("000")
    )


def _decimal_text(notation: Notation, finest: int) -> str:
    digits, scale = notation.digits, notation.scale
    if scale < finest and digits:
        digits, scale = _rounded_up(digits, scale - finest), finest
    if not digits:
        return "0"
    significant = digits.rstrip("0")
    scale += len(digits) - len(significant)
    zeros = scale % 3
    exponent = scale - zeros
    if notation.form is Form.DECIMAL_SI:
        suffix = _SUFFIXES.get(exponent, "")
    else:
        suffix = f"e{exponent}" if exponent else ""
    return f"{'-' if notation.negative else ''}{significant}{'0' * zeros}{suffix}"


def _rounded_up(digits: str, places: int) -> str:
    """Return ``digits * 10**places`` for negative ``places``, rounded up, however many digits there are."""
    kept, cut = digits[:places], digits[places:]
    if not cut.strip("0"):
        return kept
    head = kept.rstrip("9")
    carried = head[:-1] + str(int(head[-1]) + 1) if head else "1"
    return carried + "0" * (len(kept) - len(head))
