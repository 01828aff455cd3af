"""Match conditions: CEL expressions that decide whether a webhook is called for a request.

Knowingly missing: the variable ``authorizer``; validation rejects an expression that uses it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

from quorate.local.objects.crd.cel import FieldTree, project, referenced_fields

Json = dict[str, Any]

_VARIABLES = ("object", "oldObject", "request")
EXTENSIONS = [ext_optional.ExtOptional(), ext_strings.ExtStrings(), ext_bindings.ExtBindings()]
_ENVIRONMENT = cel.NewEnv(variables=dict.fromkeys(_VARIABLES, cel.Type.DYN), extensions=EXTENSIONS)


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
    program: cel.Expression
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
    return MatchCondition(name, program, {each: referenced_fields(text, each) for each in _VARIABLES})


def all_conditions_met(conditions: Sequence[MatchCondition], request: Json) -> bool:
    """Return True if a request meets all conditions.

    A false condition decides even if others fail.  Raises ConditionError if none is false and one fails.
    """
    variables = {
        "object": request.get("object"),
        "oldObject": request.get("oldObject"),
        "request": {name: part for name, part in request.items() if name not in ("object", "oldObject")},
    }
    error: ConditionError | None = None
    for condition in conditions:
        read = {name: project(value, condition.fields[name]) for name, value in variables.items()}
        try:
            result = condition.program.eval(data=read)
        except RuntimeError:  # the runtime's limit on iterations
            error = error or ConditionError(condition.name, "the cost limit is exceeded")
            continue
        if result.type() != cel.Type.BOOL:
            message = str(result.value()).partition(": ")[2] or "must evaluate to bool"
            error = error or ConditionError(condition.name, message)
        elif not result.value():
            return False
    if error is not None:
        raise error
    return True
