"""The Workload constructed for a job: its name, its priority and what it inherits."""

import json
from typing import Any, Final

import pytest

from quorate.api import codec
from quorate.api.configuration import load_configuration
from quorate.api.core import PriorityClass
from quorate.api.kueue import PodSet, PriorityClassRef, WorkloadPriorityClass
from quorate.api.meta import ObjectMeta, Uid
from quorate.controllers.jobframework.construct_workload import (
    MissingPriorityClass,
    Priority,
    construct_workload,
    queue_name_of,
    resolve_priority,
    workload_name,
)
from quorate.controllers.jobframework.ensure_one_workload import is_equivalent
from quorate.controllers.jobframework.job_plan import job_options
from quorate.controllers.jobframework.podset_info import read_template
from quorate.controllers.jobs.batch import BatchJob
from quorate.kube.resources import JOBS
from tests.controllers.objects import a_job, template

UID = Uid("7d1b0b9b-6e3a-4f2e-9d5d-0c5b3f1f2a11")


# The digests were taken with sha1sum(1).
def test_a_workload_has_the_name_of_its_job_and_a_hash_of_its_identity() -> None:
    assert workload_name("Job", "batch", "test", UID) == "job-test-742bc"
    assert workload_name("Job", "batch", "test", UID, extra="2") == "job-test-18737"


def test_a_long_name_is_cut_to_a_valid_one() -> None:
    name = workload_name("Job", "batch", "a" * 253, Uid("u"))
    assert name == "job-" + "a" * 243 + "-d5653"
    assert len(name) == 253


def wpc(name: str, value: int) -> dict[str, WorkloadPriorityClass]:
    return {name: WorkloadPriorityClass(metadata=ObjectMeta(name=name), value=value)}


def pc(name: str, value: int, default: bool = False) -> dict[str, PriorityClass]:
    return {name: PriorityClass(metadata=ObjectMeta(name=name), value=value, global_default=default)}


OF_WORKLOAD = PriorityClassRef(group="kueue.x-k8s.io", kind="WorkloadPriorityClass", name="high")
POD_FRAMEWORKS = PriorityClassRef(group="scheduling.k8s.io", kind="PriorityClass", name="batch")
OF_DEFAULT = PriorityClassRef(group="scheduling.k8s.io", kind="PriorityClass", name="low")
LABEL = {"kueue.x-k8s.io/priority-class": "high"}


@pytest.mark.parametrize(
    ("label", "own", "pods", "want"),
    [
        pytest.param(True, "batch", "batch", Priority(100, OF_WORKLOAD), id="the label takes precedence"),
        pytest.param(False, "batch", "", Priority(7, POD_FRAMEWORKS), id="then the kind's own class"),
        pytest.param(
            False, "", "batch", Priority(1, OF_DEFAULT), id="it takes precedence over that of the pods"
        ),
        pytest.param(
            False, None, "batch", Priority(7, POD_FRAMEWORKS), id="without one, the class of the pods"
        ),
        pytest.param(False, None, "", Priority(1, OF_DEFAULT), id="then the lowest global default"),
        pytest.param(
            False, None, "gone", MissingPriorityClass("PriorityClass", "gone"), id="a missing class"
        ),
    ],
)
def test_priority(label: bool, own: str | None, pods: str, want: Priority | MissingPriorityClass) -> None:
    pod_sets = [PodSet(template=template()), PodSet(template=template(priorityClassName=pods))]
    pod_classes = pc("batch", 7) | pc("low", 1, default=True) | pc("mid", 5, default=True)
    got = resolve_priority(LABEL if label else {}, own, pod_sets, wpc("high", 100), pod_classes)
    assert got == want


REPEATED: list[tuple[str, list[dict[str, Any]], list[int]]] = [
    ("env", [{"name": "A", "value": "1"}, {"name": "B"}, {"name": "A", "value": "2"}], [2, 1]),
    ("ports", [{"containerPort": 1}, {"containerPort": 1, "protocol": "UDP"}], [0, 1]),
    ("ports", [{"containerPort": 1, "name": "a"}, {"containerPort": 1, "protocol": "TCP"}], [1]),
    ("imagePullSecrets", [{"name": "a"}, {"name": "b"}, {"name": "a"}], [0, 1]),
    ("hostAliases", [{"ip": "10.0.0.1", "hostnames": ["a"]}, {"ip": "10.0.0.1", "hostnames": ["b"]}], [1]),
]


@pytest.mark.parametrize(("field", "items", "kept"), REPEATED)
@pytest.mark.parametrize("containers", ["containers", "initContainers"])
def test_a_workload_has_the_last_of_items_with_one_key(
    containers: str, field: str, items: list[dict[str, Any]], kept: list[int]
) -> None:
    def of_job(listed: list[dict[str, Any]]) -> PodSet:
        if field in ("imagePullSecrets", "hostAliases"):
            spec: dict[str, Any] = {field: listed}
        else:
            spec = {"containers": [{"name": "c"}]} | {containers: [{"name": "c", field: listed}]}
        return PodSet(template=template(**spec))

    repeated = of_job(items)
    workload = construct_workload(JOBS, a_job().metadata, (repeated,), Priority(0, None), ())
    assert [read_template(each.template) for each in workload.spec.pod_sets] == [
        read_template(of_job([items[index] for index in kept]).template)
    ]
    assert is_equivalent(workload, (repeated,), None, suspended=True)


