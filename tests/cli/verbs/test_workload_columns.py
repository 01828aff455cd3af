"""The columns of ``quorate workload list``."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from quorate.api.explanation import ExplanationSummary, PlannedStart, RaisedPriority, StartEstimate
from quorate.api.kueue import Workload, WorkloadSpec
from quorate.api.meta import ObjectMeta
from quorate.cli.verbs.views import starts_in, workload_columns
from quorate.inspect.explain.summaries import Summaries

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def after(**time: float) -> datetime:
    return NOW + timedelta(**time)


@pytest.mark.parametrize(
    ("p50", "p90", "shown"),
    [
        pytest.param(after(minutes=12), after(minutes=31), "12m-31m", id="both"),
        pytest.param(after(hours=-1), after(minutes=31), "0s-31m", id="due"),
        pytest.param(after(hours=3), None, "3h-later", id="in fewer than nine of ten runs"),
        pytest.param(None, None, "later", id="in fewer than half of the runs"),
    ],
)
def test_the_time_until_the_start_is_shown_from_p50_to_p90(
    p50: datetime | None, p90: datetime | None, shown: str
) -> None:
    estimate = StartEstimate(computed_at=NOW, p50=p50, p90=p90, runs=20)
    assert starts_in(estimate, NOW.timestamp()) == shown


def test_a_workload_without_an_estimate_shows_no_time() -> None:
    assert starts_in(None, NOW.timestamp()) == ""


@pytest.mark.parametrize(
    ("summary", "cells"),
    [
        pytest.param({}, ("7", ""), id="as it is"),
        pytest.param(
            {"priority": RaisedPriority(own=7, raised=9)}, ("7 (9 by waiting)", ""), id="by waiting"
        ),
        pytest.param({"planned_start": PlannedStart(at=after(minutes=12))}, ("7", "in 12m"), id="planned"),
        pytest.param({"planned_start": PlannedStart(at=after(minutes=-1))}, ("7", "in 0s"), id="due"),
        pytest.param({"planned_start": PlannedStart()}, ("7", ""), id="at a time that is not known"),
    ],
)
def test_wide_lists_have_the_raised_priority_and_the_planned_start(
    summary: dict[str, Any], cells: tuple[str, str]
) -> None:
    workload = Workload(metadata=ObjectMeta(name="w", namespace="ns"), spec=WorkloadSpec(priority=7))
    explained = ExplanationSummary(metadata=workload.metadata, state="Queued", message="it waits", **summary)
    states = Summaries({workload.metadata.key: explained})
    columns = workload_columns(NOW.timestamp(), {}, states, {}, {}, namespaces=False)
    shown = {column.title: column.cell(workload) for column in columns if column.wide}
    assert (shown["PRIORITY"], shown["PLANNED START"]) == cells
