"""Amounts of resources: requests, limits, quotas."""

from collections.abc import Iterator, Mapping
from typing import Any

from quorate.api.quantity import parse_quantity
from quorate.local.server.errors import Cause, invalid_value, required

Json = dict[str, Any]

DIVISIBLE = ("cpu", "memory", "ephemeral-storage", "storage")
"""Resources of which a fraction may be asked for, and more than there is may be promised."""


def is_divisible(resource: str) -> bool:
    return resource in DIVISIBLE


def not_negative(amounts: Mapping[str, str], path: str) -> Iterator[Cause]:
    for name, amount in sorted(amounts.items()):
        if parse_quantity(amount) < parse_quantity(0):
            yield invalid_value(f"{path}[{name}]", amount, "must be greater than or equal to 0")


def whole(amounts: Mapping[str, str], path: str) -> Iterator[Cause]:
    """Of what cannot be divided only whole numbers can be asked for."""
    for name, amount in sorted(amounts.items()):
        if not is_divisible(name) and parse_quantity(amount).milli % 1000:
            yield invalid_value(f"{path}[{name}]", amount, "must be an integer")


def resources(requirements: Json, path: str) -> Iterator[Cause]:
    """A container's requests and limits."""
    limits, requests = requirements.get("limits", {}), requirements.get("requests", {})
    for kind, amounts in (("limits", limits), ("requests", requests)):
        yield from not_negative(amounts, f"{path}.{kind}")
        yield from whole(amounts, f"{path}.{kind}")
    for name, amount in sorted(requests.items()):
        if name in limits:
            limit = limits[name]
            if not is_divisible(name) and parse_quantity(amount) != parse_quantity(limit):
                why = f"must be equal to {name} limit of {limit}"
                yield invalid_value(f"{path}.requests", amount, why)
            elif parse_quantity(limit) < parse_quantity(amount):
                why = f"must be less than or equal to {name} limit of {limit}"
                yield invalid_value(f"{path}.requests", amount, why)
        elif not is_divisible(name):
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
