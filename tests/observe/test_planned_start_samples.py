"""Samples of planned starts."""

import math

import pytest
from msgspec.structs import replace

from quorate.api.kueue import Workload, WorkloadStatus
from quorate.api.meta import Condition, ObjectMeta, at_epoch
from quorate.observe.workload_transitions import Sample, planned_start_samples
from quorate.queueing import conditions as c
from quorate.queueing.conditions import new_condition
from quorate.queueing.planning.announced_starts import AnnouncedStart, Revision, planned_start_conditions

PENDING = Workload(metadata=ObjectMeta(name="w", namespace="ns", creation_timestamp=at_epoch(0)))
PLANNED = AnnouncedStart(at=100.0, origin="Declared", ended=2, made_at=10.0, planned_at=100.0)
REVISED = replace(PLANNED, at=200.0, revisions=(Revision(100.0, "NodeLost", "node n was lost"),))


def announcing(announced: AnnouncedStart) -> Workload:
    return with_conditions(*planned_start_conditions(PENDING, announced, 10.0))


def with_conditions(*conditions: Condition) -> Workload:
    return replace(PENDING, status=WorkloadStatus(conditions=conditions))


def started(at: float) -> Workload:
    reserved = new_condition(c.QUOTA_RESERVED, "True", "QuotaReserved", "", at)
    return with_conditions(reserved, new_condition(c.PLANNED_START, "False", "Started", "Previously: x", at))


DROPPED = with_conditions(new_condition(c.PLANNED_START, "False", "NotPlanned", "", 20))


def ended(result: str) -> list[Sample]:
    return [Sample("quorate_planned_starts_ended_total", {"result": result})]


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(PENDING, announcing(PLANNED), [Sample("quorate_planned_starts_total")], id="planned"),
        pytest.param(announcing(PLANNED), announcing(PLANNED), [], id="unchanged"),
        pytest.param(
            announcing(PLANNED),
            announcing(REVISED),
            [Sample("quorate_planned_start_revisions_total", {"cause": "NodeLost"})],
            id="moved later",
        ),
        pytest.param(announcing(PLANNED), announcing(replace(PLANNED, at=50.0)), [], id="moved earlier"),
        pytest.param(announcing(PLANNED), started(100), ended("kept"), id="kept"),
        pytest.param(announcing(PLANNED), started(150), ended("late"), id="late"),
        pytest.param(announcing(REVISED), started(250), ended("revised"), id="after a revision"),
        pytest.param(
            announcing(replace(PLANNED, at=math.inf)), started(250), ended("kept"), id="no time is known"
        ),
        pytest.param(announcing(PLANNED), DROPPED, ended("dropped"), id="not planned any more"),
        pytest.param(PENDING, PENDING, [], id="without a plan"),
    ],
)
def test_what_becomes_of_a_planned_start_is_counted(old: Workload, new: Workload, want: list[Sample]) -> None:
    assert list(planned_start_samples(old, new)) == want
