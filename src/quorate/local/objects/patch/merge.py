"""JSON merge patch (RFC 7386)."""

from typing import Any

from quorate.local.objects.types import Json
from quorate.local.server.errors import bad_request


def merge_patch(target: Json, patch: Any) -> Json:
    """The object with the patch merged in: null removes, objects merge, everything else replaces.

    Raises StatusError (400) when the patch is not an object.
    """
    if not isinstance(patch, dict):
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {go_kind(patch)} into Go value of type map"
        )
    merged: Json = _merge(target, patch)
    return merged


def _merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for name, part in patch.items():
        if part is None:
            merged.pop(name, None)
        else:
            merged[name] = _merge(merged.get(name), part)
    return merged


def go_kind(value: Any) -> str:
    """What kube-apiserver calls a JSON value of this type in its messages."""
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return "number"
        case list():
            return "array"
        case dict():
            return "object"
        case _:
            return "string"
