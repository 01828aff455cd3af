"""What webhooks add to pods, and what they refuse."""

import copy
from typing import Any

import pytest

from quorate.api.kueue import PREBUILT_WORKLOAD
from quorate.controllers.pods import constants
from quorate.controllers.pods.defaulting import DefaultingContext, default_pod, pod_findings, pod_warnings

Json = dict[str, Any]

HERE = DefaultingContext(namespace_managed=True)
QUEUE = {"kueue.x-k8s.io/queue-name": "queue"}
GATES = [{"name": constants.ADMISSION_GATE}]


def a_pod(labels: Json | None = None, annotations: Json | None = None, **spec: Any) -> Json:
    return {
        "metadata": {"name": "one", "labels": labels or {}, "annotations": annotations or {}},
        "spec": {"containers": [{"name": "main"}], **spec},
    }


def test_a_pod_with_a_queue_is_held_back() -> None:
    given = a_pod(QUEUE)
    before = copy.deepcopy(given)
    held = default_pod(given, HERE)
    assert given == before, "what is given is not changed"
    assert held["spec"]["schedulingGates"] == GATES
    assert held["metadata"]["labels"] == {**QUEUE, constants.MANAGED: "true"}
    assert held["metadata"]["finalizers"] == [constants.MANAGED]
    assert held["metadata"]["annotations"] == {constants.ROLE_HASH: "7aa6c7b8"}
    assert default_pod(held, HERE) == held, "twice is once"


def test_what_is_given_is_kept() -> None:
    given = a_pod(QUEUE, {constants.ROLE_HASH: "mine"}, schedulingGates=[{"name": "other"}])
    held = default_pod(given, HERE)
    assert held["spec"]["schedulingGates"] == [{"name": "other"}, *GATES]
    assert held["metadata"]["annotations"] == {constants.ROLE_HASH: "mine"}


@pytest.mark.parametrize(
    ("labels", "setting"),
    [
        pytest.param({}, HERE, id="it asks for no queue"),
        pytest.param(QUEUE, DefaultingContext(namespace_managed=False), id="its namespace is not managed"),
        pytest.param(QUEUE, DefaultingContext(namespace_managed=True, is_child=True), id="part of a job"),
    ],
)
def test_other_pods_are_left_as_they_are(labels: Json, setting: DefaultingContext) -> None:
    given = a_pod(labels)
    assert default_pod(given, setting) is given


def test_a_pod_is_queued_by_default_where_there_is_a_default_queue() -> None:
    held = default_pod(
        a_pod(),
        DefaultingContext(namespace_managed=True, has_default_queue=True, default_priority_class=True),
    )
    assert held["metadata"]["labels"] == {
        "kueue.x-k8s.io/queue-name": "default",
        "kueue.x-k8s.io/priority-class": "default",
        constants.MANAGED: "true",
    }


def test_every_pod_is_held_back_where_all_are_managed() -> None:
    held = default_pod(a_pod(), DefaultingContext(namespace_managed=True, manage_without_queue_name=True))
    assert held["spec"]["schedulingGates"] == GATES


def test_a_pod_whose_parent_waits_is_only_gated() -> None:
    given = a_pod(annotations={constants.SUSPENDING_PARENT: "statefulset"})
    held = default_pod(given, DefaultingContext(namespace_managed=False))
    assert held["spec"]["schedulingGates"] == GATES
    assert held["metadata"]["labels"] == {}
    assert "finalizers" not in held["metadata"]


@pytest.mark.parametrize(
    ("labels", "annotations", "want"),
    [
        pytest.param({}, {}, [], id="an ordinary pod"),
        pytest.param({constants.MANAGED: "yes"}, {}, ["can only be"], id="managed: yes"),
        pytest.param({constants.GROUP_NAME: "g"}, {}, ["is missing"], id="a group without its size"),
        pytest.param({}, {constants.TOTAL_COUNT: "2"}, ["is missing"], id="a size without a group"),
        pytest.param(
            {constants.GROUP_NAME: "g"}, {constants.TOTAL_COUNT: "0"}, ["is no number"], id="no pods"
        ),
        pytest.param(
            {constants.GROUP_NAME: "g"}, {constants.TOTAL_COUNT: "x"}, ["is no number"], id="no number"
        ),
        pytest.param({constants.GROUP_NAME: "G"}, {constants.TOTAL_COUNT: "1"}, ["is no name"], id="no name"),
        pytest.param(
            {constants.GROUP_NAME: "g", PREBUILT_WORKLOAD: "w"},
            {constants.TOTAL_COUNT: "1"},
            [f"metadata.labels[{PREBUILT_WORKLOAD}]: 'w' must be 'g'"],
            id="a workload of another name",
        ),
        pytest.param(
            {},
            {constants.GROUP_NAME: "g", constants.TOTAL_COUNT: "1", PREBUILT_WORKLOAD: "w"},
            [f"metadata.annotations[{PREBUILT_WORKLOAD}]: 'w' must be 'g'"],
            id="a workload of another name in an annotation",
        ),
        pytest.param(
            {}, {constants.GROUP_NAME: "g", constants.TOTAL_COUNT: "1"}, [], id="the name as an annotation"
        ),
    ],
)
def test_what_a_pod_may_say(labels: Json, annotations: Json, want: list[str]) -> None:
    findings = [str(each) for each in pod_findings(a_pod(labels, annotations), None)]
    assert [any(part in each for each in findings) for part in want] == [True] * len(want)
    assert len(findings) == len(want)


def test_a_pod_stays_in_its_group_and_as_final_as_it_was() -> None:
    old = a_pod({constants.GROUP_NAME: "g"}, {constants.TOTAL_COUNT: "1", constants.RETRIABLE: "false"})
    new = a_pod({constants.GROUP_NAME: "h"}, {constants.TOTAL_COUNT: "1"})
    assert [each.path for each in pod_findings(new, old)] == [
        f"metadata.labels[{constants.GROUP_NAME}]",
        f"metadata.annotations[{constants.RETRIABLE}]",
    ]
    assert list(pod_findings(old, old)) == []


def test_a_managed_pod_of_a_managed_owner_is_warned_of() -> None:
    assert len(list(pod_warnings(a_pod({constants.MANAGED: "true"}), owner_managed=True))) == 1
    assert not list(pod_warnings(a_pod({constants.MANAGED: "true"}), owner_managed=False))
    assert not list(pod_warnings(a_pod(), owner_managed=True))
