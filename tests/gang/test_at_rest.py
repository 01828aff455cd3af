"""At rest, a new scheduler binds and evicts nothing more.

``python -m tests.rest_search gangs`` looks at 10,000 worlds, and makes counterexamples small.
"""

import pytest

from quorate.api.meta import Key
from quorate.gang.cache.model import Model
from tests.gang.resting_histories import CONFIGURATIONS, History, failure

BLOCK = 12  # worlds of one test


@pytest.mark.no_cover  # many generated examples of rules that other tests measure
@pytest.mark.large
@pytest.mark.parametrize(
    "first",
    [
        pytest.param(first, marks=() if first < 24 else pytest.mark.slow if first < 120 else pytest.mark.long)
        for first in range(0, 960, BLOCK)
    ],
)
def test_at_rest_a_new_scheduler_does_nothing(first: int) -> None:
    histories = {seed: History(seed) for seed in range(first, first + BLOCK)}
    failures = {seed: failure(history.given, history.steps) for seed, history in histories.items()}
    assert {seed: text for seed, text in failures.items() if text} == {}


@pytest.mark.parametrize("profile", ["compat", "design"])
def test_the_law_notices_a_gang_that_waits_although_it_fits(
    profile: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forget_nothing(model: Model, key: Key) -> None:
        """Keep a deleted pod in the model."""

    monkeypatch.setattr(Model, "remove_pod", forget_nothing)
    conf = {
        "actions": "allocate",
        "tiers": [["gang", "proportion"], ["predicates"]],
        "configurations": CONFIGURATIONS,
    }
    given = {
        "profile": profile,
        "conf": conf,
        "nodes": [{"name": "n1", "cpu": 1}],
        "queues": [{"name": "q1"}],
        "podGroups": [{"name": name, "queue": "q1", "phase": "Inqueue"} for name in ("runs", "waits")],
        "pods": [
            {"name": "runs-0", "group": "runs", "cpu": 1, "node": "n1", "phase": "Running"},
            {"name": "waits-0", "group": "waits", "cpu": 1},
        ],
    }
    assert failure(given, [{"sessions": 1}, {"deletePods": ["runs-0"]}]) == "Bind waits-0"
