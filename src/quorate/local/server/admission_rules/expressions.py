"""CEL expressions of admission policies.

Available are CEL's standard functions, its string extensions and optional values, and Kubernetes' functions
for lists and regular expressions. Knowingly missing: ``authorizer`` and Kubernetes' types for URLs,
addresses, quantities and semantic versions. A policy that uses them is stored with a warning, and what uses
them is not evaluated.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from cel_expr_python import cel

from quorate.api.codec import Json
from quorate.local.objects.cel.evaluation import Budget, BudgetExceeded, evaluate
from quorate.local.objects.cel.worker import POLICY_VARIABLES, environment
from quorate.local.objects.crd.cel import FieldTree, project, referenced_fields

INPUTS: Final = POLICY_VARIABLES[:-1]
"""the variables besides ``variables``, which has those of the policy"""
MISSING: Final = (
    *("authorizer", "quantity", "isQuantity", "semver", "isSemver", "url", "isURL"),
    *("ip", "isIP", "cidr", "isCIDR", "format"),
)
POLICIES: Final = environment(POLICY_VARIABLES)
DEVICES: Final = environment(("device",))
"""the selectors of device classes and claims"""
_VARIABLE: Final = re.compile(r"\bvariables\.(\w+)")
_UNDECLARED: Final = re.compile(r"undeclared reference to '([\w.]+)'")


class InvalidExpression(ValueError):
    """The text does not compile, or has another type than its place."""


class Unsupported(ValueError):
    """The text uses a function or a variable that this server lacks; the argument is its name."""


class EvaluationFailed(Exception):
    """An expression has no value for a request."""


@dataclass(frozen=True, slots=True, eq=False)
class Expression:
    text: str
    fields: Mapping[str, FieldTree]
    """the fields that the expression can read, by input"""
    variables: frozenset[str]
    """the variables of the policy that the expression names"""


def check_expression(environment: cel.Env, text: str, want: cel.Type) -> None:
    """Compile an expression.  Raises InvalidExpression."""
    try:
        program = environment.compile(text)
    except RuntimeError as error:  # the only exception of the runtime
        message = str(error).partition(": ")[2].removesuffix(" [INVALID_ARGUMENT]")
        raise InvalidExpression(f"compilation failed: {message}") from error
    if want != cel.Type.DYN and program.return_type() not in (want, cel.Type.DYN):
        raise InvalidExpression(f"must evaluate to {want.name().lower()}")


def compile_expression(
    text: str, want: cel.Type = cel.Type.DYN, environment: cel.Env = POLICIES
) -> Expression:
    """Compile an expression.  Raises InvalidExpression, Unsupported."""
    try:
        check_expression(environment, text, want)
    except InvalidExpression as error:
        undeclared = set(_UNDECLARED.findall(str(error)))
        if undeclared & set(MISSING):
            raise Unsupported(", ".join(sorted(undeclared))) from error
        raise
    fields = {name: referenced_fields(text, name) for name in INPUTS}
    return Expression(text, fields, frozenset(_VARIABLE.findall(text)))


def unsupported(text: str) -> str:
    """Return what an expression uses that this server lacks; empty if nothing, or if it does not compile."""
    try:
        compile_expression(text)
    except Unsupported as error:
        return str(error)
    except InvalidExpression:
        return ""
    return ""


class Evaluation:
    """The values of expressions for one request; a variable is evaluated at most once, when it is used."""

    def __init__(self, inputs: Json, variables: Mapping[str, Expression]) -> None:
        """``variables``: in their order; each can use those before it."""
        self._inputs = inputs
        self._variables = variables
        self._budget = Budget()
        self._values: dict[str, Any] = {}  # EvaluationFailed for a variable without a value

    def value(self, expression: Expression) -> Any:
        """Return the value of an expression.  Raises EvaluationFailed."""
        wanted = self._needed(expression.variables)
        for name, variable in self._variables.items():
            if name in wanted and name not in self._values:
                try:
                    self._values[name] = self._evaluate(variable)
                except EvaluationFailed as error:
                    text = f'composited variable "{name}" fails to evaluate: {error}'
                    self._values[name] = EvaluationFailed(text)
        return self._evaluate(expression)

    def _needed(self, names: Iterable[str]) -> set[str]:
        """Return the variables ``names`` and all variables that their expressions use, directly or not."""
        needed: set[str] = set()
        left = list(names)
        while left:
            name = left.pop()
            if name in self._variables and name not in needed:
                needed.add(name)
                left.extend(self._variables[name].variables)
        return needed

    def _evaluate(self, expression: Expression) -> Any:
        data = {name: project(self._inputs.get(name), tree) for name, tree in expression.fields.items()}
        data["variables"] = {name: self._variable(name) for name in sorted(expression.variables)}
        try:
            (result,) = evaluate([(expression.text, data)], self._budget)
        except BudgetExceeded as error:
            raise EvaluationFailed(str(error)) from error
        if result.error:
            raise EvaluationFailed(result.error)
        return result.value

    def _variable(self, name: str) -> Any:
        if name not in self._values:
            raise EvaluationFailed(f"no such variable: {name}")
        if isinstance(self._values[name], EvaluationFailed):
            raise self._values[name]
        return self._values[name]
