"""Match conditions: expressions in CEL that decide whether a webhook is asked about a request.

Knowingly missing: the variable ``authorizer``; an expression that uses it is refused with its configuration.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cel_expr_python import cel
from cel_expr_python.ext import ext_bindings, ext_optional, ext_strings

Json = dict[str, Any]

_ENVIRONMENT = cel.NewEnv(
    variables=dict.fromkeys(("object", "oldObject", "request"), cel.Type.DYN),
    extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings(), ext_bindings.ExtBindings()],
)


class InvalidExpression(Exception):
    """The text cannot be compiled, or is no condition."""

    def __init__(self, text: str, why: str) -> None:
        super().__init__(text, why)
        self.text, self.why = text, why


class Undecided(Exception):
    """An expression failed for a request, so that nobody can say whether it matches."""

    def __init__(self, name: str, why: str) -> None:
        super().__init__(name, why)
        self.name, self.why = name, why

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    name: str
    program: cel.Expression


def compile_condition(name: str, text: str) -> Condition:
    """Raises InvalidExpression."""
    try:
        program = _ENVIRONMENT.compile(text)
    except RuntimeError as refusal:  # all that the runtime raises
        why = str(refusal).partition(": ")[2].removesuffix(" [INVALID_ARGUMENT]")
        raise InvalidExpression(text, f"compilation failed: {why}") from refusal
    if program.return_type() not in (cel.Type.BOOL, cel.Type.DYN):
        raise InvalidExpression(text, "must evaluate to bool")
    return Condition(name, program)


def hold(conditions: Sequence[Condition], request: Json) -> bool:
    """Whether a request meets them all.

    One that is false settles it, whatever else fails.  Raises Undecided when none is false and one fails.
    """
    variables = {
        "object": request.get("object"),
        "oldObject": request.get("oldObject"),
        "request": {name: part for name, part in request.items() if name not in ("object", "oldObject")},
    }
    undecided: Undecided | None = None
    for condition in conditions:
        result = condition.program.eval(data=variables)
        if result.type() != cel.Type.BOOL:
            why = str(result.value()).partition(": ")[2] or "must evaluate to bool"
            undecided = undecided or Undecided(condition.name, why)
        elif not result.value():
            return False
    if undecided is not None:
        raise undecided
    return True
