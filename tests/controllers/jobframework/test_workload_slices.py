"""Elastic jobs: the slices for each size."""

from typing import Any

import msgspec
import pytest

from quorate.api.batch import Job
from quorate.api.configuration.pods_ready import WaitForPodsReady
from quorate.api.kueue import (
    PodSet,
    PriorityClassRef,
    ReclaimablePod,
    RequeueState,
    Workload,
    WorkloadPriorityClass,
    WorkloadStatus,
)
from quorate.api.meta import ObjectMeta, at_epoch
from quorate.controllers.jobframework.elastic_gates import ELASTIC_GATE
from quorate.controllers.jobframework.job_plan import IDLE, JobOptions, JobPlan, ReconcileContext
from quorate.controllers.jobframework.rules import decide
from quorate.controllers.jobs.batch import BatchJob
from quorate.kube.patches import merged
from quorate.kube.writes import Create, Delete, Patch
from quorate.queueing.conditions import new_condition
from tests.controllers.jobframework.plans import RUNNING, SPOT, reasons, show, written
from tests.controllers.objects import a_job, a_workload, template, with_admitted_count

GATED = template(schedulingGates=[{"name": ELASTIC_GATE}])
REPLACES = "kueue.x-k8s.io/workload-slice-replacement-for"
SLICE_NAME = "kueue.x-k8s.io/workload-slice-name"


def a_growing_job(parallelism: int = 3, **fields: Any) -> Job:
    fields = {"template": GATED, **fields}
    return a_job(parallelism=parallelism, annotations={"kueue.x-k8s.io/elastic-job": "true"}, **fields)


def a_slice(pods: int, *conditions: str, name: str = "first", replaces: str = "", **fields: Any) -> Workload:
    workload = a_workload(*conditions, name=name, pod_sets=(PodSet(count=pods, template=GATED),), **fields)
    if not replaces:
        return workload
    annotations = {**workload.metadata.annotations, REPLACES: f"default/{replaces}"}
    metadata = msgspec.structs.replace(workload.metadata, annotations=annotations)
    return msgspec.structs.replace(workload, metadata=metadata)


def running(pods: int, name: str = "first", **fields: Any) -> Workload:
    return a_slice(pods, name=name, admitted_to=["spot"], **fields)


HIGH_REF = PriorityClassRef(group="kueue.x-k8s.io", kind="WorkloadPriorityClass", name="high")
CLASSES = {"high": WorkloadPriorityClass(metadata=ObjectMeta(name="high"), value=1000)}


def plan(
    job: Job, *slices: Workload, elastic_jobs: bool = True, options: JobOptions | None = None
) -> JobPlan:
    context = ReconcileContext(
        namespace_managed=True, flavors={"spot": SPOT}, workload_classes=CLASSES, pod_classes={}
    )
    options = options or JobOptions(elastic_jobs=elastic_jobs)
    return decide(BatchJob(), job, slices, context, options, 2_000.0)


def created(got: JobPlan) -> Workload:
    (write,) = got.writes
    assert isinstance(write, Create)
    workload: Workload = write.body
    return workload


def test_a_slice_without_quota_follows_what_places_the_pods() -> None:
    moved = template(schedulingGates=[{"name": ELASTIC_GATE}], nodeSelector={"zone": "b"})
    assert reasons(plan(a_growing_job(template=moved), a_slice(3))) == ["UpdatedWorkload"]
    assert plan(a_growing_job(template=moved, suspend=False), running(3)) == IDLE


def test_the_pod_template_is_gated_before_the_first_slice_exists() -> None:
    assert reasons(plan(a_growing_job(suspend=False, template=template()))) == ["Stopped"]
    (patch,) = plan(a_growing_job(template=template())).writes
    assert isinstance(patch, Patch)
    assert patch.body["spec"]["template"]["spec"] == {"schedulingGates": [{"name": ELASTIC_GATE}]}
    first = created(plan(a_growing_job()))
    assert first.metadata.annotations[SLICE_NAME] == first.metadata.name
    assert REPLACES not in first.metadata.annotations


