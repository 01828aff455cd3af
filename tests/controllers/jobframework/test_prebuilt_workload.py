"""Jobs with a prebuilt workload, and changes of labels that a workload follows."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from quorate.api.batch import Job
from quorate.api.configuration.feature_gates import Gates
from quorate.api.kueue import AdmissionCheckState, PriorityClassRef, Workload, WorkloadPriorityClass
from quorate.api.meta import ObjectMeta, OwnerReference, Uid
from quorate.controllers.jobframework.construct_workload import prebuilt_name_of, workload_name
from quorate.controllers.jobframework.job_plan import IDLE, JobOptions, JobPlan, ReconcileContext
from quorate.controllers.jobframework.rules import decide
from quorate.controllers.jobs.batch import BatchJob
from quorate.kube.writes import Patch
from tests.controllers.jobframework.plans import RUNNING, events, reasons, show, written
from tests.controllers.objects import CONTAINER, a_job, a_workload, template

NAME = "kueue.x-k8s.io/prebuilt-workload-name"
GATED_BY = "kueue.x-k8s.io/admission-gated-by"


def plan(
    job: Job,
    *workloads: Workload,
    prebuilt: Workload | None = None,
    classes: Mapping[str, int] | None = None,
    **gates: bool,
) -> JobPlan:
    context = ReconcileContext(
        namespace_managed=True,
        flavors={},
        workload_classes={
            name: WorkloadPriorityClass(metadata=ObjectMeta(name=name), value=value)
            for name, value in (classes or {}).items()
        },
        pod_classes={},
        prebuilt=prebuilt,
    )
    return decide(BatchJob(), job, workloads, context, JobOptions(gates=Gates(**gates)), 2_000.0)


def naming(**fields: Any) -> Job:
    return a_job(labels={NAME: "made-by-others"}, **fields)


def owned_by(workload: Workload, *owners: OwnerReference) -> Workload:
    metadata = msgspec.structs.replace(workload.metadata, owner_references=owners)
    return msgspec.structs.replace(workload, metadata=metadata)


@pytest.mark.parametrize(
    ("label", "annotation", "by_annotation", "want"),
    [
        pytest.param("a", "b", True, "b", id="the annotation takes precedence"),
        pytest.param("a", "b", False, "a", id="without the gate the label does"),
        pytest.param("a", "b" * 64, False, "b" * 64, id="except for names that are too long for a label"),
        pytest.param("a", "", True, "a", id="label only"),
        pytest.param("", "b", True, "b", id="annotation only"),
        pytest.param("", "", True, "", id="neither"),
    ],
)
def test_the_name_of_a_prebuilt_workload(label: str, annotation: str, by_annotation: bool, want: str) -> None:
    metadata = ObjectMeta(name="train", labels={NAME: label}, annotations={NAME: annotation})
    assert prebuilt_name_of(metadata, by_annotation=by_annotation) == want


def test_a_job_waits_for_its_prebuilt_workload_and_creates_none() -> None:
    assert plan(naming()) == IDLE
    running = plan(naming(suspend=False))
    assert [(event.reason, event.message) for event in events(running)] == [("Stopped", "missing workload")]
    assert show(running) == ["patch Job spec.suspend"]


def test_a_job_adopts_a_prebuilt_workload_without_a_controller() -> None:
    other = OwnerReference(api_version="v1", kind="ConfigMap", name="maker", uid=Uid("m"))
    (patch,) = plan(naming(), prebuilt=owned_by(a_workload(), other)).writes
    assert isinstance(patch, Patch)
    metadata = patch.body["metadata"]
    assert [(owner.name, owner.controller) for owner in metadata["ownerReferences"]] == [
        ("maker", False),
        ("train", True),
    ]
    assert metadata["labels"] == {"kueue.x-k8s.io/job-uid": "u1"}


def test_a_prebuilt_workload_of_another_job_is_a_name_conflict() -> None:
    refused = plan(naming(), prebuilt=a_workload(uid="another"))
    assert (refused.writes, reasons(refused)) == ((), ["WorkloadNameConflict"])
    assert refused.events[0].event.message == (
        "Workload job-train-e4af4 belongs to Job train: the job cannot run with it"
    )
    running = plan(naming(**RUNNING), prebuilt=a_workload(uid="another"))
    assert reasons(running) == ["Stopped", "WorkloadNameConflict"]


def test_a_job_follows_its_prebuilt_workload_like_any_other() -> None:
    workload = a_workload()
    assert plan(naming(), workload, prebuilt=workload) == IDLE
    assert reasons(plan(naming(**RUNNING), workload, prebuilt=workload)) == ["Stopped"]


def test_a_prebuilt_workload_that_is_not_equivalent_is_finished() -> None:
    bigger = template(containers=[{**CONTAINER, "resources": {"requests": {"cpu": "2"}}}])
    workload = a_workload()
    got = plan(naming(template=bigger, suspend=False), workload, prebuilt=workload)
    assert written(got, "Finished") == (
        "True",
        "OutOfSync",
        "The prebuilt workload is out of sync with its user job",
    )
    assert show(got)[-1] == "patch Job spec.suspend"
    finished = a_workload("Finished=OutOfSync")
    assert reasons(plan(naming(template=bigger), finished, prebuilt=finished)) == ["FinishedWorkload"]


# Feature gates, and labels that a workload follows.


def test_without_its_gate_the_workload_of_an_earlier_job_is_reused() -> None:
    former = a_workload(uid="former")
    assert reasons(plan(a_job(), former)) == ["DeletedWorkload"]
    assert plan(a_job(), former, finish_orphaned_workloads=False) == IDLE


def test_without_its_gate_an_orphan_only_loses_its_finalizer() -> None:
    assert show(plan(a_job(deleted=True), a_workload(), finish_orphaned_workloads=False)) == [
        "patch Workload metadata.finalizers"
    ]


def test_a_short_name_fits_a_label() -> None:
    name = workload_name("Job", "batch", "a" * 253, Uid("u"), short=True)
    assert (len(name), name[:-6]) == (63, f"job-{'a' * 53}")


def test_without_its_gate_no_pod_is_reclaimable() -> None:
    done = a_job(suspend=False, completions=3, status={"active": 1, "succeeded": 2})
    assert plan(done, a_workload(admitted_to=["spot"]), reclaimable_pods=False) == IDLE


def test_a_running_job_can_change_its_priority_class() -> None:
    workload = a_workload(admitted_to=["spot"], priority_class_ref=ref("low"))
    job = a_job(labels={"kueue.x-k8s.io/priority-class": "high"}, **RUNNING)
    got = plan(job, workload, classes={"high": 100})
    (patch,) = got.writes
    assert isinstance(patch, Patch)
    assert patch.body["spec"]["priority"] == 100
    assert patch.body["spec"]["priorityClassRef"].name == "high"
    assert reasons(got) == ["UpdatedWorkload"]


def test_a_running_job_waits_for_a_missing_priority_class() -> None:
    workload = a_workload(admitted_to=["spot"], priority_class_ref=ref("low"))
    job = a_job(labels={"kueue.x-k8s.io/priority-class": "high"}, **RUNNING)
    got = plan(job, workload)
    assert (got.writes, bool(got.missing_dependency)) == ((), True)
    assert reasons(got) == ["WorkloadPriorityClassNotFound"]
    evicted = a_workload("Evicted=Preempted", admitted_to=["spot"], priority_class_ref=ref("low"))
    stopped = plan(job, evicted)
    assert bool(stopped.missing_dependency)
    assert reasons(stopped) == ["WorkloadPriorityClassNotFound", "Stopped"], "other rules apply meanwhile"


def ref(name: str) -> PriorityClassRef:
    return PriorityClassRef(group="kueue.x-k8s.io", kind="WorkloadPriorityClass", name=name)


def test_a_workload_has_the_admission_gates_of_its_job() -> None:
    job = a_job(annotations={GATED_BY: "example.com/a"})
    (patch,) = plan(job, a_workload()).writes
    assert isinstance(patch, Patch)
    assert patch.body == {"metadata": {"annotations": {GATED_BY: "example.com/a"}}}
    assert plan(job, a_workload(), admission_gated_by=False) == IDLE


def test_pending_checks_are_reported_on_the_job() -> None:
    checks = (
        AdmissionCheckState(name="a", state="Pending", message="one moment"),
        AdmissionCheckState(name="b", state="Ready", message="done"),
        AdmissionCheckState(name="c", state="Pending", message=""),
        AdmissionCheckState(name="d", state="Pending", message="nearly"),
    )
    reserved = a_workload("QuotaReserved")
    status = msgspec.structs.replace(reserved.status, admission_checks=checks)
    got = plan(a_job(), msgspec.structs.replace(reserved, status=status))
    assert [(event.reason, event.message) for event in events(got)] == [
        ("UpdatedAdmissionCheck", "a: one moment; d: nearly")
    ]
    assert got.writes == ()
