"""Schedules of CronJobs; the times were computed with robfig/cron v3."""

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.local.objects.cron import InvalidSchedule, Schedule, parse_schedule

SATURDAY = "2026-11-28T10:07:30+00:00"


def times(schedule: str, after: str, zone: str = "UTC", count: int = 2) -> list[str | None]:
    moment: float | None = datetime.fromisoformat(after).timestamp()
    found: list[str | None] = []
    while moment is not None and len(found) < count:
        moment = parse_schedule(schedule, zone).next_after(moment)
        at = None if moment is None else datetime.fromtimestamp(moment, ZoneInfo(zone))
        found.append(None if at is None else at.isoformat())
    return found


@pytest.mark.parametrize(
    ("schedule", "want"),
    [
        ("*/5 * * * *", ["2026-11-28T10:10:00+00:00", "2026-11-28T10:15:00+00:00"]),
        ("7 10 * * *", ["2026-11-29T10:07:00+00:00", "2026-11-30T10:07:00+00:00"]),
        ("0 0 13 * 5", ["2026-12-04T00:00:00+00:00", "2026-12-11T00:00:00+00:00"]),
        ("0 0 */10 * 5", ["2026-12-01T00:00:00+00:00", "2026-12-04T00:00:00+00:00"]),
        ("0 9-17/4 * * MON-FRI", ["2026-11-30T09:00:00+00:00", "2026-11-30T13:00:00+00:00"]),
        ("0 0 1 jan,JUL ?", ["2027-01-01T00:00:00+00:00", "2027-07-01T00:00:00+00:00"]),
        ("0 0 29 2 *", ["2028-02-29T00:00:00+00:00", "2032-02-29T00:00:00+00:00"]),
        ("0 0 30 2 *", [None]),
        ("50/3 * * * *", ["2026-11-28T10:50:00+00:00", "2026-11-28T10:53:00+00:00"]),
        ("@weekly", ["2026-11-29T00:00:00+00:00", "2026-12-06T00:00:00+00:00"]),
        ("@every 1m30s", ["2026-11-28T10:09:00+00:00", "2026-11-28T10:10:30+00:00"]),
        ("@every +.025h", ["2026-11-28T10:09:00+00:00", "2026-11-28T10:10:30+00:00"]),
    ],
)
def test_the_next_times(schedule: str, want: list[str | None]) -> None:
    assert times(schedule, SATURDAY) == want


@pytest.mark.parametrize(
    ("schedule", "after", "want"),
    [
        pytest.param(
            "30 2 * * *",
            "2026-03-28T12:00:00+01:00",
            ["2026-03-30T02:30:00+02:00", "2026-03-31T02:30:00+02:00"],
            id="a time that is skipped in spring does not occur",
        ),
        pytest.param(
            "30 2 * * *",
            "2026-10-24T12:00:00+02:00",
            ["2026-10-25T02:30:00+02:00", "2026-10-25T02:30:00+01:00"],
            id="a time that is repeated in autumn occurs twice",
        ),
        pytest.param(
            "0 9 * * *",
            "2026-03-28T12:00:00+01:00",
            ["2026-03-29T09:00:00+02:00", "2026-03-30T09:00:00+02:00"],
            id="other times follow the clock on the wall",
        ),
    ],
)
def test_daylight_saving_time(schedule: str, after: str, want: list[str]) -> None:
    assert times(schedule, after, "Europe/Berlin") == want


@pytest.mark.parametrize(
    "schedule",
    ["", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 7",
     "5-1 * * * *", "*/0 * * * *", "a * * * *", "L * * * *", "1,,2 * * * *", "@sometimes", "@every soon",
     "-1 * * * *", "@every 2562048h", f"@every {'9' * 400}h"],
)  # fmt: skip
def test_what_is_no_schedule(schedule: str) -> None:
    with pytest.raises(InvalidSchedule):
        parse_schedule(schedule)


@pytest.mark.parametrize("zone", ["Mars/Base", "", "../etc/passwd", "Europe/", "Europe/Berlin\n"])
def test_what_is_no_time_zone(zone: str) -> None:
    with pytest.raises(InvalidSchedule):
        parse_schedule("* * * * *", zone)


FIELDS = st.tuples(
    st.sampled_from(["*", "0", "*/15", "5,35", "50-59"]),
    st.sampled_from(["*", "2", "0-6", "*/5"]),
    st.sampled_from(["*", "1", "31", "*/9"]),
    st.sampled_from(["*", "3", "10", "*/4"]),
    st.sampled_from(["*", "0", "1-5"]),
)


@given(fields=FIELDS, moment=st.integers(1_700_000_000, 1_900_000_000))
def test_the_next_time_is_later_and_matches_the_schedule(fields: tuple[str, ...], moment: int) -> None:
    schedule = parse_schedule(" ".join(fields), "Europe/Berlin")
    assert isinstance(schedule, Schedule)
    found = schedule.next_after(moment)
    if found is None:
        return
    at = datetime.fromtimestamp(found, ZoneInfo("Europe/Berlin"))
    assert found > moment
    assert (at.minute in schedule.minutes.values, at.hour in schedule.hours.values) == (True, True)
    assert at.month in schedule.months.values
    assert schedule.next_after(found - 1) == found
