"""A small run of ``bench.dispatch``: it measures what it says."""

from pathlib import Path

import pytest
import uvloop
from bench.dispatch.run import Plan, run

from quorate.api.names.multikueue import ALL_AT_ONCE

pytestmark = pytest.mark.slow


def test_jobs_run_in_worker_clusters_and_are_counted(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    plan = Plan(2, 10, 0.5, ALL_AT_ONCE, 120.0, tmp_path)
    outcome = uvloop.run(run(plan, lambda admitted, finished: seen.append((admitted, finished))))
    assert seen[-1] == (10, 10)
    assert outcome.in_workers["POST jobs"] == 10  # each in one cluster
    assert 10 <= outcome.in_workers["POST workloads"] <= 20
    assert outcome.manager.own_peak_bytes > 0
    assert all(requests > 1 for requests in outcome.requests_per_admission(10))
