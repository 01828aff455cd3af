"""Distributions as a scenario writes them."""

from random import Random
from statistics import fmean

import pytest

from quorate.api.decoding.documents import read_documents
from quorate.api.decoding.strict import DecodeContext
from quorate.simulate.inputs.distributions import Constant, Distribution, counts, draw, durations


def decode(text: str, *, seconds: bool = True) -> tuple[Distribution, list[str]]:
    context = DecodeContext(read_documents(text)[0])
    found = context.root().decode(durations if seconds else counts, Constant(-1.0))
    return found, [f"{each.path}: {each.rule}" for each in context.findings]


@pytest.mark.parametrize(
    ("text", "mean"),
    [
        ("10m", 600),
        ("90", 90),
        ("uniform: [10s, 30s]", 20),
        ("exponential: 20s", 20),
        ("lognormal: {median: 20s, sigma: 0.5}", 22.66),
        ("weibull: {scale: 1m, shape: 0.7}", 75.95),
        ("choice: [10s, 20s, 60s]", 30),
        ("choice: {values: [10s, 20s], weights: [3, 1]}", 12.5),
    ],
)
def test_draws_have_the_mean_of_their_distribution(text: str, mean: float) -> None:
    distribution, findings = decode(text)
    assert findings == []
    rng = Random(3)
    assert fmean(draw(distribution, rng) for _ in range(20_000)) == pytest.approx(mean, rel=0.03)


@pytest.mark.parametrize(
    ("text", "finding"),
    [
        ("soon", ": is not a duration (write 10m, 1h30m or 500ms)"),
        ("-5", ": is negative (write 0 or more)"),
        (
            "gamma: 5s",
            ": is not a distribution (write a value, or one of uniform, "
            "exponential, lognormal, weibull, choice)",
        ),
        ("uniform: [30s, 10s]", "uniform: begins with the larger bound (write the smaller one first)"),
        ("uniform: [30s]", "uniform: has 1 entries, must have at most 2"),
        ("lognormal: {median: 20s}", "lognormal.sigma: is missing (write sigma: 1.2)"),
        ("weibull: {scale: 20s, shape: 0}", "weibull.shape: must be more than 0"),
        ("choice: []", "choice: has nothing to choose from (give at least one value with a weight above 0)"),
        (
            "choice: {values: [1s, 2s], weights: [1]}",
            "choice: has 2 values and 1 weights (write one for each)",
        ),
    ],
)
def test_a_mistake_is_a_finding(text: str, finding: str) -> None:
    assert decode(text)[1] == [finding]


def test_counts_are_plain_numbers() -> None:
    assert decode("choice: [1, 2, 4]", seconds=False)[1] == []
    assert decode("10m", seconds=False)[1] == [": is not a number"]
