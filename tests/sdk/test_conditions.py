"""Conditions to wait for, as they are written."""

from typing import Any

import pytest

from quorate.inspect.awaited_conditions import describe, ending, predicate

DONE = {"type": "Complete", "status": "True", "reason": "CompletionsReached", "message": "Reached"}
NOT_READY = {"type": "Ready", "status": "False"}
JOB = {
    "spec": {"suspend": False},
    "status": {"phase": "Running", "ready": 1, "conditions": [DONE, NOT_READY]},
}


@pytest.mark.parametrize(
    ("written", "obj", "want"),
    [
        pytest.param("Complete", JOB, True, id="a condition is True"),
        pytest.param("Ready", JOB, False, id="a condition is False"),
        pytest.param("Ready=False", JOB, True, id="a condition has the status"),
        pytest.param("Failed=False", JOB, False, id="an absent condition has no status"),
        pytest.param("Complete", {"status": {"conditions": "none"}}, False, id="conditions are no list"),
        pytest.param("Complete", {}, False, id="an object without status"),
        pytest.param("Complete", None, False, id="an absent object"),
        pytest.param("status.phase=Running", JOB, True, id="a field"),
        pytest.param("status.ready=1", JOB, True, id="a number"),
        pytest.param("spec.suspend=false", JOB, True, id="a boolean, as in YAML"),
        pytest.param("status.phase.name=Running", JOB, False, id="a field of a text"),
        pytest.param("status.phase=", {}, True, id="an absent field is empty"),
        pytest.param("create", JOB, True, id="created"),
        pytest.param("create", None, False, id="not created"),
        pytest.param("delete", None, True, id="deleted"),
        pytest.param("delete", JOB, False, id="not deleted"),
        pytest.param(lambda job: job["status"]["ready"] == 1, JOB, True, id="a function"),
        pytest.param(lambda job: True, None, False, id="a function of an absent object"),
    ],
)
def test_a_condition_is_met(written: Any, obj: dict[str, Any] | None, want: bool) -> None:
    assert bool(predicate(written)(obj)) is want


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        (None, "it does not exist"),
        ({"spec": {}}, "it has no conditions"),
        (JOB, "phase Running, Complete=True (CompletionsReached: Reached), Ready=False"),
    ],
)
def test_a_state_is_described(obj: dict[str, Any] | None, want: str) -> None:
    assert describe(obj) == want


@pytest.mark.parametrize(
    ("obj", "want"),
    [
        pytest.param(JOB, (True, "Reached"), id="a Job"),
        pytest.param(
            {"status": {"conditions": [{"type": "Failed", "status": "True"}]}}, (False, ""), id="failed"
        ),
        pytest.param(
            {"status": {"conditions": [{"type": "Failed", "status": "False"}]}}, None, id="not failed"
        ),
        pytest.param(
            {"status": {"conditions": [{"type": "Finished", "status": "True", "reason": "Succeeded"}]}},
            (True, ""),
            id="a Workload",
        ),
        pytest.param({"status": {"phase": "Failed", "message": "OOM"}}, (False, "OOM"), id="a pod"),
        pytest.param({"status": {"jobStatus": "SUCCEEDED"}}, (True, ""), id="a RayJob"),
        pytest.param({"status": {"state": {"phase": "Completed"}}}, (True, ""), id="a Volcano Job"),
        pytest.param({"status": {"phase": "Running"}}, None, id="running"),
        pytest.param({}, None, id="without status"),
        pytest.param(None, None, id="absent"),
    ],
)
def test_a_job_has_ended(obj: dict[str, Any] | None, want: tuple[bool, str] | None) -> None:
    assert ending(obj) == want
