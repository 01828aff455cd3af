"""The rules of the job reconciler, each with the jobs that it applies to."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from quorate.api.batch import Job
from quorate.api.configuration.feature_gates import Gates
from quorate.api.core import Toleration
from quorate.api.kueue import (
    AdmissionCheckState,
    PodSet,
    PodSetUpdate,
    ReclaimablePod,
    ResourceFlavor,
    Workload,
    WorkloadPriorityClass,
    WorkloadStatus,
)
from quorate.api.meta import Condition, Key, ObjectMeta, find_condition, is_true
from quorate.controllers.jobframework.interface import JobState
from quorate.controllers.jobframework.job_plan import IDLE, JobOptions, JobPlan, ReconcileContext
from quorate.controllers.jobframework.pod_group_membership import Membership
from quorate.controllers.jobframework.rules import decide
from quorate.controllers.jobs.batch import BatchJob
from quorate.kube.writes import Apply, Create, Delete, Patch, Write
from quorate.queueing.lifecycle.transition import Event
from tests.controllers.objects import CONTAINER, a_flavor, a_job, a_workload, template

NOW = 2_000.0
SPOT = a_flavor("spot", node_labels={"pool": "spot"}, tolerations=(Toleration(key="spot"),))
OPTIONS = JobOptions()
WAITING = JobOptions(wait_for_pods_ready=True)


def plan(
    job: Job | None,
    *workloads: Workload,
    options: JobOptions = OPTIONS,
    managed: bool = True,
    flavors: Sequence[ResourceFlavor] = (SPOT,),
    classes: Sequence[WorkloadPriorityClass] = (),
    ancestor_workloads: tuple[Workload, ...] | None = None,
    membership: Membership | None = None,
) -> JobPlan:
    context = ReconcileContext(
        namespace_managed=managed,
        flavors={flavor.metadata.name: flavor for flavor in flavors},
        workload_classes={each.metadata.name: each for each in classes},
        pod_classes={},
        ancestor_workloads=ancestor_workloads,
        membership=membership,
    )
    return decide(BatchJob(), job, workloads, context, options, NOW)


def show(plan: JobPlan) -> list[str]:
    """Return the writes of a plan: verb, kind and changed fields."""
    return [_show(write) for write in plan.writes]


def _show(write: Write) -> str:
    match write:
        case Create(resource):
            return f"create {resource.kind}"
        case Delete(resource):
            return f"delete {resource.kind}"
        case Apply(resource):
            return f"apply {resource.kind}"
        case Patch(resource, _, _, body, subresource):
            fields = sorted(f"{top}.{name}" for top, part in body.items() for name in part)
            return f"patch {resource.kind}{'/status' if subresource else ''} {' '.join(fields)}"


def events(plan: JobPlan) -> list[Event]:
    return [each.event for each in plan.events]


def reasons(plan: JobPlan) -> list[str]:
    return [event.reason for event in events(plan)]


def written(plan: JobPlan, type_: str) -> tuple[str, str, str]:
    """Return the condition of ``type_`` in the one status patch of a plan: status, reason, message."""
    (body,) = (write.body for write in plan.writes if isinstance(write, Patch) and "status" in write.body)
    conditions = msgspec.convert(body["status"]["conditions"], tuple[Condition, ...])
    found = find_condition(conditions, type_)
    assert found is not None, f"{type_} is not written"
    return (found.status, found.reason, found.message)


RUNNING: dict[str, Any] = {"suspend": False, "status": {"active": 3, "startTime": "2024-01-01T00:00:00Z"}}


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


def test_a_suspended_job_gets_a_workload() -> None:
    got = plan(a_job())
    assert show(got) == ["create Workload"]
    (create,) = got.writes
    assert isinstance(create, Create)
    assert create.body.metadata.name == "job-train-e4af4"
    assert reasons(got) == ["CreatedWorkload"]


def test_an_ignored_topology_request_is_reported_once() -> None:
    request = "kueue.x-k8s.io/podset-required-topology"
    job = a_job(template=template(annotations={request: "rack"}))
    ignored, created = events(plan(job))
    assert (ignored.type, ignored.reason) == ("Warning", "IgnoredAnnotation")
    assert ignored.message == (
        f"pod set main: metadata.annotations[{request}]: 'rack' is without effect: there is no "
        "topology-aware scheduling here, pods are admitted by quota alone (affinity can keep them together)"
    )
    assert created.reason == "CreatedWorkload"


def test_the_queue_name_may_be_the_older_annotation() -> None:
    job = a_job(queue="", annotations={"kueue.x-k8s.io/queue-name": "old"})
    (create,) = plan(job).writes
    assert isinstance(create, Create)
    assert create.body.spec.queue_name == "old"


def test_jobs_without_a_queue_name_are_managed_if_configured() -> None:
    options = JobOptions(manage_jobs_without_queue_name=True)
    assert show(plan(a_job(queue="", **RUNNING), options=options))[0].startswith("patch Job")


def test_a_job_that_was_created_running_is_suspended_at_once() -> None:
    got = plan(a_job(**RUNNING))
    assert show(got) == ["patch Job spec.suspend"]
    assert reasons(got) == ["Stopped"]


def test_the_workload_is_created_when_the_last_pod_is_gone() -> None:
    assert plan(a_job(status={"active": 1})) == IDLE
    assert show(plan(a_job(status={"active": 0}))) == ["create Workload"]


def test_a_job_waits_for_a_missing_priority_class() -> None:
    job = a_job(labels={"kueue.x-k8s.io/priority-class": "high"})
    got = plan(job)
    assert (got.writes, reasons(got)) == ((), ["ErrWorkloadCompose"])
    assert got.missing_dependency == "WorkloadPriorityClass high doesn't exist: create it, or name another"
    high = WorkloadPriorityClass(metadata=ObjectMeta(name="high"), value=5)
    assert show(plan(job, classes=[high])) == ["create Workload"]


def test_an_admitted_job_starts_with_the_fields_of_its_flavor() -> None:
    got = plan(a_job(), a_workload(admitted_to=["spot"]))
    (patch,) = got.writes
    assert isinstance(patch, Patch)
    assert patch.body == {
        "spec": {
            "suspend": False,
            "template": {
                "metadata": {
                    "labels": {
                        "kueue.x-k8s.io/podset": "main",
                        "kueue.x-k8s.io/local-queue-name": "queue",
                        "kueue.x-k8s.io/cluster-queue-name": "research",
                    },
                    "annotations": {"kueue.x-k8s.io/workload": "job-train-e4af4"},
                },
                "spec": {"nodeSelector": {"pool": "spot"}, "tolerations": [{"key": "spot"}]},
            },
        }
    }
    (event,) = events(got)
    assert (event.reason, event.message) == ("Started", "Admitted by clusterQueue research")


def test_a_queue_name_that_is_not_a_label_value_is_not_injected() -> None:
    workload = a_workload(admitted_to=["spot"], queue="a.dotted.name")
    job = a_job(queue="a.dotted.name")
    (patch,) = plan(job, workload).writes
    assert isinstance(patch, Patch)
    labels = patch.body["spec"]["template"]["metadata"]["labels"]
    assert sorted(labels) == ["kueue.x-k8s.io/cluster-queue-name", "kueue.x-k8s.io/podset"]


def test_a_job_that_conflicts_with_its_flavor_fails_to_start() -> None:
    job = a_job(template=template(nodeSelector={"pool": "dear"}))
    got = plan(job, a_workload(admitted_to=["spot"]))
    assert show(got) == ["patch Workload/status status.conditions"]
    assert written(got, "Finished") == (
        "True",
        "FailedToStart",
        "pod set main: nodeSelector[pool] is 'dear' in the pod template "
        "but 'spot' is required where it was admitted",
    )


def test_a_job_waits_for_a_missing_flavor() -> None:
    got = plan(a_job(), a_workload(admitted_to=["spot"]), flavors=[])
    assert got == JobPlan(missing_dependency="ResourceFlavor spot doesn't exist")


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


def test_finished_pods_are_reclaimable() -> None:
    pod_sets = (PodSet(count=3, template=template()),)
    job = a_job(suspend=False, completions=3, status={"active": 1, "succeeded": 2})
    got = plan(job, a_workload(admitted_to=["spot"], pod_sets=pod_sets))
    (patch,) = got.writes
    assert isinstance(patch, Patch)
    assert patch.body == {"status": {"reclaimablePods": [{"name": "main", "count": 2}]}}
    assert got.deferrable


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
    assert written(release, "QuotaReserved") == ("False", "Pending", "PodsReadyTimeout happened")
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
        assert written(got, "Finished")[:2] == ("True", "OwnerNotFound")


def test_a_job_is_suspended_when_its_workload_is_deleted() -> None:
    deleted = a_workload(admitted_to=["spot"], deleted=True)
    got = plan(a_job(suspend=False), deleted)
    assert show(got)[0] == "patch Job metadata.annotations spec.suspend"
    assert show(got)[-1] == "patch Workload metadata.finalizers"
    assert show(plan(a_job(**RUNNING), deleted)) == ["patch Job metadata.annotations spec.suspend"], (
        "the finalizer is removed when the last pod is gone"
    )


BIGGER = template(containers=[{**CONTAINER, "resources": {"requests": {"cpu": "2"}}}])


def test_the_workload_of_a_suspended_job_is_updated_in_place() -> None:
    got = plan(a_job(template=BIGGER, parallelism=5), a_workload())
    (patch,) = got.writes
    assert isinstance(patch, Patch)
    (pod_set,) = patch.body["spec"]["podSets"]
    assert (pod_set.count, b'"cpu":"2"' in bytes(pod_set.template)) == (5, True)
    assert "active" not in patch.body["spec"]
    assert reasons(got) == ["UpdatedWorkload"]


def test_a_running_job_that_was_changed_is_stopped_and_restored() -> None:
    workload = a_workload(admitted_to=["spot"])
    got = plan(a_job(template=BIGGER, suspend=False), workload)
    assert reasons(got) == ["Stopped", "DeletedWorkload"]
    assert show(got)[-2:] == ["patch Workload metadata.finalizers", "delete Workload"]
    assert reasons(plan(a_job(template=BIGGER, **RUNNING), workload)) == ["Stopped"], (
        "the workload is needed for the restoration when the last pod is gone"
    )


def test_injected_fields_do_not_count_as_a_change() -> None:
    started = template(nodeSelector={"pool": "spot"}, tolerations=[{"key": "spot"}])
    assert plan(a_job(template=started, **RUNNING), a_workload(admitted_to=["spot"])) == IDLE


def test_a_partially_admitted_job_is_equivalent_with_fewer_pods() -> None:
    annotations = {"kueue.x-k8s.io/job-min-parallelism": "1"}
    whole = PodSet(count=3, min_count=1, template=template())
    workload = a_workload(admitted_to=["spot"], pod_sets=[whole])
    assert workload.status.admission is not None
    (assignment,) = workload.status.admission.pod_set_assignments
    fewer = msgspec.structs.replace(assignment, count=2)
    admission = msgspec.structs.replace(workload.status.admission, pod_set_assignments=(fewer,))
    workload = msgspec.structs.replace(
        workload, status=msgspec.structs.replace(workload.status, admission=admission)
    )
    assert plan(a_job(parallelism=2, annotations=annotations, **RUNNING), workload) == IDLE


def test_an_admission_without_finished_pods_is_equivalent_to_the_whole_job() -> None:
    """Pods that succeeded before an eviction are not admitted again; the job keeps its counts."""
    workload = a_workload(admitted_to=["spot"])
    admission = workload.status.admission
    assert admission is not None
    (assignment,) = admission.pod_set_assignments
    left = msgspec.structs.replace(
        admission, pod_set_assignments=(msgspec.structs.replace(assignment, count=2),)
    )
    status = msgspec.structs.replace(workload.status, admission=left)
    assert plan(a_job(**RUNNING), msgspec.structs.replace(workload, status=status)) == IDLE


def test_surplus_workloads_are_deleted() -> None:
    got = plan(a_job(), a_workload(), a_workload(name="other"))
    assert [write.key.name for write in got.writes if isinstance(write, Delete)] == ["other"]
    assert reasons(got) == ["DeletedWorkload"]


def test_the_workload_of_an_earlier_job_of_the_same_name_is_deleted() -> None:
    got = plan(a_job(), a_workload(uid="another life"))
    assert show(got) == ["patch Workload metadata.finalizers", "delete Workload"]


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


def test_the_condition_admitted_without_an_admission_starts_nothing() -> None:
    got = plan(a_job(), a_workload("QuotaReserved", "Admitted"))
    assert got.writes == ()
    (event,) = events(got)
    assert (event.type, event.reason) == ("Warning", "NotStarted")
    assert event.message == (
        "workload default/job-train-e4af4: status.admission: nothing while the condition Admitted is True, "
        "but says where the pods run (leave the condition to the controllers, or write both)"
    )


def test_an_admission_without_a_pod_set_fails_to_start() -> None:
    admitted = a_workload(admitted_to=["spot"])
    assert admitted.status.admission is not None
    short = msgspec.structs.replace(admitted.status.admission, pod_set_assignments=())
    status = msgspec.structs.replace(admitted.status, admission=short)
    got = plan(a_job(), msgspec.structs.replace(admitted, status=status))
    status_, reason, message = written(got, "Finished")
    assert (status_, reason) == ("True", "FailedToStart")
    assert "podSetAssignments: 0 for 1 pod sets" in message


class JobOnHold(BatchJob):
    def is_on_hold(self, job: Job) -> bool:
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
        "Pending",
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


def started_with(**update: Any) -> JobPlan:
    check = AdmissionCheckState(
        name="prov", state="Ready", pod_set_updates=(PodSetUpdate(name="main", **update),)
    )
    admitted = a_workload(admitted_to=["spot"], status=WorkloadStatus(admission_checks=(check,)))
    return plan(a_job(), admitted)


def test_a_job_starts_with_the_updates_of_its_checks() -> None:
    got = started_with(
        labels={"l": "1"}, annotations={"a": "2"}, node_selector={"zone": "b"},
        tolerations=(Toleration(key="spot"), Toleration(key="new")),
    )  # fmt: skip
    (patch,) = got.writes
    assert isinstance(patch, Patch)
    template = patch.body["spec"]["template"]
    assert template["metadata"]["labels"]["l"] == "1"
    assert template["metadata"]["annotations"]["a"] == "2"
    assert template["spec"]["nodeSelector"] == {"pool": "spot", "zone": "b"}
    assert [each["key"] for each in template["spec"]["tolerations"]] == ["spot", "new"]


def test_a_check_that_conflicts_with_the_flavor_fails_the_start() -> None:
    _, reason, message = written(started_with(node_selector={"pool": "dear"}), "Finished")
    assert reason == "FailedToStart"
    assert message == (
        "pod set main: nodeSelector[pool]: 'dear' is wanted by admission check prov, "
        "but 'spot' already where it was admitted"
    )


def test_pods_have_labels_of_their_queues_with_the_gate() -> None:
    labelled, bare = (
        plan(
            a_job(),
            a_workload(admitted_to=["spot"]),
            options=JobOptions(gates=Gates(assign_queue_labels_for_pods=on)),
        )
        for on in (True, False)
    )
    names = [
        sorted(write.body["spec"]["template"]["metadata"]["labels"])
        for got in (labelled, bare)
        for write in got.writes
        if isinstance(write, Patch)
    ]
    assert names == [
        ["kueue.x-k8s.io/cluster-queue-name", "kueue.x-k8s.io/local-queue-name", "kueue.x-k8s.io/podset"],
        ["kueue.x-k8s.io/podset"],
    ]


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


def test_with_the_gate_workload_names_fit_a_label() -> None:
    short = JobOptions(gates=Gates(short_workload_names=True))
    job = msgspec.structs.replace(a_job(), metadata=msgspec.structs.replace(a_job().metadata, name="a" * 63))
    lengths = [
        len(write.body.metadata.name)
        for options in (OPTIONS, short)
        for write in plan(job, options=options).writes
        if isinstance(write, Create)
    ]
    assert lengths == [73, 63]


def test_with_the_gate_the_default_priority_class_applies() -> None:
    default = WorkloadPriorityClass(metadata=ObjectMeta(name="default"), value=7)
    by_default = JobOptions(gates=Gates(workload_priority_class_defaulting=True))
    priorities = [
        write.body.spec.priority
        for options, classes in ((OPTIONS, [default]), (by_default, []), (by_default, [default]))
        for write in plan(a_job(), options=options, classes=classes).writes
        if isinstance(write, Create)
    ]
    assert priorities == [0, 0, 7]


def test_a_job_in_a_pod_group_starts_when_quota_and_group_are_admitted() -> None:
    group = Key("default", "podgroup-1")
    pending = plan(a_job(), a_workload(admitted_to=["spot"]), membership=Membership(group, admitted=False))
    assert (show(pending), reasons(pending)) == ([], ["PodGroupPending"])
    starts = plan(a_job(), a_workload(admitted_to=["spot"]), membership=Membership(group, admitted=True))
    (patch,) = starts.writes
    assert isinstance(patch, Patch)
    annotations = patch.body["spec"]["template"]["metadata"]["annotations"]
    assert annotations["scheduling.k8s.io/group-name"] == "podgroup-1"
    assert reasons(starts) == ["Started"]


def test_a_job_waits_admitted_while_its_pod_group_is_pending_again() -> None:
    suspended_again = a_job(status={"active": 0, "startTime": "2024-01-01T00:00:00Z"})
    group = Membership(Key("default", "podgroup-1"), admitted=False)
    assert show(plan(suspended_again, a_workload(admitted_to=["spot"]), membership=group)) == []
