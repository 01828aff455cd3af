"""A run is dead exactly when nobody acts and no clock runs; it is then told who holds and who lacks what."""

import pytest

from quorate.api.configuration import WaitForPodsReady
from quorate.cli.run.deadlock import analyse, pending_changes
from tests.cli.worlds import ADMITTED, LACKS_NODES, Crowd, a_node, a_world, condition

ON = WaitForPodsReady(timeout_s=600, recovery_timeout_s=600, block_admission="AllQueues")
NO_RECOVERY = WaitForPodsReady(timeout_s=600, recovery_timeout_s=None, block_admission="AllQueues")

NOT_READY = (*ADMITTED, condition("PodsReady", "False", "WaitForStart"))
RECOVERING = (*ADMITTED, condition("PodsReady", "False", "WaitForRecovery"))
READY = (*ADMITTED, condition("PodsReady", "True", "Started"))
NO_QUOTA = (condition("QuotaReserved", "False", "Pending", "memory: needs 20Gi, at most 16858Mi"),)
STUCK = {"idle": 14, "unplaced": 6}  # of those, a node holds just fourteen
TWO_HALVES = (
    Crowd("job1", {"idle": 14, "unplaced": 6}, memory="316Mi"),
    Crowd("job2", {"idle": 12, "unplaced": 8}, memory="316Mi"),
)


@pytest.mark.parametrize(
    ("crowd", "readiness", "moves"),
    [
        pytest.param(Crowd("a", STUCK), None, [], id="pods wait for peers that find no node"),
        pytest.param(
            Crowd("a", {"working": 1, "idle": 19}), None, ["pod a-working-0 runs"], id="a pod does its work"
        ),
        pytest.param(Crowd("a", {"idle": 19, "starting": 1}), None, ["pod a-starting-0 is starting"]),
        pytest.param(
            Crowd("a", {"idle": 19, "unjudged": 1}),
            None,
            ["pod a-unjudged-0 has not been judged by the scheduler"],
        ),
        pytest.param(
            Crowd("a", {"idle": 13, "unplaced": 1}, wants=14),
            None,
            ["pod a-unplaced-0 was refused by the scheduler, but finds room now"],
            id="a verdict lags behind what became free",
        ),
        pytest.param(
            Crowd("a", {"idle": 19, "leaving": 1}),
            None,
            ["pod a-leaving-0 is being deleted"],
            id="a pod that goes leaves room",
        ),
        pytest.param(Crowd("a", {"idle": 19, "elsewhere": 1}), None, [], id="nobody plays its node"),
        pytest.param(
            Crowd("a", suspend=True, group={"phase": "Pending"}),
            None,
            ["workload of a is admitted, its job is to be started"],
            id="its pod group has not been judged yet",
        ),
        pytest.param(
            Crowd("a", suspend=True, group={"phase": "Pending", "conditions": [LACKS_NODES]}),
            None,
            [],
            id="its pod group waits for nodes",
        ),
        pytest.param(
            Crowd("a", {"idle": 19}),
            None,
            ["job a has 19 pods and will be given others or be finished"],
            id="the Job controller is not done",
        ),
        pytest.param(
            Crowd("a", {"succeeded": 20}),
            None,
            ["job a has 0 pods and will be given others or be finished"],
            id="the Job controller has yet to count",
        ),
        pytest.param(Crowd("a", conditions=None, suspend=True), None, ["job a has no workload yet"]),
        pytest.param(
            Crowd("a", conditions=None, suspend=True, queue=""), None, [], id="suspended, and not for a queue"
        ),
        pytest.param(
            Crowd("a", conditions=(), suspend=True), None, ["workload of a has not been judged yet"]
        ),
        pytest.param(Crowd("a", conditions=NO_QUOTA, suspend=True), None, [], id="it can never have quota"),
        pytest.param(
            Crowd("a", STUCK, conditions=NO_QUOTA),
            None,
            ["workload of a has no quota, its job is to be stopped"],
        ),
        pytest.param(Crowd("a", suspend=True), None, ["workload of a is admitted, its job is to be started"]),
        pytest.param(
            Crowd("a", STUCK, conditions=(*ADMITTED, condition("Evicted"))),
            None,
            ["workload of a is being evicted"],
        ),
        pytest.param(
            Crowd("a", STUCK, conditions=(*ADMITTED, condition("Finished"))),
            None,
            ["workload of a is finished, its job is not yet"],
        ),
        pytest.param(
            Crowd("a", suspend=True, conditions=(condition("QuotaReserved"),)),
            None,
            [],
            id="nobody answers its admission checks",
        ),
        pytest.param(
            Crowd(
                "a",
                suspend=True,
                conditions=NO_QUOTA,
                workload_status={"requeueState": {"count": 1, "requeueAt": "2030-01-01T00:01:00Z"}},
            ),
            ON,
            ["workload of a waits for its backoff"],
        ),
        pytest.param(
            Crowd("a", suspend=True, conditions=NO_QUOTA, workload={"active": False}),
            ON,
            [],
            id="deactivated",
        ),
        pytest.param(
            Crowd("a", STUCK, workload={"maximumExecutionTimeSeconds": 60}),
            None,
            ["workload of a has a maximum execution time"],
        ),
        pytest.param(
            Crowd("a", STUCK, conditions=NOT_READY), ON, ["workload of a runs against its readiness clock"]
        ),
        pytest.param(
            Crowd("a", STUCK, conditions=NOT_READY), None, [], id="no readiness clock is configured"
        ),
        pytest.param(
            Crowd("a", STUCK, conditions=RECOVERING), ON, ["workload of a runs against its readiness clock"]
        ),
        pytest.param(Crowd("a", STUCK, conditions=RECOVERING), NO_RECOVERY, [], id="no clock for recovery"),
        pytest.param(Crowd("a", {"idle": 20}, conditions=READY), ON, [], id="ready, and yet idle"),
        pytest.param(
            Crowd("a", STUCK, job_status={"conditions": [condition("Failed")]}), None, [], id="it is over"
        ),
    ],
)
def test_movements(crowd: Crowd, readiness: WaitForPodsReady | None, moves: list[str]) -> None:
    assert list(pending_changes(a_world(crowd), readiness)) == moves


