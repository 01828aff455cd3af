"""Validation of custom resources against their schema, with all findings as status causes.

An update ignores findings about values that did not change, so that a schema can become stricter while
objects exist (ratcheting).
"""

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime
from functools import lru_cache
from typing import Any, NamedTuple

from quorate.api.codec import Json
from quorate.api.syntax import parse_duration
from quorate.local.objects import errors
from quorate.local.objects.cel.evaluation import Budget, BudgetExceeded, evaluate
from quorate.local.objects.cel.worker import ExpressionData
from quorate.local.objects.crd.cel import Rule, cel_name
from quorate.local.objects.crd.schema import NO_VALUE_VALIDATION, Schema, ValueValidation, compiled_pattern
from quorate.local.objects.errors import Cause

_DATE_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")
_HOSTNAME = re.compile(
    r"(?=.{1,253}\.?$)[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?"
    r"(\.[A-Za-z0-9]([-A-Za-z0-9]{0,61}[A-Za-z0-9])?)*\.?"
)


def _matches(pattern: re.Pattern[str]) -> Callable[[str], bool]:
    return lambda text: pattern.fullmatch(text) is not None


def _parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def _date_time(text: str) -> object:
    if not _DATE_TIME.fullmatch(text):
        raise ValueError(text)
    return datetime.fromisoformat(text.upper())


def _network(text: str) -> object:
    return ipaddress.ip_interface(text) if "/" in text else int("no prefix length")


# Formats that are not listed are not checked.
FORMATS: Mapping[str, Callable[[str], bool]] = {
    "byte": _parses(lambda text: base64.b64decode(text, validate=True)),
    "cidr": _parses(_network),
    "date": _parses(date.fromisoformat),
    "date-time": _parses(_date_time),
    "datetime": _parses(_date_time),
    "duration": _parses(parse_duration),
    "email": _matches(re.compile(r"[^@\s]+@[^@\s]+")),
    "hostname": _matches(_HOSTNAME),
    "ipv4": _parses(ipaddress.IPv4Address),
    "ipv6": _parses(ipaddress.IPv6Address),
    "mac": _matches(re.compile(r"([0-9A-Fa-f]{2}[:-]){5}([0-9A-Fa-f]{2})")),
    "uri": _matches(re.compile(r"[A-Za-z][-A-Za-z0-9+.]*:\S+|/\S*")),
    "uuid": _matches(re.compile(r"[0-9A-Fa-f]{8}-?([0-9A-Fa-f]{4}-?){3}[0-9A-Fa-f]{12}")),
}


_BLOCKING = frozenset(
    f"FieldValue{reason}" for reason in ("NotSupported", "Required", "TooLong", "TooMany", "TypeInvalid")
)
"""findings that prevent the evaluation of rules, which may assume these checks"""

_NO_PATH = "<nil>"
"""the path of findings for which kube-apiserver's validator gives none"""

CALL_COST_EXCEEDED = (
    "'operation cancelled: actual cost limit exceeded':"
    " no further validation rules will be run due to call cost exceeds limit for rule"
)

_MISSING = object()
_MAX_KEPT = 256
"""characters of a text of which is kept whether a pattern matches: types and reasons of conditions recur"""


def validate(value: Json, schema: Schema, old: Json | None = None) -> list[Cause]:
    """Validate an object, which replaces `old`.

    The object's own `apiVersion`, `kind` and `metadata` are validated elsewhere.
    """
    before = _MISSING if old is None else old
    causes = list(_check(value, schema, "", before))
    causes += _list_causes(value, schema, "", before)
    if not schema.has_rules:
        return causes
    if any(cause.reason in _BLOCKING for cause in causes):
        why = (
            "some validation rules were not checked because the object was invalid; "
            "correct the existing errors to complete validation"
        )
        return [*causes, errors.invalid_value(_NO_PATH, None, why)]
    return causes + _rule_causes(list(_due_rules(value, schema, "", before)))


