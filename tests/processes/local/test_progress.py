"""The progress of a job is its state, its pod counts and the reason why it waits."""

from datetime import datetime
from typing import Any

import pytest

from quorate.api import codec
from quorate.api.kueue import ClusterQueue
from quorate.api.meta import epoch
from quorate.processes.local.observation import PodCount
from quorate.processes.local.progress import (
    JobRecord,
    QueueProgress,
    job_progress,
    job_record,
    queue_progress,
)
from tests.processes.local.clusters import ADMITTED, START, WAITS_FOR_NODES, JobExample, a_cluster, condition

NO_QUOTA = condition("QuotaReserved", "False", "Pending", "insufficient unused quota")
EVICTED = condition("Evicted", "True", "PodsReadyTimeout", "Exceeded the PodsReady timeout default/job-a")
FAILED = condition("Failed", "True", "BackoffLimitExceeded", "too many")
BACKOFF = {
    "requeueState": {"count": 1, "requeueAt": "2030-01-01T00:01:00Z"},
    "schedulingStats": {"evictions": [{"reason": "PodsReadyTimeout", "count": 1}]},
}


@pytest.mark.parametrize(
    ("example", "state", "reason"),
    [
        pytest.param(
            JobExample("a", conditions=None, suspend=True),
            "Suspended",
            "not evaluated yet by local queue user-queue",
        ),
        pytest.param(
            JobExample("a", conditions=None, suspend=True, queue=""),
            "Suspended",
            "it names no queue and was not resumed",
        ),
        pytest.param(
            JobExample("a", conditions=[NO_QUOTA], suspend=True), "Pending", "insufficient unused quota"
        ),
        pytest.param(
            JobExample("a", conditions=[], suspend=True),
            "Pending",
            "not evaluated yet by local queue user-queue",
        ),
        pytest.param(
            JobExample("a", conditions=[NO_QUOTA, EVICTED], suspend=True, workload_status=BACKOFF),
            "Backing off",
            "20 s more, after 1 eviction: Exceeded the PodsReady timeout default/job-a",
        ),
        pytest.param(
            JobExample("a", {"working": 3}, conditions=[*ADMITTED, EVICTED]),
            "Evicted",
            "Exceeded the PodsReady timeout default/job-a",
        ),
        pytest.param(
            JobExample("a", conditions=[condition("QuotaReserved")], suspend=True),
            "QuotaReserved",
            "not all of its admission checks are ready",
        ),
        pytest.param(JobExample("a"), "Starting", "", id="admitted, without pods"),
        pytest.param(
            JobExample("a", suspend=True, group={"phase": "Pending", "conditions": [WAITS_FOR_NODES]}),
            "Starting",
            "its pod group waits: cluster: cpu: need 6, have 2 now",
            id="admitted, and its pod group is not",
        ),
        pytest.param(
            JobExample("a", suspend=True, group={"phase": "Inqueue", "conditions": [WAITS_FOR_NODES]}),
            "Starting",
            "",
            id="both are admitted",
        ),
        pytest.param(
            JobExample("a", {"unevaluated": 3, "starting": 2}), "Starting", "3 pods not scheduled yet"
        ),
        pytest.param(
            JobExample("a", {"idle": 13, "unplaced": 6, "unevaluated": 1}),
            "Starting",
            "6 more pods have no node: 0/1 nodes are available",
            id="free memory for one more pod is no shortage",
        ),
        pytest.param(
            JobExample("a", {"idle": 14, "unplaced": 6}),
            "Starting",
            "6 more pods need memory 600Mi each",
        ),
        pytest.param(JobExample("a", {"working": 3, "starting": 2}), "Starting", "2 pods not ready yet"),
        pytest.param(JobExample("a", {"idle": 14}), "Running", "its pods wait for each other: 14 run"),
        pytest.param(
            JobExample("a", {"idle": 14, "working": 6}), "Running", "", id="the last pod has just started"
        ),
        pytest.param(JobExample("a", {"working": 20}), "Running", ""),
        pytest.param(JobExample("a", {"succeeded": 20}), "Running", "", id="all pods have ended"),
        pytest.param(JobExample("a", job_status={"conditions": [condition("Complete")]}), "Completed", ""),
        pytest.param(
            JobExample("a", job_status={"conditions": [FAILED]}),
            "Failed",
            "BackoffLimitExceeded: too many",
        ),
        pytest.param(
            JobExample("a", conditions=[NO_QUOTA, EVICTED], workload={"active": False}, suspend=True),
            "Deactivated",
            "Exceeded the PodsReady timeout default/job-a",
        ),
    ],
)
def test_state_and_reason(example: JobExample, state: str, reason: str) -> None:
    cluster = a_cluster(example)
    progress = job_progress(cluster.jobs[0], cluster, epoch(datetime.fromisoformat(START)) + 40)
    assert (progress.state, progress.reason) == (state, reason)


