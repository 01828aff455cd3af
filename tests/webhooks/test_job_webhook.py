"""The webhook of job kinds: suspension, default queue and priority class, validation."""

import asyncio
from typing import Any

import msgspec
import pytest

from quorate.api.configuration import Configuration, default_configuration
from quorate.api.configuration.feature_gates import WebhookGates
from quorate.api.configuration.multikueue import MultiKueueGates
from quorate.api.meta import Uid
from quorate.api.names.volcano import SUSPENDED
from quorate.controllers.integrations import FRAMEWORK_KINDS
from quorate.controllers.jobs.batch import BatchJob
from quorate.controllers.jobs.jobset import JobSet
from quorate.controllers.jobs.ray import RayCluster
from quorate.controllers.volcano.job.queued_job import VolcanoJob
from quorate.controllers.volcano.pod_groups.queued_group import VolcanoPodGroup
from quorate.webhooks.job_webhook import JobWebhook
from tests.webhooks.admission_requests import FakeReader, a_request, patched, refusals

Json = dict[str, Any]
QUEUE = "kueue.x-k8s.io/queue-name"
CLASS = "kueue.x-k8s.io/priority-class"
DEFAULTS = default_configuration()
MANAGE_ALL = msgspec.structs.replace(DEFAULTS, manage_jobs_without_queue_name=True)
NO_DEFAULT_CLASS = msgspec.structs.replace(DEFAULTS, webhook_gates=WebhookGates(default_priority_class=False))
RAY_SPEC = {
    "suspend": False,
    "headGroupSpec": {"template": {"spec": {"containers": [{"name": "head", "image": "i"}]}}},
}
OWNED = [{"apiVersion": "batch/v1", "kind": "Job", "name": "parent", "uid": "1", "controller": True}]


def a_job(queue: str = "", namespace: str = "team", suspend: bool = False, **metadata: Any) -> Json:
    labels = {QUEUE: queue} if queue else {}
    template = {"spec": {"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "j",
            "namespace": namespace,
            **({"labels": labels} if labels else {}),
            **metadata,
        },
        "spec": {"parallelism": 4, "suspend": suspend, "template": template, "unknownToUs": 1.50},
    }


def mutated(job: Json, reader: FakeReader, configuration: Configuration = DEFAULTS) -> Json:
    webhook = JobWebhook(BatchJob(), reader, configuration)
    return patched(job, asyncio.run(webhook.mutate(a_request(job))))


def changes(job: Json, reader: FakeReader, configuration: Configuration = DEFAULTS) -> tuple[bool, Json]:
    """Return suspension and labels after the webhook; nothing else may have changed."""
    after = mutated(job, reader, configuration)
    labels = after["metadata"].get("labels", {})
    restored = {**after, "spec": {**after["spec"], "suspend": job["spec"]["suspend"]}}
    restored["metadata"] = {**after["metadata"], "labels": job["metadata"].get("labels", {})}
    assert restored == {**job, "metadata": {**job["metadata"], "labels": job["metadata"].get("labels", {})}}
    return after["spec"]["suspend"], labels


