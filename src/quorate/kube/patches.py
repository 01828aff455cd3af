"""Patches as differences of two values: JSON merge patches (RFC 7396) for the API server.

Responses to admission reviews contain JSON patches (RFC 6902) instead.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from quorate.api import codec
from quorate.api.integer_ranges import within_ranges
from quorate.api.meta import ObjectMeta, Struct
from quorate.kube.resources import Json

Value = Struct | Mapping[str, Any]


def merge_patch(old: Value, new: Value) -> Json:
    """Return the merge patch from ``old`` to ``new``; empty if they are equal.

    Fields that ``new`` does not have are null in the patch, and lists are replaced.  A merge patch cannot set
    a field to null, so a field that is None counts as absent on both sides.
    """
    return _difference(_as_json(old), _as_json(new))


def whole_patch(new: Struct) -> Json | msgspec.Raw:
    """Return the merge patch from nothing to ``new``, encoded unless ``new`` has nulls."""
    encoded = within_ranges(type(new), codec.encode(new))
    return merge_patch({}, new) if codec.has_nulls(encoded) else msgspec.Raw(encoded)


def document_merge_patch(old: Json, new: Json) -> Json:
    """Return the merge patch from ``old`` to ``new``, which contain JSON values only.

    Parts that the two share are not compared.
    """
    return _difference(old, new)


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a JSON patch; ``path`` is a JSON pointer."""

    op: Literal["add", "replace", "remove"]
    path: str
    value: Any = msgspec.UNSET


def json_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Operation, ...]:
    """Return the JSON patch from ``old`` to ``new``; lists that differ are replaced."""
    return tuple(_operations("", old, new))


def _operations(path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Operation]:
    for name in old:
        if name not in new:
            yield Operation("remove", _pointer(path, name))
    for name, after in new.items():
        if name not in old:
            yield Operation("add", _pointer(path, name), after)
            continue
        before = old[name]
        if before is after:
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _operations(_pointer(path, name), before, after)
        elif not _same(before, after):
            yield Operation("replace", _pointer(path, name), after)


def _pointer(path: str, name: str) -> str:
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"


def merged(document: Json, patch: Mapping[str, Any]) -> Json:
    """Return ``document`` with the merge patch applied."""
    result = {name: value for name, value in document.items() if name not in patch}
    for name, value in patch.items():
        if isinstance(value, Mapping):
            before = document.get(name)
            result[name] = merged(before if isinstance(before, dict) else {}, value)
        elif value is not None:
            result[name] = value
    return result


def status_merge_patch(metadata: ObjectMeta, old: Value, new: Value) -> Json:
    """Return the merge patch of the status subresource from ``old`` to ``new``; empty if they are equal.

    It contains the resource version that ``new`` was decided on, so that the server answers with a conflict
    if the object has changed since.
    """
    changed = merge_patch(old, new)
    if not changed:
        return {}
    return {"metadata": {"resourceVersion": metadata.resource_version}, "status": changed}


def _as_json(value: Value) -> Json:
    # Encoding and decoding is as fast as to_builtins, and decodes Raw fields as well.
    encoded = codec.encode(value)
    if isinstance(value, Struct):
        encoded = within_ranges(type(value), encoded)  # as the server stores it: equal values are no patch
    return codec.decode(dict[str, Any], encoded)


def _difference(old: Json, new: Json) -> Json:
    patch: Json = {name: None for name, value in old.items() if value is not None and new.get(name) is None}
    for name, after in new.items():
        before = old.get(name)
        if after is None or after is before:
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            if inner := _difference(before, after):
                patch[name] = inner
        elif not _same(before, after):
            patch[name] = without_nulls(after)
    return patch


def _same(a: Any, b: Any) -> bool:
    """Equality of JSON values: to Python ``True`` equals ``1``, and ``1`` equals ``1.0``.

    A shared part is equal to itself, so that only parts that differ or were copied cost time.
    """
    if a is b:
        return True
    if type(a) is not type(b):
        return False
    match a:
        case dict():
            return a.keys() == b.keys() and all(_same(value, b[name]) for name, value in a.items())
        case list():
            return len(a) == len(b) and all(map(_same, a, b))
        case _:
            return bool(a == b)


def without_nulls(value: Any) -> Any:
    """Return ``value`` without the fields of objects that are null."""
    if isinstance(value, dict):
        return {name: without_nulls(inner) for name, inner in value.items() if inner is not None}
    return value
