"""What the policies of a Volcano Job and its tasks request, and what a restart or a lost pod changes."""

import dataclasses
from typing import Any

import pytest
from msgspec.structs import replace

from quorate.api.meta import Condition
from quorate.api.volcano.job import JobState
from quorate.controllers.limits import MAX_CONDITIONS
from tests.controllers.volcano.job.notation import (
    NOW,
    a_group,
    a_job,
    a_lost_pod,
    after,
    changed,
    job_pods,
    planned,
    show,
)

RESTART = {"event": "PodFailed", "action": "RestartJob"}


@pytest.mark.parametrize(
    ("policies", "pods", "want"),
    [
        pytest.param([RESTART], "worker: running failed pending",
                     "delete worker-0 worker-1 worker-2; delete group; become Restarting; retry 1",
                     id="RestartJob deletes all pods"),
        pytest.param([{"event": "PodFailed", "action": "AbortJob"}], "worker: running failed succeeded",
                     "delete worker-0; delete group; become Aborting", id="AbortJob retains finished pods"),
        pytest.param([{"event": "PodFailed", "action": "TerminateJob"}], "worker: running failed pending",
                     "delete worker-0 worker-2; delete group; become Terminating",
                     id="TerminateJob retains finished pods"),
        pytest.param([{"event": "TaskCompleted", "action": "CompleteJob"}],
                     "worker: succeeded succeeded succeeded", "delete group; become Completing",
                     id="TaskCompleted"),
        pytest.param([{"event": "PodFailed", "action": "RestartPod"}], "worker: running failed running",
                     "delete worker-1; become Restarting; retry 1",
                     id="RestartPod deletes one pod"),
        pytest.param([{"exitCode": 137, "action": "RestartJob"}], "worker: running running failed=1", "",
                     id="exit code does not match"),
        pytest.param([{"exitCode": 137, "action": "AbortJob"}, RESTART], "worker: running running failed=137",
                     "delete worker-0 worker-1; delete group; become Aborting",
                     id="first matching policy wins"),
        pytest.param([{"event": "*", "action": "AbortJob"}], "worker: running running running~",
                     "delete worker-0 worker-1; delete group; become Aborting", id="policy for any event"),
        pytest.param([{"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"}],
                     "worker: running running~ running",
                     "delete worker-0 worker-2; delete group; become Restarting; retry 1",
                     id="policy for several events"),
        pytest.param([{"event": "PodPending", "action": "AbortJob"}], "worker: pending running running", "",
                     id="PodPending needs a timeout"),
        pytest.param([{"event": "PodPending", "action": "AbortJob", "timeout": "1m"}],
                     "worker: pending running running",
                     "delete worker-0 worker-1 worker-2; delete group; become Aborting",
                     id="PodPending after the timeout"),
        pytest.param([RESTART | {"timeout": "5m"}], "worker: running failed running", "",
                     id="before the timeout"),
        pytest.param([{"event": "TaskFailed", "action": "AbortJob"}], "worker: running=2 running=1 running",
                     "delete worker-0 worker-1 worker-2; delete group; become Aborting",
                     id="TaskFailed: too many container restarts"),
        pytest.param([{"event": "TaskCompleted", "action": "RestartPod"}],
                     "worker: succeeded succeeded succeeded", "delete worker-2; become Restarting; retry 1",
                     id="TaskCompleted: RestartPod deletes the pod that ended last"),
        pytest.param([{"event": "TaskFailed", "action": "RestartPod"}], "worker: running=2 running=1 running",
                     "delete worker-1; become Restarting; retry 1",
                     id="TaskFailed: RestartPod deletes the pod that was restarted last"),
    ],
)  # fmt: skip
def test_policies_request_actions(policies: list[dict[str, Any]], pods: str, want: str) -> None:
    assert show(planned(a_job("worker=1/3", phase="Running", policies=policies), pods, "Running")) == want


