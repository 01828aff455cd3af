"""Strategic merge patch: a merge patch with merging lists.

Directives, as `kubectl apply` and `kubectl patch` send them:

    $patch: replace | delete                in an object: the whole object; in an item of a list: the whole
                                            list without this item, or one item
    $retainKeys: [name, ...]                only these fields of the object survive
    $deleteFromPrimitiveList/FIELD: [...]   remove these values from the list FIELD
    $setElementOrder/FIELD: [...]           the order of the list FIELD afterwards

Source: the API conventions on strategic merge patch. The schema type of a list says how it merges.
"""

from functools import partial
from typing import Any

from quorate.api.codec import Json
from quorate.local.objects.errors import bad_request, internal
from quorate.local.objects.patch.json_patches import go_kind
from quorate.local.objects.schema_types import ListOf, MapOf, Type

_DELETE_VALUES = "$deleteFromPrimitiveList/"
_ORDER = "$setElementOrder/"


def strategic_merge(target: Json, patch: Any, kind: MapOf) -> Json:
    """Return the object with the patch merged in.

    A patch of null changes nothing.  Raises StatusError: 400 if the patch is not an object, 500 (as
    kube-apiserver) for a malformed directive or an item without its merge key.
    """
    if patch is None:
        return dict(target)
    if not isinstance(patch, dict):
        raise bad_request(
            f"error decoding patch: json: cannot unmarshal {go_kind(patch)} into Go value of type map"
        )
    return _merge_map(target, patch, kind)


def _merge_map(target: Json, patch: Json, kind: MapOf | None) -> Json:
    directive = patch.get("$patch")
    if directive == "replace":
        replacement: Json = _without_directives(patch)
        return replacement
    if directive == "delete":
        return {}
    if directive is not None:
        raise internal(f"unknown patch type: {directive} in map: {_go_map(patch)}")

    merged = dict(target)
    if "$retainKeys" in patch:
        merged = _retain(merged, patch)
    for name, part in patch.items():
        if name.startswith(_DELETE_VALUES):
            field = name.removeprefix(_DELETE_VALUES)
            if isinstance(merged.get(field), list):
                merged[field] = [value for value in merged[field] if value not in _listed(part, name)]
        elif name.startswith(_ORDER):
            field = name.removeprefix(_ORDER)
            if field not in patch and field in merged:
                _merge_field(merged, field, [], patch, kind)
        elif not name.startswith("$"):
            _merge_field(merged, name, part, patch, kind)
    return merged


def _merge_field(merged: Json, name: str, part: Any, patch: Json, kind: MapOf | None) -> None:
    declared = kind.field_type(name) if kind else None
    present = merged.get(name)
    if part is None:
        merged.pop(name, None)
    elif isinstance(part, dict):
        inner = declared if isinstance(declared, MapOf) else None
        if part.get("$patch") == "delete":
            merged.pop(name, None)
        elif inner is not None and inner.patch_strategy == "replace":
            merged[name] = _without_directives(part)
        else:
            merged[name] = _merge_map(present if isinstance(present, dict) else {}, part, inner)
    elif isinstance(part, list):
        order = _listed(patch.get(_ORDER + name, []), _ORDER + name)
        if order:
            _check_order(part, order, declared.merge_key if isinstance(declared, ListOf) else "")
        if name not in merged:
            merged[name] = _without_directives(part)  # equal merge keys stay
        else:
            merged[name] = _merge_list(present if isinstance(present, list) else [], part, order, declared)
    else:
        merged[name] = part


def _check_order(items: list[Any], order: list[Any], key: str) -> None:
    """Raise StatusError(500) if the items of a patch are not in the order that the patch asks for."""
    wanted = [_identity(item, key) for item in order]
    present = [
        _identity(item, key) for item in items if not isinstance(item, dict) or item.get("$patch") is None
    ]
    following = iter(wanted)
    if not all(any(name == other for other in following) for name in present):
        lists = (" ".join(map(_go_value, listed)) for listed in (items, order))
        raise internal(
            "The order in patch list:\n[{}]\n doesn't match $setElementOrder list:\n[{}]\n".format(*lists)
        )


