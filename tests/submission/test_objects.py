"""The objects of a job: each kind is one that the controllers of the kind accept."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.batch import Job
from quorate.api.meta import ObjectMeta, Uid
from quorate.api.volcano.job import Job as VolcanoJob
from quorate.controllers.jobs.batch import BatchJob
from quorate.kube.resources import JOBS
from quorate.local.runtime.containers.environment import expand
from quorate.submission.objects import objects_of, owned_by
from quorate.submission.request import Array, JobRequest

QUEUED = JobRequest(name="train", command=("python", "train.py"), local_queue="lab")


def container_of(job: dict[str, Any]) -> dict[str, Any]:
    template = job["spec"]["template"] if "template" in job["spec"] else job["spec"]["tasks"][0]["template"]
    (container,) = template["spec"]["containers"]
    assert isinstance(container, dict)
    return container


def test_one_pod_is_a_suspended_job_in_the_queue() -> None:
    (job,) = objects_of(QUEUED)
    assert job == {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "labels": {"kueue.x-k8s.io/queue-name": "lab"}},
        "spec": {
            "parallelism": 1,
            "completions": 1,
            "backoffLimit": 0,
            "suspend": True,
            "template": {
                "spec": {
                    "restartPolicy": "Never",
                    "containers": [
                        {
                            "name": "main",
                            "image": "python:3-slim",
                            "command": ["python", "train.py"],
                            "resources": {"requests": {"cpu": "1"}},
                        }
                    ],
                }
            },
        },
    }


def test_devices_and_memory_are_limits_too() -> None:
    (job,) = objects_of(
        JobRequest(name="a", command=("x",), memory="1Gi", gpus=8, resources={"rdma/hca": "1"})
    )
    limits = {"memory": "1Gi", "nvidia.com/gpu": "8", "rdma/hca": "1"}
    assert container_of(job)["resources"] == {"requests": {"cpu": "1", **limits}, "limits": limits}
    assert "suspend" not in job["spec"], "it is in no queue"


def test_pods_of_one_job_find_the_first_by_a_service_that_is_deleted_with_it() -> None:
    job, service = objects_of(JobRequest(name="train", command=("x",), pods=4, min_pods=2, local_queue="lab"))
    assert job["metadata"]["annotations"] == {"kueue.x-k8s.io/job-min-parallelism": "2"}
    (pod_set,) = BatchJob().pod_sets(codec.convert(Job, job))
    assert (pod_set.count, pod_set.min_count) == (4, 2)
    assert job["spec"]["completionMode"] == "Indexed"
    assert job["spec"]["template"]["spec"]["subdomain"] == service["metadata"]["name"] == "train"
    variables = {variable["name"]: variable.get("value") for variable in container_of(job)["env"]}
    assert variables == {
        "RANK": None, "WORLD_SIZE": "4", "MASTER_ADDR": "train-0.train", "MASTER_PORT": "29500"
    }  # fmt: skip
    stored = owned_by(service, JOBS, ObjectMeta(name="train", namespace="default", uid=Uid("u-1")))
    assert stored["metadata"]["ownerReferences"] == [
        {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u-1"}
    ]


def test_a_gang_is_a_volcano_job_that_starts_whole() -> None:
    (job,) = objects_of(JobRequest(name="train", command=("x",), pods=3, gang=True, volcano_queue="q"))
    decoded = codec.convert(VolcanoJob, job)
    assert (decoded.spec.min_available, decoded.spec.queue, decoded.spec.tasks[0].replicas) == (3, "q", 3)
    variables = {variable["name"]: variable.get("value") for variable in container_of(job)["env"]}
    assert variables["MASTER_ADDR"] == "train-worker-0.train"


def test_an_array_numbers_its_tasks() -> None:
    (job,) = objects_of(JobRequest(name="a", command=("echo",), array=Array(3, 2, 4, 2)))
    assert (job["spec"]["completions"], job["spec"]["parallelism"]) == (4, 2)
    shell, _, script, name, *command = container_of(job)["command"]
    assert (shell, name, command) == ("/bin/sh", "sh", ["echo"])
    assert expand(script, {"JOB_COMPLETION_INDEX": "no"}) == (
        "export ARRAY_TASK_ID=$((JOB_COMPLETION_INDEX * 2 + 3)) "
        'SLURM_ARRAY_TASK_ID=$((JOB_COMPLETION_INDEX * 2 + 3)); exec "$@"'
    )


def test_the_priority_in_a_queue_of_pod_groups_is_a_priority_class_of_pods() -> None:
    request = JobRequest(name="a", command=("x",), gang=True, volcano_queue="q", priority_class="high")
    (job,) = objects_of(request)
    assert (job["spec"]["priorityClassName"], "labels" in job["metadata"]) == ("high", False)


def test_limits_and_classes_are_labels() -> None:
    (job,) = objects_of(JobRequest(name="a", command=("x",), time_limit_s=60, priority_class="high"))
    assert job["metadata"]["labels"] == {
        "kueue.x-k8s.io/priority-class": "high",
        "kueue.x-k8s.io/max-exec-time-seconds": "60",
    }


@given(st.lists(st.text("$()A b", max_size=12), min_size=1, max_size=3).filter(lambda words: words[0] != ""))
def test_a_container_gets_each_word_as_it_was_written(words: list[str]) -> None:
    request = JobRequest(name="a", command=tuple(words), environment={"A": "value", "B": words[0]})
    (job,) = objects_of(request)
    container, variables = container_of(job), {"A": "value"}
    assert [expand(word, variables) for word in container["command"]] == words
    assert [expand(variable["value"], variables) for variable in container["env"]] == ["value", words[0]]
