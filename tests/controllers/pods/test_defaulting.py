"""Defaulting and validation of pods."""

import copy
from typing import Any

import pytest

from quorate.api.names.kueue import PREBUILT_WORKLOAD
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


def test_a_pod_with_a_queue_name_is_gated() -> None:
    given = a_pod(QUEUE)
    before = copy.deepcopy(given)
    gated = default_pod(given, HERE)
    assert given == before, "the argument is not changed"
    assert gated["spec"]["schedulingGates"] == GATES
    assert gated["metadata"]["labels"] == {**QUEUE, constants.MANAGED: "true"}
    assert gated["metadata"]["finalizers"] == [constants.MANAGED]
    assert gated["metadata"]["annotations"] == {constants.ROLE_HASH: "7aa6c7b8"}
    assert default_pod(gated, HERE) == gated, "defaulting is idempotent"


def test_existing_fields_are_kept() -> None:
    given = a_pod(QUEUE, {constants.ROLE_HASH: "mine"}, schedulingGates=[{"name": "other"}])
    gated = default_pod(given, HERE)
    assert gated["spec"]["schedulingGates"] == [{"name": "other"}, *GATES]
    assert gated["metadata"]["annotations"] == {constants.ROLE_HASH: "mine"}


@pytest.mark.parametrize(
    ("labels", "setting"),
    [
        pytest.param({}, HERE, id="without a queue name"),
        pytest.param(
            QUEUE, DefaultingContext(namespace_managed=False), id="in a namespace that is not managed"
        ),
        pytest.param(
            QUEUE, DefaultingContext(namespace_managed=True, is_child=True), id="a child of a managed job"
        ),
    ],
)
def test_other_pods_are_unchanged(labels: Json, setting: DefaultingContext) -> None:
    given = a_pod(labels)
    assert default_pod(given, setting) is given


def test_a_pod_gets_the_default_queue_of_its_namespace() -> None:
    gated = default_pod(
        a_pod(),
        DefaultingContext(namespace_managed=True, has_default_queue=True, default_priority_class=True),
    )
    assert gated["metadata"]["labels"] == {
        "kueue.x-k8s.io/queue-name": "default",
        "kueue.x-k8s.io/priority-class": "default",
        constants.MANAGED: "true",
    }


def test_every_pod_is_gated_if_jobs_without_a_queue_name_are_managed() -> None:
    gated = default_pod(a_pod(), DefaultingContext(namespace_managed=True, manage_without_queue_name=True))
    assert gated["spec"]["schedulingGates"] == GATES


def test_a_pod_of_a_suspending_parent_is_only_gated() -> None:
    given = a_pod(annotations={constants.SUSPENDING_PARENT: "statefulset"})
    gated = default_pod(given, DefaultingContext(namespace_managed=False))
    assert gated["spec"]["schedulingGates"] == GATES
    assert gated["metadata"]["labels"] == {}
    assert "finalizers" not in gated["metadata"]


@pytest.mark.parametrize(
    ("labels", "annotations", "want"),
    [
        pytest.param({}, {}, [], id="a plain pod"),
        pytest.param(
            {constants.MANAGED: "yes"}, {}, ["can only be"], id="the label managed with another value"
        ),
        pytest.param({constants.GROUP_NAME: "g"}, {}, ["is missing"], id="a group without its size"),
        pytest.param({}, {constants.TOTAL_COUNT: "2"}, ["is missing"], id="a size without a group"),
        pytest.param(
            {constants.GROUP_NAME: "g"}, {constants.TOTAL_COUNT: "0"}, ["is no number"], id="no pods"
        ),
        pytest.param(
            {constants.GROUP_NAME: "g"}, {constants.TOTAL_COUNT: "x"}, ["is no number"], id="not a number"
        ),
        pytest.param(
            {constants.GROUP_NAME: "G"}, {constants.TOTAL_COUNT: "1"}, ["is no name"], id="an invalid name"
        ),
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
def test_validation_of_a_pod(labels: Json, annotations: Json, want: list[str]) -> None:
    findings = [str(each) for each in pod_findings(a_pod(labels, annotations), None)]
    assert [any(part in each for each in findings) for part in want] == [True] * len(want)
    assert len(findings) == len(want)


def test_group_name_and_retriable_false_are_immutable() -> None:
    old = a_pod({constants.GROUP_NAME: "g"}, {constants.TOTAL_COUNT: "1", constants.RETRIABLE: "false"})
    new = a_pod({constants.GROUP_NAME: "h"}, {constants.TOTAL_COUNT: "1"})
    assert [each.path for each in pod_findings(new, old)] == [
        f"metadata.labels[{constants.GROUP_NAME}]",
        f"metadata.annotations[{constants.RETRIABLE}]",
    ]
    assert list(pod_findings(old, old)) == []


@pytest.mark.parametrize(("gates", "want"), [(GATES, 0), ([], 1)])
def test_a_pod_of_a_set_is_assigned_to_its_group_until_it_is_ungated(gates: list[Json], want: int) -> None:
    annotations = {constants.TOTAL_COUNT: "1", constants.SUSPENDING_PARENT: "statefulset"}
    old, new = (
        a_pod({constants.GROUP_NAME: group}, annotations, schedulingGates=gates)
        for group in ("copied", "own")
    )
    assert len(list(pod_findings(new, old))) == want


def test_a_managed_pod_of_a_managed_owner_gets_a_warning() -> None:
    assert len(list(pod_warnings(a_pod({constants.MANAGED: "true"}), owner_managed=True))) == 1
    assert not list(pod_warnings(a_pod({constants.MANAGED: "true"}), owner_managed=False))
    assert not list(pod_warnings(a_pod(), owner_managed=True))
