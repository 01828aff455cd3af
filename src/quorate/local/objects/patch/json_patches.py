"""JSON patch (RFC 6902), with the limits and the leniences of kube-apiserver."""

from typing import Any

import jsonpatch
from jsonpointer import JsonPointer, JsonPointerException

from quorate.local.objects.schema_types import Json
from quorate.local.server.errors import StatusError, bad_request


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


MAX_OPERATIONS = 10_000


def json_patch(target: Json, patch: Any) -> Json:
    """The object after all operations in order, or none of them.

    Raises StatusError: 400 when the patch is not a list of operations, 413 for too many of them, 422 when
    one of them fails or does not fit the object.
    """
    if not isinstance(patch, list):
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {go_kind(patch)} into a list of operations"
        )
    if len(patch) > MAX_OPERATIONS:
        why = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        raise StatusError(413, "RequestEntityTooLarge", why)
    patched: Any = target
    for operation in patch:
        patched = _apply(patched, operation)
    if not isinstance(patched, dict):
        raise _unprocessable()
    return patched


def _apply(target: Any, operation: Any) -> Any:
    if not isinstance(operation, dict):
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {go_kind(operation)} into an operation"
        )
    try:
        if operation.get("op") == "replace" and _names_absent_field(target, operation["path"]):
            operation = {**operation, "op": "add"}
        return jsonpatch.apply_patch(target, [operation])
    except (jsonpatch.JsonPatchException, JsonPointerException, KeyError, TypeError) as refusal:
        raise _unprocessable() from refusal


def _names_absent_field(target: Any, path: str) -> bool:
    """Whether the last step names a field its object does not have: kube-apiserver then adds it."""
    holder, last = JsonPointer(path).to_last(target)
    return isinstance(holder, dict) and last is not None and last not in holder


def _unprocessable() -> StatusError:
    """The patch does not fit the object; kube-apiserver does not say where."""
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})
