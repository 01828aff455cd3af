"""Paths of fields in a JSON document, and typed access by path: ``spec.groups[0].template``."""

import copy
import re
from collections.abc import Mapping
from typing import Any, TypeVar

T = TypeVar("T")

Path = tuple[str | int, ...]

_NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
_PATH = re.compile(rf"{_NAME}(\[[0-9]+\])*(\.{_NAME}(\[[0-9]+\])*)*")
_STEP = re.compile(rf"({_NAME})|\[([0-9]+)\]")


class InvalidPath(ValueError):
    def __init__(self, text: str) -> None:
        super().__init__(f"{text!r} is not a path: write names joined by dots, such as spec.suspend")


class InvalidTemplate(ValueError):
    """A job's document lacks a required field, or a field has the wrong type or value."""

    def __init__(self, path: Path, rule: str) -> None:
        super().__init__(f"{format_path(path)}: {rule}")


def parse_path(text: str) -> Path:
    """Parse ``spec.groups[0].template``.  Raises ``InvalidPath``."""
    if _PATH.fullmatch(text) is None:
        raise InvalidPath(text)
    return tuple(name or int(index) for name, index in _STEP.findall(text))


def format_path(path: Path) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def look_up(document: Any, path: Path) -> Any:
    """Return the value at ``path``, or None if it is absent or null."""
    value = document
    for step in path:
        if isinstance(step, str):
            if not isinstance(value, dict | Mapping):  # dict first: the test of an abstract class is slow
                return None
            value = value.get(step)
        elif isinstance(value, list) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def read_field(document: Any, path: Path, type_: type[T], default: T | None = None) -> T:
    """Return the value at ``path``.  Raises ``InvalidTemplate`` for another type or none."""
    value = look_up(document, path)
    if value is None and default is not None:
        return default
    # In Python a boolean is an integer, in JSON it is not.
    if not isinstance(value, type_) or (type_ is int and isinstance(value, bool)):
        absent = "is missing" if value is None else f"is {value!r}"
        raise InvalidTemplate(path, f"{absent}, must be {_TYPE_NAMES[type_]}")
    return value


def read_count(document: Any, path: Path, default: int | None = None) -> int:
    """Return the non-negative integer at ``path``.  Raises ``InvalidTemplate``."""
    count = read_field(document, path, int, default)
    if count < 0:
        raise InvalidTemplate(path, f"is {count}, must not be negative")
    return count


def read_entries(document: Any, path: Path) -> list[dict[str, Any]]:
    """Return the objects in the list at ``path``; empty if absent.  Raises ``InvalidTemplate``."""
    entries: list[Any] = read_field(document, path, list, [])
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            read_field(document, (*path, index), dict)  # raises
    return list(entries)


def write_field(document: Any, path: Path, value: Any) -> None:
    """Set ``value`` at ``path`` in ``document`` and create missing objects on the way.

    Raises ``InvalidTemplate`` if there is something else than an object or a list on the way.
    """
    *steps, last = path
    for depth, step in enumerate(steps):
        _require_step(document, path[:depth], step)
        if isinstance(document, dict) and document.get(step) is None:
            document[step] = {}
        document = document[step]
    _require_step(document, tuple(steps), last)
    document[last] = value


def with_field(document: Any, path: Path, value: Any) -> Any:
    """Return ``document`` with ``value`` at ``path``; whatever is not on the path is shared, not copied.

    Creates missing objects on the way.  Raises ``InvalidTemplate`` as ``write_field`` does.
    """
    return _with_field(document, (), path, value)


def _with_field(container: Any, above: Path, path: Path, value: Any) -> Any:
    if not path:
        return value
    step, *below = path
    _require_step(container, above, step)
    changed = copy.copy(container)
    inner = container.get(step) if isinstance(container, dict) else container[step]
    if inner is None and below:
        inner = {}
    changed[step] = _with_field(inner, (*above, step), tuple(below), value)
    return changed


def _require_step(container: Any, path: Path, step: str | int) -> None:
    """Raise ``InvalidTemplate`` if ``container``, the value at ``path``, has no place for ``step``."""
    match container, step:
        case (dict(), str()):
            return
        case (list(), int()) if step < len(container):
            return
        case _:
            rule = "a mapping" if isinstance(step, str) else f"a list with an entry {step}"
            raise InvalidTemplate(path, f"is {container!r}, must be {rule}")


_TYPE_NAMES: Mapping[type[Any], str] = {
    bool: "true or false",
    dict: "a mapping",
    int: "a whole number",
    list: "a list",
    str: "a text",
}
