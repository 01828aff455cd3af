"""The one workload of a job: its creation, equivalence, update in place and surplus workloads."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from quorate.api.configuration.feature_gates import Gates
from quorate.api.kueue import (
    PodSet,
    Workload,
    WorkloadPriorityClass,
)
from quorate.api.meta import ObjectMeta, at_epoch
from quorate.controllers.jobframework.job_plan import IDLE, JobOptions, JobPlan
from quorate.kube.writes import Create, Delete, Patch
from tests.controllers.jobframework.plans import NOW, OPTIONS, RUNNING, events, plan, reasons, show
from tests.controllers.objects import CONTAINER, a_job, a_workload, template, with_admitted_count

SUSPENDED = {"type": "Suspended", "status": "True"}


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


def test_annotations_and_labels_without_effect_are_reported() -> None:
    minimum, limit = "kueue.x-k8s.io/job-min-parallelism", "kueue.x-k8s.io/max-exec-time-seconds"
    job = a_job(annotations={minimum: "few"}, labels={limit: "soon"})
    first, second, created = events(plan(job))
    assert (first.type, first.reason, second.reason) == ("Warning", "IgnoredAnnotation", "IgnoredAnnotation")
    assert first.message == f"metadata.annotations[{minimum}]: 'few' is not a whole number"
    assert second.message == f"metadata.labels[{limit}]: 'soon' is no number of seconds above 0"
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


@pytest.mark.parametrize(
    ("age_s", "generation", "conditions", "wakes_after_s"),
    [
        pytest.param(1, 2, [], 2, id="it was suspended after its creation: its pods may not be counted yet"),
        pytest.param(1, 2, [SUSPENDED], None, id="the Job controller has seen the suspension"),
        pytest.param(1, 1, [], None, id="it was created suspended"),
        pytest.param(3, 2, [], None, id="no Job controller sets the condition"),
    ],
)
def test_the_workload_is_created_when_the_status_counts_all_pods(
    age_s: int, generation: int, conditions: list[dict[str, str]], wakes_after_s: float | None
) -> None:
    job = a_job(status={"conditions": conditions})
    created = at_epoch(NOW - age_s)
    metadata = replace(job.metadata, creation_timestamp=created, generation=generation)
    got = plan(replace(job, metadata=metadata))
    if wakes_after_s is None:
        assert show(got) == ["create Workload"]
    else:
        assert got == JobPlan(wake_at=NOW + wakes_after_s)


def test_a_job_waits_for_a_missing_priority_class() -> None:
    job = a_job(labels={"kueue.x-k8s.io/priority-class": "high"})
    got = plan(job)
    assert (got.writes, reasons(got)) == ((), ["WorkloadPriorityClassNotFound"])
    assert got.events[0].event.message == 'WorkloadPriorityClass "high" not found'
    assert got.missing_dependency == "WorkloadPriorityClass high doesn't exist: create it, or name another"
    high = WorkloadPriorityClass(metadata=ObjectMeta(name="high"), value=5)
    assert show(plan(job, classes=[high])) == ["create Workload"]


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


def reserved(admitted: Workload) -> Workload:
    """Return the workload as it was before its admission, with its quota."""
    conditions = tuple(condition for condition in admitted.status.conditions if condition.type != "Admitted")
    return replace(admitted, status=replace(admitted.status, conditions=conditions))


def test_other_tolerations_before_the_admission_are_a_change() -> None:
    """The flavor that is reserved was chosen for the former ones."""
    admitted = a_workload(admitted_to=["spot"])
    changed = a_job(template=template(tolerations=[{"key": "other"}]))
    assert reasons(plan(changed, reserved(admitted))) == ["DeletedWorkload"]
    assert plan(a_job(), reserved(admitted)) == IDLE
    assert reasons(plan(changed, admitted)) == ["Started"]


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param(template(nodeSelector={"zone": "b"}), id="node selector"),
        pytest.param(template(affinity={"nodeAffinity": {}, "podAffinity": {"x": []}}), id="affinity"),
        pytest.param(template(tolerations=[{"key": "spot"}]), id="tolerations"),
        pytest.param(
            template(annotations={"kueue.x-k8s.io/podset-preferred-topology": "rack"}), id="topology request"
        ),
    ],
)
def test_what_places_the_pods_may_change_until_the_job_is_admitted(changed: Any) -> None:
    job = a_job(template=changed)
    got = plan(job, a_workload("!QuotaReserved=Pending"))
    assert reasons(got) == ["UpdatedWorkload"]
    (patch,) = got.writes
    assert isinstance(patch, Patch)
    follows = a_workload("!QuotaReserved=Pending", pod_sets=patch.body["spec"]["podSets"])
    assert plan(job, follows) == IDLE, "the update is the last one"
    admitted = a_workload(admitted_to=["spot"])
    assert reasons(plan(job, reserved(admitted))) == ["DeletedWorkload"], "the flavor was chosen before"
    assert plan(a_job(template=changed, **RUNNING), admitted) == IDLE


@pytest.mark.parametrize(
    "field",
    [
        {"resources": {"requests": {"cpu": "4"}}},
        {"initContainers": [CONTAINER]},
        {"overhead": {"cpu": "1"}},
        {"runtimeClassName": "sandbox"},
        {"resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "two"}]},
    ],
)
def test_whatever_adds_requests_is_a_change(field: dict[str, Any]) -> None:
    got = plan(a_job(template=template(**field), **RUNNING), a_workload(admitted_to=["spot"]))
    assert reasons(got) == ["Stopped"]
    workload = a_workload(admitted_to=["spot"], pod_sets=[PodSet(count=3, template=template(**field))])
    assert plan(a_job(template=template(**field), **RUNNING), workload) == IDLE


@pytest.mark.parametrize("env", ["all", [1], [{"value": "1"}], [{"name": ["a"]}], {"name": "a"}])
def test_variables_without_their_form_are_compared_as_they_are(env: Any) -> None:
    """A kind without a schema may store them; such a job is not in sync with one that has others."""
    odd = template(containers=[{**CONTAINER, "env": env}])
    with_same = a_workload(pod_sets=[PodSet(count=3, template=odd)])
    assert plan(a_job(template=odd), with_same) == IDLE
    assert plan(a_job(template=template()), with_same) != IDLE


def test_a_partially_admitted_job_is_equivalent_with_fewer_pods() -> None:
    annotations = {"kueue.x-k8s.io/job-min-parallelism": "1"}
    whole = PodSet(count=3, min_count=1, template=template())
    workload = with_admitted_count(a_workload(admitted_to=["spot"], pod_sets=[whole]), 2)
    assert plan(a_job(parallelism=2, annotations=annotations, **RUNNING), workload) == IDLE


def test_an_admission_without_finished_pods_is_equivalent_to_the_whole_job() -> None:
    """Pods that succeeded before an eviction are not admitted again; the job keeps its counts."""
    workload = with_admitted_count(a_workload(admitted_to=["spot"]), 2)
    assert plan(a_job(**RUNNING), workload) == IDLE


def test_surplus_workloads_are_deleted() -> None:
    got = plan(a_job(), a_workload(), a_workload(name="other"))
    assert [write.key.name for write in got.writes if isinstance(write, Delete)] == ["other"]
    assert reasons(got) == ["DeletedWorkload"]


def test_the_workload_of_an_earlier_job_of_the_same_name_is_deleted() -> None:
    got = plan(a_job(), a_workload(uid="another life"))
    assert show(got) == ["patch Workload metadata.finalizers", "delete Workload"]


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
    without = JobOptions(gates=Gates(workload_priority_class_defaulting=False))
    priorities = [
        write.body.spec.priority
        for options, classes in ((without, [default]), (OPTIONS, []), (OPTIONS, [default]))
        for write in plan(a_job(), options=options, classes=classes).writes
        if isinstance(write, Create)
    ]
    assert priorities == [0, 0, 7]
