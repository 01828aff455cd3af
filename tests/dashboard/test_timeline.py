"""The life of a workload from its status and from recorded transitions."""

from quorate.api import codec
from quorate.api.meta import at_epoch
from quorate.api.volcano import PodGroup
from quorate.dashboard.history.timeline import group_milestones, milestones_of
from quorate.dashboard.schema import Transition
from tests.dashboard.objects import a_condition, a_workload, at


def a_transition(second: int, step: str, reason: str = "", message: str = "") -> Transition:
    return Transition(
        at=at_epoch(second), namespace="red", name="w", step=step, reason=reason, message=message,
        preemptor="", cluster_queue="q",
    )  # fmt: skip


def test_milestones_are_in_order_and_those_of_earlier_admissions_are_recorded_ones() -> None:
    conditions = (
        a_condition("Finished", second=90),
        a_condition("PodsReady", second=80),
        a_condition("Admitted", second=70),
        a_condition("Evicted", "False", second=69),
        a_condition("Requeued", second=60, reason="BackoffFinished"),
    )
    check = {"name": "license", "state": "Ready", "message": "granted", "lastTransitionTime": at(66)}
    workload = a_workload("w", second=10, conditions=(a_condition("QuotaReserved", second=65), *conditions),
                          admissionChecks=[check])  # fmt: skip
    recorded = [
        a_transition(20, "QuotaReserved"),
        a_transition(70, "Admitted", "Admitted"),  # the one of the status
        a_transition(50, "Evicted", "Preempted", "for blue/x"),
    ]
    found = milestones_of(workload, recorded, at_epoch(71), lambda text: text.replace("blue/x", "?"))
    assert [(int(each.at.timestamp()), each.step, each.reason, each.message) for each in found] == [
        (10, "Created", "", ""),
        (10, "Queued", "", ""),
        (20, "QuotaReserved", "", ""),
        (50, "Evicted", "Preempted", "for ?"),
        (60, "Requeued", "BackoffFinished", ""),
        (65, "QuotaReserved", "QuotaReserved", ""),
        (66, "CheckReady", "license", "granted"),
        (70, "Admitted", "Admitted", ""),
        (71, "PodsCreated", "", ""),
        (80, "PodsReady", "PodsReady", ""),
        (90, "Finished", "Finished", ""),
    ]


def test_a_deactivation_is_a_step_of_its_own() -> None:
    evicted = a_condition("Evicted", reason="DeactivatedDueToRequeuingLimitExceeded", second=30)
    found = milestones_of(a_workload("w", conditions=(evicted,)), (), None, str)
    assert [each.step for each in found] == ["Created", "Queued", "Deactivated"]


def test_a_condition_without_a_time_is_left_out() -> None:
    condition = {"type": "Evicted", "status": "True", "reason": "x", "message": ""}
    assert [each.step for each in milestones_of(a_workload("w", conditions=(condition,)), (), None, str)] == [
        "Created", "Queued",
    ]  # fmt: skip


def test_a_pod_group_has_the_conditions_that_are_true_and_its_recorded_phases() -> None:
    conditions = [
        a_condition("Unschedulable", reason="NotEnoughResources", message="cpu", second=20),
        a_condition("Scheduled", "False", second=30),
    ]
    body = {
        "metadata": {"name": "w", "namespace": "red", "creationTimestamp": at(10)},
        "status": {"conditions": conditions},
    }
    found = group_milestones(codec.convert(PodGroup, body), [a_transition(40, "Inqueue")], str)
    assert [(int(each.at.timestamp()), each.step) for each in found] == [
        (10, "Created"), (10, "Queued"), (20, "Unschedulable"), (40, "Inqueue"),
    ]  # fmt: skip
