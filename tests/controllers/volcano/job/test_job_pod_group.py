"""minResources of a job: the choice of its most important replicas, and their usage."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core import Resources, RuntimeClass
from quorate.api.names.volcano import MEMBER_REQUESTS, REPLACES_FAILED
from quorate.api.volcano.job import Job, with_defaults
from quorate.controllers.volcano.job.job_pod_group import (
    TaskReplicas,
    build_pod_group,
    min_task_member,
    replicas_by_priority,
)
from quorate.controllers.volcano.pod_defaults import PodDefaults
from quorate.queueing.pending.effective_requests import LimitRangeDefaults


def task_replicas(line: str) -> list[TaskReplicas]:
    """Parse ``minimum/replicas@priority`` for each task."""
    tasks = []
    for word in line.split():
        counts, _, priority = word.partition("@")
        minimum, _, replicas = counts.partition("/")
        tasks.append(TaskReplicas(int(replicas), int(minimum), int(priority or 0)))
    return tasks


@pytest.mark.parametrize(
    ("tasks", "wanted", "want"),
    [
        pytest.param("2/2@10 1/2@1", 2, [2, 0], id="fewer than the minimums: whole tasks by priority"),
        pytest.param("1/2@10 2/2@1", 3, [1, 2], id="exactly the minimums"),
        pytest.param("1/2@10 1/2@1", 2, [1, 1], id="a minimum precedes spare replicas of a higher priority"),
        pytest.param("0/2@10 1/2@1", 2, [1, 1], id="spare replicas by priority"),
        pytest.param("0/2@10 1/2@1", 9, [2, 2], id="more than all replicas"),
        pytest.param("4/4@1 2/2@9", 3, [1, 2], id="the next task fills up"),
        pytest.param("2/2 2/2", 3, [2, 1], id="equal priorities in their order"),
        pytest.param("3/1", 3, [3], id="minimum above the replicas"),
        pytest.param("", 3, [], id="no tasks"),
        pytest.param("1/1", 0, [0], id="none wanted"),
    ],
)
def test_replicas_by_priority(tasks: str, wanted: int, want: list[int]) -> None:
    assert replicas_by_priority(task_replicas(tasks), wanted) == want


def a_task(name: str, replicas: int, cpu: str, class_name: str = "") -> dict[str, object]:
    requests = {"cpu": cpu, "nvidia.com/gpu": "1"}
    container = {"name": "main", "resources": {"requests": requests, "limits": {"cpu": cpu}}}
    spec = {"containers": [container], "priorityClassName": class_name}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}}


def test_min_resources_sum_the_usage_under_every_quota_name() -> None:
    tasks = [a_task("worker", 4, "1500m"), a_task("master", 1, "50m", "high")]
    body = {"metadata": {"name": "train"}, "spec": {"minAvailable": 3, "tasks": tasks}}
    job = with_defaults(codec.convert(Job, body))
    assert codec.to_builtins(build_pod_group(job, {"high": 10}).spec.min_resources) == {
        "cpu": "3050m", "requests.cpu": "3050m", "limits.cpu": "3050m",
        "nvidia.com/gpu": "3", "requests.nvidia.com/gpu": "3",
        "pods": "3", "count/pods": "3",
    }  # fmt: skip
    assert min_task_member(job) == {"worker": 4, "master": 1}


def test_min_resources_and_member_requests_are_those_of_the_stored_pods() -> None:
    """A limit becomes the missing request before a default of the namespace does."""
    limited = {"resources": {"limits": {"cpu": "2"}}, "name": "main"}
    plain = {"name": "main"}
    tasks = [
        {"name": "worker", "replicas": 2, "template": {"spec": {"containers": [limited]}}},
        {
            "name": "master",
            "replicas": 1,
            "template": {"spec": {"containers": [plain], "runtimeClassName": "sandbox"}},
        },
    ]
    job = with_defaults(codec.convert(Job, {"metadata": {"name": "train"}, "spec": {"tasks": tasks}}))
    defaults = PodDefaults(
        LimitRangeDefaults(requests=codec.convert(Resources, {"cpu": "500m"})),
        {"sandbox": codec.convert(RuntimeClass, {"metadata": {}, "overhead": {"podFixed": {"cpu": "250m"}}})},
    )
    group = build_pod_group(job, {}, defaults)
    assert codec.to_builtins(group.spec.min_resources) == {
        "cpu": "4750m", "requests.cpu": "4750m", "limits.cpu": "4", "pods": "3", "count/pods": "3",
    }  # fmt: skip
    assert group.metadata.annotations[MEMBER_REQUESTS] == '{"worker":{"cpu":"2"},"master":{"cpu":"750m"}}'


@pytest.mark.parametrize(("minimum", "want"), [({}, 6), ({"minPartitions": 2}, 4), ({"minPartitions": 0}, 6)])
def test_the_minimum_of_a_task_follows_its_partitions_or_is_all_replicas(
    minimum: dict[str, int], want: int
) -> None:
    partitions = {"totalPartitions": 3, "partitionSize": 2, **minimum}
    task = {
        "name": "w",
        "replicas": 6,
        "partitionPolicy": partitions,
        "template": {"spec": {"containers": []}},
    }
    job = with_defaults(codec.convert(Job, {"metadata": {"name": "j"}, "spec": {"tasks": [task]}}))
    spec = build_pod_group(job, {}).spec
    assert (spec.min_member, spec.min_task_member) == (want, {"w": want})


@pytest.mark.parametrize(
    ("policy", "want"),
    [
        ({"event": "PodFailed", "action": "RestartPod"}, True),
        ({"events": ["PodEvicted", "*"], "action": "RestartTask"}, True),
        ({"exitCode": 3, "action": "RestartPartition"}, True),
        ({"event": "PodFailed", "action": "RestartJob"}, False),  # a new pod group
        ({"event": "PodPending", "action": "RestartPod"}, False),
        ({"event": "PodFailed", "action": "AbortJob"}, False),
    ],
)
@pytest.mark.parametrize("of_task", [False, True])
def test_a_pod_group_says_that_no_policy_replaces_failed_pods(
    policy: dict[str, Any], want: bool, of_task: bool
) -> None:
    policies = {"policies": [policy]}
    task = {"name": "w", "replicas": 2, "template": {"spec": {"containers": []}}} | (
        policies if of_task else {}
    )
    spec = {"tasks": [task]} | ({} if of_task else policies)
    job = with_defaults(codec.convert(Job, {"metadata": {"name": "j"}, "spec": spec}))
    assert (REPLACES_FAILED not in build_pod_group(job, {}).metadata.annotations) is want