def test_two_jobs_that_hold_what_the_other_needs_are_a_deadlock() -> None:
    world = a_world(*TWO_HALVES)
    standstill = analyse(world, None)
    assert list(map(str, standstill.jobs)) == [
        "job1 runs 14 of 20 pods and holds memory 4424Mi; 6 more pods need memory 316Mi each",
        "job2 runs 12 of 20 pods and holds memory 3792Mi; 8 more pods need memory 316Mi each",
    ]
    assert standstill.room == ("memory: 213Mi free of 8429Mi",)
    assert standstill.is_deadlock
    assert "waitForPodsReady" in standstill.advice


@pytest.mark.parametrize(
    ("crowds", "told"),
    [
        pytest.param(
            [Crowd("big", conditions=NO_QUOTA, suspend=True)],
            ["big waits: memory: needs 20Gi, at most 16858Mi"],
            id="a job that never fits its queue",
        ),
        pytest.param(
            [Crowd("gang", suspend=True, group={"phase": "Pending", "conditions": [LACKS_NODES]})],
            ["gang waits: its pod group waits: cluster: cpu: need 6, have 2 now"],
            id="a job whose pod group gets no nodes",
        ),
        pytest.param(
            [Crowd("plain", conditions=None, suspend=True, queue="")],
            ["plain waits: it is suspended and names no queue"],
            id="a job that nobody resumes",
        ),
        pytest.param(
            [Crowd("a", {"idle": 1, "unplaced": 1}, wants=2, memory="1Mi")],
            ["a runs 1 of 2 pods and holds memory 1Mi; 1 more pod has no node: 0/1 nodes are available"],
            id="amounts are not the reason",
        ),
        pytest.param(
            [Crowd("a", {"idle": 2}, wants=2)],
            ["a runs 2 of 2 pods and holds memory 1200Mi; its pods make no progress"],
            id="all of them run in vain",
        ),
        pytest.param(
            [Crowd("a", suspend=True, conditions=NO_QUOTA, workload={"active": False}), Crowd("b", STUCK)],
            [
                "a waits: its workload is deactivated",
                "b runs 14 of 20 pods and holds memory 8400Mi; 6 more pods need memory 600Mi each",
            ],
            id="deactivated before it was ever evicted",
        ),
    ],
)
def test_what_is_told_of_a_standstill(crowds: list[Crowd], told: list[str]) -> None:
    standstill = analyse(a_world(*crowds), None)
    assert list(map(str, standstill.jobs)) == told
    assert not standstill.is_deadlock
    assert standstill.advice == ""


def test_on_several_nodes_the_largest_piece_of_room_is_told() -> None:
    nodes = [a_node("node-0", "5Gi"), a_node("node-1", "300Mi"), a_node("node-2", "200Mi")]
    world = a_world(Crowd("a", {"idle": 15, "unplaced": 5}, memory="340Mi"), nodes=nodes)
    assert analyse(world, None).room == ("memory: 520Mi free of 5620Mi on 3 nodes, at most 300Mi on one",)


def test_the_advice_is_not_given_to_who_follows_it() -> None:
    world = a_world(*TWO_HALVES)
    assert analyse(world, ON).advice == ""
