"""Amounts of resources in words."""

from typing import Final

from quorate.api.core import Resources
from quorate.api.quantity import Quantity

_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_MOST_DIGITS: Final = 5


def in_words(resources: Resources) -> str:
    """``cpu 2, memory 4424Mi``, by name; ``nothing`` when there is none."""
    return ", ".join(f"{name} {readable(resources[name])}" for name in sorted(resources)) or "nothing"


def readable(amount: Quantity) -> str:
    """The amount as the API writes it; in a larger unit, rounded down, when that has too many digits."""
    exact = str(amount)
    if sum(character.isdigit() for character in exact) <= _MOST_DIGITS:
        return exact
    power = 0
    while power + 1 < len(_BINARY) and amount.units >= 10**_MOST_DIGITS * 1024**power:
        power += 1
    return f"{amount.units // 1024**power}{_BINARY[power]}"


def plural(count: int, noun: str) -> str:
    """``1 pod``, ``2 pods``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