@pytest.mark.parametrize(
    ("job", "reader", "configuration", "want"),
    [
        pytest.param(a_job("q"), FakeReader(), DEFAULTS, (True, {QUEUE: "q"}),
                     id="job with a queue is suspended"),
        pytest.param(a_job(), FakeReader(), DEFAULTS, (False, {}), id="job without a queue runs"),
        pytest.param(
            a_job(annotations={QUEUE: "q"}), FakeReader(), DEFAULTS, (True, {}), id="queue set by annotation"
        ),
        pytest.param(
            a_job("q", namespace="system"), FakeReader(), DEFAULTS, (False, {QUEUE: "q"}),
            id="namespace is not managed",
        ),
        pytest.param(a_job(), FakeReader(), MANAGE_ALL, (True, {}), id="all jobs are managed"),
        pytest.param(a_job(), FakeReader(managed=False), MANAGE_ALL, (False, {}),
                     id="all jobs are managed, except in this namespace"),
        pytest.param(
            a_job(), FakeReader(default_queue=True), DEFAULTS, (True, {QUEUE: "default"}), id="default queue"
        ),
        pytest.param(
            a_job("q"), FakeReader(default_queue=True), DEFAULTS, (True, {QUEUE: "q"}),
            id="own queue overrides the default queue",
        ),
        pytest.param(
            a_job(ownerReferences=OWNED), FakeReader(default_queue=True), DEFAULTS, (False, {}),
            id="no default queue for a job with a job owner",
        ),
        pytest.param(
            a_job("q", ownerReferences=OWNED), FakeReader(managers={"parent": Uid("1")}), DEFAULTS,
            (False, {QUEUE: "q"}), id="owner is managed",
        ),
        pytest.param(
            a_job("q", ownerReferences=OWNED), FakeReader(), DEFAULTS, (True, {QUEUE: "q"}),
            id="owner is not managed",
        ),
        pytest.param(
            a_job("q"), FakeReader(default_class=True), DEFAULTS,
            (True, {QUEUE: "q", CLASS: "default"}),
            id="default priority class",
        ),
        pytest.param(
            a_job("q"), FakeReader(default_class=True), NO_DEFAULT_CLASS, (True, {QUEUE: "q"}),
            id="feature gate of the default priority class is off",
        ),
        pytest.param(
            a_job(), FakeReader(default_class=True), DEFAULTS, (False, {}),
            id="no default priority class without a queue",
        ),
    ],
)  # fmt: skip
def test_a_new_job_gets_defaults_and_is_suspended(
    job: Json, reader: FakeReader, configuration: Configuration, want: tuple[bool, Json]
) -> None:
    assert changes(job, reader, configuration) == want


JOB_SET_SPEC: Json = {"replicatedJobs": [], "network": {"enableDNSHostnames": True}}


def test_a_job_set_is_suspended_in_its_own_field() -> None:
    job_set = {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": {"name": "s", "namespace": "team", "labels": {QUEUE: "q"}},
        "spec": JOB_SET_SPEC,
    }
    response = asyncio.run(JobWebhook(JobSet(), FakeReader(), DEFAULTS).mutate(a_request(job_set)))
    assert patched(job_set, response)["spec"] == {**JOB_SET_SPEC, "suspend": True}


def test_the_pods_of_an_elastic_job_are_gated() -> None:
    job = a_job("q", annotations={"kueue.x-k8s.io/elastic-job": "true"})
    spec = mutated(job, FakeReader())["spec"]
    assert spec["suspend"]
    assert spec["template"]["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/elastic-job"}]
    without_elastic = msgspec.structs.replace(DEFAULTS, webhook_gates=WebhookGates(elastic_jobs=False))
    assert "schedulingGates" not in mutated(job, FakeReader(), without_elastic)["spec"]["template"]["spec"]


@pytest.mark.parametrize("spec", [None, [], "text", {"suspend": 7}, {"replicatedJobs": "many"}])
def test_an_undecodable_job_is_left_to_its_schema(spec: Any) -> None:
    malformed = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": "JobSet",
           "metadata": {"name": "s", "namespace": "team", "labels": {QUEUE: "q"}}, "spec": spec}  # fmt: skip
    webhook = JobWebhook(JobSet(), FakeReader(), DEFAULTS)
    assert asyncio.run(webhook.mutate(a_request(malformed))).findings == ()
    assert asyncio.run(webhook.validate(a_request(malformed))).findings == ()


def findings_of(new: Json, old: Json | None = None, reader: FakeReader | None = None) -> list[str]:
    webhook = JobWebhook(BatchJob(), reader or FakeReader(), DEFAULTS)
    return refusals(asyncio.run(webhook.validate(a_request(new, old))))


