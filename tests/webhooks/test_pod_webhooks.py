"""Pods and the sets that make them, from review to patch or refusal."""

import asyncio
from typing import Any

import pytest

from quorate.api.configuration import Configuration, load_configuration
from quorate.api.meta import Uid
from quorate.webhooks.admission_review import AdmissionWebhook
from quorate.webhooks.pod_webhooks import pod_resources, pod_webhooks
from tests.webhooks.admission_requests import Place, a_request, patched, refusals

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


def webhook(kind: str, place: Place) -> AdmissionWebhook:
    return next(each for resource, each in pod_webhooks(place, ALL).items() if resource.kind == kind)


def an_object(kind: str, queue: str = "", spec: Json | None = None, **metadata: Any) -> Json:
    labels = {QUEUE: queue} if queue else {}
    pods = {"containers": [{"name": "c", "image": "i"}]}
    return {
        "apiVersion": "v1" if kind == "Pod" else "apps/v1",
        "kind": kind,
        "metadata": {"name": "x", "namespace": "team", "labels": labels, **metadata},
        "spec": pods if kind == "Pod" else {"template": {"metadata": {}, "spec": pods}, **(spec or {})},
    }


def mutated(document: Json, place: Place) -> Json:
    return patched(document, asyncio.run(webhook(document["kind"], place).mutate(a_request(document))))


def judged(new: Json, old: Json | None = None, place: Place | None = None) -> list[str]:
    answer = asyncio.run(webhook(new["kind"], place or Place()).validate(a_request(new, old)))
    return refusals(answer)


def test_sets_are_queued_pod_by_pod() -> None:
    def kinds(*frameworks: str) -> list[str]:
        return [each.kind for each in pod_resources(configured(*frameworks).integrations.frameworks)]

    assert kinds("batch/job") == []
    assert kinds("pod") == ["Pod"]
    assert kinds("statefulset") == ["StatefulSet", "Pod"]


@pytest.mark.parametrize(
    ("pod", "place", "gated"),
    [
        pytest.param(an_object("Pod", "q"), Place(), True, id="a pod of a queue"),
        pytest.param(an_object("Pod"), Place(), False, id="one of none"),
        pytest.param(an_object("Pod", "q"), Place(managed=False), False, id="nobody's namespace"),
        pytest.param(an_object("Pod"), Place(default_queue=True), True, id="the default queue"),
        pytest.param(
            an_object("Pod", annotations={SUSPENDING: "deployment"}), Place(managed=False), True,
            id="one of a set that is queued",
        ),
        pytest.param(
            an_object("Pod", "q", ownerReferences=OWNED),
            Place(managers={"parent": Uid("1")}), False, id="one of a job that is queued",
        ),
    ],
)  # fmt: skip
def test_a_new_pod_is_held_back_if_it_is_ours(pod: Json, place: Place, gated: bool) -> None:
    gates = [gate["name"] for gate in mutated(pod, place)["spec"].get("schedulingGates", [])]
    assert gates == (["kueue.x-k8s.io/admission"] if gated else [])


def test_a_deployment_marks_its_pods() -> None:
    template = mutated(an_object("Deployment", "q"), Place())["spec"]["template"]
    assert template["metadata"] == {
        "annotations": {SUSPENDING: "deployment"},
        "labels": {QUEUE: "q", "kueue.x-k8s.io/managed": "true"},
    }
    untouched = an_object("Deployment")
    assert mutated(untouched, Place()) == untouched


def test_a_pod_is_judged_by_general_rules_and_its_own() -> None:
    pod = an_object("Pod", "@q", annotations={"kueue.x-k8s.io/pod-group-total-count": "2"})
    queue, group = judged(pod)
    assert queue.startswith(f"metadata.labels[{QUEUE}]: '@q' is not the name of a LocalQueue")
    assert group.startswith("metadata.labels[kueue.x-k8s.io/pod-group-name]: '' is missing")


def test_the_queue_of_a_running_pod_cannot_change() -> None:
    assert judged(an_object("Pod", "r"), an_object("Pod", "q")) == [
        f"metadata.labels[{QUEUE}]: 'r' cannot change while the job is not suspended (it was q)"
    ]


def test_a_stateful_set_comes_back_only_when_its_pods_are_gone() -> None:
    def scaled(replicas: int) -> Json:
        return an_object("StatefulSet", "q", {"replicas": replicas}, uid="1")

    assert judged(scaled(3), scaled(0)) == []
    assert judged(scaled(3), scaled(0), Place(parts=("1",))) == [
        "spec.replicas: 3 must stay 0 for now: scaling down is still in progress"
    ]
    assert judged(scaled(3), scaled(2)) == [
        "spec.replicas: 3 can only change to and from 0 while the set is queued (was 2)"
    ]
