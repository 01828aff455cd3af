"""Jobs that a worker cluster runs: what this cluster does with them, and what the worker cluster does."""

import msgspec
import pytest

from quorate.api.kueue import (
    AdmissionCheck,
    AdmissionCheckSpec,
    AdmissionCheckState,
    Workload,
    WorkloadStatus,
)
from quorate.api.meta import ObjectMeta
from quorate.api.names.multikueue import CONTROLLER, ORIGIN, WORKER_POD
from quorate.controllers.integrations import FRAMEWORK_KINDS
from quorate.controllers.jobframework.podset_info import PodSetInfo, pod_set_infos
from quorate.controllers.jobs.batch import BatchJob
from tests.controllers.jobframework.plans import RUNNING, SPOT, plan, show, written
from tests.controllers.objects import a_job, a_workload

OURS = AdmissionCheck(metadata=ObjectMeta(name="mk"), spec=AdmissionCheckSpec(controller_name=CONTROLLER))
OTHER = AdmissionCheck(
    metadata=ObjectMeta(name="mk"), spec=AdmissionCheckSpec(controller_name="example.com/a")
)
READY = AdmissionCheckState(name="mk", state="Ready")
EVICTED = WorkloadStatus(admission_checks=(READY,))


def checked(*states: AdmissionCheckState, cluster: str = "") -> Workload:
    return a_workload(
        admitted_to=["spot"], status=WorkloadStatus(admission_checks=states, cluster_name=cluster)
    )


@pytest.mark.parametrize(
    ("manager", "workload", "check", "starts"),
    [
        pytest.param("", checked(READY), OURS, False, id="its controller here would run it, too"),
        pytest.param(CONTROLLER, checked(READY), OURS, True, id="nothing here makes the pods of the job"),
        pytest.param("", checked(READY), OTHER, True, id="another check delegates nothing"),
        pytest.param("", checked(cluster="a"), OURS, False, id="the queue has lost the check since"),
        pytest.param("", checked(), OURS, True, id="a queue without the check runs its jobs here"),
    ],
)
def test_whether_an_admitted_job_starts_here(
    manager: str, workload: Workload, check: AdmissionCheck, starts: bool
) -> None:
    job = a_job(managedBy=manager) if manager else a_job()
    found = show(plan(job, workload, checks=(check,)))
    assert found == (["patch Job spec.suspend spec.template"] if starts else [])


def test_a_delegated_job_that_is_evicted_waits_for_the_pods_of_its_copy() -> None:
    """The Job has the status of its copy: quota is released when that has no pods any more."""
    evicted = a_workload("Evicted=Preempted", admitted_to=["spot"], status=EVICTED)
    running = a_job(managedBy=CONTROLLER, **RUNNING)
    assert show(plan(running, evicted, checks=(OURS,))) == ["patch Job metadata.annotations spec.suspend"]
    stopped = a_job(managedBy=CONTROLLER)
    assert "patch Workload/status" in show(plan(stopped, evicted, checks=(OURS,)))[0]


def test_the_pods_of_a_copy_have_a_label_that_says_so() -> None:
    workload = a_workload(admitted_to=["spot"])
    copy = msgspec.structs.replace(
        workload, metadata=msgspec.structs.replace(workload.metadata, labels={ORIGIN: "manager"})
    )
    for found, want in ((workload, None), (copy, "true")):
        infos = pod_set_infos(found, {"spot": SPOT}, with_queue_labels=False)
        assert isinstance(infos, tuple)
        (info,) = infos
        assert isinstance(info, PodSetInfo)
        assert info.labels.get(WORKER_POD) == want


def test_a_copy_names_its_workload_also_if_jobs_of_its_kind_must_not() -> None:
    jax = FRAMEWORK_KINDS["kubeflow.org/jaxjob"]
    named = {"kueue.x-k8s.io/prebuilt-workload-name": "made"}
    for labels, want in ((named, ""), ({**named, ORIGIN: "manager"}, "made")):
        assert jax.prebuilt_name(a_job(labels=labels), by_annotation=True) == want  # type: ignore[arg-type]
    assert BatchJob().prebuilt_name(a_job(labels=named), by_annotation=True) == "made"


def test_the_workload_of_a_copy_follows_the_manager_cluster_and_not_the_copy() -> None:
    for labels, follows in (({}, True), ({ORIGIN: "manager"}, False)):
        job = a_job(queue="other", labels=labels)
        assert (show(plan(job, a_workload())) == ["patch Workload spec.queueName"]) == follows


def test_an_elastic_copy_may_have_another_size_than_its_workload_for_a_while() -> None:
    """The manager cluster changes both, one after the other: other jobs would lose their workload."""
    workload = a_workload(admitted_to=["spot"])
    names = {"kueue.x-k8s.io/prebuilt-workload-name": workload.metadata.name}
    elastic = {"kueue.x-k8s.io/elastic-job": "true"}
    for labels, annotations, goes_on in (
        ({**names, ORIGIN: "manager"}, elastic, True),
        ({**names, ORIGIN: "manager"}, {}, False),
        (names, elastic, False),
    ):
        job = a_job(labels=labels, annotations=annotations, parallelism=2, **RUNNING)
        found = plan(job, workload, prebuilt=workload)
        assert any("Workload/status" in write for write in show(found)) != goes_on


def test_the_end_of_a_delegated_job_has_the_message_of_its_copy() -> None:
    complete = {"conditions": [{"type": "Complete", "status": "True"}]}
    metadata = msgspec.structs.replace(checked().metadata, labels={ORIGIN: "manager"})
    copy = msgspec.structs.replace(checked(), metadata=metadata)
    for workload, message in ((checked(READY), ""), (copy, ""), (checked(), "Job succeeded")):
        ended = plan(a_job(managedBy=CONTROLLER, suspend=False, status=complete), workload, checks=(OURS,))
        assert written(ended, "Finished") == ("True", "Succeeded", message)
