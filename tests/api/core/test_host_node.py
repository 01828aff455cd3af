"""What is kept of nodes as hosts of places."""

from quorate.api import codec
from quorate.api.core.host_node import HostNode

READY = {
    "type": "Ready",
    "status": "True",
    "reason": "KubeletReady",
    "message": "kubelet is posting ready status",
}
NODE = {
    "metadata": {
        "name": "a",
        "uid": "1",
        "resourceVersion": "7",
        "labels": {"kubernetes.io/hostname": "a", "rack": "r1"},
        "annotations": {"node.alpha.kubernetes.io/ttl": "0"},
    },
    "spec": {"unschedulable": True, "taints": [{"key": "gpu", "effect": "NoSchedule"}], "providerID": "x"},
    "status": {
        "capacity": {"cpu": "9"},
        "allocatable": {"cpu": "8"},
        "conditions": [{"type": "DiskPressure", "status": "False"}, READY],
        "images": [{"names": ["registry.example/a:1"], "sizeBytes": 1}],
    },
}
KEPT = {
    "metadata": {
        "name": "a",
        "uid": "1",
        "resourceVersion": "7",
        "labels": {"kubernetes.io/hostname": "a", "rack": "r1"},
    },
    "spec": {"unschedulable": True, "taints": [{"key": "gpu", "effect": "NoSchedule"}]},
    "status": {
        "allocatable": {"cpu": "8"},
        "conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady"}],
    },
}


def test_only_what_places_depend_on_is_kept() -> None:
    node = codec.convert(HostNode, NODE)
    kept = codec.convert(HostNode, KEPT)
    assert (node.metadata, node.spec, node.status) == (kept.metadata, kept.spec, kept.status)
    assert dict(node.metadata.labels) == {"kubernetes.io/hostname": "a", "rack": "r1"}
    assert [each.type for each in node.status.conditions] == ["Ready"]
    assert str(node.status.allocatable["cpu"]) == "8"
    assert not node.metadata.annotations
    assert not node.status.images
    assert not node.status.capacity


def test_a_node_that_says_nothing_is_not_ready() -> None:
    assert codec.convert(HostNode, {"metadata": {"name": "a"}}).status.conditions == ()
