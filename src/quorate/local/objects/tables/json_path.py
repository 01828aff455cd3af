"""The subset of JSONPath for printer columns, field selectors and scale paths.

.spec.size   .metadata.labels['a.b']   .spec.items[0].name   .items[*].name   .list[?(@.type=="Ready")].status
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias

Step: TypeAlias = Callable[[Any], Iterator[Any]]

_TOKEN = re.compile(
    r"""
      \.(?P<name>(?:[^.\[\]\\]|\\.)+)
    | \[['"](?P<quoted>[^'"]*)['"]\]
    | \[(?P<index>-?\d+)\]
    | (?P<every>\[\*\]|\.\*)
    | \[\?\(\s*@(?P<path>[^=!<>\s]*)\s*(?:(?P<operator>==|!=)\s*(?P<operand>"[^"]*"|'[^']*'|[^)\s]+)\s*)?\)\]
    """,
    re.VERBOSE,
)


def compile_path(path: str) -> Callable[[Any], list[Any]]:
    """Return a function that finds all values at a path, in order.  Raises ValueError."""
    inner = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps: list[Step] = []
    at = 0
    while at < len(inner):
        token = _TOKEN.match(inner, at)
        if not token:
            raise ValueError(f"{path}: not a JSONPath from character {at}")
        steps.append(_step(token))
        at = token.end()

    def find(value: Any) -> list[Any]:
        found: Iterable[Any] = [value]
        for step in steps:
            found = [inner for outer in found for inner in step(outer)]
        return list(found)

    return find


def _step(token: re.Match[str]) -> Step:
    if token["every"]:
        return _every
    if token["index"]:
        index = int(token["index"])
        return lambda value: iter(value[index:][:1] if isinstance(value, list) else ())
    if token["path"] is not None:
        return _filter(token)
    name = token["quoted"] if token["quoted"] is not None else re.sub(r"\\(.)", r"\1", token["name"])
    return lambda value: iter([value[name]] if isinstance(value, dict) and name in value else ())


def _every(value: Any) -> Iterator[Any]:
    match value:
        case dict():
            yield from value.values()
        case list():
            yield from value


def _filter(token: re.Match[str]) -> Step:
    find, operator = compile_path(token["path"]), token["operator"]
    operand = _literal(token["operand"]) if operator else None

    def keep(item: Any) -> bool:
        found = find(item)
        if not operator or not found:
            return bool(found)
        return (found[0] == operand) is (operator == "==")

    return lambda value: (item for item in (value if isinstance(value, list) else ()) if keep(item))


def _literal(text: str) -> Any:
    if text[0] in "\"'":
        return text[1:-1]
    return {"true": True, "false": False}.get(text, int(text) if re.fullmatch(r"-?\d+", text) else text)
