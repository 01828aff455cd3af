"""The webhooks of pods, Deployments, StatefulSets and LeaderWorkerSets."""

import asyncio
from typing import Any

import pytest

from quorate.api.configuration import Configuration, load_configuration
from quorate.api.meta import Uid
from quorate.webhooks.admission_review import AdmissionWebhook
from quorate.webhooks.pod_webhooks import pod_resources, pod_webhooks
from tests.webhooks.admission_requests import FakeReader, a_request, patched, refusals

Json = dict[str, Any]
QUEUE = "kueue.x-k8s.io/queue-name"
OWNED = [{"apiVersion": "batch/v1", "kind": "Job", "name": "parent", "uid": "1", "controller": True}]
SUSPENDING = "kueue.x-k8s.io/pod-suspending-parent"


def configured(*frameworks: str) -> Configuration:
    listed = ", ".join(frameworks)
    return load_configuration(
        "{apiVersion: config.kueue.x-k8s.io/v1beta2, kind: Configuration, "
        f"integrations: {{frameworks: [{listed}]}}}}"
    ).configuration


ALL = configured("pod", "deployment", "statefulset", "leaderworkerset.x-k8s.io/leaderworkerset")


def webhook(kind: str, reader: FakeReader) -> AdmissionWebhook:
    return next(each for resource, each in pod_webhooks(reader, ALL).items() if resource.kind == kind)


def an_object(kind: str, queue: str = "", spec: Json | None = None, **metadata: Any) -> Json:
    labels = {QUEUE: queue} if queue else {}
    pods = {"containers": [{"name": "c", "image": "i"}]}
    return {
        "apiVersion": "v1" if kind == "Pod" else "apps/v1",
        "kind": kind,
        "metadata": {"name": "x", "namespace": "team", "labels": labels, **metadata},
        "spec": pods if kind == "Pod" else {"template": {"metadata": {}, "spec": pods}, **(spec or {})},
    }


def mutated(document: Json, reader: FakeReader) -> Json:
    return patched(document, asyncio.run(webhook(document["kind"], reader).mutate(a_request(document))))


def findings_of(new: Json, old: Json | None = None, reader: FakeReader | None = None) -> list[str]:
    response = asyncio.run(webhook(new["kind"], reader or FakeReader()).validate(a_request(new, old)))
    return refusals(response)


def test_queued_sets_imply_queued_pods() -> None:
    def kinds(*frameworks: str) -> list[str]:
        return [each.kind for each in pod_resources(configured(*frameworks).integrations.frameworks)]

    assert kinds("batch/job") == []
    assert kinds("pod") == ["Pod"]
    assert kinds("statefulset") == ["StatefulSet", "Pod"]


@pytest.mark.parametrize(
    ("pod", "reader", "gated"),
    [
        pytest.param(an_object("Pod", "q"), FakeReader(), True, id="pod with a queue"),
        pytest.param(an_object("Pod"), FakeReader(), False, id="pod without a queue"),
        pytest.param(an_object("Pod", "q"), FakeReader(managed=False), False, id="namespace is not managed"),
        pytest.param(an_object("Pod"), FakeReader(default_queue=True), True, id="default queue"),
        pytest.param(
            an_object("Pod", annotations={SUSPENDING: "deployment"}), FakeReader(managed=False), True,
            id="pod of a queued set",
        ),
        pytest.param(
            an_object("Pod", "q", ownerReferences=OWNED),
            FakeReader(managers={"parent": Uid("1")}), False, id="pod of a queued job",
        ),
    ],
)  # fmt: skip
def test_a_new_managed_pod_is_gated(pod: Json, reader: FakeReader, gated: bool) -> None:
    gates = [gate["name"] for gate in mutated(pod, reader)["spec"].get("schedulingGates", [])]
    assert gates == (["kueue.x-k8s.io/admission", "kueue.x-k8s.io/topology"] if gated else [])


@pytest.mark.parametrize(
    ("queue", "wanted"), [("", "night"), ("q", "q")], ids=["none of its own", "a queue of its own"]
)
def test_a_pod_of_a_queued_native_workload_gets_its_queue(queue: str, wanted: str) -> None:
    pod = an_object("Pod", queue)
    pod["spec"]["schedulingGroup"] = {"podGroupName": "ring"}
    got = mutated(pod, FakeReader(native_queues={"ring": "night"}, default_queue=True))
    assert got["metadata"]["labels"][QUEUE] == wanted
    assert got["spec"]["schedulingGates"]
    child = pod | {"metadata": {**pod["metadata"], "ownerReferences": OWNED}}
    reader = FakeReader(native_queues={"ring": "night"}, managers={"parent": Uid("1")})
    assert mutated(child, reader) == child


def test_the_pod_template_of_a_deployment_gets_the_queue_labels() -> None:
    template = mutated(an_object("Deployment", "q"), FakeReader())["spec"]["template"]
    assert template["metadata"] == {
        "annotations": {SUSPENDING: "deployment"},
        "labels": {QUEUE: "q", "kueue.x-k8s.io/managed": "true"},
    }
    untouched = an_object("Deployment")
    assert mutated(untouched, FakeReader()) == untouched


def test_a_pod_is_validated_by_general_rules_and_its_own() -> None:
    pod = an_object("Pod", "@q", annotations={"kueue.x-k8s.io/pod-group-total-count": "2"})
    queue, group = findings_of(pod)
    assert queue.startswith(f"metadata.labels[{QUEUE}]: '@q' is not the name of a LocalQueue")
    assert group.startswith("metadata.labels[kueue.x-k8s.io/pod-group-name]: '' is missing")


def test_the_queue_of_a_running_pod_cannot_change() -> None:
    assert findings_of(an_object("Pod", "r"), an_object("Pod", "q")) == [
        f"metadata.labels[{QUEUE}]: 'r' cannot change while the job is not suspended (it was q)"
    ]


def test_a_stateful_set_scales_up_from_zero_only_without_remaining_pods() -> None:
    def scaled(replicas: int) -> Json:
        return an_object("StatefulSet", "q", {"replicas": replicas}, uid="1")

    assert findings_of(scaled(3), scaled(0)) == []
    assert findings_of(scaled(3), scaled(0), FakeReader(with_pods=("1",))) == [
        "spec.replicas: 3 must stay 0 for now: scaling down is still in progress"
    ]
    assert findings_of(scaled(3), scaled(2)) == [
        "spec.replicas: 3 can only change to and from 0 while the set is queued (was 2)"
    ]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "LeaderWorkerSet"])
def test_the_priority_class_of_a_set_cannot_be_taken_away(kind: str) -> None:
    def a_set(priority: str, ready: int = 0) -> Json:
        obj = an_object(kind, "q")
        if priority:
            obj["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = priority
        return {**obj, "status": {"readyReplicas": ready}}

    label = "metadata.labels[kueue.x-k8s.io/priority-class]"
    assert findings_of(a_set(""), a_set("high")) == [
        f"{label}: '' cannot be taken away (it was high; name another class)"
    ]
    assert findings_of(a_set("high", 1), a_set("", 1)) == [
        f"{label}: 'high' cannot be added while pods of the set are ready (scale it to 0 first)"
    ]
    assert findings_of(a_set("high"), a_set("")) == []
    assert findings_of(a_set("low", 1), a_set("high", 1)) == []
    stamped = a_set("")
    stamped["spec"]["leaderWorkerTemplate"] = {"workerTemplate": stamped["spec"]["template"]}
    stamped["spec"]["template"]["metadata"] = {"annotations": {SUSPENDING: "another"}}
    assert findings_of(stamped, a_set("high")) == [], "the set of another kind has the class"
