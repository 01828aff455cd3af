"""The clocks of waitForPodsReady: backoff, remaining time, and that nothing goes backwards."""

import math

import pytest

from quorate.api.configuration import RequeuingStrategy
from quorate.queueing.readiness import backoff_s

DOUBLING = RequeuingStrategy(backoff_base_s=60, backoff_max_s=3600)
LEGACY = RequeuingStrategy(backoff_base_s=1, backoff_max_s=math.inf, backoff_factor=1.41284738)


def test_backoff_doubles_up_to_the_maximum() -> None:
    delays = [backoff_s(retry, DOUBLING) for retry in (1, 2, 3, 4, 5, 6, 7, 8, 20)]
    assert delays == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_the_first_delay_is_the_base_even_above_the_maximum() -> None:
    strategy = RequeuingStrategy(backoff_base_s=10, backoff_max_s=3)
    assert [backoff_s(retry, strategy) for retry in (1, 2, 3)] == [10, 3, 3]


@pytest.mark.parametrize(
    ("retries", "seconds"), [(1, 601), (2, 902), (5, 1811), (10, 3374), (20, 8730), (30, 86400)]
)
def test_the_legacy_backoff_adds_up_as_documented(retries: int, seconds: int) -> None:
    """KEP-1282: time until so many retries have failed, each after a timeout of five minutes."""
    total = 300 * (retries + 1) + sum(backoff_s(retry, LEGACY) for retry in range(1, retries + 1))
    assert round(total) == seconds


def test_a_thousand_retries_do_not_overflow() -> None:
    assert backoff_s(5000, DOUBLING) == 3600
