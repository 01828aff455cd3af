"""The decision about a Volcano Job: pods, pod group and phase, one step at a time."""

import itertools
from typing import Any

import pytest
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.meta import at_epoch
from quorate.api.volcano.job import Job
from quorate.controllers.limits import MAX_JOB_PODS
from quorate.controllers.volcano.job.job_pods import desired_replicas, is_desired
from quorate.controllers.volcano.job.job_sync import creatable_tasks
from tests.controllers.volcano.job.notation import (
    NOW,
    a_command,
    a_group,
    a_job,
    after,
    job_pods,
    planned,
    show,
)
from tests.steps import steps_of


@pytest.mark.parametrize(
    ("group", "pods", "want"),
    [
        pytest.param(None, "", "", id="no group, no pods"),
        pytest.param("", "", "", id="new group"),
        pytest.param("Pending", "", "", id="pending group"),
        pytest.param("Inqueue", "", "create worker-0 worker-1 worker-2", id="admitted group: all replicas"),
        pytest.param("Running", "worker: running - running", "create worker-1", id="missing pod is replaced"),
        pytest.param("Unknown", "worker: running - running", "create worker-1",
                     id="missing pod of an unknown group"),
        pytest.param("Inqueue", "worker: running running~ -", "create worker-2",
                     id="terminating pod is not replaced"),
        pytest.param("Pending", "worker: pending@ pending@ -", "delete worker-0 worker-1",
                     id="group pending again: pods without a node are deleted"),
        pytest.param("Pending", "worker: running pending@ pending", "delete worker-1",
                     id="group pending again: pods with a node stay"),
        pytest.param("Inqueue", "worker: pending@ pending@ pending@ pending@", "delete worker-3",
                     id="surplus replica is deleted"),
    ],
)  # fmt: skip
def test_pods_exist_only_while_their_group_is_admitted(group: str | None, pods: str, want: str) -> None:
    assert show(planned(a_job("worker=2/3", minAvailable=3), pods, group)) == want


def test_pods_without_a_node_may_be_kept_when_the_group_is_pending_again() -> None:
    assert show(planned(a_job(), "worker: pending@", "Pending", keep_pending=True)) == ""


def test_a_terminating_group_admits_no_pods() -> None:
    assert show(planned(a_job(), "", a_group("Running", terminating=True))) == ""


def test_the_reason_of_a_pending_group_is_an_event_on_the_job() -> None:
    plan = planned(a_job(), "", a_group("Pending", "NotEnoughResources"))
    assert [(event.reason, event.message) for event in plan.events] == [
        (
            "PodGroupPending",
            "pod group default/train-uid-of-train is pending: NotEnoughResources: short of cpu",
        )
    ]


@pytest.mark.parametrize(
    ("minimum", "pods", "want"),
    [
        pytest.param(3, "", "become Pending", id="none exist"),
        pytest.param(3, "worker: running running -", "become Pending", id="fewer than minAvailable exist"),
        pytest.param(2, "worker: running running -", "", id="minAvailable exist"),
        pytest.param(3, "worker: running running running~", "", id="a terminating pod exists"),
    ],
)
def test_a_job_with_too_few_pods_is_pending_while_its_group_waits(minimum: int, pods: str, want: str) -> None:
    job = a_job(phase="Running", minAvailable=minimum)
    assert show(planned(job, pods, a_group("Pending"))) == want


@pytest.mark.parametrize(
    ("job", "pods", "want"),
    [
        pytest.param({}, "worker: running running pending", "",
                     id="fewer than minAvailable started: pending"),
        pytest.param({}, "worker: running running succeeded", "become Running",
                     id="minAvailable started: running"),
        pytest.param({}, "worker: running failed succeeded", "become Running",
                     id="failed pods count as started"),
        pytest.param({"phase": "Running"}, "worker: running pending pending", "become Pending",
                     id="more pending than minAvailable allows"),
        pytest.param({"phase": "Running"}, "worker: succeeded succeeded succeeded", "become Completed",
                     id="all succeeded"),
        pytest.param({"phase": "Running"}, "worker: succeeded succeeded failed", "become Failed",
                     id="too few succeeded"),
        pytest.param({"phase": "Running", "minAvailable": 2}, "worker: succeeded succeeded failed",
                     "become Completed", id="minAvailable succeeded"),
        pytest.param({"phase": "Running", "minSuccess": 1}, "worker: succeeded running running",
                     "become Completed", id="minSuccess reached before all finished"),
        pytest.param({"phase": "Running", "minSuccess": 3, "minAvailable": 2},
                     "worker: succeeded succeeded failed", "become Failed", id="minSuccess not reached"),
        pytest.param({"phase": "Running", "tasks": "worker=0"}, "", "", id="scaled to zero"),
        pytest.param({"phase": "Running", "tasks": "ps=1/1 worker=1/2", "minAvailable": 2},
                     "ps: failed; worker: succeeded succeeded", "become Failed",
                     id="a task below its minAvailable fails the job"),
        pytest.param({"phase": "Running", "tasks": "ps=1/1 worker=2/2", "minAvailable": 2},
                     "ps: failed; worker: succeeded succeeded", "become Completed",
                     id="not if the job's minAvailable is below their sum"),
    ],
)  # fmt: skip
def test_phases_follow_from_the_pods(job: dict[str, Any], pods: str, want: str) -> None:
    assert show(planned(a_job(**job), pods, "Running")) == want


