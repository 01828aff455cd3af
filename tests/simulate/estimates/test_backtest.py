"""Backtests: forecasts of known outcomes."""

import json

import pytest

from quorate.simulate.estimates.backtest import Backtest, Estimate, backtest
from tests.e2e.commands import quorate
from tests.simulate.worlds import queue, world_of

ONE_AFTER_ANOTHER = """
jobs:
- {name: job, queue: q, arrivals: {every: 5m, count: 12}, runs: 10m, requests: {cpu: 1}}
"""


def test_known_run_times_are_forecast_exactly_in_a_queue_of_equals() -> None:
    found = backtest(world_of(ONE_AFTER_ANOTHER, queue("q", 1)), samples=12, plays=2)
    assert (found.submissions, found.started_at_once) == (12, 1)
    learned = [each for each in found.estimates if each.learned_from]
    assert len(learned) == 10  # the second job is submitted before any has ended
    assert [each.p50_s for each in learned] == [each.waited_s for each in learned]
    assert [each.p90_s for each in learned] == [each.waited_s for each in learned]


def test_coverage_and_error() -> None:
    never = float("inf")
    rows = [(10, 20, 15), (10, 20, 25), (never, never, never), (10, 20, 10), (10, never, 50)]
    found = Backtest(6, 1, tuple(Estimate(at, p50, p90, 0, wait) for at, (p50, p90, wait) in enumerate(rows)))
    assert found.coverage == 0.8
    assert found.error_s == 10  # of 5, 15, 0 and 40
    assert found.median_wait_s == 20
    assert Backtest(1, 1, ()).coverage is None
    assert Backtest(1, 1, ()).error_s is None


def test_a_few_submissions_are_looked_at() -> None:
    played: list[int] = []
    found = backtest(world_of(ONE_AFTER_ANOTHER, queue("q", 1)), 3, 1, played.append)
    assert found.submissions == 3
    assert played == [1, 2, 3]


@pytest.mark.slow
def test_the_command_prints_coverage_and_error() -> None:
    command = ("simulate", "backtest", "examples/simulate/two-teams.yaml", "--samples")
    done = quorate(*command, "4", "--plays", "3")
    assert done.returncode == 0, done.stderr
    assert "4 submissions: 1 started at once, 3 waited" in done.stdout
    answer = json.loads(quorate(*command, "4", "--plays", "1", "-o", "json").stdout)
    assert len(answer["estimates"]) == 3
