"""The rules of the job reconciler for a job with its workload."""

from dataclasses import replace
from typing import Any

import msgspec
import pytest

from quorate.api.batch import Job
from quorate.api.configuration.feature_gates import Gates
from quorate.api.kueue import (
    AdmissionCheckState,
    PodSet,
    ReclaimablePod,
    Workload,
    WorkloadPriorityClass,
    WorkloadStatus,
)
from quorate.api.meta import Condition, ObjectMeta, is_true
from quorate.controllers.jobframework.interface import JobState
from quorate.controllers.jobframework.job_plan import IDLE, JobOptions, JobPlan, ReconcileContext
from quorate.controllers.jobframework.rules import decide
from quorate.controllers.jobs.batch import BatchJob
from quorate.kube.writes import Patch
from tests.controllers.jobframework.plans import (
    NOW,
    OPTIONS,
    RUNNING,
    WAITING,
    events,
    plan,
    reasons,
    show,
    written,
)
from tests.controllers.objects import a_job, a_workload, template, with_admitted_count


@pytest.mark.parametrize(
    "plan_of",
    [
        pytest.param(lambda: plan(None), id="the job and its workload do not exist"),
        pytest.param(lambda: plan(a_job(queue="", **RUNNING)), id="no queue name"),
        pytest.param(lambda: plan(a_job(**RUNNING), managed=False), id="the namespace is not managed"),
        pytest.param(lambda: plan(a_job(), a_workload()), id="pending"),
        pytest.param(
            lambda: plan(a_job(), a_workload(), options=WAITING),
            id="pending and not evaluated yet",
        ),
        pytest.param(lambda: plan(a_job(), a_workload("QuotaReserved")), id="quota reserved, checks pending"),
        pytest.param(lambda: plan(a_job(**RUNNING), a_workload(admitted_to=["spot"])), id="running"),
        pytest.param(
            lambda: plan(
                a_job(**RUNNING), a_workload("!PodsReady=WaitForStart", admitted_to=["spot"]), options=WAITING
            ),
            id="running, not ready yet",
        ),
        pytest.param(
            lambda: plan(a_job(status={"active": 2}), a_workload("Evicted=Preempted", admitted_to=["spot"])),
            id="evicted, with active pods",
        ),
        pytest.param(
            lambda: plan(a_job(), a_workload("Evicted=Preempted", "!QuotaReserved", "!Admitted")),
            id="evicted, quota released",
        ),
        pytest.param(
            lambda: plan(a_job(status={"conditions": [{"type": "Complete", "status": "True"}]})),
            id="finished before it was managed",
        ),
        pytest.param(
            lambda: plan(a_job(), a_workload("Finished", finalizers=())), id="finished and released"
        ),
    ],
)
def test_nothing_is_written_if_nothing_has_to_change(plan_of: Any) -> None:
    assert plan_of() == IDLE


@pytest.mark.parametrize(("type_", "reason"), [("Complete", "Succeeded"), ("Failed", "Failed")])
def test_a_finished_job_finishes_its_workload(type_: str, reason: str) -> None:
    finished = [{"type": type_, "status": "True", "message": "it is over"}]
    job = a_job(suspend=False, status={"conditions": finished})
    got = plan(job, a_workload(admitted_to=["spot"]))
    assert written(got, "Finished") == ("True", reason, "it is over")
    assert reasons(got) == ["FinishedWorkload"]


def test_a_finished_workload_loses_its_finalizer() -> None:
    got = plan(a_job(suspend=False), a_workload("Finished", admitted_to=["spot"]))
    (patch,) = got.writes
    assert isinstance(patch, Patch)
    assert patch.body == {"metadata": {"finalizers": None}}


def test_pods_ready_is_written_when_it_changes() -> None:
    admitted = a_workload("!PodsReady=WaitForStart", admitted_to=["spot"])
    job = a_job(suspend=False, status={"active": 3, "ready": 3})
    assert written(plan(job, admitted, options=WAITING), "PodsReady") == (
        "True",
        "Started",
        "All pods reached readiness and the workload is running",
    )
    assert plan(job, admitted) == IDLE  # not configured


