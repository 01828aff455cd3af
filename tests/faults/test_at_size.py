"""A small version of each scenario of ``make test-faults REAL=1``, on the local server."""

import asyncio

import pytest

from tests.faults.at_size import durability, memory, restarts, takeover
from tests.faults.at_size.outcome import Outcome

pytestmark = [
    pytest.mark.slow,
    pytest.mark.no_cover,  # the processes are not measured
]


@pytest.mark.long
def test_restarts_violate_no_promise_and_all_jobs_end() -> None:
    outcome = asyncio.run(restarts.run(restarts.Scale(jobs=10, kills=2), 1, ignore))
    assert_no_findings(outcome)
    assert outcome.measures["jobs ended"] == "10 of 10"


def test_another_replica_takes_over_and_admits_nothing_twice() -> None:
    # How long it takes is measured on an idle machine only.
    scale = takeover.Scale(kills=1, lease_s=4, unfinished=5, limit_s=60.0)
    outcome = asyncio.run(takeover.run(scale, 1, ignore))
    assert_no_findings(outcome)
    assert outcome.measures["leaders killed"] == "1"


@pytest.mark.long
def test_no_acknowledged_write_is_lost() -> None:
    outcome = asyncio.run(durability.run(durability.Scale(kills=1), 1, ignore))
    assert_no_findings(outcome)
    assert outcome.measures["kills"] == "1"


@pytest.mark.long
def test_short_jobs_end_while_watches_are_cut() -> None:
    # A plateau takes thousands of jobs.
    scale = memory.Scale(jobs=40, cut_every_s=1.0, growth_in_percent=100)
    outcome = asyncio.run(memory.run(scale, 1, ignore))
    assert_no_findings(outcome)
    assert outcome.measures["jobs"] == "40"


def ignore(done: int) -> None:
    assert done >= 0


def assert_no_findings(outcome: Outcome) -> None:
    assert outcome.findings == []
