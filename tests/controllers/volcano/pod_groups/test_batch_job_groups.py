"""Pod groups of batch Jobs: the group comes first, the Job starts once it is admitted."""

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

SCHEDULERS = ("quorate", "volcano")
GROUP_ANNOTATIONS = {"scheduling.volcano.sh/queue-name": "research"}


def a_job(
    *,
    suspend: bool = True,
    annotations: dict[str, str] | None = None,
    scheduler: str = "volcano",
    pods: int = 3,
    status: dict[str, Any] | None = None,
    template_annotations: dict[str, str] | None = None,
    template_spec: dict[str, Any] | None = None,
    **spec: Any,
) -> Job:
    container = {"name": "main", "resources": {"requests": {"cpu": "2"}}}
    template = {
        "metadata": {"annotations": template_annotations or {}},
        "spec": {
            "schedulerName": scheduler,
            "priorityClassName": "high",
            "containers": [container],
            **(template_spec or {}),
        },
    }
    metadata = {"name": "train", "namespace": "team", "uid": "1234", "resourceVersion": "5"}
    body = {
        "metadata": {**metadata, "annotations": GROUP_ANNOTATIONS if annotations is None else annotations},
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
        parts.append("delete group")
    if plan.patches:
        suspend = plan.patches[-1].body["spec"]["suspend"]
        parts.append("suspend" if suspend else "start")
    return "; ".join(parts)


STARTED_JOB = {**GROUP_ANNOTATIONS, STARTED: "true"}
COMPLETE = {"conditions": [{"type": "Complete", "status": "True"}]}


@pytest.mark.parametrize(
    ("job", "phase", "want"),
    [
        pytest.param({}, None, "group of 3", id="suspended Job gets a group"),
        pytest.param({}, "", "group of 3", id="new group"),
        pytest.param({}, "Pending", "group of 3", id="pending group"),
        pytest.param({}, "Inqueue", "group of 3; start", id="admitted group: start"),
        pytest.param({"suspend": False, "annotations": STARTED_JOB}, "Running", "group of 3", id="running"),
        pytest.param({"suspend": False, "annotations": STARTED_JOB}, "Pending", "group of 3; suspend",
                     id="group pending again: suspend"),
        pytest.param({"suspend": False, "annotations": STARTED_JOB, "status": {"ready": 1}}, "Pending",
                     "group of 3", id="group pending again with a ready pod"),
        pytest.param({"suspend": True, "annotations": STARTED_JOB}, "Running", "delete group",
                     id="suspended by a user: delete the group"),
        pytest.param({"suspend": False}, None, "", id="created running"),
        pytest.param({"annotations": {}}, None, "", id="suspended without annotations"),
        pytest.param({"status": COMPLETE}, "Running", "", id="finished: its group will be Completed"),
        pytest.param({"status": COMPLETE}, "Completed", "", id="finished, and its group is Completed"),
        pytest.param({"status": COMPLETE}, "Pending", "delete group", id="finished; its group has no pods"),
        pytest.param({"annotations": {"scheduling.volcano.sh/group-min-member": "2"}}, None, "group of 2",
                     id="annotated minimum"),
    ],
)  # fmt: skip
def test_a_job_that_is_not_queued(job: dict[str, Any], phase: str | None, want: str) -> None:
    assert show(planned(a_job(**job), phase)) == want


@pytest.mark.parametrize(
    ("job", "phase", "pods", "want"),
    [
        pytest.param({}, None, None, "", id="not admitted by its queue: no group"),
        pytest.param({}, None, 2, "group of 2", id="admitted by its queue: group of the admitted pods"),
        pytest.param({}, "Inqueue", 3, "group of 3", id="the job reconciler starts it"),
        pytest.param({"suspend": False}, "Pending", 3, "group of 3; suspend",
                     id="group pending again: suspend"),
        pytest.param({"suspend": False, "status": {"ready": 1}}, "Pending", 3, "group of 3",
                     id="group pending again with a ready pod"),
        pytest.param({"suspend": False}, "Running", None, "delete group", id="evicted: delete the group"),
        pytest.param({"annotations": {}}, None, 3, "group of 3", id="no annotations needed"),
    ],
)  # fmt: skip
def test_a_queued_job(job: dict[str, Any], phase: str | None, pods: int | None, want: str) -> None:
    assert show(planned(a_job(**job), phase, queued=True, pods=pods)) == want


def test_a_job_may_keep_running_when_its_group_is_pending_again() -> None:
    job = a_job(suspend=False, annotations=STARTED_JOB)
    assert show(planned(job, "Pending", keep=True)) == "group of 3"


def test_the_start_patch_names_the_group_and_marks_the_job_as_started() -> None:
    (patch,) = planned(a_job(), "Inqueue").patches
    assert codec.to_builtins(patch.body) == {
        "metadata": {"annotations": {STARTED: "true"}},
        "spec": {
            "suspend": False,
            "template": {"metadata": {"annotations": {"scheduling.k8s.io/group-name": "podgroup-1234"}}},
        },
    }


def test_the_group_is_controlled_by_the_job_and_has_its_resources() -> None:
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
        pytest.param({}, True, id="our scheduler"),
        pytest.param({"scheduler": "default-scheduler"}, False, id="another scheduler"),
        pytest.param({"template_annotations": {"scheduling.k8s.io/group-name": "mine"}}, False,
                     id="another pod group"),
        pytest.param({"template_annotations": {"scheduling.k8s.io/group-name": "podgroup-1234"}}, True,
                     id="the pod group of this controller"),
        pytest.param({"template_spec": {"schedulingGroup": {"podGroupName": "ring"}}}, False,
                     id="a pod group of Kubernetes"),
        pytest.param({"annotations": {"kueue.x-k8s.io/elastic-job": "true"}}, False, id="elastic"),
        pytest.param({"managedBy": "example.com/other"}, False, id="managed by another controller"),
    ],
)  # fmt: skip
def test_jobs_with_a_pod_group(job: dict[str, Any], want: bool) -> None:
    assert is_gang_scheduled(a_job(**job), SCHEDULERS) is want
    assert group_name(a_job(**job)) == "podgroup-1234"


def test_only_an_admitted_workload_admits_pods() -> None:
    assert admitted_pods([a_workload(admitted_to=["spot"])]) == 3
    assert admitted_pods([a_workload("QuotaReserved")]) is None
    assert admitted_pods([a_workload("Evicted=Preempted", admitted_to=["spot"])]) is None
    assert admitted_pods([]) is None
