"""Table layouts, and Table objects."""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from quorate.api.codec import Json
from quorate.api.human_duration import age, epoch, human_duration
from quorate.local.objects.crd.definition import Column
from quorate.local.objects.tables.json_path import compile_path

Cells = Callable[[Json, float], list[Any]]
"""a function that returns an object's cells in column order; the second argument is epoch seconds"""

NONE = "<none>"
UNKNOWN = "<unknown>"
UNSET = "<unset>"
NAME = Column("Name", "string", "", "name", "unique name within a namespace")


@dataclass(frozen=True, slots=True)
class TableLayout:
    columns: tuple[Column, ...]
    cells: Cells
    conditions: Callable[[Json], list[Json]] = lambda _: []
    """row conditions"""


def columns(names: str, wide: str = "") -> tuple[Column, ...]:
    """Return columns by comma-separated names; wide columns are shown only with `-o wide`.

    A column of another type than string is `name:type`.
    """
    return tuple(
        Column(name, kind or "string", "", priority=priority)
        for priority, listed in enumerate((names, wide))
        for name, _, kind in (text.partition(":") for text in listed.split(",") if text)
    )


def age_of(obj: Json, now: float) -> str:
    return age(obj["metadata"].get("creationTimestamp"), now)


def table(
    layout: TableLayout,
    objects: Iterable[Json],
    now: float,
    *,
    metadata: Json,
    include: str = "Metadata",
    version: str = "v1",
    encoded: Callable[[Json], Any] = lambda row: row,
) -> Json:
    """Return a Table of objects.

    `metadata` is the list's; `include` is what each row contains: Metadata, Object or None; `version` is that
    of meta.k8s.io. `encoded` returns what represents a row.
    """
    rows = [encoded(_row(layout, obj, now, include, version)) for obj in objects]
    columns = [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in layout.columns
    ]
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "columnDefinitions": columns,
        "rows": rows or None,
    }


def _row(layout: TableLayout, obj: Json, now: float, include: str, version: str) -> Json:
    conditions = layout.conditions(obj)
    row: Json = {"cells": layout.cells(obj, now)}
    if conditions:
        row["conditions"] = conditions
    match include:
        case "None":
            row["object"] = None
        case "Object":
            row["object"] = obj
        case _:
            row["object"] = partial_object(obj, version)
    return row


def partial_object(obj: Json, version: str = "v1") -> Json:
    """Return the object's PartialObjectMetadata."""
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": obj["metadata"],
    }


def partial_object_list(objects: Iterable[Json], *, metadata: Json, version: str = "v1") -> Json:
    return {
        "kind": "PartialObjectMetadataList",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": metadata,
        "items": [partial_object(obj, version) for obj in objects],
    }


def custom_layout(columns: Sequence[Column]) -> TableLayout:
    """Return the layout of a custom resource: name, and its printer columns or else age.

    As in kube-apiserver, the columns end before the first with a path that is not a JSONPath.
    """
    wanted: list[Column] = []
    finders: list[tuple[str, Callable[[Json], list[Any]]]] = []
    for column in columns or (Column("Age", "date", ".metadata.creationTimestamp"),):
        try:
            finders.append((column.type, compile_path(column.json_path)))
        except ValueError:
            break
        described = (
            column.description
            or f"Custom resource definition column (in JSONPath format): {column.json_path}"
        )
        wanted.append(msgspec.structs.replace(column, description=described))

    def cells(obj: Json, now: float) -> list[Any]:
        columns = [(kind, find(obj)) for kind, find in finders]
        return [obj["metadata"]["name"], *(_cell(kind, values, now) for kind, values in columns)]

    return TableLayout((NAME, *wanted), cells)


def _cell(kind: str, values: Sequence[Any], now: float) -> Any:
    """Return the first value in the type of its column; None if the value is absent or of another type."""
    if not values:
        return None
    value = values[0]
    match kind, value:
        case "integer", bool():
            return None
        case "integer", int() | float():
            return int(value)
        case "number", int() | float():
            return value
        case "boolean", bool():
            return value
        case "date", str():
            return _date(value, now)
        case "string", None:
            return "<no value>"
        case "string", str():
            return value
        case "string", _:
            return _go_json(value)
    return None


def _go_json(value: Any) -> str:
    """Return the text of a value that is not a string, as Go encodes it."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    if isinstance(value, dict | list):
        return text.translate(_ESCAPED_FOR_HTML)
    return text.removesuffix(".0")


_ESCAPED_FOR_HTML = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def _date(text: str, now: float) -> str:
    if not text:
        return UNKNOWN
    try:
        return human_duration(now - epoch(text))
    except ValueError:
        return "<invalid>"
