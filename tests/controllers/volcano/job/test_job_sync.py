"""What becomes of a Volcano Job: its pods, its group and its phase, one step at a time."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.meta import Key, at_epoch
from quorate.api.volcano.job import Job
from quorate.controllers.volcano.job.job_pods import LostPod
from quorate.controllers.volcano.job.job_sync import MAX_PODS
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


@pytest.mark.parametrize(
    ("group", "pods", "want"),
    [
        pytest.param(None, "", "", id="without a group nothing is made"),
        pytest.param("", "", "", id="nor while the group is new"),
        pytest.param("Pending", "", "", id="nor while it waits"),
        pytest.param("Inqueue", "", "create worker-0 worker-1 worker-2", id="admitted: all replicas"),
        pytest.param("Running", "worker: running - running", "create worker-1", id="a lost one is replaced"),
        pytest.param("Unknown", "worker: running - running", "create worker-1", id="also when some hang"),
        pytest.param("Inqueue", "worker: running running~ -", "create worker-2", id="a leaving one is there"),
        pytest.param("Pending", "worker: pending@ pending@ -", "delete worker-0 worker-1",
                     id="sent back: those without a node are taken back"),
        pytest.param("Pending", "worker: running pending@ pending", "delete worker-1",
                     id="those with a node stay"),
        pytest.param("Inqueue", "worker: pending@ pending@ pending@ pending@", "delete worker-3",
                     id="a replica beyond the task's goes"),
    ],
)  # fmt: skip
def test_pods_exist_only_while_their_group_is_admitted(group: str | None, pods: str, want: str) -> None:
    assert show(planned(a_job("worker=2/3", minAvailable=3), pods, group)) == want


def test_pods_without_a_node_may_be_kept_when_the_group_is_sent_back() -> None:
    assert show(planned(a_job(), "worker: pending@", "Pending", keep_pending=True)) == ""


def test_a_group_on_its_way_out_admits_nobody() -> None:
    assert show(planned(a_job(), "", a_group("Running", going=True))) == ""


def test_why_a_group_waits_is_told_on_the_job() -> None:
    plan = planned(a_job(), "", a_group("Pending", "NotEnoughResources"))
    assert [(event.reason, event.message) for event in plan.events] == [
        (
            "PodGroupPending",
            "pod group default/train-uid-of-train is pending: NotEnoughResources: short of cpu",
        )
    ]


@pytest.mark.parametrize(
    ("job", "pods", "want"),
    [
        pytest.param({}, "worker: running running pending", "", id="below the minimum it is pending"),
        pytest.param({}, "worker: running running succeeded", "become Running", id="at it, it runs"),
        pytest.param({}, "worker: running failed succeeded", "become Running", id="failed ones did start"),
        pytest.param({"phase": "Running"}, "worker: running pending pending", "become Pending",
                     id="with more pending than it can spare it waits again"),
        pytest.param({"phase": "Running"}, "worker: succeeded succeeded succeeded", "become Completed",
                     id="all succeeded"),
        pytest.param({"phase": "Running"}, "worker: succeeded succeeded failed", "become Failed",
                     id="too few succeeded"),
        pytest.param({"phase": "Running", "minAvailable": 2}, "worker: succeeded succeeded failed",
                     "become Completed", id="as many succeeded as must be there"),
        pytest.param({"phase": "Running", "minSuccess": 1}, "worker: succeeded running running",
                     "become Completed", id="enough succeeded before the others ended"),
        pytest.param({"phase": "Running", "minSuccess": 3, "minAvailable": 2},
                     "worker: succeeded succeeded failed", "become Failed", id="not enough to be a success"),
        pytest.param({"phase": "Running", "tasks": "worker=0"}, "", "", id="scaled to nothing it runs on"),
        pytest.param({"phase": "Running", "tasks": "ps=1/1 worker=1/2", "minAvailable": 2},
                     "ps: failed; worker: succeeded succeeded", "become Failed",
                     id="each task has its own minimum of successes"),
        pytest.param({"phase": "Running", "tasks": "ps=1/1 worker=2/2", "minAvailable": 2},
                     "ps: failed; worker: succeeded succeeded", "become Completed",
                     id="but not where the job needs less than all of them"),
    ],
)  # fmt: skip
def test_phases_follow_from_the_pods(job: dict[str, Any], pods: str, want: str) -> None:
    assert show(planned(a_job(**job), pods, "Running")) == want


RESTART = {"event": "PodFailed", "action": "RestartJob"}


@pytest.mark.parametrize(
    ("policies", "pods", "want"),
    [
        pytest.param([RESTART], "worker: running failed pending",
                     "delete worker-0 worker-1 worker-2; end group; become Restarting; retry 1",
                     id="a restart keeps none"),
        pytest.param([{"event": "PodFailed", "action": "AbortJob"}], "worker: running failed succeeded",
                     "delete worker-0; end group; become Aborting", id="an abort keeps those that ended"),
        pytest.param([{"event": "PodFailed", "action": "TerminateJob"}], "worker: running failed pending",
                     "delete worker-0 worker-2; end group; become Terminating", id="so does terminating"),
        pytest.param([{"event": "TaskCompleted", "action": "CompleteJob"}],
                     "worker: succeeded succeeded succeeded", "end group; become Completing",
                     id="a task completed"),
        pytest.param([{"event": "PodFailed", "action": "RestartPod"}], "worker: running failed running",
                     "delete worker-1; end group; become Restarting; retry 1", id="one pod is restarted"),
        pytest.param([{"exitCode": 137, "action": "RestartJob"}], "worker: running running failed=1", "",
                     id="another exit code"),
        pytest.param([{"exitCode": 137, "action": "AbortJob"}, RESTART], "worker: running running failed=137",
                     "delete worker-0 worker-1; end group; become Aborting", id="the first match wins"),
        pytest.param([{"event": "*", "action": "AbortJob"}], "worker: running running running~",
                     "delete worker-0 worker-1; end group; become Aborting", id="any event"),
        pytest.param([{"events": ["PodEvicted", "PodFailed"], "action": "RestartJob"}],
                     "worker: running running~ running",
                     "delete worker-0 worker-2; end group; become Restarting; retry 1", id="one of several"),
        pytest.param([{"event": "PodPending", "action": "AbortJob"}], "worker: pending running running", "",
                     id="that a pod is pending needs a timeout"),
        pytest.param([{"event": "PodPending", "action": "AbortJob", "timeout": "1m"}],
                     "worker: pending running running",
                     "delete worker-0 worker-1 worker-2; end group; become Aborting", id="and has had it"),
        pytest.param([RESTART | {"timeout": "5m"}], "worker: running failed running", "", id="not yet"),
        pytest.param([{"event": "TaskFailed", "action": "AbortJob"}], "worker: running=2 running=1 running",
                     "delete worker-0 worker-1 worker-2; end group; become Aborting",
                     id="containers restarted too often"),
    ],
)  # fmt: skip
def test_policies(policies: list[dict[str, Any]], pods: str, want: str) -> None:
    assert show(planned(a_job("worker=1/3", phase="Running", policies=policies), pods, "Running")) == want


@pytest.mark.parametrize(
    ("action", "retries", "begins", "goes_on"),
    [
        pytest.param("RestartJob", 1, "delete train-0 train-1 train-2; end group", "become Pending",
                     id="one retry is left: none is kept"),
        pytest.param("RestartJob", 2, "delete train-0; end group", "become Failed",
                     id="none is left: who has ended stays, and may tell why"),
        pytest.param("RestartTask", 2, "delete train-0; end group", "become Failed", id="so of a task"),
        pytest.param("RestartPod", 2, "end group", "become Failed", id="and of one pod"),
    ],
)  # fmt: skip
def test_the_last_restart_spares_the_pods_that_have_ended(
    action: str, retries: int, begins: str, goes_on: str
) -> None:
    policies = [{"event": "PodFailed", "action": action}]
    job = a_job("train=3", phase="Running", retries=retries, maxRetry=3, policies=policies)
    pods = job_pods("train: running failed succeeded", retry=retries)
    plan = planned(job, pods, "Running")
    assert show(plan) == f"{begins}; become Restarting; retry {retries + 1}"
    gone = {each.metadata.uid for each in plan.pods_to_delete}
    left = [pod for pod in pods if pod.metadata.uid not in gone]
    assert goes_on in show(planned(after(plan), left, None))
    assert "train-1" not in show(planned(after(plan), left, None))


def test_a_task_is_asked_before_its_job() -> None:
    tasks = [
        {"name": "ps", "replicas": 1, "policies": [{"event": "PodFailed", "action": "RestartTask"}]},
        {"name": "worker", "replicas": 2},
    ]
    job = a_job(tasks, phase="Running", policies=[{"event": "PodFailed", "action": "AbortJob"}])
    assert show(planned(job, "ps: failed; worker: running running", "Running")) == (
        "delete ps-0; end group; become Restarting; retry 1"
    )
    assert show(planned(job, "ps: running; worker: failed running", "Running")) == (
        "delete ps-0 worker-1; end group; become Aborting"
    )


def test_a_group_that_hangs_is_an_event() -> None:
    job = a_job(phase="Running", policies=[{"event": "Unknown", "action": "RestartJob"}])
    assert show(planned(job, "worker: running", "Unknown")).endswith("become Restarting; retry 1")
    assert show(planned(job, "worker: running running running", "Running")) == ""


def test_a_policy_with_a_timeout_says_when_to_look_again() -> None:
    job = a_job(phase="Running", policies=[RESTART | {"timeout": "5m"}])
    plan = planned(job, "worker: running failed running", "Running")
    assert plan.wake_at == NOW - 60 + 300  # the pod failed a minute ago


def test_what_happened_before_a_restart_does_not_restart_again() -> None:
    job = a_job(phase="Running", version=1, retries=1, policies=[RESTART])
    old = job_pods("worker: failed running running", version=0)
    assert show(planned(job, old, "Running")) == "delete worker-1 worker-2"
    assert show(planned(job, "worker: failed running running", "Running")).endswith("retry 2")


def test_the_end_of_a_pod_that_a_restart_ended_is_no_eviction() -> None:
    policies = [{"events": ["PodFailed", "PodEvicted"], "action": "RestartPod"}]
    job = a_job(phase="Running", retries=1, policies=policies)
    leaving = job_pods("worker: - running~ -", retry=0)
    assert show(planned(job, leaving, "Running")) == "create worker-0 worker-2"
    left = job_pods("worker: running - running", retry=0)
    gone = LostPod(Key("default", "train-worker-1"), "worker", 1, "", version=0, retry=0, at=NOW)
    assert show(planned(job, left, "Running", lost=[gone])) == "create worker-1"


def test_a_pod_that_a_restart_left_standing_may_fail_and_be_restarted_as_well() -> None:
    job = a_job(phase="Running", retries=1, policies=[{"event": "PodFailed", "action": "RestartPod"}])
    pods = job_pods("worker: running - failed", retry=0) + job_pods("worker: - running", retry=1)
    assert show(planned(job, pods, "Running")) == "delete worker-2; end group; become Restarting; retry 2"


@pytest.mark.parametrize(
    ("action", "pods", "left", "want"),
    [
        pytest.param("RestartJob", "worker: running failed running", "worker: running - running",
                     "delete worker-0 worker-2; end group", id="though the pod that failed is gone"),
        pytest.param("RestartJob", "worker: running failed running", "worker: running failed running",
                     "delete worker-0 worker-1 worker-2; end group", id="before anything was done"),
        pytest.param("RestartPod", "worker: running failed running", "worker: running failed running",
                     "delete worker-1; end group", id="of one pod"),
        pytest.param("RestartTask", "worker: running failed; ps: running", "worker: running -; ps: running",
                     "delete worker-0; end group", id="of one task"),
        pytest.param("AbortJob", "worker: running failed running", "worker: running failed -",
                     "delete worker-0; end group", id="also when it is to end"),
    ],
)  # fmt: skip
def test_what_was_begun_is_finished_by_whoever_comes_next(
    action: str, pods: str, left: str, want: str
) -> None:
    policies = [{"event": "PodFailed", "action": action}]
    tasks = "worker=2 ps=1" if "ps" in pods else "worker=3"
    begun = after(planned(a_job(tasks, phase="Running", policies=policies), pods, "Running"))
    assert show(planned(begun, job_pods(left), "Running")) == want


def test_a_restart_begins_anew_only_when_all_is_gone_that_was_before() -> None:
    restart = planned(a_job(phase="Running", policies=[RESTART]), "worker: failed running running", "Running")
    job = after(restart)
    assert show(planned(job, job_pods("worker: failed~ running~ running~"), None)) == ""
    assert show(planned(job, [], "Running")) == "end group"
    assert show(planned(job, [], a_group("Running", going=True))) == "become Pending"


def test_a_restart_that_somebody_else_began_is_one_of_the_whole_job() -> None:
    job = a_job(phase="Restarting", version=1, retries=1, message="in other words")
    assert show(planned(job, job_pods("worker: failed running succeeded"), None)) == (
        "delete worker-0 worker-1 worker-2"
    )


def test_a_lost_pod_is_an_eviction_until_it_was_answered() -> None:
    job = a_job(phase="Running", policies=[{"event": "PodEvicted", "action": "RestartJob"}])
    gone = LostPod(Key("default", "train-worker-1"), "worker", 1, "", version=0, retry=0, at=NOW)
    plan = planned(job, "worker: running - running", "Running", lost=[gone])
    assert show(plan) == "delete worker-0 worker-2; end group; become Restarting; retry 1"
    assert show(planned(after(plan), [], None, lost=[gone])) == "become Pending"


@pytest.mark.parametrize(
    ("phase", "action", "pods", "want"),
    [
        pytest.param("Running", "AbortJob", "worker: running succeeded",
                     "delete worker-0; end group; become Aborting; take up order-1", id="suspend"),
        pytest.param("Aborted", "ResumeJob", "worker: succeeded failed",
                     "delete worker-1; end group; become Restarting; take up order-1",
                     id="resume keeps what was done and is no retry"),
        pytest.param("Running", "ResumeJob", "worker: running running running", "take up order-1",
                     id="what runs is not resumed"),
        pytest.param("Completed", "AbortJob", "", "end group; take up order-1", id="it is over"),
        pytest.param("Running", "RestartPod", "worker: running running running", "take up order-1",
                     id="a command names no pod"),
        pytest.param("Running", "Dance", "worker: running running running", "take up order-1", id="unknown"),
    ],
)  # fmt: skip
def test_commands(phase: str, action: str, pods: str, want: str) -> None:
    commands = [a_command(action)]
    assert show(planned(a_job(phase=phase), pods, "Running", commands=commands)) == want


def test_a_command_is_carried_out_once_though_its_removal_is_lost() -> None:
    command = a_command("RestartJob")
    done = after(planned(a_job(phase="Running"), "worker: running", "Running", commands=[command]))
    assert (done.status.retry_count, done.status.version) == (1, 1)
    again = planned(done, [], None, commands=[command])
    assert show(again) == "become Pending; take up order-1"
    assert again.status is not None
    assert again.status.retry_count == 1


def test_of_several_commands_each_has_its_turn() -> None:
    commands = [a_command("AbortJob", "first"), a_command("ResumeJob", "second")]
    plan = planned(a_job(phase="Running"), "", "Running", commands=commands)
    assert show(plan) == "end group; become Aborting; take up first"
    assert show(planned(after(plan), "", None, commands=commands[1:])) == "become Restarting; take up second"


@pytest.mark.parametrize(
    ("job", "pods", "want"),
    [
        pytest.param({"phase": "Restarting", "retries": 1}, "worker: running~ running~ running~", "",
                     id="a restart waits for its pods to go"),
        pytest.param({"phase": "Restarting", "retries": 1, "minAvailable": 2}, "worker: running~",
                     "become Pending", id="as far as it needs to"),
        pytest.param({"phase": "Restarting", "retries": 3}, "", "become Failed", id="no retries left"),
        pytest.param({"phase": "Aborting"}, "worker: running~ succeeded", "", id="aborting until all went"),
        pytest.param({"phase": "Aborting"}, "worker: failed succeeded", "become Aborted", id="aborted"),
        pytest.param({"phase": "Aborting"}, "worker: running", "delete worker-0", id="one that came late"),
        pytest.param({"phase": "Terminating"}, "", "become Terminated", id="terminated"),
        pytest.param({"phase": "Completing"}, "worker: succeeded~", "become Completed", id="completed"),
        pytest.param({"phase": "Completed"}, "worker: running succeeded pending", "delete worker-0 worker-2",
                     id="what still runs at the end is ended"),
        pytest.param({"phase": "Aborted"}, "", "", id="aborted it stays"),
    ],
)  # fmt: skip
def test_ways_out(job: dict[str, Any], pods: str, want: str) -> None:
    assert show(planned(a_job(**job), pods, None)) == want


@pytest.mark.parametrize("phase", ["Restarting", "Aborting", "Completed", "Failed", "Terminated", "Aborted"])
def test_only_a_job_that_wants_pods_has_a_group(phase: str) -> None:
    assert planned(a_job(phase=phase), "", "Running").group_to_delete is not None
    assert planned(a_job(phase=phase), "", None).group is None


def test_a_finished_job_goes_when_its_time_is_over() -> None:
    job = a_job(phase="Completed", since=NOW - 100, ttlSecondsAfterFinished=120)
    assert planned(job, "", None).wake_at == NOW + 20
    assert show(planned(job, "", None, now=NOW + 20)) == "end job"
    aborted = a_job(phase="Aborted", since=NOW - 100, ttlSecondsAfterFinished=0)
    assert show(planned(aborted, "", None)) == ""


def test_tasks_wait_for_those_they_depend_on() -> None:
    tasks = [
        {"name": "worker", "replicas": 1, "dependsOn": {"name": ["ps"]}},
        {"name": "ps", "replicas": 2, "minAvailable": 1},
    ]
    job = a_job(tasks)
    assert show(planned(job, "")) == "create ps-0 ps-1"
    assert show(planned(job, "ps: pending pending")) == ""
    assert show(planned(job, "ps: running pending")) == "create worker-0"


def test_the_status_counts_pods_by_task_and_keeps_the_history() -> None:
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


def test_how_long_a_job_ran_is_known_at_its_end() -> None:
    running = after(planned(a_job("worker=1"), "worker: running", "Running", now=NOW))
    plan = planned(running, "worker: succeeded", "Running", now=NOW + 65)
    assert plan.status is not None
    assert (plan.status.state.phase, plan.status.running_duration) == ("Completed", "1m5s")


def test_what_can_never_be_is_told() -> None:
    twice = planned(a_job("worker=1 worker=1"))
    assert [event.reason for event in twice.events] == ["InvalidJob"]
    assert planned(a_job(f"worker={MAX_PODS + 1}")).pods_to_create == ()


def test_a_template_that_means_nothing_is_told() -> None:
    container = {"name": "main", "resources": {"requests": {"cpu": "10x"}}}
    job = a_job([{"name": "worker", "replicas": 1, "template": {"spec": {"containers": [container]}}}])
    (event,) = planned(job, "", None).events
    assert event.reason == "InvalidJob"
    assert event.message.startswith("spec.tasks[0].template: '10x' is not a quantity")


@pytest.mark.parametrize(
    ("job", "says"),
    [
        pytest.param(
            a_job("worker=2", minAvailable=9),
            "spec.minAvailable: 9 is more than the replicas of all tasks, at most 2",
            id="more than all",
        ),
        pytest.param(a_job(""), "spec.tasks: [] is empty, must list at least one task", id="no task"),
        pytest.param(
            a_job([{"name": "a", "replicas": 1, "dependsOn": {"name": ["b"]}, "template": {}}]),
            "spec.tasks[0].dependsOn.name[0]: 'b' is not a task of this job (known: a)",
            id="a dependency on nobody",
        ),
    ],
)
def test_what_a_webhook_would_have_refused_is_told_once(job: Job, says: str) -> None:
    told = planned(job, "", None)
    assert ("InvalidJob", says) in [(event.reason, event.message) for event in told.events]
    assert told.group is not None
    assert planned(job, "", "Pending").events == ()


@pytest.mark.parametrize("phase", ["Pending", "Running", "Restarting", "Aborting", "Completed", "Failed"])
def test_a_second_look_at_the_same_world_changes_nothing(phase: str) -> None:
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
