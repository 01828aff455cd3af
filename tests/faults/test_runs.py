"""A dozen of the runs of ``make test-faults``."""

import asyncio

import pytest

from tests.faults.runs import Kind, Report, Trial, run

pytestmark = pytest.mark.slow

KINDS: tuple[Kind, ...] = ("kills", "hostile")
GROUPS = [[Trial(seed, kind) for seed in seeds for kind in KINDS] for seeds in ((4, 5), (6, 7), (10, 11))]


@pytest.mark.parametrize("trials", GROUPS, ids=lambda trials: f"seed-{trials[0].seed}")
def test_every_promise_holds_at_every_stored_state_and_all_work_ends(trials: list[Trial]) -> None:
    async def together() -> list[Report]:
        return await asyncio.gather(*(run(trial) for trial in trials))

    reports = asyncio.run(together())
    assert [f"{report.trial}: {finding}" for report in reports for finding in report.findings] == []
    assert all(report.states > 100 and report.suffered.total() > 10 for report in reports)