def test_a_new_job_is_validated_by_general_rules_and_those_of_its_kind() -> None:
    job = a_job("@q", annotations={"kueue.x-k8s.io/job-min-parallelism": "9"})
    assert findings_of(job) == [
        f"metadata.labels[{QUEUE}]: '@q' is not the name of a LocalQueue "
        "(lower case letters, digits, '-' and '.')",
        "metadata.annotations[kueue.x-k8s.io/job-min-parallelism]: 9 should be between 1 and 3",
    ]


def test_an_update_is_validated_against_the_old_job() -> None:
    assert findings_of(a_job("r"), a_job("q")) == [
        f"metadata.labels[{QUEUE}]: 'r' cannot change while the job is not suspended (it was q)"
    ]
    assert findings_of(a_job("r", suspend=True), a_job("q")) == []


@pytest.mark.parametrize(
    ("gate", "labels", "is_refused"),
    [
        pytest.param(True, {}, True, id="a running cluster cannot leave its queue"),
        pytest.param(False, {}, False, id="with the gate off it can"),
        pytest.param(False, {QUEUE: "r"}, True, id="a cluster with a queue is validated anyway"),
    ],
)
def test_updates_of_ray_clusters_are_validated_by_a_gate(
    gate: bool, labels: dict[str, str], is_refused: bool
) -> None:
    def cluster(labels: dict[str, str]) -> Json:
        metadata = {"name": "c", "namespace": "team", "labels": labels}
        return {"apiVersion": "ray.io/v1", "kind": "RayCluster", "metadata": metadata, "spec": RAY_SPEC}

    gates = WebhookGates(ray_and_spark_updates=gate)
    webhook = JobWebhook(RayCluster(), FakeReader(), msgspec.structs.replace(DEFAULTS, webhook_gates=gates))
    request = a_request(cluster(labels), cluster({QUEUE: "q"}))
    assert bool(asyncio.run(webhook.validate(request)).findings) is is_refused


def test_a_job_cannot_leave_its_queue_in_a_namespace_with_a_default_queue() -> None:
    reader = FakeReader(default_queue=True)
    assert findings_of(a_job(suspend=True), a_job("q", suspend=True), reader) == [
        f"metadata.labels[{QUEUE}]: '' is missing: queue-name must not be empty in namespace "
        "with default queue"
    ]


def test_a_queue_set_by_annotation_gets_a_warning() -> None:
    job = a_job(annotations={QUEUE: "q"})
    response = asyncio.run(JobWebhook(BatchJob(), FakeReader(), DEFAULTS).validate(a_request(job)))
    assert response.warnings == (
        f"the queue is set by annotation {QUEUE}, which is deprecated (set the label instead)",
    )


def a_volcano_job(**labels: str) -> Json:
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    metadata = {"name": "j", "namespace": "team", "labels": labels}
    return {"metadata": metadata, "spec": {"tasks": [{"name": "w", "replicas": 2, "template": template}]}}


def a_pod_group(**labels: str) -> Json:
    metadata = {"name": "g", "namespace": "team", "labels": labels}
    return {"metadata": metadata, "spec": {"minMember": 2, "minResources": {"cpu": "2"}}}


def owned(document: Json) -> Json:
    return {**document, "metadata": {**document["metadata"], "ownerReferences": OWNED}}