def test_a_job_does_not_start_while_pods_of_its_first_run_may_be_uncounted() -> None:
    young = a_growing_job()
    metadata = msgspec.structs.replace(young.metadata, creation_timestamp=at_epoch(1_999.0), generation=2)
    young = msgspec.structs.replace(young, metadata=metadata)
    assert plan(young, running(3)) == JobPlan(wake_at=2_002.0)
    seen = a_growing_job(status={"conditions": [{"type": "Suspended", "status": "True"}]})
    seen = msgspec.structs.replace(seen, metadata=metadata)
    assert reasons(plan(seen, running(3))) == ["Started"]


def test_without_the_feature_gate_the_annotation_has_no_effect() -> None:
    assert SLICE_NAME not in created(plan(a_growing_job(), elastic_jobs=False)).metadata.annotations


def test_nothing_is_written_if_the_size_is_unchanged() -> None:
    assert plan(a_growing_job(**RUNNING), running(3)) == IDLE
    assert plan(a_growing_job(suspend=False), a_slice(3)) == IDLE, "its pods are gated"


@pytest.mark.parametrize(
    ("workload", "pods"),
    [
        pytest.param(running(3), 2, id="fewer pods while running"),
        pytest.param(a_slice(3), 2, id="fewer pods while pending"),
        pytest.param(a_slice(3), 5, id="more pods while pending"),
    ],
)
def test_a_slice_is_resized(workload: Workload, pods: int) -> None:
    got = plan(a_growing_job(pods, suspend=False), workload)
    (patch,) = got.writes
    assert isinstance(patch, Patch)
    assert [pod_set.count for pod_set in patch.body["spec"]["podSets"]] == [pods]
    assert reasons(got) == ["UpdatedWorkload"]


def test_a_slice_keeps_its_size_until_surplus_pods_are_gone() -> None:
    for status in ({"active": 3}, {"active": 2, "terminating": 1}):
        assert plan(a_growing_job(2, suspend=False, status=status), running(3)) == IDLE
    got = plan(a_growing_job(2, suspend=False, status={"active": 2}), running(3))
    assert show(got) == ["patch Workload spec.podSets"]


def test_ended_pods_are_counted_off_the_new_size_before_a_slice_shrinks() -> None:
    """Of 20 pods 15 have succeeded; with 10 pods as size, 15 ended ones would release the quota of all."""
    job = a_growing_job(10, suspend=False, completions=20, status={"active": 5, "succeeded": 15})
    got = plan(job, with_finished_pods(20, 20, finished=15))
    assert show(got) == ["patch Workload/status status.reclaimablePods", "patch Workload spec.podSets"]
    status, _ = got.writes
    assert isinstance(status, Patch)
    assert status.body["status"]["reclaimablePods"] == [{"name": "main", "count": 5}]


def with_finished_pods(admitted: int, pods: int, finished: int) -> Workload:
    """Return a slice with ``pods`` of the ``admitted`` pods, and ``finished`` ones among the latter."""
    reported = WorkloadStatus(reclaimable_pods=(ReclaimablePod(name="main", count=finished),))
    return with_admitted_count(running(pods, status=reported), admitted)


def an_indexed_job(pods: int, **status: Any) -> Job:
    return a_growing_job(pods, suspend=False, completions=pods, completionMode="Indexed", status=status)


@pytest.mark.parametrize(
    ("job", "workload", "want"),
    [
        pytest.param(
            an_indexed_job(3, succeeded=4, completedIndexes="0-3"),
            with_finished_pods(8, 3, finished=4),
            [{"name": "main", "count": 3}],
            id="indexes below the new size have finished",
        ),
        pytest.param(
            an_indexed_job(3, failed=1, failedIndexes="4"),
            with_finished_pods(5, 3, finished=1),
            None,
            id="the index that has failed was given up",
        ),
    ],
)
def test_finished_pods_of_a_shrunk_job_are_counted_anew(
    job: Job, workload: Workload, want: list[dict[str, Any]] | None
) -> None:
    """With the counts of the larger size, quota of pods that run would be released."""
    (patch,) = plan(job, workload).writes
    assert isinstance(patch, Patch)
    assert patch.body == {"status": {"reclaimablePods": want}}


