"""CEL validation rules of custom resources (`x-kubernetes-validations`).

A rule is compiled once with its CRD, and evaluated with `self` and, for transition rules, `oldSelf`.
Available are CEL's standard functions, its string extensions, and Kubernetes' functions for lists and regular
expressions. Not supported: Kubernetes' types for URLs, addresses, quantities, formats and semantic versions
(a CRD that uses them is rejected), and times other than as strings. What a rule may cost is not estimated:
its evaluation is bounded.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from cel_expr_python import cel

from quorate.api.codec import Json
from quorate.local.objects.cel.worker import RULE_VARIABLES, ExpressionData, environment

_OLD_SELF = re.compile(r"\boldSelf\b")


class InvalidRule(Exception):
    """A rule does not compile; `field` is the invalid field of the rule."""

    def __init__(self, index: int, field: str, text: str, why: str) -> None:
        super().__init__(index, field, text, why)
        self.index, self.field, self.text, self.why = index, field, text, why


@dataclass(frozen=True, slots=True, eq=False)
class Rule:
    text: str
    program: str
    """the expression that is evaluated: the text, or the text with a binding of the optional oldSelf"""
    is_transition_rule: bool
    """uses oldSelf"""
    optional_old_self: bool
    """is also evaluated without an old value; oldSelf is an optional then"""
    message: str
    message_program: str
    """the expression of the message; empty if there is none"""
    reason: str
    """the reason of a status cause, such as FieldValueInvalid"""
    field_path: str
    """path of the cause below the value, such as `.min`; empty: the value itself"""
    self_fields: "FieldTree"
    """fields of self that the rule can read"""
    old_self_fields: "FieldTree"
    """fields of oldSelf that the rule can read"""

    def expression(self, value: Any, olds: Sequence[Any]) -> ExpressionData:
        """Return the rule and its variables for `value`; `olds` contains the old value, if any."""
        variables: Json = {"self": project(value, self.self_fields)}
        if self.optional_old_self:
            variables["oldSelves"] = [project(old, self.old_self_fields) for old in olds]
        elif self.is_transition_rule:
            variables["oldSelf"] = project(olds[0], self.old_self_fields)
        return self.program, variables

    def message_expression(self, value: Any, olds: Sequence[Any]) -> ExpressionData:
        """Return the expression of the message for a value that violates the rule."""
        return self.message_program, {
            "self": value,
            "oldSelves": list(olds),
            **({"oldSelf": olds[0]} if olds else {}),
        }


def compile_rules(rules: Iterable[Json]) -> tuple[Rule, ...]:
    """Return the compiled rules of a schema.  Raises InvalidRule."""
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
        else "",
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
    for match in re.finditer(rf"(?<![\w.]){variable}\b((?:\.\w+)*)(\s*\()?", text):
        path = tuple(match[1].split(".")[1:])
        paths.add(path[:-1] if match[2] else path)  # a called name is a method, not a field
    return _field_tree(paths)


def undefined_field(text: str, schema: Json) -> str | None:
    """Return a field of self or oldSelf that a rule reads and its schema does not have; None without any."""
    plain = _STRINGS.sub("''", text)
    names = (_undefined(referenced_fields(plain, variable), schema) for variable in ("self", "oldSelf"))
    return next(filter(None, names), None)


def _undefined(fields: FieldTree, schema: Json) -> str | None:
    if not fields or schema.get("type") != "object" or not _OPEN.isdisjoint(schema):
        return None
    declared = schema.get("properties") or {}
    properties = declared | {cel_name(name): part for name, part in declared.items()}
    for name in fields.keys() - _OF_EVERY_OBJECT:
        undefined = _undefined(fields[name], properties[name]) if name in properties else name
        if undefined:
            return undefined
    return None


_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"|' + r"'(?:[^'\\]|\\.)*'")
_OPEN = frozenset({"additionalProperties", "x-kubernetes-preserve-unknown-fields"})
_OF_EVERY_OBJECT = frozenset({"apiVersion", "kind", "metadata"})


def _field_tree(paths: set[tuple[str, ...]]) -> FieldTree:
    if () in paths:
        return None
    return {name: _field_tree({path[1:] for path in paths if path[0] == name}) for name, *_ in paths}


def project(value: Any, fields: FieldTree) -> Any:
    """Return what an expression reads of a value, because variables are copied into the runtime."""
    if fields is None or not isinstance(value, dict):
        return value
    return {name: project(value[name], inner) for name, inner in fields.items() if name in value}


def _program(text: str, index: int, field: str, optional: bool, want: cel.Type) -> str:
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
    return whole


_OPTIONAL_OLD_SELF = "size(oldSelves) == 0 ? optional.none() : optional.of(oldSelves[0])"
_ENVIRONMENT = environment(RULE_VARIABLES)


def cel_name(name: str) -> str:
    """Return the field's name in CEL: invalid characters and reserved words are escaped."""
    if name in _RESERVED:
        return f"__{name}__"
    for character, spelled in (
        ("__", "__underscores__"),
        (".", "__dot__"),
        ("-", "__dash__"),
        ("/", "__slash__"),
    ):
        name = name.replace(character, spelled)
    return name


_RESERVED = frozenset(
    name
    for words in (
        ("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function"),
        ("if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
    for name in words
)
