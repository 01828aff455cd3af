"""OpenAPI 3 documents, one for each group version.

`kubectl explain` reads them, and clients check there whether the server supports field validation.  The
table of types has no descriptions of built-in fields.
"""

from collections.abc import Iterable, Mapping

from quorate.api.codec import Json
from quorate.local.objects import schema_types
from quorate.local.objects.schema_types import ListOf, MapOf, Scalar, Type, Untyped
from quorate.local.server.discovery.groups import SERVER_VERSION
from quorate.local.server.registry.kinds import Kind, Registry
from quorate.local.server.requests.media_types import PATCHES, PATCHES_OF_CUSTOM_RESOURCES
from quorate.local.server.storage.store import Entry, Store

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
OPTIONS = ("dryRun", "fieldManager", "fieldValidation", "force")
COLLECTION_METHODS = {"get": ("list", "list"), "post": ("create", "post")}
OBJECT_METHODS = {
    "get": ("get", "get"),
    "put": ("update", "put"),
    "patch": ("patch", "patch"),
    "delete": ("delete", "delete"),
}
"""The verb that allows a method, and the action that clients read."""
TYPE_NAMES = {"ObjectMeta": "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}
"""The types that clients, such as Terraform, find by kube-apiserver's name."""
REFERENCE_PREFIX = "#/components/schemas/"
SCALARS: Mapping[str, Json] = {
    "string": {"type": "string"},
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "time": {"type": "string", "format": "date-time"},
    "micro-time": {"type": "string", "format": "date-time"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "bytes": {"type": "string", "format": "byte"},
    "int-or-string": {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
}


def openapi_v3_paths(registry: Registry) -> Json:
    """Return the response of GET /openapi/v3: the URL of each group version's document."""
    urls = {_path_of(kind): {"serverRelativeURL": f"/openapi/v3/{_path_of(kind)}"} for kind in registry}
    return {"paths": urls}


def _path_of(kind: Kind) -> str:
    return f"apis/{kind.api_version}" if kind.group else f"api/{kind.version}"


def kinds_at(registry: Registry, path: str) -> tuple[Kind, ...]:
    """Return the kinds of the group version with the path; empty if there is no such version."""
    return tuple(kind for kind in registry if _path_of(kind) == path)


def openapi_v3(kinds: Iterable[Kind], store: Store) -> Json:
    """Return the document of the kinds of a group version."""
    schemas = schemas_of(kinds, store)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": SERVER_VERSION["gitVersion"]},
        "paths": {path: item for kind in kinds for path, item in paths_of(kind).items()},
        "components": {"schemas": schemas} if schemas else {},
    }


def paths_of(kind: Kind) -> dict[str, Json]:
    """Return the paths of the collection and of the objects, with parameters and operations."""
    collection = f"namespaces/{{namespace}}/{kind.plural}" if kind.namespaced else kind.plural
    parameters = [_path_parameter("namespace")] if kind.namespaced else []
    of_objects = [_path_parameter("name"), *parameters]
    root = f"/{_path_of(kind)}/{collection}"
    return {
        path: ({"parameters": shared} if shared else {}) | operations
        for path, shared, operations in (
            (root, parameters, _operations(kind, COLLECTION_METHODS)),
            (f"{root}/{{name}}", of_objects, _operations(kind, OBJECT_METHODS)),
        )
        if operations
    }


def _path_parameter(name: str) -> Json:
    schema = {"type": "string", "uniqueItems": True}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _operations(kind: Kind, methods: Mapping[str, tuple[str, str]]) -> Json:
    options = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in OPTIONS]
    return {
        method: {
            "x-kubernetes-action": action,
            "x-kubernetes-group-version-kind": _group_version_kind(kind),
            "responses": {"200": {"description": "OK"}},
        }
        | ({} if method == "get" else {"parameters": options})
        | _body(kind, method)
        for method, (verb, action) in methods.items()
        if verb in kind.verbs
    }


def _body(kind: Kind, method: str) -> Json:
    """Return the media types of the body of an operation, with the schema of each; empty without a body."""
    match method:
        case "patch":
            types: tuple[str, ...] = PATCHES_OF_CUSTOM_RESOURCES if kind.custom else PATCHES
            schema: Json = {"type": "object"}
        case "post" | "put":
            types = ("*/*",)
            name = _schema_name(kind) if kind.custom else _type_name(kind.type)
            schema = {"$ref": f"{REFERENCE_PREFIX}{name}"} if name else {"type": "object"}
        case _:
            return {}
    return {"requestBody": {"required": True, "content": {type_: {"schema": schema} for type_ in types}}}


def _group_version_kind(kind: Kind) -> Json:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def schemas_of(kinds: Iterable[Kind], store: Store) -> dict[str, Json]:
    """Return the schemas of kinds and of all types that they use, by name."""
    schemas: dict[str, Json] = {}
    custom = _custom_schemas(store)
    for kind in kinds:
        if kind.custom:
            schema = custom.get((kind.resource, kind.version), {"type": "object"})
            schemas[_schema_name(kind)] = _custom_schema(schema, kind, schemas)
        elif kind.type.name:
            _add_schema(kind.type, schemas)
            own = schemas[_type_name(kind.type)]
            own.setdefault("x-kubernetes-group-version-kind", []).append(_group_version_kind(kind))
    return schemas


def _custom_schemas(store: Store) -> dict[tuple[str, str], Json]:
    """Return the schemas of CustomResourceDefinitions, by resource and version."""
    return {
        (resource, version["name"]): version["schema"]["openAPIV3Schema"]
        for resource, versions in store.usable(DEFINITIONS, _versions, "OpenAPI")
        for version in versions
    }


def _versions(entry: Entry) -> tuple[str, list[Json]]:
    """Return the name and the versions of a definition with their schemas."""
    versions = entry.decode()["spec"]["versions"]
    return entry.key.name, [version for version in versions if version["schema"]["openAPIV3Schema"]]


def _schema_name(kind: Kind) -> str:
    """Return kube-apiserver's name of a schema: the reversed group, version, kind."""
    return ".".join([*reversed(kind.group.split(".")), kind.version, kind.kind])


def _custom_schema(schema: Json, kind: Kind, schemas: dict[str, Json]) -> Json:
    """Return the schema of a custom resource with apiVersion, kind and metadata."""
    meta = schema_types.object_meta_type()
    _add_schema(meta, schemas)
    every = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": _reference(meta)}
    properties = schema.get("properties", {}) | every
    return schema | {"properties": properties, "x-kubernetes-group-version-kind": [_group_version_kind(kind)]}


def _type_name(type_: MapOf) -> str:
    return TYPE_NAMES.get(type_.name, type_.name)


def _add_schema(type_: MapOf, schemas: dict[str, Json]) -> None:
    """Add the schema of a named type, and of all types that it uses."""
    key = _type_name(type_)
    if key in schemas:
        return
    schemas[key] = {"type": "object"}  # before its fields, for types that contain themselves
    properties = {
        name: _schema(property_type, schemas) for name, property_type in sorted(type_.fields.items())
    }
    if properties:
        schemas[key]["properties"] = properties
    if type_.atomic:
        schemas[key]["x-kubernetes-map-type"] = "atomic"


def _schema(type_: Type, schemas: dict[str, Json]) -> Json:
    match type_:
        case Scalar(name):
            return dict(SCALARS[name])
        case ListOf(item):
            return {"type": "array", "items": _schema(item, schemas)} | _list_rules(type_)
        case MapOf(name=name) if name:
            _add_schema(type_, schemas)
            strategy = {"x-kubernetes-patch-strategy": type_.patch_strategy} if type_.patch_strategy else {}
            return _reference(type_) | strategy
        case MapOf(rest=rest) if rest is not None:
            schema = {"type": "object", "additionalProperties": _schema(rest, schemas)}
            return schema | ({"x-kubernetes-map-type": "atomic"} if type_.atomic else {})
        case MapOf() | Untyped():
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _list_rules(type_: ListOf) -> Json:
    """Return the extensions that say how apply and strategic merge patches treat a list."""
    rules: Json = {"x-kubernetes-list-type": type_.relation.value}
    if type_.keys:
        rules["x-kubernetes-list-map-keys"] = list(type_.keys)
    if type_.merges:
        strategies = ("merge", "retainKeys") if type_.retain_keys else ("merge",)
        rules["x-kubernetes-patch-strategy"] = ",".join(strategies)
    if type_.merge_key:
        rules["x-kubernetes-patch-merge-key"] = type_.merge_key
    return rules


def _reference(type_: MapOf) -> Json:
    return {"allOf": [{"$ref": f"{REFERENCE_PREFIX}{_type_name(type_)}"}]}