def test_the_pods_that_wait_for_a_larger_slice_need_no_quota_of_the_first() -> None:
    job = an_indexed_job(5, active=2, completedIndexes="0")
    pending = a_slice(5, name="second", replaces="first")
    assert plan(job, with_finished_pods(3, 3, finished=1), pending) == IDLE


def test_a_job_of_which_finished_pods_run_again_is_counted_with_them() -> None:
    got = plan(an_indexed_job(3, active=3), with_finished_pods(3, 3, finished=1))
    (patch,) = got.writes
    assert isinstance(patch, Patch)
    assert patch.body["status"]["reclaimablePods"] is None
    assert [each.event.reason for each in got.events] == ["PodsRunAgain"]


def test_growth_with_reserved_quota_creates_a_second_slice() -> None:
    second = created(plan(a_growing_job(5, **RUNNING), running(3)))
    assert second.spec.pod_sets[0].count == 5
    assert second.metadata.annotations[REPLACES] == "default/first"
    assert second.metadata.annotations[SLICE_NAME] == "first"


STARTED = template(
    schedulingGates=[{"name": ELASTIC_GATE}],
    nodeSelector={"pool": "spot"},
    tolerations=[{"key": "spot", "operator": "Exists"}],
)


def test_a_second_slice_has_the_templates_of_the_first_one() -> None:
    """The job has the node selector of its flavor, which the second slice would keep after an eviction."""
    job = a_growing_job(5, **RUNNING, template=STARTED)
    second = created(plan(job, running(3)))
    (found,) = second.spec.pod_sets
    named = {"metadata": {"annotations": {SLICE_NAME: "first"}}}
    assert msgspec.json.decode(found.template) == merged(msgspec.json.decode(GATED), named)
    assert plan(job, running(3), a_slice(5, name="second", replaces="first")) == IDLE


def test_the_job_keeps_running_while_the_second_slice_is_pending() -> None:
    pending = a_slice(5, name="second", replaces="first")
    assert plan(a_growing_job(5, **RUNNING), running(3), pending) == IDLE
    assert show(plan(a_growing_job(6, **RUNNING), running(3), pending)) == ["patch Workload spec.podSets"]


@pytest.mark.parametrize(
    ("labels", "annotations", "want"),
    [
        pytest.param(
            {"kueue.x-k8s.io/priority-class": "high"},
            {},
            {"spec": {"priority": 1000, "priorityClassRef": HIGH_REF}},
            id="priority",
        ),
        pytest.param(
            {},
            {"kueue.x-k8s.io/admission-gated-by": "example.com/gate"},
            {"metadata": {"annotations": {"kueue.x-k8s.io/admission-gated-by": "example.com/gate"}}},
            id="external gates",
        ),
    ],
)
def test_both_slices_follow_the_job(
    labels: dict[str, str], annotations: dict[str, str], want: dict[str, Any]
) -> None:
    low = PriorityClassRef(group="kueue.x-k8s.io", kind="WorkloadPriorityClass", name="low")
    old = running(3, priority_class_ref=low)
    pending = a_slice(5, name="second", replaces="first", priority_class_ref=low)
    job = a_growing_job(5, **RUNNING)
    metadata = msgspec.structs.replace(
        job.metadata,
        labels={**job.metadata.labels, **labels},
        annotations={**job.metadata.annotations, **annotations},
    )
    got = plan(msgspec.structs.replace(job, metadata=metadata), old, pending)
    assert [(write.key.name, write.body) for write in got.writes if isinstance(write, Patch)] == [
        ("first", want),
        ("second", want),
    ]


def test_a_job_with_two_slices_that_changes_otherwise_gets_its_templates_back() -> None:
    other = template(containers=[{"name": "other"}], schedulingGates=[{"name": ELASTIC_GATE}])
    pending = a_slice(5, name="second", replaces="first")
    job = a_growing_job(5, suspend=False, template=other)
    got = plan(job, running(3), pending)
    assert reasons(got) == ["Stopped", "DeletedWorkload", "DeletedWorkload"]
    assert "No matching Workload" in got.events[0].event.message


