"""Format amounts of resources and durations for people."""

from collections.abc import Sequence
from typing import Final

from quorate.api.core import Resources
from quorate.api.human_duration import HOUR, MINUTE, human_duration
from quorate.api.quantity import NANOS, Form, Quantity

_BINARY: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_MOST_DIGITS: Final = 5
_LARGE: Final = 10  # from which on thousandths are hard to read
_NOTHING: Final = Quantity(0)


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


def in_one_unit(amounts: Sequence[Quantity]) -> list[str]:
    """Return the texts of amounts of one resource, all in the same unit, so that they can be compared.

    If an amount is in binary form, the unit is the largest power of 1024 that does not exceed the largest
    amount, with at most one decimal, rounded up: ``0.5Gi``, ``2Gi``.  If an amount is a fraction, all are in
    thousandths, ``500m`` and ``2000m``, or decimal if one is 10 or more: ``0.5``, ``12``.  Otherwise they are
    plain numbers.
    """
    if any(amount.form is Form.BINARY_SI for amount in amounts):
        largest, power = max(amount.units for amount in amounts), 0
        while power + 1 < len(_BINARY) and largest >= 1024 ** (power + 1):
            power += 1
        tenths = [-(-amount.units * 10 // 1024**power) for amount in amounts]
        return [
            f"{number // 10}{f'.{number % 10}' if number % 10 else ''}{_BINARY[power]}" for number in tenths
        ]
    if any(amount.nanos % NANOS for amount in amounts):
        if any(amount.units >= _LARGE for amount in amounts):
            return [f"{amount.milli / 1000:.3f}".rstrip("0").rstrip(".") for amount in amounts]
        return [f"{amount.milli}m" for amount in amounts]
    return [str(amount.units) for amount in amounts]


def amount_cells(rows: Sequence[tuple[str, Sequence[Quantity | None]]]) -> list[list[str]]:
    """Return the cells of rows, each with a resource and amounts of it; an absent amount is an empty cell.

    All amounts of a resource are in the same unit.
    """
    by_resource: dict[str, list[Quantity]] = {}
    for resource, amounts in rows:
        by_resource.setdefault(resource, []).extend(amount for amount in amounts if amount is not None)
    cells = {resource: iter(in_one_unit(amounts)) for resource, amounts in by_resource.items()}
    return [
        ["" if amount is None else next(cells[resource]) for amount in amounts] for resource, amounts in rows
    ]


def amount_columns(
    used: Sequence[Resources], totals: Sequence[Resources | None]
) -> tuple[list[str], list[list[str]]]:
    """Return the titles of the columns, and the cells of each row: a column for each resource that is not 0.

    ``used`` and ``totals`` have an item for each row.  A cell is ``used/total``, or ``used`` if the total of
    the row is None; all cells of a column are in the same unit.
    """
    amounts = [*used, *(total for total in totals if total is not None)]
    names = sorted({name for resources in amounts for name, amount in resources.items() if amount})
    rows: list[list[str]] = [[] for _ in used]
    for name in names:
        cells = in_one_unit([resources.get(name, _NOTHING) for resources in amounts])
        of_totals = iter(cells[len(used) :])
        for row, cell, total in zip(rows, cells[: len(used)], totals, strict=True):
            row.append(cell if total is None else f"{cell}/{next(of_totals)}")
    return [name.upper() for name in names], rows


def format_duration(duration_s: float) -> str:
    """Return the duration as kubectl shows it, but ``2h54m`` for 174 minutes; ``0s`` if it is negative."""
    seconds = max(0, int(duration_s))
    if not HOUR <= seconds < 3 * HOUR:
        return human_duration(seconds)
    minutes = seconds % HOUR // MINUTE
    return f"{seconds // HOUR}h" + (f"{minutes}m" if minutes else "")


def plural(count: int, noun: str) -> str:
    """Return ``1 pod`` or ``2 pods``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
