"""The Lublin-Feitelson model: shares and moments, each within five standard errors of its sample."""

import math
from collections.abc import Callable
from random import Random
from statistics import fmean, pstdev

import pytest

from quorate.simulate.inputs.lublin_feitelson import (
    draw_run_time,
    draw_size,
    half_hour_weights,
    modelled_jobs,
)
from quorate.simulate.inputs.submissions import submissions
from tests.simulate.worlds import queue, run_of, world_of

DRAWS = 20_000
SIZES = [draw_size(128, Random(f"size {number}")) for number in range(DRAWS)]
STANDARD_ERRORS = 5  # exceeded by one seed in two million


def _share(of: list[int], chosen: Callable[[int], bool]) -> float:
    return sum(map(chosen, of)) / len(of)


# From the published parameters for 128 processors: the logarithm is in [0.8, 4.5], 3.7 wide, with probability
# 0.86, else in [4.5, 7].  A rounded logarithm is 1 from 0.8 to 1.5, and 7 from 6.5; a size is rounded to 2 up
# to the logarithm of 2.5, which is 1.321928, and to 128 from that of 127.5, which is 6.994353.
@pytest.mark.parametrize(
    ("chosen", "want"),
    [
        pytest.param(lambda size: size == 1, 0.244, id="serial"),
        pytest.param(lambda size: size == 2, 0.86 * (0.576 * 0.7 / 3.7 + 0.18 * 0.521928 / 3.7), id="two"),
        pytest.param(lambda size: size == 128, 0.14 * (0.576 * 0.5 / 2.5 + 0.18 * 0.005647 / 2.5), id="all"),
        pytest.param(lambda size: size > 128, 0.0, id="more than there are"),
    ],
)
def test_the_shares_of_sizes(chosen: Callable[[int], bool], want: float) -> None:
    error = math.sqrt(want * (1 - want) / DRAWS)
    assert _share(SIZES, chosen) == pytest.approx(want, abs=STANDARD_ERRORS * error)


@pytest.mark.parametrize(
    ("size", "mean", "second_moment"),
    [
        # p = 0.7746: p * 4.2 * 0.94 + (1 - p) * 312 * 0.03, and the mean squares a * b**2 * (1 + a).
        pytest.param(1, 5.1679, 0.7746 * 19.2978 + 0.2254 * 87.8904, id="serial"),
        pytest.param(64, 7.0085, 0.4344 * 19.2978 + 0.5656 * 87.8904, id="half of the machine"),
    ],
)
def test_the_moments_of_the_logarithm_of_run_times(size: int, mean: float, second_moment: float) -> None:
    rng = Random(7)
    logarithms = [math.log(draw_run_time(size, rng)) for _ in range(DRAWS)]
    error = pstdev(logarithms) / math.sqrt(DRAWS)
    assert max(logarithms) <= 12
    # Two of a thousand short jobs are above 12 and drawn again: the moments are lower by 0.012 and 0.2.
    assert fmean(logarithms) == pytest.approx(mean, abs=STANDARD_ERRORS * error + 0.012)
    squares = [each**2 for each in logarithms]
    error = pstdev(squares) / math.sqrt(DRAWS)
    assert fmean(squares) == pytest.approx(second_moment, abs=STANDARD_ERRORS * error + 0.2)


def test_the_daily_cycle_has_its_peak_in_the_afternoon() -> None:
    weights = half_hour_weights()
    assert len(weights) == 48
    assert fmean(weights) == pytest.approx(1)
    assert (
        weights.index(max(weights)) == 27
    )  # 13:30; the mode of the gamma distribution is 28.4, counted from 1
    assert weights.index(min(weights)) == 10  # 5:00, where the day of the model begins


def test_jobs_arrive_as_the_cycle_says() -> None:
    jobs = [*modelled_jobs(DRAWS, 128, Random(3))]
    assert [each.submitted_s for each in jobs] == sorted(each.submitted_s for each in jobs)
    shares = [0] * 48
    for each in jobs:
        shares[int(each.submitted_s // 1800) % 48] += 1
    busiest, quietest = sum(shares[20:36]), sum(shares[4:20])
    expected = sum(half_hour_weights()[20:36]) / 48
    # Arrivals come in bursts, so their number varies more than that of independent ones.
    assert busiest / DRAWS == pytest.approx(expected, abs=0.05)
    assert quietest < busiest / 2


@pytest.mark.parametrize("processors", [1, 2, 3, 5, 100])
def test_no_job_is_larger_than_the_machine(processors: int) -> None:
    jobs = [*modelled_jobs(500, processors, Random(1))]
    assert max(each.processors for each in jobs) == processors
    assert min(each.processors for each in jobs) == 1
    assert all(each.runs_s >= 1 for each in jobs)


MODEL = "seed: 7\nmodels: [{lublinFeitelson: {jobs: 50, processors: 8}, queue: a, stretch: 0.5}]"


def test_a_scenario_plays_the_model() -> None:
    run = run_of(MODEL, queue("a", 8))
    assert len(run.jobs) == 50
    assert max(run.jobs.pods) <= 8
    assert run.world.classes[0].name == "lublin-feitelson"


def test_the_jobs_depend_on_the_seed_and_the_stretch() -> None:
    def jobs(text: str) -> list[tuple[int, int]]:
        world = world_of(text, queue("a", 8))
        return [(each.at_ms, each.runs_ms) for each in submissions(world.scenario, world.directory)]

    first = jobs(MODEL)
    assert jobs(MODEL) == first
    assert jobs(MODEL.replace("seed: 7", "seed: 8")) != first
    slower = jobs(MODEL.replace("0.5", "1"))
    assert [at_ms for at_ms, _ in slower] == pytest.approx([2 * at_ms for at_ms, _ in first], abs=2)
