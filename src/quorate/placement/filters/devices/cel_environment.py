"""The CEL environment of expressions that select devices.

A process imports it with its first expression: the runtime takes 10 MB.  Source: as ``selectors``.
"""

import re
from typing import Any, Final

from cel_expr_python import cel
from cel_expr_python.ext import ext_optional, ext_strings

from quorate.api.quantity import InvalidQuantity, parse_quantity
from quorate.placement.filters.devices.quantities import milli_of

_VERSION: Final = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:-([0-9A-Za-z.-]+))?(?:\+[0-9A-Za-z.-]+)?")


def _quantity(text: str) -> int:
    return milli_of(parse_quantity(text))


def _is_quantity(text: str) -> bool:
    try:
        parse_quantity(text)
    except InvalidQuantity:
        return False
    return True


def _semver(text: str) -> str:
    if not _is_semver(text):
        raise ValueError(f"{text!r:.60} is not a semantic version (write 1.2.3)")
    return text


def _is_semver(text: str) -> bool:
    return _VERSION.fullmatch(text) is not None


def _precedence(text: str) -> tuple[object, ...]:
    """Return the order of a version: without a pre-release after those with one, numbers before texts."""
    match = _VERSION.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r:.60} is not a semantic version (write 1.2.3)")
    release = tuple(int(match[part]) for part in (1, 2, 3))
    parts = (match[4] or "").split(".") if match[4] else []
    ordered = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)
    return (*release, not parts, ordered)


def _compare(one: Any, other: Any) -> int:
    return int(one > other) - int(one < other)


def _compare_versions(one: str, other: str) -> int:
    return _compare(_precedence(one), _precedence(other))


def _function(name: str, *overloads: tuple[list[cel.Type], cel.Type, Any], member: bool) -> cel.FunctionDecl:
    return cel.FunctionDecl(
        name,
        [
            cel.Overload(
                f"{name}_{'_'.join(argument.name().lower() for argument in arguments)}",
                result,
                arguments,
                member,
                run,
            )
            for arguments, result, run in overloads
        ],
    )


_TEXT, _NUMBER, _TRUTH = cel.Type.STRING, cel.Type.INT, cel.Type.BOOL
ENVIRONMENT: Final = cel.NewEnv(
    variables={"device": cel.Type.DYN},
    extensions=[ext_optional.ExtOptional(), ext_strings.ExtStrings()],
    functions=[
        _function("quantity", ([_TEXT], _NUMBER, _quantity), member=False),
        _function("isQuantity", ([_TEXT], _TRUTH, _is_quantity), member=False),
        _function("semver", ([_TEXT], _TEXT, _semver), member=False),
        _function("isSemver", ([_TEXT], _TRUTH, _is_semver), member=False),
        _function(
            "compareTo",
            ([_NUMBER, _NUMBER], _NUMBER, _compare),
            ([_TEXT, _TEXT], _NUMBER, _compare_versions),
            member=True,
        ),
        _function(
            "isGreaterThan",
            ([_NUMBER, _NUMBER], _TRUTH, lambda one, other: one > other),
            ([_TEXT, _TEXT], _TRUTH, lambda one, other: _compare_versions(one, other) > 0),
            member=True,
        ),
        _function(
            "isLessThan",
            ([_NUMBER, _NUMBER], _TRUTH, lambda one, other: one < other),
            ([_TEXT, _TEXT], _TRUTH, lambda one, other: _compare_versions(one, other) < 0),
            member=True,
        ),
        _function("asInteger", ([_NUMBER], _NUMBER, lambda value: value // 1000), member=True),
        _function("major", ([_TEXT], _NUMBER, lambda text: _precedence(text)[0]), member=True),
        _function("minor", ([_TEXT], _NUMBER, lambda text: _precedence(text)[1]), member=True),
        _function("patch", ([_TEXT], _NUMBER, lambda text: _precedence(text)[2]), member=True),
    ],
)
