"""Rules about single fields that many kinds share.

A rule yields what it refuses.  A field that is absent breaks none of them: it has been defaulted, or may be.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any

from quorate.local.server.errors import Cause, duplicate, invalid_value, not_supported, required

Json = dict[str, Any]
Causes = Iterator[Cause]
Format = Callable[[str], Iterator[str]]
"""Yields what is wrong with a name; see ``names``."""

NOT_NEGATIVE = "must be greater than or equal to 0"
IMMUTABLE = "field is immutable"
MAX_INT32 = 2**31 - 1


def not_negative(obj: Json, path: str, *fields: str) -> Causes:
    for field in fields:
        if obj.get(field, 0) < 0:
            yield invalid_value(f"{path}.{field}", obj[field], NOT_NEGATIVE)


def positive(obj: Json, path: str, *fields: str) -> Causes:
    for field in fields:
        if obj.get(field, 1) <= 0:
            yield invalid_value(f"{path}.{field}", obj[field], "must be greater than zero")


def within(obj: Json, path: str, field: str, lowest: int, highest: int) -> Causes:
    if field in obj and not lowest <= obj[field] <= highest:
        yield invalid_value(
            f"{path}.{field}", obj[field], f"must be between {lowest} and {highest}, inclusive"
        )


def one_of(obj: Json, path: str, field: str, supported: Collection[str]) -> Causes:
    if field in obj and obj[field] not in supported:
        yield not_supported(f"{path}.{field}", obj[field], supported)


def present(obj: Json, path: str, *fields: str, why: str = "") -> Causes:
    for field in fields:
        if not obj.get(field):
            yield required(f"{path}.{field}", why)


def spelled(value: str, path: str, grammar: Format) -> Causes:
    for why in grammar(value):
        yield invalid_value(path, value, why)


def well_named(obj: Json, path: str, field: str, grammar: Format) -> Causes:
    """The field, if it is there, follows the grammar."""
    if obj.get(field):
        yield from spelled(obj[field], f"{path}.{field}", grammar)


def identified(obj: Json, path: str, field: str, grammar: Format, known: set[str]) -> Causes:
    """The field names the object among its siblings; ``known`` gathers the names seen so far."""
    name = obj.get(field, "")
    if not name:
        yield required(f"{path}.{field}")
        return
    yield from spelled(name, f"{path}.{field}", grammar)
    if name in known:
        yield duplicate(f"{path}.{field}", name)
    known.add(name)


def unchanged(new: Json, old: Json, path: str, *fields: str) -> Causes:
    for field in fields:
        if new.get(field) != old.get(field):
            where = f"{path}.{field}" if path else field
            yield invalid_value(where, new.get(field), IMMUTABLE)
