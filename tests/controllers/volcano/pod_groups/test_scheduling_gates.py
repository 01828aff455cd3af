"""Whose gates go when a pod group is admitted, and what is remembered of pods for that."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.volcano import PodGroup
from quorate.controllers.volcano.pod_groups.group_pod import GroupPod
from quorate.controllers.volcano.pod_groups.scheduling_gates import is_gated, ungate
from quorate.kube.writes import Patch

OURS = "scheduling.quorate.dev/pod-group"
VOLCANOS = "scheduling.volcano.sh/queue-allocation-gate"


def a_pod(*gates: str, **annotations: str) -> GroupPod:
    named = {key.replace("_", "/"): text for key, text in annotations.items()}
    metadata = {"name": "a-0", "namespace": "team", "resourceVersion": "7", "annotations": named}
    container = {"name": "main", "image": "busybox", "env": [{"name": "x", "value": "y" * 1000}]}
    listed = [{"name": gate} for gate in gates]
    spec = {
        "schedulerName": "quorate",
        "containers": [container],
        **({"schedulingGates": listed} if gates else {}),
    }
    return codec.decode(GroupPod, codec.encode({"metadata": metadata, "spec": spec}))


def member(*gates: str, asks: str = "") -> GroupPod:
    annotations = {"scheduling.k8s.io_group-name": "a"}
    if asks:
        annotations["scheduling.volcano.sh_queue-allocation-gate"] = asks
    return a_pod(*gates, **annotations)


def a_group(phase: str, **metadata: Any) -> PodGroup:
    return codec.convert(PodGroup, {"metadata": {"name": "a", **metadata}, "status": {"phase": phase}})


def gates_left(patch: Patch | None) -> list[str] | None:
    """``None``: nothing is done."""
    return None if patch is None else [gate.name for gate in patch.body["spec"]["schedulingGates"] or ()]


@pytest.mark.parametrize(
    ("group", "goes"),
    [
        pytest.param(None, False, id="no group"),
        pytest.param(a_group(""), False, id="a new group"),
        pytest.param(a_group("Pending"), False, id="a group that waits"),
        pytest.param(a_group("Inqueue"), True, id="one that is admitted"),
        pytest.param(a_group("Running"), True, id="one that runs"),
        pytest.param(a_group("Unknown"), True, id="one in trouble"),
        pytest.param(a_group("Completed"), True, id="one that is over, and would be placed again"),
        pytest.param(
            a_group("Inqueue", deletionTimestamp="2026-01-01T00:00:00Z"), False, id="one on its way out"
        ),
    ],
)
def test_a_gate_goes_with_the_admission_of_the_group(group: PodGroup | None, goes: bool) -> None:
    assert gates_left(ungate(member(OURS), group)) == ([] if goes else None)


@pytest.mark.parametrize(
    ("pod", "left"),
    [
        pytest.param(member(OURS), [], id="ours"),
        pytest.param(member("other", OURS, "more"), ["other", "more"], id="others keep theirs"),
        pytest.param(member("other"), None, id="what is not ours is not touched"),
        pytest.param(member(), None, id="no gate at all"),
        pytest.param(member(VOLCANOS, asks="true"), [], id="Volcano's, asked for"),
        pytest.param(member(VOLCANOS, asks="false"), None, id="Volcano's, not asked for"),
        pytest.param(member(VOLCANOS), None, id="Volcano's, set by hand"),
        pytest.param(member(VOLCANOS, OURS, asks="true"), [], id="both"),
    ],
)
def test_whose_gates_go(pod: GroupPod, left: list[str] | None) -> None:
    assert gates_left(ungate(pod, a_group("Inqueue"))) == left
    assert is_gated(pod) is (left is not None)


def test_the_last_gate_takes_the_field_with_it_and_only_of_the_pod_as_it_was_read() -> None:
    patch = ungate(member(OURS), a_group("Inqueue"))
    assert patch is not None
    assert (patch.body, patch.resource_version) == ({"spec": {"schedulingGates": None}}, "7")


def test_of_a_pod_in_a_group_nothing_but_its_gates_is_remembered() -> None:
    assert bytes(member().spec) == b"{}"
    assert bytes(member(OURS).spec) == b'{"schedulingGates":[{"name":"%s"}]}' % OURS.encode()
    assert b"containers" in bytes(a_pod(OURS).spec), "its group is yet to be made from it"
