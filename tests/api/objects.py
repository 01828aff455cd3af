"""Hypothesis strategies for objects of any struct."""

from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
from hypothesis import strategies as st

from quorate.api.quantity import Quantity

_TEXTS = st.sampled_from(["", "a", "main", "default-flavor", "x.example.com/y", "naïve ☃"])
_MOMENTS = st.integers(0, 4 * 10**9).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
_SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    str: _TEXTS,
    int: st.integers(-(2**31), 2**31 - 1),
    bool: st.booleans(),
    datetime: _MOMENTS,
    Quantity: st.integers(0, 2**70).map(Quantity),
    msgspec.Raw: st.sampled_from([msgspec.Raw(b"{}"), msgspec.Raw(b'{"spec":{"unknown":[1.5]}}')]),
    msgspec.UnsetType: st.just(msgspec.UNSET),
    type(None): st.none(),
}


@cache
def instances(type_: Any) -> st.SearchStrategy[Any]:
    """Generate objects of a struct, or values of the type of one of its fields."""
    if type_ in _SCALARS:
        return _SCALARS[type_]
    if supertype := getattr(type_, "__supertype__", None):
        return instances(supertype)
    arguments = get_args(type_)
    match get_origin(type_):
        case origin if origin is Annotated:
            return instances(arguments[0])
        case origin if origin is Literal:
            return st.sampled_from(arguments)
        case origin if origin in (Union, UnionType):
            return st.one_of(*map(instances, arguments))
        case origin if origin is tuple:
            return st.one_of(st.just(()), st.tuples(instances(arguments[0])))
        case origin if origin in (dict, Mapping):
            return st.dictionaries(_TEXTS, instances(arguments[1]), max_size=1)
    fields = {field.name: instances(field.type) for field in msgspec.structs.fields(type_)}
    return st.builds(type_, **fields)
