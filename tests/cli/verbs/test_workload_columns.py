"""The columns of ``quorate workload list``."""

from datetime import UTC, datetime, timedelta

import pytest

from quorate.api.explanation import StartEstimate
from quorate.cli.verbs.views import starts_in

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
