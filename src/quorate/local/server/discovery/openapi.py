"""OpenAPI 3 documents, one for each group version.

`kubectl explain` reads them, and clients check there whether the server supports field validation.  The
table of types has no descriptions of built-in fields.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from quorate.local.objects import schema_types
from quorate.local.objects.schema_types import ListOf, MapOf, Scalar, Type, Untyped
from quorate.local.server.discovery.groups import SERVER_VERSION
from quorate.local.server.registry.kinds import Kind, Registry
from quorate.local.server.storage.store import Entry, Store

Json = dict[str, Any]

DEFINITIONS = "customresourcedefinitions.apiextensions.k8s.io"
V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
V2_MESSAGE = b"\x0a\x032.0\x42\x00"
"""The document in the protobuf form that kubectl requests: `swagger` (1) is "2.0", `paths` (8) are empty."""
OPTIONS = ("dryRun", "fieldManager", "fieldValidation", "force")
SCALARS: Mapping[str, Json] = {
    "string": {"type": "string"},
    "integer": {"type": "integer"},
    "number": {"type": "number"},
    "boolean": {"type": "boolean"},
    "time": {"type": "string", "format": "date-time"},
    "micro-time": {"type": "string", "format": "date-time"},
    "quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    "bytes": {"type": "string", "format": "byte"},
    "int-or-string": {"oneOf": [{"type": "integer"}, {"type": "string"}], "format": "int-or-string"},
}


def openapi_v2() -> Json:
    """Return the response of GET /openapi/v2, which is empty."""
    info = {"title": "Kubernetes", "version": SERVER_VERSION["gitVersion"]}
    return {"swagger": "2.0", "info": info, "paths": {}, "definitions": {}}


def openapi_v3_paths(registry: Registry) -> Json:
    """Return the response of GET /openapi/v3: the URL of each group version's document."""
    urls = {_path_of(kind): {"serverRelativeURL": f"/openapi/v3/{_path_of(kind)}"} for kind in registry}
    return {"paths": urls}


def _path_of(kind: Kind) -> str:
    return f"apis/{kind.api_version}" if kind.group else f"api/{kind.version}"


def openapi_v3(registry: Registry, store: Store, path: str) -> Json | None:
    """Return the document of a group version; None if there is no such version."""
    kinds = [kind for kind in registry if _path_of(kind) == path]
    if not kinds:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": SERVER_VERSION["gitVersion"]},
        "paths": {f"/{path}/{_resource_path(kind)}": _operations(kind) for kind in kinds},
        "components": {"schemas": _schemas(kinds, store)},
    }


def _resource_path(kind: Kind) -> str:
    return (
        f"namespaces/{{namespace}}/{kind.plural}/{{name}}" if kind.namespaced else f"{kind.plural}/{{name}}"
    )


def _operations(kind: Kind) -> Json:
    responses = {"200": {"description": "OK"}}
    common = {"x-kubernetes-group-version-kind": _group_version_kind(kind), "responses": responses}
    options = [{"name": name, "in": "query", "schema": {"type": "string"}} for name in OPTIONS]
    return {
        "get": {"x-kubernetes-action": "get"} | common,
        "patch": {"x-kubernetes-action": "patch", "parameters": options} | common,
    }


def _group_version_kind(kind: Kind) -> Json:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _schemas(kinds: Iterable[Kind], store: Store) -> dict[str, Json]:
    """Return the schemas of kinds and of all types that they use, by name."""
    schemas: dict[str, Json] = {}
    custom = _custom_schemas(store)
    for kind in kinds:
        if kind.custom:
            schema = custom.get((kind.resource, kind.version), {"type": "object"})
            schemas[_schema_name(kind)] = _custom_schema(schema, kind, schemas)
        elif kind.type.name:
            _add_schema(kind.type, schemas)
            own = schemas[kind.type.name]
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
    every = {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": _reference(meta),
    }
    properties = schema.get("properties", {}) | every
    return schema | {"properties": properties, "x-kubernetes-group-version-kind": [_group_version_kind(kind)]}


def _add_schema(type_: MapOf, schemas: dict[str, Json]) -> None:
    """Add the schema of a named type, and of all types that it uses."""
    if type_.name in schemas:
        return
    schemas[type_.name] = {"type": "object"}  # before its fields, for types that contain themselves
    properties = {
        name: _schema(property_type, schemas) for name, property_type in sorted(type_.fields.items())
    }
    schemas[type_.name]["properties"] = properties


def _schema(type_: Type, schemas: dict[str, Json]) -> Json:
    match type_:
        case Scalar(name):
            return dict(SCALARS[name])
        case ListOf(item):
            return {"type": "array", "items": _schema(item, schemas)}
        case MapOf(name=name) if name:
            _add_schema(type_, schemas)
            return _reference(type_)
        case MapOf(rest=rest) if rest is not None:
            return {"type": "object", "additionalProperties": _schema(rest, schemas)}
        case MapOf() | Untyped():
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _reference(type_: MapOf) -> Json:
    return {"allOf": [{"$ref": f"#/components/schemas/{type_.name}"}]}