def test_a_job_without_pods_that_grows_is_stopped_and_gets_a_first_slice_again() -> None:
    injected = template(schedulingGates=[{"name": ELASTIC_GATE}], nodeSelector={"pool": "spot"})
    empty = running(0)
    assert plan(a_growing_job(0, suspend=False, template=injected), empty) == IDLE
    got = plan(a_growing_job(2, suspend=False, template=injected), empty)
    assert reasons(got) == ["Stopped"]
    restored = [write for write in got.all_writes if isinstance(write, Patch) and "template" in str(write)]
    assert [write.body["spec"]["template"]["spec"]["nodeSelector"] for write in restored] == [None]
    got = plan(a_growing_job(2, status={"active": 1}), empty)
    assert got.writes == (), "its gated pods are not gone yet"
    got = plan(a_growing_job(2), empty)
    assert written(got, "Finished")[:2] == ("True", "OutOfSync")
    finished = a_slice(0, "Finished=OutOfSync")
    assert show(plan(a_growing_job(2), finished)) == ["patch Workload metadata.finalizers"]
    assert REPLACES not in created(plan(a_growing_job(2))).metadata.annotations


@pytest.mark.parametrize("conditions", [(), ("QuotaReserved",)])
@pytest.mark.parametrize("pods", [3, 1])
def test_the_second_slice_is_deleted_when_the_job_shrinks_back(
    pods: int, conditions: tuple[str, ...]
) -> None:
    larger = a_slice(5, *conditions, name="second", replaces="first")
    got = plan(a_growing_job(pods, **RUNNING), running(3), larger)
    assert [write.key.name for write in got.writes if isinstance(write, Delete)] == ["second"]


def test_a_job_that_waits_to_grow_follows_its_first_slice() -> None:
    pending = a_slice(5, name="second", replaces="first")
    got = plan(a_growing_job(5), running(3), pending)
    assert reasons(got) == ["Started"], "it was stopped by hand"
    ready = {"active": 5, "ready": 3}
    waits = WaitForPodsReady(timeout_s=60, recovery_timeout_s=60, block_admission=None)
    job = a_growing_job(5, suspend=False, status=ready)
    got = plan(job, running(3), pending, options=JobOptions(wait_for_pods_ready=waits))
    assert written(got, "PodsReady")[0] == "True", "its other pods are gated"


def test_the_first_slice_is_finished_when_the_second_is_admitted() -> None:
    got = plan(a_growing_job(5, **RUNNING), running(3), running(5, name="second", replaces="first"))
    assert written(got, "Finished") == (
        "True",
        "WorkloadSliceReplaced",
        "Replaced to accommodate a workload (UID: w1, JobUID: u1) due to workload slice aggregation",
    )
    assert [(each.regarding.name, each.event.reason) for each in got.events] == [
        ("first", "WorkloadSliceReplaced")
    ]
    finished = a_slice(3, "Finished=WorkloadSliceReplaced")
    second = running(5, name="second", replaces="first")
    assert show(plan(a_growing_job(5, **RUNNING), finished, second)) == ["patch Workload metadata.finalizers"]


def test_slices_are_ordered_by_replacement_not_by_name() -> None:
    old, new = running(3, name="b", replaces="a"), a_slice(5, name="a5", replaces="b")
    assert plan(a_growing_job(5, **RUNNING), new, old) == IDLE, "the new slice is pending"
    got = plan(a_growing_job(5, **RUNNING), running(5, name="a5", replaces="b"), old)
    assert [write.key.name for write in got.writes if isinstance(write, Patch)] == ["b"]
    assert written(got, "Finished")[:2] == ("True", "WorkloadSliceReplaced")


def test_of_two_replacements_one_is_finished_and_not_the_slice_that_runs() -> None:
    slices = (running(2), *(a_slice(3, name=name, replaces="first") for name in ("second", "third")))
    (write,) = plan(a_growing_job(), *slices).writes
    assert isinstance(write, Patch)
    assert write.key.name == "second"
    assert write.body["status"]["conditions"][-1]["reason"] == "OutOfSync"


