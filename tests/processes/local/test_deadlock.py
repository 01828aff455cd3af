"""A run is deadlocked when no component acts and no clock runs; its output names holders and shortages."""

import pytest

from quorate.api.configuration.pods_ready import WaitForPodsReady
from quorate.processes.local.deadlock import diagnose_deadlock, pending_changes
from tests.processes.local.clusters import ADMITTED, WAITS_FOR_NODES, JobExample, a_cluster, a_node, condition

ON = WaitForPodsReady(timeout_s=600, recovery_timeout_s=600, block_admission="AllQueues")
NO_RECOVERY = WaitForPodsReady(timeout_s=600, recovery_timeout_s=None, block_admission="AllQueues")

NOT_READY = (*ADMITTED, condition("PodsReady", "False", "WaitForStart"))
RECOVERING = (*ADMITTED, condition("PodsReady", "False", "WaitForRecovery"))
READY = (*ADMITTED, condition("PodsReady", "True", "Started"))
NO_QUOTA = (condition("QuotaReserved", "False", "Pending", "memory: needs 20Gi, at most 16858Mi"),)
STUCK = {"idle": 14, "unplaced": 6}  # of those, a node holds just fourteen
TWO_HALF_STARTED_JOBS = (
    JobExample("job1", {"idle": 14, "unplaced": 6}, memory="316Mi"),
    JobExample("job2", {"idle": 12, "unplaced": 8}, memory="316Mi"),
)


@pytest.mark.parametrize(
    ("example", "readiness", "changes"),
    [
        pytest.param(JobExample("a", STUCK), None, [], id="pods wait for peers that find no node"),
        pytest.param(
            JobExample("a", {"working": 1, "idle": 19}),
            None,
            ["pod a-working-0 runs"],
            id="a pod does its work",
        ),
        pytest.param(JobExample("a", {"idle": 19, "starting": 1}), None, ["pod a-starting-0 is starting"]),
        pytest.param(
            JobExample("a", {"idle": 19, "unevaluated": 1}),
            None,
            ["pod a-unevaluated-0 has not been evaluated by the scheduler"],
        ),
        pytest.param(
            JobExample("a", {"idle": 13, "unplaced": 1}, wants=14),
            None,
            ["pod a-unplaced-0 was unschedulable, but fits a node now"],
            id="the condition is older than the free capacity",
        ),
        pytest.param(
            JobExample("a", {"idle": 19, "leaving": 1}),
            None,
            ["pod a-leaving-0 is being deleted"],
            id="a deleted pod frees capacity",
        ),
        pytest.param(JobExample("a", {"idle": 19, "elsewhere": 1}), None, [], id="its node is not simulated"),
        pytest.param(
            JobExample("a", suspend=True, group={"phase": "Pending"}),
            None,
            ["workload of a is admitted, its job is to be started"],
            id="its pod group has not been evaluated yet",
        ),
        pytest.param(
            JobExample("a", suspend=True, group={"phase": "Pending", "conditions": [WAITS_FOR_NODES]}),
            None,
            [],
            id="its pod group waits for nodes",
        ),
        pytest.param(
            JobExample("a", {"idle": 19}),
            None,
            ["job a has 19 pods and will get more pods or be finished"],
            id="the Job controller is not done",
        ),
        pytest.param(
            JobExample("a", {"succeeded": 20}),
            None,
            ["job a has 0 pods and will get more pods or be finished"],
            id="the Job controller has yet to count",
        ),
        pytest.param(JobExample("a", conditions=None, suspend=True), None, ["job a has no workload yet"]),
        pytest.param(
            JobExample("a", conditions=None, suspend=True, queue=""),
            None,
            [],
            id="suspended, and not for a queue",
        ),
        pytest.param(
            JobExample("a", conditions=(), suspend=True), None, ["workload of a has not been evaluated yet"]
        ),
        pytest.param(
            JobExample("a", conditions=NO_QUOTA, suspend=True), None, [], id="it can never have quota"
        ),
        pytest.param(
            JobExample("a", STUCK, conditions=NO_QUOTA),
            None,
            ["workload of a has no quota, its job is to be stopped"],
        ),
        pytest.param(
            JobExample("a", suspend=True), None, ["workload of a is admitted, its job is to be started"]
        ),
        pytest.param(
            JobExample("a", STUCK, conditions=(*ADMITTED, condition("Evicted"))),
            None,
            ["workload of a is being evicted"],
        ),
        pytest.param(
            JobExample("a", STUCK, conditions=(*ADMITTED, condition("Finished"))),
            None,
            ["workload of a is finished, its job is not yet"],
        ),
        pytest.param(
            JobExample("a", suspend=True, conditions=(condition("QuotaReserved"),)),
            None,
            [],
            id="its admission checks are not answered",
        ),
        pytest.param(
            JobExample(
                "a",
                suspend=True,
                conditions=NO_QUOTA,
                workload_status={"requeueState": {"count": 1, "requeueAt": "2030-01-01T00:01:00Z"}},
            ),
            ON,
            ["workload of a waits for its backoff"],
        ),
        pytest.param(
            JobExample("a", suspend=True, conditions=NO_QUOTA, workload={"active": False}),
            ON,
            [],
            id="deactivated",
        ),
        pytest.param(
            JobExample("a", STUCK, workload={"maximumExecutionTimeSeconds": 60}),
            None,
            ["workload of a has a maximum execution time"],
        ),
        pytest.param(
            JobExample("a", STUCK, conditions=NOT_READY),
            ON,
            ["workload of a runs against its readiness clock"],
        ),
        pytest.param(
            JobExample("a", STUCK, conditions=NOT_READY), None, [], id="no readiness clock is configured"
        ),
        pytest.param(
            JobExample("a", STUCK, conditions=RECOVERING),
            ON,
            ["workload of a runs against its readiness clock"],
        ),
        pytest.param(
            JobExample("a", STUCK, conditions=RECOVERING), NO_RECOVERY, [], id="no clock for recovery"
        ),
        pytest.param(JobExample("a", {"idle": 20}, conditions=READY), ON, [], id="ready, and yet idle"),
        pytest.param(
            JobExample("a", STUCK, job_status={"conditions": [condition("Failed")]}),
            None,
            [],
            id="it is over",
        ),
    ],
)
def test_pending_changes(example: JobExample, readiness: WaitForPodsReady | None, changes: list[str]) -> None:
    assert list(pending_changes(a_cluster(example), readiness)) == changes