def _merge_list(target: list[Any], patch: list[Any], order: list[Any], declared: Type | None) -> list[Any]:
    if not isinstance(declared, ListOf) or not declared.merges:
        return list(patch)  # with directives, which are unknown fields here
    if declared.merge_key:
        merged = _merge_items(target, patch, declared)
    else:
        merged = [*target, *(value for value in patch if value not in target)]
    return _ordered(merged, target, [*order, *patch], declared.merge_key)


def _merge_items(target: list[Any], patch: list[Any], declared: ListOf) -> list[Any]:
    key = declared.merge_key
    merged = list(target)
    for item in patch:
        if not isinstance(item, dict):
            raise internal("cannot merge a list of objects with values which are not objects")
        if item.get("$patch") == "merge":
            raise internal("merging lists cannot yet be specified in the patch")
        if item.get("$patch") == "replace":
            return [_without_directives(other) for other in patch if other is not item]
        if key not in item:
            raise internal(f"map: {_go_map(item)} does not contain declared merge key: {key}")
        at = next((i for i, present in enumerate(merged) if present.get(key) == item[key]), None)
        if item.get("$patch") == "delete":
            merged = [present for present in merged if present.get(key) != item[key]]
        elif at is not None:
            merged[at] = _merge_map(
                merged[at], item, declared.item if isinstance(declared.item, MapOf) else None
            )
        else:
            merged.append(_without_directives(item))
    return merged


def _ordered(merged: list[Any], before: list[Any], order: list[Any], key: str) -> list[Any]:
    """Order items as the patch does; place each other item before the first item it preceded."""
    identity = partial(_identity, key=key)
    rank = {name: position for position, name in reversed(list(enumerate(map(identity, order))))}
    position = {identity(item): index for index, item in enumerate(before)}
    named = sorted((item for item in merged if identity(item) in rank), key=lambda item: rank[identity(item)])
    rest = [item for item in merged if identity(item) not in rank]
    ordered: list[Any] = []
    for item in named:
        here = position.get(identity(item), -1)
        while rest and position[identity(rest[0])] < here:
            ordered.append(rest.pop(0))
        ordered.append(item)
    return [*ordered, *rest]


def _identity(item: Any, key: str) -> Any:
    """Return what identifies an item of a list; of an object or a list, which is no key, its text."""
    value = item.get(key) if key and isinstance(item, dict) else item
    return repr(value) if isinstance(value, dict | list) else value


def _retain(merged: Json, patch: Json) -> Json:
    retained = _listed(patch["$retainKeys"], "$retainKeys")
    surplus = [
        name
        for name in patch
        if not name.startswith("$") and name not in retained and patch[name] is not None
    ]
    if surplus:
        raise internal(f"the field {surplus[0]} is in the patch but not in its $retainKeys list")
    return {name: part for name, part in merged.items() if name in retained}


def _listed(part: Any, name: str) -> list[Any]:
    if not isinstance(part, list):
        raise internal(f"the value of {name} must be a list")
    return part


def _without_directives(value: Any) -> Any:
    """Return the content of a patch for an absent value: without directives, what they direct, and nulls."""
    if isinstance(value, list):
        return [_without_directives(item) for item in value if not _is_directive(item)]
    if not isinstance(value, dict):
        return value
    return {
        name: _without_directives(part)
        for name, part in value.items()
        if not name.startswith("$") and part is not None and not _is_directive(part)
    }


def _is_directive(value: Any) -> bool:
    return isinstance(value, dict) and "$patch" in value


def _go_value(value: Any) -> str:
    return _go_map(value) if isinstance(value, dict) else str(value)


def _go_map(value: Json) -> str:
    return "map[" + " ".join(f"{name}:{value[name]}" for name in sorted(value)) + "]"