@pytest.mark.parametrize(
    ("action", "retries", "begin", "rest"),
    [
        pytest.param("RestartJob", 1, "delete train-0 train-1 train-2; delete group", "become Pending",
                     id="one retry left: all pods are deleted"),
        pytest.param("RestartJob", 2, "delete train-0; delete group", "become Failed",
                     id="no retry left: finished pods stay"),
        pytest.param("RestartTask", 2, "delete train-0", "become Failed", id="no retry left, RestartTask"),
        pytest.param("RestartPod", 2, "", "become Failed", id="no retry left, RestartPod"),
    ],
)  # fmt: skip
def test_the_last_restart_retains_finished_pods(action: str, retries: int, begin: str, rest: str) -> None:
    policies = [{"event": "PodFailed", "action": action}]
    job = a_job("train=3", phase="Running", retries=retries, maxRetry=3, policies=policies)
    pods = job_pods("train: running failed succeeded", retry=retries)
    plan = planned(job, pods, "Running")
    assert show(plan) == "; ".join(filter(None, (begin, f"become Restarting; retry {retries + 1}")))
    deleted = {each.metadata.uid for each in plan.pods_to_delete}
    left = [pod for pod in pods if pod.metadata.uid not in deleted]
    assert rest in show(planned(after(plan), left, None))
    assert "train-1" not in show(planned(after(plan), left, None))


def test_policies_of_the_task_precede_those_of_the_job() -> None:
    tasks = [
        {"name": "ps", "replicas": 1, "policies": [{"event": "PodFailed", "action": "RestartTask"}]},
        {"name": "worker", "replicas": 2},
    ]
    job = a_job(tasks, phase="Running", policies=[{"event": "PodFailed", "action": "AbortJob"}])
    assert show(planned(job, "ps: failed; worker: running running", "Running")) == (
        "delete ps-0; become Restarting; retry 1"
    )
    assert show(planned(job, "ps: running; worker: failed running", "Running")) == (
        "delete ps-0 worker-1; delete group; become Aborting"
    )


def test_an_unknown_pod_group_is_an_event() -> None:
    job = a_job(phase="Running", policies=[{"event": "Unknown", "action": "RestartJob"}])
    assert show(planned(job, "worker: running", "Unknown")).endswith("become Restarting; retry 1")
    assert show(planned(job, "worker: running running running", "Running")) == ""


@pytest.mark.parametrize("action", ["RestartTask", "RestartPod", "RestartPartition"])
def test_an_event_of_the_whole_job_requests_no_action_on_a_part_of_it(action: str) -> None:
    policies = [{"event": "Unknown", "action": action}, {"event": "PodFailed", "action": "AbortJob"}]
    job = a_job(phase="Running", policies=policies)
    assert show(planned(job, "worker: running running running", "Unknown")) == ""
    assert show(planned(job, "worker: running running failed", "Unknown")).endswith("become Aborting")


def test_a_task_without_partitions_has_none_to_restart() -> None:
    policies = [{"event": "PodFailed", "action": "RestartPartition"}]
    job = a_job(phase="Running", policies=policies)
    assert show(planned(job, "worker: failed running running", "Running")) == ""


def test_a_policy_with_a_timeout_wakes_when_it_is_due() -> None:
    job = a_job(phase="Running", policies=[RESTART | {"timeout": "5m"}])
    plan = planned(job, "worker: running failed running", "Running")
    assert plan.wake_at == NOW - 60 + 300  # the pod failed a minute ago


def test_events_before_a_restart_do_not_restart_again() -> None:
    job = a_job(phase="Running", version=1, retries=1, policies=[RESTART])
    old = job_pods("worker: failed running running", version=0)
    assert show(planned(job, old, "Running")) == "delete worker-1 worker-2"
    assert show(planned(job, "worker: failed running running", "Running")).endswith("retry 2")


