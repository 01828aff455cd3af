"""Which changes of pods on nodes the queueing model reads, and which of them offer room."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.controllers.topology.node_feeds import node_feeds
from tests.queueing.world import World

GIVEN = {
    "config": {"nodeFit": {"mode": "Require"}},
    "flavors": ["default"],
    "nodes": {"a": {"allocatable": {"cpu": 8, "pods": 10}}},
    "clusterQueues": {"cq": {"quota": [{"default": {"cpu": 100}}]}},
    "workloads": [{"name": "w", "queue": "cq", "created": 1, "requests": {"cpu": 9}}],
}


def a_pod(cpu: int = 1, phase: str = "Pending", **metadata: Any) -> Pod:
    spec = {"nodeName": "a", "containers": [{"name": "c", "resources": {"requests": {"cpu": str(cpu)}}}]}
    given = {"metadata": {"name": "p", "namespace": "default", "labels": {"app": "web"}, **metadata}}
    return codec.convert(Pod, {**given, "spec": spec, "status": {"phase": phase}})


@pytest.mark.parametrize(
    ("changed", "is_read", "freed"),
    [
        pytest.param(a_pod(), False, (), id="nothing"),
        pytest.param(a_pod(resourceVersion="2"), False, (), id="its version"),
        pytest.param(a_pod(deletionTimestamp="2026-01-01T00:00:00Z"), True, (), id="it is deleted"),
        pytest.param(a_pod(labels={"app": "db"}), True, (), id="its labels"),
        pytest.param(a_pod(phase="Running"), True, (), id="it runs"),
        pytest.param(a_pod(phase="Failed"), True, ("default",), id="it has ended"),
        pytest.param(a_pod(cpu=2), True, ("default",), id="its requests"),
    ],
)
def test_changes_of_a_pod_on_a_node(changed: Pod, is_read: bool, freed: tuple[str, ...]) -> None:
    notes: list[tuple[str, ...]] = []
    _, pods, _ = node_feeds(World(GIVEN).state, lambda flavors: notes.append(tuple(flavors)))
    pods.put(a_pod())
    assert pods.is_relevant(a_pod(), changed) is is_read
    pods.put(changed)
    assert notes[1] == freed
