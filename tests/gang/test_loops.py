"""Evictions terminate, on a sample of the worlds of ``make loops``."""

from random import Random

import pytest

from tests.gang.loop_search import FAMILIES, describe, run, stuck_groups


@pytest.mark.slow
@pytest.mark.no_cover  # many generated examples of rules that other tests measure
@pytest.mark.parametrize(
    "family",
    [pytest.param(each, marks=[pytest.mark.long] if at % 2 else []) for at, each in enumerate(FAMILIES)],
)
def test_evictions_terminate_in_small_worlds(family: str) -> None:
    cases = list(FAMILIES[family].cases())
    results = [(case, run(case)) for case in Random(5).sample(cases, 40)]
    assert [describe(case) for case, result in results if result.loop or stuck_groups(case, result)] == []
    assert any(result.evictions for _, result in results)  # else the test checks nothing
