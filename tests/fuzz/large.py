"""Objects of almost the largest size that an API server stores, one for each collection of their kind.

A collection is a list or map that Quorate decodes.  Each object has one of them with as many entries as the
schema and the size allow, so that work per entry shows.
"""

import json
import random
from collections.abc import Collection, Iterator
from functools import cache
from typing import Any, Final

import msgspec

from quorate.controllers.integrations import FRAMEWORK_KINDS
from quorate.kube import resources
from quorate.kube.resources import Resource
from tests.fuzz.kinds import BY_KIND, KINDS, NAMESPACE, WEBHOOKS_LABEL, FuzzedKind
from tests.fuzz.requests import MERGE, Request
from tests.fuzz.schemas import ANY, FieldSchema, schema_of

Json = dict[str, Any]
Path = tuple[str, ...]
Inspected = msgspec.inspect

FIRST_LARGE: Final = 10**6  # the number of the first attack with a large object
SIZE: Final = 600_000  # bytes of JSON; etcd stores 1.5 MiB with managedFields, which repeat all keys
EACH: Final = "*"
REVIEWED: Final = {WEBHOOKS_LABEL: "true"}
SHORT: Final = 250_000  # bytes of all annotations together, at most
KEYS: Final = ("name", "key", "type", "uid", "topologyKey", "containerPort", "ip", "levelName", "nodeLabel")
OF_TEMPLATES: Final[tuple[Path, ...]] = (
    ("metadata", "labels"),
    ("metadata", "annotations"),
    ("spec", "containers"),
    ("spec", "containers", EACH, "resources", "requests"),
    ("spec", "containers", EACH, "ports"),
    ("spec", "containers", EACH, "env"),
    ("spec", "initContainers"),
    ("spec", "nodeSelector"),
    ("spec", "tolerations"),
    ("spec", "volumes"),
    ("spec", "topologySpreadConstraints"),
    ("spec", "schedulingGates"),
)
_METADATA: Final = FieldSchema(
    "object",
    {
        "labels": FieldSchema("map", item=FieldSchema("string")),
        "annotations": FieldSchema("map", item=FieldSchema("string")),
        "finalizers": FieldSchema("array", item=FieldSchema("string")),
        "ownerReferences": FieldSchema(
            "array",
            item=FieldSchema(
                "object",
                {name: FieldSchema("string") for name in ("apiVersion", "kind", "name", "uid")},
                ("apiVersion", "kind", "name", "uid"),
            ),
        ),
    },
)


@cache
def shapes() -> tuple[tuple[FuzzedKind, Path], ...]:
    """Return the collections of all kinds."""
    return tuple(
        (kind, path)
        for kind in KINDS
        if (kind.resource.group, kind.resource.version) != ("kueue.x-k8s.io", "v1beta1")
        for path in collections(kind.resource)
    )


def large_numbers(kinds: Collection[str]) -> Iterator[int]:
    """Yield the numbers of the attacks with large objects of ``kinds``; of all if it is empty."""
    for number, (kind, _) in enumerate(shapes(), FIRST_LARGE):
        if not kinds or kind.resource.kind in kinds:
            yield number


def large_number(resource: str, collection: str) -> int:
    """Return the number of the attack with a large ``collection`` of ``resource`` (``jobs.batch``)."""
    for number, (kind, path) in enumerate(shapes(), FIRST_LARGE):
        name = f"{kind.resource.plural}.{kind.resource.group}".removesuffix(".")
        if (name, ".".join(path)) == (resource, collection):
            return number
    raise LookupError(f"no attack with {collection} of {resource}")


def large_object_requests(shape: int, name: str) -> tuple[str, Iterator[Request]]:
    """Return the requests that store a large object, change it and write its status."""
    kind, path = shapes()[shape]
    return f"{kind.resource.kind} with many {'.'.join(path)}", _requests(kind, path, name)


