"""Types of values in CEL rules, with bounds of their sizes, from an `openAPIV3Schema`.

The bounds are those of kube-apiserver: a value without a maximum in its schema is bounded by the size of a
request, 3 MiB. They decide what a rule is estimated to cost.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from quorate.local.objects.schema_types import Json

MAX_REQUEST_BYTES = 3 * 1024 * 1024

ITEMS, VALUES, KEYS = "@items", "@values", "@keys"
"""steps of a path besides fields"""

_MIN_STRING_BYTES = 2  # the quotes
_FORMATS = {  # type, most characters, least bytes
    "duration": ("duration", 32, 3),
    "date": ("timestamp", 12, 12),
    "date-time": ("timestamp", 32, 21),
}
_ESCAPABLE_NAME = re.compile(r"[A-Za-z_.\-/][A-Za-z0-9_.\-/]*")


class NoEstimate(Exception):
    """An expression with a function or a type for which no cost is known."""


@dataclass(frozen=True, slots=True)
class CelType:
    """The type of a value of a schema, or of an expression."""

    name: str
    """bool, int, uint, double, string, bytes, null_type, timestamp, duration, type, list, map, object,
    optional_type, dyn, or any: that of the items of an empty list"""
    max_elements: int = 0
    """characters of a string, items of a list, entries of a map; 0 otherwise"""
    min_bytes: int = 0
    """of the value as JSON"""
    fields: Mapping[str, "CelType"] = field(default_factory=dict)
    """by escaped names, of an object"""
    item: "CelType | None" = None
    """of a list, map or optional"""

    def field_of(self, name: str) -> "CelType | None":
        """Return the type of a field by its name in JSON."""
        return self.fields.get(cel_name(name))


_SCALARS = frozenset(("bool", "double", "duration", "int", "timestamp", "uint"))
OPEN_TYPES = frozenset(("dyn", "any"))
"""types of which only a value tells more"""

DYN, ANY = CelType("dyn", min_bytes=1), CelType("any")
BOOL, INT, DOUBLE = CelType("bool", min_bytes=4), CelType("int", min_bytes=1), CelType("double", min_bytes=1)
STRING = CelType("string", min_bytes=_MIN_STRING_BYTES)


def type_of_schema(schema: Json, *, is_root: bool) -> CelType | None:
    """Return the type of the values of a schema, or None if rules cannot read them.

    ``is_root``: of a custom resource or an embedded one, which have names.
    """
    if schema.get("x-kubernetes-int-or-string"):
        return CelType("dyn", _characters(schema), 1)
    if is_root:
        schema = _with_identity(schema)
    match schema.get("type"):
        case "array":
            return _list_type(schema)
        case "object":
            values = schema.get("additionalProperties")
            return _map_type(schema, values) if isinstance(values, dict) else _object_type(schema)
        case "string":
            return _string_type(schema)
        case "boolean":
            return BOOL
        case "number":
            return DOUBLE
        case "integer":
            return INT
        case _:
            return None


def _with_identity(schema: Json) -> Json:
    text = {"type": "string"}
    properties = dict(schema.get("properties") or {})
    metadata = properties.get("metadata") or {}
    names = metadata.get("properties") or {}
    complete = (
        all((properties.get(name) or {}).get("type") == "string" for name in ("kind", "apiVersion"))
        and metadata.get("type") == "object"
        and all((names.get(name) or {}).get("type") == "string" for name in ("name", "generateName"))
    )
    if complete:
        return schema
    identity = {"type": "object", "properties": {"name": text, "generateName": text}}
    return {**schema, "properties": {**properties, "kind": text, "apiVersion": text, "metadata": identity}}


def _embedded(schema: Json) -> bool:
    return bool(schema.get("x-kubernetes-embedded-resource"))


def _list_type(schema: Json) -> CelType | None:
    items = schema.get("items")
    inner = type_of_schema(items, is_root=_embedded(items)) if items else None
    if inner is None:
        return None
    most = schema.get("maxItems")
    bound = (MAX_REQUEST_BYTES - 2) // (inner.min_bytes + 1) if most is None else max(0, most)
    return CelType("list", bound, 2, item=inner)


def _map_type(schema: Json, values: Json) -> CelType | None:
    inner = type_of_schema(values, is_root=_embedded(values))
    if inner is None:
        return None
    most = schema.get("maxProperties")
    # An entry has the quotes of its key, a colon and a comma, and a key of two characters.
    bound = (MAX_REQUEST_BYTES - 2) // (inner.min_bytes + 6) if most is None else max(0, most)
    return CelType("map", bound, 2, item=inner)


def _object_type(schema: Json) -> CelType:
    inner: dict[str, CelType] = {}
    least = 2
    for name, part in (schema.get("properties") or {}).items():
        kind = type_of_schema(part, is_root=_embedded(part))
        if kind is None:
            continue
        if _ESCAPABLE_NAME.fullmatch(name):
            inner[cel_name(name)] = kind
        if name in (schema.get("required") or ()) and part.get("default") is None:
            least += len(name.encode()) + kind.min_bytes + 4
    return CelType("object", 0, least, inner)


def _string_type(schema: Json) -> CelType:
    form = schema.get("format", "")
    if form == "byte":
        most = schema.get("maxLength")
        return CelType("bytes", MAX_REQUEST_BYTES - 2 if most is None else max(0, most), _MIN_STRING_BYTES)
    if form in _FORMATS:
        return CelType(*_FORMATS[form])
    return CelType("string", _characters(schema), _MIN_STRING_BYTES)


def _characters(schema: Json) -> int:
    """Return the most bytes of a string, four for each character that `maxLength` allows."""
    if schema.get("maxLength") is not None:
        return max(0, int(schema["maxLength"])) * 4
    if schema.get("enum") and not schema.get("x-kubernetes-int-or-string"):
        return max((len(each.encode()) for each in schema["enum"] if isinstance(each, str)), default=0)
    return MAX_REQUEST_BYTES - 2


_RESERVED = frozenset(
    name
    for words in (
        ("true", "false", "null", "in", "as", "break", "const", "continue", "else", "for", "function"),
        ("if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while"),
    )
    for name in words
)


def cel_name(name: str) -> str:
    """Return the field's name in CEL: invalid characters and reserved words are escaped."""
    if name in _RESERVED:
        return f"__{name}__"
    for character, spelled in (
        ("__", "__underscores__"),
        (".", "__dot__"),
        ("-", "__dash__"),
        ("/", "__slash__"),
    ):
        name = name.replace(character, spelled)
    return name


