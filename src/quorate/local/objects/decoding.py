"""Strict decoding of JSON objects of built-in kinds.

Errors and normal forms follow kube-apiserver, which decodes into Go structs: quantities in canonical form,
times in UTC and whole seconds.
"""

import base64
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from quorate.api.codec import Json
from quorate.api.quantity import InvalidQuantity
from quorate.local.objects.patch.json_patches import go_kind
from quorate.local.objects.quantity_text import MILLI, NANO, quantity_error, stored_text
from quorate.local.objects.schema_types import ListOf, MapOf, Scalar, SchemaOr, Type, Untyped


class UndecodableObject(Exception):
    """A value has the wrong type for its field; the text is kube-apiserver's."""


def decode_object(obj: Json, kind: MapOf) -> tuple[Json, list[str]]:
    """Return the object without unknown fields and nulls, and the paths of the unknown fields.

    Raises UndecodableObject.
    """
    unknown: list[str] = []
    return dict(_fields(obj, kind, kind.name, "", unknown)), unknown


def _fields(obj: Json, kind: MapOf, owner: str, path: str, unknown: list[str]) -> Iterator[tuple[str, Any]]:
    """`owner` is the Go type that messages name, with the path below it."""
    for name, part in obj.items():
        here = f"{path}.{name}" if path else name
        declared = kind.field_type(name)
        if declared is None:
            unknown.append(here)
        elif part is not None:
            below = f"{owner}.{name}" if name in kind.fields else owner
            yield name, _value(part, declared, below, here, unknown)


def _value(value: Any, kind: Type, owner: str, path: str, unknown: list[str]) -> Any:
    match kind:
        case SchemaOr(schema=schema, alternative=alternative):
            return _value(value, schema if isinstance(value, dict) else alternative, owner, path, unknown)
        case Untyped():
            return value
        case Scalar(name):
            return _scalar(value, name, owner)
        case ListOf(item):
            if not isinstance(value, list):
                raise _unmarshal_error(value, owner, "a list")
            return [_value(part, item, owner, f"{path}[{n}]", unknown) for n, part in enumerate(value)]
        case MapOf(rest=Scalar("quantity")) if isinstance(value, dict):
            return {name: _amount(part, owner) for name, part in value.items() if part is not None}
        case MapOf():
            if not isinstance(value, dict):
                raise _unmarshal_error(value, owner, kind.name or "a map")
            return dict(_fields(value, kind, kind.name or owner, path, unknown))


def _scalar(value: Any, name: str, owner: str) -> Any:
    match name, value:
        case "quantity", str() | int() | float() if not isinstance(value, bool):
            return _quantity(value)
        case "string", str():
            return value
        case "time" | "micro-time", str():
            return _time(value, name == "micro-time")
        case "bytes", str():
            return _bytes(value)
        case "boolean", bool():
            return value
        case "integer", int() if not isinstance(value, bool):
            return _integer(value, owner)
        case "number" | "int-or-string", int() if not isinstance(value, bool):
            return value
        case "number", float():
            return value
        case "int-or-string", str():
            return value
    raise _unmarshal_error(value, owner, name)


INT64_FIELDS = frozenset(
    {
        "activeDeadlineSeconds", "deletionGracePeriodSeconds", "expirationSeconds", "fsGroup", "generation",
        "gracePeriodSeconds", "maxItems", "maxLength", "maxProperties", "minItems", "minLength",
        "minProperties", "observedGeneration", "runAsGroup", "runAsUser", "sizeBytes", "supplementalGroups",
        "terminationGracePeriodSeconds", "tolerationSeconds",
    }
)  # fmt: skip
"""Integers of 64 bits; all others have 32."""


def _integer(value: int, owner: str) -> int:
    bits = 64 if owner.rpartition(".")[2] in INT64_FIELDS else 32
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise UndecodableObject(
            f"json: cannot unmarshal number {value} into Go struct field {owner} of type int{bits}"
        )
    return value


def _amount(value: Any, owner: str) -> str:
    """Decode an amount in a map of resources, which the server rounds up to thousandths."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _unmarshal_error(value, owner, "quantity")
    return _quantity(value, MILLI)


def _quantity(value: str | float, finest: int = NANO) -> str:
    text = value if isinstance(value, str) else repr(value)
    try:
        return stored_text(text, finest)
    except InvalidQuantity as refusal:
        raise UndecodableObject(quantity_error(text)) from refusal


def _time(value: str, micro: bool) -> str:
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as refusal:
        raise UndecodableObject(f'parsing time "{value}": cannot parse "{value}" as RFC 3339') from refusal
    if moment.tzinfo is None:
        raise UndecodableObject(f'parsing time "{value}": cannot parse "" as "Z07:00"')
    try:
        moment = moment.astimezone(UTC)
    except OverflowError as refusal:
        raise UndecodableObject(f'parsing time "{value}": year outside of 1 to 9999') from refusal
    text = moment.replace(tzinfo=None).isoformat(timespec="microseconds" if micro else "seconds")
    return f"{text}Z"  # not strftime, which does not pad the year


def _bytes(value: str) -> str:
    try:
        base64.b64decode(value, validate=True)
    except ValueError as refusal:  # binascii.Error, and any other for text that is not ASCII
        raise UndecodableObject("illegal base64 data") from refusal
    return value


def _unmarshal_error(value: Any, owner: str, wanted: str) -> UndecodableObject:
    return UndecodableObject(
        f"json: cannot unmarshal {go_kind(value)} into Go struct field {owner} of type {wanted}"
    )
