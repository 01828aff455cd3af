"""Paths in JSON documents: parsing, formatting, typed access."""

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
    with_field,
    write_field,
)

DOCUMENT: dict[str, Any] = {"spec": {"groups": [{"size": 2}, {"size": None}], "hold": True, "n": -1}}


@pytest.mark.parametrize("text", ["spec", "spec.suspend", "spec.groups[0].template", "a[1][2].b-c.D_e"])
def test_format_path_is_the_inverse_of_parse_path(text: str) -> None:
    assert format_path(parse_path(text)) == text


@pytest.mark.parametrize(
    "text", ["", ".spec", "spec.", "spec..a", "spec[*]", "spec[-1]", "[0]", "a b", "spec\n"]
)
def test_an_invalid_path_is_rejected(text: str) -> None:
    with pytest.raises(InvalidPath):
        parse_path(text)


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("spec.groups[0].size", 2, id="a value"),
        pytest.param("spec.groups[1].size", None, id="null"),
        pytest.param("spec.groups[2].size", None, id="past the end"),
        pytest.param("spec.groups.size", None, id="a name in a list"),
        pytest.param("spec[0]", None, id="an index in a mapping"),
        pytest.param("spec.hold.more", None, id="below a scalar"),
    ],
)
def test_look_up(text: str, want: Any) -> None:
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
def test_an_unexpected_value_is_reported_with_its_path(text: str, type_: type[Any], want: str) -> None:
    with pytest.raises(InvalidTemplate) as refusal:
        read_field(DOCUMENT, parse_path(text), type_)
    assert str(refusal.value) == want


def test_a_default_replaces_absent_values_only() -> None:
    assert read_field(DOCUMENT, ("spec", "absent"), str, "default") == "default"
    with pytest.raises(InvalidTemplate):
        read_field(DOCUMENT, ("spec", "n"), str, "default")


def test_a_count_is_not_negative() -> None:
    with pytest.raises(InvalidTemplate, match=r"spec\.n: is -1, must not be negative"):
        read_count(DOCUMENT, ("spec", "n"))


def test_entries_of_a_list_must_be_objects() -> None:
    assert read_entries(DOCUMENT, ("spec", "none")) == []
    with pytest.raises(InvalidTemplate, match=r"a\[1\]: is 3, must be a mapping"):
        read_entries({"a": [{}, 3]}, ("a",))


def test_write_field_changes_only_its_path() -> None:
    document: dict[str, Any] = {"spec": {"groups": [{"size": 2}, {}], "run": None}}
    write_field(document, parse_path("spec.groups[1].size"), 3)
    write_field(document, parse_path("spec.run.policy.suspend"), True)
    assert document == {"spec": {"groups": [{"size": 2}, {"size": 3}], "run": {"policy": {"suspend": True}}}}


def test_with_field_changes_a_copy_that_shares_the_rest() -> None:
    groups = [{"size": 2}, {"size": 1}]
    document: dict[str, Any] = {"spec": {"groups": groups, "run": None}, "status": {}}
    larger = with_field(document, parse_path("spec.groups[1].size"), 3)
    suspended = with_field(larger, parse_path("spec.run.policy.suspend"), True)
    assert document == {"spec": {"groups": [{"size": 2}, {"size": 1}], "run": None}, "status": {}}
    assert suspended["spec"] == {
        "groups": [{"size": 2}, {"size": 3}],
        "run": {"policy": {"suspend": True}},
    }
    assert suspended["status"] is document["status"]
    assert suspended["spec"]["groups"][0] is groups[0]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("spec.hold.more", "spec.hold: is True, must be a mapping", id="below a scalar"),
        pytest.param(
            "spec.hold.more.again", "spec.hold: is True, must be a mapping", id="far below a scalar"
        ),
        pytest.param("spec.groups.size", "must be a mapping", id="a name in a list"),
        pytest.param("spec.groups[2].size", "must be a list with an entry 2", id="past the end"),
        pytest.param("spec[0]", "must be a list with an entry 0", id="an index in a mapping"),
    ],
)
def test_a_field_is_not_written_where_no_mapping_is(text: str, want: str) -> None:
    with pytest.raises(InvalidTemplate) as refusal:
        write_field(DOCUMENT, parse_path(text), 1)
    assert want in str(refusal.value)
    with pytest.raises(InvalidTemplate) as same_refusal:
        with_field(DOCUMENT, parse_path(text), 1)
    assert str(same_refusal.value) == str(refusal.value)
