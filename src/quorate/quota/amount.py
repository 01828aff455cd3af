"""Amounts: exact integers in base units, and *unlimited*, which is no integer at all.

The base unit of ``cpu`` is the milli-cpu, of everything else one whole unit (a byte, a device, a pod).
Amounts never wrap and never round once they are in base units.  An absent limit is ``UNLIMITED``, a value
with its own arithmetic, so that a formula reads the same with and without a limit.
"""

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple, final

from quorate.api.quantity import Form, Quantity

CPU: Final = "cpu"
PODS: Final = "pods"


class FlavorResource(NamedTuple):
    """What quota is counted in: one resource of one flavor."""

    flavor: str
    resource: str


Usage = Mapping[FlavorResource, int]


@final
class Unlimited:
    """More than any integer.  There is one such value, ``UNLIMITED``.

    Adding to it or taking from it changes nothing.  It is never subtracted from an integer: no formula
    needs that, and the attempt is a ``TypeError``.
    """

    __slots__ = ()

    def __add__(self, other: "Amount") -> "Unlimited":
        return self

    __radd__ = __add__

    def __sub__(self, other: int) -> "Unlimited":
        return self

    def __lt__(self, other: "Amount") -> bool:
        return False

    def __le__(self, other: "Amount") -> bool:
        return other is self

    def __gt__(self, other: "Amount") -> bool:
        return other is not self

    def __ge__(self, other: "Amount") -> bool:
        return True

    def __repr__(self) -> str:
        return "UNLIMITED"


UNLIMITED: Final = Unlimited()
Amount = int | Unlimited


def base_units(resource: str, quantity: Quantity) -> int:
    """``quantity`` in base units, rounded up: who asked for something gets something."""
    return quantity.milli if resource == CPU else quantity.units


def as_quantity(resource: str, amount: int) -> Quantity:
    """The quantity ``amount`` base units of ``resource`` make, in the notation customary for it."""
    if resource == CPU:
        return Quantity.of_milli(amount)
    return Quantity.of_units(amount, Form.BINARY_SI if counts_bytes(resource) else Form.DECIMAL_SI)


def counts_bytes(resource: str) -> bool:
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")


def total(usages: Iterable[Usage]) -> dict[FlavorResource, int]:
    """The sum of ``usages``, resource by resource."""
    result: dict[FlavorResource, int] = {}
    for usage in usages:
        for pair, amount in usage.items():
            result[pair] = result.get(pair, 0) + amount
    return result
