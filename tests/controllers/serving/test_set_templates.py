"""Defaulting and validation of sets of pods."""

from typing import Any

import pytest

from quorate.api.field_path import InvalidTemplate
from quorate.controllers.pods import constants
from quorate.controllers.pods.defaulting import DefaultingContext
from quorate.controllers.serving.set_templates import (
    DEPLOYMENT,
    LEADER_WORKER_SET,
    STATEFUL_SET,
    ScaleDownState,
    default_set,
    gate_templates,
    leader_worker_set_findings,
    set_findings,
    stateful_set_findings,
)

Json = dict[str, Any]

HERE = DefaultingContext(namespace_managed=True)
SCALED_DOWN = ScaleDownState()


def a_set(queue: str = "queue", replicas: int = 3, ready: int = 0, cpu: str = "1") -> Json:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    named = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return {
        "metadata": {"name": "web", "labels": named},
        "spec": {"replicas": replicas, "template": {"spec": {"containers": [container]}}},
        "status": {"readyReplicas": ready},
    }


def groups(size: int = 2, queue: str = "queue") -> Json:
    templates: Json = {"leaderTemplate": {"spec": {}}, "workerTemplate": {"spec": {}}}
    named = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return {
        "metadata": {"name": "serve", "labels": named},
        "spec": {"leaderWorkerTemplate": {"size": size, **templates}},
    }


def test_the_template_of_a_deployment_has_the_queue_name() -> None:
    given = a_set()
    given["metadata"]["labels"]["kueue.x-k8s.io/priority-class"] = "high"
    marked = default_set(DEPLOYMENT, given, HERE)
    assert marked["spec"]["template"]["metadata"] == {
        "labels": {
            "kueue.x-k8s.io/queue-name": "queue",
            "kueue.x-k8s.io/priority-class": "high",
            constants.MANAGED: "true",
        },
        "annotations": {constants.SUSPENDING_PARENT: "deployment"},
    }
    assert "metadata" not in given["spec"]["template"], "the argument is not changed"
    assert default_set(DEPLOYMENT, marked, HERE) == marked


