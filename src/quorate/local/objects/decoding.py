"""Strict decoding of JSON objects of built-in kinds.

Errors and normal forms follow kube-apiserver, which decodes into Go structs: quantities in canonical form,
times in UTC and whole seconds.

A quantity is stored as a text that is canonical with two exceptions (``resource.Quantity`` in
k8s.io/apimachinery): a text with few digits is kept if its exponent is a multiple of three and it does not
end in zeros (``1.500`` and ``+5``, but not ``1.50``), and a decimal amount without a suffix for its power of
ten loses that power.
"""

import base64
import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from quorate.api.codec import Json
from quorate.api.quantity import (
    SPACES,
    Form,
    InvalidQuantity,
    Notation,
    Quantity,
    parse_quantity,
    split_quantity,
)
from quorate.local.objects.patch.json_patches import go_kind
from quorate.local.objects.schema_types import ListOf, MapOf, Scalar, SchemaOr, Type, Untyped

_SUFFIXES: Final = {-9: "n", -6: "u", -3: "m", 3: "k", 6: "M", 9: "G", 12: "T", 15: "P", 18: "E"}
_MAX_KEPT_DIGITS: Final = 18  # they fit into 64 bits
NANO: Final = -9
MILLI: Final = -3  # the smallest unit in maps of resources

TEXT: Final = Scalar("string")
_PATTERN: Final = "^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$"
_WITH_SUFFIX: Final = re.compile(r"[+-]?[0-9]*(\.[0-9]*)?(?P<suffix>[eEinumkKMGTP]*[-+]?[0-9]*)")
_NO_DIGITS: Final = re.compile(r"[+-]?\.?([KMGTPE]i|e-[0-9]+|E-[0-9]+)")


def stored_text(text: str, finest: int = NANO) -> str:
    """Return the text that the server answers for a quantity.  Raises ``InvalidQuantity``.

    ``finest`` is the power of ten of the smallest unit, to which amounts are rounded up.
    """
    text = text.strip(SPACES)
    notation = split_quantity(text)
    if _is_kept(notation, finest):
        return text
    if notation.form is Form.BINARY_SI:
        return str(_rounded(parse_quantity(text), finest))
    return _decimal_text(notation, finest)


def quantity_error(text: str) -> str:
    """Return the server's message about a text that is no quantity."""
    text = text.strip(SPACES)
    if text and _NO_DIGITS.fullmatch(text):
        return "unable to parse numeric part of quantity"
    if text and _WITH_SUFFIX.fullmatch(text):
        return "unable to parse quantity's suffix"
    return f"quantities must match the regular expression '{_PATTERN}'"


