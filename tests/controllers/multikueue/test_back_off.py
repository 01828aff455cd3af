"""When a worker cluster is connected to again, and how the condition shows it."""

import pytest

from quorate.api.configuration.multikueue import MultiKueue
from quorate.controllers.multikueue.connection.cluster_controller import message_of
from quorate.controllers.multikueue.connection.connection import ESTABLISH, Failure
from quorate.kube.flowcontrol import Backoff


@pytest.mark.parametrize(
    ("attempts", "want"),
    [(1, 5), (2, 10), (3, 20), (4, 40), (5, 80), (6, 160), (7, 320), (8, 320), (99, 320)],
)
def test_the_pause_doubles_in_seven_steps(attempts: int, want: float) -> None:
    rules = MultiKueue()
    assert Backoff(rules.first_retry_s, rules.longest_retry_s).delay_s(attempts) == want


@pytest.mark.parametrize(("attempt", "want"), [(1, 60), (2, 120), (3, 240), (4, 480), (5, 600), (9, 600)])
def test_a_later_attempt_may_take_longer(attempt: int, want: float) -> None:
    assert ESTABLISH.delay_s(attempt) == want


def test_the_condition_names_the_next_attempt() -> None:
    failure = Failure("no answer", 3, 1_767_225_600.9)
    assert message_of(failure) == (
        "no answer; connection attempts: 3, next connection attempt: 2026-01-01T00:00:00Z"
    )