def _requests(kind: FuzzedKind, path: Path, name: str) -> Iterator[Request]:
    """Yield reviews of the creation and of an update, which may refuse, and writes that no webhook sees."""
    body, resource = large_object(kind, path, name), kind.resource
    status = body.pop("status", None)
    with_label = {
        **body,
        "metadata": {**body["metadata"], "labels": {**body["metadata"]["labels"], **REVIEWED}},
    }
    collection = resource.path(_home(kind))
    yield Request("POST", f"{collection}?dryRun=All", json.dumps(with_label).encode())
    yield Request("POST", collection, json.dumps(body).encode())
    yield _patch(kind, name, {"metadata": {"labels": REVIEWED}})
    yield _patch(kind, name, {"metadata": {"annotations": {"example.com/changed": "1"}}})
    if status is not None:
        yield _patch(kind, name, {"status": status}, "status" * kind.has_status_subresource)
        yield _patch(kind, name, {"metadata": {"annotations": {"example.com/changed": "2"}}})


def _home(kind: FuzzedKind) -> str:
    return NAMESPACE if kind.resource.namespaced else ""


def _patch(kind: FuzzedKind, name: str, body: Json, subresource: str = "") -> Request:
    path = kind.resource.path(_home(kind), name, subresource)
    return Request("PATCH", path, json.dumps(body).encode(), MERGE, may_be_missing=True)


def large_object(kind: FuzzedKind, path: Path, name: str) -> Json:
    """Return an object with as many entries as possible at ``path``."""
    rng = random.Random(1)
    resource = kind.resource
    body = kind.build(rng)
    if path[0] == "status" and kind.status is not None and "status" not in body:
        body["status"] = kind.status(rng)
    metadata = {"name": name, **body.pop("metadata", {})}
    metadata.setdefault("labels", {})
    if resource.plural == "pods" and path[0] == "spec":  # the gang scheduler has to consider all of it
        body["spec"]["schedulerName"] = "quorate"
    if resource.namespaced:
        metadata["namespace"] = NAMESPACE
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    schema = schema_of(resource.api_version, resource.kind)
    properties = {**schema.properties, "metadata": _METADATA}
    budget = SHORT if path[-1] == "annotations" else SIZE
    filled: Json = _filled(
        {**head, "metadata": metadata, **body}, FieldSchema("object", properties), path, budget
    )
    return filled


