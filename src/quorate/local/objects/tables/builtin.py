"""Table layouts of built-in kinds, from ``builtin.yaml``, which documents its notation."""

from collections.abc import Callable, Iterator
from functools import cache
from importlib.resources import files
from typing import Any

import msgspec
import yaml

from quorate.api.codec import Json
from quorate.api.human_duration import age
from quorate.local.objects.crd.definition import Column
from quorate.local.objects.tables.cells import CELLS, TIMED_CELLS, value_below
from quorate.local.objects.tables.layout import NAME, TableLayout, columns
from quorate.local.objects.tables.pods import POD


class ColumnRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One row of the table of columns."""

    heading: str = ""
    type: str = "string"
    format: str = ""
    wide: bool = False
    path: str = ""
    absent: Any = ""
    empty: Any = msgspec.UNSET
    count: str = ""
    cell: str = ""
    include: str = ""

    @property
    def column(self) -> Column:
        if self.heading == NAME.name:
            return NAME
        return Column(self.heading, self.type, "", self.format, priority=int(self.wide))

    def cell_reader(self) -> Callable[[Json, float], Any]:
        """Return a function that returns the cell of an object at a time in epoch seconds."""
        if self.cell in TIMED_CELLS:
            return TIMED_CELLS[self.cell]
        if self.cell:
            cell = CELLS[self.cell]
            return lambda obj, _: cell(obj)
        names, absent, empty = (self.count or self.path).split("."), self.absent, self.empty
        if self.count:
            return lambda obj, _: len(value_below(obj, names, ()))
        if empty is msgspec.UNSET:
            return lambda obj, _: value_below(obj, names, absent)
        return lambda obj, _: value_below(obj, names, absent) or empty


@cache
def rules() -> dict[str, list[ColumnRule]]:
    """Return the columns of each entry of the table, as it has them."""
    text = files(__package__).joinpath("builtin.yaml").read_text("utf-8")
    return msgspec.convert(yaml.load(text, Loader=yaml.CSafeLoader), dict[str, list[ColumnRule]])


def _expanded(entry: str) -> Iterator[ColumnRule]:
    for rule in rules()[entry]:
        if rule.include:
            yield from _expanded(rule.include)
        else:
            yield rule


@cache
def _layout(entry: str) -> TableLayout:
    row = list(_expanded(entry))
    if row[0].heading != NAME.name:
        row.insert(0, ColumnRule(NAME.name, path="metadata.name"))
    readers = [rule.cell_reader() for rule in row]
    return TableLayout(
        tuple(rule.column for rule in row), lambda obj, now: [read(obj, now) for read in readers]
    )


def _event(obj: Json, now: float) -> list[Any]:
    """Return the cells of a core/v1 or events.k8s.io/v1 Event.

    In events.k8s.io the fields of core/v1 have the prefix `deprecated`.
    """
    regarding = obj.get("involvedObject") or obj.get("regarding") or {}
    source = obj.get("source") or obj.get("deprecatedSource") or {}
    series = obj.get("series")
    first = obj.get("firstTimestamp") or obj.get("deprecatedFirstTimestamp") or obj.get("eventTime")
    last = obj.get("lastTimestamp") or obj.get("deprecatedLastTimestamp") or first
    count = obj.get("count") or obj.get("deprecatedCount") or 1
    if series:
        last, count = series["lastObservedTime"], series["count"]
    reporter = obj.get("reportingComponent") or obj.get("reportingController") or ""
    names = [source.get("component") or reporter, source.get("host") or ""]
    return [
        age(last, now),
        obj.get("type", ""),
        obj.get("reason", ""),
        "/".join(part for part in (regarding.get("kind", "").lower(), regarding.get("name")) if part),
        regarding.get("fieldPath", ""),
        ", ".join(name for name in names if name),
        (obj.get("message") or obj.get("note") or "").strip(),
        age(first, now),
        count,
        obj["metadata"]["name"],
    ]


EVENT = TableLayout(
    (
        *columns("Last Seen,Type,Reason,Object"),
        *columns("", "Subobject,Source"),
        *columns("Message"),
        *columns("", "First Seen,Count"),
        Column("Name", "string", "", "name", priority=1),
    ),
    _event,
)
_LAYOUTS = {("", "Event"): EVENT, ("", "Pod"): POD, ("events.k8s.io", "Event"): EVENT}


def builtin_layout(group: str, kind: str) -> TableLayout:
    """Return the layout of a built-in kind; by default name and age."""
    entry = f"{group}/{kind}"
    return _LAYOUTS.get((group, kind)) or _layout(entry if entry in rules() else "Age")
