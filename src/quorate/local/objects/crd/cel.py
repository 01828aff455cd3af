"""Rules in a custom resource's schema (`x-kubernetes-validations`), written in CEL.

A rule is compiled once, with its definition, and evaluated with `self` and, for rules about transitions,
`oldSelf`. Besides CEL's own functions and its string extensions, rules have the functions on lists and
regular expressions that Kubernetes adds.  Knowingly missing: Kubernetes' types for URLs, addresses,
quantities, formats and semantic versions (a rule that uses them is refused with the definition), times as
anything but strings, and cost limits.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

from quorate.local.objects.schema_types import Json

_OLD_SELF = re.compile(r"\boldSelf\b")


class InvalidRule(Exception):
    """The text of a rule cannot be compiled; `field` is the member of the rule that is wrong."""

    def __init__(self, index: int, field: str, text: str, why: str) -> None:
        super().__init__(index, field, text, why)
        self.index, self.field, self.text, self.why = index, field, text, why


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that does not hold for a value."""

    reason: str
    """a cause's reason, such as FieldValueInvalid"""
    message: str
    field_path: str
    """where to report it below the value, such as `.min`; empty: at the value itself"""


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    text: str
    program: cel.Expression
    is_transition_rule: bool
    """mentions oldSelf"""
    optional_old_self: bool
    """is evaluated without an old value too; oldSelf is then an optional"""
    message: str
    message_program: cel.Expression | None
    reason: str
    field_path: str
    self_fields: "FieldTree"
    """of self"""
    old_self_fields: "FieldTree"
    """of oldSelf"""

    def violation(self, value: Any, olds: Sequence[Any]) -> Violation | None:
        """What is wrong with `value`; None if the rule holds.  `olds` has what it replaces, if anything."""
        # Every variable is copied into the runtime, so a rule gets only what it can read.
        bound: Json = {"self": _project(value, self.self_fields)}
        if self.optional_old_self:
            bound["oldSelves"] = [_project(old, self.old_self_fields) for old in olds]
        elif self.is_transition_rule:
            bound["oldSelf"] = _project(olds[0], self.old_self_fields)
        result = self.program.eval(data=bound)
        if result.type() == cel.Type.BOOL:
            if result.value():
                return None
            return Violation(self.reason, self._explain(value, olds), self.field_path)
        why = str(result.value()).partition(": ")[2]
        return Violation("FieldValueInvalid", f"rule evaluation error: {self.text}: {why}", self.field_path)

    def _explain(self, value: Any, olds: Sequence[Any]) -> str:
        if self.message_program:
            bound = {"self": value, "oldSelves": olds, **({"oldSelf": olds[0]} if olds else {})}
            result = self.message_program.eval(data=bound)
            if result.type() == cel.Type.STRING and result.value().strip() and "\n" not in result.value():
                return str(result.value())
        return self.message or f"failed rule: {self.text}"


def compile_rules(rules: Iterable[Json]) -> tuple[Rule, ...]:
    """The rules of one place in a schema.  Raises InvalidRule."""
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
"""which fields of a value are read, and which of these; None: all of it"""


def referenced_fields(text: str, variable: str) -> FieldTree:
    """What a rule can read of a variable at most, by how the text goes on where it names it."""
    paths: set[tuple[str, ...]] = set()
    for found in re.finditer(rf"(?<![\w.]){variable}\b((?:\.\w+)*)(\s*\()?", text):
        path = tuple(found[1].split(".")[1:])
        paths.add(path[:-1] if found[2] else path)  # what is called is a method, not a field
    return _field_tree(paths)


def _field_tree(paths: set[tuple[str, ...]]) -> FieldTree:
    if () in paths:
        return None
    return {name: _field_tree({path[1:] for path in paths if path[0] == name}) for name, *_ in paths}


def _project(value: Any, self_fields: FieldTree) -> Any:
    if self_fields is None or not isinstance(value, dict):
        return value
    return {name: _project(value[name], inner) for name, inner in self_fields.items() if name in value}


def _program(text: str, index: int, field: str, optional: bool, want: cel.Type) -> cel.Expression:
    # CEL's runtime takes no optional as a variable, so it is built in the expression from a list of at most
    # one.
    whole = f"cel.bind(oldSelf, {_OPTIONAL_OLD_SELF}, {text})" if optional else text
    try:
        program = _ENVIRONMENT.compile(whole)
    except RuntimeError as refusal:  # all that the runtime raises
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
    found = re.search(pattern, text)
    return found.group() if found else ""


def _find_all(text: str, pattern: str) -> list[str]:
    return [found.group() for found in re.finditer(pattern, text)]


_ENVIRONMENT = cel.NewEnv(
    variables={"self": cel.Type.DYN, "oldSelf": cel.Type.DYN, "oldSelves": _LIST},
    extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings(), ext_bindings.ExtBindings()],
    functions=[
        _function("isSorted", _LIST, [], cel.Type.BOOL, _is_sorted),
        _function("sum", _LIST, [], cel.Type.DYN, sum),
        _function("min", _LIST, [], cel.Type.DYN, min),
        _function("max", _LIST, [], cel.Type.DYN, max),
        _function("find", cel.Type.STRING, [cel.Type.STRING], cel.Type.STRING, _find),
        _function("findAll", cel.Type.STRING, [cel.Type.STRING], _LIST, _find_all),
    ],
)
