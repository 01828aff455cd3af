"""Interpreter of the declarative validation rules in ``field_rules.yaml``, which documents their notation.

A rule about one field is a row of the table.  A rule that relates fields is a Python function registered with
``relation``; the table names it at the place where kube-apiserver reports what it finds.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
import yaml

from quorate.local.server.errors import (
    Cause,
    duplicate,
    forbidden_field,
    invalid_value,
    not_supported,
    required,
    too_long,
    too_many,
)
from quorate.local.server.registry.validation.formats import FORMATS
from quorate.local.server.registry.validation.metadata import annotations, labels
from quorate.local.server.registry.validation.resource_amounts import (
    container_amounts,
    known_amounts,
    quota_amounts,
)

Json = dict[str, Any]
Causes = Iterator[Cause]

NOT_NEGATIVE = "must be greater than or equal to 0"
IMMUTABLE = "field is immutable"
MAX_INT32 = 2**31 - 1


class Scope(msgspec.Struct):
    """An object under validation, the object that contains it, and the values seen among its items."""

    type: str
    obj: Json
    parent: "Scope | None" = None
    seen: dict[str, list[Any]] = {}

    def is_duplicate(self, name: str, value: object) -> bool:
        """Return True if an earlier item of this object has the value; record the value."""
        values = self.seen.setdefault(name, [])
        known = value in values
        values.append(value)
        return known

    @property
    def container(self) -> "Scope":
        assert self.parent is not None, f"{self.type} is always part of another object"
        return self.parent


Relation = Callable[[Json, str, Scope], Causes]
"""Yields what is wrong with an object at a path."""
RELATIONS: dict[str, Relation] = {}


def relation(function: Relation) -> Relation:
    """Register a rule that relates fields; the table names it."""
    RELATIONS[function.__name__] = function
    return function


class FieldRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One row of the table."""

    field: str | None = None
    fields: tuple[str, ...] = ()
    absent: Any = msgspec.UNSET
    required: bool | str = False
    defined: bool | str = False
    forbidden: str = ""
    max_items: int | None = None
    max_characters: int | None = None
    max_bytes: int | None = None
    enum: tuple[str, ...] = ()
    minimum: int | None = None
    positive: bool = False
    range: tuple[int, int] | None = None
    equals: Any = msgspec.UNSET
    zero_is_unset: bool = False
    format: str = ""
    unique: str = ""
    entries: str = ""
    type: str = ""
    items: str = ""
    each: "FieldRule | None" = None
    immutable: bool | str = False
    frozen: str = ""
    once_set: bool = False
    at: str | None = None
    no_index: bool = False
    include: str = ""
    union: tuple[str, ...] = ()
    missing: str = ""
    surplus: str = ""
    types: dict[str, str] = {}
    relation: str = ""


ENTRIES: dict[str, Callable[[dict[str, str], str], Iterable[Cause]]] = {
    "labels": labels,
    "annotations": annotations,
    "dataKeys": lambda given, path: (
        invalid_value(f"{path}[{key}]", key, message) for key in given for message in FORMATS["dataKey"](key)
    ),
    "containerAmounts": container_amounts,
    "knownAmounts": known_amounts,
    "quotaAmounts": quota_amounts,
}


@cache
def rule_table() -> dict[str, tuple[FieldRule, ...]]:
    """Return the rules of every type, with included rules in place and every row in its plural form."""
    text = files(__package__).joinpath("field_rules.yaml").read_text("utf-8")
    table = msgspec.convert(yaml.load(text, Loader=yaml.CSafeLoader), dict[str, list[FieldRule]])

    def expand(name: str) -> Iterator[FieldRule]:
        for rule in table[name]:
            if rule.include:
                yield from expand(rule.include)
            elif rule.field is not None:
                yield msgspec.structs.replace(rule, field=None, fields=(rule.field,))
            else:
                yield rule

    return {name: tuple(expand(name)) for name in table}


def union_fields(type_name: str) -> tuple[str, ...]:
    """Return the alternatives of a type that is one of several."""
    return next(rule.union for rule in rule_table()[type_name] if rule.union)


def validate_as(type_name: str) -> Callable[[Json], list[Cause]]:
    """Return the function that validates an object by the rules of a type."""
    return lambda obj: list(check(type_name, obj))


def validate_status_as(type_name: str) -> Callable[[Json, Json], list[Cause]]:
    """Return the function that validates a new status (new, old) by the rules of a type."""
    return lambda new, _: list(check(type_name, new))


def validate_update_as(type_name: str) -> Callable[[Json, Json], list[Cause]]:
    """Return the function that validates an update (new, old) by the rules of a type."""
    return lambda new, old: list(check_update(type_name, new, old))


