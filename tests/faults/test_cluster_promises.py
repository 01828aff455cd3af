"""A job that runs in two worker clusters at once is found, and one that moves is not."""

from collections.abc import Callable

import pytest

from quorate.api.batch import Job, JobSpec, JobStatus
from quorate.api.core import Pod, PodStatus
from quorate.api.meta import Condition, ObjectMeta, Uid, at_epoch
from tests.faults.cluster_promises import ClusterPromises
from tests.faults.history import Step


def a_job(event: str) -> Step:
    ended = (Condition(type="Complete", status="True"),) if event == "completes" else ()
    job = Job(
        metadata=ObjectMeta(name="train", namespace="default", uid=Uid("1")),
        spec=JobSpec(suspend=event == "stops"),
        status=JobStatus(conditions=ended),
    )
    return Step(1, job, deleted=event == "is deleted")


def a_pod(event: str) -> Step:
    ends_at = at_epoch(1.0) if event == "stops" else None
    labels = {"job-name": "train"}
    metadata = ObjectMeta(name="train-1", namespace="default", labels=labels, deletion_timestamp=ends_at)
    pod = Pod(metadata=metadata, status=PodStatus(phase="Succeeded" if event == "completes" else "Running"))
    return Step(1, pod, deleted=event == "is deleted")


@pytest.mark.parametrize("make", [a_job, a_pod])
@pytest.mark.parametrize(
    ("former", "found"),
    [("runs", True), ("stops", False), ("is deleted", False), ("completes", False)],
)
def test_a_job_may_begin_in_a_worker_when_it_does_not_run_in_another(
    make: Callable[[str], Step], former: str, found: bool
) -> None:
    promises = ClusterPromises(gives_back=False)
    steps = [("worker1", make("runs")), ("worker1", make(former)), ("worker2", make("runs"))]
    findings = [finding for worker, step in steps for finding in promises.step(worker, step)]
    assert bool(findings) is found


def test_a_job_given_back_by_a_lost_worker_may_run_in_both() -> None:
    promises = ClusterPromises(gives_back=True)
    steps = [("worker1", a_job("runs")), ("worker2", a_job("runs"))]
    assert not [finding for worker, step in steps for finding in promises.step(worker, step)]
