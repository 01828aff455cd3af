"""Render the subset of Helm's template language that the chart uses.

Supported are ``if``, ``if not``, ``with``, ``range``, ``end``, paths into the values, and the functions
``toYaml`` and ``nindent``; anything else is refused.  The tests use it to compare the chart with the
manifests of ``kubectl apply -k deploy``.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

Json = dict[str, Any]

_ACTION = re.compile(r"\{\{(-?) ([^}]+?) \}\}")


class UnsupportedTemplate(ValueError):
    """The template uses a part of the language that is not supported."""


@dataclass
class _Block:
    word: str  # "if", "with", "range", or empty for the root
    path: str
    parts: "list[str | _Block]" = field(default_factory=list)


def render(template: str, values: Json, release: Mapping[str, str]) -> str:
    scope = {"Values": values, "Release": dict(release)}
    return _fill(_parse(template), scope, scope)


def _parse(template: str) -> _Block:
    stack = [_Block("", "")]
    end = 0
    for action in _ACTION.finditer(template):
        before = template[end : action.start()]
        stack[-1].parts.append(before.rstrip() if action[1] else before)
        end = action.end()
        word, _, rest = action[2].partition(" ")
        if word in ("if", "with", "range"):
            block = _Block(word, rest)
            stack[-1].parts.append(block)
            stack.append(block)
        elif word == "end":
            stack.pop()
        else:
            stack[-1].parts.append(_Block("print", action[2]))
    stack[-1].parts.append(template[end:])
    if len(stack) != 1:
        raise UnsupportedTemplate("a block is not closed")
    return stack[0]


def _fill(block: _Block, dot: Any, root: Json) -> str:
    text = ""
    for part in block.parts:
        if isinstance(part, str):
            text += part
            continue
        match part.word:
            case "print":
                text += _print(part.path, dot, root)
            case "if":
                negated = part.path.startswith("not ")
                if bool(_look_up(part.path.removeprefix("not "), dot, root)) is not negated:
                    text += _fill(part, dot, root)
            case "with":
                if found := _look_up(part.path, dot, root):
                    text += _fill(part, found, root)
            case "range":
                text += "".join(_fill(part, each, root) for each in _look_up(part.path, dot, root))
    return text


def _print(words: str, dot: Any, root: Json) -> str:
    source, *functions = (each.strip() for each in words.split("|"))
    as_yaml = source.startswith("toYaml ")
    found = _look_up(source.removeprefix("toYaml "), dot, root)
    text = yaml.safe_dump(found, sort_keys=False).rstrip("\n") if as_yaml else _scalar(found)
    for function in functions:
        name, _, argument = function.partition(" ")
        if name != "nindent":
            raise UnsupportedTemplate(function)
        text = "\n" + "\n".join(f"{' ' * int(argument)}{line}" if line else "" for line in text.splitlines())
    return text


def _scalar(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _look_up(path: str, dot: Any, root: Json) -> Any:
    """Return the value at a path from the root (``.Values...``) or from the dot; None if it is missing."""
    if not re.fullmatch(r"\.[\w.]*", path):
        raise UnsupportedTemplate(path)
    names = [name for name in path.split(".") if name]
    found: Any = root if names and names[0] in root else dot
    for name in names:
        found = found.get(name) if isinstance(found, dict) else None
    return found
