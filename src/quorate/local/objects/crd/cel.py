"""CEL validation rules of custom resources (`x-kubernetes-validations`).

A rule is compiled once with its CRD, and evaluated with `self` and, for transition rules, `oldSelf`.
Available are CEL's standard functions, its string extensions, and Kubernetes' functions for lists and regular
expressions. Not supported: Kubernetes' types for URLs, addresses, quantities, formats and semantic versions
(a CRD that uses them is rejected), and times other than as strings. The cost of one evaluation is limited by
the runtime, to 10,000 iterations; kube-apiserver's limit is about 100,000. `cel_cost` estimates the cost.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

from quorate.api.go_regexp import Pattern
from quorate.local.objects.schema_types import Json

_OLD_SELF = re.compile(r"\boldSelf\b")


class InvalidRule(Exception):
    """A rule does not compile; `field` is the invalid field of the rule."""

    def __init__(self, index: int, field: str, text: str, why: str) -> None:
        super().__init__(index, field, text, why)
        self.index, self.field, self.text, self.why = index, field, text, why


class CostLimitExceeded(Exception):
    """The evaluation of a rule takes too many steps; the text is the rule."""


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that evaluates to false."""

    reason: str
    """the reason of a status cause, such as FieldValueInvalid"""
    message: str
    field_path: str
    """path below the value, such as `.min`; empty: the value itself"""


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    text: str
    program: cel.Expression
    is_transition_rule: bool
    """uses oldSelf"""
    optional_old_self: bool
    """is also evaluated without an old value; oldSelf is an optional then"""
    message: str
    message_program: cel.Expression | None
    reason: str
    field_path: str
    self_fields: "FieldTree"
    """fields of self that the rule can read"""
    old_self_fields: "FieldTree"
    """fields of oldSelf that the rule can read"""

    def violation(self, value: Any, olds: Sequence[Any]) -> Violation | None:
        """Return the violation by `value`, or None; `olds` contains the old value, if any.

        Raises CostLimitExceeded.
        """
        bound: Json = {"self": project(value, self.self_fields)}
        if self.optional_old_self:
            bound["oldSelves"] = [project(old, self.old_self_fields) for old in olds]
        elif self.is_transition_rule:
            bound["oldSelf"] = project(olds[0], self.old_self_fields)
        try:
            result = self.program.eval(data=bound)
        except RuntimeError as error:  # the runtime's limit on iterations
            raise CostLimitExceeded(self.text) from error
        if result.type() == cel.Type.BOOL:
            if result.value():
                return None
            return Violation(self.reason, self._explain(value, olds), self.field_path)
        why = str(result.value()).partition(": ")[2]
        return Violation("FieldValueInvalid", f"rule evaluation error: {self.text}: {why}", self.field_path)

    def _explain(self, value: Any, olds: Sequence[Any]) -> str:
        if self.message_program:
            bound = {"self": value, "oldSelves": olds, **({"oldSelf": olds[0]} if olds else {})}
            try:
                result = self.message_program.eval(data=bound)
            except RuntimeError as error:
                raise CostLimitExceeded(self.text) from error
            if result.type() == cel.Type.STRING and result.value().strip() and "\n" not in result.value():
                return str(result.value())
        return self.message or f"failed rule: {self.text}"


def compile_rules(rules: Iterable[Json]) -> tuple[Rule, ...]:
    """Compile the rules of one schema.  Raises InvalidRule."""
    return tuple(_compile(rule, index) for index, rule in enumerate(rules))


def _compile(rule: Json, index: int) -> Rule:
    text, message_expression = rule["rule"], rule.get("messageExpression", "")
    optional = bool(rule.get("optionalOldSelf"))
    return Rule(
        text=text,
        program=_program(text, index, "rule", optional, cel.Type.BOOL),
        is_transition_rule=bool(_OLD_SELF.search(text)),
        optional_old_self=optional,
        message=rule.get("message", ""),
        message_program=_program(message_expression, index, "messageExpression", optional, cel.Type.STRING)
        if message_expression
        else None,
        reason=rule.get("reason") or "FieldValueInvalid",
        field_path=rule.get("fieldPath") or "",
        self_fields=referenced_fields(text, "self"),
        old_self_fields=referenced_fields(text, "oldSelf"),
    )