def _filled(value: Any, schema: FieldSchema, path: Path, budget: int) -> Any:
    """Return ``value`` with the collection at ``path`` as large as possible."""
    if not path:
        entries = _entries(schema, value, budget)
        return (
            dict(entries)
            if schema.type == "map" or isinstance(value, dict)
            else [each for _, each in entries]
        )
    name, rest = path[0], path[1:]
    if name == EACH:
        items = value if isinstance(value, list) and value else [None]
        sample = items[0] if items[0] is not None else _sample(schema.item or ANY, 0)
        one = _filled(sample, schema.item or ANY, rest, budget)
        count = max(1, min(schema.most, budget // (len(json.dumps(one)) + 1)))
        return [_numbered(one, number) for number in range(count)]
    fields = value if isinstance(value, dict) else _sample(schema, 0)
    fields = fields if isinstance(fields, dict) else {}
    return {**fields, name: _filled(fields.get(name), _field(schema, name), rest, budget)}


def _field(schema: FieldSchema, name: str) -> FieldSchema:
    if name == "template" and "template" not in schema.properties:
        return schema_of("v1", "PodTemplate").properties["template"]
    if name in schema.properties:
        return schema.properties[name]
    return _METADATA if name == "metadata" else schema.item or ANY


def _entries(schema: FieldSchema, value: Any, budget: int) -> list[tuple[str, Any]]:
    item = schema.item or ANY
    sample = value[0] if isinstance(value, list) and value else None
    entries: list[tuple[str, Any]] = []
    size = 0
    while len(entries) < schema.most:
        number = len(entries)
        entry = _sample(item, number) if sample is None else _numbered(sample, number)
        key = f"example.com/{number}" if schema.type == "map" or isinstance(value, dict) else ""
        size += len(json.dumps(entry)) + len(key) + 6
        if size > budget:
            break
        entries.append((key, entry))
    return entries


def _numbered(sample: Any, number: int) -> Any:
    if isinstance(sample, str):
        return f"n{number}"
    if isinstance(sample, dict):
        for key in KEYS:
            if key in sample:
                named = number + 1 if isinstance(sample[key], int) else f"n{number}"
                return {**sample, key: named}
    return sample


def _sample(schema: FieldSchema, number: int) -> Any:
    """Return a small value of the type, different for each number where it has a name."""
    if schema.choices:
        return schema.choices[number % len(schema.choices)]
    match schema.type:
        case "object":
            names = [*schema.required, *(key for key in KEYS if key in schema.properties)]
            fields = {name: _sample(schema.properties[name], number) for name in names}
            return fields or {
                name: _sample(each, number) for name, each in list(schema.properties.items())[:1]
            }
        case "array":
            return [_sample(schema.item or ANY, number)]
        case "map":
            return {}
        case "integer" | "number":
            return max(1, schema.minimum)
        case "boolean":
            return True
        case "quantity" | "int-or-string":
            return "1"
        case "time":
            return "2026-01-01T00:00:00Z"
        case _:
            return f"n{number}"


def collections(resource: Resource[Any]) -> tuple[Path, ...]:
    """Return the paths of all lists and maps of a kind that Quorate decodes."""
    paths: dict[Path, None] = {}
    schema = schema_of(resource.api_version, resource.kind)
    properties = {**schema.properties, "metadata": _METADATA}
    for type_ in _types(resource):
        for path in _collections(msgspec.inspect.type_info(type_), ()):
            if _declares(FieldSchema("object", properties), path):
                paths[path] = None
    for template in _templates(BY_KIND[resource.api_version, resource.kind].build(random.Random(1)), ()):
        paths |= {(*template, *path): None for path in OF_TEMPLATES}
    return tuple(paths)


def _types(resource: Resource[Any]) -> Iterator[Any]:
    known = [each for each in vars(resources).values() if isinstance(each, Resource)]
    known += [kind.resource for kind in FRAMEWORK_KINDS.values()]
    for each in known:
        if (each.api_version, each.kind) == (resource.api_version, resource.kind) and each.type is not dict:
            yield each.type
    yield _Metadata


class _Meta(msgspec.Struct):
    labels: dict[str, str]
    annotations: dict[str, str]
    finalizers: list[str]
    ownerReferences: list[str]  # noqa: N815


class _Metadata(msgspec.Struct):
    metadata: _Meta


def _collections(type_: Any, path: Path) -> Iterator[Path]:
    match type_:
        case Inspected.StructType(fields=fields):
            for field in fields:
                yield from _collections(field.type, (*path, field.encode_name))
        case Inspected.ListType(item_type=item) | Inspected.VarTupleType(item_type=item):
            yield path
            yield from _collections(item, (*path, EACH))
        case Inspected.DictType():
            yield path
        case Inspected.CustomType(cls=cls) if "Mapping" in cls.__name__:
            yield path
        case Inspected.UnionType(types=types):
            for each in types:
                yield from _collections(each, path)


def _declares(schema: FieldSchema, path: Path) -> bool:
    for name in path:
        if name == EACH:
            schema = schema.item or ANY
        elif name in schema.properties:
            schema = schema.properties[name]
        else:
            return False
    return schema.type in ("array", "map")


def _templates(value: Any, path: Path) -> Iterator[Path]:
    """Yield where an object has pod templates."""
    if isinstance(value, dict):
        if "containers" in value.get("spec", {}):
            yield path
            return
        for name, inner in value.items():
            yield from _templates(inner, (*path, name))
    elif isinstance(value, list) and value:
        yield from _templates(value[0], (*path, EACH))
