"""Occurrences of Reservations are those of RFC 5545, and any stored rule is answered at once."""

import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.crds import QUORATE_FIELDS
from quorate.api.quantity import parse_quantity
from quorate.api.quorate import ReservationSpec, ReservedAmounts, ReservedNodes
from quorate.api.quorate.occurrences import RECURRENCE, occurrences, recurrence_problem, spec_problem
from tests.api.test_crds import shipped_text
from tests.search import examples

START = datetime(2026, 11, 28, 22, tzinfo=UTC)  # a Saturday
NOW = datetime(2026, 11, 29, 7, tzinfo=UTC)
DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
HOUR = 3600


def spec(recurrence: str = "", start: datetime = START, duration_s: int = HOUR) -> ReservationSpec:
    return ReservationSpec(start=start, duration_seconds=duration_s, recurrence=recurrence)


def starts(given_spec: ReservationSpec, now: datetime = NOW) -> list[str]:
    found = occurrences(given_spec, now.timestamp())
    return [f"{datetime.fromtimestamp(each.opens, UTC):%Y-%m-%d %H:%M}" for each in found]


@pytest.mark.parametrize(
    ("recurrence", "want"),
    [
        pytest.param("FREQ=DAILY", ["2026-11-29 22:00", "2026-11-30 22:00"], id="each day"),
        pytest.param("FREQ=WEEKLY;BYDAY=SA", ["2026-12-05 22:00", "2026-12-12 22:00"], id="each week"),
        pytest.param("FREQ=WEEKLY;INTERVAL=2", ["2026-12-12 22:00", "2026-12-26 22:00"], id="in phase"),
        pytest.param("FREQ=MONTHLY;BYDAY=-1SU", ["2026-11-29 22:00", "2026-12-27 22:00"], id="last Sunday"),
        pytest.param(
            "FREQ=MONTHLY;BYDAY=MO,TU,WE,TH,FR;BYSETPOS=-1",
            ["2026-11-30 22:00", "2026-12-31 22:00"],
            id="last working day",
        ),
        pytest.param("FREQ=DAILY;BYHOUR=1,13", ["2026-11-29 13:00", "2026-11-30 01:00"], id="twice a day"),
        pytest.param("FREQ=DAILY;COUNT=2", ["2026-11-29 22:00"], id="a count counts from the start"),
        pytest.param("FREQ=DAILY;UNTIL=20261129T220000Z", ["2026-11-29 22:00"], id="until then"),
        pytest.param("", [], id="once, and it is over"),
    ],
)
def test_the_next_occurrences(recurrence: str, want: list[str]) -> None:
    assert starts(spec(recurrence))[:2] == want


NO_RULE = "spec.recurrence is not a rule that Reservations support (write FREQ=DAILY"
OFTEN = "FREQ=DAILY;BYHOUR=" + ",".join(map(str, [*range(24)] * 9))
OWED = (ReservedAmounts(flavor="gpu", resources={"cpu": parse_quantity("-4")}),)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"end": START}, "spec.end is not after spec.start"),
        ({"duration_seconds": -3600}, "the duration is not between 1 s and 366 days"),
        ({"duration_seconds": 2**62}, "the duration is not between 1 s and 366 days"),
        ({"start": START.replace(tzinfo=None)}, "spec.start and spec.end require a time zone"),
        ({"recurrence": "FREQ=SECONDLY"}, NO_RULE),
        ({"recurrence": "FREQ=DAILY;COUNT=1000000"}, NO_RULE),
        ({"recurrence": "DTSTART;TZID=Europe/Berlin:20261128T220000"}, NO_RULE),
        ({"recurrence": OFTEN}, NO_RULE),
        ({"amounts": OWED}, "spec.amounts: cpu of flavor gpu is negative"),
        ({"nodes": ReservedNodes(count=-1)}, "spec.nodes.count is not a positive number"),
        ({"notice_seconds": -1}, "spec.noticeSeconds is negative"),
    ],
)
def test_a_stored_spec_without_a_meaning_has_a_problem_and_no_occurrences(
    fields: dict[str, Any], problem: str
) -> None:
    duration_s = None if "end" in fields else HOUR
    wrong = ReservationSpec(**{"start": START, "duration_seconds": duration_s, **fields})
    assert (spec_problem(wrong) or "").startswith(problem)
    assert occurrences(wrong, NOW.timestamp()) == ()


def test_an_occurrence_lasts_until_its_end() -> None:
    ends = ReservationSpec(start=START, end=START + timedelta(hours=9, seconds=1))
    (window,) = occurrences(ends, NOW.timestamp())
    assert (window.opens, window.closes) == (START.timestamp(), NOW.timestamp() + 1)
    assert occurrences(ends, NOW.timestamp() + 1) == ()


