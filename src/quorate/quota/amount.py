"""Amounts: exact integers in base units, and *unlimited*, which is no integer.

The base unit of ``cpu`` is the milli-CPU; the base unit of any other resource is one whole unit (a byte, a
device, a pod). Amounts in base units are neither rounded nor limited in size.  An absent limit is
``UNLIMITED``, a value with its own arithmetic, so that a formula reads the same with and without a limit.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple, TypeVar, final

from quorate.api.quantity import Form, Quantity

K = TypeVar("K")

CPU: Final = "cpu"
PODS: Final = "pods"


class FlavorResource(NamedTuple):
    """One resource of one flavor: the unit in which quota is assigned."""

    flavor: str
    resource: str


Usage = Mapping[FlavorResource, int]


@final
class Unlimited:
    """An amount larger than any integer, with the single instance ``UNLIMITED``.

    Adding to it or subtracting from it changes nothing.  Subtracting it from an integer is a ``TypeError``:
    no formula needs that.
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
    """Return ``quantity`` in base units, rounded up: a positive request stays positive."""
    return quantity.milli if resource == CPU else quantity.units


@lru_cache(maxsize=4096)  # each decision renders a few amounts, mostly the same ones
def as_quantity(resource: str, amount: int) -> Quantity:
    """Return ``amount`` base units of ``resource`` as a quantity in the customary notation."""
    if resource == CPU:
        return Quantity.of_milli(amount)
    return Quantity.of_units(amount, Form.BINARY_SI if counts_bytes(resource) else Form.DECIMAL_SI)


def counts_bytes(resource: str) -> bool:
    """Return True for resources in bytes: Kubernetes', memory of devices, names that end in ``memory``."""
    return (
        resource in ("memory", "ephemeral-storage")
        or resource.endswith((".memory", "/memory", "-memory"))
        or resource.startswith(("hugepages-", "memory.deviceclass/"))
    )


def total(usages: Iterable[Mapping[K, int]]) -> dict[K, int]:
    """Return the sum of ``usages`` for each key, such as a flavor and resource."""
    result: dict[K, int] = {}
    for usage in usages:
        for key, amount in usage.items():
            result[key] = result.get(key, 0) + amount
    return result