@pytest.mark.parametrize(
    ("action", "pods", "left", "want"),
    [
        pytest.param("RestartJob", "worker: running failed running", "worker: running - running",
                     "delete worker-0 worker-2; delete group", id="the failed pod is deleted"),
        pytest.param("RestartJob", "worker: running failed running", "worker: running failed running",
                     "delete worker-0 worker-1 worker-2; delete group", id="nothing is deleted yet"),
        pytest.param("RestartPod", "worker: running failed running", "worker: running failed running",
                     "delete worker-1", id="RestartPod"),
        pytest.param("RestartTask", "worker: running failed; ps: running", "worker: running -; ps: running",
                     "delete worker-0", id="RestartTask"),
        pytest.param("AbortJob", "worker: running failed running", "worker: running failed -",
                     "delete worker-0; delete group", id="AbortJob"),
    ],
)  # fmt: skip
def test_an_interrupted_action_is_resumed_from_the_status(
    action: str, pods: str, left: str, want: str
) -> None:
    policies = [{"event": "PodFailed", "action": action}]
    tasks = "worker=2 ps=1" if "ps" in pods else "worker=3"
    begun = after(planned(a_job(tasks, phase="Running", policies=policies), pods, "Running"))
    assert show(planned(begun, job_pods(left), "Running")) == want


@pytest.mark.parametrize(
    ("phase", "action", "pods", "want"),
    [
        pytest.param("Running", "AbortJob", "worker: running succeeded",
                     "delete worker-0; delete group; become Aborting; delete command command-1",
                     id="AbortJob"),
        pytest.param("Aborted", "ResumeJob", "worker: succeeded failed",
                     "delete worker-1; delete group; become Restarting; delete command command-1",
                     id="ResumeJob retains succeeded pods and adds no retry"),
        pytest.param("Running", "ResumeJob", "worker: running running running", "delete command command-1",
                     id="ResumeJob of a running job"),
        pytest.param("Restarting", "AbortJob", "worker: running running~",
                     "delete worker-0; delete group; become Aborting; delete command command-1",
                     id="AbortJob of a job that restarts"),
        pytest.param("Completed", "AbortJob", "", "delete group; delete command command-1",
                     id="AbortJob of a completed job"),
        pytest.param("Running", "RestartPod", "worker: running running running", "delete command command-1",
                     id="RestartPod without a target"),
        pytest.param("Running", "Dance", "worker: running running running", "delete command command-1",
                     id="unknown action"),
    ],
)  # fmt: skip
def test_commands_are_executed_and_deleted(phase: str, action: str, pods: str, want: str) -> None:
    plan = planned(a_job(phase=phase), pods, "Running", commands=[a_command(action)])
    assert show(plan) == want
    effect = "" if "become" in want else f" has no effect in phase {phase}"
    events = [(event.reason, event.message) for event in plan.events]
    uid = plan.handled_commands[0].metadata.uid
    assert events[0] == ("CommandIssued", f"{action} by command command-1 ({uid}){effect}")


def test_a_command_is_executed_once_although_its_deletion_failed() -> None:
    command = a_command("RestartJob")
    done = after(planned(a_job(phase="Running"), "worker: running", "Running", commands=[command]))
    assert (done.status.retry_count, done.status.version) == (1, 1)
    again = planned(done, [], None, commands=[command])
    assert show(again) == "become Pending; delete command command-1"
    assert again.status is not None
    assert again.status.retry_count == 1


def test_several_commands_are_executed_one_after_the_other() -> None:
    commands = [a_command("AbortJob", "first"), a_command("ResumeJob", "second")]
    plan = planned(a_job(phase="Running"), "", "Running", commands=commands)
    assert show(plan) == "delete group; become Aborting; delete command first"
    assert (
        show(planned(after(plan), "", None, commands=commands[1:]))
        == "become Restarting; delete command second"
    )


