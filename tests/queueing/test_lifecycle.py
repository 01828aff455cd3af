"""The life of a workload: each row of the table, the effects of an eviction, and that it comes to rest."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.configuration import Configuration, RequeuingStrategy, WaitForPodsReady
from quorate.api.configuration.feature_gates import Gates
from quorate.api.configuration.queueing import ObjectRetention
from quorate.api.kueue import (
    RESOURCE_IN_USE,
    Admission,
    AdmissionCheckState,
    EvictionCount,
    PodSetUpdate,
    PreemptionGateState,
    RequeueState,
    SchedulingStats,
    UnhealthyNode,
    Workload,
    WorkloadSpec,
    WorkloadStatus,
)
from quorate.api.meta import Condition, ObjectMeta, OwnerReference, Uid, at_epoch, find_condition
from quorate.queueing import conditions as c
from quorate.queueing.lifecycle.rules import decide_workload
from quorate.queueing.lifecycle.statuses import evict_status, release_status
from quorate.queueing.lifecycle.transition import ClusterQueueView, LocalQueueView, QueueView, Transition

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
    return c.new_condition(type_, "True", reason, message, at)


def not_(type_: str, reason: str = "", at: float = 900, message: str = "") -> Condition:
    return c.new_condition(type_, "False", reason, message, at)


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
    acts = [word for word in ("release", "delete") if getattr(transition, word)]
    if transition.status is None and acts:
        return ", ".join(acts)
    if transition.status is None:
        return f"wake {transition.wake_at:g}" if transition.wake_at is not None else "nothing"
    old, new = workload.status, transition.status
    parts = [
        f"{'' if condition.status == 'True' else 'not '}{condition.type} {condition.reason}"
        for condition in new.conditions
        if condition != find_condition(old.conditions, condition.type)
    ]
    gone = [each.type for each in old.conditions if find_condition(new.conditions, each.type) is None]
    parts += [f"no {type_}" for type_ in gone]
    if old.admission_checks != new.admission_checks:
        parts.append(f"checks {[f'{check.name}={check.state}' for check in new.admission_checks]}")
    if old.admission is not None and new.admission is None:
        parts.append("released")
    if old.requeue_state != new.requeue_state:
        state = new.requeue_state or RequeueState()
        at = None if state.requeue_at is None else int(state.requeue_at.timestamp())
        parts.append(f"retries {state.count} until {at}")
    return ", ".join(parts + acts)


NO_RESERVATION = "The workload has no reservation"
OWNER = OwnerReference(api_version="batch/v1", kind="Job", name="j", uid=Uid("j"), controller=True)


def with_metadata(workload: Workload, **metadata: Any) -> Workload:
    return replace(workload, metadata=replace(workload.metadata, **metadata))


def a_workload_with(**metadata: Any) -> Workload:
    return with_metadata(a_workload(), **metadata)


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
        pytest.param(
            replace(
                a_workload(),
                status=WorkloadStatus(
                    conditions=(not_(c.QUOTA_RESERVED, "Pending"), not_(c.ADMITTED, "NoReservation")),
                    admission=Admission(cluster_queue="cq"),
                ),
            ),
            RUNNING,
            "released",
            id="what is left of a reservation that others took back",
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
            "Evicted DeactivatedDueToRequeuingLimitExceeded, no DeactivationTarget, retries None until None",
            id="deactivated by the system",
        ),
        pytest.param(
            a_workload(is_(c.EVICTED), is_(c.DEACTIVATION_TARGET, "RequeuingLimitExceeded"), spec=INACTIVE),
            RUNNING,
            "no DeactivationTarget",
            id="preempted before it was deactivated, it can be reactivated",
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
            a_workload(is_(c.EVICTED, "Preempted"), admission_checks=(check("Retry"),)),
            queues(checks=("c",)),
            "checks ['c=Pending']",
            id="asked for a retry when the reservation was gone already",
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


KEPT_100_S = Configuration(retention=ObjectRetention(finished_s=100))
GRANULAR = Configuration(gates=Gates(unadmitted_workloads_observability=True))
EXPLICIT = Configuration(
    gates=Gates(unadmitted_workloads_observability=True, unadmitted_workloads_explicit_status=True)
)
LENIENT = Configuration(gates=Gates(finish_orphaned_workloads=False))
UNGATED = Configuration(gates=Gates(admission_gated_by=False))
GATED = a_workload_with(annotations={"kueue.x-k8s.io/admission-gated-by": "example.com/a"})
ORPHAN = a_workload_with(labels={"kueue.x-k8s.io/job-uid": "u"}, finalizers=(RESOURCE_IN_USE,))
LEAVING = a_workload_with(finalizers=(RESOURCE_IN_USE,), deletion_timestamp=at_epoch(900))
DONE = is_(c.FINISHED, "OwnerNotFound", at=900)


@pytest.mark.parametrize(
    ("workload", "configuration", "want"),
    [
        # owners
        pytest.param(
            ORPHAN, WAIT, "Finished OwnerNotFound, release", id="its owner is gone: finished and let go"
        ),
        pytest.param(ORPHAN, LENIENT, "nothing", id="orphans are left alone without the gate"),
        pytest.param(LEAVING, WAIT, "Finished OwnerNotFound, release", id="on its way out, alone"),
        pytest.param(LEAVING, LENIENT, "release", id="on its way out, and no gate to finish it"),
        pytest.param(
            with_metadata(a_workload(DONE), labels={"kueue.x-k8s.io/job-uid": "u"}),
            KEPT_100_S,
            "release, delete",
            id="an orphan that was let go is kept no longer than others",
        ),
        # retention
        pytest.param(a_workload(is_(c.FINISHED, at=950)), KEPT_100_S, "wake 1050", id="kept for a while"),
        pytest.param(a_workload(is_(c.FINISHED, at=900)), KEPT_100_S, "release, delete", id="kept enough"),
        pytest.param(
            a_workload(is_(c.FINISHED, at=1000)),
            Configuration(retention=ObjectRetention(finished_s=0)),
            "release, delete",
            id="not kept at all",
        ),
        pytest.param(
            with_metadata(a_workload(DONE), deletion_timestamp=at_epoch(990), owner_references=(OWNER,)),
            KEPT_100_S,
            "nothing",
            id="deleted once",
        ),
        # gates of others
        pytest.param(GATED, WAIT, "not QuotaReserved AdmissionGated", id="gated"),
        pytest.param(GATED, UNGATED, "nothing", id="gated, and nobody minds"),
        pytest.param(
            replace(GATED, status=WorkloadStatus(conditions=(not_(c.QUOTA_RESERVED, c.ADMISSION_GATED),))),
            WAIT,
            "nothing",
            id="still gated",
        ),
        pytest.param(
            a_workload(not_(c.QUOTA_RESERVED, c.ADMISSION_GATED)),
            WAIT,
            "not QuotaReserved Pending",
            id="the gate opened",
        ),
        # granular reasons
        pytest.param(a_workload(), GRANULAR, "not Admitted NoReservation", id="never admitted"),
        pytest.param(
            a_workload(),
            EXPLICIT,
            "not QuotaReserved PendingEvaluation, not Admitted NoReservation",
            id="explicit from the first",
        ),
        pytest.param(
            a_workload(not_(c.ADMITTED, "NoReservation", message=NO_RESERVATION), spec=INACTIVE),
            GRANULAR,
            "Evicted Deactivated",
            id="deactivation goes first",
        ),
        pytest.param(
            a_workload(
                is_(c.EVICTED), not_(c.ADMITTED, "NoReservation", message=NO_RESERVATION), spec=INACTIVE
            ),
            GRANULAR,
            "not QuotaReserved Deactivated",
            id="deactivated",
        ),
        pytest.param(
            a_workload(not_(c.QUOTA_RESERVED, "WaitingForQuota", message="cpu")),
            GRANULAR,
            "not Admitted NoReservation",
            id="what the cycle said stands",
        ),
        pytest.param(
            a_workload(
                not_(c.QUOTA_RESERVED, "Misconfigured", message="LocalQueue lq doesn't exist"),
                not_(c.ADMITTED, "NoReservation", message=NO_RESERVATION),
            ),
            GRANULAR,
            "not QuotaReserved PendingEvaluation",
            id="the queue is there now",
        ),
        pytest.param(
            a_workload(
                not_(c.QUOTA_RESERVED, "Misconfigured", message="requests above limits"),
                not_(c.ADMITTED, "NoReservation", message=NO_RESERVATION),
            ),
            GRANULAR,
            "nothing",
            id="queues do not cure what the workload has",
        ),
    ],
)
def test_the_next_step_as_configured(workload: Workload, configuration: Configuration, want: str) -> None:
    assert show(workload, decide(workload, configuration=configuration)) == want


def test_a_reservation_says_that_its_checks_are_not_ready() -> None:
    workload = a_workload(RESERVED, admission_checks=(check("Pending"),))
    got = decide(workload, queues(checks=("c",)), GRANULAR)
    assert show(workload, got) == "not Admitted UnsatisfiedAdmissionChecks"
    assert show(workload, decide(workload, queues(checks=("c",)), WAIT)) == "nothing"


@pytest.mark.parametrize(
    ("view", "reason"),
    [
        (queues(local=False), "Misconfigured"),
        (queues("Hold"), "Suspended"),
        (queues(cluster=False), "Misconfigured"),
        (queues(active=False), "Suspended"),
    ],
)
def test_a_queue_in_the_way_has_a_granular_reason(view: QueueView, reason: str) -> None:
    want = f"not QuotaReserved {reason}, not Admitted NoReservation"
    assert show(a_workload(), decide(a_workload(), view, GRANULAR)) == want


def test_gates_are_told_as_events() -> None:
    opened = a_workload(not_(c.QUOTA_RESERVED, c.ADMISSION_GATED))
    assert [(event.type, event.reason, event.message) for event in decide(GATED).events] == [
        ("Normal", "AdmissionGated", "Workload admission is gated by: example.com/a")
    ]
    assert [(event.type, event.reason) for event in decide(opened).events] == [
        ("Normal", "AdmissionGateCleared")
    ]


def test_an_eviction_resets_checks_and_is_counted_but_keeps_the_quota() -> None:
    workload = a_workload(
        RESERVED,
        ADMITTED,
        is_(c.BLOCKED_ON_PREEMPTION_GATES, "PreemptionGated"),
        admission_checks=(
            check("Retry", retry_count=1, requeue_after_seconds=5),
            replace(check("Ready", pod_set_updates=(PodSetUpdate(name="main"),)), name="d"),
        ),
        cluster_name="away",
        nominated_cluster_names=("away",),
        unhealthy_nodes=(UnhealthyNode(name="n"),),
        preemption_gates=(PreemptionGateState(name="g", position="Open"),),
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
    assert status.admission_checks[1].pod_set_updates == ()
    assert (status.cluster_name, status.nominated_cluster_names, status.unhealthy_nodes) == ("", (), ())
    assert [gate.position for gate in status.preemption_gates] == ["Closed"]
    blocked = find_condition(status.conditions, c.BLOCKED_ON_PREEMPTION_GATES)
    assert blocked is not None
    assert (blocked.status, blocked.reason) == ("False", "R")
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


@pytest.mark.parametrize(("gate", "requeued"), [(True, "False"), (False, "True")])
def test_the_workload_of_a_single_pod_is_not_queued_again(gate: bool, requeued: str) -> None:
    pod = OwnerReference(api_version="v1", kind="Pod", name="p", uid=Uid("p"), controller=True)
    evicted = a_workload(RESERVED, ADMITTED, is_(c.EVICTED, "Preempted"))
    gates = Gates(skip_reassignment_for_pod_owned_workloads=gate)
    status = release_status(with_metadata(evicted, owner_references=(pod,)), NOW, gates)
    assert status is not None
    found = find_condition(status.conditions, c.REQUEUED)
    assert found is not None
    assert found.status == requeued


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
    gated=st.booleans(),
    configuration=st.sampled_from((WAIT, GRANULAR, EXPLICIT, KEPT_100_S)),
)
def test_left_alone_it_comes_to_rest(
    conditions: list[Condition],
    active: bool,
    state: RequeueState,
    check_state: str,
    stop: str,
    found: bool,
    gated: bool,
    configuration: Configuration,
) -> None:
    """Whatever a workload looks like, a few steps later no step is left: nothing is written for ever."""
    workload = a_workload(
        *conditions,
        spec=WorkloadSpec(queue_name="lq", active=active),
        requeue_state=state,
        admission_checks=(check(check_state),) if check_state else (),
    )
    if gated:
        workload = with_metadata(workload, annotations={"kueue.x-k8s.io/admission-gated-by": "a/b"})
    view = queues(stop=stop, cluster=found, checks=("c",) if check_state else ())
    for _ in range(8):
        transition = decide(workload, view, configuration)
        if transition.deactivate:
            workload = replace(workload, spec=replace(workload.spec, active=False))
        elif transition.status is not None:
            assert transition.status != workload.status, "a write that changes nothing"
            workload = replace(workload, status=transition.status)
        else:
            return
    raise AssertionError(f"still busy: {transition}")
