"""The lifecycle of a workload: each rule, evictions and releases, and that it reaches a fixed point."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.configuration import Configuration
from quorate.api.configuration.feature_gates import Gates
from quorate.api.configuration.pods_ready import RequeuingStrategy, WaitForPodsReady
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
    """Return what the transition changes, as one line."""
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
        pytest.param(a_workload(), RUNNING, "nothing", id="pending with active queues"),
        pytest.param(a_workload(is_(c.FINISHED)), queues(local=False), "nothing", id="finished"),
        # inconsistent statuses
        pytest.param(
            replace(a_workload(RESERVED, ADMITTED), status=WorkloadStatus(conditions=(RESERVED, ADMITTED))),
            RUNNING,
            "not QuotaReserved Inadmissible, not Admitted NoReservation",
            id="reserved without an admission",
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
            id="an admission without a reservation",
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
        pytest.param(
            a_workload(RESERVED, ADMITTED), queues("Hold"), "wake 1200", id="Hold keeps admitted workloads"
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED),
            queues("HoldAndDrain"),
            "Evicted LocalQueueStopped",
            id="HoldAndDrain evicts admitted workloads",
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED),
            queues("HoldAndDrain", "HoldAndDrain"),
            "Evicted LocalQueueStopped",
            id="the local queue is checked first",
        ),
        pytest.param(
            a_workload(RESERVED, admission_checks=(check("Pending"),)),
            queues(stop="Hold", checks=("c",)),
            "not QuotaReserved Inadmissible, released",
            id="a reservation without admission is cancelled",
        ),
        pytest.param(
            a_workload(RESERVED, admission_checks=(check("Pending"),)),
            queues(terminating=True, checks=("c",)),
            "not QuotaReserved Inadmissible, released",
            id="a terminating queue cancels a reservation",
        ),
        pytest.param(
            a_workload(RESERVED),
            queues(stop="HoldAndDrain"),
            "Admitted Admitted",
            id="admitted before it is evicted",
        ),
        # requeueing
        pytest.param(
            a_workload(not_(c.REQUEUED, "ClusterQueueStopped")),
            RUNNING,
            "Requeued ClusterQueueRestarted",
            id="cluster queue restarted",
        ),
        pytest.param(
            a_workload(not_(c.REQUEUED, "LocalQueueStopped")),
            RUNNING,
            "Requeued LocalQueueRestarted",
            id="local queue restarted",
        ),
        pytest.param(
            a_workload(not_(c.REQUEUED, "ClusterQueueStopped")),
            queues(stop="Hold"),
            "not QuotaReserved Inadmissible",
            id="cluster queue still stopped",
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
            id="backoff finished",
        ),
        pytest.param(
            a_workload(is_(c.REQUEUED, "Preempted"), requeue_state=RequeueState(requeue_at=at_epoch(999))),
            RUNNING,
            "retries None until None",
            id="the end of a backoff keeps Requeued=True",
        ),
        pytest.param(
            a_workload(not_(c.REQUEUED, "DeactivatedDueToRequeuingLimitExceeded")),
            RUNNING,
            "Requeued Reactivated",
            id="reactivated after any deactivation",
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
            id="a deactivation target deactivates",
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
            id="preempted and then deactivated: the target is removed",
        ),
        pytest.param(
            a_workload(is_(c.EVICTED), spec=INACTIVE, requeue_state=RequeueState(count=3)),
            RUNNING,
            "retries None until None",
            id="already evicted: only the retries are removed",
        ),
        # checks
        pytest.param(
            a_workload(), queues(checks=("c",)), "checks ['c=Pending']", id="an applicable check is added"
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
            id="a check that no longer applies is removed",
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED, admission_checks=(check("Rejected"),)),
            queues(checks=("c",)),
            "DeactivationTarget AdmissionCheck",
            id="a rejected check",
        ),
        pytest.param(
            a_workload(RESERVED, ADMITTED, admission_checks=(check("Retry"),)),
            queues(checks=("c",)),
            "Evicted AdmissionCheck, checks ['c=Pending']",
            id="a check in state Retry",
        ),
        pytest.param(
            a_workload(is_(c.EVICTED, "Preempted"), admission_checks=(check("Retry"),)),
            queues(checks=("c",)),
            "checks ['c=Pending']",
            id="Retry after the reservation was released",
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
            id="a check extends the backoff",
        ),
        # timeouts
        pytest.param(
            a_workload(RESERVED, is_(c.ADMITTED, at=950)), RUNNING, "wake 1250", id="the timeout is running"
        ),
        pytest.param(
            a_workload(RESERVED, is_(c.ADMITTED, at=700)),
            RUNNING,
            "Evicted PodsReadyTimeout, retries 1 until 1060",
            id="the timeout has expired",
        ),
        pytest.param(
            a_workload(RESERVED, is_(c.ADMITTED, at=700), requeue_state=RequeueState(count=1)),
            RUNNING,
            "DeactivationTarget RequeuingLimitExceeded",
            id="the retries are used up",
        ),
        pytest.param(
            a_workload(RESERVED, is_(c.ADMITTED, at=950), spec=BRIEF),
            RUNNING,
            "wake 1010",
            id="the earlier timeout sets wake_at",
        ),
        pytest.param(
            a_workload(
                RESERVED, is_(c.ADMITTED, at=980), spec=BRIEF, accumulated_past_execution_time_seconds=40
            ),
            RUNNING,
            "DeactivationTarget MaximumExecutionTimeExceeded",
            id="past execution time counts",
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
            ORPHAN, WAIT, "Finished OwnerNotFound, release", id="orphan: finished, finalizer removed"
        ),
        pytest.param(ORPHAN, LENIENT, "nothing", id="orphan without the gate"),
        pytest.param(LEAVING, WAIT, "Finished OwnerNotFound, release", id="deleted without an owner"),
        pytest.param(LEAVING, LENIENT, "release", id="deleted without an owner, without the gate"),
        pytest.param(
            with_metadata(a_workload(DONE), labels={"kueue.x-k8s.io/job-uid": "u"}),
            KEPT_100_S,
            "release, delete",
            id="retention applies to a finished orphan",
        ),
        # retention
        pytest.param(
            a_workload(is_(c.FINISHED, at=950)), KEPT_100_S, "wake 1050", id="within the retention period"
        ),
        pytest.param(
            a_workload(is_(c.FINISHED, at=900)),
            KEPT_100_S,
            "release, delete",
            id="after the retention period",
        ),
        pytest.param(
            a_workload(is_(c.FINISHED, at=1000)),
            Configuration(retention=ObjectRetention(finished_s=0)),
            "release, delete",
            id="a retention period of 0",
        ),
        pytest.param(
            with_metadata(a_workload(DONE), deletion_timestamp=at_epoch(990), owner_references=(OWNER,)),
            KEPT_100_S,
            "nothing",
            id="already being deleted",
        ),
        # admission gates
        pytest.param(GATED, WAIT, "not QuotaReserved AdmissionGated", id="gated"),
        pytest.param(GATED, UNGATED, "nothing", id="gated, without the feature gate"),
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
            id="the gate is cleared",
        ),
        # granular reasons
        pytest.param(a_workload(), GRANULAR, "not Admitted NoReservation", id="never admitted"),
        pytest.param(
            a_workload(),
            EXPLICIT,
            "not QuotaReserved PendingEvaluation, not Admitted NoReservation",
            id="explicit status",
        ),
        pytest.param(
            a_workload(not_(c.ADMITTED, "NoReservation", message=NO_RESERVATION), spec=INACTIVE),
            GRANULAR,
            "Evicted Deactivated",
            id="deactivation comes first",
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
            id="the reason of the cycle stays",
        ),
        pytest.param(
            a_workload(
                not_(c.QUOTA_RESERVED, "Misconfigured", message="LocalQueue lq doesn't exist"),
                not_(c.ADMITTED, "NoReservation", message=NO_RESERVATION),
            ),
            GRANULAR,
            "not QuotaReserved PendingEvaluation",
            id="the queue exists now",
        ),
        pytest.param(
            a_workload(
                not_(c.QUOTA_RESERVED, "Misconfigured", message="requests above limits"),
                not_(c.ADMITTED, "NoReservation", message=NO_RESERVATION),
            ),
            GRANULAR,
            "nothing",
            id="active queues do not change a reason of the workload",
        ),
    ],
)
def test_the_next_step_depends_on_the_configuration(
    workload: Workload, configuration: Configuration, want: str
) -> None:
    assert show(workload, decide(workload, configuration=configuration)) == want


def test_a_reservation_with_pending_checks_has_an_admitted_condition() -> None:
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
def test_the_granular_reason_of_an_inactive_or_missing_queue(view: QueueView, reason: str) -> None:
    want = f"not QuotaReserved {reason}, not Admitted NoReservation"
    assert show(a_workload(), decide(a_workload(), view, GRANULAR)) == want


def test_setting_and_clearing_admission_gates_emits_events() -> None:
    opened = a_workload(not_(c.QUOTA_RESERVED, c.ADMISSION_GATED))
    assert [(event.type, event.reason, event.message) for event in decide(GATED).events] == [
        ("Normal", "AdmissionGated", "Workload admission is gated by: example.com/a")
    ]
    assert [(event.type, event.reason) for event in decide(opened).events] == [
        ("Normal", "AdmissionGateCleared")
    ]


def test_an_eviction_resets_checks_and_is_counted_and_keeps_the_reservation() -> None:
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
def test_a_release_removes_the_reservation_and_sets_requeued(reason: str, requeued: str) -> None:
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
def test_the_workload_of_a_single_pod_is_not_requeued(gate: bool, requeued: str) -> None:
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
def test_the_lifecycle_reaches_a_fixed_point(
    conditions: list[Condition],
    active: bool,
    state: RequeueState,
    check_state: str,
    stop: str,
    found: bool,
    gated: bool,
    configuration: Configuration,
) -> None:
    """From any status, no rule writes anything after a few steps."""
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
    raise AssertionError(f"no fixed point: {transition}")