def test_two_jobs_that_hold_what_the_other_needs_are_a_deadlock() -> None:
    cluster = a_cluster(*TWO_HALF_STARTED_JOBS)
    no_progress = diagnose_deadlock(cluster, None)
    assert list(map(str, no_progress.jobs)) == [
        "job1 runs 14 of 20 pods and holds memory 4424Mi; 6 more pods need memory 316Mi each",
        "job2 runs 12 of 20 pods and holds memory 3792Mi; 8 more pods need memory 316Mi each",
    ]
    assert no_progress.free_capacity == ("memory: 213Mi free of 8429Mi",)
    assert no_progress.is_deadlock
    assert "waitForPodsReady" in no_progress.advice


@pytest.mark.parametrize(
    ("examples", "lines"),
    [
        pytest.param(
            [JobExample("big", conditions=NO_QUOTA, suspend=True)],
            ["big waits: memory: needs 20Gi, at most 16858Mi"],
            id="a job that never fits its queue",
        ),
        pytest.param(
            [JobExample("gang", suspend=True, group={"phase": "Pending", "conditions": [WAITS_FOR_NODES]})],
            ["gang waits: its pod group waits: cluster: cpu: need 6, have 2 now"],
            id="a job with a pod group that fits no nodes",
        ),
        pytest.param(
            [JobExample("plain", conditions=None, suspend=True, queue="")],
            ["plain waits: it is suspended and names no queue"],
            id="a job that was not resumed",
        ),
        pytest.param(
            [JobExample("a", {"idle": 1, "unplaced": 1}, wants=2, memory="1Mi")],
            ["a runs 1 of 2 pods and holds memory 1Mi; 1 more pod has no node: 0/1 nodes are available"],
            id="amounts are not the reason",
        ),
        pytest.param(
            [JobExample("a", {"idle": 2}, wants=2)],
            ["a runs 2 of 2 pods and holds memory 1200Mi; its pods make no progress"],
            id="all run without progress",
        ),
        pytest.param(
            [
                JobExample("a", suspend=True, conditions=NO_QUOTA, workload={"active": False}),
                JobExample("b", STUCK),
            ],
            [
                "a waits: its workload is deactivated",
                "b runs 14 of 20 pods and holds memory 8400Mi; 6 more pods need memory 600Mi each",
            ],
            id="deactivated before it was ever evicted",
        ),
    ],
)
def test_the_reason_of_no_progress(examples: list[JobExample], lines: list[str]) -> None:
    no_progress = diagnose_deadlock(a_cluster(*examples), None)
    assert list(map(str, no_progress.jobs)) == lines
    assert not no_progress.is_deadlock
    assert no_progress.advice == ""


def test_on_several_nodes_the_most_that_is_free_on_one_is_shown() -> None:
    nodes = [a_node("node-0", "5Gi"), a_node("node-1", "300Mi"), a_node("node-2", "200Mi")]
    cluster = a_cluster(JobExample("a", {"idle": 15, "unplaced": 5}, memory="340Mi"), nodes=nodes)
    assert diagnose_deadlock(cluster, None).free_capacity == (
        "memory: 520Mi free of 5620Mi on 3 nodes, at most 300Mi on one",
    )


def test_what_pods_use_beyond_a_node_is_free_on_no_other_node() -> None:
    nodes = [a_node("node-0", "5000Mi"), a_node("node-1", "300Mi"), a_node("node-2", "200Mi")]
    cluster = a_cluster(JobExample("a", {"idle": 15, "unplaced": 5}, memory="340Mi"), nodes=nodes)
    assert diagnose_deadlock(cluster, None).free_capacity == (
        "memory: 500Mi free of 5500Mi on 3 nodes, at most 300Mi on one",
    )


def test_no_advice_for_what_is_configured_already() -> None:
    cluster = a_cluster(*TWO_HALF_STARTED_JOBS)
    assert diagnose_deadlock(cluster, ON).advice == ""