@pytest.mark.parametrize(
    ("job", "pods", "want"),
    [
        pytest.param({"phase": "Restarting", "retries": 1}, "worker: running~ running~ running~", "",
                     id="restarting until enough pods are deleted"),
        pytest.param({"phase": "Restarting", "retries": 1, "minAvailable": 2}, "worker: running~",
                     "become Pending", id="minAvailable pods can be created"),
        pytest.param({"phase": "Restarting", "retries": 3}, "", "become Failed", id="no retry left"),
        pytest.param({"phase": "Aborting"}, "worker: running~ succeeded", "",
                     id="aborting until no pod runs"),
        pytest.param({"phase": "Aborting"}, "worker: failed succeeded", "become Aborted", id="aborted"),
        pytest.param({"phase": "Aborting"}, "worker: running", "delete worker-0", id="late pod is deleted"),
        pytest.param({"phase": "Terminating"}, "", "become Terminated", id="terminated"),
        pytest.param({"phase": "Completing"}, "worker: succeeded~", "become Completed", id="completed"),
        pytest.param({"phase": "Completed"}, "worker: running succeeded pending", "delete worker-0 worker-2",
                     id="unfinished pods of a completed job"),
        pytest.param({"phase": "Aborted"}, "", "", id="aborted job stays aborted"),
    ],
)  # fmt: skip
def test_jobs_that_restart_or_end(job: dict[str, Any], pods: str, want: str) -> None:
    assert show(planned(a_job(**job), pods, None)) == want


@pytest.mark.parametrize("phase", ["Restarting", "Aborting", "Completed", "Failed", "Terminated", "Aborted"])
def test_a_job_that_needs_no_pods_has_no_pod_group(phase: str) -> None:
    assert planned(a_job(phase=phase), "", "Running").group_to_delete is not None
    assert planned(a_job(phase=phase), "", None).group is None


def test_a_finished_job_is_deleted_after_its_ttl() -> None:
    job = a_job(phase="Completed", since=NOW - 100, ttlSecondsAfterFinished=120)
    assert planned(job, "", None).wake_at == NOW + 20
    assert show(planned(job, "", None, now=NOW + 20)) == "delete job"
    aborted = a_job(phase="Aborted", since=NOW - 100, ttlSecondsAfterFinished=0)
    assert show(planned(aborted, "", None)) == ""


def test_zero_retries_mean_the_default_of_three() -> None:
    for retries, phase in ((0, "Pending"), (2, "Pending"), (3, "Failed")):
        assert show(planned(a_job(phase="Restarting", retries=retries, maxRetry=0), "", None)) == (
            f"become {phase}"
        )


def test_tasks_wait_for_their_dependencies() -> None:
    tasks = [
        {"name": "worker", "replicas": 1, "dependsOn": {"name": ["ps"]}},
        {"name": "ps", "replicas": 2, "minAvailable": 1},
    ]
    job = a_job(tasks)
    assert show(planned(job, "")) == "create ps-0 ps-1"
    assert show(planned(job, "ps: pending pending")) == ""
    assert show(planned(job, "ps: running pending")) == "create worker-0"


def test_the_status_has_pod_counts_by_task_and_conditions() -> None:
    plan = planned(
        a_job("ps=1 worker=2", phase="Pending"), "ps: running; worker: running running~", "Running"
    )
    assert codec.to_builtins(plan.status) == {
        "state": {"phase": "Pending", "lastTransitionTime": "1970-01-12T13:45:00Z"},
        "minAvailable": 3,
        "taskStatusCount": {"ps": {"phase": {"Running": 1}}, "worker": {"phase": {"Running": 1}}},
        "running": 2,
        "terminating": 1,
    }
    plan = planned(a_job("worker=1"), "worker: running", "Running")
    assert plan.status is not None
    assert [each.status for each in plan.status.conditions] == ["Running"]
    assert plan.status.state.last_transition_time == at_epoch(NOW)


def test_the_running_duration_is_set_at_the_end() -> None:
    running = after(planned(a_job("worker=1"), "worker: running", "Running", now=NOW))
    plan = planned(running, "worker: succeeded", "Running", now=NOW + 65)
    assert plan.status is not None
    assert (plan.status.state.phase, plan.status.running_duration) == ("Completed", "1m5s")


