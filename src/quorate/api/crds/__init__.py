"""CustomResourceDefinitions generated from field lists.

The caller reads a field list and the descriptions, which are YAML files in this package, and passes their
text.  Schemas are structural, and all lists and texts that CEL rules traverse are bounded, so that
kube-apiserver accepts their cost.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, Literal

import msgspec
import yaml
from msgspec.structs import replace

from quorate.api.codec import Json, convert
from quorate.api.kueue.conversion import CONVERTED_KINDS

Texts = Mapping[str, Mapping[str, str]]

ROOT: Final = "root"
ANYWHERE: Final = "anywhere"


@lru_cache(maxsize=1)
def read_texts(text: str) -> Texts:
    """Return texts by section and path; sections are kinds (``group/kind``), ``root`` and ``anywhere``."""
    return convert(dict[str, dict[str, str]], yaml.load(text, Loader=yaml.CSafeLoader) or {})


def described(schema: Json, kind: str, texts: Texts, path: str = "") -> Json:
    """Return ``schema`` of ``kind`` (``group/kind``) with the descriptions that ``texts`` has."""
    result = dict(schema)
    if (source := source_of(kind, path, texts)) is not None:
        section, key = source
        result = {"description": texts[section][key], **result}
    for holder, mark in (("items", "[]"), ("additionalProperties", "{}")):
        if holder in schema:
            result[holder] = described(schema[holder], kind, texts, path + mark)
    if "properties" in schema:
        result["properties"] = {
            name: described(inner, kind, texts, f"{path}.{name}" if path else name)
            for name, inner in schema["properties"].items()
        }
    return result


def source_of(kind: str, path: str, texts: Texts) -> tuple[str, str] | None:
    """Return section and path of the text for a field; None if no section has a text for it."""
    if path in texts.get(kind, {}):
        return kind, path
    if path in texts.get(ROOT, {}):
        return ROOT, path
    general = texts.get(ANYWHERE, {})
    return next(((ANYWHERE, end) for end in _ends(path) if end in general), None)


def _ends(path: str) -> Iterator[str]:
    """Yield the path and its ends at a field, the longest first."""
    while path:
        yield path
        path = path.partition(".")[2]


KUEUE_FIELDS: Final = "kueue.yaml"
VOLCANO_FIELDS: Final = "volcano.yaml"
QUORATE_FIELDS: Final = "quorate.yaml"
DESCRIPTIONS: Final = "descriptions.yaml"
MANAGED_LABELS: Final = {"app.kubernetes.io/name": "quorate"}  # labels of definitions that Quorate may update
NO_CONVERSION: Final[Json] = {"strategy": "None"}


class Rule(msgspec.Struct, frozen=True):
    """A CEL rule over ``self`` and, in updates, ``oldSelf``, with the message of its violation."""

    rule: str
    message: str


class Constraints(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Value validation of a field."""

    enum: list[str] | msgspec.UnsetType = msgspec.UNSET
    minimum: int | msgspec.UnsetType = msgspec.UNSET
    maximum: int | msgspec.UnsetType = msgspec.UNSET
    min_length: int | msgspec.UnsetType = msgspec.UNSET
    max_length: int | msgspec.UnsetType = msgspec.UNSET
    pattern: str | msgspec.UnsetType = msgspec.UNSET
    min_items: int | msgspec.UnsetType = msgspec.UNSET
    max_items: int | msgspec.UnsetType = msgspec.UNSET
    max_properties: int | msgspec.UnsetType = msgspec.UNSET
    list_type: Literal["map", "set", "atomic"] | msgspec.UnsetType = msgspec.UNSET
    list_map_keys: list[str] | msgspec.UnsetType = msgspec.UNSET
    map_type: Literal["atomic", "granular"] | msgspec.UnsetType = msgspec.UNSET
    not_negative: bool = False  # for quantities
    cel: tuple[Rule, ...] = ()
    items: "Constraints | None" = None
    items_cel: tuple[Rule, ...] = ()
    values: "Constraints | None" = None


UNCONSTRAINED: Final = Constraints()