def test_a_job_stops_when_its_first_slice_is_evicted() -> None:
    pending = a_slice(5, name="second", replaces="first")
    evicted = running(3)
    conditions = (*evicted.status.conditions, *a_workload("Evicted=Preempted").status.conditions)
    evicted = msgspec.structs.replace(
        evicted, status=msgspec.structs.replace(evicted.status, conditions=conditions)
    )
    assert reasons(plan(a_growing_job(5, **RUNNING), evicted, pending)) == ["Stopped"]
    assert plan(a_growing_job(5, status={"active": 1}), evicted, pending) == IDLE, "a pod still runs"
    got = plan(a_growing_job(5), evicted, pending)
    assert written(got, "Finished")[:2] == ("True", "OutOfSync")
    assert show(got) == ["patch Workload/status status.conditions"], "metrics need its cluster queue"
    released = a_slice(3, "!QuotaReserved", "Evicted=Preempted")
    got = plan(a_growing_job(5), released, pending)
    assert written(got, "Finished")[:2] == ("True", "OutOfSync")
    assert plan(a_growing_job(5), pending) == IDLE


def test_an_evicted_job_starts_again_with_its_retries_and_its_time() -> None:
    times = {"QuotaReserved": 90.0, "Admitted": 100.0, "Evicted": 160.0}
    evicted = msgspec.structs.replace(
        running(3).status,
        conditions=tuple(new_condition(type_, "True", "R", "", time) for type_, time in times.items()),
        requeue_state=RequeueState(count=2),
        accumulated_past_execution_time_seconds=5,
    )
    old = msgspec.structs.replace(running(3), status=evicted)
    pending = a_slice(5, name="second", replaces="first")
    got = plan(a_growing_job(5), old, pending)
    (patch,) = [write for write in got.writes if isinstance(write, Patch)]
    kept = {"requeueState": {"count": 2}, "accumulatedPastExecutionTimeSeconds": 65}
    assert (patch.key.name, patch.body) == ("second", {"status": kept})
    status = msgspec.structs.replace(
        pending.status, requeue_state=RequeueState(count=2), accumulated_past_execution_time_seconds=65
    )
    got = plan(a_growing_job(5), old, msgspec.structs.replace(pending, status=status))
    assert written(got, "Finished")[:2] == ("True", "OutOfSync")


@pytest.mark.parametrize("reason", ["Preempted", "AdmissionCheck", "Deactivated"])
def test_a_larger_slice_that_is_evicted_before_its_admission_is_released(reason: str) -> None:
    larger = a_slice(5, "QuotaReserved", f"Evicted={reason}", name="second", replaces="first")
    got = plan(a_growing_job(5, **RUNNING), running(3), larger)
    assert written(got, "QuotaReserved")[0] == "False"
    assert [write.key.name for write in got.writes if isinstance(write, Patch)] == ["second"]


def test_both_slices_are_deactivated_with_the_job() -> None:
    pending = a_slice(5, name="second", replaces="first")
    got = plan(a_growing_job(5, **RUNNING), running(3, active=False), pending)
    (patch,) = [write for write in got.writes if isinstance(write, Patch)]
    assert (patch.key.name, patch.body) == ("second", {"spec": {"active": False}})


def test_any_other_change_is_handled_as_for_ordinary_jobs() -> None:
    other = template(containers=[{"name": "other"}], schedulingGates=[{"name": ELASTIC_GATE}])
    got = plan(a_growing_job(3, suspend=False, template=other), running(3))
    assert reasons(got) == ["Stopped", "DeletedWorkload"]


def test_both_slices_finish_with_the_job() -> None:
    finished = {"conditions": [{"type": "Complete", "status": "True", "message": "done"}]}
    got = plan(
        a_growing_job(5, suspend=False, status=finished),
        running(3),
        a_slice(5, name="second", replaces="first"),
    )
    assert show(got) == ["patch Workload/status status.conditions"] * 2


# Pods.