def check(type_name: str, obj: Json, path: str = "", parent: Scope | None = None) -> Causes:
    """Yield what is wrong with an object by the rules of its type."""
    scope = Scope(type_name, obj, parent)
    for rule in rule_table()[type_name]:
        if rule.relation:
            yield from RELATIONS[rule.relation](obj, path, scope)
        elif rule.union:
            yield from _check_union(rule, obj, path, scope)
        for field in rule.fields:
            value = _value_at(obj, field)
            if value is None:
                if rule.absent is not msgspec.UNSET:
                    value = rule.absent
                elif not (rule.required or rule.defined):
                    continue
            yield from _check_value(rule, value, _join(path, field if rule.at is None else rule.at), scope)


def check_update(type_name: str, new: Json, old: Json, path: str = "") -> Causes:
    """Yield what an update changes although its rules do not allow it."""
    for rule in rule_table()[type_name]:
        for field in rule.fields:
            default = None if rule.absent is msgspec.UNSET else rule.absent
            now, was = (_value_at(obj, field) for obj in (new, old))
            if (default if now is None else now) == (default if was is None else was):
                continue
            if rule.once_set and not was:
                continue
            where = _join(path, rule.at or field)
            if rule.frozen:
                yield forbidden_field(where, rule.frozen)
            else:
                yield invalid_value(where, now, IMMUTABLE if rule.immutable is True else str(rule.immutable))


def _value_at(obj: Json, field: str) -> Any:
    if "." not in field:
        return obj.get(field)
    value: Any = obj
    for name in field.split("."):
        value = value.get(name)
        if value is None:
            break
    return value


def _join(path: str, field: str) -> str:
    return f"{path}.{field}" if path and field else path or field


def _detail(given: bool | str) -> str:
    return given if isinstance(given, str) else ""


def _check_value(rule: FieldRule, value: Any, path: str, scope: Scope) -> Causes:
    if rule.required and not value:
        yield required(path, _detail(rule.required))
        return
    if rule.defined and value is None:
        yield required(path, _detail(rule.defined))
        return
    if rule.forbidden and value:
        yield forbidden_field(path, rule.forbidden)
    if rule.max_items is not None and len(value) > rule.max_items:
        yield too_many(path, len(value), rule.max_items)
    if rule.max_characters is not None and len(value) > rule.max_characters:
        yield invalid_value(path, value, f"can have at most {rule.max_characters} characters")
    yield from _check_bounds(rule, value, path)
    if value or rule.absent is not msgspec.UNSET:
        if rule.format:
            for message in FORMATS[rule.format](value):
                yield invalid_value(path, value, message)
        if rule.unique and scope.container.is_duplicate(rule.unique, value):
            yield duplicate(path, value)
    if rule.max_bytes is not None and len(value) > rule.max_bytes:
        yield too_long(path, value, rule.max_bytes)
    if rule.entries:
        yield from ENTRIES[rule.entries](value, path)
    if rule.type:
        yield from check(rule.type, value, path, scope)
    if rule.items or rule.each:
        yield from _check_items(rule, value, path, scope)


def _check_bounds(rule: FieldRule, value: Any, path: str) -> Causes:
    if rule.zero_is_unset and not value:
        return
    if rule.enum and value not in rule.enum:
        yield not_supported(path, value, rule.enum)
    if rule.minimum is not None and value < rule.minimum:
        yield invalid_value(path, value, f"must be greater than or equal to {rule.minimum}")
    if rule.positive and value <= 0:
        yield invalid_value(path, value, "must be greater than zero")
    if rule.range is not None and not rule.range[0] <= value <= rule.range[1]:
        yield invalid_value(path, value, "must be between {} and {}, inclusive".format(*rule.range))
    if rule.equals is not msgspec.UNSET and value != rule.equals:
        yield invalid_value(path, value, f"must be {rule.equals}")


def _check_items(rule: FieldRule, values: list[Any], path: str, scope: Scope) -> Causes:
    for index, value in enumerate(values):
        where = path if rule.no_index else f"{path}[{index}]"
        if rule.items:
            yield from check(rule.items, value, where, scope)
        if rule.each is not None:
            yield from _check_bounds(rule.each, value, where)
            for message in FORMATS[rule.each.format](value) if rule.each.format else ():
                yield invalid_value(where, value, message)


def _check_union(rule: FieldRule, obj: Json, path: str, scope: Scope) -> Causes:
    """Yield what is wrong with alternatives of which an object has exactly one."""
    present = [field for field in rule.union if field in obj]
    if not present:
        yield required(path, rule.missing)
        return
    for field in present[1:]:
        yield forbidden_field(_join(path, field), rule.surplus)
    if present[0] in rule.types:
        yield from check(rule.types[present[0]], obj[present[0]], _join(path, present[0]), scope)
