"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386), with kube-apiserver's limits."""

from typing import Any

import jsonpatch
from jsonpointer import JsonPointer, JsonPointerException

from quorate.local.objects.schema_types import Json
from quorate.local.server.errors import StatusError, bad_request


def merge_patch(target: Json, patch: Any) -> Json:
    """Merge a patch: null removes, objects merge, everything else replaces.

    Raises StatusError (400) if the patch is not an object.
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
    """Return kube-apiserver's name for the type of a JSON value."""
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
    """Apply all operations in order, or none of them.

    Raises StatusError: 400 if the patch is not a list of operations, 413 for too many operations, 422 if an
    operation fails.
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
    """Return True if the last step names an absent field, which kube-apiserver adds on replace."""
    holder, last = JsonPointer(path).to_last(target)
    return isinstance(holder, dict) and last is not None and last not in holder


def _unprocessable() -> StatusError:
    """Return the error of a patch that does not apply; kube-apiserver gives no details."""
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})
