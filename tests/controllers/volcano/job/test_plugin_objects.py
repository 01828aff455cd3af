"""The phases in which the objects of a job's plugins are deleted, as ``controlledResources`` records them."""

from typing import Any

import msgspec
import pytest

from quorate.api.volcano.job import Job, JobStatus
from tests.controllers.volcano.job.notation import a_command, a_job, after, planned


def with_plugins(phase: str, *, message: str = "", **spec: Any) -> Job:
    job = a_job(phase=phase, message=message, plugins={"svc": [], "ssh": []}, **spec)
    recorded = {"plugin-ssh": "ssh", "plugin-svc": "svc"}
    return msgspec.structs.replace(job, status=replaced(job.status, recorded))


def replaced(status: JobStatus, recorded: dict[str, str]) -> JobStatus:
    return msgspec.structs.replace(status, controlled_resources=recorded)


def recorded_plugins(job: Job) -> list[str]:
    return sorted(job.status.controlled_resources.values())


@pytest.mark.parametrize(
    ("phase", "pods", "command", "spec", "want"),
    [
        pytest.param("Pending", "worker: pending", "", {}, "keep", id="pending"),
        pytest.param("Running", "worker: running", "", {}, "keep", id="running"),
        pytest.param("Running", "worker: succeeded", "", {}, "delete", id="completed by its pods"),
        pytest.param("Running", "worker: failed", "", {}, "delete", id="failed by its pods"),
        pytest.param("Running", "worker: running", "AbortJob", {}, "delete", id="aborted"),
        pytest.param("Pending", "", "AbortJob", {}, "delete", id="aborted before it had pods"),
        pytest.param("Running", "worker: running", "TerminateJob", {}, "delete", id="terminated"),
        pytest.param("Running", "worker: running", "CompleteJob", {}, "delete", id="completed by command"),
        pytest.param("Running", "worker: running", "RestartJob", {}, "delete", id="restarted as a whole"),
        pytest.param("Running", "worker: failed", "",
                     {"policies": [{"event": "PodFailed", "action": "RestartPod"}]},
                     "keep", id="restart of one pod: the other pods use them"),
        pytest.param("Completed", "worker: succeeded", "", {}, "delete",
                     id="completed under a controller that retained them"),
    ],
)  # fmt: skip
def test_objects_of_plugins_are_deleted_when_no_pod_uses_them(
    phase: str, pods: str, command: str, spec: dict[str, Any], want: str
) -> None:
    job = with_plugins(phase, tasks="worker=1", **spec)
    commands = (a_command(command),) if command else ()
    plan = planned(job, pods, "Running", commands=commands)
    assert plan.releases_plugins == (want == "delete")
    assert recorded_plugins(after(plan)) == ([] if want == "delete" else ["ssh", "svc"])


@pytest.mark.parametrize("phase", ["Aborted", "Completed", "Restarting", "Terminated"])
def test_they_are_deleted_once(phase: str) -> None:
    job = a_job("worker=1", phase=phase, plugins={"svc": []}, message="RestartJob because of a command")
    assert not planned(job, "worker: succeeded", None).releases_plugins


def test_a_restarted_job_has_them_again() -> None:
    job = a_job(
        "worker=1", phase="Restarting", plugins={"svc": []}, message="RestartJob because of a command"
    )
    plan = planned(job, "", None)
    assert (recorded_plugins(after(plan)), plan.releases_plugins) == (["svc"], False)
