"""Sets of field paths, for ownership and for differences between objects.

A path is a tuple of elements in the notation of `metadata.managedFields[].fieldsV1`: `f:name` for a field,
`k:{"type":"Ready"}` for an item of a list with keys, `v:"x"` for an item of a set. Each path is a member by
itself: owning a list item does not imply owning its fields. Kubernetes' structured merge defines the parts: a
field of an atomic type is one value; a merging object or list is owned part by part.
"""

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from quorate.api.codec import Json
from quorate.local.objects.schema_types import ListMergeType, ListOf, MapOf, Scalar, Type, Untyped

Path: TypeAlias = tuple[str, ...]
FieldSet: TypeAlias = frozenset[Path]

_UNDECLARED = Untyped()
_MAX_SHARED = 128
"""members of a set, or characters of a key, up to which what is made of it is kept"""


@dataclass(frozen=True, slots=True)
class Difference:
    """The differences between two objects; an added or removed part includes all its parts."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet

    @property
    def changed(self) -> FieldSet:
        return self.added | self.modified


def decode_fields_v1(fields_v1: Json) -> FieldSet:
    """Decode `fieldsV1`.  Raises ValueError if it is no tree of path elements."""
    return frozenset(_decode_fields_v1(fields_v1, ()))


def _decode_fields_v1(node: Json, path: Path) -> Iterator[Path]:
    for element, inner in node.items():
        if element == ".":
            yield path
            continue
        if element[:2] not in ("f:", "k:", "v:", "i:") or not isinstance(inner, dict):
            raise ValueError(element)
        here = (*path, element)
        if not inner:
            yield here
        yield from _decode_fields_v1(inner, here)


def encode_fields_v1(fields: FieldSet) -> Json:
    """Encode the set as `fieldsV1`: "." marks a member that also has members below it.

    The result is shared, because most objects of a kind are written alike: it must not be changed.
    """
    return _shared_fields_v1(fields) if len(fields) <= _MAX_SHARED else _fields_v1(fields)


@lru_cache(maxsize=1024)
def _shared_fields_v1(fields: FieldSet) -> Json:
    return _fields_v1(fields)


def _fields_v1(fields: FieldSet) -> Json:
    root: Json = {}
    for path in sorted(fields):  # a path sorts before the paths below it
        node = root
        for depth, element in enumerate(path, 1):
            if element not in node:
                node[element] = {}
            elif not node[element] and path[:depth] in fields:
                node[element]["."] = {}
            node = node[element]
    return root


def format_path(path: Path) -> str:
    """Return a path for messages: `.status.conditions[type="Ready"].status`."""
    text = ""
    for element in path:
        sort, _, value = element.partition(":")
        if sort == "f":
            text += f".{value}"
        elif sort == "k":
            pairs = (f"{key}={_compact(part)}" for key, part in json.loads(value).items())
            text += f"[{','.join(pairs)}]"
        else:
            text += f"[={value}]" if sort == "v" else f"[{value}]"
    return text


def item_element(kind: ListOf, item: Any) -> str:
    """Return the path element that identifies an item of a merging list.

    Raises KeyError if an item is not an object, or lacks a key without a default.
    """
    if kind.relation is ListMergeType.SET:
        return "v:" + _compact(item)
    if not isinstance(item, dict):
        raise KeyError(*kind.keys)
    keys = {key: item[key] if key in item else kind.defaults[key] for key in sorted(kind.keys)}
    if len(keys) == 1:
        ((name, text),) = keys.items()
        if type(text) is str and len(text) <= _MAX_SHARED:  # such as the type of a condition
            return _element_of_key(name, text)
    return "k:" + _compact(keys)


@lru_cache(maxsize=1024)
def _element_of_key(name: str, text: str) -> str:
    return "k:" + _compact({name: text})


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def resolve_type(kind: Type, value: Any) -> Type:
    """Return the type of `value`, which for an undeclared type depends on the value."""
    if isinstance(kind, Untyped) and not kind.atomic and isinstance(value, dict):
        return MapOf(rest=kind)
    return kind


def parts(kind: Type, value: Any) -> dict[str, tuple[Type, Any]] | None:
    """Return the separately owned parts of a value by path element; None if it is atomic."""
    match resolve_type(kind, value):
        case MapOf(atomic=False) as mapping if isinstance(value, dict):
            return {
                f"f:{name}": (mapping.field_type(name) or _UNDECLARED, part) for name, part in value.items()
            }
        case ListOf(relation=ListMergeType.SET | ListMergeType.MAP) as listing if isinstance(value, list):
            return {item_element(listing, item): (listing.item, item) for item in value}
        case _:
            return None


def applied_fields(value: Any, kind: Type) -> FieldSet:
    """Return all fields that an applied configuration owns."""
    return frozenset(_applied_fields(value, kind, ()))


def _applied_fields(value: Any, kind: Type, path: Path) -> Iterator[Path]:
    kind = resolve_type(kind, value)
    inner = parts(kind, value)
    if inner is None:
        # An absent value of a type with parts has no path of its own; its parent has it.
        if value is not None or isinstance(kind, Scalar | Untyped):
            yield path
        return
    for element, (part_kind, part) in inner.items():
        here = (*path, element)
        yield from _applied_fields(part, part_kind, here)
        # Items and undeclared fields are members besides their contents; a declared object only if it is
        # empty.
        free = not isinstance(kind, MapOf) or element[2:] not in kind.fields
        if free or part is None or part == {}:
            yield here


def compare(old: Any, new: Any, kind: Type) -> Difference:
    """Return the differences between `old` and `new`."""
    added: set[Path] = set()
    modified: set[Path] = set()
    removed: set[Path] = set()

    def whole(value: Any, kind: Type, path: Path, into: set[Path]) -> None:
        """Add all parts of an added or removed value, including `path` itself."""
        into.add(path)
        for element, (part_kind, part) in (parts(kind, value) or {}).items():
            whole(part, part_kind, (*path, element), into)

    def walk(old: Any, new: Any, kind: Type, path: Path) -> None:
        if _same(old, new):
            return
        if isinstance(old, dict) and isinstance(new, dict):
            old, new = _without_equal_fields(old, new)
        old_parts, new_parts = parts(kind, old), parts(kind, new)
        if not old_parts and not new_parts:
            modified.add(path)
            return
        # A side may be null or empty: the part existed, without contents.
        old_parts, new_parts = old_parts or {}, new_parts or {}
        for element in [*old_parts, *(element for element in new_parts if element not in old_parts)]:
            here = (*path, element)
            if element not in new_parts:
                whole(old_parts[element][1], old_parts[element][0], here, removed)
            elif element not in old_parts:
                whole(new_parts[element][1], new_parts[element][0], here, added)
            else:
                walk(old_parts[element][1], new_parts[element][1], new_parts[element][0], here)

    walk(old, new, kind, ())
    return Difference(frozenset(added), frozenset(modified), frozenset(removed))


def _same(old: Any, new: Any) -> bool:
    return type(old) is type(new) and bool(old == new)


def _without_equal_fields(old: Json, new: Json) -> tuple[Json, Json]:
    """Return both without equal fields, so that no paths are built for them."""
    agreed = {name for name, part in old.items() if name in new and _same(part, new[name])}
    if not agreed:
        return old, new
    return (
        {name: part for name, part in old.items() if name not in agreed},
        {name: part for name, part in new.items() if name not in agreed},
    )


def with_declared_ancestors(fields: FieldSet, kind: Type) -> FieldSet:
    """Return the set with all declared ancestors of its members."""
    return fields | frozenset(_declared_prefixes(fields, kind))


def _declared_prefixes(fields: Iterable[Path], kind: Type) -> Iterator[Path]:
    for path in fields:
        here: Type | None = kind
        for depth, element in enumerate(path):
            name = element[2:]
            if isinstance(here, MapOf) and element.startswith("f:"):
                if name in here.fields:
                    yield path[: depth + 1]
                here = here.field_type(name)
            else:
                here = here.item if isinstance(here, ListOf) else None


def remove_fields(value: Any, kind: Type, fields: FieldSet) -> Any:
    """Return the value without the parts in the set; a map or list left empty is removed too."""
    return _remove_fields(
        value, kind, fields, {path[:depth] for path in fields for depth in range(len(path))}, ()
    )


def _remove_fields(value: Any, kind: Type, fields: FieldSet, above: set[Path], path: Path) -> Any:
    inner = parts(kind, value)
    if path not in above or not inner:
        return value
    kept: dict[str, Any] = {}
    for element, (part_kind, part) in inner.items():
        here = (*path, element)
        if here in fields:
            continue
        left = _remove_fields(part, part_kind, fields, above, here)
        if left is not None or part is None:
            kept[element] = left
    if not kept:
        return None
    if isinstance(value, dict):
        return {element[2:]: part for element, part in kept.items()}
    return list(kept.values())
