"""The pages of all kinds of queueing and of gang scheduling, made from the definitions that are installed."""

from collections.abc import Iterator
from typing import Any, Final

from quorate.cli.deployment.crds import gang_definitions, queueing_definitions

Json = dict[str, Any]

_HEAD: Final = """\
# Kinds

Made from the definitions that `quorate crds` writes (`make reference`). Fields are those of `v1beta2`,
which is what is stored; [the webhooks](../concepts/webhooks.md) convert from and to `v1beta1`. Rules are
checked by the API server with nothing else installed. What depends on more than one object, such as whether
a flavor exists, shows in the conditions of the object that refers to it.

`*` is what must be there.
"""
_GANG_HEAD: Final = """\
# Kinds of gang scheduling

Made from the definitions that `quorate crds` writes into the directory `gang` (`make reference`). They are
Volcano's kinds; where a cluster has Volcano's own definitions of them, those are used as they are. Rules are
checked by the API server with nothing else installed, and Volcano's definitions check fewer.

`*` is what must be there.
"""
_AT_THE_ROOT: Final = ("value", "description", "action", "target", "reason", "message", "spec", "status")
_LIMITS: Final = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "minLength": "{} characters or more",
    "maxLength": "{} characters or less",
    "minItems": "{} items or more",
    "maxItems": "{} items or less",
    "maxProperties": "{} entries or less",
}


def page() -> str:
    """That of ``kueue.x-k8s.io``, in Markdown."""
    return "\n".join([_HEAD, *_sections(queueing_definitions())])


def gang_page() -> str:
    """That of Volcano's groups."""
    return "\n".join([_GANG_HEAD, *_sections(gang_definitions())])


def _sections(definitions: tuple[Json, ...]) -> Iterator[str]:
    for definition in definitions:
        spec = definition["spec"]
        newest = next(each for each in spec["versions"] if each["storage"])
        names = [spec["names"]["plural"], *spec["names"].get("shortNames", ())]
        scope = "of a namespace" if spec["scope"] == "Namespaced" else "of the cluster"
        yield f"## {spec['names']['kind']}\n"
        yield f"One {scope}; for kubectl {', '.join(f'`{name}`' for name in names)}.\n"
        columns = newest.get("additionalPrinterColumns", [])
        if columns:
            shown = ", ".join(f"{each['name']} (`{each['jsonPath']}`)" for each in columns)
            yield f"`kubectl get` shows {shown}.\n"
        yield "| field | type | default | rules |\n|---|---|---|---|"
        properties = newest["schema"]["openAPIV3Schema"]["properties"]
        for name in properties.keys() - {"apiVersion", "kind", "metadata"}:
            assert name in _AT_THE_ROOT, f"{name} of {spec['names']['kind']}"
        for name in _AT_THE_ROOT:
            if name in properties:
                yield from _rows(name, properties[name], name == "value")
        yield ""


def _rows(path: str, schema: Json, required: bool) -> Iterator[str]:
    name = f"`{path}`{' *' if required else ''}"
    default = f"`{_json(schema['default'])}`" if "default" in schema else ""
    yield f"| {name} | {_type(schema)} | {default} | {'; '.join(_rules(schema))} |"
    if _is_whole(schema):
        return
    inner = schema.get("items") or schema.get("additionalProperties") or schema
    mark = "[]" if "items" in schema else "{}" if "additionalProperties" in schema else ""
    for field, below in inner.get("properties", {}).items():
        yield from _rows(f"{path}{mark}.{field}", below, field in inner.get("required", ()))


def _is_whole(schema: Json) -> bool:
    """Whether what is below belongs to Kubernetes, and is described there."""
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
        yield f"one for each {', '.join(schema['x-kubernetes-list-map-keys'])}"
    for rule in schema.get("x-kubernetes-validations", ()):
        yield rule["message"].replace("|", "\\|")


def _json(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
