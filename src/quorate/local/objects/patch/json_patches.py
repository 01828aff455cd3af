"""JSON patch (RFC 6902) and JSON merge patch (RFC 7386), with kube-apiserver's limits."""

import copy
from typing import Any

import jsonpatch
import msgspec
from jsonpointer import JsonPointer, JsonPointerException

from quorate.api.codec import Json
from quorate.kube.patches import merged
from quorate.local.objects.errors import StatusError, bad_request


def merge_patch(target: Json, patch: Any) -> Json:
    """Merge a patch: null removes, objects merge, everything else replaces.

    Raises StatusError (400) if the patch is not an object.
    """
    if not isinstance(patch, dict):
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {go_kind(patch)} into Go value of type map"
        )
    return merged(target, patch)


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
MAX_COPIED_BYTES = 3 * 1024 * 1024
"""the most bytes that the copy operations of a patch duplicate together"""


def json_patch(target: Json, patch: Any) -> Json:
    """Apply all operations in order, or none of them; a patch of null has no operation.

    Raises StatusError: 400 if the patch is not a list of operations, 413 for too many operations, 422 if an
    operation fails or the copy operations duplicate too much.
    """
    if patch is None:
        return target
    if not isinstance(patch, list):
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {go_kind(patch)} into a list of operations"
        )
    if len(patch) > MAX_OPERATIONS:
        rule = f"The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {len(patch)}"
        raise StatusError(413, "RequestEntityTooLarge", f"Request entity too large: {rule}")
    # Operations change these copies in place: a copy per operation is quadratic.
    patched: Any = copy.deepcopy(target)
    copied_bytes = 0
    for operation in copy.deepcopy(patch):
        copied_bytes += _copied_bytes(patched, operation)
        if copied_bytes > MAX_COPIED_BYTES:
            raise _unprocessable()
        patched = _apply(patched, operation)
    if not isinstance(patched, dict):
        raise _unprocessable()
    return patched


def _copied_bytes(target: Any, operation: Any) -> int:
    """Return the size of the value that a copy operation duplicates, as JSON; 0 for other operations."""
    if not isinstance(operation, dict) or operation.get("op") != "copy":
        return 0
    try:
        return len(msgspec.json.encode(JsonPointer(operation["from"]).resolve(target, None)))
    except (JsonPointerException, KeyError, TypeError) as refusal:
        raise _unprocessable() from refusal


def _apply(target: Any, operation: Any) -> Any:
    """Apply one operation to `target`, which it may change.  Raises StatusError: 400, 422."""
    if not isinstance(operation, dict):
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {go_kind(operation)} into an operation"
        )
    try:
        operation = {**operation} | {
            name: _resolve_negative_index(target, operation[name])
            for name in ("path", "from")
            if isinstance(operation.get(name), str)
        }
        match operation.get("op"):
            case "add" | "replace" | "test" if "value" not in operation:
                return _apply(target, operation | {"value": None})
            case "replace" if _names_absent_field(target, operation["path"]):
                operation["op"] = "add"
            case "copy" if _names_absent_field(target, operation["from"]):
                operation |= {"op": "add", "value": None}
            case "test" if operation.get("value") is None and _names_absent_field(target, operation["path"]):
                return target
        return jsonpatch.apply_patch(target, [operation], in_place=True)
    except (jsonpatch.JsonPatchException, JsonPointerException, KeyError, TypeError) as refusal:
        raise _unprocessable() from refusal


def _resolve_negative_index(target: Any, path: str) -> str:
    """Return a path with its last index counted from the start, as kube-apiserver allows -1 for the last."""
    holder_path, _, last = path.rpartition("/")
    if not (last.startswith("-") and last[1:].isdecimal() and len(last) < 10):
        return path
    holder = JsonPointer(holder_path).resolve(target)
    index = int(last) + len(holder) if isinstance(holder, list) else -1
    return f"{holder_path}/{index}" if index >= 0 else path


def _names_absent_field(target: Any, path: str) -> bool:
    """Return True if the last step names an absent field, which counts as null in kube-apiserver."""
    holder, last = JsonPointer(path).to_last(target)
    return isinstance(holder, dict) and last is not None and last not in holder


def _unprocessable() -> StatusError:
    """Return the error of a patch that does not apply; kube-apiserver gives no details."""
    return StatusError(422, "Invalid", "the server rejected our request due to an error in our request", {})
