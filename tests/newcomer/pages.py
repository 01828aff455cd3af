"""Read the commands of a page, and the outputs that it shows, in order."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tests.docs.walk import File, Step

_FENCE: Final = re.compile(r"^( *)```(\w*)(?: title=\"([^\"]+)\")?$")
_COMMAND: Final = re.compile(
    r"(?:\$ |cd |cp |curl |docker |export |git |helm |kubectl |make |offline/|pip |python3? |quorate |~/)"
    r"|[A-Z]+="
)
_HEREDOC: Final = re.compile(r"<<'?(\w+)'?$")
_VARIES: Final = re.compile(r"\b[0-9a-f]{5}\b|\d+(?:\.\d+)?")  # hashes in names of objects, and numbers


@dataclass(frozen=True)
class Shown:
    """A block without commands: the output of a command, a file, or a part of one."""

    text: str
    after_command: bool = False  # it is the output of the command before it


Block = File | Step | Shown


def blocks_of(page: str) -> Iterator[Block]:
    """Yield files, commands and other code of ``page`` in order; a table or a paragraph is no block."""
    for language, title, text in _code(page):
        if title:
            yield File(title, text)
        elif language in ("", "sh", "console", "indented") and _COMMAND.match(text):
            yield from _steps(text, language == "console")
        elif language in ("", "indented"):
            yield Shown(text)


def _code(page: str) -> Iterator[tuple[str, str, str]]:
    """Yield language, title and text of each fenced or indented block."""
    lines = [*page.splitlines(), ""]
    while lines:
        line = lines.pop(0)
        if fence := _FENCE.match(line):
            margin, language, title = fence.groups()
            body = []
            while lines and lines[0].strip() != "```":
                body.append(lines.pop(0).removeprefix(margin))
            del lines[:1]
            yield language, title or "", "".join(f"{text}\n" for text in body)
        elif line.startswith("    "):
            margin = re.match(" +", line)[0]  # type: ignore[index]
            body = [line]
            while lines and (lines[0].startswith(margin) or (not lines[0] and _goes_on(lines, margin))):
                body.append(lines.pop(0))
            yield "indented", "", "".join(f"{text.removeprefix(margin)}\n" for text in body)


def _goes_on(lines: list[str], margin: str) -> bool:
    """Return True if the indented block goes on after a blank line, with what is no command."""
    text = next((line for line in lines if line), "")
    return text.startswith(margin) and not _COMMAND.match(text.strip())


def _steps(text: str, exact: bool) -> Iterator[Block]:
    """Yield the commands of a block; with ``$ `` before them, what follows each is its output.

    The output of a ``console`` block is exact, but for ``...`` in it.
    """
    if text.startswith("$ "):
        for part in f"\n{text}".split("\n$ ")[1:]:
            command, _, output = part.partition("\n")
            yield Step(command, output if exact else "")
            if output and not exact:
                yield Shown(output, after_command=True)
        return
    lines = text.splitlines()
    while lines:
        command = re.sub(r"\s+# .*$", "", lines.pop(0))
        heredoc = _HEREDOC.search(command)
        while lines and (command.endswith("\\") or (heredoc and not command.endswith(f"\n{heredoc[1]}"))):
            command += f"\n{lines.pop(0)}"
        if command:
            yield Step(command, "")


def shows(output: str, shown: str) -> bool:
    """Return True if the lines of ``shown`` are in ``output`` in their order, with any numbers and hashes.

    A line that begins with a moment, such as ``2.0 s``, is progress that a slower machine may skip.
    """
    printed = iter(_numberless(output))
    wanted = (line for line in _numberless(shown) if line != "..." and not line.startswith("# s "))
    return all(line in printed for line in wanted)


def _numberless(text: str) -> list[str]:
    return [_VARIES.sub("#", " ".join(line.split())) for line in text.splitlines() if line.strip()]
