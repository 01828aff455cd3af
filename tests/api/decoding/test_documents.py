"""Decoding of YAML to JSON, with lines and duplicate keys."""

import pytest

from quorate.api.decoding.documents import InvalidYaml, read_documents


def test_documents_come_in_order_without_the_empty_ones() -> None:
    text = "---\n# nothing\n---\na: 1\n---\nnull\n---\n- b\n"
    assert [document.value for document in read_documents(text)] == [{"a": 1}, ["b"]]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param("a: 2026-01-01", {"a": "2026-01-01"}, id="a date is text"),
        pytest.param("a: 1:30", {"a": "1:30"}, id="base sixty is text"),
        pytest.param("a: yes", {"a": True}, id="yes is true, as in YAML 1.1"),
        pytest.param("a: 0x10", {"a": 16}, id="hexadecimal"),
        pytest.param("a: 0.5", {"a": 0.5}, id="a fraction"),
        pytest.param("a: '1'", {"a": "1"}, id="quotes make text"),
        pytest.param("a: ~\nb:", {"a": None, "b": None}, id="null in two ways"),
        pytest.param("x: &x {a: 1}\ny: {<<: *x, b: 2}", {"x": {"a": 1}, "y": {"a": 1, "b": 2}}, id="merge"),
        pytest.param("x: &x {a: 1}\ny: {<<: *x, a: 2}", {"x": {"a": 1}, "y": {"a": 2}}, id="own keys win"),
    ],
)
def test_values(text: str, value: object) -> None:
    (document,) = read_documents(text)
    assert (document.value, document.findings) == (value, ())


def test_the_line_of_every_value() -> None:
    (document,) = read_documents("spec:\n  queues:\n  - name: a\n  - name: b\n  labels:\n    x.io/y: z\n")
    assert document.lines["spec"] == 1
    assert document.lines["spec.queues[1].name"] == 4
    assert document.lines["spec.labels[x.io/y]"] == 6


def test_duplicate_keys_are_found_at_every_depth() -> None:
    (document,) = read_documents("a: 1\nb:\n  c: 1\n  d: 2\n  c: 3\na: 4\n")
    assert [str(finding) for finding in document.findings] == [
        "line 6: 'a' is given twice, first in line 1 (keep one of them)",
        "line 5: b: 'c' is given twice, first in line 3 (keep one of them)",
    ]


@pytest.mark.parametrize(
    ("path", "line"),
    [
        pytest.param("b.c[1].d", 4, id="an existing path"),
        pytest.param("b.c[1].name", 4, id="a field of an entry"),
        pytest.param("b.c[1].e[x.y/z].f", 4, id="a field below it"),
        pytest.param("b.name", 2, id="a field of a mapping"),
        pytest.param("name", 1, id="a field of the document"),
    ],
)
def test_the_line_of_an_absent_path_is_that_of_its_ancestor(path: str, line: int) -> None:
    (document,) = read_documents("a: 1\nb:\n  c: [{d: 1},\n  {d: 2}]\n")
    assert document.line_of(path) == line


@pytest.mark.parametrize(
    ("text", "line", "problem"),
    [
        pytest.param("a: 1\nb: [1", 2, "did not find", id="an open bracket"),
        pytest.param("a: 1\n\tb: 2", 2, "contains a tab where YAML requires spaces", id="a tab"),
        pytest.param("a:\n\t- b", 2, "contains a tab where YAML requires spaces", id="a tab before an entry"),
        pytest.param("a: 1\n2: b", 2, "a key must be text", id="a number as key"),
        pytest.param("a: !!python/object:os.system x", 1, "tag", id="a foreign tag"),
        pytest.param("a: !!int x", 1, "'x' is not a valid int", id="a wrong tag"),
        pytest.param("a: \x07", 1, "not allowed", id="a control character"),
        pytest.param("[" * 200, 1, "did not find expected node content", id="deep nesting that never closes"),
        pytest.param("[" * 200 + "]" * 200, 1, "nested deeper than 100", id="deep nesting"),
        pytest.param("a: &a [*a]", 1, "nested deeper than 100", id="a list that contains itself"),
        pytest.param(
            "\n".join(["a0: &a0 [x]"] + [f"a{n}: &a{n} [{f'*a{n - 1},' * 9}]" for n in range(1, 9)]),
            1, "contains more than", id="aliases that multiply",
        ),
    ],
)  # fmt: skip
def test_invalid_text_is_rejected_with_its_line(text: str, line: int, problem: str) -> None:
    with pytest.raises(InvalidYaml, match=problem) as refusal:
        read_documents(text)
    assert refusal.value.line == line