def type_name(value: Any) -> str:
    """Return the JSON type of a value, with integer separate from number."""
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer" if -(2**63) <= value < 2**63 else "number"
        case float():
            return "integer" if value.is_integer() else "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def _check(value: Any, schema: Schema, path: str, old: Any) -> Iterator[Cause]:
    if value is None and schema.nullable:
        return
    if _same(value, old):
        return
    json_type = type_name(value)
    wanted = ("integer", "string") if schema.int_or_string else (schema.type,) if schema.type else ()
    if wanted and json_type not in wanted and not (json_type == "integer" and schema.type == "number"):
        yield errors.type_invalid(
            path, json_type, f'{path} in body must be of type {",".join(wanted)}: "{json_type}"'
        )
        if json_type == "number" and schema.type == "integer":
            yield _unplaced(f"Checked value must be of type integer (default format) in {path}")
        return
    if schema.limits is not NO_VALUE_VALIDATION:
        yield from _limit_causes(value, schema.limits, path)
    if isinstance(value, dict):
        needed = (*schema.required, *(("apiVersion", "kind") if schema.embedded else ()))
        yield from (errors.required(_field_path(path, name)) for name in needed if name not in value)
    for part, inner, below, before in _parts(value, schema, path, old):
        yield from _check(part, inner, below, before)
    if schema.has_combinators:
        yield from _combination_causes(value, schema, path)


def _same(value: Any, old: Any) -> bool:
    return old is not _MISSING and type(value) is type(old) and bool(value == old)


def _parts(
    value: Any, schema: Schema, path: str, old: Any, *, has_bracketed_keys: bool = False
) -> Iterator[tuple[Any, Schema, str, Any]]:
    """Yield the parts of a value that have a schema: each part, its schema, its path and the old part.

    ``has_bracketed_keys``: a key of a map, which is no declared field, is in brackets in the path.
    """
    if isinstance(value, dict):
        for name, part in value.items():
            inner = schema.field_schema(name)
            if inner:
                is_key = has_bracketed_keys and name not in schema.properties
                below = f"{path}[{name}]" if is_key else _field_path(path, name)
                yield part, inner, below, old.get(name, _MISSING) if isinstance(old, dict) else _MISSING
    elif isinstance(value, list) and schema.items:
        for index, (item, before) in enumerate(_paired(value, schema, old)):
            yield item, schema.items, f"{path}[{index}]", before


