"""The smallest write that makes one value into another: JSON merge patches (RFC 7396).

Reviews answer with JSON patches (RFC 6902) instead.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import msgspec

from quorate.api import codec
from quorate.api.meta import ObjectMeta, Struct
from quorate.kube.resources import Json

Value = Struct | Mapping[str, Any]


def merge_patch(old: Value, new: Value) -> Json:
    """The merge patch that applied to ``old`` gives ``new``; empty when there is nothing to write.

    Fields that ``new`` does not have become null, and lists travel whole.  A merge patch cannot say
    "null", so a field that is None counts as absent on both sides.
    """
    return _difference(_as_json(old), _as_json(new))


class Operation(msgspec.Struct, frozen=True, omit_defaults=True):
    """One step of a JSON patch; ``path`` is a JSON pointer."""

    op: Literal["add", "replace", "remove"]
    path: str
    value: Any = msgspec.UNSET


def json_patch(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[Operation, ...]:
    """The JSON patch that applied to ``old`` gives ``new``.  Lists that differ travel whole."""
    return tuple(_operations("", old, new))


def _operations(path: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[Operation]:
    for name in old:
        if name not in new:
            yield Operation("remove", _pointer(path, name))
    for name, after in new.items():
        place = _pointer(path, name)
        if name not in old:
            yield Operation("add", place, after)
            continue
        before = old[name]
        if isinstance(before, dict) and isinstance(after, dict):
            yield from _operations(place, before, after)
        elif not _same(before, after):
            yield Operation("replace", place, after)


def _pointer(path: str, name: str) -> str:
    return f"{path}/{name.replace('~', '~0').replace('/', '~1')}"


def merged(document: Json, patch: Mapping[str, Any]) -> Json:
    """What the server makes of ``document`` by the merge patch."""
    result = {name: value for name, value in document.items() if name not in patch}
    for name, value in patch.items():
        if isinstance(value, Mapping):
            before = document.get(name)
            result[name] = merged(before if isinstance(before, dict) else {}, value)
        elif value is not None:
            result[name] = value
    return result


def status_merge_patch(metadata: ObjectMeta, old: Value, new: Value) -> Json:
    """The merge patch of the status subresource from ``old`` to ``new``; empty when they are equal.

    It carries the version of the object that ``new`` was decided on, so that the server answers with a
    conflict when the object is another by now.
    """
    changed = merge_patch(old, new)
    if not changed:
        return {}
    return {"metadata": {"resourceVersion": metadata.resource_version}, "status": changed}


def _as_json(value: Value) -> Json:
    # A round trip rather than to_builtins: it is as fast, and sees Raw fields as the JSON they hold.
    return codec.decode(dict[str, Any], codec.encode(value))


def _difference(old: Json, new: Json) -> Json:
    patch: Json = {name: None for name, value in old.items() if value is not None and new.get(name) is None}
    for name, after in new.items():
        before = old.get(name)
        if after is None or _same(before, after):
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            if inner := _difference(before, after):
                patch[name] = inner
        else:
            patch[name] = _without_nulls(after)
    return patch


def _same(a: Any, b: Any) -> bool:
    """Equality of JSON values: to Python ``True`` equals ``1``, and ``1`` equals ``1.0``."""
    if a != b or type(a) is not type(b):
        return False
    match a:
        case dict():
            return all(_same(value, b[name]) for name, value in a.items())
        case list():
            return all(_same(one, other) for one, other in zip(a, b, strict=True))
        case _:
            return True


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return value
