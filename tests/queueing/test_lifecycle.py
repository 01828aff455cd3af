"""The life of a workload: each row of the table, the effects of an eviction, and that it comes to rest."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.configuration import Configuration, RequeuingStrategy, WaitForPodsReady
from quorate.api.kueue import (
    Admission,
    AdmissionCheckState,
    EvictionCount,
    RequeueState,
    SchedulingStats,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from quorate.api.meta import Condition, ObjectMeta, Uid, at_epoch, find_condition
from quorate.queueing import conditions as c
from quorate.queueing.lifecycle import (
    ClusterQueueView,
    LocalQueueView,
    QueueView,
    Transition,
    decide_workload,
    evict_status,
    release_status,
)

NOW = 1000.0
WAIT = Configuration(
    wait_for_pods_ready=WaitForPodsReady(
        timeout_s=300,
        recovery_timeout_s=300,
        block_admission=None,
        requeuing_strategy=RequeuingStrategy(backoff_limit_count=1),
    )
)
RUNNING = QueueView(LocalQueueView("lq", found=True), ClusterQueueView("cq", found=True, active=True))
replace = msgspec.structs.replace


def is_(type_: str, reason: str = "", at: float = 900, message: str = "") -> Condition:
    return c.condition(type_, "True", reason, message, at)


def not_(type_: str, reason: str = "", at: float = 900, message: str = "") -> Condition:
    return c.condition(type_, "False", reason, message, at)


RESERVED = is_(c.QUOTA_RESERVED, "QuotaReserved")
ADMITTED = is_(c.ADMITTED, "Admitted")


def a_workload(*conditions: Condition, spec: WorkloadSpec | None = None, **status: Any) -> Workload:
    reserving = RESERVED in conditions
    return Workload(
        metadata=ObjectMeta(name="w", namespace="ns", uid=Uid("u"), creation_timestamp=at_epoch(0)),
        spec=spec or WorkloadSpec(queue_name="lq"),
        status=WorkloadStatus(
            conditions=conditions, admission=Admission(cluster_queue="cq") if reserving else None, **status
        ),
    )


def check(state: Any, **fields: Any) -> AdmissionCheckState:
    return AdmissionCheckState(name="c", state=state, **fields)


def queues(
    local_stop: Any = "None", stop: Any = "None", *, local: bool = True, cluster: bool = True, **fields: Any
) -> QueueView:
    fields = {"active": stop == "None", **fields}
    return QueueView(
        LocalQueueView("lq", found=local, stop_policy=local_stop),
        ClusterQueueView("cq", found=cluster, stop_policy=stop, **fields),
    )


def decide(workload: Workload, view: QueueView = RUNNING, configuration: Configuration = WAIT) -> Transition:
    return decide_workload(workload, view, configuration, NOW, jitter=0.0)


def show(workload: Workload, transition: Transition) -> str:
    """What changed, as one line of the domain."""
    if transition.deactivate:
        return "deactivate"
    if transition.status is None:
        return f"wake {transition.wake_at:g}" if transition.wake_at is not None else "nothing"
    old, new = workload.status, transition.status
    parts = [
        f"{'' if condition.status == 'True' else 'not '}{condition.type} {condition.reason}"
        for condition in new.conditions
        if condition != find_condition(old.conditions, condition.type)
    ]
    if old.admission_checks != new.admission_checks:
        parts.append(f"checks {[f'{check.name}={check.state}' for check in new.admission_checks]}")
    if old.admission is not None and new.admission is None:
        parts.append("released")
    if old.requeue_state != new.requeue_state:
        state = new.requeue_state or RequeueState()
        at = None if state.requeue_at is None else int(state.requeue_at.timestamp())
        parts.append(f"retries {state.count} until {at}")
    return ", ".join(parts)


INACTIVE = WorkloadSpec(queue_name="lq", active=False)
BRIEF = WorkloadSpec(queue_name="lq", maximum_execution_time_seconds=60)


@pytest.mark.parametrize(
    ("workload", "view", "want"),
    [
        pytest.param(a_workload(), RUNNING, "nothing", id="pending with its queues running"),
        pytest.param(a_workload(is_(c.FINISHED)), queues(local=False), "nothing", id="finished is finished"),
        # by hand
        pytest.param(
            replace(a_workload(RESERVED, ADMITTED), status=WorkloadStatus(conditions=(RESERVED, ADMITTED))),
            RUNNING,
            "not QuotaReserved Inadmissible, not Admitted NoReservation",
            id="a reservation of nothing is none",
        ),
        pytest.param(
            a_workload(ADMITTED), RUNNING, "not Admitted NoReservation", id="admitted without a reservation"
        ),
        # queues
        pytest.param(
            a_workload(), queues(local=False), "not QuotaReserved Inadmissible", id="no local queue"
        ),
        pytest.param(
            a_workload(), queues("Hold"), "not QuotaReserved Inadmissible", id="local queue stopped"
        ),
        pytest.param(
            a_workload(), queues(cluster=False), "not QuotaReserved Inadmissible", id="no cluster queue"
        ),
        pytest.param(
            a_workload(), queues(active=False), "not QuotaReserved Inadmissible", id="cluster queue inactive"
        ),
        pytest.param(
            a_workload(not_(c.QUOTA_RESERVED, "OnHold")),
            queues(local=False),
            "nothing",
            id="on hold by its job",
        ),
        pytest.param(a_workload(RESERVED, ADMITTED), queues("Hold"), "wake 1200", id="Hold lets run"),
        pytest.param(
            a_workload(RESERVED, ADMITTED), queues("HoldAndDrain"), "Evicted LocalQueueStopped", id="drained"
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED),
            queues("HoldAndDrain", "HoldAndDrain"),
            "Evicted LocalQueueStopped",
            id="the local queue is looked at first",
        ),
        pytest.param(
            a_workload(RESERVED, admission_checks=(check("Pending"),)),
            queues(stop="Hold", checks=("c",)),
            "not QuotaReserved Inadmissible, released",
            id="a mere reservation is cancelled",
        ),
        pytest.param(
            a_workload(RESERVED, admission_checks=(check("Pending"),)),
            queues(terminating=True, checks=("c",)),
            "not QuotaReserved Inadmissible, released",
            id="also by a queue that is being deleted",
        ),
        pytest.param(
            a_workload(RESERVED),
            queues(stop="HoldAndDrain"),
            "Admitted Admitted",
            id="admitted before drained",
        ),
        # requeueing
        pytest.param(
            a_workload(not_(c.REQUEUED, "ClusterQueueStopped")),
            RUNNING,
            "Requeued ClusterQueueRestarted",
            id="restart",
        ),
        pytest.param(
            a_workload(not_(c.REQUEUED, "LocalQueueStopped")),
            RUNNING,
            "Requeued LocalQueueRestarted",
            id="local restart",
        ),
        pytest.param(
            a_workload(not_(c.REQUEUED, "ClusterQueueStopped")),
            queues(stop="Hold"),
            "not QuotaReserved Inadmissible",
            id="no restart while stopped",
        ),
        pytest.param(
            a_workload(
                not_(c.REQUEUED, "PodsReadyTimeout"),
                requeue_state=RequeueState(count=2, requeue_at=at_epoch(1060)),
            ),
            RUNNING,
            "wake 1060",
            id="backing off",
        ),
        pytest.param(
            a_workload(
                not_(c.REQUEUED, "PodsReadyTimeout"),
                requeue_state=RequeueState(count=2, requeue_at=at_epoch(1000)),
            ),
            RUNNING,
            "Requeued BackoffFinished, retries 2 until None",
            id="backed off",
        ),
        pytest.param(
            a_workload(is_(c.REQUEUED, "Preempted"), requeue_state=RequeueState(requeue_at=at_epoch(999))),
            RUNNING,
            "retries None until None",
            id="a backoff that ends unnoticed leaves the condition alone",
        ),
        pytest.param(
            a_workload(not_(c.REQUEUED, "DeactivatedDueToRequeuingLimitExceeded")),
            RUNNING,
            "Requeued Reactivated",
            id="reactivated, whatever it was deactivated for",
        ),
        # deactivation
        pytest.param(
            a_workload(RESERVED, ADMITTED, spec=INACTIVE),
            RUNNING,
            "Evicted Deactivated",
            id="deactivated by the user",
        ),
        pytest.param(
            a_workload(is_(c.DEACTIVATION_TARGET, "RequeuingLimitExceeded")),
            RUNNING,
            "deactivate",
            id="marked, so deactivate",
        ),
        pytest.param(
            a_workload(
                is_(c.DEACTIVATION_TARGET, "RequeuingLimitExceeded"),
                spec=INACTIVE,
                requeue_state=RequeueState(count=3),
            ),
            RUNNING,
            "Evicted DeactivatedDueToRequeuingLimitExceeded, retries None until None",
            id="deactivated by the system",
        ),
        pytest.param(
            a_workload(is_(c.EVICTED), spec=INACTIVE, requeue_state=RequeueState(count=3)),
            RUNNING,
            "retries None until None",
            id="already evicted: only the retries are forgotten",
        ),
        # checks
        pytest.param(
            a_workload(), queues(checks=("c",)), "checks ['c=Pending']", id="a check that applies is listed"
        ),
        pytest.param(
            a_workload(RESERVED, admission_checks=(check("Ready"),)),
            queues(checks=("c",)),
            "Admitted Admitted",
            id="all checks ready",
        ),
        pytest.param(
            a_workload(RESERVED, admission_checks=(check("Pending"),)),
            RUNNING,
            "checks []",
            id="a check that no longer applies goes",
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED, admission_checks=(check("Rejected"),)),
            queues(checks=("c",)),
            "DeactivationTarget AdmissionCheck",
            id="rejected",
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED, admission_checks=(check("Retry"),)),
            queues(checks=("c",)),
            "Evicted AdmissionCheck, checks ['c=Pending']",
            id="to be retried",
        ),
        pytest.param(
            a_workload(
                RESERVED,
                admission_checks=(
                    check("Retry", last_transition_time=at_epoch(990), requeue_after_seconds=70),
                ),
                requeue_state=RequeueState(count=1, requeue_at=at_epoch(1050)),
            ),
            queues(checks=("c",)),
            "retries 1 until 1060",
            id="a check may lengthen the backoff",
        ),
        # clocks
        pytest.param(
            a_workload(RESERVED, is_(c.ADMITTED, at=950)), RUNNING, "wake 1250", id="the clock runs"
        ),
        pytest.param(
            a_workload(RESERVED, is_(c.ADMITTED, at=700)),
            RUNNING,
            "Evicted PodsReadyTimeout, retries 1 until 1060",
            id="the clock ran out",
        ),
        pytest.param(
            a_workload(RESERVED, is_(c.ADMITTED, at=700), requeue_state=RequeueState(count=1)),
            RUNNING,
            "DeactivationTarget RequeuingLimitExceeded",
            id="it ran out once too often",
        ),
        pytest.param(
            a_workload(RESERVED, is_(c.ADMITTED, at=950), spec=BRIEF),
            RUNNING,
            "wake 1010",
            id="the sooner clock wakes",
        ),
        pytest.param(
            a_workload(
                RESERVED, is_(c.ADMITTED, at=980), spec=BRIEF, accumulated_past_execution_time_seconds=40
            ),
            RUNNING,
            "DeactivationTarget MaximumExecutionTimeExceeded",
            id="earlier runs count",
        ),
    ],
)
def test_the_next_step(workload: Workload, view: QueueView, want: str) -> None:
    assert show(workload, decide(workload, view)) == want


def test_an_eviction_resets_checks_and_is_counted_but_keeps_the_quota() -> None:
    workload = a_workload(
        RESERVED,
        ADMITTED,
        admission_checks=(
            check("Retry", retry_count=1, requeue_after_seconds=5),
            replace(check("Ready"), name="d"),
        ),
        scheduling_stats=SchedulingStats(
            evictions=(EvictionCount(reason="R", underlying_cause="C", count=1),)
        ),
    )
    status = evict_status(workload, "R", "why", NOW, counted_as=("R", "C"))
    assert status.admission == workload.status.admission
    assert [(one.name, one.state, one.message, one.retry_count) for one in status.admission_checks] == [
        ("c", "Pending", "Reset to Pending after eviction. Previously: Retry", 2),
        ("d", "Pending", "Reset to Pending after eviction. Previously: Ready", None),
    ]
    assert status.admission_checks[0].requeue_after_seconds == 5
    assert status.scheduling_stats is not None
    assert [one.count for one in status.scheduling_stats.evictions] == [2]


@pytest.mark.parametrize(
    ("reason", "requeued"),
    [
        ("Preempted", "True"),
        ("NodeFailures", "True"),
        ("PodsReadyTimeout", "False"),
        ("Deactivated", "False"),
    ],
)
def test_a_release_gives_everything_back_and_says_when_to_queue_again(reason: str, requeued: str) -> None:
    workload = a_workload(
        RESERVED,
        is_(c.ADMITTED, at=900),
        is_(c.PODS_READY, "Started"),
        is_(c.EVICTED, reason, message="why"),
        accumulated_past_execution_time_seconds=5,
    )
    status = release_status(workload, NOW)
    assert status is not None
    assert status.admission is None
    assert status.accumulated_past_execution_time_seconds == 105
    got = {condition.type: (condition.status, condition.reason) for condition in status.conditions}
    assert got == {
        c.QUOTA_RESERVED: ("False", "Pending"),
        c.ADMITTED: ("False", "NoReservation"),
        c.PODS_READY: ("False", "WaitForStart"),
        c.EVICTED: ("True", reason),
        c.REQUEUED: (requeued, reason),
    }
    assert release_status(replace(workload, status=status), NOW) is None


@pytest.mark.parametrize("conditions", [[RESERVED, ADMITTED], [is_(c.EVICTED, "Preempted")]])
def test_without_eviction_or_reservation_there_is_nothing_to_release(conditions: list[Condition]) -> None:
    assert release_status(a_workload(*conditions), NOW) is None


conditions_of_any_kind = st.lists(
    st.one_of(
        st.sampled_from(
            [RESERVED, ADMITTED, is_(c.PODS_READY, "Started"), not_(c.PODS_READY, "WaitForRecovery")]
        ),
        st.sampled_from(["Preempted", "PodsReadyTimeout", "Deactivated"]).map(
            lambda reason: is_(c.EVICTED, reason)
        ),
        st.sampled_from(
            ["ClusterQueueStopped", "PodsReadyTimeout", "AdmissionCheck", "DeactivatedDueToX"]
        ).map(lambda reason: not_(c.REQUEUED, reason)),
    ),
    unique_by=lambda condition: condition.type,
)


@given(
    conditions=conditions_of_any_kind,
    active=st.booleans(),
    state=st.builds(
        RequeueState,
        count=st.one_of(st.none(), st.integers(1, 3)),
        requeue_at=st.one_of(st.none(), st.integers(900, 1100).map(at_epoch)),
    ),
    check_state=st.sampled_from(("", "Pending", "Ready", "Retry", "Rejected")),
    stop=st.sampled_from(("None", "Hold", "HoldAndDrain")),
    found=st.booleans(),
)
def test_left_alone_it_comes_to_rest(
    conditions: list[Condition], active: bool, state: RequeueState, check_state: str, stop: str, found: bool
) -> None:
    """Whatever a workload looks like, a few steps later no step is left: nothing is written for ever."""
    workload = a_workload(
        *conditions,
        spec=WorkloadSpec(queue_name="lq", active=active),
        requeue_state=state,
        admission_checks=(check(check_state),) if check_state else (),
    )
    view = queues(stop=stop, cluster=found, checks=("c",) if check_state else ())
    for _ in range(8):
        transition = decide(workload, view)
        if transition.deactivate:
            workload = replace(workload, spec=replace(workload.spec, active=False))
        elif transition.status is not None:
            assert transition.status != workload.status, "a write that changes nothing"
            workload = replace(workload, status=transition.status)
        else:
            return
    raise AssertionError(f"still busy: {transition}")