def _rounded(quantity: Quantity, finest: int) -> Quantity:
    unit: int = 10 ** (finest - NANO)
    rounded = -(-abs(quantity.nanos) // unit) * unit
    return Quantity(rounded if quantity.nanos >= 0 else -rounded, quantity.form)


def _is_kept(notation: Notation, finest: int) -> bool:
    """Return True if the server regards the text as canonical."""
    digits = (notation.whole or "0") + notation.fraction
    if notation.form is Form.BINARY_SI:
        # A power of 1024 takes three digits.
        fits = not notation.fraction and len(digits) + 3 * notation.power < 15
        return fits and int(digits) % 8 != 0
    return (
        len(digits) <= _MAX_KEPT_DIGITS
        and notation.scale >= finest
        and notation.scale % 3 == 0
        and not digits.startswith("0")
        and not digits.endswith("000")
    )


def _decimal_text(notation: Notation, finest: int) -> str:
    digits, scale = notation.digits, notation.scale
    if scale < finest and digits:
        digits, scale = _rounded_up(digits, scale - finest), finest
    if not digits:
        return "0"
    significant = digits.rstrip("0")
    scale += len(digits) - len(significant)
    zeros = scale % 3
    exponent = scale - zeros
    if notation.form is Form.DECIMAL_SI:
        suffix = _SUFFIXES.get(exponent, "")
    else:
        suffix = f"e{exponent}" if exponent else ""
    return f"{'-' if notation.negative else ''}{significant}{'0' * zeros}{suffix}"


def _rounded_up(digits: str, places: int) -> str:
    """Return ``digits * 10**places`` for negative ``places``, rounded up, however many digits there are."""
    kept, cut = digits[:places], digits[places:]
    if not cut.strip("0"):
        return kept
    head = kept.rstrip("9")
    carried = head[:-1] + str(int(head[-1]) + 1) if head else "1"
    return carried + "0" * (len(kept) - len(head))


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
        elif declared == TEXT and name not in kind.fields:
            yield name, ""  # as Go decodes null


def _value(value: Any, kind: Type, owner: str, path: str, unknown: list[str]) -> Any:
    match kind:
        case SchemaOr(schema=schema, alternative=alternative):
            return _value(value, schema if isinstance(value, dict) else alternative, owner, path, unknown)
        case Untyped():
            return value
        case Scalar(name):
            return _scalar(value, name, owner, path)
        case ListOf(item):
            if not isinstance(value, list):
                raise _unmarshal_error(value, owner, path, kind)
            return [
                _zero(item) if part is None else _value(part, item, owner, f"{path}[{n}]", unknown)
                for n, part in enumerate(value)
            ]
        case MapOf(rest=Scalar("quantity")) if isinstance(value, dict):
            return {name: _amount(part, owner, path) for name, part in value.items() if part is not None}
        case MapOf():
            if not isinstance(value, dict):
                raise _unmarshal_error(value, owner, path, kind)
            return dict(_fields(value, kind, kind.name or owner, path, unknown))


def _zero(kind: Type) -> Any:
    """Return the value of a null in a list, as Go decodes it; None if the type has no zero value here."""
    match kind:
        case Scalar(name):
            return _ZEROS.get(name)
        case MapOf():
            return {}
    return None


_ZEROS: Final[Mapping[str, Any]] = {
    "string": "", "boolean": False, "int32": 0, "int64": 0, "number": 0, "quantity": "0",
}  # fmt: skip


def _scalar(value: Any, name: str, owner: str, path: str) -> Any:
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
        case "int32" | "int64", int() if not isinstance(value, bool):
            return _integer(value, name, owner, path)
        case "number" | "int-or-string", int() if not isinstance(value, bool):
            return value
        case "number", float():
            return value
        case "int-or-string", str():
            return value
    raise _unmarshal_error(value, owner, path, Scalar(name))


def _integer(value: int, name: str, owner: str, path: str) -> int:
    bits = int(name.removeprefix("int"))
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise _unmarshal_error(value, owner, path, Scalar(name))
    return value


def _amount(value: Any, owner: str, path: str) -> str:
    """Decode an amount in a map of resources, which the server rounds up to thousandths."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise _unmarshal_error(value, owner, path, Scalar("quantity"))
    return _quantity(value, MILLI)


def _quantity(value: str | float, finest: int = NANO) -> str:
    text = value if isinstance(value, str) else repr(value)
    try:
        return stored_text(text, finest)
    except InvalidQuantity as refusal:
        raise UndecodableObject(quantity_error(text)) from refusal


def _time(value: str, micro: bool) -> str:
    if micro and (seconds := _SECONDS.match(value)) and not _MICROSECONDS.fullmatch(value, seconds.end()):
        rest = value[seconds.end() :]
        raise UndecodableObject(
            f'parsing time "{value}" as "{_MICRO_LAYOUT}": cannot parse "{rest}" as ".000000"'
        )
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as refusal:
        if micro and not re.match(r"[0-9]{4}", value):
            problem = f'parsing time "{value}" as "{_MICRO_LAYOUT}": cannot parse "{value}" as "2006"'
            raise UndecodableObject(problem) from refusal
        raise UndecodableObject(f'parsing time "{value}": cannot parse "{value}" as RFC 3339') from refusal
    if moment.tzinfo is None:
        raise UndecodableObject(f'parsing time "{value}": cannot parse "" as "Z07:00"')
    try:
        moment = moment.astimezone(UTC)
    except OverflowError as refusal:
        raise UndecodableObject(f'parsing time "{value}": year outside of 1 to 9999') from refusal
    text = moment.replace(tzinfo=None).isoformat(timespec="microseconds" if micro else "seconds")
    return f"{text}Z"  # not strftime, which does not pad the year


_MICRO_LAYOUT: Final = "2006-01-02T15:04:05.000000Z07:00"
_SECONDS: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}")
_MICROSECONDS: Final = re.compile(r"\.[0-9]{6}(Z|[+-][0-9]{2}:[0-9]{2})")


def _bytes(value: str) -> str:
    try:
        base64.b64decode(value, validate=True)
    except ValueError as refusal:  # binascii.Error, and any other for text that is not ASCII
        raise UndecodableObject("illegal base64 data") from refusal
    return value


def _unmarshal_error(value: Any, owner: str, path: str, wanted: Type) -> UndecodableObject:
    """Return the error of Go's decoder, which names the struct, the path of the field, and the Go type.

    The path has neither indexes of lists nor keys of maps.
    """
    struct, _, field = owner.rpartition(".")
    fields = re.sub(r"\[\d+\]", "", path)
    if not f".{fields}".endswith(f".{field}"):  # the value of a key of the map `field`
        fields = fields[: f".{fields}".rfind(f".{field}.") + len(field)]
    kind = go_kind(value)
    if kind == "number" and isinstance(wanted, Scalar) and wanted.name in ("int32", "int64"):
        kind = f"number {value}"
    where = f"{struct}.{fields}" if struct else owner
    return UndecodableObject(
        f"json: cannot unmarshal {kind} into Go struct field {where} of type {_go_type(wanted, field)}"
    )


_GO_SCALARS: Final = {
    "boolean": "bool", "bytes": "[]uint8", "int-or-string": "intstr.IntOrString",
    "micro-time": "v1.MicroTime", "number": "float64", "quantity": "resource.Quantity",
    "string": "string", "time": "v1.Time",
}  # fmt: skip


def _go_type(kind: Type, field: str) -> str:
    match kind:
        case Scalar(name):
            return "types.UID" if (name, field) == ("string", "uid") else _GO_SCALARS.get(name, name)
        case ListOf(item):
            return f"[]{_go_type(item, field)}"
        case MapOf(name="", rest=Scalar("quantity")):
            return "v1.ResourceList"
        case MapOf(name="", rest=rest) if rest is not None:
            return f"map[string]{_go_type(rest, field)}"
        case MapOf(name=name):
            return f"v1.{name}"
    return "map[string]interface {}"
