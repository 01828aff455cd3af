"""The reference pages of the queueing and gang scheduling kinds, generated from their CRDs."""

from collections.abc import Iterator
from typing import Any, Final

from quorate.install.crds import gang_definitions, queueing_definitions

Json = dict[str, Any]

_HEAD: Final = """\
# Queueing kinds

This page is generated from the CustomResourceDefinitions that `quorate crds` writes (`make reference`).
The fields are those of `v1beta2`, the stored version; [the webhooks](../concepts/webhooks.md) convert
from and to `v1beta1`. The API server checks the rules with no other component installed. Errors that
concern more than one object, such as a flavor that does not exist, appear in the conditions of the object
that refers to the other one.

`*` marks required fields.
"""
_GANG_HEAD: Final = """\
# Gang scheduling kinds

This page is generated from the CustomResourceDefinitions that `quorate crds` writes into the directory
`gang` (`make reference`). The kinds are Volcano's; if a cluster has Volcano's own
CustomResourceDefinitions, these are used unchanged. The API server checks the rules with no other
component installed; Volcano's definitions check fewer rules.

`*` marks required fields.
"""
_AT_THE_ROOT: Final = ("value", "description", "action", "target", "reason", "message", "spec", "status")
_LIMITS: Final = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "maxProperties": "at most {} entries",
}


def page() -> str:
    """Return the page of ``kueue.x-k8s.io`` as Markdown."""
    return "\n".join([_HEAD, *_sections(queueing_definitions())])


def gang_page() -> str:
    """Return the page of Volcano's API groups as Markdown."""
    return "\n".join([_GANG_HEAD, *_sections(gang_definitions())])


def _sections(definitions: tuple[Json, ...]) -> Iterator[str]:
    for definition in definitions:
        spec = definition["spec"]
        newest = next(version for version in spec["versions"] if version["storage"])
        names = [spec["names"]["plural"], *spec["names"].get("shortNames", ())]
        scope = "Namespaced" if spec["scope"] == "Namespaced" else "Cluster-scoped"
        root = newest["schema"]["openAPIV3Schema"]
        yield f"## {spec['names']['kind']}\n"
        yield f"{root['description']}\n"
        yield f"{scope}; names for kubectl: {', '.join(f'`{name}`' for name in names)}.\n"
        columns = newest.get("additionalPrinterColumns", [])
        if columns:
            shown = ", ".join(f"{column['name']} (`{column['jsonPath']}`)" for column in columns)
            yield f"Columns of `kubectl get`: {shown}.\n"
        yield "| field | type | default | rules | description |\n|---|---|---|---|---|"
        properties = root["properties"]
        for name in properties.keys() - {"apiVersion", "kind", "metadata"}:
            assert name in _AT_THE_ROOT, f"{name} of {spec['names']['kind']}"
        for name in _AT_THE_ROOT:
            if name in properties:
                yield from _rows(name, properties[name], name == "value")
        yield ""


def _rows(path: str, schema: Json, required: bool) -> Iterator[str]:
    name = f"`{path}`{' *' if required else ''}"
    default = f"`{_json(schema['default'])}`" if "default" in schema else ""
    about = schema["description"].replace("*", "\\*").replace("|", "\\|")
    yield f"| {name} | {_type(schema)} | {default} | {'; '.join(_rules(schema))} | {about} |"
    if _is_whole(schema):
        return
    inner = schema.get("items") or schema.get("additionalProperties") or schema
    mark = "[]" if "items" in schema else "{}" if "additionalProperties" in schema else ""
    for field, below in inner.get("properties", {}).items():
        yield from _rows(f"{path}{mark}.{field}", below, field in inner.get("required", ()))


def _is_whole(schema: Json) -> bool:
    """Return True if the fields below belong to Kubernetes and are documented there."""
    return bool(schema.get("x-kubernetes-preserve-unknown-fields"))


def _type(schema: Json) -> str:
    if schema.get("x-kubernetes-int-or-string"):
        return "quantity"
    if "items" in schema:
        return f"list of {_type(schema['items'])}"
    if "additionalProperties" in schema:
        return f"map to {_type(schema['additionalProperties'])}"
    return str(schema.get("format", schema.get("type", "object")))


def _rules(schema: Json) -> Iterator[str]:
    if "enum" in schema:
        yield " or ".join(f"`{value}`" for value in schema["enum"])
    for key, text in _LIMITS.items():
        if key in schema:
            least = key.startswith("min") and key != "minimum" and schema[key] == 1
            yield "not empty" if least else text.format(schema[key])
    if "x-kubernetes-list-map-keys" in schema:
        yield f"unique by {', '.join(schema['x-kubernetes-list-map-keys'])}"
    for rule in schema.get("x-kubernetes-validations", ()):
        yield rule["message"].replace("|", "\\|")


def _json(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
