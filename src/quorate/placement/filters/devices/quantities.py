"""Quantities of devices as the integers that selectors and sums calculate with."""

from typing import Final

from quorate.api.quantity import Quantity

_INT64: Final = 2**63 - 1


def milli_of(value: Quantity) -> int:
    """Return thousandths, at most what 64 bits hold."""
    return max(-_INT64, min(value.milli, _INT64))