def test_pods_ready_is_the_first_condition_if_another_scheduler_reserves_quota() -> None:
    by_hand = replace(WAITING, scheduling=False)
    want = ("False", "WaitForStart", "Not all pods are ready or succeeded")
    assert written(plan(a_job(), a_workload(), options=by_hand), "PodsReady") == want


def test_finished_pods_are_reclaimable() -> None:
    pod_sets = (PodSet(count=3, template=template()),)
    job = a_job(suspend=False, completions=3, status={"active": 1, "succeeded": 2})
    got = plan(job, a_workload(admitted_to=["spot"], pod_sets=pod_sets))
    (patch,) = got.writes
    assert isinstance(patch, Patch)
    assert patch.body == {"status": {"reclaimablePods": [{"name": "main", "count": 2}]}}
    assert got.deferrable


def test_reclaimed_pods_do_not_need_quota_again_while_it_is_reserved() -> None:
    """Two of three pods succeed before the job starts with two: by its new parallelism only one is done."""
    pod_sets = (PodSet(count=3, min_count=1, template=template()),)
    reported = WorkloadStatus(reclaimable_pods=(ReclaimablePod(name="main", count=2),))
    workload = a_workload(admitted_to=["spot"], pod_sets=pod_sets, status=reported)
    job = a_job(
        suspend=False,
        parallelism=2,
        completions=3,
        annotations={"kueue.x-k8s.io/job-min-parallelism": "1"},
        status={"active": 1, "succeeded": 2},
    )
    assert plan(job, with_admitted_count(workload, 2)) == IDLE


def test_an_evicted_job_is_stopped_before_its_quota_is_released() -> None:
    evicted = a_workload("Evicted=PodsReadyTimeout", admitted_to=["spot"])
    stop = plan(a_job(**RUNNING), evicted)
    assert show(stop)[0] == "patch Job metadata.annotations spec.suspend"
    assert [(event.reason, event.message) for event in events(stop)] == [
        ("Stopped", "PodsReadyTimeout happened")
    ]
    release = plan(a_job(), evicted)
    assert show(release) == [
        "patch Workload/status status.accumulatedPastExecutionTimeSeconds status.admission status.conditions"
    ]
    assert written(release, "QuotaReserved") == ("False", "PendingEvaluation", "PodsReadyTimeout happened")
    assert written(release, "Requeued") == ("False", "PodsReadyTimeout", "PodsReadyTimeout happened")


def test_the_release_of_quota_resets_the_reclaimable_pods() -> None:
    done = WorkloadStatus(reclaimable_pods=(ReclaimablePod(name="main", count=2),))
    evicted = a_workload("Evicted=Preempted", admitted_to=["spot"], status=done)
    (patch,) = plan(a_job(), evicted).writes
    assert isinstance(patch, Patch)
    assert patch.body["status"]["admission"] is None
    assert patch.body["status"]["reclaimablePods"] is None


def test_a_running_job_that_is_not_admitted_is_stopped() -> None:
    got = plan(a_job(**RUNNING), a_workload())
    assert show(got)[0] == "patch Job metadata.annotations spec.suspend"
    assert [event.message for event in events(got)] == ["Not admitted by cluster queue"]


def test_the_workload_of_a_deleted_job_is_finished_and_released() -> None:
    for job in (None, a_job(deleted=True)):
        got = plan(job, a_workload(admitted_to=["spot"]))
        assert show(got) == [
            "patch Workload/status status.conditions",
            "patch Workload metadata.finalizers",
        ]
        assert written(got, "Finished") == ("True", "OwnerNotFound", "The workload's owner no longer exists")


