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
    metadata = ObjectMeta(
        name="train-1", namespace="default", uid=Uid("2"), labels=labels, deletion_timestamp=ends_at
    )
    pod = Pod(metadata=metadata, status=PodStatus(phase="Succeeded" if event == "completes" else "Running"))
    return Step(1, pod, deleted=event == "is deleted")


@pytest.mark.parametrize("begins", [a_job, a_pod])
@pytest.mark.parametrize(
    ("former", "found"),
    [
        pytest.param([a_job("runs")], True, id="a Job runs"),
        pytest.param([a_job("runs"), a_job("stops")], False, id="a Job is suspended"),
        pytest.param([a_job("runs"), a_job("is deleted")], False, id="a Job is deleted"),
        pytest.param([a_job("runs"), a_job("completes")], False, id="a Job is complete"),
        pytest.param([a_job("runs"), a_pod("runs"), a_job("is deleted")], True, id="a pod is left"),
        pytest.param([a_pod("runs"), a_pod("stops")], True, id="a pod is being deleted"),
        pytest.param([a_pod("runs"), a_pod("is deleted")], False, id="a pod is deleted"),
        pytest.param([a_pod("runs"), a_pod("completes")], False, id="a pod has ended"),
    ],
)
def test_a_job_may_begin_in_a_worker_when_it_does_not_run_in_another(
    begins: Callable[[str], Step], former: list[Step], found: bool
) -> None:
    promises = ClusterPromises(lambda *_: False)
    steps = [*(("worker1", step) for step in former), ("worker2", begins("runs"))]
    findings = [finding for worker, step in steps for finding in promises.step(worker, step)]
    assert bool(findings) is found


@pytest.mark.parametrize(("lost", "found"), [("worker1", False), ("worker2", True)])
def test_only_a_job_of_a_lost_worker_may_run_in_both(lost: str, found: bool) -> None:
    promises = ClusterPromises(lambda worker, job, since, until: worker == lost)
    steps = [("worker1", a_job("runs")), ("worker2", a_job("runs"))]
    assert bool([finding for worker, step in steps for finding in promises.step(worker, step)]) is found