WRITTEN_BY_TYPES: Final = {"resources": {"requests": {"cpu": "1500m", "memory": "1Gi"}}, "image": "busybox"}
OTHER_FORMS: Final[list[dict[str, Any]]] = [
    {"resources": {"requests": {"cpu": 1.5, "memory": "1024Mi"}}},
    {"resources": {"requests": {"cpu": "1.5", "memory": 2**30}}},
    {"env": [], "command": None, "imagePullPolicy": "", "tty": False, "livenessProbe": {}},
]


@pytest.mark.parametrize("form", OTHER_FORMS, ids=str)
@pytest.mark.parametrize("containers", ["containers", "initContainers"])
def test_a_workload_that_another_program_has_made_is_equivalent(
    containers: str, form: dict[str, Any]
) -> None:
    def of(container: dict[str, Any]) -> PodSet:
        written = {"name": "c", **WRITTEN_BY_TYPES, **container}
        spec: dict[str, Any] = {"containers": [{"name": "c"}]} | {containers: [written]}
        return PodSet(template=template(**spec))

    made, other = (
        construct_workload(JOBS, a_job().metadata, (of(container),), Priority(0, None), ())
        for container in (form, {})
    )
    assert is_equivalent(other, (of(form),), None, suspended=True)
    amounts = codec.to_builtins(made)["spec"]["podSets"][0]["template"]["spec"][containers][0]["resources"]
    assert not any(isinstance(amount, float) for amount in amounts["requests"].values())
    for larger in ({"resources": {"requests": {"cpu": 2}}}, {"securityContext": {"runAsUser": 1}}):
        assert not is_equivalent(other, (of({**form, **larger}),), None, suspended=True)


def test_the_label_of_a_missing_class_gives_no_priority() -> None:
    got = resolve_priority(LABEL, None, [], {}, pc("low", 1, default=True))
    assert got == MissingPriorityClass("WorkloadPriorityClass", "high")


def test_the_default_priority_is_zero() -> None:
    assert resolve_priority({}, None, [PodSet(template=template())], {}, pc("batch", 7)) == Priority(0, None)


def test_the_queue_name_is_a_label_or_in_older_manifests_an_annotation() -> None:
    key = "kueue.x-k8s.io/queue-name"
    assert queue_name_of(ObjectMeta(annotations={key: "old"})) == "old"
    assert queue_name_of(ObjectMeta(labels={key: "new"}, annotations={key: "old"})) == "new"
    assert queue_name_of(ObjectMeta()) == ""


def test_workloads_get_what_custom_labels_of_metrics_read() -> None:
    text = """
        apiVersion: config.kueue.x-k8s.io/v1beta2
        kind: Configuration
        featureGates: {CustomMetricLabels: true}
        integrations: {labelKeysToCopy: [team]}
        metrics:
          customLabels:
          - {name: site, sourceKind: LocalQueue}
          - {name: tier, sourceKind: Workload, trackedValues: [gold]}
          - {name: cost, sourceKind: Workload, sourceAnnotationKey: example.com/cost, trackedValues: [high]}
    """
    options = job_options(load_configuration(text).configuration)
    assert options.label_keys_to_copy == ("team", "tier")
    assert options.annotation_keys_to_copy == ("example.com/cost",)
    disabled = text.replace("CustomMetricLabels: true", "")
    assert job_options(load_configuration(disabled).configuration).label_keys_to_copy == ("team",)


def test_a_workload_is_owned_by_its_job_and_has_its_pod_sets() -> None:
    job = a_job(
        labels={"team": "a", "other": "b", "kueue.x-k8s.io/max-exec-time-seconds": "60"},
        annotations={"provreq.kueue.x-k8s.io/zone": "z", "note": "n", "cost": "high"},
    )
    pod_sets = BatchJob().pod_sets(job)
    workload = construct_workload(
        JOBS, job.metadata, pod_sets, Priority(7, POD_FRAMEWORKS), ("team", "absent"), ("cost", "none")
    )
    body = json.loads(JOBS.encode(workload))
    template_written = body["spec"]["podSets"][0].pop("template")
    assert template_written == json.loads(bytes(pod_sets[0].template))
    assert body["metadata"] == {
        "name": workload_name("Job", "batch", "train", Uid("u1")),
        "namespace": "default",
        "labels": {"team": "a", "kueue.x-k8s.io/job-uid": "u1"},
        "annotations": {"provreq.kueue.x-k8s.io/zone": "z", "cost": "high"},
        "finalizers": ["kueue.x-k8s.io/resource-in-use"],
        "ownerReferences": [
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "name": "train",
                "uid": "u1",
                "controller": True,
                "blockOwnerDeletion": True,
            }
        ],
    }
    assert body["spec"] == {
        "podSets": [{"name": "main", "count": 3}],
        "queueName": "queue",
        "priority": 7,
        "priorityClassRef": {"group": "scheduling.k8s.io", "kind": "PriorityClass", "name": "batch"},
        "maximumExecutionTimeSeconds": 60,
    }