@pytest.mark.parametrize(
    ("event", "retained", "since", "want"),
    [
        pytest.param("TaskCompleted", "succeeded - -", "- succeeded succeeded", "become Completing",
                     id="completed since the resumption"),
        pytest.param("TaskCompleted", "succeeded succeeded succeeded", "", "",
                     id="completed before the resumption"),
        pytest.param("TaskFailed", "succeeded - -", "- running=2 running=1",
                     "delete worker-1 worker-2; become Completing", id="failed since the resumption"),
    ],
)  # fmt: skip
def test_pods_that_a_resumption_retained_belong_to_their_task(
    event: str, retained: str, since: str, want: str
) -> None:
    policies = [{"event": event, "action": "CompleteJob"}]
    job = a_job("worker=3 other=1", phase="Running", version=1, policies=policies)
    pods = job_pods(f"worker: {retained}; other: succeeded", version=0, age=300.0)
    pods += job_pods(f"worker: {since}", version=1)
    assert show(planned(job, pods, "Running")).replace("delete group; ", "") == (want or "become Completed")


def test_a_pod_that_a_restart_deletes_is_not_evicted() -> None:
    policies = [{"events": ["PodFailed", "PodEvicted"], "action": "RestartPod"}]
    job = a_job(phase="Running", retries=1, policies=policies)
    terminating = job_pods("worker: - running~ -", retry=0)
    assert show(planned(job, terminating, "Running")) == "create worker-0 worker-2; become Pending"


def test_a_pod_that_a_restart_retained_may_be_evicted() -> None:
    job = a_job(phase="Running", retries=1, policies=[{"event": "PodEvicted", "action": "RestartPod"}])
    pods = job_pods("worker: running - -", retry=0) + job_pods("worker: - - running", retry=1)
    plan = planned(job, pods, "Running", lost=[a_lost_pod("worker", 1)])
    assert show(plan) == "become Restarting; retry 2"


def test_an_eviction_outside_the_target_of_an_action_is_handled_after_it() -> None:
    policies = [{"event": "PodEvicted", "action": "RestartTask"}]
    job = a_job("ps=2 worker=2", phase="Running", policies=policies)
    lost = [a_lost_pod("ps", 0), a_lost_pod("ps", 1), a_lost_pod("worker", 0)]
    first = planned(job, "worker: - running", "Running", lost=lost)
    assert show(first) == "become Restarting; retry 1"
    assert first.handled_losses == tuple(lost[:2])
    pending = replace(after(first), status=replace(after(first).status, state=JobState(phase="Pending")))
    second = planned(pending, "worker: - running", "Running", lost=lost[2:])
    assert show(second) == "delete worker-1; become Restarting; retry 2"


@pytest.mark.parametrize(
    ("action", "pods", "lost", "want"),
    [
        pytest.param("RestartPod", "ps: failed running; worker: failed failed running", [],
                     "ps-0 worker-0 worker-1", id="failed pods"),
        pytest.param("RestartTask", "ps: failed running; worker: running failed running", [],
                     "ps-0 ps-1 worker-0 worker-1 worker-2", id="a failed pod of each task"),
        pytest.param("RestartPod", "ps: - running; worker: - - running",
                     [("ps", 0), ("worker", 0), ("worker", 1)], "", id="pods of a lost node"),
        pytest.param("RestartTask", "ps: - running; worker: running - running", [("ps", 0), ("worker", 1)],
                     "ps-1 worker-0 worker-2", id="a lost pod of each task"),
        pytest.param("RestartPod", "ps: - running; worker: running failed running", [("ps", 0)], "worker-1",
                     id="a failed and a lost pod"),
    ],
)  # fmt: skip
def test_parts_that_end_together_are_restarted_for_one_retry(
    action: str, pods: str, lost: list[tuple[str, int]], want: str
) -> None:
    policies = [{"events": ["PodFailed", "PodEvicted"], "action": action}]
    job = a_job("ps=2 worker=3", phase="Running", maxRetry=2, policies=policies)
    left, losses, deleted = job_pods(pods), [a_lost_pod(*pod) for pod in lost], set[str]()
    for _ in range(9):
        plan = planned(job, left, "Running", lost=losses)
        names = {pod.metadata.name for pod in plan.pods_to_delete}
        deleted |= {name.removeprefix("train-") for name in names}
        left = [pod for pod in left if pod.metadata.name not in names]
        losses = [pod for pod in losses if pod not in plan.handled_losses]
        job = after(plan)
        if job.phase != "Restarting":
            break
    assert (job.phase, job.status.retry_count) == ("Pending", 1)
    assert (" ".join(sorted(deleted)), losses) == (want, [])


