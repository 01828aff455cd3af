"""The OpenAPI 2 document of all kinds, for Terraform and for older clients.

It is derived from the documents of version 3.  What version 2 has no word for is left out, as kube-apiserver
does for custom resources.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from quorate.api.codec import Json
from quorate.local.objects.protobuf.table import BYTES, write_varint
from quorate.local.server.discovery.groups import SERVER_VERSION
from quorate.local.server.discovery.openapi import REFERENCE_PREFIX, paths_of, schemas_of
from quorate.local.server.registry.kinds import Kind
from quorate.local.server.storage.store import Store

PROTOBUF: Final = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
GROUP_VERSION_KIND: Final = "x-kubernetes-group-version-kind"
_NOT_IN_V2: Final = ("allOf", "anyOf", "oneOf", "not", "nullable")
_SHAPE: Final = ("type", "items", "properties", "additionalProperties")


def document(kinds: Iterable[Kind], store: Store) -> Json:
    """Return the response of GET /openapi/v2."""
    return {
        "swagger": "2.0",
        "info": {"title": "Kubernetes", "version": SERVER_VERSION["gitVersion"]},
        "paths": {path: _path_item(item) for kind in kinds for path, item in paths_of(kind).items()},
        "definitions": {
            name: _definition(schema, is_root=True) for name, schema in schemas_of(kinds, store).items()
        },
    }


def _path_item(item: Json) -> Json:
    return {
        name: _parameters(part) if name == "parameters" else _operation(part) for name, part in item.items()
    }


def _operation(operation: Json) -> Json:
    kept = {name: part for name, part in operation.items() if name != "requestBody"}
    if "parameters" in kept:
        kept["parameters"] = _parameters(kept["parameters"])
    if "requestBody" in operation:
        kept["consumes"] = list(operation["requestBody"]["content"])
    return kept


def _parameters(parameters: Iterable[Json]) -> list[Json]:
    return [
        {name: part for name, part in parameter.items() if name != "schema"} | parameter["schema"]
        for parameter in parameters
    ]


def _definition(schema: Json, *, is_root: bool = False) -> Json:
    match schema.get("allOf"):
        case [{"$ref": str(reference)}]:
            extensions = {name: part for name, part in schema.items() if name.startswith("x-")}
            return {"$ref": reference.replace(REFERENCE_PREFIX, "#/definitions/")} | extensions
    kept = {name: part for name, part in schema.items() if name not in _NOT_IN_V2}
    keeps_unknown = schema.get("x-kubernetes-preserve-unknown-fields")
    if keeps_unknown and is_root and GROUP_VERSION_KIND in schema:
        return {"type": "object", GROUP_VERSION_KIND: schema[GROUP_VERSION_KIND]}
    any_value = schema.get("nullable") or keeps_unknown
    if any_value and not is_root:  # clients would refuse what the server accepts
        return {name: part for name, part in kept.items() if name not in _SHAPE}
    if "oneOf" in schema and "type" not in schema:
        kept["type"] = "string"  # quantities, and integers or strings
    for name in ("items", "additionalProperties"):
        if isinstance(kept.get(name), dict):
            kept[name] = _definition(kept[name])
    if "properties" in kept:
        kept["properties"] = {name: _definition(part) for name, part in kept["properties"].items()}
    return kept


def to_protobuf(content: Json) -> bytes:
    """Return the document as the message ``openapi.v2.Document`` of gnostic, without paths."""
    info = _text(1, content["info"]["title"]) + _text(2, content["info"]["version"])
    return (
        _text(1, content["swagger"])
        + _part(2, info)
        + _part(8, b"")
        + _part(9, _named(content["definitions"]))
    )


def _named(schemas: Json) -> bytes:
    return b"".join(_part(1, _text(1, name) + _part(2, _message(part))) for name, part in schemas.items())


def _message(schema: Json) -> bytes:
    """Return the message of a schema, with the field numbers of ``OpenAPIv2.proto``."""
    fields = b""
    for name, part in schema.items():
        match name:
            case "$ref":
                fields += _text(1, part)
            case "format":
                fields += _text(2, part)
            case "description":
                fields += _text(4, part)
            case "required":
                fields += b"".join(_text(19, field) for field in part)
            case "additionalProperties" if isinstance(part, dict):
                fields += _part(21, _part(1, _message(part)))
            case "type":
                fields += _part(22, _text(1, part))
            case "items":
                fields += _part(23, _part(1, _message(part)))
            case "properties":
                fields += _part(25, _named(part))
            case _ if name.startswith("x-kubernetes-"):
                value = _text(2, msgspec.json.encode(part).decode())  # JSON is YAML
                fields += _part(31, _text(1, name) + _part(2, value))
    return fields


def _text(number: int, text: str) -> bytes:
    return _part(number, text.encode())


def _part(number: int, content: bytes) -> bytes:
    """Return a field of the wire type 2: bytes with their length."""
    return write_varint(number << 3 | BYTES) + write_varint(len(content)) + content
