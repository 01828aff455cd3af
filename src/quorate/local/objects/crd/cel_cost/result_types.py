"""The types of the results of functions and operators that have an estimate."""

from collections.abc import Callable, Mapping, Sequence

from quorate.local.objects.crd.cel_cost.call_costs import ORDERINGS
from quorate.local.objects.crd.cel_cost.estimates import Estimate
from quorate.local.objects.crd.cel_cost.syntax import FunctionCall, Literal
from quorate.local.objects.crd.cel_cost.types import (
    ANY,
    BOOL,
    DOUBLE,
    DYN,
    INT,
    STRING,
    CelType,
    NoEstimate,
    common_type,
    field_type,
    item_type,
    optional,
)

ResultType = Callable[[Estimate | None, Sequence[Estimate]], CelType]


def _fixed(kind: CelType) -> ResultType:
    return lambda target, arguments: kind


def _item_of_target(target: Estimate | None, arguments: Sequence[Estimate]) -> CelType:
    if target is None:
        raise NoEstimate
    return item_type(target.type)


def _value(target: Estimate | None, arguments: Sequence[Estimate]) -> CelType:
    if target is None or target.type.item is None:
        raise NoEstimate
    return target.type.item


def _arithmetic(target: Estimate | None, arguments: Sequence[Estimate]) -> CelType:
    return common_type([argument.type for argument in arguments])


def _sum_type(target: Estimate | None, arguments: Sequence[Estimate]) -> CelType:
    kinds = [argument.type for argument in arguments]
    return next((kind for kind in kinds if kind.name == "timestamp"), None) or common_type(kinds)


def _difference_type(target: Estimate | None, arguments: Sequence[Estimate]) -> CelType:
    first, second = (argument.type for argument in arguments)
    if first.name != "timestamp":
        return common_type([first, second])
    return CelType("duration") if second.name == "timestamp" else first


_LIST_OF_STRINGS = CelType("list", item=STRING)
_RESULTS: Mapping[str, ResultType] = {
    **dict.fromkeys(
        (
            "_&&_", "_||_", "!_", "_==_", "_!=_", "@in", *ORDERINGS, "contains", "startsWith", "endsWith",
            "matches", "isSorted", "hasValue", "@not_strictly_false", "bool",
        ),
        _fixed(BOOL),
    ),
    **dict.fromkeys(
        (
            "size", "int", "indexOf", "lastIndexOf", "getDate", "getDayOfMonth", "getDayOfWeek",
            "getDayOfYear", "getFullYear", "getHours", "getMilliseconds", "getMinutes", "getMonth",
            "getSeconds",
        ),
        _fixed(INT),
    ),
    **dict.fromkeys(
        (
            "string", "lowerAscii", "upperAscii", "substring", "trim", "replace", "join", "charAt", "format",
            "find", "reverse", "strings.quote",
        ),
        _fixed(STRING),
    ),
    **dict.fromkeys(("split", "findAll"), _fixed(_LIST_OF_STRINGS)),
    **dict.fromkeys(("sum", "min", "max"), _item_of_target),
    "value": _value,
    **dict.fromkeys(("_*_", "_/_", "_%_", "-_"), _arithmetic),
    "_+_": _sum_type,
    "_-_": _difference_type,
    "_[_]": lambda target, arguments: item_type(arguments[0].type),
    "_?_:_": lambda target, arguments: common_type([each.type for each in arguments[1:]]),
    "_[?_]": lambda target, arguments: optional(item_type(arguments[0].type)),
    "optional.of": lambda target, arguments: optional(arguments[0].type),
    "optional.ofNonZeroValue": lambda target, arguments: optional(arguments[0].type),
    "optional.none": _fixed(optional(ANY)),
    "orValue": lambda target, arguments: common_type([_value(target, ()), arguments[0].type]),
    "or": lambda target, arguments: common_type([target.type if target else DYN, arguments[0].type]),
    "bytes": _fixed(CelType("bytes")),
    "double": _fixed(DOUBLE),
    "uint": _fixed(CelType("uint")),
    "type": _fixed(CelType("type")),
    "duration": _fixed(CelType("duration")),
    "timestamp": _fixed(CelType("timestamp")),
}  # fmt: skip
"""the type of the result of each function that has an estimate"""


def result_type(node: FunctionCall, target: Estimate | None, arguments: Sequence[Estimate]) -> CelType:
    """Return the type of what a call returns.  Raises NoEstimate."""
    if node.function == "_?._":
        name, operand = node.arguments[1], arguments[0].type
        inner = operand.item if operand.name == "optional_type" and operand.item else operand
        return optional(field_type(inner, str(name.value) if isinstance(name, Literal) else ""))
    result = _RESULTS.get(node.function)
    if result is None:
        raise NoEstimate(node.function)
    return result(target, arguments)
