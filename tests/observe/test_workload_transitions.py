"""Samples that follow from the difference of two versions of a workload."""

from datetime import UTC, datetime

import pytest

from quorate.api.kueue import (
    AdmissionCheckState,
    EvictionCount,
    PriorityClassRef,
    SchedulingStats,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from quorate.api.meta import Condition, ObjectMeta, at_epoch
from quorate.observe.workload_transitions import Sample, transition_samples

HIGH_CLASS = PriorityClassRef(group="kueue.x-k8s.io", kind="WorkloadPriorityClass", name="high")
HIGH = {"priority_class": "high"}


def a_workload(
    *conditions: str, checks: int = 0, evictions: tuple[EvictionCount, ...] = (), past_s: int | None = None
) -> Workload:
    """Return a workload created at second 0; each condition is "Type status reason second"."""
    return Workload(
        metadata=ObjectMeta(name="w", namespace="ns", creation_timestamp=datetime(1970, 1, 1, tzinfo=UTC)),
        spec=WorkloadSpec(priority_class_ref=HIGH_CLASS),
        status=WorkloadStatus(
            conditions=tuple(map(_condition, conditions)),
            admission_checks=(AdmissionCheckState(name="check", state="Ready"),) * checks,
            scheduling_stats=SchedulingStats(evictions=evictions) if evictions else None,
            accumulated_past_execution_time_seconds=past_s,
        ),
    )


def _condition(text: str) -> Condition:
    type_, status, reason, second = text.split()
    assert status in ("True", "False")
    return Condition(
        type=type_,
        status="True" if status == "True" else "False",
        reason=reason,
        last_transition_time=at_epoch(float(second)),
    )


RESERVED = "QuotaReserved True QuotaReserved 5"
ADMITTED = "Admitted True Admitted 8"
READY = "PodsReady True Started 20"


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(
            a_workload(), a_workload(RESERVED),
            [Sample("quota_reserved_workloads_total", HIGH),
             Sample("quota_reserved_wait_time_seconds", HIGH, 5.0)],
            id="quota is reserved",
        ),
        pytest.param(
            a_workload("Requeued True BackoffFinished 3"),
            a_workload("Requeued True BackoffFinished 3", RESERVED),
            [Sample("quota_reserved_workloads_total", HIGH),
             Sample("quota_reserved_wait_time_seconds", HIGH, 2.0)],
            id="the wait starts at the last requeue",
        ),
        pytest.param(
            a_workload(RESERVED, checks=1), a_workload(RESERVED, ADMITTED, checks=1),
            [Sample("admitted_workloads_total", HIGH), Sample("admission_wait_time_seconds", HIGH, 8.0),
             Sample("admission_checks_wait_time_seconds", HIGH, 3.0)],
            id="admitted after its checks",
        ),
        pytest.param(
            a_workload(RESERVED), a_workload(RESERVED, ADMITTED),
            [Sample("admitted_workloads_total", HIGH), Sample("admission_wait_time_seconds", HIGH, 8.0)],
            id="admitted without checks",
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED, "Evicted True Preempted 9"), a_workload("Finished True ByHand 12"),
            [Sample("finished_workloads_total", HIGH), Sample("execution_time_seconds", HIGH, 4.0)],
            id="all conditions removed: the time of release is unknown",
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED), a_workload(RESERVED, ADMITTED, READY),
            [Sample("ready_wait_time_seconds", HIGH, 20.0),
             Sample("admitted_until_ready_wait_time_seconds", HIGH, 12.0)],
            id="ready",
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED), a_workload(RESERVED, ADMITTED, "PodsReady True Recovered 30"), [],
            id="a recovery is not the first readiness",
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED, "PodsReady False WaitForRecovery 25"),
            a_workload(RESERVED, ADMITTED, "PodsReady True Recovered 32"),
            [Sample("workload_recovery_wait_time_seconds", HIGH, 7.0)],
            id="recovered",
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED), a_workload(RESERVED, ADMITTED, "Finished True Succeeded 30"),
            [Sample("finished_workloads_total", HIGH), Sample("execution_time_seconds", HIGH, 22.0)],
            id="finished",
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED, past_s=100),
            a_workload(RESERVED, ADMITTED, "Finished True Succeeded 30", past_s=100),
            [Sample("finished_workloads_total", HIGH), Sample("execution_time_seconds", HIGH, 122.0)],
            id="finished in its second admission",
        ),
        pytest.param(
            a_workload(RESERVED), a_workload(RESERVED, "Finished True OwnerNotFound 30"),
            [Sample("finished_workloads_total", HIGH)], id="finished without an admission",
        ),
        pytest.param(
            a_workload(RESERVED, READY),
            a_workload(
                RESERVED, "PodsReady False WaitForStart 26", "Evicted True Preempted 26",
                evictions=(EvictionCount(reason="Preempted", count=1),),
            ),
            [Sample("evicted_workloads_total", {"reason": "Preempted", "underlying_cause": "", **HIGH}),
             Sample("evicted_workloads_once_total", {"reason": "Preempted", "underlying_cause": "", **HIGH}),
             Sample(
                 "pods_ready_to_evicted_time_seconds", {"reason": "Preempted", "underlying_cause": ""}, 6.0
             )],
            id="evicted after it was ready",
        ),
        pytest.param(
            a_workload(
                RESERVED,
                evictions=(
                    EvictionCount(reason="PodsReadyTimeout", underlying_cause="WaitForStart", count=3),
                    EvictionCount(reason="Deactivated", underlying_cause="RequeuingLimitExceeded", count=1),
                ),
            ),
            a_workload(
                RESERVED, "Evicted True DeactivatedDueToRequeuingLimitExceeded 9",
                evictions=(
                    EvictionCount(reason="PodsReadyTimeout", underlying_cause="WaitForStart", count=3),
                    EvictionCount(reason="Deactivated", underlying_cause="RequeuingLimitExceeded", count=2),
                ),
            ),
            [Sample(
                "evicted_workloads_total",
                {"reason": "Deactivated", "underlying_cause": "RequeuingLimitExceeded", **HIGH},
            )],
            id="the cause of a deactivation is a label; a second eviction is not counted once",
        ),
        pytest.param(
            a_workload(RESERVED),
            a_workload(
                RESERVED, "Evicted True PodsReadyTimeout 9",
                evictions=(
                    EvictionCount(reason="PodsReadyTimeout", underlying_cause="WaitForStart", count=1),
                ),
            ),
            [Sample(name, {"reason": "PodsReadyTimeout", "underlying_cause": "WaitForStart", **HIGH})
             for name in ("evicted_workloads_total", "evicted_workloads_once_total")],
            id="a cause that is not in the condition",
        ),
        pytest.param(
            a_workload(RESERVED), a_workload(RESERVED, "Evicted True DeactivatedDueToAdmissionCheck 9"),
            [Sample("evicted_workloads_total", {"reason": "Deactivated", "underlying_cause": "", **HIGH})],
            id="evicted by a client that does not count",
        ),
        pytest.param(
            a_workload(RESERVED, "Evicted True Preempted 10"),
            a_workload("QuotaReserved False Pending 14", "Evicted True Preempted 10"),
            [Sample("workload_eviction_latency_seconds", {"reason": "Preempted"}, 4.0)],
            id="its quota is released",
        ),
        pytest.param(a_workload(RESERVED, READY), a_workload(RESERVED, READY), [], id="no transition"),
    ],
)  # fmt: skip
def test_each_new_condition_gives_its_samples(old: Workload, new: Workload, want: list[Sample]) -> None:
    assert list(transition_samples(old, new)) == want
