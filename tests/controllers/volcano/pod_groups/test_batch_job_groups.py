"""A batch Job is placed whole: its group first, its pods when the group is admitted."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.batch import Job
from quorate.api.meta import ObjectMeta, Uid
from quorate.api.volcano import PodGroup, PodGroupStatus
from quorate.controllers.volcano.pod_groups.batch_job_groups import (
    STARTED,
    BatchGroupPlan,
    BatchJobInfo,
    admitted_pods,
    decide,
    group_name,
    is_gang_scheduled,
)
from tests.controllers.objects import a_workload

OURS = ("quorate", "volcano")
ASKS = {"scheduling.volcano.sh/queue-name": "research"}


def a_job(
    *,
    suspend: bool = True,
    annotations: dict[str, str] | None = None,
    scheduler: str = "volcano",
    pods: int = 3,
    status: dict[str, Any] | None = None,
    of_template: dict[str, str] | None = None,
    **spec: Any,
) -> Job:
    container = {"name": "main", "resources": {"requests": {"cpu": "2"}}}
    template = {
        "metadata": {"annotations": of_template or {}},
        "spec": {"schedulerName": scheduler, "priorityClassName": "high", "containers": [container]},
    }
    metadata = {"name": "train", "namespace": "team", "uid": "1234", "resourceVersion": "5"}
    body = {
        "metadata": {**metadata, "annotations": ASKS if annotations is None else annotations},
        "spec": {"suspend": suspend, "parallelism": pods, "completions": pods, "template": template, **spec},
        "status": status or {},
    }
    return codec.convert(Job, body)


def a_group(phase: str) -> PodGroup:
    metadata = ObjectMeta(name="podgroup-1234", namespace="team", uid=Uid("g"))
    return PodGroup(metadata=metadata, status=PodGroupStatus(phase=phase))


def planned(
    job: Job, phase: str | None, *, queued: bool = False, pods: int | None = None, keep: bool = False
) -> BatchGroupPlan:
    group = None if phase is None else a_group(phase)
    return decide(BatchJobInfo(job, group, queued, pods, {}, keep))


def show(plan: BatchGroupPlan) -> str:
    parts = []
    if plan.group is not None:
        parts.append(f"group of {plan.group.spec.min_member}")
    if plan.group_to_delete is not None:
        parts.append("end group")
    if plan.patches:
        suspend = plan.patches[-1].body["spec"]["suspend"]
        parts.append("suspend" if suspend else "start")
    return "; ".join(parts)


STARTED_JOB = {**ASKS, STARTED: "true"}
DONE = {"conditions": [{"type": "Complete", "status": "True"}]}


@pytest.mark.parametrize(
    ("job", "phase", "want"),
    [
        pytest.param({}, None, "group of 3", id="suspended, it gets a group"),
        pytest.param({}, "", "group of 3", id="and waits while that is new"),
        pytest.param({}, "Pending", "group of 3", id="or waits itself"),
        pytest.param({}, "Inqueue", "group of 3; start", id="it starts when the group is admitted"),
        pytest.param({"suspend": False, "annotations": STARTED_JOB}, "Running", "group of 3", id="it runs"),
        pytest.param({"suspend": False, "annotations": STARTED_JOB}, "Pending", "group of 3; suspend",
                     id="it is held back again when the group is sent back"),
        pytest.param({"suspend": False, "annotations": STARTED_JOB, "status": {"ready": 1}}, "Pending",
                     "group of 3", id="but not once a pod is ready"),
        pytest.param({"suspend": True, "annotations": STARTED_JOB}, "Running", "end group",
                     id="who pauses it by hand gets the capacity back"),
        pytest.param({"suspend": False}, None, "", id="one created running is left to its pods"),
        pytest.param({"annotations": {}}, None, "", id="one that asks for nothing is just suspended"),
        pytest.param({"status": DONE}, "Running", "end group", id="it ended, and so does its group"),
        pytest.param({"annotations": {"scheduling.volcano.sh/group-min-member": "2"}}, None, "group of 2",
                     id="it may say how many it needs"),
    ],
)  # fmt: skip
def test_a_job_that_nobody_else_starts(job: dict[str, Any], phase: str | None, want: str) -> None:
    assert show(planned(a_job(**job), phase)) == want


@pytest.mark.parametrize(
    ("job", "phase", "pods", "want"),
    [
        pytest.param({}, None, None, "", id="not admitted to a queue: no group yet"),
        pytest.param({}, None, 2, "group of 2", id="admitted: a group of as many as are admitted"),
        pytest.param({}, "Inqueue", 3, "group of 3", id="whoever queues it starts it"),
        pytest.param({"suspend": False}, "Pending", 3, "group of 3; suspend", id="sent back it is held back"),
        pytest.param({"suspend": False, "status": {"ready": 1}}, "Pending", 3, "group of 3",
                     id="not once a pod is ready"),
        pytest.param({"suspend": False}, "Running", None, "end group", id="evicted, it has no group"),
        pytest.param({"annotations": {}}, None, 3, "group of 3", id="the scheduler's name is enough"),
    ],
)  # fmt: skip
def test_a_queued_job(job: dict[str, Any], phase: str | None, pods: int | None, want: str) -> None:
    assert show(planned(a_job(**job), phase, queued=True, pods=pods)) == want


def test_a_job_may_be_left_running_when_its_group_is_sent_back() -> None:
    job = a_job(suspend=False, annotations=STARTED_JOB)
    assert show(planned(job, "Pending", keep=True)) == "group of 3"


def test_the_start_names_the_group_on_the_pods_and_is_remembered() -> None:
    (patch,) = planned(a_job(), "Inqueue").patches
    assert codec.to_builtins(patch.body) == {
        "metadata": {"annotations": {STARTED: "true"}},
        "spec": {
            "suspend": False,
            "template": {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "podgroup-1234"}}},
        },
    }


def test_the_group_is_the_job_s_and_needs_what_its_pods_need() -> None:
    group = planned(a_job(), None).group
    assert group is not None
    (owner,) = group.metadata.owner_references
    assert (owner.kind, owner.uid, owner.controller) == ("Job", "1234", True)
    assert (group.spec.queue, group.spec.priority_class_name) == ("research", "high")
    assert codec.to_builtins(group.spec.min_resources) == {
        "cpu": "6", "requests.cpu": "6", "pods": "3", "count/pods": "3",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("job", "want"),
    [
        pytest.param({}, True, id="pods for one of our schedulers"),
        pytest.param({"scheduler": "default-scheduler"}, False, id="for another"),
        pytest.param({"of_template": {"scheduling.k8s.io/group-name": "mine"}}, False, id="its own group"),
        pytest.param({"of_template": {"scheduling.k8s.io/group-name": "podgroup-1234"}}, True,
                     id="the group we named"),
        pytest.param({"annotations": {"kueue.x-k8s.io/elastic-job": "true"}}, False, id="elastic"),
        pytest.param({"managedBy": "example.com/other"}, False, id="one that somebody else runs"),
    ],
)  # fmt: skip
def test_who_takes_part(job: dict[str, Any], want: bool) -> None:
    assert is_gang_scheduled(a_job(**job), OURS) is want
    assert group_name(a_job(**job)) == "podgroup-1234"


def test_only_an_admitted_workload_admits_pods() -> None:
    assert admitted_pods([a_workload(admitted_to=["spot"])]) == 3
    assert admitted_pods([a_workload("QuotaReserved")]) is None
    assert admitted_pods([a_workload("Evicted=Preempted", admitted_to=["spot"])]) is None
    assert admitted_pods([]) is None
