"""The first runs of ``make test-faults``, one of each kind."""

import asyncio

import pytest

from tests.faults.runs import run
from tests.faults.trials import KINDS, Report, Trial

pytestmark = pytest.mark.slow

TRIALS = [Trial(seed, KINDS[seed % len(KINDS)]) for seed in range(len(KINDS))]
GROUPS = [TRIALS[at : at + 4] for at in range(0, len(TRIALS), 4)]


@pytest.mark.parametrize("trials", GROUPS, ids=lambda trials: f"seed-{trials[0].seed}")
def test_every_promise_holds_at_every_stored_state_and_all_work_ends(trials: list[Trial]) -> None:
    async def together() -> list[Report]:
        return await asyncio.gather(*(run(trial) for trial in trials))

    reports = asyncio.run(together())
    assert [f"{report.trial}: {finding}" for report in reports for finding in report.findings] == []
    assert all(report.states > 100 and report.suffered.total() > 10 for report in reports)
