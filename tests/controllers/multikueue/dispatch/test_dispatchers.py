"""Which clusters are nominated, and when the next ones are."""

from typing import Any

import pytest

from quorate.controllers.multikueue.dispatch.dispatchers import (
    ROUND_S,
    NominationInput,
    all_at_once,
    incremental_with,
)
from tests.controllers.multikueue.dispatch.dispatch_objects import NOW, local

CLUSTERS = ("d", "a", "c", "b", "e")
STEP_2 = incremental_with(2, in_configured_order=True)


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