FieldTree = dict[str, "FieldTree"] | None
"""a tree of referenced fields; None: the whole value"""


def referenced_fields(text: str, variable: str) -> FieldTree:
    """Return an upper bound of the fields of a variable that a rule reads, from its text."""
    paths: set[tuple[str, ...]] = set()
    for found in re.finditer(rf"(?<![\w.]){variable}\b((?:\.\w+)*)(\s*\()?", text):
        path = tuple(found[1].split(".")[1:])
        paths.add(path[:-1] if found[2] else path)  # a called name is a method, not a field
    return _field_tree(paths)


def _field_tree(paths: set[tuple[str, ...]]) -> FieldTree:
    if () in paths:
        return None
    return {name: _field_tree({path[1:] for path in paths if path[0] == name}) for name, *_ in paths}


def project(value: Any, fields: FieldTree) -> Any:
    """Return what an expression reads of a value, because variables are copied into the runtime."""
    if fields is None or not isinstance(value, dict):
        return value
    return {name: project(value[name], inner) for name, inner in fields.items() if name in value}


def _program(text: str, index: int, field: str, optional: bool, want: cel.Type) -> cel.Expression:
    # CEL's runtime accepts no optional as a variable, so the expression constructs it from a list of at most
    # one value.
    whole = f"cel.bind(oldSelf, {_OPTIONAL_OLD_SELF}, {text})" if optional else text
    try:
        program = _ENVIRONMENT.compile(whole)
    except RuntimeError as refusal:  # the only exception that the runtime raises
        why = str(refusal).partition("ERROR: ")[2].splitlines()[0]
        raise InvalidRule(index, field, text, f"compilation failed: {why}") from refusal
    if program.return_type() not in (want, cel.Type.DYN):
        raise InvalidRule(index, field, text, f"must evaluate to a {want.name().lower()}")
    return program


_OPTIONAL_OLD_SELF = "size(oldSelves) == 0 ? optional.none() : optional.of(oldSelves[0])"


_LIST = cel.Type.List(cel.Type.DYN)


def _function(
    name: str, receiver: cel.Type, arguments: list[cel.Type], result: cel.Type, run: Callable[..., Any]
) -> cel.FunctionDecl:
    identity = f"{receiver.name().partition('(')[0].lower()}_{name}"
    return cel.FunctionDecl(name, [cel.Overload(identity, result, [receiver, *arguments], True, run)])


def _is_sorted(items: list[Any]) -> bool:
    return all(first <= second for first, second in pairwise(items))


def _find(text: str, pattern: str) -> str:
    return Pattern(pattern).search(text) or ""


def _find_all(text: str, pattern: str) -> list[str]:
    return Pattern(pattern).find_all(text)


FUNCTIONS = [
    _function("isSorted", _LIST, [], cel.Type.BOOL, _is_sorted),
    _function("sum", _LIST, [], cel.Type.DYN, sum),
    _function("min", _LIST, [], cel.Type.DYN, min),
    _function("max", _LIST, [], cel.Type.DYN, max),
    _function("find", cel.Type.STRING, [cel.Type.STRING], cel.Type.STRING, _find),
    _function("findAll", cel.Type.STRING, [cel.Type.STRING], _LIST, _find_all),
]
"""Functions that Kubernetes adds to CEL."""
_ENVIRONMENT = cel.NewEnv(
    variables={"self": cel.Type.DYN, "oldSelf": cel.Type.DYN, "oldSelves": _LIST},
    extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings(), ext_bindings.ExtBindings()],
    functions=FUNCTIONS,
)