def test_pods_are_counted_by_state() -> None:
    example = JobExample(
        "a", {"unplaced": 1, "unevaluated": 2, "starting": 3, "working": 4, "succeeded": 5, "leaving": 6}
    )
    assert a_cluster(example).jobs[0].count == PodCount(
        wanted=20, unplaced=3, starting=3, running=4, ready=0, succeeded=5, failed=0
    )


def test_the_record_of_a_job() -> None:
    status = {
        "startTime": "2030-01-01T00:00:05Z",
        "completionTime": "2030-01-01T00:00:20Z",
        "conditions": [condition("Complete")],
    }
    admitted = condition("Admitted") | {"lastTransitionTime": "2030-01-01T00:00:04Z"}
    example = JobExample("a", job_status=status, conditions=[admitted], workload_status=BACKOFF)
    record = job_record(a_cluster(example).jobs[0])
    assert record == JobRecord(
        name="a",
        submitted=example.job.metadata.creation_timestamp,
        admitted=example.workload.status.conditions[0].last_transition_time if example.workload else None,
        started=example.job.status.start_time,
        finished=example.job.status.completion_time,
        evictions=1,
        result="completed",
    )
    assert record.waited_s == 4.0


def a_queue(status: dict[str, Any]) -> ClusterQueue:
    flavors = [{"name": "default", "resources": [{"name": "memory", "nominalQuota": "16858Mi"}]}]
    return codec.convert(ClusterQueue, {
        "metadata": {"name": "cq"},
        "spec": {"resourceGroups": [{"coveredResources": ["memory"], "flavors": flavors}]},
        "status": status,
    })  # fmt: skip


@pytest.mark.parametrize(
    ("status", "want"),
    [
        pytest.param({}, QueueProgress("cq", 0, 0, ("memory 0 of 16858Mi",)), id="nothing reserved yet"),
        pytest.param(
            {
                "pendingWorkloads": 1,
                "admittedWorkloads": 2,
                "flavorsReservation": [
                    {"name": "default", "resources": [{"name": "memory", "total": "6320Mi"}]}
                ],
            },
            QueueProgress("cq", 1, 2, ("memory 6320Mi of 16858Mi",)),
        ),
        pytest.param(
            {"conditions": [condition("Active", "False", "FlavorNotFound", "no flavor default")]},
            QueueProgress("cq", 0, 0, ("inactive: no flavor default", "memory 0 of 16858Mi")),
        ),
    ],
)
def test_queue_progress(status: dict[str, Any], want: QueueProgress) -> None:
    assert queue_progress(a_queue(status)) == want


@pytest.mark.parametrize("reason", ["WaitingForPodsReady", "Waiting"])
def test_a_job_that_waits_for_ready_pods_names_the_unready_jobs(reason: str) -> None:
    waiting = condition("QuotaReserved", "False", reason, "waiting for all admitted workloads")
    not_ready = [*ADMITTED, condition("PodsReady", "False", "WaitForStart")]
    first, second = (
        JobExample("job1", {"starting": 20}, conditions=not_ready),
        JobExample("job2", conditions=[waiting]),
    )
    cluster = a_cluster(first, second)
    assert job_progress(cluster.jobs[1], cluster, 0.0).reason == (
        "waits until earlier admitted jobs are ready: job1 has 0 of 20 pods ready"
    )
