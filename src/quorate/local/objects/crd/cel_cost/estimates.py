"""Bounds of sizes and costs, which end at the largest number of 64 bits."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from quorate.local.objects.crd.cel_cost.types import CelType

MAX_COST = (1 << 64) - 1


class Size(NamedTuple):
    """Bounds of the number of characters, bytes, items or entries."""

    low: int
    high: int

    def plus(self, other: "Size") -> "Size":
        return Size(capped(self.low + other.low), capped(self.high + other.high))

    def times(self, other: "Size") -> "Size":
        return Size(capped(self.low * other.low), capped(self.high * other.high))

    def union(self, other: "Size") -> "Size":
        return Size(min(self.low, other.low), max(self.high, other.high))

    def cost(self, factor: float) -> int:
        return scaled(self.high, factor)


UNKNOWN = Size(0, MAX_COST)
ONE = Size(1, 1)


class Entries(NamedTuple):
    """Bounds of the sizes of keys and values of a list or map that an expression makes."""

    is_list: bool
    key: Size
    value: Size

    def union(self, other: "Entries | None") -> "Entries | None":
        if other is None:
            return None
        return Entries(self.is_list, self.key.union(other.key), self.value.union(other.value))


@dataclass(frozen=True, slots=True)
class Estimate:
    """What is known of the value of an expression, and what it costs to compute."""

    cost: int
    type: CelType
    path: tuple[str, ...] = ()
    """from a variable through the schema; empty if the value is not in the object"""
    size: Size | None = None
    entries: Entries | None = None

    @property
    def size_or_unknown(self) -> Size:
        return self.size or UNKNOWN


def capped(number: int) -> int:
    return min(number, MAX_COST)


def scaled(number: int, factor: float) -> int:
    return capped(math.ceil(float(number) * factor))


def total(*costs: int) -> int:
    return capped(sum(costs))


def union_of(sizes: Iterable[Size]) -> Size:
    found = list(sizes)
    if not found:
        return Size(0, 0)
    return Size(min(each.low for each in found), max(each.high for each in found))
