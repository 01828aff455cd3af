"""The first run of each kind of ``make test-faults``."""

import asyncio

import pytest

from tests.faults.runs import run
from tests.faults.trials import KINDS, Report, Trial

pytestmark = [
    pytest.mark.slow,
    pytest.mark.no_cover,  # many generated examples of rules that other tests cover
]

TRIALS = [Trial(seed, KINDS[seed % len(KINDS)]) for seed in range(len(KINDS))]
# Two runs per event loop: more would miss their short deadlines.
GROUPS = [TRIALS[at : at + 2] for at in range(0, len(TRIALS), 2)]


@pytest.mark.parametrize(
    "trials",
    [
        pytest.param(trials, id=f"seed-{trials[0].seed}", marks=[pytest.mark.long] if at else [])
        for at, trials in enumerate(GROUPS)
    ],
)
def test_invariants_hold_in_every_stored_state_and_all_jobs_finish(trials: list[Trial]) -> None:
    async def run_all() -> list[Report]:
        return await asyncio.gather(*(run(trial) for trial in trials))

    reports = asyncio.run(run_all())
    assert [f"{report.trial}: {finding}" for report in reports for finding in report.findings] == []
    assert all(report.states > 50 and report.injected.total() > 3 for report in reports)
