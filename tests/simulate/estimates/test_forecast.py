"""Forecasts: quantiles of when waiting workloads start."""

from collections.abc import Callable

import pytest

from quorate.simulate.estimates.forecast import StartTime, bounded_forecast, forecast
from tests.simulate.inputs.test_existing import running, workload
from tests.simulate.worlds import queue, world_of

SCENARIO = """
begins: "2026-03-01T12:00:00Z"
existing:
- {name: known, runs: {uniform: [20m, 40m]}}
"""
WAITS = "!QuotaReserved=11:58:00 Pending"


def forecast_of(*documents: str, plays: int = 40) -> dict[str, StartTime]:
    return {each.name: each for each in forecast(world_of(SCENARIO, *documents), plays)}


def test_a_workload_starts_when_the_one_before_it_has_run_the_rest_of_its_time() -> None:
    found = forecast_of(queue("q", 1), running("a", "11:50:00"), workload("b", "11:58:00", WAITS))
    assert list(found) == ["b"]
    start = found["b"]
    assert start.p50_s is not None
    assert start.p90_s is not None
    assert 600 < start.p50_s < start.p90_s < 1800
    assert start.p50_s == pytest.approx(1200, abs=250)  # the median of 40 uniform draws
    assert (start.started, start.plays) == (40, 40)


def test_what_fits_starts_at_once_and_the_next_one_later() -> None:
    waiting = [workload(name, "11:58:00", WAITS) for name in "bc"]
    found = forecast_of(queue("q", 1), *waiting)
    assert found["b"].p90_s == 0
    assert found["c"].p50_s is not None
    assert found["c"].p50_s >= 20 * 60
    assert list(found) == ["b", "c"]


def test_what_never_starts_has_no_quantile() -> None:
    found = forecast_of(queue("q", 0), workload("b", "11:58:00", WAITS), plays=3)
    assert (found["b"].p50_s, found["b"].p90_s, found["b"].started) == (None, None, 0)


def test_the_same_world_has_the_same_forecast() -> None:
    documents = (queue("q", 1), running("a", "11:50:00"), workload("b", "11:58:00", WAITS))
    assert forecast_of(*documents) == forecast_of(*documents)
    assert forecast_of(queue("q", 1), running("a", "11:50:00")) == {}


def test_progress_is_reported_after_each_run() -> None:
    played: list[int] = []
    world = world_of(SCENARIO, queue("q", 1), workload("b", "11:58:00", WAITS))
    forecast(world, 3, played.append)
    assert played == [1, 2, 3]


def after_calls(number: int) -> Callable[[], bool]:
    """Return a budget that is used up at the call of this number, from 1."""
    left = iter(range(1, number))
    return lambda: next(left, None) is None


def test_a_budget_ends_the_forecast_between_two_instants() -> None:
    waiting = [workload(f"w{number}", "11:58:00", WAITS) for number in range(10)]
    world = world_of(SCENARIO, queue("q", 1), *waiting)
    found = bounded_forecast(world, 20, after_calls(4))
    assert found.plays == 1
    assert found.horizon_s is not None
    started = [each for each in found.starts if each.p50_s is not None]
    assert 0 < len(started) < 10
    assert max(each.p50_s for each in started if each.p50_s is not None) <= found.horizon_s


def test_a_run_that_a_budget_cuts_does_not_count_after_a_whole_one() -> None:
    world = world_of(SCENARIO, queue("q", 1), *(workload(name, "11:58:00", WAITS) for name in "bc"))
    whole = bounded_forecast(world, 1, lambda: False)
    calls = 0

    def is_over() -> bool:
        nonlocal calls
        calls += 1
        return calls > 4  # the first run has two instants

    found = bounded_forecast(world, 20, is_over)
    assert (found.horizon_s, found.plays) == (None, 1)
    assert found.starts == whole.starts
