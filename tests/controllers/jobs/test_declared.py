"""Kinds declared by field paths."""

from typing import Any

import pytest

from quorate.api.configuration.integrations import DeclaredFramework, PodSetPaths, StatusCheck, SuspendField
from quorate.api.field_path import InvalidTemplate
from quorate.controllers.jobframework.interface import Outcome
from quorate.controllers.jobframework.pod_reports import are_ready
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo
from quorate.controllers.jobs.declared import DeclaredKind
from quorate.controllers.jobs.unstructured import UnstructuredJob
from tests.controllers.jobs.test_unstructured import PODS, foreign_job

KIND = DeclaredKind(
    DeclaredFramework(
        group="example.com",
        version="v1",
        kind="Training",
        plural="trainings",
        suspend=SuspendField(field=("spec", "paused")),
        pod_sets=(
            PodSetPaths(
                name="main", template=("spec", "pods"), count=("spec", "size"), min_count=("spec", "least")
            ),
            PodSetPaths(each=("spec", "groups"), name_from=("name",), template=("pods",)),
        ),
        active=("status", "active"),
        ready=StatusCheck(field=("status", "ready"), values=(True,)),
        succeeded=StatusCheck(condition="Complete"),
        failed=StatusCheck(field=("status", "errors"), values=(1,)),
    )
)


def test_pod_sets_are_read_from_the_paths() -> None:
    groups = [{"name": "a", "pods": PODS}, {"name": "b", "pods": PODS}]
    sets = KIND.pod_sets(foreign_job({"pods": PODS, "size": 3, "least": 2, "groups": groups}))
    assert [(each.name, each.count) for each in sets] == [("main", 3), ("a", 1), ("b", 1)]
    assert sets[0].min_count == 2


def test_absent_counts_have_defaults() -> None:
    (only,) = KIND.pod_sets(foreign_job({"pods": PODS}))
    assert (only.count, bool(only.min_count)) == (1, False)


def test_the_minimum_cannot_exceed_the_count() -> None:
    with pytest.raises(InvalidTemplate, match=r"spec\.least: is 3, more than the 2 pods there are"):
        KIND.pod_sets(foreign_job({"pods": PODS, "size": 2, "least": 3}))


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, None, id="no value"),
        pytest.param(
            {"conditions": [{"type": "Complete", "status": "True", "message": "well done"}]},
            Outcome(success=True, message="well done"),
            id="a condition with a message",
        ),
        pytest.param({"conditions": [{"type": "Complete", "status": "False"}]}, None, id="a false condition"),
        pytest.param({"errors": 1}, Outcome(success=False, message=""), id="a field"),
        pytest.param({"errors": True}, None, id="true is not equal to 1"),
    ],
)
def test_the_outcome(status: Any, want: Outcome | None) -> None:
    assert KIND.finished(foreign_job({}, status)) == want


@pytest.mark.parametrize(
    ("active", "want"), [(None, False), (0, False), (2, True), (False, False), (True, True)]
)
def test_active_pods(active: Any, want: bool) -> None:
    assert KIND.is_active(foreign_job({}, {"active": active})) is want


MACHINES = DeclaredKind(
    DeclaredFramework(
        group="example.com",
        version="v1",
        kind="Machine",
        plural="machines",
        suspend=SuspendField(field=("spec", "strategy"), stopped="Halted", running="Always"),
        pod_sets=(
            PodSetPaths(
                name="main", template=("spec", "pods"), count=("spec", "size"), done=("status", "over")
            ),
        ),
        ready=StatusCheck(field=("status", "ready"), equals_field=("spec", "size")),
        failed=StatusCheck(field=("status", "phase"), values=("Failed", "Error"), message=("status", "why")),
        priority_class=("spec", "class"),
    )
)


def a_machine(status: Any = None, **spec: Any) -> UnstructuredJob:
    return foreign_job({"pods": PODS, "size": 2, **spec}, status)


def test_the_suspend_field_can_have_other_values_than_booleans() -> None:
    assert MACHINES.is_suspended(a_machine(strategy="Halted"))
    assert not MACHINES.is_suspended(a_machine(strategy="Always"))
    assert not MACHINES.is_suspended(a_machine()), "running by default"
    (patch,) = MACHINES.stop(a_machine(strategy="Always"), None).patches
    assert patch.body == {"spec": {"strategy": "Halted"}}
    start = MACHINES.start(a_machine(strategy="Halted"), [PodSetInfo(name="main", count=2)])
    assert not isinstance(start, InjectionConflict)
    assert [patch.body for patch in start] == [{"spec": {"strategy": "Always"}}]


@pytest.mark.parametrize(("ready", "want"), [(None, False), (1, False), (2, True)])
def test_readiness_can_be_compared_with_another_field(ready: int | None, want: bool) -> None:
    assert are_ready(MACHINES.pod_counts(a_machine({"ready": ready}))) is want


def test_a_check_can_have_several_values_and_a_message_field() -> None:
    assert MACHINES.finished(a_machine({"phase": "Running"})) is None
    outcome_of_conditions = MACHINES.finished(a_machine({"phase": "Error", "why": "out of memory"}))
    assert outcome_of_conditions == Outcome(success=False, message="out of memory")


def test_ended_pods_and_priority_class() -> None:
    assert [each.may_run for each in MACHINES.pod_counts(a_machine({"over": 1}))] == [1]
    assert [each.may_run for each in MACHINES.pod_counts(a_machine())] == [2]
    assert (
        MACHINES.priority_class(a_machine(**{"class": "high"})),
        MACHINES.priority_class(a_machine()),
    ) == (
        "high",
        "",
    )
    assert KIND.priority_class(foreign_job({})) is None, "without the field the pods decide"
