"""``python -m tests.dead_code``: print code in ``src`` that nothing uses, and names that need not be ignored.

Members of enumerations, and fields of objects of an API, may be unused: they are decoded or encoded.
``ignore_names`` in ``pyproject.toml`` has what else is used by name only.
"""

import ast
import gc
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import vulture

ROOT: Final = Path(__file__).resolve().parents[1]
ENUMERATIONS: Final = {"Enum", "IntEnum", "StrEnum", "Flag", "IntFlag"}


class Scan(vulture.Vulture):  # type: ignore[misc]  # it has no types
    """A scan for unused code that keeps the definitions of all classes, with their files."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.classes: list[tuple[Path, ast.ClassDef]] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> None:  # noqa: N802
        self.classes.append((Path(self.filename), node))
        super().visit_ClassDef(node)


def bases(node: ast.ClassDef) -> set[str]:
    return {name.attr if isinstance(name, ast.Attribute) else getattr(name, "id", "") for name in node.bases}


def is_encoded(path: Path, node: ast.ClassDef) -> bool:
    """Return True for an enumeration, and for a struct with the field names of an API."""
    is_api = "api" in path.relative_to(ROOT / "src" / "quorate").parts[:1]
    return (
        not bases(node).isdisjoint(ENUMERATIONS)
        or any(keyword.arg == "rename" for keyword in node.keywords)
        or (is_api and "Struct" in bases(node))
    )


def encoded_lines(definitions: Sequence[tuple[Path, ast.ClassDef]]) -> dict[Path, set[int]]:
    """Return the lines of the members of encoded classes, and of classes derived from these, by file."""
    names = {node.name for path, node in definitions if is_encoded(path, node)}
    while derived := {node.name for _, node in definitions if not bases(node).isdisjoint(names)} - names:
        names |= derived
    lines: dict[Path, set[int]] = {}
    for path, node in definitions:
        if node.name in names:
            members = (part.lineno for part in node.body if isinstance(part, ast.Assign | ast.AnnAssign))
            lines.setdefault(path, set()).update(members)
    return lines


def problems(settings: dict[str, Any]) -> Iterator[str]:
    scan = Scan(ignore_decorators=settings["ignore_decorators"])
    scan.scavenge([str(ROOT / path) for path in settings["paths"]], exclude=settings["exclude"])
    encoded = encoded_lines(scan.classes)
    ignored = dict.fromkeys(settings["ignore_names"], True)
    for item in scan.get_unused_code(min_confidence=settings["min_confidence"]):
        if item.name in ignored:
            ignored[item.name] = False
        elif item.first_lineno not in encoded.get(Path(item.filename), ()):
            yield item.get_report()
    yield from (
        f"pyproject.toml: ignore_names: {name} is used" for name, is_used in ignored.items() if is_used
    )


if __name__ == "__main__":
    gc.disable()  # a third of the processor time: the syntax trees are kept
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["vulture"]
    report = list(problems(settings))
    for line in report:
        sys.stdout.write(f"{line}\n")
    sys.exit(bool(report))
