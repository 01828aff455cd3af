"""Places in JSON documents: how they are written, read with a type, and written to."""

from typing import Any

import pytest

from quorate.api.field_path import (
    InvalidPath,
    InvalidTemplate,
    format_path,
    look_up,
    parse_path,
    read_count,
    read_entries,
    read_field,
    write_field,
)

DOCUMENT: dict[str, Any] = {"spec": {"groups": [{"size": 2}, {"size": None}], "hold": True, "n": -1}}


@pytest.mark.parametrize("text", ["spec", "spec.suspend", "spec.groups[0].template", "a[1][2].b-c.D_e"])
def test_a_path_is_written_as_it_was_read(text: str) -> None:
    assert format_path(parse_path(text)) == text


@pytest.mark.parametrize(
    "text", ["", ".spec", "spec.", "spec..a", "spec[*]", "spec[-1]", "[0]", "a b", "spec\n"]
)
def test_what_is_no_path_is_refused(text: str) -> None:
    with pytest.raises(InvalidPath):
        parse_path(text)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("spec.groups[0].size", 2, id="there"),
        pytest.param("spec.groups[1].size", None, id="null"),
        pytest.param("spec.groups[2].size", None, id="behind the end"),
        pytest.param("spec.groups.size", None, id="a name in a list"),
        pytest.param("spec[0]", None, id="an index in a mapping"),
        pytest.param("spec.hold.more", None, id="inside of a value"),
    ],
)
def test_what_stands_at_a_path(text: str, want: Any) -> None:
    assert look_up(DOCUMENT, parse_path(text)) == want


@pytest.mark.parametrize(
    ("text", "type_", "want"),
    [
        pytest.param("spec.size", int, "spec.size: is missing, must be a whole number", id="missing"),
        pytest.param("spec.n", str, "spec.n: is -1, must be a text", id="another type"),
        pytest.param(
            "spec.hold", int, "spec.hold: is True, must be a whole number", id="a boolean is no number"
        ),
    ],
)
def test_what_does_not_fit_is_named(text: str, type_: type[Any], want: str) -> None:
    with pytest.raises(InvalidTemplate) as refusal:
        read_field(DOCUMENT, parse_path(text), type_)
    assert str(refusal.value) == want


def test_a_default_is_for_what_is_absent_and_not_for_what_is_wrong() -> None:
    assert read_field(DOCUMENT, ("spec", "absent"), str, "default") == "default"
    with pytest.raises(InvalidTemplate):
        read_field(DOCUMENT, ("spec", "n"), str, "default")


def test_a_count_is_not_negative() -> None:
    with pytest.raises(InvalidTemplate, match=r"spec\.n: is -1, must not be negative"):
        read_count(DOCUMENT, ("spec", "n"))


def test_entries_are_mappings() -> None:
    assert read_entries(DOCUMENT, ("spec", "none")) == []
    with pytest.raises(InvalidTemplate, match=r"a\[1\]: is 3, must be a mapping"):
        read_entries({"a": [{}, 3]}, ("a",))


def test_what_is_put_stands_there_and_nothing_else_moves() -> None:
    document: dict[str, Any] = {"spec": {"groups": [{"size": 2}, {}], "run": None}}
    write_field(document, parse_path("spec.groups[1].size"), 3)
    write_field(document, parse_path("spec.run.policy.suspend"), True)
    assert document == {"spec": {"groups": [{"size": 2}, {"size": 3}], "run": {"policy": {"suspend": True}}}}
