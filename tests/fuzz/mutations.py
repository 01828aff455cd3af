"""Mutations of a valid object: hostile values in random fields, and fields missing, doubled or multiplied."""

import copy
import random
from collections.abc import Iterator
from typing import Any, Final

from tests.fuzz.schemas import FieldSchema
from tests.fuzz.values import ANNOTATIONS, ANYTHING, BY_TYPE, KEYS, RESOURCES, value_for

Json = dict[str, Any]

MANY: Final = (2, 30, 1000, 3000)  # entries of a multiplied list
KEPT: Final = frozenset({"apiVersion", "kind", "metadata"})
FINALIZER: Final = "fuzz.quorate.dev/"


def mutate(body: Json, schema: FieldSchema, rng: random.Random, count: int) -> Json:
    """Return a copy of ``body`` with ``count`` mutations."""
    body = copy.deepcopy(body)
    for _ in range(count):
        turn = rng.random()
        if turn < 0.55 and schema.properties:
            _set_by_schema(body, schema, rng)
        elif turn < 0.7:
            _replace_existing(body, rng)
        elif turn < 0.8 or "metadata" not in body:
            _remove_or_multiply(body, rng)
        else:
            _extend_metadata(body, rng)
    return body


def _set_by_schema(body: Json, schema: FieldSchema, rng: random.Random) -> None:
    names = [name for name in schema.properties if name not in KEPT]
    if names:
        name = rng.choice(names)
        body[name] = _changed(body.get(name), name, schema.properties[name], rng)


def _changed(value: Any, name: str, schema: FieldSchema, rng: random.Random) -> Any:
    """Return ``value`` with one field below it replaced, or another value."""
    match schema.type:
        case "object":
            fields = value if isinstance(value, dict) else _required(schema, rng)
            if schema.properties:
                inner = rng.choice(list(schema.properties))
                fields[inner] = _changed(fields.get(inner), inner, schema.properties[inner], rng)
            return fields
        case "map":
            entries = value if isinstance(value, dict) else {}
            assert schema.item is not None
            keys = RESOURCES if schema.item.type == "quantity" else KEYS
            key = rng.choice((*keys, *entries))
            entries[key] = _changed(entries.get(key), key, schema.item, rng)
            return entries
        case "array":
            items = value if isinstance(value, list) else []
            assert schema.item is not None
            at = rng.randint(0, len(items))
            items[at : at + 1] = [_changed(items[at] if at < len(items) else None, name, schema.item, rng)]
            return items
        case _ if schema.choices and rng.random() < 0.85:
            return rng.choice(schema.choices)
        case type_:
            return value_for(name, type_, rng)


def _required(schema: FieldSchema, rng: random.Random) -> Json:
    return {name: _plausible(name, schema.properties[name], rng) for name in schema.required}


def _plausible(name: str, schema: FieldSchema, rng: random.Random) -> Any:
    if schema.choices:
        return rng.choice(schema.choices)
    match schema.type:
        case "object":
            return _required(schema, rng)
        case "array":
            assert schema.item is not None
            return [_plausible(name, schema.item, rng)]
        case "map":
            return {}
        case "integer" | "number":
            return max(1, schema.minimum)
        case "boolean":
            return rng.random() < 0.5
        case "quantity":
            return "1"
        case "time":
            return "2026-01-01T00:00:00Z"
        case _:
            return rng.choice(("default", "main", "fuzz", "cpu"))


def _replace_existing(body: Json, rng: random.Random) -> None:
    """Replace any existing value below spec, status or data by one of any type."""
    places = list(_places(body))
    if places:
        parent, key = rng.choice(places)
        parent[key] = rng.choice((ANYTHING, *BY_TYPE.values()))[0] if rng.random() < 0.1 else _any_value(rng)


def _any_value(rng: random.Random) -> Any:
    return copy.deepcopy(rng.choice(rng.choice(list(BY_TYPE.values()))))


def _remove_or_multiply(body: Json, rng: random.Random) -> None:
    places = list(_places(body))
    if not places:
        return
    parent, key = rng.choice(places)
    lists = [(each, name) for each, name in places if isinstance(each[name], list) and each[name]]
    if lists and rng.random() < 0.5:
        parent, key = rng.choice(lists)
        many = max(1, rng.choice(MANY) // max(1, len(repr(parent[key])) // 100))  # the object stays storable
        parent[key] = _numbered(parent[key] * many) if rng.random() < 0.5 else parent[key] * many
    else:
        del parent[key]


def _numbered(items: list[Any]) -> list[Any]:
    """Return the items with distinct names."""
    return [_with_number(item, number) for number, item in enumerate(items)]


def _with_number(item: Any, number: int) -> Any:
    if isinstance(item, dict) and isinstance(item.get("name"), str):
        return {**item, "name": f"{item['name'][:50]}-{number}"}
    return f"{item[:50]}-{number}" if isinstance(item, str) else item


def _places(body: Any, top: bool = True) -> Iterator[tuple[Any, Any]]:
    entries = list(body.items()) if isinstance(body, dict) else list(enumerate(body))
    for key, value in entries:
        if top and key in KEPT:
            continue
        yield body, key
        if isinstance(value, dict | list) and (not isinstance(value, list) or len(value) < 50):
            yield from _places(value, False)


def _extend_metadata(body: Json, rng: random.Random) -> None:
    metadata = body.setdefault("metadata", {})
    match rng.randrange(7):
        case 0:
            key = rng.choice(list(ANNOTATIONS))
            metadata.setdefault("annotations", {})[key] = rng.choice(ANNOTATIONS[key])
        case 1:
            metadata.setdefault("annotations", {})["example.com/note"] = rng.choice("xü😀") * rng.choice(
                (1000, 60_000)
            )
        case 2:
            metadata.setdefault("annotations", {}).update({f"example.com/{n}": "" for n in range(2000)})
        case 3:
            metadata["finalizers"] = [f"{FINALIZER}{number}" for number in range(rng.choice((1, 2000)))]
        case 4:
            name, kind = rng.choice(
                (("queue", "LocalQueue"), ("missing", "Job"), (metadata["name"], "Workload"))
            )
            metadata["ownerReferences"] = [
                {
                    "apiVersion": rng.choice(("batch/v1", "kueue.x-k8s.io/v1beta2", "example.com/v1")),
                    "kind": kind,
                    "name": name,
                    "uid": f"{number}",
                    "controller": number == 0,
                }
                for number in range(rng.choice((1, 2, 500)))
            ]
        case 5:
            key = rng.choice(KEYS)
            metadata.setdefault("labels", {})[key] = rng.choice(("queue", "a" * 63, "", "missing", "A_.b"))
        case _:
            metadata.setdefault("labels", {}).update({f"example.com/{n}": "v" * 63 for n in range(500)})
