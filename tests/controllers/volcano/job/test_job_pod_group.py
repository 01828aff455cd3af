"""The smallest useful part of a job: who belongs to it, and what it needs."""

import pytest

from quorate.api import codec
from quorate.api.volcano.job import Job, with_defaults
from quorate.controllers.volcano.job.job_pod_group import (
    TaskReplicas,
    min_resources,
    min_task_member,
    replicas_by_priority,
)


def parts(line: str) -> list[TaskReplicas]:
    """``minimum/replicas@priority`` for each task."""
    made = []
    for word in line.split():
        counts, _, priority = word.partition("@")
        minimum, _, replicas = counts.partition("/")
        made.append(TaskReplicas(int(replicas), int(minimum), int(priority or 0)))
    return made


@pytest.mark.parametrize(
    ("offers", "wanted", "want"),
    [
        pytest.param("2/2@10 1/2@1", 2, [2, 0], id="fewer than the minimums: whole tasks by priority"),
        pytest.param("1/2@10 2/2@1", 3, [1, 2], id="as many as the minimums: every task its own"),
        pytest.param("1/2@10 1/2@1", 2, [1, 1], id="a minimum goes before a spare of a better task"),
        pytest.param("0/2@10 1/2@1", 2, [1, 1], id="the rest is filled up with spares by priority"),
        pytest.param("0/2@10 1/2@1", 9, [2, 2], id="more than there are: all"),
        pytest.param("4/4@1 2/2@9", 3, [1, 2], id="the walk runs over into the next task"),
        pytest.param("2/2 2/2", 3, [2, 1], id="equals in their order"),
        pytest.param("3/1", 3, [3], id="a minimum above the replicas leaves no spares"),
        pytest.param("", 3, [], id="no tasks"),
        pytest.param("1/1", 0, [0], id="nobody is wanted"),
    ],
)
def test_chosen_replicas(offers: str, wanted: int, want: list[int]) -> None:
    assert replicas_by_priority(parts(offers), wanted) == want


def a_task(name: str, replicas: int, cpu: str, class_name: str = "") -> dict[str, object]:
    requests = {"cpu": cpu, "nvidia.com/gpu": "1"}
    container = {"name": "main", "resources": {"requests": requests, "limits": {"cpu": cpu}}}
    spec = {"containers": [container], "priorityClassName": class_name}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}}


def test_the_usage_of_the_chosen_is_added_up_under_every_name_a_quota_has() -> None:
    tasks = [a_task("worker", 4, "1500m"), a_task("master", 1, "50m", "high")]
    body = {"metadata": {"name": "train"}, "spec": {"minAvailable": 3, "tasks": tasks}}
    job = with_defaults(codec.convert(Job, body))
    assert codec.to_builtins(min_resources(job, {"high": 10})) == {
        "cpu": "3050m", "requests.cpu": "3050m", "limits.cpu": "3050m",
        "nvidia.com/gpu": "3", "requests.nvidia.com/gpu": "3",
        "pods": "3", "count/pods": "3",
    }  # fmt: skip
    assert min_task_member(job) == {"worker": 4, "master": 1}
