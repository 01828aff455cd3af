"""Plain technical English in code and documentation: things are not persons, retired names stay retired."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
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
    found = (path for top in ("src", "tests", "bench") for path in (ROOT / top).rglob("*.py"))
    names = (str(path.relative_to(ROOT)) for path in found)
    return sorted(name for name in names if name != QUOTED and not name.startswith(str(OWN)))


def pages() -> list[str]:
    found = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "changelog.d").glob("*.md"), *ROOT.glob("*.md")]
    found += (ROOT / "src").rglob("*.md")
    return sorted(str(path.relative_to(ROOT)) for path in found)


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
    return any(each["file"] == line.file and each["text"] in line.text for each in WORDS["allowed"])


def retired_in(name: str) -> str:
    """Return what replaces ``name``, or a word of it; empty where nothing does."""
    if name in RETIRED_NAMES:
        return RETIRED_NAMES[name]
    return next((RETIRED[part] for part in map(str.lower, PARTS.findall(name)) if part in RETIRED), "")


def test_things_are_not_persons_in_the_code() -> None:
    found: list[Line] = []
    for file in python_files():
        source = (ROOT / file).read_text()
        if PERSONAL.search(source):  # else no comment or string has such a word, and tokens are slow
            found += (line for line in prose_of(source, file) if PERSONAL.search(line.text))
        if is_personal(f"{file} {source}"):  # else no name has such a word
            found += (line for line in names_of(source, file) if is_personal(line.text))
    assert not [str(line) for line in found if not is_allowed(line)]


def is_personal(text: str) -> bool:
    """Return True if a word of ``text``, or of a name in it, is personal."""
    return not words_of(text).isdisjoint(WORDS["personal"])


def words_of(text: str) -> set[str]:
    return {part.lower() for part in PARTS.findall(text)}


def test_things_are_not_persons_in_the_documentation() -> None:
    lines = [
        Line(page, number, text)
        for page in pages()
        for number, text in enumerate((ROOT / page).read_text().splitlines(), 1)
    ]
    assert not [str(line) for line in lines if PERSONAL.search(line.text) and not is_allowed(line)]


def test_no_retired_name_comes_back() -> None:
    found: list[str] = []
    for file in python_files():
        source = (ROOT / file).read_text()
        if file.startswith(("src/", "bench/")) and may_have_retired_name(f"{file} {source}"):
            found += (
                f"{line}: use {new}" for line in names_of(source, file) if (new := retired_in(line.text))
            )
    assert not found


def may_have_retired_name(text: str) -> bool:
    return not words_of(text).isdisjoint(RETIRED) or any(name in text for name in RETIRED_NAMES)


def test_each_allowance_is_used() -> None:
    unused = [
        each
        for each in WORDS["allowed"]
        if not any(
            each["text"] in text and PERSONAL.search(text)
            for text in (ROOT / each["file"]).read_text().splitlines()
        )
    ]
    assert not unused


@pytest.mark.parametrize(
    ("name", "replaced"),
    [
        pytest.param("Shell", True, id="a whole name"),
        pytest.param("_was_told", True, id="a word of a snake_case name"),
        pytest.param("PodTelling", True, id="a word of a CamelCase name"),
        pytest.param("ShellCompletion", False, id="a whole name is not looked for in others"),
        pytest.param("stolen", False, id="nor are letters inside a word"),
    ],
)
def test_how_a_retired_name_is_recognised(name: str, replaced: bool) -> None:
    assert bool(retired_in(name)) is replaced


def test_how_prose_is_found() -> None:
    source = '"""Text."""\nnobody = 1  # why\nf"for {nobody}"\n'
    assert [line.text for line in prose_of(source, "f")] == ['"""Text."""', "# why", 'f"for {nobody}"']
    assert [line.text for line in names_of(source, "f")] == ["f", "nobody"]