@pytest.mark.parametrize(
    ("policies", "want"),
    [
        pytest.param([{"event": "PodEvicted", "action": "RestartPod"}],
                     "delete worker-1; become Restarting; retry 1", id="PodEvicted"),
        pytest.param([RESTART], "delete worker-0 worker-1 worker-2; delete group; become Restarting; retry 1",
                     id="PodFailed"),
        pytest.param([{"event": "PodFailed", "action": "AbortJob"},
                      {"event": "PodEvicted", "action": "RestartPod"}],
                     "delete worker-1; become Restarting; retry 1", id="PodEvicted comes first"),
    ],
)  # fmt: skip
def test_a_pod_that_failed_by_a_disruption_is_evicted(policies: list[dict[str, Any]], want: str) -> None:
    pods = job_pods("worker: running failed running")
    disrupted = Condition(type="DisruptionTarget", status="True", reason="TerminationByKubelet")
    pods[1] = changed(pods[1], status=replace(pods[1].pod.status, conditions=(disrupted,)))
    assert show(planned(a_job(phase="Running", policies=policies), pods, "Running")) == want


def test_a_pod_that_failed_and_was_deleted_at_once_has_failed() -> None:
    job = a_job(phase="Running", policies=[{"exitCode": 137, "action": "RestartPod"}])
    lost = dataclasses.replace(a_lost_pod("worker", 1), failed_at=NOW - 1, exit_code=137)
    plan = planned(job, "worker: running - running", "Running", lost=[lost])
    assert show(plan) == "become Restarting; retry 1"


def test_a_pod_that_a_restart_retained_may_fail_and_be_restarted() -> None:
    job = a_job(phase="Running", retries=1, policies=[{"event": "PodFailed", "action": "RestartPod"}])
    pods = job_pods("worker: running - failed", retry=0) + job_pods("worker: - running", retry=1)
    assert show(planned(job, pods, "Running")) == "delete worker-2; become Restarting; retry 2"


def test_a_restarting_job_is_pending_only_once_pods_and_group_are_deleted() -> None:
    restart = planned(a_job(phase="Running", policies=[RESTART]), "worker: failed running running", "Running")
    job = after(restart)
    assert show(planned(job, job_pods("worker: failed~ running~ running~"), None)) == ""
    assert show(planned(job, [], "Running")) == "delete group"
    assert show(planned(job, [], a_group("Running", terminating=True))) == "become Pending"


def test_a_restart_with_an_unknown_message_restarts_the_whole_job() -> None:
    job = a_job(phase="Restarting", version=1, retries=1, message="in other words")
    assert show(planned(job, job_pods("worker: failed running succeeded"), None)) == (
        "delete worker-0 worker-1 worker-2"
    )


def test_a_lost_pod_is_an_eviction_until_an_action_handles_it() -> None:
    job = a_job(phase="Running", policies=[{"event": "PodEvicted", "action": "RestartJob"}])
    plan = planned(job, "worker: running - running", "Running", lost=[a_lost_pod("worker", 1)])
    assert show(plan) == "delete worker-0 worker-2; delete group; become Restarting; retry 1"
    assert show(planned(after(plan), [], None)) == "become Pending"


def test_a_job_that_restarts_for_ever_keeps_its_newest_conditions() -> None:
    job = a_job(phase="Running", maxRetry=1000, policies=[RESTART])
    for _ in range(MAX_CONDITIONS):
        failed = job_pods("worker: failed running running", version=job.status.version)
        job = after(planned(job, failed, "Running"))
        job = after(planned(job, "", None))
        job = after(planned(job, "worker: running running running", "Running"))
    assert len(job.status.conditions) == MAX_CONDITIONS
    assert [each.status for each in job.status.conditions[-3:]] == ["Restarting", "Pending", "Running"]