def declared_below(kind: CelType, name: str) -> CelType | None:
    """Return what a schema declares below a value, or None."""
    if name in (ITEMS, VALUES):
        return kind.item
    if name == KEYS:
        return STRING if kind.name == "map" else None
    return kind.fields.get(name)


def optional(kind: CelType) -> CelType:
    return CelType("optional_type", item=kind)


def field_type(kind: CelType, name: str) -> CelType:
    """Return the type of a field or of a value of a map.  Raises NoEstimate."""
    match kind:
        case CelType(name="optional_type", item=CelType() as item):
            return optional(field_type(item, name))
        case CelType(name="map", item=CelType() as item):
            return item
        case CelType(name="object") if name in kind.fields:
            return kind.fields[name]
        case _ if kind.name in OPEN_TYPES:
            return DYN
        case _:
            raise NoEstimate(name)


def item_type(kind: CelType) -> CelType:
    """Return the type of what an index finds.  Raises NoEstimate."""
    match kind:
        case CelType(name="optional_type", item=CelType() as item):
            return optional(item_type(item))
        case CelType(item=CelType() as item):
            return item
        case _ if kind.name in OPEN_TYPES:
            return DYN
        case _:
            raise NoEstimate(kind.name)


def is_scalar(kind: CelType) -> bool:
    if kind.name == "optional_type" and kind.item is not None:
        return is_scalar(kind.item)
    return kind.name in _SCALARS


def common_type(types: Sequence[CelType]) -> CelType:
    """Return the type of a value that is of one of ``types``."""
    known = [kind for kind in types if kind.name != "any"]
    if not known:
        return ANY
    first = known[0]
    if any(kind.name != first.name for kind in known):
        return DYN
    items = [kind.item for kind in known if kind.item is not None]
    return replace(first, item=common_type(items)) if items else first