def test_the_older_annotation_of_a_queue_becomes_a_label_of_the_template() -> None:
    given = a_set(queue="")
    given["metadata"]["annotations"] = {"kueue.x-k8s.io/queue-name": "queue"}
    template = default_set(DEPLOYMENT, given, HERE)["spec"]["template"]
    assert template["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "queue"


def test_the_templates_of_other_sets_only_get_the_annotation() -> None:
    marked = default_set(STATEFUL_SET, a_set(), HERE)
    assert marked["spec"]["template"]["metadata"] == {
        "annotations": {constants.SUSPENDING_PARENT: "statefulset"}
    }
    both = default_set(LEADER_WORKER_SET, groups(), HERE)["spec"]["leaderWorkerTemplate"]
    mark = {"annotations": {constants.SUSPENDING_PARENT: "leaderworkerset.x-k8s.io/leaderworkerset"}}
    assert [both["leaderTemplate"]["metadata"], both["workerTemplate"]["metadata"]] == [mark, mark]


def test_a_set_without_a_queue_name_is_unchanged() -> None:
    given = a_set(queue="")
    assert default_set(DEPLOYMENT, given, HERE) is given
    assert default_set(DEPLOYMENT, a_set(), DefaultingContext(namespace_managed=False)) == a_set()


def test_templates_can_have_the_gate() -> None:
    gated = gate_templates(DEPLOYMENT, a_set(), HERE)
    assert gated["spec"]["template"]["spec"]["schedulingGates"] == [{"name": constants.ADMISSION_GATE}]
    assert gate_templates(DEPLOYMENT, gated, HERE) == gated


@pytest.mark.parametrize(
    ("old", "new", "want"),
    [
        pytest.param(a_set("a", ready=1), a_set("b", ready=1), ["is immutable"], id="while pods are ready"),
        pytest.param(a_set("a"), a_set("b"), [], id="while no pod is ready"),
        pytest.param(a_set("a"), a_set(""), ["cannot be removed"], id="removal of the queue name"),
        pytest.param(
            a_set("", ready=1),
            a_set("b", ready=1),
            ["is immutable"],
            id="adding a queue name while pods are ready",
        ),
    ],
)
def test_validation_of_the_queue_name_of_a_set(old: Json, new: Json, want: list[str]) -> None:
    findings = [each.rule for each in set_findings(DEPLOYMENT, new, old)]
    assert [rule[: len(start)] for rule, start in zip(findings, want, strict=True)] == want


@pytest.mark.parametrize(
    ("old", "new", "remains", "want"),
    [
        pytest.param(a_set(replicas=3), a_set(replicas=0), SCALED_DOWN, [], id="scaled to 0"),
        pytest.param(a_set(replicas=0), a_set(replicas=5), SCALED_DOWN, [], id="scaled from 0"),
        pytest.param(
            a_set(replicas=3), a_set(replicas=4), SCALED_DOWN, ["spec.replicas"], id="one more replica"
        ),
        pytest.param(
            a_set(replicas=0),
            a_set(replicas=3),
            ScaleDownState(pods=True),
            ["spec.replicas"],
            id="pods remain",
        ),
        pytest.param(
            a_set(replicas=0),
            a_set(replicas=3),
            ScaleDownState(active_workload=True),
            ["spec.replicas"],
            id="the workload is active",
        ),
        pytest.param(
            a_set(),
            a_set(cpu="2"),
            SCALED_DOWN,
            ["spec.template.spec.containers[0].resources.requests"],
            id="larger requests",
        ),
        pytest.param(a_set("", cpu="1"), a_set("", cpu="2"), SCALED_DOWN, [], id="without a queue name"),
    ],
)
def test_validation_of_a_stateful_set(old: Json, new: Json, remains: ScaleDownState, want: list[str]) -> None:
    assert [each.path for each in stateful_set_findings(new, old, remains)] == want


def test_the_size_of_a_leader_worker_set_is_immutable() -> None:
    assert [each.path for each in leader_worker_set_findings(groups(3), groups(2))] == [
        "spec.leaderWorkerTemplate.size"
    ]
    assert list(leader_worker_set_findings(groups(2), groups(2))) == []
    assert list(leader_worker_set_findings(groups(3, ""), groups(2, ""))) == []
    assert list(leader_worker_set_findings(groups(3), groups(2), immutable_size=False)) == []


@pytest.mark.parametrize("role", ["leaderTemplate", "workerTemplate"])
def test_what_the_pods_of_a_queued_leader_worker_set_ask_for_is_immutable(role: str) -> None:
    def changed(queue: str, spec: Json | None) -> Json:
        obj = groups(queue=queue)
        obj["spec"]["leaderWorkerTemplate"][role] = {"spec": spec}
        return obj

    def requesting(cpu: Any, **fields: Any) -> Json:
        return {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}], **fields}

    of_main = ".containers[0].resources.requests"
    changes: list[tuple[Json, Json | None, str | None]] = [
        ({}, requesting("2"), ".containers"),
        ({}, {"nodeSelector": {"zone": "b"}}, ".nodeSelector"),
        ({}, None, ""),
        (requesting(1), requesting("2"), of_main),
        (requesting(1), requesting("1"), None),
        (requesting("1000m", tolerations=[]), requesting(1.0), None),
    ]
    for before, spec, place in changes:
        old, new = changed("queue", before), changed("queue", spec)
        findings = leader_worker_set_findings(new, old, immutable_size=False)
        want = [] if place is None else [f"spec.leaderWorkerTemplate.{role}.spec{place}"]
        assert [finding.path for finding in findings] == want
        assert list(leader_worker_set_findings(changed("", spec), groups(queue=""))) == []
    image: Json = {"schedulerName": "other"}
    assert list(leader_worker_set_findings(changed("queue", image), groups())) == []


@pytest.mark.parametrize(
    ("template", "want"),
    [
        pytest.param({"metadata": 7}, "spec.template.metadata: is 7", id="metadata"),
        pytest.param({"metadata": {"annotations": []}}, "annotations: is []", id="annotations"),
        pytest.param({"metadata": {"labels": "a"}}, "labels: is 'a'", id="labels"),
        pytest.param({"spec": []}, "spec.template.spec: is []", id="spec"),
        pytest.param({"spec": {"schedulingGates": "none"}}, "schedulingGates: is 'none'", id="gates"),
        pytest.param({"spec": {"schedulingGates": [1]}}, "schedulingGates[0]: is 1", id="a gate"),
    ],
)
def test_a_template_without_its_structure_is_refused_by_field(template: Json, want: str) -> None:
    given = a_set()
    given["spec"]["template"] = template
    with pytest.raises(InvalidTemplate) as refusal:
        gate_templates(DEPLOYMENT, default_set(DEPLOYMENT, given, HERE), HERE)
    assert want in str(refusal.value)
