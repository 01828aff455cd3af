"""Until when workloads run at most, and the annotations of queues with planned starts."""

import math

import pytest

from quorate.api.configuration.planned_starts import PlannedStartRules
from quorate.api.kueue import PodSet, Workload, WorkloadSpec, WorkloadStatus
from quorate.api.meta import ObjectMeta
from quorate.queueing.planning.bounds import BoundInputs, RunBound, run_bound
from quorate.queueing.planning.rules import annotated_rules
from quorate.queueing.planning.work_kinds import WorkKind

QUEUE = WorkKind(("default", "q"))
KIND = WorkKind(("default", "q"), "Workload", "train-#")


def a_workload(maximum_s: int | None = None, past_s: int | None = None) -> Workload:
    return Workload(
        metadata=ObjectMeta(name="train-7", namespace="default"),
        spec=WorkloadSpec(
            queue_name="q", pod_sets=(PodSet(name="main", count=1),), maximum_execution_time_seconds=maximum_s
        ),
        status=WorkloadStatus(accumulated_past_execution_time_seconds=past_s),
    )


ENFORCED = PlannedStartRules(default_maximum_s=50, enforces_default=True)
DEFAULT = PlannedStartRules(default_maximum_s=50)


@pytest.mark.parametrize(
    ("workload", "rules", "learned", "bound"),
    [
        pytest.param(a_workload(100), DEFAULT, {KIND: 30.0}, (100, "Declared", True), id="declared first"),
        pytest.param(a_workload(100, 60), DEFAULT, {}, (40, "Declared", True), id="it ran before"),
        pytest.param(a_workload(), DEFAULT, {KIND: 30.0, QUEUE: 9.0}, (30, "Learned", False), id="its kind"),
        pytest.param(a_workload(), DEFAULT, {QUEUE: 9.0}, (9, "Learned", False), id="its queue"),
        pytest.param(a_workload(), DEFAULT, {}, (50, "Default", False), id="nothing learned"),
        pytest.param(a_workload(), ENFORCED, {KIND: 60.0}, (50, "Default", True), id="ended before"),
        pytest.param(a_workload(), ENFORCED, {KIND: 30.0}, (30, "Learned", False), id="learned and enforced"),
        pytest.param(a_workload(), PlannedStartRules(), {}, (math.inf, None, False), id="unknown"),
    ],
)
def test_the_bound_of_a_workload(
    workload: Workload,
    rules: PlannedStartRules,
    learned: dict[WorkKind, float],
    bound: tuple[float, str | None, bool],
) -> None:
    assert run_bound(workload, rules, learned) == bound


@pytest.mark.parametrize(
    ("is_enforced", "ran_s", "left_s"),
    [(False, 10, 20), (False, 30, 0), (False, 31, 29), (False, 61, 59), (True, 31, 0), (True, 300, 0)],
)
def test_what_runs_longer_than_expected_is_expected_to_run_as_long_again(
    is_enforced: bool, ran_s: float, left_s: float
) -> None:
    assert RunBound(30, "Learned", is_enforced).ends_at(1000, 1000 + ran_s) == 1000 + ran_s + left_s


def test_a_learned_bound_stays_as_it_is_until_it_has_changed_by_more_than_a_tenth() -> None:
    inputs = BoundInputs(PlannedStartRules())
    assert inputs.learn({KIND: 100.0})
    assert not inputs.learn({KIND: 109.0})
    assert inputs.learned == {KIND: 100.0}
    assert inputs.learn({KIND: 111.0})
    assert inputs.learned == {KIND: 111.0}
    assert inputs.learn({})


def test_annotations_of_a_queue_replace_the_defaults_of_the_configuration() -> None:
    annotations = {
        "quorate.dev/backfill": "Conservative",
        "quorate.dev/backfill-depth": "3",
        "quorate.dev/reserve-after": "10m",
        "quorate.dev/default-maximum-execution-time": "2h",
        "quorate.dev/on-overrun": "Evict",
    }
    rules, findings = annotated_rules(annotations, PlannedStartRules(enforces_default=True))
    assert rules == PlannedStartRules(
        backfill="Conservative",
        depth=3,
        reserve_after_s=600,
        default_maximum_s=7200,
        enforces_default=True,
        on_overrun="Evict",
    )
    assert not findings


@pytest.mark.parametrize(
    ("name", "text", "rule"),
    [
        ("backfill", "easy", "is not allowed here (write None, EASY, Conservative)"),
        ("backfill-depth", "0", "is not a whole number from 1 to 100 (write 10)"),
        ("backfill-depth", "9" * 5000, "is not a whole number from 1 to 100 (write 10)"),
        ("reserve-after", "soon", "is not a duration (write 10m, 1h30m or 500ms)"),
        ("reserve-after", "-1s", "is too short, must be at least 0s"),
        ("default-maximum-execution-time", "0s", "is too short, must be at least 1s"),
        ("on-overrun", "", "is not allowed here (write Revise, Evict)"),
    ],
)
def test_an_annotation_that_cannot_be_read_leaves_the_default(name: str, text: str, rule: str) -> None:
    defaults = PlannedStartRules(backfill="EASY")
    rules, findings = annotated_rules({f"quorate.dev/{name}": text}, defaults)
    assert rules == defaults
    assert findings == (f"metadata.annotations[quorate.dev/{name}]: {text[:60]!r} {rule}",)
