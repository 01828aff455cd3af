"""Decoding of the schemas of custom resources: each keyword has the JSON type that kube-apiserver decodes."""

from collections.abc import Mapping
from typing import Any

from quorate.local.objects.schema_types import Json
from quorate.local.server.errors import StatusError, bad_request

_INTEGERS = ("Length", "Items", "Properties")
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("type", "format", "pattern", "title", "description", "$ref", "$schema", "id"), str),
    **dict.fromkeys(("x-kubernetes-list-type", "x-kubernetes-map-type"), str),
    **dict.fromkeys(("minimum", "maximum", "multipleOf"), (int, float)),
    **dict.fromkeys((f"{bound}{what}" for bound in ("min", "max") for what in _INTEGERS), int),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum", "uniqueItems", "nullable"), bool),
    **dict.fromkeys(("x-kubernetes-preserve-unknown-fields", "x-kubernetes-int-or-string"), bool),
    "x-kubernetes-embedded-resource": bool,
    **dict.fromkeys(("enum", "required", "x-kubernetes-list-map-keys"), list),
}
_RULE_TYPES = dict.fromkeys(("rule", "message", "messageExpression", "reason", "fieldPath"), str)
_KEPT_NULL = ("default", "example")


def decode_schema(schema: Any, path: str) -> Json:
    """Return a schema without its null fields.

    Raises StatusError(400) for a value of a type that its keyword does not have.
    """
    return {
        name: _decode_keyword(name, value, f"{path}.{name}")
        for name, value in _typed(schema, dict, path).items()
        if value is not None or name in _KEPT_NULL
    }


def _decode_keyword(name: str, value: Any, path: str) -> Any:
    match name, value:
        case (("properties" | "patternProperties" | "definitions"), _):
            return {
                key: decode_schema(part, f"{path}[{key}]") for key, part in _typed(value, dict, path).items()
            }
        case (("allOf" | "anyOf" | "oneOf"), _) | ("items", list()):
            parts = enumerate(_typed(value, list, path))
            return [decode_schema(part, f"{path}[{index}]") for index, part in parts]
        case (("additionalProperties" | "additionalItems"), bool()):
            return value
        case (("items" | "additionalProperties" | "additionalItems" | "not"), _):
            return decode_schema(value, path)
        case "x-kubernetes-validations", _:
            for index, rule in enumerate(_typed(value, list, path)):
                for field, part in _typed(rule, dict, f"{path}[{index}]").items():
                    _typed(part, _RULE_TYPES.get(field, object), f"{path}[{index}].{field}")
        case (("required" | "x-kubernetes-list-map-keys"), list()):
            for index, part in enumerate(value):
                _typed(part, str, f"{path}[{index}]")
    return _typed(value, _TYPES.get(name, object), path)


def _typed(value: Any, expected: type | tuple[type, ...], path: str) -> Any:
    if not isinstance(value, expected) or (isinstance(value, bool) and expected in (int, (int, float))):
        raise _undecodable(value, path)
    return value


def _undecodable(value: Any, path: str) -> StatusError:
    kind = "CustomResourceDefinition"
    problem = f"json: cannot unmarshal {type(value).__name__} into the field {path}"
    return bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {problem}')