class Field(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    path: str
    type: str
    required: bool = False
    default: Any = msgspec.UNSET
    validation: Constraints = UNCONSTRAINED


class Column(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True, omit_defaults=True):
    """A printer column; ``kubectl get`` shows columns of priority 1 only with ``-o wide``."""

    name: str
    type: str
    json_path: str
    priority: int = 0


class VersionMeta(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Everything about a version of a kind except its fields."""

    scope: Literal["Cluster", "Namespaced"]
    plural: str
    singular: str
    short_names: tuple[str, ...]
    served: bool
    storage: bool
    deprecated: bool
    status_subresource: bool
    printer_columns: tuple[Column, ...] = ()
    selectable_fields: tuple[str, ...] = ()
    root_required: tuple[str, ...] = ()
    root_cel: tuple[Rule, ...] = ()


class KindVersion(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    meta: VersionMeta
    fields: tuple[Field, ...]


def custom_resource_definitions(
    field_list: str, conversions: Mapping[str, Json] | None = None, descriptions: str = ""
) -> tuple[Json, ...]:
    """Return the definitions in ``field_list`` (YAML text), sorted by group and kind.

    ``descriptions`` is the YAML text of the descriptions of fields; empty: they have none.

    ``conversions`` gives ``spec.conversion`` by kind. Other kinds get strategy None, with which an API server
    only changes the apiVersion. The older versions of the kinds in ``CONVERTED_KINDS`` then have the fields
    of the stored version. They refuse fields that the stored version does not have, which would be lost
    otherwise.
    """
    by_kind: dict[tuple[str, str], dict[str, KindVersion]] = {}
    for name, kind_version in _kind_versions(field_list).items():
        group, version, kind = name.split("/")
        by_kind.setdefault((group, kind), {})[version] = kind_version
    given = conversions or {}
    texts = read_texts(descriptions)
    return tuple(
        _definition(group, kind, versions, given.get(kind, NO_CONVERSION), texts)
        for (group, kind), versions in sorted(by_kind.items())
    )


@lru_cache(maxsize=3)  # the field lists of the package: to read them takes longest
def _kind_versions(field_list: str) -> Mapping[str, KindVersion]:
    return convert(dict[str, KindVersion], yaml.load(field_list, Loader=yaml.CSafeLoader))


def to_yaml(definition: Json) -> str:
    """Return the YAML file of a definition."""
    return yaml.dump(
        definition, Dumper=_NoAliasDumper, sort_keys=False, width=10_000
    )  # keep each CEL rule on one line


class _NoAliasDumper(yaml.CSafeDumper):
    """A dumper without anchors, which writes shared subtrees repeatedly."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _definition(
    group: str, kind: str, versions: Mapping[str, KindVersion], conversion: Json, texts: Texts
) -> Json:
    stored = next(version for version, facts in versions.items() if facts.meta.storage)
    about = versions[stored].meta
    newest_first = sorted(versions, reverse=True)
    stored_name = f"{group}/{stored} {kind}"
    if conversion is NO_CONVERSION and kind in CONVERTED_KINDS:
        versions = {
            version: facts
            if version == stored
            else _refusing_lost_fields(facts, versions[stored], stored_name)
            for version, facts in versions.items()
        }
    schemas = {
        version: described(_schema(versions[version]), f"{group}/{kind}", texts) for version in versions
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{about.plural}.{group}", "labels": MANAGED_LABELS},
        "spec": {
            "group": group,
            "scope": about.scope,
            "names": {
                "kind": kind,
                "listKind": f"{kind}List",
                "plural": about.plural,
                "singular": about.singular,
                **({"shortNames": list(about.short_names)} if about.short_names else {}),
            },
            "conversion": conversion,
            "versions": [
                _version(
                    version,
                    versions[version].meta,
                    schemas[version],
                    f"{group}/{version} {kind}",
                    stored_name,
                )
                for version in newest_first
            ],
        },
    }


def _refusing_lost_fields(older: KindVersion, stored: KindVersion, stored_name: str) -> KindVersion:
    """Return the fields of ``stored`` with a rule against each field that only ``older`` has."""
    paths = {field.path for field in stored.fields}
    lost = tuple(field for field in older.fields if field.path not in paths)
    rules: dict[str, list[Rule]] = {}
    refused: list[Field] = []
    for field in lost:
        holder, _, name = field.path.rpartition(".")
        refused.append(replace(field, required=field.required and holder not in paths))
        if holder in paths:
            empty = f" || size(self.{name}) == 0" if field.type == "string" or "<" in field.type else ""
            message = f"{name} would be lost, as no webhook converts it: it is not a field of {stored_name}"
            rules.setdefault(holder, []).append(Rule(f"!has(self.{name}){empty}", message))
    fields = tuple(_with_rules(field, rules.get(field.path, ())) for field in stored.fields)
    about = replace(older.meta, root_required=stored.meta.root_required, root_cel=stored.meta.root_cel)
    return KindVersion(about, (*fields, *refused))


def _with_rules(field: Field, rules: Iterable[Rule]) -> Field:
    validation = field.validation
    return replace(field, validation=replace(validation, cel=(*validation.cel, *rules)))


def _version(version: str, about: VersionMeta, schema: Json, name: str, stored_name: str) -> Json:
    result: Json = {"name": version, "served": about.served, "storage": about.storage}
    if about.deprecated:
        result["deprecated"] = True
        result["deprecationWarning"] = f"{name} is deprecated; use {stored_name}"
    if about.status_subresource:
        result["subresources"] = {"status": {}}
    if about.printer_columns:
        result["additionalPrinterColumns"] = msgspec.to_builtins(list(about.printer_columns))
    if about.selectable_fields:
        result["selectableFields"] = [{"jsonPath": path} for path in about.selectable_fields]
    result["schema"] = {"openAPIV3Schema": schema}
    return result


def _schema(facts: KindVersion) -> Json:
    root: Json = {
        "type": "object",
        "properties": {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": {"type": "object"},
        },
    }
    if facts.meta.root_required:
        root["required"] = list(facts.meta.root_required)
    _add_rules(root, facts.meta.root_cel)
    # Object schemas by path, to which fields are added.
    holders = {"": root}
    for field in facts.fields:
        schema = _field(field)
        holder_path, _, name = field.path.rpartition(".")
        holder = holders[holder_path]
        holder.setdefault("properties", {})[name] = schema
        if field.required and name not in holder.setdefault("required", []):
            holder["required"].append(name)
        holders[field.path] = schema
        if "items" in schema:
            holders[f"{field.path}[]"] = schema["items"]
        if "additionalProperties" in schema:
            holders[f"{field.path}{{}}"] = schema["additionalProperties"]
    return root


def _field(field: Field) -> Json:
    schema = _type_schema(field.type)
    if field.default is not msgspec.UNSET:
        schema["default"] = copy.deepcopy(field.default)
    constraints = field.validation
    _add_constraints(schema, constraints)
    _add_rules(schema.get("items", {}), constraints.items_cel)
    if constraints.items is not None:
        _add_constraints(schema["items"], constraints.items)
    if constraints.values is not None:
        _add_constraints(schema["additionalProperties"], constraints.values)
    return schema


def _add_constraints(schema: Json, constraints: Constraints) -> None:
    given = msgspec.to_builtins(constraints)
    for name, keyword in _KEYWORDS.items():
        if name in given:
            schema[keyword] = given[name]
    if constraints.not_negative:  # the pattern for text, the minimum for numbers
        schema.update(pattern=_NOT_NEGATIVE, minimum=0)
    _add_rules(schema, constraints.cel)


def _add_rules(schema: Json, rules: Iterable[Rule]) -> None:
    if rules:
        schema["x-kubernetes-validations"] = [msgspec.to_builtins(rule) for rule in rules]


_KEYWORDS: Final = {
    name: name
    for name in (
        "enum", "minimum", "maximum", "minLength", "maxLength", "pattern",
        "minItems", "maxItems", "maxProperties",
    )
} | {
    "listType": "x-kubernetes-list-type",
    "listMapKeys": "x-kubernetes-list-map-keys",
    "mapType": "x-kubernetes-map-type",
}  # fmt: skip
# The quantity pattern of Kubernetes' own CRDs, which also allows a fraction in the exponent; the API does not
# limit the length of the text.
_NUMBER: Final = r"([0-9]+(\.[0-9]*)?|\.[0-9]+)"
_AMOUNT: Final = rf"{_NUMBER}([KMGTPE]i|[numkMGTPE]|[eE][+-]?{_NUMBER})?$"
_QUANTITY: Final = "^[+-]?" + _AMOUNT
_NOT_NEGATIVE: Final = "^[+]?" + _AMOUNT


def _type_schema(type_: str) -> Json:
    """Return the schema of a type in the notation of the field list."""
    name, _, inner = type_.removesuffix(">").partition("<")
    match name:
        case "array":
            return {"type": "array", "items": _type_schema(inner)}
        case "map":
            return {"type": "object", "additionalProperties": _type_schema(inner.removeprefix("string,"))}
        case "int32" | "int64":
            return {"type": "integer", "format": name}
        case "date-time":
            return {"type": "string", "format": "date-time"}
        case "quantity":
            return {
                "anyOf": [{"type": "integer"}, {"type": "string"}],
                "pattern": _QUANTITY,
                "x-kubernetes-int-or-string": True,
            }
        case "podTemplate":
            return _pod_template()
        case "anything":
            return {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        case "string" | "boolean" | "object":
            return {"type": name}
        case _:
            raise ValueError(f"no schema for type {type_!r}")


def _pod_template() -> Json:
    """Return the schema of pod templates, which are never pruned and hardly validated.

    Listing every field of core/v1 would take thousands of lines, would lag behind Kubernetes releases, and
    would prune unlisted fields of users' templates.
    """
    strings = _type_schema("map<string,string>")
    amounts = _type_schema("map<string,quantity>")
    open_object = _type_schema("anything")
    resources = open_object | {"properties": {"limits": amounts, "requests": amounts}}
    container = open_object | {
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "image": {"type": "string"}, "resources": resources},
    }
    # A list of type map refuses duplicate names, and several appliers can own containers of one list.
    by_name = {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]}
    containers = {"type": "array", "items": container} | by_name
    spec = open_object | {
        "required": ["containers"],
        "properties": {
            "containers": containers,
            "initContainers": containers,
            "nodeSelector": strings | {"x-kubernetes-map-type": "atomic"},
            "overhead": amounts,
            "resources": resources,
        },
    }
    metadata = {
        "type": "object",
        "properties": {
            "annotations": strings,
            "finalizers": _type_schema("array<string>"),
            "labels": strings,
            "name": {"type": "string"},
            "namespace": {"type": "string"},
        },
    }
    return {"type": "object", "properties": {"metadata": metadata, "spec": spec}}
