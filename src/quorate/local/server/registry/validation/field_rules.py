"""Interpreter of the validation rules in ``field_rules.yaml``, which documents their notation.

A rule about one field is a row of the table.  A rule that relates fields is a Python function registered with
``relation``; the table names it at the place where kube-apiserver reports what it finds.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple

import msgspec
import yaml

from quorate.api.codec import Json
from quorate.local.objects import errors
from quorate.local.server.registry.validation.formats import FORMATS
from quorate.local.server.registry.validation.metadata import annotations, labels
from quorate.local.server.registry.validation.resource_amounts import (
    container_amounts,
    node_amounts,
    pod_amounts,
    quota_amounts,
)

Causes = Iterator[errors.Cause]

NOT_NEGATIVE = "must be greater than or equal to 0"
IMMUTABLE = "field is immutable"
MAX_INT32 = 2**31 - 1
MAX_MESSAGES = 2**20
"""The characters of all messages about an object, from which on no further causes are listed."""


class Scope(msgspec.Struct):
    """An object under validation, the object that contains it, and the values seen among its items."""

    type: str
    obj: Json
    parent: "Scope | None" = None
    seen: dict[str, set[bytes]] = {}
    names: dict[str, frozenset[str]] = {}  # of the items of lists, once they are asked for

    def names_in(self, field: str) -> frozenset[str]:
        """Return the names of the items of a list of this object."""
        if field not in self.names:
            self.names[field] = frozenset(item.get("name", "") for item in self.obj.get(field, ()))
        return self.names[field]

    def is_duplicate(self, name: str, value: object) -> bool:
        """Return True if an earlier item of this object has the value; record the value."""
        values, encoded = self.seen.setdefault(name, set()), msgspec.json.encode(value, order="sorted")
        is_seen = encoded in values
        values.add(encoded)
        return is_seen

    @property
    def owners(self) -> Iterator["Scope"]:
        """Yield the objects that contain this object, the innermost first."""
        scope = self.parent
        while scope is not None:
            yield scope
            scope = scope.parent

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


State = Literal["given", "absent", "filled", "empty"] | tuple[Any, ...]


class FieldRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """One row of the table."""

    field: str | None = None
    fields: tuple[str, ...] = ()
    absent: Any = msgspec.UNSET
    required: bool | str = False
    defined: bool | str = False
    forbidden: str = ""
    excluded: str = ""
    invalid: str = ""
    max_items: int | None = None
    max_characters: int | None = None
    max_bytes: int | None = None
    enum: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    positive: bool = False
    range: tuple[int, int] | None = None
    equals: Any = msgspec.UNSET
    zero_is_unset: bool = False
    message: str = ""
    format: str = ""
    unique: str = ""
    entries: str = ""
    type: str = ""
    items: str = ""
    each: "FieldRule | None" = None
    immutable: bool | str = False
    frozen: str = ""
    once_set: bool = False
    hidden: bool = False
    at: str | None = None
    no_index: bool = False
    include: str = ""
    union: tuple[str, ...] = ()
    missing: str = ""
    surplus: str = ""
    types: dict[str, str] = {}
    relation: str = ""
    when: dict[str, State] = {}
    unless: dict[str, State] = {}


ENTRIES: dict[str, Callable[[dict[str, str], str], Iterable[errors.Cause]]] = {
    "labels": labels,
    "annotations": annotations,
    "dataKeys": lambda given, path: (
        errors.invalid_value(f"{path}[{key}]", key, message)
        for key in given
        for message in FORMATS["dataKey"](key)
    ),
    "containerAmounts": container_amounts,
    "podAmounts": pod_amounts,
    "nodeAmounts": node_amounts,
    "quotaAmounts": quota_amounts,
}


Check = Callable[[Any, str, Scope], Iterable[errors.Cause]]
"""Yields what is wrong with the value at a path; the scope is the object that has the field."""


class _Row(NamedTuple):
    """A rule compiled for checks; its fields with the paths that findings report."""

    rule: FieldRule
    fields: tuple[tuple[str, str], ...]
    checks: tuple[Check, ...]


@cache
def rule_table() -> dict[str, tuple[FieldRule, ...]]:
    """Return the rules of every type, with included rules in place."""
    text = files(__package__).joinpath("field_rules.yaml").read_text("utf-8")
    table = msgspec.convert(yaml.load(text, Loader=yaml.CSafeLoader), dict[str, list[FieldRule]])

    def expand(name: str) -> Iterator[FieldRule]:
        for rule in table[name]:
            if rule.include:
                yield from expand(rule.include)
            else:
                yield rule

    return {name: tuple(expand(name)) for name in table}


@cache
def _rows(type_name: str) -> tuple[_Row, ...]:
    return tuple(_compile(rule) for rule in rule_table()[type_name])


def _compile(rule: FieldRule) -> _Row:
    fields = rule.fields or ((rule.field,) if rule.field is not None else ())
    paths = tuple((field, field if rule.at is None else rule.at) for field in fields)
    return _Row(rule, paths, tuple(_checks(rule)))


def union_fields(type_name: str) -> tuple[str, ...]:
    """Return the alternatives of a type that is one of several."""
    return next(rule.union for rule in rule_table()[type_name] if rule.union)


def validate_as(type_name: str) -> Callable[[Json], list[errors.Cause]]:
    """Return the function that validates an object by the rules of a type."""
    return lambda obj: first_causes(check(type_name, obj))


def validate_status_as(type_name: str) -> Callable[[Json, Json], list[errors.Cause]]:
    """Return the function that validates a new status (new, old) by the rules of a type."""
    return lambda new, _: first_causes(check(type_name, new))


def validate_update_as(type_name: str) -> Callable[[Json, Json], list[errors.Cause]]:
    """Return the function that validates an update (new, old) by the rules of a type."""
    return lambda new, old: first_causes(check_update(type_name, new, old))


def first_causes(causes: Causes) -> list[errors.Cause]:
    """Return the causes until their messages have ``MAX_MESSAGES`` characters together.

    A message quotes the value, which may be a list with a cause for each of its items.
    """
    reported, left = [], MAX_MESSAGES
    for cause in causes:
        reported.append(cause)
        left -= len(cause.message)
        if left <= 0:
            break
    return reported


def check(type_name: str, obj: Json, path: str = "", parent: Scope | None = None) -> Causes:
    """Yield what is wrong with an object by the rules of its type."""
    scope = Scope(type_name, obj, parent)
    for rule, fields, checks in _rows(type_name):
        if (rule.when or rule.unless) and not _applies(rule, obj):
            continue
        if rule.relation:
            yield from RELATIONS[rule.relation](obj, path, scope)
        elif rule.union:
            yield from _check_union(rule, obj, path, scope)
        for field, reported in fields:
            value = _value_at(obj, field)
            if value is None and rule.absent is not msgspec.UNSET:
                value = rule.absent
            if (rule.required and not value) or (rule.defined and value is None):
                detail = rule.required or rule.defined
                yield errors.required(_join(path, reported), detail if isinstance(detail, str) else "")
            elif value is not None:
                where = _join(path, reported)
                for check_value in checks:
                    yield from check_value(value, where, scope)


def _applies(rule: FieldRule, obj: Json) -> bool:
    return all(_has_state(_value_at(obj, field), state) for field, state in rule.when.items()) and not any(
        _has_state(_value_at(obj, field), state) for field, state in rule.unless.items()
    )


def _has_state(value: Any, state: State) -> bool:
    match state:
        case "given" | "absent":
            return (value is None) == (state == "absent")
        case "filled" | "empty":
            return bool(value) == (state == "filled")
        case values:
            return any(value is one or (value == one and type(value) is type(one)) for one in values)


def check_update(type_name: str, new: Json, old: Json, path: str = "") -> Causes:
    """Yield what an update changes although its rules do not allow it."""
    for rule, fields, _ in _rows(type_name):
        default = None if rule.absent is msgspec.UNSET else rule.absent
        for field, reported in fields:
            now, was = (_value_at(obj, field) for obj in (new, old))
            if (default if now is None else now) == (default if was is None else was):
                continue
            if rule.once_set and not was:
                continue
            where = _join(path, reported)
            if rule.frozen:
                yield errors.forbidden_field(where, rule.frozen)
            else:
                value = None if rule.hidden else now
                yield errors.invalid_value(
                    where, value, IMMUTABLE if rule.immutable is True else str(rule.immutable)
                )


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


def _checks(rule: FieldRule) -> Iterator[Check]:
    """Yield the checks of a value that is there, in the order of their findings."""
    if rule.forbidden:
        yield _cause_if(bool, lambda path, _: errors.forbidden_field(path, rule.forbidden))
    if rule.excluded:
        yield lambda _, path, __: (errors.forbidden_field(path, rule.excluded),)
    if rule.invalid:
        yield _invalid_if(lambda _: True, rule.invalid)
    if (max_items := rule.max_items) is not None:
        yield _cause_if(
            lambda value: len(value) > max_items,
            lambda path, value: (
                errors.invalid_value(path, value, rule.message)
                if rule.message
                else errors.too_many(path, len(value), max_items)
            ),
        )
    if (max_characters := rule.max_characters) is not None:
        yield _invalid_if(
            lambda value: len(value) > max_characters,
            rule.message or f"can have at most {max_characters} characters",
        )
    yield from _bounds(rule)
    if rule.format or rule.unique:
        yield _format_check(rule)
    if (max_bytes := rule.max_bytes) is not None:
        yield _cause_if(
            lambda value: len(value) > max_bytes, lambda path, value: errors.too_long(path, value, max_bytes)
        )
    if rule.entries:
        check_entries = ENTRIES[rule.entries]
        yield lambda value, path, _: check_entries(value, path)
    if rule.type:
        yield lambda value, path, scope: check(rule.type, value, path, scope)
    if rule.items or rule.each:
        yield _items_check(rule)


def _bounds(rule: FieldRule) -> Iterator[Check]:
    def applies(value: Any) -> bool:
        return bool(value) or not rule.zero_is_unset

    if rule.enum:
        yield _cause_if(
            lambda value: applies(value) and value not in rule.enum,
            lambda path, value: errors.not_supported(path, value, rule.enum),
        )
    if (minimum := rule.minimum) is not None:
        text = rule.message or f"must be greater than or equal to {minimum}"
        yield _invalid_if(lambda value: value < minimum, text)
    if (maximum := rule.maximum) is not None:
        text = rule.message or f"must be less than or equal to {maximum}"
        yield _invalid_if(lambda value: value > maximum, text)
    if rule.positive:
        yield _invalid_if(lambda value: value <= 0, rule.message or "must be greater than zero")
    if rule.range is not None:
        low, high = rule.range
        yield _invalid_if(
            lambda value: applies(value) and not low <= value <= high,
            rule.message or f"must be between {low} and {high}, inclusive",
        )
    if rule.equals is not msgspec.UNSET:
        yield _invalid_if(lambda value: value != rule.equals, f"must be {rule.equals}")


def _cause_if(test: Callable[[Any], bool], cause: Callable[[str, Any], errors.Cause]) -> Check:
    return lambda value, path, _: (cause(path, value),) if test(value) else ()


def _invalid_if(test: Callable[[Any], bool], message: str) -> Check:
    return _cause_if(test, lambda path, value: errors.invalid_value(path, value, message))


def _format_check(rule: FieldRule) -> Check:
    """Return the check of format and uniqueness; it skips an empty value unless ``absent`` is given."""
    format_function, check_empty = FORMATS.get(rule.format), rule.absent is not msgspec.UNSET

    def check_format(value: Any, path: str, scope: Scope) -> Causes:
        if not value and not check_empty:
            return
        for message in format_function(value) if format_function else ():
            yield errors.invalid_value(path, value, rule.message or message)
        if rule.unique and scope.container.is_duplicate(rule.unique, value):
            yield errors.duplicate(path, value)

    return check_format


def _items_check(rule: FieldRule) -> Check:
    value_checks = tuple(_bounds(rule.each)) if rule.each else ()
    format_function = FORMATS.get(rule.each.format) if rule.each else None

    def check_items(values: list[Any], path: str, scope: Scope) -> Causes:
        for index, value in enumerate(values):
            where = path if rule.no_index else f"{path}[{index}]"
            if rule.items:
                yield from check(rule.items, value, where, scope)
            for check_value in value_checks:
                yield from check_value(value, where, scope)
            for message in format_function(value) if format_function else ():
                yield errors.invalid_value(where, value, message)

    return check_items


def _check_union(rule: FieldRule, obj: Json, path: str, scope: Scope) -> Causes:
    """Yield what is wrong with alternatives of which an object has exactly one."""
    present = [field for field in rule.union if field in obj]
    if not present:
        if rule.missing:
            yield errors.required(path, rule.missing)
        return
    for field in present[1:]:
        yield errors.forbidden_field(_join(path, field), rule.surplus)
    if present[0] in rule.types:
        yield from check(rule.types[present[0]], obj[present[0]], _join(path, present[0]), scope)