def test_the_workload_of_a_deleted_job_keeps_its_quota_until_the_pods_have_ended() -> None:
    """A job with a finalizer of its author stays, and nothing stops its pods."""
    running = a_job(**RUNNING, deleted=True)
    for workload in (a_workload(admitted_to=["spot"]), a_workload(admitted_to=["spot"], deleted=True)):
        assert show(plan(running, workload)) == []
    assert show(plan(running, a_workload()))[0] == "patch Workload/status status.conditions", (
        "it has no quota"
    )


def test_a_job_is_suspended_when_its_workload_is_deleted() -> None:
    deleted = a_workload(admitted_to=["spot"], deleted=True)
    for job in (a_job(suspend=False), a_job(**RUNNING)):
        got = plan(job, deleted)
        assert show(got)[0] == "patch Job metadata.annotations spec.suspend"
        assert "patch Workload metadata.finalizers" not in show(got), "the job has not stopped"
    got = plan(a_job(), deleted)
    assert show(got)[-1] == "patch Workload metadata.finalizers"
    assert got.releases == (deleted,)


def test_a_suspended_job_can_change_its_queue() -> None:
    (patch,) = plan(a_job(queue="faster"), a_workload()).writes
    assert isinstance(patch, Patch)
    assert patch.body == {"spec": {"queueName": "faster"}}


def test_a_suspended_job_can_change_its_priority_class() -> None:
    high = WorkloadPriorityClass(metadata=ObjectMeta(name="high"), value=5)
    job = a_job(labels={"kueue.x-k8s.io/priority-class": "high"})
    (patch,) = plan(job, a_workload(), classes=[high]).writes
    assert isinstance(patch, Patch)
    assert patch.body["spec"]["priority"] == 5
    assert patch.body["spec"]["priorityClassRef"].name == "high"


def test_every_patch_has_the_resource_version_of_the_decision() -> None:
    evicted = a_workload("Evicted=Preempted", admitted_to=["spot"])
    versions = {
        (write.resource.kind, write.resource_version)
        for job in (a_job(**RUNNING), a_job())
        for write in plan(job, evicted).writes
        if isinstance(write, Patch)
    }
    assert versions == {("Job", "7"), ("Workload", "9")}
    assert is_true(evicted.status.conditions, "Evicted")


@pytest.mark.parametrize(
    ("job", "whole", "want"),
    [
        pytest.param(a_job(), (), [], id="the child is suspended"),
        pytest.param(a_job(suspend=False), (), ["Suspended"], id="the ancestor has no workload"),
        pytest.param(a_job(suspend=False), (a_workload(),), ["Suspended"], id="the ancestor is pending"),
        pytest.param(
            a_job(suspend=False), (a_workload(admitted_to=["spot"]),), [], id="the ancestor is admitted"
        ),
        pytest.param(
            a_job(suspend=False),
            (a_workload("Finished", admitted_to=["spot"]),),
            ["Suspended"],
            id="the ancestor has finished",
        ),
    ],
)
def test_a_child_runs_only_while_its_ancestor_is_admitted(
    job: Job, whole: tuple[Workload, ...], want: list[str]
) -> None:
    got = plan(job, ancestor_workloads=whole)
    assert reasons(got) == want
    assert show(got) == ["patch Job spec.suspend"] * len(want)


class JobOnHold(BatchJob):
    def is_on_hold(self, state: JobState[Job]) -> bool:
        return True


def decided(kind: BatchJob, workload: Workload) -> JobPlan:
    context = ReconcileContext(namespace_managed=True, flavors={}, workload_classes={}, pod_classes={})
    return decide(kind, a_job(), [workload], context, OPTIONS, NOW)


def test_a_job_on_hold_keeps_its_workload_without_quota() -> None:
    on_hold = decided(JobOnHold(), a_workload("QuotaReserved"))
    assert written(on_hold, "QuotaReserved") == ("False", "OnHold", "Job is on hold")
    assert decided(JobOnHold(), a_workload("!QuotaReserved=OnHold")) == IDLE
    back = decided(BatchJob(), a_workload("!QuotaReserved=OnHold"))
    assert written(back, "QuotaReserved") == (
        "False",
        "PendingEvaluation",
        "Workload no longer on hold; waiting for quota reservation",
    )


