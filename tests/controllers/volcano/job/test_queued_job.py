"""A Volcano Job that a cluster queue admits: its pod sets, its start and its stop."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from quorate.api.core import Toleration
from quorate.api.meta import Uid
from quorate.api.names.kueue import STOPPING
from quorate.api.names.volcano import ADMITTED_POD_SETS
from quorate.api.volcano.job import Job, with_defaults
from quorate.controllers.jobframework.interface import JobState, Stop
from quorate.controllers.jobframework.job_plan import JobOptions, ReconcileContext
from quorate.controllers.jobframework.podset_info import InjectionConflict, PodSetInfo, read_template
from quorate.controllers.volcano.job.job_pod_group import build_pod_group
from quorate.controllers.volcano.job.queued_job import VolcanoJob, minimum_of_one_task
from quorate.kube.patches import merged
from quorate.kube.writes import Patch
from tests.controllers.volcano.job.notation import a_command, a_group, a_job, planned, show

KIND = VolcanoJob()
ZONE = {"zone": "a"}


def annotated(job: Job, patch: Patch) -> Job:
    """Return ``job`` with the annotations of ``patch``."""
    annotations = merged(dict(job.metadata.annotations), patch.body["metadata"]["annotations"])
    return replace(job, metadata=replace(job.metadata, annotations=annotations))


def started(job: Job, *counts: int, **info: Any) -> Job:
    """Return ``job`` as it is admitted, with one count for each task; none: all replicas."""
    tasks = with_defaults(job).spec.tasks
    numbers = counts or [task.replicas for task in tasks]
    infos = [
        PodSetInfo(name=task.name, count=count, **info) for task, count in zip(tasks, numbers, strict=True)
    ]
    patches = KIND.start(job, infos)
    assert not isinstance(patches, InjectionConflict)
    (patch,) = patches
    return annotated(job, patch)


@pytest.mark.parametrize(
    ("tasks", "min_available", "want"),
    [
        ("worker=3", 3, None),
        ("worker=3", 2, ("worker", 2)),
        ("worker=1/3", 1, ("worker", 1)),
        ("worker=2/3", 2, ("worker", 2)),
        ("worker=1/3", 2, ("worker", 2)),
        ("master=1 worker=4", 3, ("worker", 2)),
        ("master=1 worker=2/4", 3, ("worker", 2)),
        ("left=1/2 right=1/2", 2, ("left", 1)),
        ("small=1/2 large=2/8", 3, ("large", 2)),
        ("master=1 worker=4", 1, ("worker", 1)),
        ("none=0 worker=2", 1, ("worker", 1)),
        ("none=0", 0, None),
    ],
)
def test_one_task_may_start_with_fewer_pods(
    tasks: str, min_available: int, want: tuple[str, int] | None
) -> None:
    job = with_defaults(a_job(tasks, minAvailable=min_available))
    assert minimum_of_one_task(job) == want
    minimums = {pod_set.name: pod_set.min_count for pod_set in KIND.pod_sets(job)}
    assert {name: least for name, least in minimums.items() if least is not msgspec.UNSET} == (
        {} if want is None else {want[0]: want[1]}
    )


def test_a_job_is_suspended_without_an_admission_of_its_own() -> None:
    job = a_job()
    assert KIND.is_suspended(job)
    running = started(job)
    assert not KIND.is_suspended(running)
    copy = replace(running, metadata=replace(running.metadata, uid=Uid("another")))
    assert KIND.is_suspended(copy)
    damaged = replace(running, metadata=replace(running.metadata, annotations={ADMITTED_POD_SETS: "{"}))
    assert KIND.is_suspended(damaged)


def test_an_admitted_job_has_the_counts_and_the_templates_of_its_admission() -> None:
    toleration = Toleration(key="spot", operator="Exists")
    job = started(
        a_job("worker=1/3", minAvailable=1),
        2,
        node_selector=ZONE,
        labels={"a": "b"},
        tolerations=(toleration,),
    )
    assert [pod_set.count for pod_set in KIND.pod_sets(job)] == [2]
    plan = planned(job, is_queued=True)
    assert show(plan) == "create worker-0 worker-1"
    template = read_template(plan.job.spec.tasks[0].template)
    assert template["metadata"]["labels"] == {"a": "b"}
    assert template["spec"]["nodeSelector"] == ZONE
    assert template["spec"]["tolerations"] == [{"key": "spot", "operator": "Exists"}]
    assert plan.group is not None
    assert plan.group.spec.min_member == 1
    assert ADMITTED_POD_SETS not in plan.group.metadata.annotations


def test_a_conflict_with_the_template_is_reported_before_the_start() -> None:
    template = {"spec": {"containers": [], "nodeSelector": {"zone": "b"}}}
    job = a_job([{"name": "worker", "replicas": 1, "template": template}])
    conflict = KIND.start(job, [PodSetInfo(name="worker", count=1, node_selector=ZONE)])
    assert isinstance(conflict, InjectionConflict)
    assert "nodeSelector[zone] is 'b'" in conflict.message


@pytest.mark.parametrize(
    ("job", "pods", "group", "want"),
    [
        pytest.param(a_job(), "", None, "", id="no pod group before the admission"),
        pytest.param(a_job(), "", "Inqueue", "delete group", id="a pod group of before"),
        pytest.param(a_job(phase="Running"), "worker: running succeeded", "Running",
                     "delete worker-0 worker-1; delete group; become Pending", id="pods of before"),
        pytest.param(started(a_job()), "", "Inqueue", "create worker-0 worker-1 worker-2",
                     id="admitted"),
        pytest.param(started(a_job(phase="Running")), "worker: running running failed", "Running", "",
                     id="running"),
        pytest.param(started(a_job(phase="Aborted")), "", None, "remove admitted-pod-sets",
                     id="aborted: resuming it needs quota again"),
    ],
)  # fmt: skip
def test_a_queued_job_has_pods_only_while_it_is_admitted(
    job: Job, pods: str, group: str | None, want: str
) -> None:
    assert show(planned(job, pods, group, is_queued=True)) == want


def test_a_stop_ends_when_the_last_pod_is_gone() -> None:
    running = started(a_job(phase="Running"))
    stop = KIND.stop(running, None)
    assert (stop.begins, stop.waits_for_pods) == (True, True)
    stopping = annotated(running, stop.patches[0])
    assert stopping.metadata.annotations == {STOPPING: "true"}
    assert KIND.is_stopped(stopping)
    assert not KIND.is_suspended(stopping)
    assert KIND.is_active(stopping)
    assert KIND.stop(stopping, None) == Stop(waits_for_pods=True)

    ending = planned(stopping, "worker: running~", None, is_queued=True)
    assert show(ending) == "become Pending"
    deleting = planned(stopping, "", a_group("Running", terminating=True), is_queued=True)
    assert show(deleting) == "become Pending"
    over = planned(stopping, "", None, is_queued=True)
    assert show(over) == "become Pending; remove stopping"
    assert over.patch is not None
    assert KIND.is_suspended(annotated(stopping, over.patch))


def test_a_suspended_job_obeys_commands_and_no_policies() -> None:
    policies = [{"event": "PodFailed", "action": "RestartJob"}]
    job = a_job(policies=policies)
    assert "retry" not in show(planned(job, "worker: failed", None, is_queued=True))
    assert "become Aborting" in show(planned(job, "", None, commands=[a_command("AbortJob")], is_queued=True))


@pytest.mark.parametrize(
    ("phase", "success"), [("Completed", True), ("Failed", False), ("Terminated", False)]
)
def test_the_workload_ends_with_the_job(phase: str, success: bool) -> None:
    outcome = KIND.finished(a_job(phase=phase))
    assert outcome is not None
    assert outcome.success == success
    assert KIND.finished(a_job(phase="Aborted")) is None
    aborted = JobState.of(
        KIND,
        a_job(phase="Aborted"),
        ReconcileContext(flavors={}, workload_classes={}, pod_classes={}),
        JobOptions(),
        0.0,
    )
    assert KIND.is_on_hold(aborted)


def test_a_queue_label_alone_leaves_a_job_alone_where_it_is_not_queued() -> None:
    plan = planned(a_job(), "", "Inqueue")
    assert show(plan) == "create worker-0 worker-1 worker-2"
    assert build_pod_group(with_defaults(a_job()), {}).spec.min_member == 3
