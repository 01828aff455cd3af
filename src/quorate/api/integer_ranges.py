"""Integers in objects that are written, limited to the ranges that the API stores.

Sums and counts are Python integers without a bound.  A field of a custom resource has the format int32 or
int64, and the API server refuses a whole object, at every retry, for one number beyond it.  The ranges are
those of ``Int32`` and ``Int64`` in the types of ``api``.
"""

import re
from functools import cache
from typing import Any, Final

from msgspec import inspect

from quorate.api import codec

# An integer beyond int32 has ten digits or more.  Most writes contain none and are not decoded.
_MANY_DIGITS: Final = re.compile(rb"[:\[,]-?[0-9]{10}")


def within_ranges(type_: Any, encoded: bytes) -> bytes:
    """Limit the integers in an object of ``type_``, or in a merge patch of one; the rest is unchanged."""
    if _MANY_DIGITS.search(encoded) is None:
        return encoded
    everything: Any = Any
    return codec.encode(_limited(codec.decode(everything, encoded), _type_info(type_)))


@cache
def _type_info(type_: Any) -> inspect.Type:
    return inspect.type_info(type_)


def _limited(value: Any, declared: inspect.Type) -> Any:
    match declared, value:
        case inspect.UnionType(types), _:
            for type_ in types:
                value = _limited(value, type_)
            return value
        case inspect.IntType(ge=int(minimum), le=int(maximum)), int() | float():
            # The decoder returns an integer beyond 64 bits as a float.
            return max(minimum, min(int(value), maximum))
        case inspect.StructType(fields=fields), dict():
            of_field = {field.encode_name: field.type for field in fields}
            return {
                name: _limited(part, of_field[name]) if name in of_field else part
                for name, part in value.items()
            }
        case inspect.DictType(value_type=inner), dict():
            return {name: _limited(part, inner) for name, part in value.items()}
        case ((inspect.VarTupleType(item_type=inner) | inspect.ListType(item_type=inner)), list()):
            return [_limited(part, inner) for part in value]
        case _:
            return value