def test_occurrences_that_overlap_are_one() -> None:
    (window,) = occurrences(spec("FREQ=DAILY;COUNT=3", duration_s=30 * HOUR), START.timestamp())
    assert window.closes - window.opens == (48 + 30) * HOUR


@pytest.mark.parametrize(
    "rule",
    [
        "FREQ=SECONDLY", "FREQ=HOURLY", "FREQ=DAILY;BYMONTH=2;BYMONTHDAY=30",
        "FREQ=DAILY;INTERVAL=7;BYDAY=MO",
        "FREQ=YEARLY;BYMONTH=2", "FREQ=DAILY;UNTIL=20260230T000000Z", "FREQ=DAILY;UNTIL=99999999T999999Z",
        "FREQ=DAILY\nRDATE:20261129T000000Z", "DTSTART:20261129T000000Z", "FREQ=DAILY\n",
        "FREQ=DAILY;COUNT=2;UNTIL=20270101T000000Z",
        "FREQ=MONTHLY;BYDAY=MO;BYMONTHDAY=1", "FREQ=DAILY;BYSETPOS=300", "A" * 100_000,
    ],
)  # fmt: skip
def test_a_rule_that_may_match_nothing_is_refused(rule: str) -> None:
    assert recurrence_problem(rule) is not None
    assert occurrences(spec(rule), NOW.timestamp()) == ()


def test_the_schema_has_the_pattern_of_the_controllers() -> None:
    assert f"'{RECURRENCE}'" in shipped_text(QUORATE_FIELDS)


def test_a_spec_without_the_schema_has_no_occurrences() -> None:
    for start, end, duration_s in (
        (START, None, None), (START, START, None), (START, None, -1), (START, None, 2**60),
        (START.replace(year=1900), None, HOUR), (START.replace(year=9999), None, HOUR),
        (START.replace(tzinfo=None), None, HOUR), (START, START.replace(year=2027, tzinfo=None), None),
    ):  # fmt: skip
        broken = ReservationSpec(start=start, end=end, duration_seconds=duration_s, recurrence="FREQ=DAILY")
        assert spec_problem(broken) is not None
        assert occurrences(broken, NOW.timestamp()) == ()


@st.composite
def rules(draw: st.DrawFn) -> str:
    """Draw a recurrence from the parts of which the pattern of the schema consists."""

    def numbers(least: int, most: int) -> str:
        return ",".join(map(str, draw(st.lists(st.integers(least, most), min_size=1, max_size=3))))

    parts = [
        f"INTERVAL={draw(st.integers(1, 999))}",
        f"COUNT={draw(st.integers(1, 999))}",
        f"UNTIL={draw(st.integers(2000, 2100))}0101T000000Z",
        f"WKST={draw(st.sampled_from(DAYS))}",
        f"BYMONTH={numbers(1, 12)}",
        f"BYMONTHDAY={draw(st.sampled_from(('', '-')))}{numbers(1, 28)}",
        f"BYDAY={draw(st.sampled_from(('', '1', '-4')))}{draw(st.sampled_from(DAYS))}",
        f"BYHOUR={numbers(0, 23)}",
        f"BYMINUTE={numbers(0, 59)}",
        f"BYSETPOS={draw(st.sampled_from(('1', '-1')))}",
    ]
    chosen = draw(st.lists(st.sampled_from(parts), unique=True, max_size=5))
    return ";".join((f"FREQ={draw(st.sampled_from(('DAILY', 'WEEKLY', 'MONTHLY', 'YEARLY')))}", *chosen))


@examples(200)
@given(
    rule=rules(),
    start=st.datetimes(datetime(2000, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC)),  # noqa: DTZ001
    duration_s=st.sampled_from((1, HOUR, 200_000)),
    later_s=st.integers(0, 10**8),
)
def test_what_is_next_does_not_depend_on_when_it_is_asked(
    rule: str, start: datetime, duration_s: int, later_s: int
) -> None:
    """A later question has the occurrences of an earlier one that have not ended, and takes no longer."""
    asked = spec(rule, start.replace(microsecond=0), duration_s)
    began = time.process_time()
    first = occurrences(asked, NOW.timestamp())
    later = NOW.timestamp() + later_s
    second = occurrences(asked, later)
    assert time.process_time() - began < 1.0  # a search that matches nothing takes three
    assert all(one.opens < one.closes < other.opens for one, other in pairwise(first))
    assert all(window.closes > later for window in second)
    last = first[-1].opens if first else 0.0
    expected = [window for window in first[:-1] if window.closes > later]
    if first and later < last and "COUNT" not in rule:
        # An occurrence that began long before may have been one with others.
        assert [window.closes for window in second[: len(expected)]] == [each.closes for each in expected]
