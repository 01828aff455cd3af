"""The rules of language for code and pages: things are not persons, and retired names stay retired."""

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

ROOT = Path(__file__).resolve().parents[2]
WORDS: dict[str, Any] = yaml.safe_load((Path(__file__).parent / "words.yaml").read_text())
PERSONAL = re.compile(rf"\b({'|'.join(WORDS['personal'])})\b", re.IGNORECASE)
RETIRED: dict[str, str] = WORDS["retired"]["words"]
RETIRED_NAMES: dict[str, str] = WORDS["retired"]["names"]
QUOTED = "tests/conformance/check.py"  # shared with other implementations, kept as it is
OWN = Path(__file__).parent.relative_to(ROOT)
PARTS = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


class Line(NamedTuple):
    file: str
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.number}: {self.text.strip()}"


def python_files() -> list[str]:
    paths = (path for top in ("src", "tests", "bench", "reference") for path in (ROOT / top).rglob("*.py"))
    return sorted(str(path.relative_to(ROOT)) for path in paths)


def pages() -> list[str]:
    paths = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "changelog.d").glob("*.md"), *ROOT.glob("*.md")]
    paths += (ROOT / "src").rglob("*.md")
    return sorted(str(path.relative_to(ROOT)) for path in paths)


def findings(files: Iterable[str]) -> Iterator[str]:
    """Yield each line that breaks a rule; ``files`` are paths below the root of the repository."""
    for file in files:
        if file.endswith(".md"):
            yield from page_findings(file)
        elif file != QUOTED and not file.startswith(str(OWN)):
            yield from code_findings(file)


def page_findings(file: str) -> Iterator[str]:
    for number, text in enumerate((ROOT / file).read_text().splitlines(), 1):
        line = Line(file, number, text)
        if PERSONAL.search(text) and not is_allowed(line):
            yield f"{line}: things are it, which, that, none"


def code_findings(file: str) -> Iterator[str]:
    source = (ROOT / file).read_text()
    words = words_of(f"{file} {source}")
    lines: list[Line] = []
    if PERSONAL.search(source):  # else no comment or string has such a word, and tokens are slow
        lines += (line for line in prose_of(source, file) if PERSONAL.search(line.text))
    if not words.isdisjoint(WORDS["personal"]):  # else no name has such a word
        lines += (line for line in names_of(source, file) if is_personal(line.text))
    yield from (f"{line}: things are it, which, that, none" for line in lines if not is_allowed(line))
    if file.startswith(("src/", "bench/", "reference/")) and (
        not words.isdisjoint(RETIRED) or any(name in source for name in RETIRED_NAMES)
    ):
        for line in names_of(source, file):
            if term := retired_in(line.text):
                yield f"{line}: use {term}"


def prose_of(source: str, file: str) -> Iterator[Line]:
    """Yield the lines of comments and strings."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            for offset, text in enumerate(token.string.splitlines()):
                yield Line(file, token.start[0] + offset, text)


def names_of(source: str, file: str) -> Iterator[Line]:
    """Yield each name that the code defines: module, class, function, parameter, variable, attribute."""
    yield Line(file, 1, Path(file).stem)
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield Line(file, node.lineno, name)
            case ast.arg(arg=name) | ast.keyword(arg=str(name)):
                yield Line(file, node.lineno, name)
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield Line(file, node.lineno, name)


def is_allowed(line: Line) -> bool:
    return any(place["file"] == line.file and place["text"] in line.text for place in WORDS["allowed"])


def retired_in(name: str) -> str:
    """Return what replaces ``name``, or a word of it; empty where nothing does."""
    if name in RETIRED_NAMES:
        return RETIRED_NAMES[name]
    return next((RETIRED[part] for part in map(str.lower, PARTS.findall(name)) if part in RETIRED), "")


def is_personal(text: str) -> bool:
    """Return True if a word of ``text``, or of a name in it, is personal."""
    return not words_of(text).isdisjoint(WORDS["personal"])


def words_of(text: str) -> set[str]:
    return {part.lower() for part in PARTS.findall(text)}
