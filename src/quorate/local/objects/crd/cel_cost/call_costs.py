"""What the calls of functions and operators cost besides their arguments, and the sizes of their results.

Sources: cel-go's `checker.Cost`, and `k8s.io/apiserver/pkg/cel/library` for the functions of Kubernetes.
"""

import math
from collections.abc import Callable, Sequence

from quorate.local.objects.crd.cel_cost.estimates import ONE, UNKNOWN, Estimate, Size, capped, scaled, total
from quorate.local.objects.crd.cel_cost.syntax import FunctionCall, Literal
from quorate.local.objects.crd.cel_cost.types import OPEN_TYPES

ORDERINGS = frozenset(("_<_", "_<=_", "_>_", "_>=_"))

_PER_CHARACTER, _PER_REGEX_CHARACTER = 0.1, 0.25

ItemSize = Callable[[Estimate], Size | None]


def call_cost(
    node: FunctionCall, target: Estimate | None, arguments: Sequence[Estimate], item_size: ItemSize
) -> tuple[int, Size | None]:
    """Return what a call costs besides its arguments, and the size of its result if it is known."""
    sizes = [argument.size_or_unknown for argument in arguments]
    if target is not None:
        return _method_cost(node, target, sizes, item_size)
    name = node.function
    if name in ("_&&_", "_||_"):
        return 0, None
    if name in ("_==_", "_!=_"):
        return _comparison(sizes), None
    if name in ORDERINGS:
        return (_comparison(sizes) if _may_be(arguments, "string", "bytes") else 1), None
    if name == "_+_":
        return _addition(arguments, sizes)
    if name == "@in":
        return _membership(arguments[1]), None
    if name == "bytes" and _may_be(arguments, "string"):
        return _text_cost(arguments[0]), Size(sizes[0].low, capped(sizes[0].high * 4))
    if name == "string" and _may_be(arguments, "bytes"):
        return _text_cost(arguments[0]), Size(sizes[0].low // 4, sizes[0].high)
    if name == "strings.quote":
        size = Size(sizes[0].low + 2, capped(sizes[0].high * 2 + 2))
        return sizes[0].cost(_PER_CHARACTER), size
    return 1, None


def _method_cost(
    node: FunctionCall, target: Estimate, sizes: Sequence[Size], item_size: ItemSize
) -> tuple[int, Size | None]:
    own = target.size_or_unknown
    match node.function:
        case "startsWith" | "endsWith":
            return sizes[0].cost(_PER_CHARACTER), None
        case "matches":
            return _regex_cost(own, sizes[0]), None
        case "contains":
            return capped(own.cost(_PER_CHARACTER) * sizes[0].cost(_PER_CHARACTER)), None
        case "find" | "findAll":
            return _regex_cost(own, sizes[0]), Size(0, own.high)
        case "lowerAscii" | "upperAscii" | "substring" | "trim":
            return own.cost(_PER_CHARACTER), own
        case "format":
            return own.cost(_PER_CHARACTER), None
        case "replace":
            return own.cost(2 * _PER_CHARACTER), _replaced(own, sizes[0], sizes[1])
        case "split":
            limit = node.arguments[1] if len(node.arguments) > 1 else None
            most = own.high
            if isinstance(limit, Literal) and isinstance(limit.value, int):
                most = limit.value % (1 << 64)
            return own.cost(2 * _PER_CHARACTER), Size(0, most)
        case "join":
            size = _joined(target, sizes, item_size)
            return size.cost(_PER_CHARACTER), size
        case "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf":
            return _traversal(target, item_size), None
        case _:
            return 1, None


def _traversal(target: Estimate, item_size: ItemSize) -> int:
    own, item = target.size_or_unknown, target.type.item
    if item is None:
        return own.cost(_PER_CHARACTER)
    each = 1
    if item.name in ("string", "bytes"):
        each = total(each, (item_size(target) or UNKNOWN).cost(_PER_CHARACTER))
    return capped(own.high * each)


def _joined(target: Estimate, sizes: Sequence[Size], item_size: ItemSize) -> Size:
    own = target.size_or_unknown
    size = own.times(item_size(target) or UNKNOWN) if target.type.item is not None else Size(0, 0)
    if sizes:
        size = size.plus(sizes[0].times(Size(max(0, own.low - 1), max(0, own.high - 1))))
    return size


def _may_be(values: Sequence[Estimate], *names: str) -> bool:
    """Return True if the types of all values allow the overload of ``names``."""
    return all(value.type.name in names or value.type.name in OPEN_TYPES for value in values)


def _membership(container: Estimate) -> int:
    """Return the cost of `in`: that of a list depends on its length, that of a map does not."""
    if not _may_be([container], "list"):
        return 1
    return max(int(container.type.name in OPEN_TYPES), container.size_or_unknown.high)


def _text_cost(text: Estimate) -> int:
    return max(int(text.type.name in OPEN_TYPES), text.size_or_unknown.cost(_PER_CHARACTER))


def _comparison(sizes: Sequence[Size]) -> int:
    return scaled(min(size.high for size in sizes), _PER_CHARACTER)


def _addition(arguments: Sequence[Estimate], sizes: Sequence[Size]) -> tuple[int, Size | None]:
    both = sizes[0].plus(sizes[1])
    if _may_be(arguments, "string") or _may_be(arguments, "bytes"):
        open_types = all(argument.type.name in OPEN_TYPES for argument in arguments)
        return max(int(open_types), both.cost(_PER_CHARACTER)), both
    return 1, both if _may_be(arguments, "list") else None


def _regex_cost(text: Size, pattern: Size) -> int:
    # The text counts as one character longer, so that an empty one is not free.
    return capped(text.plus(ONE).cost(_PER_CHARACTER) * pattern.cost(_PER_REGEX_CHARACTER))


def _replaced(text: Size, old: Size, new: Size) -> Size:
    """Return the size of a text after `replace`."""
    if old.low == 0:
        high = capped(capped(text.high + 1) * new.high + text.high)
    elif new.high <= old.low:
        high = text.high
    else:
        high = capped(math.ceil(text.high / old.low) * new.high)
    if old.high == 0:
        low = capped((text.low + 1) * new.low + text.low)
    elif old.high <= new.low:
        low = text.low
    else:
        low = capped(math.ceil(text.low / old.high) * new.low)
    return Size(low, high)
