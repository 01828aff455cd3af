"""Conversion of pod groups and queues of older versions to v1beta1."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.volcano import PodGroup, Queue
from quorate.api.volcano.legacy import IncubatorQueue, LegacyPodGroup, SigsQueue, pod_group_of, queue_of

METADATA = {"name": "a", "namespace": "team", "uid": "u", "annotations": {"sla-waiting-time": "1m"}}
CONDITION = {"type": "Unschedulable", "status": "True", "transitionID": "t", "reason": "NotEnoughResources"}
POD_GROUP: dict[str, Any] = {
    "metadata": METADATA,
    "spec": {"minMember": 3, "queue": "q", "priorityClassName": "high", "minResources": {"cpu": "3"}},
    "status": {"phase": "Inqueue", "conditions": [CONDITION], "running": 1, "succeeded": 2, "failed": 3},
}


def test_a_pod_group_is_copied_field_for_field() -> None:
    assert pod_group_of(codec.convert(LegacyPodGroup, POD_GROUP)) == codec.convert(PodGroup, POD_GROUP)


def test_empty_and_absent_min_resources_stay_different() -> None:
    bare: dict[str, Any] = {"metadata": {"name": "a"}}
    assert pod_group_of(codec.convert(LegacyPodGroup, bare)).spec.min_resources is None
    nothing = bare | {"spec": {"minResources": {}}}
    assert pod_group_of(codec.convert(LegacyPodGroup, nothing)).spec.min_resources == {}


def test_fields_unknown_to_the_version_are_dropped() -> None:
    later = POD_GROUP | {"spec": POD_GROUP["spec"] | {"minTaskMember": {"ps": 1}, "networkTopology": {}}}
    assert pod_group_of(codec.convert(LegacyPodGroup, later)) == codec.convert(PodGroup, POD_GROUP)


@pytest.mark.parametrize(
    ("type_", "spec", "status"),
    [
        pytest.param(
            IncubatorQueue, {"weight": 4}, {"unknown": 1, "pending": 2, "running": 3}, id="v1alpha1"
        ),
        pytest.param(
            SigsQueue,
            {"weight": 4, "capability": {"cpu": "8"}},
            {"unknown": 1, "pending": 2, "running": 3, "inqueue": 4},
            id="v1alpha2",
        ),
    ],
)
def test_a_queue_is_copied_with_the_fields_of_its_version(
    type_: type[IncubatorQueue | SigsQueue], spec: dict[str, Any], status: dict[str, Any]
) -> None:
    later_spec = {"capability": {"cpu": "8"}, "deserved": {"cpu": "1"}, "reclaimable": False}
    later_status = {"inqueue": 4, "state": "Closed"}
    written = {"metadata": {"name": "q"}, "spec": later_spec | spec, "status": later_status | status}
    want = {"metadata": {"name": "q"}, "spec": spec, "status": status}
    assert queue_of(codec.convert(type_, written)) == codec.convert(Queue, want)
