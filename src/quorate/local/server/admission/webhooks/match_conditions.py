"""Match conditions: CEL expressions that decide whether a webhook is called for a request.

Knowingly missing: the variable ``authorizer``; validation rejects an expression that uses it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from cel_expr_python import cel

from quorate.api.codec import Json
from quorate.local.objects.cel.evaluation import Budget, BudgetExceeded, evaluate
from quorate.local.objects.cel.worker import environment
from quorate.local.objects.crd.cel import FieldTree, project, referenced_fields

_VARIABLES = ("object", "oldObject", "request")
_ENVIRONMENT = environment(_VARIABLES)


class InvalidExpression(Exception):
    """The text does not compile, or is no boolean expression."""

    def __init__(self, text: str, message: str) -> None:
        super().__init__(text, message)
        self.text, self.message = text, message


class ConditionError(Exception):
    """The evaluation of an expression failed for a request."""

    def __init__(self, name: str, message: str) -> None:
        super().__init__(name, message)
        self.name, self.message = name, message

    def __str__(self) -> str:
        return f"{self.name}: {self.message}"


@dataclass(frozen=True, slots=True, eq=False)
class MatchCondition:
    name: str
    text: str
    fields: dict[str, FieldTree]
    """the fields that it can read, by variable"""


def compile_condition(name: str, text: str) -> MatchCondition:
    """Compile an expression.  Raises InvalidExpression."""
    try:
        program = _ENVIRONMENT.compile(text)
    except RuntimeError as error:  # the only exception of the runtime
        message = str(error).partition(": ")[2].removesuffix(" [INVALID_ARGUMENT]")
        raise InvalidExpression(text, f"compilation failed: {message}") from error
    if program.return_type() not in (cel.Type.BOOL, cel.Type.DYN):
        raise InvalidExpression(text, "must evaluate to bool")
    return MatchCondition(name, text, {each: referenced_fields(text, each) for each in _VARIABLES})


def all_conditions_met(conditions: Sequence[MatchCondition], request: Json) -> bool:
    """Return True if a request meets all conditions.

    A false condition decides even if others fail.  Raises ConditionError if none is false and one fails.
    """
    variables = {
        "object": request.get("object"),
        "oldObject": request.get("oldObject"),
        "request": {name: part for name, part in request.items() if name not in ("object", "oldObject")},
    }
    expressions = [
        (each.text, {name: project(value, each.fields[name]) for name, value in variables.items()})
        for each in conditions
    ]
    try:
        results = evaluate(expressions, Budget())
    except BudgetExceeded as exceeded:
        raise ConditionError(conditions[0].name, str(exceeded)) from exceeded
    if any(result.value is False for result in results):
        return False
    for condition, result in zip(conditions, results, strict=True):
        if result.value is not True:
            raise ConditionError(condition.name, result.error or "must evaluate to bool")
    return True
