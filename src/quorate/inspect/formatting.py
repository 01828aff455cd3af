"""Format amounts of resources for people."""

from typing import Final

from quorate.api.core import Resources
from quorate.api.quantity import Quantity

_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_MOST_DIGITS: Final = 5


def format_resources(resources: Resources) -> str:
    """Return ``cpu 2, memory 4424Mi``, sorted by name; ``nothing`` if there are no resources."""
    return ", ".join(f"{name} {format_quantity(resources[name])}" for name in sorted(resources)) or "nothing"


def format_quantity(amount: Quantity) -> str:
    """Return the amount as the API writes it, or rounded down in a larger unit if it has many digits."""
    exact = str(amount)
    if sum(character.isdigit() for character in exact) <= _MOST_DIGITS:
        return exact
    power = 0
    while power + 1 < len(_BINARY) and amount.units >= 10**_MOST_DIGITS * 1024**power:
        power += 1
    return f"{amount.units // 1024**power}{_BINARY[power]}"


def plural(count: int, noun: str) -> str:
    """Return ``1 pod`` or ``2 pods``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
