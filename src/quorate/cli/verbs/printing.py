"""Print objects as tables, descriptions, JSON, YAML or names."""

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar, assert_never

import msgspec
import typer
import yaml

from quorate.api import codec
from quorate.api.meta import Condition, epoch
from quorate.cli.verbs.options import Output
from quorate.inspect.formatting import format_duration
from quorate.kube.resources import HasMetadata, Json, Resource, untyped

T = TypeVar("T", bound=HasMetadata)
Value = msgspec.Struct | Mapping[str, Any]

_GAP: Final = 3
_NO_COLOURS: Final[Mapping[str, str]] = {}
_MIN_WIDTH: Final = 30  # below this width a sentence is not wrapped


@dataclass(frozen=True, slots=True)
class Column(Generic[T]):
    title: str
    cell: Callable[[T], str]
    wide: bool = False  # shown with ``-o wide`` only


def print_objects(columns: Sequence[Column[T]], objects: Sequence[T], output: Output) -> None:
    """Print the objects as a table, one row each; print nothing if there are no objects."""
    if objects:
        shown = [column for column in columns if output is Output.WIDE or not column.wide]
        rows = [[column.cell(obj) for column in shown] for obj in objects]
        print_rows([column.title for column in shown], rows)


def print_rows(
    titles: Sequence[str],
    rows: Sequence[Sequence[str]],
    indent: int = 0,
    colours: Mapping[str, str] = _NO_COLOURS,
) -> None:
    """Print aligned columns; on a terminal, wrap a long last column between words.

    The other columns are never wrapped, so that names can be copied.  The key of ``colours`` is the text of
    the first column.
    """
    widths = [max(map(len, cells)) + _GAP for cells in zip(titles, *rows, strict=True)]
    start = indent + sum(widths[:-1])
    for number, row in enumerate((titles, *rows)):
        head = "".join(cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False))
        for line in wrap_line(f"{' ' * indent}{head}{row[-1]}".rstrip(), start):
            shown, colour = _styled(line, bold=True) if number == 0 else line, colours.get(row[0])
            if colour is not None and line.startswith(row[0], indent):
                end = indent + len(row[0])
                shown = f"{line[:indent]}{_styled(row[0], fg=colour)}{line[end:]}"
            typer.echo(shown)


def _styled(text: str, **style: Any) -> str:
    """Return the text with a style, unless the terminal has none or the user wants none (no-color.org)."""
    is_plain = os.environ.get("TERM") == "dumb" or os.environ.get("NO_COLOR")
    return text if is_plain else typer.style(text, **style)


def wrap_line(text: str, start: int) -> list[str]:
    """Return ``text`` wrapped to the terminal; lines after the first are indented by ``start``."""
    width = shutil.get_terminal_size().columns
    if not sys.stdout.isatty() or width - start < _MIN_WIDTH or len(text) <= width:
        return [text]
    first, rest = text[:start], text[start:]
    lines = textwrap.wrap(rest, width - start, break_long_words=False, break_on_hyphens=False)
    return [f"{first if number == 0 else ' ' * start}{line}" for number, line in enumerate(lines)]


def print_documents(
    objects: Sequence[tuple[Resource[Any], Json]], output: Output, *, is_list: bool = True
) -> None:
    """Print whole objects as one List, or their names; a single one as it is unless ``is_list``."""
    if output is Output.NAME:
        for resource, document in objects:
            typer.echo(qualified_name(resource, document["metadata"]["name"]))
        return
    items = [_as_kubectl(resource, document) for resource, document in objects]
    _dump(_as_list(items) if is_list or len(items) != 1 else items[0], output)


def print_value(value: Value, output: Output) -> None:
    """Print a value that is no API object."""
    _dump(value, output)


def print_result(lines: Iterable[str], value: Value, output: Output) -> None:
    """Print what a command did: as lines, or as a value that is no API object."""
    if is_structured(output):
        print_value(value, output)
        return
    for line in lines:
        typer.echo(line)


def print_values(values: Sequence[Value], output: Output) -> None:
    """Print the values that arguments name: one as it is, several as one array."""
    _dump(values[0] if len(values) == 1 else values, output)


def _as_kubectl(resource: Resource[Any], document: Json) -> Json:
    """Return the object without ``managedFields``, and with the type that items of a list do not have."""
    metadata = {name: value for name, value in document["metadata"].items() if name != "managedFields"}
    return {"apiVersion": resource.api_version, "kind": resource.kind, **document, "metadata": metadata}


def _as_list(items: Sequence[Json]) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": items, "metadata": {"resourceVersion": ""}}


def _dump(document: Any, output: Output) -> None:
    plain = codec.to_builtins(document)
    if output is Output.YAML:
        typer.echo(yaml.safe_dump(plain, sort_keys=False, allow_unicode=True), nl=False)
    else:
        typer.echo(json_text(plain), nl=False)


def json_text(value: Any) -> str:
    return msgspec.json.format(msgspec.json.encode(value), indent=4).decode() + "\n"


def qualified_name(resource: Resource[Any], name: str) -> str:
    """Return ``clusterqueue.kueue.x-k8s.io/research``, the name that kubectl prints."""
    kind = resource.kind.lower()
    return f"{kind}.{resource.group}/{name}" if resource.group else f"{kind}/{name}"


def as_untyped(resource: Resource[Any]) -> Resource[Json]:
    """Return the same kind with objects as JSON, so that fields unknown to this program are printed too."""
    return untyped(resource.group, resource.version, resource.plural, resource.kind, resource.namespaced)


def age(moment: datetime | None, now: float) -> str:
    return "<unknown>" if moment is None else format_duration(now - epoch(moment))


def is_structured(output: Output) -> bool:
    return output in (Output.JSON, Output.YAML, Output.NAME)


@dataclass(frozen=True, slots=True)
class Fields:
    """Lines ``Name: text``; a line without text is left out."""

    rows: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class TableSection:
    """A table; left out if it has no rows."""

    heading: str
    titles: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True, slots=True)
class ListSection:
    """A list of sentences; left out if it is empty."""

    heading: str
    sentences: tuple[str, ...]


Section = Fields | TableSection | ListSection


def conditions_section(conditions: Sequence[Condition], now: float) -> TableSection:
    rows = tuple(
        (shown.type, shown.status, shown.reason, age(shown.last_transition_time, now), shown.message)
        for shown in conditions
    )
    return TableSection("Conditions", ("TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"), rows)


def print_sections(sections: Sequence[Section]) -> None:
    for section in sections:
        match section:
            case Fields(rows):
                shown = [(name, text) for name, text in rows if text]
                width = max(len(name) for name, _ in shown) + 3
                for name, text in shown:
                    _print_wrapped(f"{name + ':':<{width}}{text}", width)
            case TableSection(heading, titles, rows) if rows:
                typer.echo(f"\n{heading}:")
                print_rows(titles, rows, indent=2)
            case ListSection(heading, sentences) if sentences:
                typer.echo(f"\n{heading}:")
                for sentence in sentences:
                    _print_wrapped(f"- {sentence}", 2)
            case TableSection() | ListSection():
                pass
            case _:
                assert_never(section)
    typer.echo()


def _print_wrapped(text: str, start: int) -> None:
    for line in wrap_line(text, start):
        typer.echo(line)
