"""Which clusters are nominated, and when the next ones are."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.explanation import StartAnswer
from quorate.controllers.multikueue.dispatch.dispatchers import (
    ASK_AGAIN_AT_MOST_S,
    ASK_AGAIN_S,
    ASK_SOON_S,
    MAX_REASON,
    ROUND_S,
    ClusterStart,
    NeverStarts,
    Nomination,
    NominationInput,
    StartsBy,
    StartsLater,
    UnknownStart,
    all_at_once,
    cluster_start,
    earliest_start,
    incremental_with,
)
from tests.controllers.multikueue.dispatch.dispatch_objects import NOW, local

CLUSTERS = ("d", "a", "c", "b", "e")
STEP_2 = incremental_with(2, in_configured_order=True)

NEVER = NeverStarts("no such flavor")
LATER = StartsLater()
UNKNOWN = UnknownStart("no answer within 15 s")


def an_input(nominated: str = "", started: float | None = None, connected: str = "abcde") -> NominationInput:
    return NominationInput(
        workload=local(),
        clusters=CLUSTERS,
        connected=frozenset(connected),
        nominated=tuple(nominated),
        round_started=started,
        now=NOW,
    )


def test_all_at_once_nominates_what_is_connected() -> None:
    assert all_at_once(an_input(connected="bd")).clusters == ("b", "d")


@pytest.mark.parametrize(
    ("nominated", "started", "connected", "expected"),
    [
        ("", None, "abcde", "da"),
        ("da", NOW - ROUND_S, "abcde", "da"),  # the round lasts five minutes
        ("da", NOW - ROUND_S - 1, "abcde", "dacb"),
        ("da", None, "abcde", "dacb"),  # of another manager
        ("dacb", NOW - ROUND_S - 1, "abcde", "dacbe"),
        ("dacbe", NOW - ROUND_S - 1, "abcde", "dacbe"),
        ("da", NOW, "bce", "dacb"),  # no nominated cluster is connected
        ("", None, "ce", "ce"),
        ("xda", NOW, "abcde", "da"),  # not configured any more
    ],
)
def test_incremental_adds_clusters_in_rounds(
    nominated: str, started: Any, connected: str, expected: str
) -> None:
    assert "".join(STEP_2(an_input(nominated, started, connected)).clusters) == expected


def test_incremental_goes_by_the_names_without_the_gate() -> None:
    assert incremental_with(3, in_configured_order=False)(an_input()).clusters == ("a", "b", "c")


def test_incremental_wakes_at_the_end_of_a_round() -> None:
    assert STEP_2(an_input("da", NOW - 10)).wake_at == NOW - 10 + ROUND_S + 1
    assert STEP_2(an_input()).wake_at == NOW + ROUND_S + 1
    assert STEP_2(an_input("dac", NOW - ROUND_S - 1)).wake_at is None  # none is left


def test_the_explanation_names_what_was_added() -> None:
    assert STEP_2(an_input()).explanation == "d, a added, 3 of 5 clusters left"


def within(minutes: float) -> StartsBy:
    return StartsBy(NOW + 60 * minutes, NOW + 120 * minutes)


def at_once(spare: float) -> StartsBy:
    return StartsBy(NOW, NOW, spare)


def nominate(starts: dict[str, ClusterStart], nominated: str = "", connected: str = "abcd") -> Nomination:
    info = NominationInput(
        workload=local(),
        clusters=tuple("abcd"),
        connected=frozenset(connected),
        nominated=tuple(nominated),
        round_started=None,
        now=NOW,
        estimates=starts,
    )
    return earliest_start(info)


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ({"a": within(12), "b": within(3), "c": NEVER}, "b"),
        ({"a": within(12), "b": within(12)}, "a"),  # equal: the configured order
        ({"a": within(0.01), "b": within(0)}, "a"),  # less than a second is no difference
        ({"a": at_once(4), "b": at_once(0.5), "c": at_once(2)}, "b"),  # the least quota is left
        ({"a": at_once(1), "b": at_once(1)}, "a"),
        ({"a": within(0), "b": at_once(9)}, "b"),  # what is left in a is not known
        ({"a": at_once(4), "b": within(1)}, "a"),
        ({"a": UNKNOWN, "b": within(600)}, "b"),  # unknown ranks after known
        ({"a": LATER, "b": UNKNOWN}, "b"),
        ({"a": UNKNOWN, "b": UNKNOWN}, "a"),
        ({"a": NEVER, "b": LATER}, "b"),
        ({"a": NEVER, "b": NEVER}, ""),
        ({}, ""),
    ],
)
def test_the_earliest_cluster_is_nominated(starts: dict[str, ClusterStart], expected: str) -> None:
    assert "".join(nominate(starts).clusters) == expected


@pytest.mark.parametrize(
    ("held", "starts", "expected"),
    [
        ("a", {"a": within(12), "b": within(10.9)}, "a"),  # earlier by less than a tenth of the wait
        ("a", {"a": within(12), "b": within(10.7)}, "b"),
        ("a", {"a": within(1.5), "b": within(0.6)}, "a"),  # by less than a minute
        ("a", {"a": within(1.5), "b": within(0.4)}, "b"),
        ("b", {"a": within(0), "b": within(0)}, "b"),
        ("b", {"a": at_once(1), "b": at_once(2)}, "b"),  # no copy moves to a fuller cluster
        ("a", {"a": UNKNOWN, "b": within(600)}, "b"),
        ("a", {"a": LATER, "b": within(600)}, "b"),
        ("a", {"a": NEVER, "b": LATER}, "b"),
        ("b", {"a": UNKNOWN, "b": UNKNOWN}, "b"),
        ("b", {}, "b"),  # without answers nothing moves
        ("b", {"a": NEVER, "b": NEVER}, ""),
    ],
)
def test_a_copy_moves_to_a_cluster_that_is_earlier_by_a_margin(
    held: str, starts: dict[str, ClusterStart], expected: str
) -> None:
    assert "".join(nominate(starts, held).clusters) == expected


def test_a_cluster_that_is_not_connected_is_not_nominated() -> None:
    assert nominate({"a": within(0), "b": within(5)}, connected="bc").clusters == ("b",)
    assert nominate({"a": within(0), "b": within(5)}, "a", connected="bc").clusters == ("b",)


def test_the_explanation_has_the_numbers_of_each_cluster_in_the_configured_order() -> None:
    nomination = nominate({"c": NEVER, "b": within(3), "a": within(12), "d": UNKNOWN})
    assert nomination.explanation == (
        "a: 12 minutes, b: 3 minutes, c: never, no such flavor, d: unknown, no answer within 15 s"
    )
    assert nominate({"a": within(0), "b": LATER}).explanation == "a: now, b: later than is simulated"
    assert nominate({"a": at_once(0.5)}).explanation == "a: now (room for 0.5 more)"


@pytest.mark.parametrize(
    ("starts", "expected_s"),
    [
        ({"a": within(0)}, ASK_SOON_S),
        ({"a": within(4)}, 60),
        ({"a": within(60)}, 900),  # a quarter of the wait
        ({"a": within(6000)}, ASK_AGAIN_AT_MOST_S),
        ({"a": UNKNOWN}, ASK_AGAIN_S),
        ({"a": NEVER}, ASK_AGAIN_S),
    ],
)
def test_the_clusters_are_asked_again_after_a_bounded_wait(
    starts: dict[str, ClusterStart], expected_s: float
) -> None:
    assert nominate(starts).wake_at == NOW + expected_s


STARTS = st.one_of(
    st.builds(within, st.integers(0, 300)),
    st.builds(at_once, st.integers(0, 3)),
    st.sampled_from([NEVER, LATER, UNKNOWN]),
)


@given(st.dictionaries(st.sampled_from("abcd"), STARTS), st.sampled_from(["", *"abcd"]))
def test_equal_answers_never_move_a_copy_again(starts: dict[str, ClusterStart], held: str) -> None:
    first = nominate(starts, held)
    again = nominate(starts, "".join(first.clusters))
    assert again.clusters == first.clusters
    assert len(first.clusters) <= 1
    assert not any(isinstance(starts.get(name), NeverStarts) for name in first.clusters)


def test_the_reasons_of_all_clusters_fit_into_the_status() -> None:
    never = cluster_start(StartAnswer(starts="Never", reason=100_000 * "x"), NOW)
    assert never == NeverStarts(MAX_REASON * "x")