class ReportingJob(BatchJob):
    def conditions(self, state: JobState[Job], workload: Workload) -> tuple[Condition, ...]:
        return (Condition(type="Seen", status="True", reason="Seen", message="seen"),)


def test_a_kind_can_set_conditions_of_its_own_on_the_workload() -> None:
    first = decided(ReportingJob(), a_workload())
    assert written(first, "Seen") == ("True", "Seen", "seen")


def an_expiring_workload(*conditions: str) -> Workload:
    return a_workload("!QuotaReserved", "!Admitted", *conditions, active=False)


KEEPING = JobOptions(deactivated_retention_s=1_500.0)  # from 1000, the transition time of all conditions


@pytest.mark.parametrize(
    ("workload", "options", "want"),
    [
        pytest.param(
            an_expiring_workload("Evicted=DeactivatedDueToRequeuingLimitExceeded"),
            KEEPING,
            JobPlan(wake_at=2_500.0),
            id="within the retention",
        ),
        pytest.param(
            an_expiring_workload("Evicted=Deactivated"), KEEPING, IDLE, id="deactivated by its user"
        ),
        pytest.param(
            an_expiring_workload("Evicted=DeactivatedDueToRequeuingLimitExceeded"),
            OPTIONS,
            IDLE,
            id="without a retention",
        ),
        pytest.param(
            a_workload("!QuotaReserved", "!Admitted", "Evicted=DeactivatedDueToAdmissionCheck"),
            KEEPING,
            IDLE,
            id="active again",
        ),
    ],
)
def test_a_deactivated_job_is_kept_for_its_retention(
    workload: Workload, options: JobOptions, want: JobPlan
) -> None:
    assert plan(a_job(), workload, options=options) == want


def test_a_deactivated_job_is_deleted_after_its_retention() -> None:
    workload = an_expiring_workload("Evicted=DeactivatedDueToMaximumExecutionTimeExceeded")
    got = plan(a_job(), workload, options=JobOptions(deactivated_retention_s=1_000.0))
    assert (show(got), reasons(got)) == (["delete Job"], ["Deleted"])


def test_messages_of_pending_checks_are_reported() -> None:
    checks = (
        AdmissionCheckState(name="a", state="Pending", message="in line"),
        AdmissionCheckState(name="b", state="Pending", message="almost"),
        AdmissionCheckState(name="c", state="Ready", message="done"),
        AdmissionCheckState(name="d", state="Pending"),
    )
    pending = a_workload("QuotaReserved", status=WorkloadStatus(admission_checks=checks))
    (event,) = events(plan(a_job(), pending))
    assert (event.reason, event.message) == ("UpdatedAdmissionCheck", "a: in line; b: almost")


def test_without_the_gate_an_orphan_only_loses_its_finalizer() -> None:
    lenient = JobOptions(gates=Gates(finish_orphaned_workloads=False))
    assert show(plan(None, a_workload())) == [
        "patch Workload/status status.conditions",
        "patch Workload metadata.finalizers",
    ]
    assert show(plan(None, a_workload(), options=lenient)) == ["patch Workload metadata.finalizers"]


def test_without_the_gate_no_pod_is_reclaimable() -> None:
    done = a_job(suspend=False, parallelism=3, completions=3, status={"succeeded": 1, "active": 2})
    running = a_workload(admitted_to=["spot"])
    assert show(plan(done, running)) == ["patch Workload/status status.reclaimablePods"]
    assert plan(done, running, options=JobOptions(gates=Gates(reclaimable_pods=False))) == IDLE


def test_a_template_that_cannot_be_decoded_concerns_its_job_only() -> None:
    job = a_job()
    spec = msgspec.structs.replace(job.spec, template=msgspec.Raw(b'{"spec": {"containers": 7}}'))
    refused = plan(msgspec.structs.replace(job, spec=spec))
    assert (show(refused), reasons(refused)) == ([], ["ErrWorkloadCompose"])