def _field_path(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _limit_causes(value: Any, limits: ValueValidation, path: str) -> Iterator[Cause]:
    if limits.enum is not None and not any(_same(value, allowed) for allowed in limits.enum):
        yield errors.not_supported(path, value, [str(allowed) for allowed in limits.enum])
    match value:
        case bool():
            return
        case int() | float():
            yield from _number_causes(value, limits, path)
        case str():
            yield from _string_causes(value, limits, path)
        case list():
            if limits.min_items is not None and len(value) < limits.min_items:
                rule = f"{path} in body should have at least {limits.min_items} items"
                yield errors.invalid_value(path, len(value), rule)
            if limits.max_items is not None and len(value) > limits.max_items:
                yield errors.too_many(path, len(value), limits.max_items)
        case dict():
            if limits.min_properties is not None and len(value) < limits.min_properties:
                rule = f"{path} in body should have at least {limits.min_properties} properties"
                yield errors.invalid_value(path, len(value), rule)
            if limits.max_properties is not None and len(value) > limits.max_properties:
                yield errors.too_many(path, len(value), limits.max_properties)


_INTEGER_BITS = {"int32": 32, "int64": 64}


def _number_causes(value: float, limits: ValueValidation, path: str) -> Iterator[Cause]:
    def violation(rule: str) -> Cause:
        return errors.invalid_value(path, value, f"{path} in body should be {rule}")

    low, high = limits.minimum, limits.maximum
    if low is not None and limits.exclusive_minimum and value <= low:
        yield violation(f"greater than {low}")
    elif low is not None and value < low:
        yield violation(f"greater than or equal to {low}")
    if high is not None and limits.exclusive_maximum and value >= high:
        yield violation(f"less than {high}")
    elif high is not None and value > high:
        yield violation(f"less than or equal to {high}")
    if limits.multiple_of and value % limits.multiple_of:
        yield violation(f"a multiple of {limits.multiple_of}")
    bits = _INTEGER_BITS.get(limits.format)
    if bits and not -(1 << bits - 1) <= value < 1 << bits - 1:
        yield _unplaced(f"Checked value must be of type integer with format {limits.format} in {path}")


def _string_causes(value: str, limits: ValueValidation, path: str) -> Iterator[Cause]:
    """Yield at most one cause about length and pattern, as kube-apiserver does."""
    if limits.max_length is not None and len(value) > limits.max_length:
        yield errors.too_long(path, value, limits.max_length)
    elif limits.min_length is not None and len(value) < limits.min_length:
        rule = f"{path} in body should be at least {limits.min_length} chars long"
        yield errors.invalid_value(path, value, rule)
    elif limits.pattern and not _has_match(limits.pattern, value):
        yield errors.invalid_value(path, value, f"{path} in body should match '{limits.pattern}'")
    check = FORMATS.get(limits.format)
    if check and not check(value):
        yield errors.type_invalid(path, value, f'{path} in body must be of type {limits.format}: "{value}"')


def _has_match(pattern: str, text: str) -> bool:
    if len(text) <= _MAX_KEPT:
        return _short_has_match(pattern, text)
    return compiled_pattern(pattern).matches(text)


@lru_cache(maxsize=4096)
def _short_has_match(pattern: str, text: str) -> bool:
    return compiled_pattern(pattern).matches(text)


def _unplaced(rule: str) -> Cause:
    return errors.invalid_value(_NO_PATH, "", rule)


def _combination_causes(value: Any, schema: Schema, path: str) -> Iterator[Cause]:
    def violation(rule: str) -> Cause:
        return _unplaced(f'"{path}" must {rule}')

    def evaluate(alternatives: Sequence[Schema]) -> list[list[Cause]]:
        return [list(_check(value, part, path, _MISSING)) for part in alternatives]

    if schema.not_ and not evaluate([schema.not_])[0]:
        yield violation("not validate the schema (not)")
    if schema.any_of:
        results = evaluate(schema.any_of)
        if all(results):
            yield violation("validate at least one schema (anyOf)")
            yield from min(results, key=len)
    if schema.one_of:
        results = evaluate(schema.one_of)
        if all(results):
            yield violation("validate one and only one schema (oneOf). Found none valid")
            yield from min(results, key=len)
        elif results.count([]) > 1:
            count = results.count([])
            yield violation(f"validate one and only one schema (oneOf). Found {count} valid alternatives")
    results = evaluate(schema.all_of)
    if any(results):
        yield violation("validate all the schemas (allOf)")
        for causes in results:
            yield from causes


def _paired(value: Sequence[Any], schema: Schema, old: Any) -> Iterable[tuple[Any, Any]]:
    """Pair each item with the old item that it replaces; only lists with keys have such pairs."""
    if schema.list_type != "map" or not isinstance(old, list):
        return ((item, _MISSING) for item in value)
    before = {_keys(item, schema): item for item in old}
    return ((item, before.get(_keys(item, schema), _MISSING)) for item in value)


def _keys(item: Any, schema: Schema) -> str:
    keys = {key: item.get(key) for key in schema.list_keys} if isinstance(item, dict) else item
    return errors.format_value(keys)


def _list_causes(value: Any, schema: Schema, path: str, old: Any) -> Iterator[Cause]:
    """Find duplicates in lists that are sets or maps."""
    if not schema.has_distinct_items or _same(value, old):
        return
    if isinstance(value, list) and schema.list_type in ("set", "map"):
        yield from _duplicates(value, schema, path)
    for part, inner, below, before in _parts(value, schema, path, old):
        yield from _list_causes(part, inner, below, before)


def _duplicates(items: list[Any], schema: Schema, path: str) -> Iterator[Cause]:
    seen = set[str]()
    for index, item in enumerate(items):
        keys = {key: item[key] for key in schema.list_keys if key in item} if isinstance(item, dict) else item
        identity = errors.format_value(item if schema.list_type == "set" else keys)
        if identity in seen:
            yield errors.duplicate(f"{path}[{index}]", item if schema.list_type == "set" else keys)
        seen.add(identity)


class _DueRule(NamedTuple):
    """A rule to evaluate, with the value and the old value, if any, as CEL reads them."""

    rule: Rule
    path: str
    type: str
    value: Any
    spelled: Any
    olds: list[Any]

    @property
    def expression(self) -> ExpressionData:
        return self.rule.expression(self.spelled, self.olds)

    def violation(self, message: str) -> Cause:
        scalar = self.value if isinstance(self.value, str | int | float) else None
        message = message or self.rule.message or f"failed rule: {self.rule.text}"
        return _violated(self.rule.reason, self.path + self.rule.field_path, scalar, message)

    def failure(self, error: str) -> Cause:
        why = f"{error} evaluating rule: {self.rule.message or self.rule.text}"
        return errors.invalid_value(self.path, self.type, why)


def _due_rules(value: Any, schema: Schema, path: str, old: Any) -> Iterator[_DueRule]:
    """Yield the rules that a write has to satisfy: the rules of a value, then the rules of its parts."""
    if value is None or not schema.has_rules:
        return
    due = [rule for rule in schema.rules if _is_due(rule, value, old)]
    if due:
        spelled = _with_cel_names(value, schema)
        olds = [] if old is _MISSING else [_with_cel_names(old, schema)]
        yield from (_DueRule(rule, path, schema.type, value, spelled, olds) for rule in due)
    for part, inner, below, before in _parts(value, schema, path, old, has_bracketed_keys=True):
        yield from _due_rules(part, inner, below, before)


def _rule_causes(due: list[_DueRule]) -> list[Cause]:
    budget = Budget()
    causes: list[Cause] = []
    violated: list[tuple[int, _DueRule]] = []  # with the index of the cause, which gets a message
    try:
        for due_rule, result in zip(
            due, evaluate([due_rule.expression for due_rule in due], budget), strict=True
        ):
            if result.is_too_long:
                detail = f"{CALL_COST_EXCEEDED}: {due_rule.rule.text}"
                causes.append(errors.invalid_value(due_rule.path or _NO_PATH, due_rule.type, detail))
                break
            if result.error or not isinstance(result.value, bool):
                causes.append(due_rule.failure(result.error))
            elif not result.value:
                if due_rule.rule.message_program:
                    violated.append((len(causes), due_rule))
                causes.append(due_rule.violation(""))
        messages = evaluate(
            [due_rule.rule.message_expression(due_rule.spelled, due_rule.olds) for _, due_rule in violated],
            budget,
        )
    except BudgetExceeded as error:
        texts = sorted({due_rule.rule.text for due_rule in due})
        named = texts[0] if len(texts) == 1 else f"one of {len(texts)} rules"
        return [*causes, errors.invalid_value(_NO_PATH, None, f"{CALL_COST_EXCEEDED}: {named}: {error}")]
    for (index, due_rule), result in zip(violated, messages, strict=True):
        if isinstance(result.value, str) and result.value.strip() and "\n" not in result.value:
            causes[index] = due_rule.violation(result.value)
    return causes


def _is_due(rule: Rule, value: Any, old: Any) -> bool:
    if rule.is_transition_rule:
        return old is not _MISSING or rule.optional_old_self
    return not _same(value, old)


def _violated(reason: str, path: str, value: object, message: str) -> Cause:
    path = path.removeprefix(".") or _NO_PATH
    match reason:
        case "FieldValueForbidden":
            return errors.forbidden_field(path, message)
        case "FieldValueRequired":
            return errors.required(path, message)
        case "FieldValueDuplicate":
            return errors.duplicate(path, message)
        case _ if value is None:
            return Cause(path, "FieldValueInvalid", f"Invalid value: {message}")
        case _:
            return errors.invalid_value(path, value, message)


def _with_cel_names(value: Any, schema: Schema) -> Any:
    """Return a value with escaped field names for CEL; keys of maps are data and stay unchanged."""
    if not schema.has_escaped_names:
        return value
    if isinstance(value, list):
        return [_with_cel_names(part, schema.items) for part in value] if schema.items else value
    if not isinstance(value, dict):
        return value
    spelled: Json = {}
    for name, part in value.items():
        inner = schema.field_schema(name)
        spelled[cel_name(name) if name in schema.properties else name] = (
            _with_cel_names(part, inner) if inner else part
        )
    return spelled
