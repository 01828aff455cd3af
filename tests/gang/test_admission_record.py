"""Status annotations round-trip; values that cannot be parsed count as absent."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.meta import Key, Uid
from quorate.api.volcano import PodGroup
from quorate.gang.admission_record import AdmissionRecord, admission_record
from quorate.gang.cache.from_objects import has_status
from quorate.gang.outcome import Counts, GangStatus
from tests.gang.objects import pod_group


def annotated(annotations: dict[str, Any]) -> PodGroup:
    return pod_group({"name": "a", "annotations": annotations})


def status(**fields: Any) -> GangStatus:
    nothing = GangStatus(Key("default", "a"), Uid("default/a"), "", (), Counts(0, 0, 0))
    return replace(nothing, **fields)


def test_times_are_written_in_rfc_3339() -> None:
    assert AdmissionRecord(inqueue_since=1_600_000_000.25).annotations() == {
        "scheduling.volcano.sh/inqueue-since": "2020-09-13T12:26:40.250000Z",
        "scheduling.volcano.sh/partially-bound-since": None,
        "scheduling.volcano.sh/requeue-attempts": None,
        "scheduling.volcano.sh/requeue-spec": None,
        "scheduling.volcano.sh/requeue-not-before": None,
        "quorate.dev/ends-by": None,
        "quorate.dev/ended-members": None,
    }


moments = st.none() | st.floats(0, 4e9)


counts = st.integers(0, 10**9 - 1)


@given(since=moments, not_before=moments, attempts=counts, ended=counts)
def test_a_status_round_trips_through_annotations(
    since: float | None, not_before: float | None, attempts: int, ended: int
) -> None:
    original = AdmissionRecord(inqueue_since=since, not_before=not_before, attempts=attempts, ended=ended)
    written = {name: value for name, value in original.annotations().items() if value is not None}
    group = annotated(written)
    assert has_status(group, status(admission=original))
    read = admission_record(written)
    assert (read.attempts, read.ended) == (attempts, ended)
    for said, meant in ((read.inqueue_since, since), (read.not_before, not_before)):
        assert (said is None) == (meant is None)
        assert said is None or meant is None or abs(said - meant) <= 1e-5


@pytest.mark.parametrize(
    ("since", "want"),
    [
        ("1970-01-01T00:16:40Z", 1000.0),
        ("1970-01-01T01:16:40+01:00", 1000.0),
        ("1970-01-01T00:16:40", 1000.0),
        ("yesterday", None),
        ("", None),
        ("0001-01-01T00:00:00Z", None),
        ("9999-12-31T23:59:59-12:00", None),
    ],
)
def test_times_of_other_writers_are_parsed_or_ignored(since: str, want: float | None) -> None:
    assert admission_record({"scheduling.volcano.sh/inqueue-since": since}).inqueue_since == want


@pytest.mark.parametrize(
    ("attempts", "want"), [("3", 3), ("", 0), ("-1", 0), ("many", 0), ("٣", 0), ("9" * 5000, 0)]
)
def test_attempts_are_a_small_number_or_zero(attempts: str, want: int) -> None:
    assert admission_record({"scheduling.volcano.sh/requeue-attempts": attempts}).attempts == want


def test_a_group_created_anew_does_not_have_the_old_status() -> None:
    assert not has_status(annotated({}), status(uid=Uid("another")))