@pytest.mark.parametrize(
    ("group", "reader", "configuration", "suspended", "queue"),
    [
        pytest.param(a_pod_group(**{QUEUE: "q"}), FakeReader(), DEFAULTS, True, "q", id="it names a queue"),
        pytest.param(a_pod_group(), FakeReader(), DEFAULTS, False, None, id="it names none"),
        pytest.param(a_pod_group(), FakeReader(default_queue=True), DEFAULTS, True, "default",
                     id="the default queue"),
        pytest.param(a_pod_group(), FakeReader(), MANAGE_ALL, False, None,
                     id="all jobs are managed: it may belong to one"),
        pytest.param(owned(a_pod_group(**{QUEUE: "q"})), FakeReader(managers={"parent": Uid("1")}), DEFAULTS,
                     False, "q", id="the group of a queued job"),
    ],
)  # fmt: skip
def test_a_pod_group_is_stored_suspended(
    group: Json, reader: FakeReader, configuration: Configuration, suspended: bool, queue: str | None
) -> None:
    webhook = JobWebhook(VolcanoPodGroup(), reader, configuration)
    metadata = patched(group, asyncio.run(webhook.mutate(a_request(group))))["metadata"]
    assert (metadata.get("annotations") == {SUSPENDED: "true"}) == suspended
    assert metadata["labels"].get(QUEUE) == queue


def test_a_volcano_job_gets_the_default_queue_and_keeps_it_while_it_runs() -> None:
    webhook = JobWebhook(VolcanoJob(), FakeReader(default_queue=True), DEFAULTS)
    job = a_volcano_job()
    assert patched(job, asyncio.run(webhook.mutate(a_request(job)))) == a_volcano_job(**{QUEUE: "default"})

    def changed(annotations: Json) -> list[str]:
        old, new = a_volcano_job(**{QUEUE: "q"}), a_volcano_job(**{QUEUE: "other"})
        for each in (old, new):
            each["metadata"] |= {"uid": "u1", "annotations": annotations}
        return refusals(asyncio.run(webhook.validate(a_request(new, old))))

    assert changed({}) == []
    record = {"quorate.dev/admitted-pod-sets": '{"jobUid": "u1", "podSets": []}'}
    (refusal,) = changed(record)
    assert "cannot change while the job is not suspended (it was q)" in refusal


NO_MULTIKUEUE = msgspec.structs.replace(DEFAULTS, multikueue_gates=MultiKueueGates(multi_kueue=False))


@pytest.mark.parametrize(
    ("queue", "manager", "configuration", "want"),
    [
        pytest.param("far", None, DEFAULTS, "kueue.x-k8s.io/multikueue", id="worker clusters run its queue"),
        pytest.param(
            "far", "kubernetes.io/job-controller", DEFAULTS, "kueue.x-k8s.io/multikueue",
            id="the built-in controller is replaced",
        ),
        pytest.param("far", "example.com/a", DEFAULTS, "example.com/a", id="another controller is kept"),
        pytest.param("near", None, DEFAULTS, None, id="its queue runs here"),
        pytest.param("far", None, NO_MULTIKUEUE, None, id="the gate is off"),
    ],
)  # fmt: skip
def test_the_controller_of_a_new_job(
    queue: str, manager: str | None, configuration: Configuration, want: str | None
) -> None:
    job = a_job(queue)
    if manager is not None:
        job["spec"]["managedBy"] = manager
    after = mutated(job, FakeReader(delegated=("far",)), configuration)
    assert after["spec"].get("managedBy") == want
    assert after["spec"]["suspend"]


def test_a_copy_in_a_worker_cluster_may_name_its_workload_whatever_its_kind() -> None:
    labels = {"kueue.x-k8s.io/prebuilt-workload-name": "made"}
    webhook = JobWebhook(FRAMEWORK_KINDS["kubeflow.org/jaxjob"], FakeReader(), DEFAULTS)
    template = {"spec": {"containers": [{"name": "c", "image": "i"}]}}
    for more, refused in (({}, 1), ({"kueue.x-k8s.io/multikueue-origin": "manager"}, 0)):
        job = {
            "apiVersion": "kubeflow.org/v1",
            "kind": "JAXJob",
            "metadata": {"name": "j", "namespace": "team", "labels": {QUEUE: "q", **labels, **more}},
            "spec": {"jaxReplicaSpecs": {"Worker": {"template": template}}},
        }
        assert len(refusals(asyncio.run(webhook.validate(a_request(job))))) == refused
