"""Schemas of the kinds as trees of fields: of the definitions in the repository, and of built-in kinds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from quorate.install.crds import gang_definitions, queueing_definitions
from quorate.local.objects.schema_types import ListOf, MapOf, Scalar, Type, builtin_type

Json = dict[str, Any]

DEPTH: Final = 14  # of the tree; deeper fields take any value
UNLIMITED: Final = 10**6


@dataclass(frozen=True)
class FieldSchema:
    """``type``: object, map, array, or a key of ``values.BY_TYPE``."""

    type: str
    properties: Mapping[str, "FieldSchema"] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    item: "FieldSchema | None" = None  # of an array or a map
    choices: tuple[Any, ...] = ()
    minimum: int = 0
    most: int = UNLIMITED  # entries of an array or a map


ANY: Final = FieldSchema("any")


@cache
def schema_of(api_version: str, kind: str) -> FieldSchema:
    """Return the schema of a kind; of kinds without one: any value."""
    builtin = builtin_type(api_version, kind)
    if builtin is not None:
        return _of_builtin(builtin, DEPTH)
    return _definitions().get((api_version, kind), ANY)


@cache
def _definitions() -> Mapping[tuple[str, str], FieldSchema]:
    found = {}
    for definition in (*queueing_definitions(), *gang_definitions()):
        spec = definition["spec"]
        for version in spec["versions"]:
            name = f"{spec['group']}/{version['name']}"
            found[name, spec["names"]["kind"]] = _of_definition(version["schema"]["openAPIV3Schema"])
    return found


def _of_builtin(type_: Type, depth: int) -> FieldSchema:
    if depth == 0:
        return ANY
    match type_:
        case Scalar(name):
            names = {"micro-time": "time", "bytes": "string", "int32": "integer", "int64": "integer"}
            return FieldSchema(names.get(name, name))
        case ListOf(item):
            return FieldSchema("array", item=_of_builtin(item, depth - 1))
        case MapOf(fields=fields) if fields:
            return FieldSchema(
                "object", {name: _of_builtin(each, depth - 1) for name, each in fields.items()}
            )
        case MapOf(rest=rest) if rest is not None:
            return FieldSchema("map", item=_of_builtin(rest, depth - 1))
        case _:
            return ANY


def _of_definition(schema: Json) -> FieldSchema:
    if "enum" in schema:
        return FieldSchema("string", choices=tuple(schema["enum"]))
    if schema.get("x-kubernetes-int-or-string"):
        return FieldSchema("quantity")
    match schema.get("type"):
        case "object" if "properties" in schema:
            properties = {name: _of_definition(each) for name, each in schema["properties"].items()}
            return FieldSchema("object", properties, tuple(schema.get("required", ())))
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            entry = _of_definition(schema["additionalProperties"])
            return FieldSchema("map", item=entry, most=schema.get("maxProperties", UNLIMITED))
        case "array":
            most = schema.get("maxItems", UNLIMITED)
            return FieldSchema("array", item=_of_definition(schema["items"]), most=most)
        case "string" if schema.get("format") == "date-time":
            return FieldSchema("time")
        case "string" | "boolean" | "number" as name:
            return FieldSchema(name)
        case "integer":
            return FieldSchema("integer", minimum=int(schema.get("minimum", 0)))
        case _:
            return ANY
