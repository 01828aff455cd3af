"""Conditions, selectors and times follow the API conventions."""

from datetime import UTC, datetime

import pytest

from quorate.api.codec import convert, encode
from quorate.api.meta import (
    Condition,
    ConditionStatus,
    Key,
    LabelSelector,
    at_epoch,
    epoch,
    find_condition,
    is_true,
    matches_selector,
    micro_time,
    with_condition,
)


def a_condition(type_: str, status: ConditionStatus, at: int, message: str = "") -> Condition:
    return Condition(
        type=type_, status=status, reason="Because", message=message, last_transition_time=at_epoch(at)
    )


def test_a_condition_that_keeps_its_status_keeps_its_transition_time() -> None:
    before = (a_condition("Admitted", "False", 10), a_condition("Evicted", "False", 10))
    after = with_condition(before, a_condition("Admitted", "False", 20, "still waiting"))
    assert after == (a_condition("Admitted", "False", 10, "still waiting"), before[1])


def test_a_condition_that_changes_its_status_takes_the_new_time_and_keeps_its_place() -> None:
    before = (a_condition("Admitted", "False", 10), a_condition("Evicted", "False", 10))
    after = with_condition(before, a_condition("Admitted", "True", 20))
    assert after == (a_condition("Admitted", "True", 20), before[1])


def test_a_condition_of_a_new_type_is_appended() -> None:
    first, second = a_condition("Admitted", "True", 10), a_condition("Finished", "True", 20)
    assert with_condition((first,), second) == (first, second)


def test_the_same_condition_again_changes_nothing() -> None:
    before = (a_condition("Admitted", "True", 10),)
    assert with_condition(before, a_condition("Admitted", "True", 99)) == before


def test_conditions_are_found_by_type_and_only_true_is_true() -> None:
    conditions = (a_condition("A", "True", 1), a_condition("B", "False", 1), a_condition("C", "Unknown", 1))
    assert [is_true(conditions, each) for each in "ABCD"] == [True, False, False, False]
    assert find_condition(conditions, "B") == conditions[1]
    assert find_condition(conditions, "D") is None


def test_an_empty_message_of_a_condition_is_encoded() -> None:
    written = encode(Condition(type="Active", status="True", reason="Ready"))
    assert written == b'{"type":"Active","status":"True","reason":"Ready","message":""}'


def expression(operator: str, *values: str) -> dict[str, object]:
    return {"matchExpressions": [{"key": "a", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "labels", "matches"),
    [
        pytest.param(None, {"a": "b"}, False, id="an absent selector matches nothing"),
        pytest.param({}, {"a": "b"}, True, id="an empty selector matches everything"),
        pytest.param({"matchLabels": {"a": "b"}}, {"a": "b", "c": "d"}, True, id="a label"),
        pytest.param({"matchLabels": {"a": "b"}}, {"a": "c"}, False, id="another value"),
        pytest.param({"matchLabels": {"a": ""}}, {}, False, id="an empty value is not absence"),
        pytest.param(expression("In", "b"), {}, False, id="In fails for an absent key"),
        pytest.param(expression("NotIn", "b"), {}, True, id="NotIn holds for an absent key"),
        pytest.param(expression("Exists"), {"a": ""}, True, id="Exists"),
        pytest.param(expression("DoesNotExist"), {"a": ""}, False, id="DoesNotExist"),
        pytest.param(expression("Like", "b"), {"a": "b"}, False, id="an unknown operator matches nothing"),
        pytest.param(
            {"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "c", "operator": "Exists"}]}, {"a": "b"},
            False, id="all requirements must match",
        ),
    ],
)  # fmt: skip
def test_selectors(selector: dict[str, object] | None, labels: dict[str, str], matches: bool) -> None:
    typed = None if selector is None else convert(LabelSelector, selector)
    assert matches_selector(typed, labels) is matches


@pytest.mark.parametrize(
    ("operator", "have", "bound", "matches"),
    [
        ("Gt", "5", "4", True),
        ("Gt", "4", "4", False),
        ("Lt", "3", "4", True),
        ("Lt", "x", "4", False),
        ("Gt", "1_000", "4", False),
        pytest.param("Lt", "5", "9" * 5000, False, id="more digits than an integer has"),
        ("Gt", "-3", "-4", True),
    ],
)
def test_node_terms_compare_whole_numbers(operator: str, have: str, bound: str, matches: bool) -> None:
    selector = convert(
        LabelSelector, {"matchExpressions": [{"key": "n", "operator": operator, "values": [bound]}]}
    )
    assert matches_selector(selector, {"n": have}) is matches
    assert not matches_selector(selector, {})


def test_times_are_truncated_to_seconds() -> None:
    moment = at_epoch(1700000000.987)
    assert moment == datetime(2023, 11, 14, 22, 13, 20, tzinfo=UTC)
    assert epoch(moment) == 1700000000.0
    assert micro_time(1700000000.5) == "2023-11-14T22:13:20.500000Z"


def test_a_key_prints_as_kubectl_writes_it() -> None:
    assert (str(Key("ns", "a")), str(Key("", "a"))) == ("ns/a", "a")
