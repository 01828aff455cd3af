"""Comparison of pod specs that different programs have written.

A client with types leaves empty fields out and writes each amount in its shortest form; a manifest may have
``cpu: 1``, ``readOnly: false`` and ``env: []``.  The API server keeps both forms in objects of a CRD.
"""

from collections.abc import Callable
from typing import Any, Final

from quorate.api.quantity import InvalidQuantity, parse_quantity

_AMOUNTS: Final = ("requests", "limits", "overhead")  # fields of pod specs with amounts by resource
_EMPTY: Final[tuple[Any, ...]] = (None, "", {}, [])


def normal_form(value: Any, *, zeros: bool = False) -> Any:
    """Return decoded JSON without empty fields, and with its amounts as numbers of nanos.

    ``zeros``: leave out false and 0, too, as a field of a pod that is no pointer does.
    """
    return _with_amounts(value, _nanos, lambda item: item in _EMPTY or (zeros and item in (False, 0)))


def with_amounts_in_nanos(value: Any) -> Any:
    """Return decoded JSON with its amounts as numbers of nanos."""
    return _with_amounts(value, _nanos)


def with_amounts_as_text(value: Any) -> Any:
    """Return decoded JSON in which an amount with a fraction is a text: a Workload has no such numbers."""
    return _with_amounts(value, lambda amount: str(amount) if isinstance(amount, float) else amount)


def _with_amounts(
    value: Any, write: Callable[[Any], Any], is_absent: Callable[[Any], bool] = lambda _: False
) -> Any:
    match value:
        case dict():
            fields = {
                key: {resource: write(amount) for resource, amount in item.items()}
                if key in _AMOUNTS and isinstance(item, dict)
                else _with_amounts(item, write, is_absent)
                for key, item in value.items()
            }
            return {key: item for key, item in fields.items() if not is_absent(item)}
        case list():
            return [_with_amounts(item, write, is_absent) for item in value]
        case _:
            return value


def _nanos(amount: Any) -> Any:
    try:
        return parse_quantity(str(amount) if isinstance(amount, float) else amount).nanos
    except InvalidQuantity:
        return amount