def test_an_impossible_job_says_so_in_its_status_until_it_is_corrected() -> None:
    impossible = planned(a_job("worker=1 worker=1"))
    (event,) = impossible.events
    assert impossible.status is not None
    state = impossible.status.state
    assert (state.phase, state.reason, state.message) == ("Pending", "InvalidJob", event.message)
    assert "2 tasks have the name worker" in event.message
    again = planned(after(impossible))
    assert (again.status, again.group) == (impossible.status, None)
    corrected = planned(replace(a_job("worker=1"), status=impossible.status))
    assert corrected.group is not None
    assert corrected.status is not None
    assert (corrected.status.state.phase, corrected.status.state.reason) == ("Pending", "")


def test_a_job_with_too_many_pods_gets_none() -> None:
    assert planned(a_job(f"worker={MAX_JOB_PODS + 1}")).pods_to_create == ()


def test_an_undecodable_template_gets_an_event() -> None:
    container = {"name": "main", "resources": {"requests": {"cpu": "10x"}}}
    job = a_job([{"name": "worker", "replicas": 1, "template": {"spec": {"containers": [container]}}}])
    (event,) = planned(job, "", None).events
    assert event.reason == "InvalidJob"
    assert event.message.startswith("spec.tasks[0].template: '10x' is not a quantity")


@pytest.mark.parametrize(
    ("job", "message"),
    [
        pytest.param(a_job(""), "spec.tasks: [] is empty, must list at least one task", id="no tasks"),
        pytest.param(
            a_job([{"name": "a", "replicas": 1, "dependsOn": {"name": ["b"]}, "template": {}}]),
            "spec.tasks[0].dependsOn.name[0]: 'b' is not a task of this job (known: a)",
            id="unknown dependency",
        ),
    ],
)
def test_findings_of_a_webhook_are_events_once(job: Job, message: str) -> None:
    plan = planned(job, "", None)
    assert ("InvalidJob", message) in [(event.reason, event.message) for event in plan.events]
    assert plan.group is not None
    assert planned(job, "", "Pending").events == ()


def test_a_job_that_needs_more_pods_than_it_has_is_invalid_until_it_is_changed() -> None:
    message = "spec.minAvailable: 9 is more than the replicas of all tasks, at most 2"
    plan = planned(a_job("worker=2", minAvailable=9), "", None)
    assert [(event.reason, event.message) for event in plan.events] == [("InvalidJob", message)]
    assert plan.status is not None
    assert (plan.status.state.reason, plan.status.state.message) == ("InvalidJob", message)
    assert plan.group is None
    assert planned(a_job("worker=9", minAvailable=9), "", None).group is not None


@pytest.mark.parametrize("phase", ["Pending", "Running", "Restarting", "Aborting", "Completed", "Failed"])
def test_the_second_decision_on_the_same_objects_changes_nothing(phase: str) -> None:
    first = planned(a_job(phase=phase, version=1), "worker: running pending succeeded", "Running")
    job = after(first)
    left = {each.metadata.name for each in first.pods_to_delete}
    pods = [
        each
        for each in job_pods("worker: running pending succeeded", version=1)
        if each.metadata.name not in left
    ]
    second = planned(job, pods, None if first.group_to_delete else "Running")
    third = planned(after(second), pods, None if first.group_to_delete else "Running")
    assert third.status == after(second).status
    assert (third.pods_to_delete, third.pods_to_create) == ((), ())


def test_a_chain_of_dependencies_may_be_longer_than_recursion() -> None:
    names = [f"t{number}" for number in range(1200)]
    tasks = [
        {"name": name, "replicas": 1, "dependsOn": {"name": [after]}, "template": {}}
        for name, after in itertools.pairwise(names)
    ]
    job = a_job([*tasks, {"name": names[-1], "replicas": 1, "template": {}}])
    assert [task.name for task in creatable_tasks(job, ())] == [names[-1]]


def test_a_pod_is_desired_within_the_replicas_of_its_task() -> None:
    job = a_job("worker=2 ps=1 worker=3")
    pods = job_pods("worker: running running running running; ps: running; other: running")
    replicas = desired_replicas(job)
    assert [is_desired(pod, replicas) for pod in pods] == [True, True, True, False, True, False]


@pytest.mark.parametrize("policies", [[], [{"event": "PodFailed", "action": "RestartJob"}]])
def test_a_decision_takes_time_in_proportion_to_the_tasks(policies: list[dict[str, Any]]) -> None:
    def steps_for(tasks: int) -> int:
        names = [f"t{number}" for number in range(tasks)]
        job = a_job(" ".join(f"{name}=1" for name in names), phase="Running", policies=policies)
        pods = job_pods("; ".join(f"{name}: pending" for name in names))
        return steps_of(lambda: planned(job, pods, "Running"))

    assert steps_for(400) < 5 * steps_for(100)
