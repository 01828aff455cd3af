"""The estimate of the demo: the forecast of the last job that waits, beside its start."""

import io

import pytest
from rich.console import Console
from rich.table import Table

from quorate.api.meta import at_epoch, epoch
from quorate.cli.run.demo import EstimateOfLast, estimate_table, run_estimate
from quorate.cli.run.report import Completed, Outcome
from quorate.kube.clock import WallClock
from quorate.processes.local.progress import JobRecord
from quorate.simulate.estimates.forecast import StartTime
from quorate.simulate.limits import PLAYS

NOW = 1_767_571_200.0  # 2026-01-05T00:00:00Z


def rows_of(table: Table) -> list[list[str]]:
    console = Console(width=100, file=io.StringIO())
    with console.capture() as capture:
        console.print(table)
    return [line.split() for line in capture.get().splitlines()[1:]]


def a_record(name: str, admitted_s: float | None) -> JobRecord:
    admitted = None if admitted_s is None else at_epoch(NOW + admitted_s)
    return JobRecord(name, at_epoch(NOW), admitted, admitted, None, 0, "completed")


@pytest.mark.parametrize(
    ("p90_s", "admitted_s", "row"),
    [
        pytest.param(7.2, 5, "train-2 after 4s after 7s after 5s", id="it started"),
        pytest.param(None, None, "train-2 after 4s not not", id="it did not start"),
    ],
)
def test_a_forecast_beside_the_start(p90_s: float | None, admitted_s: float | None, row: str) -> None:
    estimate = EstimateOfLast(WallClock())
    estimate.made_at, estimate.job = NOW, "train-2"
    estimate.start = StartTime("default", "job-train-2-1a2b3", "user-queue", 4.0, p90_s, PLAYS, PLAYS)
    outcome = Outcome(Completed(), (a_record("train-1", 0), a_record("train-2", admitted_s)))
    assert rows_of(estimate_table(estimate, outcome)) == [row.split()]


@pytest.mark.slow
def test_the_demo_forecasts_a_start_before_it_comes() -> None:
    console = Console(width=100, file=io.StringIO())
    estimate, outcome = run_estimate(console, speed=2.0)
    assert outcome.ending == Completed()
    assert estimate.start is not None
    assert (estimate.start.started, estimate.start.plays) == (PLAYS, PLAYS)
    (record,) = (each for each in outcome.records if each.name == estimate.job)
    assert record.admitted is not None
    assert epoch(record.admitted) >= int(estimate.made_at)
