"""Plain technical English in code and documentation, see ``rules``."""

import pytest

from tests.language.rules import (
    PERSONAL,
    ROOT,
    WORDS,
    findings,
    names_of,
    pages,
    prose_of,
    python_files,
    retired_in,
)


def test_the_code_follows_the_rules_of_language() -> None:
    assert list(findings(python_files())) == []


def test_the_documentation_follows_the_rules_of_language() -> None:
    assert list(findings(pages())) == []


def test_each_allowance_is_used() -> None:
    unused = [
        place
        for place in WORDS["allowed"]
        if not any(
            place["text"] in text and PERSONAL.search(text)
            for text in (ROOT / place["file"]).read_text().splitlines()
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
