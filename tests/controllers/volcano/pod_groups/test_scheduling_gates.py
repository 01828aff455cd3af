"""Removal of gates when a pod group is admitted, and the reduced pods it reads."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.volcano import PodGroup
from quorate.controllers.volcano.pod_groups.scheduling_gates import is_gated, ungate
from quorate.kube.writes import Patch

OUR_GATE = "scheduling.quorate.dev/pod-group"
VOLCANO_GATE = "scheduling.volcano.sh/queue-allocation-gate"


def a_pod(*gates: str, **annotations: str) -> Pod:
    named = {key.replace("_", "/"): text for key, text in annotations.items()}
    metadata = {"name": "a-0", "namespace": "team", "resourceVersion": "7", "annotations": named}
    container = {"name": "main", "image": "busybox", "env": [{"name": "x", "value": "y" * 1000}]}
    listed = [{"name": gate} for gate in gates]
    spec = {
        "schedulerName": "quorate",
        "containers": [container],
        **({"schedulingGates": listed} if gates else {}),
    }
    return codec.decode(Pod, codec.encode({"metadata": metadata, "spec": spec}))


def group_pod(*gates: str, requested: str = "") -> Pod:
    annotations = {"scheduling.k8s.io_group-name": "a"}
    if requested:
        annotations["scheduling.volcano.sh_queue-allocation-gate"] = requested
    return a_pod(*gates, **annotations)


def a_group(phase: str, **metadata: Any) -> PodGroup:
    return codec.convert(PodGroup, {"metadata": {"name": "a", **metadata}, "status": {"phase": phase}})


def gates_left(patch: Patch | None) -> list[str] | None:
    """Return the gates after ``patch``; None without a patch."""
    return None if patch is None else [gate.name for gate in patch.body["spec"]["schedulingGates"] or ()]


@pytest.mark.parametrize(
    ("group", "removed"),
    [
        pytest.param(None, False, id="no group"),
        pytest.param(a_group(""), False, id="new group"),
        pytest.param(a_group("Pending"), False, id="pending group"),
        pytest.param(a_group("Inqueue"), True, id="admitted group"),
        pytest.param(a_group("Running"), True, id="running group"),
        pytest.param(a_group("Unknown"), True, id="unknown group"),
        pytest.param(a_group("Completed"), True, id="completed group"),
        pytest.param(
            a_group("Inqueue", deletionTimestamp="2026-01-01T00:00:00Z"), False, id="terminating group"
        ),
    ],
)
def test_the_gate_is_removed_once_the_group_is_admitted(group: PodGroup | None, removed: bool) -> None:
    assert gates_left(ungate(group_pod(OUR_GATE), group)) == ([] if removed else None)


@pytest.mark.parametrize(
    ("pod", "left"),
    [
        pytest.param(group_pod(OUR_GATE), [], id="our gate"),
        pytest.param(group_pod("other", OUR_GATE, "more"), ["other", "more"], id="other gates stay"),
        pytest.param(group_pod("other"), None, id="only another gate"),
        pytest.param(group_pod(), None, id="no gate"),
        pytest.param(group_pod(VOLCANO_GATE, requested="true"), [], id="Volcano's gate, requested"),
        pytest.param(group_pod(VOLCANO_GATE, requested="false"), None, id="Volcano's gate, request is false"),
        pytest.param(group_pod(VOLCANO_GATE), None, id="Volcano's gate, not requested"),
        pytest.param(group_pod(VOLCANO_GATE, OUR_GATE, requested="true"), [], id="both gates"),
    ],
)
def test_only_gates_for_admission_are_removed(pod: Pod, left: list[str] | None) -> None:
    assert gates_left(ungate(pod, a_group("Inqueue"))) == left
    assert is_gated(pod) is (left is not None)


def test_the_patch_removes_the_field_with_the_last_gate_and_names_the_version() -> None:
    patch = ungate(group_pod(OUR_GATE), a_group("Inqueue"))
    assert patch is not None
    assert (patch.body, patch.resource_version) == ({"spec": {"schedulingGates": None}}, "7")
