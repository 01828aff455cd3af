"""The explanation of Kubernetes' own pod groups, by the code that explains Volcano's."""

from typing import Any

import pytest
from msgspec.structs import replace

from quorate.api import codec, native_groups
from quorate.api.core.started_pod import StartedPod
from quorate.api.explanation import Explanation
from quorate.gang.cache.native_groups import as_volcano_group, native_key, scheduled_condition
from quorate.gang.explanation import GroupFacts, explain_group
from quorate.gang.remedies import group_facts
from quorate.queueing.explanation.pods import with_members
from tests.gang.native_world import CONFIGURATION, NativeWorld

NODE = {"name": "n1", "cpu": 4, "rack": "a"}
TRAIN = {"name": "train", "minCount": 3, "pods": 3, "cpu": 2}


def explained(world: NativeWorld, group: dict[str, Any]) -> Explanation:
    """Return the explanation of ``group`` in ``world``, which rehearsed sessions may change."""
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": group["minCount"]}}}
    if "topology" in group:
        spec["schedulingConstraints"] = {"topology": [{"key": group["topology"]}]}
    metadata = {"name": group["name"], "namespace": "default", "uid": group["name"]}
    native = codec.convert(native_groups.PodGroup, {"metadata": metadata, "spec": spec})
    scheduled = scheduled_condition(world.model.gangs[native_key(native.metadata.key)].conditions)
    assert scheduled is not None, "no session ran"
    stored = as_volcano_group(replace(native, status=replace(native.status, conditions=(scheduled,))))
    steps, facts = group_facts(world.model, stored, CONFIGURATION, 2000.0), GroupFacts()
    while True:
        try:
            next(steps)
        except StopIteration as end:
            facts = end.value
            break
    members = {"schedulingGroup": {"podGroupName": group["name"]}}
    pods = [
        codec.convert(
            StartedPod,
            {
                "metadata": {"name": key.name, "namespace": key.namespace},
                "spec": members | {"nodeName": pod.node_name},
                "status": {"phase": pod.status.phase},
            },
        )
        for key, pod in world.pods.items()
    ]
    return with_members(explain_group(stored, facts), pods)


@pytest.mark.parametrize(
    ("group", "state", "code", "numbers", "enough"),
    [
        pytest.param(
            TRAIN, "Queued", "NotEnoughResources", ("cpu", "2", ""),
            "1 more node must have 2 cpu free", id="nodes lack room for one member",
        ),
        pytest.param(
            TRAIN | {"topology": "rack", "cpu": 3}, "NeverFits", "NetworkTopologyUnsatisfied",
            ("pods", "3", "1"), "one value of the label", id="no rack has room",
        ),
    ],
)  # fmt: skip
def test_why_a_native_group_waits(
    group: dict[str, Any], state: str, code: str, numbers: tuple[str, ...], enough: str
) -> None:
    world = NativeWorld({"nodes": [NODE]})
    world.play({"add": group})
    explanation = explained(world, group)
    (reason, *_) = explanation.reasons
    assert (explanation.state, reason.code) == (state, code)
    assert (reason.resource, reason.needed, reason.free) == numbers
    assert explanation.message.startswith("its pods wait for nodes; ")
    assert any(enough in text for text in explanation.enough), explanation.enough
    assert explanation.pods is not None
    assert explanation.pods.created == 3


def test_a_remedy_lets_a_native_group_start() -> None:
    world = NativeWorld({"nodes": [NODE]})
    world.play({"add": TRAIN})
    (remedy, *_) = explained(world, TRAIN).remedies
    (change,) = remedy.all_of
    assert change.nodes is not None
    assert world.bound("train") == 0
    for number in range(change.nodes.count):
        world.play({"node": {"name": f"new-{number}", "cpu": int(change.nodes.free["cpu"])}})
    assert world.bound("train") == 3
    assert explained(world, TRAIN).state == "Running"
