"""The lifecycle of a workload: evictions, releases, and that it reaches a fixed point."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.configuration import Configuration
from quorate.api.configuration.feature_gates import DEFAULT_GATES, Gates
from quorate.api.kueue import (
    Admission,
    EvictionCount,
    PodSetUpdate,
    PreemptionGateState,
    RequeueState,
    SchedulingStats,
    UnhealthyNode,
    Workload,
    WorkloadSpec,
)
from quorate.api.meta import Condition, OwnerReference, Uid, at_epoch, find_condition
from quorate.queueing import conditions as c
from quorate.queueing.decisions import Decision, Evict, Reserve
from quorate.queueing.lifecycle.decided_status import decided_status, still_applies
from quorate.queueing.lifecycle.statuses import evict_status, release_status, unset_quota_reservation
from tests.queueing.lifecycle_builders import (
    ADMITTED,
    EXPLICIT,
    GRANULAR,
    KEPT_100_S,
    NOW,
    RESERVED,
    WAIT,
    a_workload,
    check,
    decide,
    is_,
    not_,
    queues,
    replace,
    with_metadata,
)

WAITING = a_workload(not_("QuotaReserved", "Inadmissible"))
RESERVE = Reserve(
    key=WAITING.metadata.key,
    uid=WAITING.metadata.uid,
    resource_version="",
    cluster_queue="cq",
    admission=Admission(cluster_queue="cq"),
    admitted=True,
    waited_s=0.0,
)
EVICT = Evict(WAITING.metadata.key, WAITING.metadata.uid, "", "NodeFailures", "a node failed")


def replaced(*conditions: Condition, **fields: Any) -> Workload:
    """Return ``WAITING`` with these conditions and fields of its status, or with another ``spec``."""
    spec = fields.pop("spec", WAITING.spec)
    conditions = c.with_conditions(WAITING.status.conditions, *conditions)
    return replace(WAITING, spec=spec, status=replace(WAITING.status, conditions=conditions, **fields))


@pytest.mark.parametrize(
    ("decision", "newest", "applies"),
    [
        pytest.param(RESERVE, replaced(not_("QuotaReserved", "Pending")), True, id="another reason to wait"),
        pytest.param(RESERVE, replaced(is_("Requeued", "BackoffFinished")), True, id="the end of a backoff"),
        pytest.param(RESERVE, replaced(not_("PodsReady")), True, id="a report about pods"),
        pytest.param(RESERVE, replaced(is_("Finished")), False, id="it has finished"),
        pytest.param(RESERVE, replaced(is_("Evicted", "Deactivated")), False, id="it is evicted"),
        pytest.param(RESERVE, replaced(spec=WorkloadSpec(active=False)), False, id="it is deactivated"),
        pytest.param(RESERVE, replaced(admission_checks=(check("Pending"),)), False, id="it has a check"),
        pytest.param(EVICT, replaced(admission_checks=(check("Ready"),)), True, id="a check"),
        pytest.param(EVICT, replaced(is_("Evicted", "Preempted")), False, id="it is evicted already"),
    ],
)
def test_a_decision_applies_to_what_our_other_writes_made_of_its_workload(
    decision: Decision, newest: Workload, applies: bool
) -> None:
    assert still_applies(decision, WAITING, newest) is applies


@pytest.mark.parametrize("stored", [(), (check("Ready"),)])
def test_a_reservation_names_its_checks_and_says_that_the_workload_waits_for_them(stored: Any) -> None:
    decision = replace(RESERVE, admitted=False, checks=("c", "d"))
    status = decided_status(replaced(admission_checks=stored), decision, NOW, Configuration())
    assert status is not None
    states = {one.name: one.state for one in status.admission_checks}
    assert states == {"c": stored[0].state if stored else "Pending", "d": "Pending"}
    waits = find_condition(status.conditions, c.ADMITTED)
    assert waits is not None
    assert (waits.status, waits.reason) == ("False", "UnsatisfiedAdmissionChecks")


def test_an_eviction_resets_checks_and_is_counted_and_keeps_the_reservation() -> None:
    workload = a_workload(
        RESERVED,
        ADMITTED,
        is_(c.BLOCKED_ON_PREEMPTION_GATES, "PreemptionGated"),
        admission_checks=(
            check("Retry", retry_count=1, requeue_after_seconds=5),
            replace(check("Ready", retry_count=3, pod_set_updates=(PodSetUpdate(name="main"),)), name="d"),
            replace(check("Rejected", retry_count=3), name="e"),
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
        ("d", "Pending", "Reset to Pending after eviction. Previously: Ready", 3),
        ("e", "Pending", "Reset to Pending after eviction. Previously: Rejected", None),
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
    ("reason", "requeued", "past_s"),
    [
        ("Preempted", "True", 105),
        ("NodeFailures", "True", 105),
        ("PodsReadyTimeout", "False", 105),
        ("Deactivated", "False", 105),
        ("DeactivatedDueToMaximumExecutionTimeExceeded", "False", None),
    ],
)
def test_a_release_removes_the_reservation_and_sets_requeued(
    reason: str, requeued: str, past_s: int | None
) -> None:
    workload = a_workload(
        RESERVED,
        is_(c.ADMITTED, at=900),
        is_(c.PODS_READY, "Started"),
        is_(c.EVICTED, reason, message="why"),
        accumulated_past_execution_time_seconds=5,
    )
    status = release_status(workload, NOW, DEFAULT_GATES)
    assert status is not None
    assert status.admission is None
    assert status.accumulated_past_execution_time_seconds == past_s
    got = {condition.type: (condition.status, condition.reason) for condition in status.conditions}
    assert got == {
        c.QUOTA_RESERVED: ("False", "PendingEvaluation"),
        c.ADMITTED: ("False", "NoReservation"),
        c.PODS_READY: ("False", "WaitForStart"),
        c.EVICTED: ("True", reason),
        c.REQUEUED: (requeued, reason),
    }
    assert release_status(replace(workload, status=status), NOW, DEFAULT_GATES) is None


def test_without_a_reservation_nothing_waits_for_checks() -> None:
    workload = a_workload(
        RESERVED,
        not_(c.ADMITTED, "UnsatisfiedAdmissionChecks"),
        is_(c.EVICTED, "AdmissionCheck"),
        admission_checks=(
            check("Pending"),
            replace(check("Ready", retry_count=3), name="d"),
            replace(check("Retry"), name="e"),
            replace(check("Rejected"), name="f"),
        ),
    )
    released = release_status(workload, NOW, DEFAULT_GATES)
    assert released is not None
    held = unset_quota_reservation(workload, c.SUSPENDED, "", NOW, DEFAULT_GATES)
    for status in (released, held):
        admitted = find_condition(status.conditions, c.ADMITTED)
        assert admitted is not None
        assert (admitted.status, admitted.reason) == ("False", "NoReservation")
        states = [(one.name, one.state, one.retry_count) for one in status.admission_checks]
        assert states == [
            ("c", "Pending", None),
            ("d", "Pending", 3),
            ("e", "Retry", None),
            ("f", "Rejected", None),
        ]


OF_GROUP = {"kueue.x-k8s.io/is-group-workload": "true"}


@pytest.mark.parametrize(
    ("gate", "pods", "controller", "annotations", "conditions", "requeued"),
    [
        pytest.param(True, 1, True, {}, [ADMITTED], "False", id="a single pod"),
        pytest.param(True, 1, False, {}, [ADMITTED], "False", id="a pod that is not the controller"),
        pytest.param(True, 1, True, {}, [], "True", id="a single pod that has not started"),
        pytest.param(True, 2, False, {}, [ADMITTED], "True", id="two pods"),
        pytest.param(True, 1, False, OF_GROUP, [ADMITTED], "True", id="a group of one pod"),
        pytest.param(False, 1, True, {}, [ADMITTED], "True", id="the gate is off"),
    ],
)
def test_the_workload_of_a_single_pod_is_not_requeued(
    gate: bool,
    pods: int,
    controller: bool,
    annotations: dict[str, str],
    conditions: list[Condition],
    requeued: str,
) -> None:
    owners = tuple(
        OwnerReference(api_version="v1", kind="Pod", name=f"p{at}", uid=Uid(f"p{at}"), controller=controller)
        for at in range(pods)
    )
    evicted = a_workload(RESERVED, *conditions, is_(c.EVICTED, "Preempted"))
    evicted = with_metadata(evicted, owner_references=owners, annotations=annotations)
    status = release_status(evicted, NOW, Gates(skip_reassignment_for_pod_owned_workloads=gate))
    assert status is not None
    found = find_condition(status.conditions, c.REQUEUED)
    assert found is not None
    assert found.status == requeued


@pytest.mark.parametrize("conditions", [[RESERVED, ADMITTED], [is_(c.EVICTED, "Preempted")]])
def test_without_eviction_or_reservation_there_is_nothing_to_release(conditions: list[Condition]) -> None:
    assert release_status(a_workload(*conditions), NOW, DEFAULT_GATES) is None


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
