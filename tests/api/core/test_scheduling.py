"""The scheduler's view of pods keeps fields that affect placement, and shares equal parts."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.core.pod import Pod, PodStatus
from quorate.api.core.pod_templates import template_pod
from quorate.api.core.scheduling import HostNode, Node

POD = """
{"metadata": {"name": "%(name)s", "namespace": "team", "uid": "%(name)s",
  "labels": {"app": "train", "volcano.sh/task-index": "%(name)s"},
  "annotations": {"scheduling.k8s.io/group-name": "gang", "k8s.v1.cni.cncf.io/network-status": "%(name)s"},
  "ownerReferences": [{"apiVersion": "v1", "kind": "Job", "name": "gang", "uid": "j", "controller": true}]},
 "spec": {"nodeName": "%(node)s", "schedulerName": "volcano",
  "containers": [{"name": "main", "image": "train:1",
    "ports": [{"containerPort": 80}, {"containerPort": 90, "hostPort": 90, "hostIP": "10.0.0.1"}],
    "resources": {"requests": {"cpu": "1500m", "nvidia.com/gpu": 1}},
    "volumeMounts": [{"name": "token-%(name)s", "mountPath": "/token"}]}],
  "volumes": [{"name": "token-%(name)s", "projected": {"sources": []}},
    {"name": "data", "persistentVolumeClaim": {"claimName": "%(claim)s"}},
    {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}],
  "affinity": {
    "nodeAffinity": {
      "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]},
      "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 7, "preference": {"matchFields": [
          {"key": "metadata.name", "operator": "In", "values": ["n"]}]}}]},
    "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
      {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "train"}}, "namespaceSelector": {},
       "mismatchLabelKeys": ["v"]}]}},
  "topologySpreadConstraints": [
    {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "minDomains": 3}]},
 "status": {"phase": "Running", "conditions": [
   {"type": "Ready", "status": "True", "lastTransitionTime": "2024-01-02T03:04:%(second)sZ"}]}}
"""

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


def a_pod(name: str, node: str = "", second: str = "00", claim: str = "shared") -> Pod:
    return codec.decode(Pod, POD % {"name": name, "node": node, "second": second, "claim": claim})


def test_fields_that_affect_placement_are_decoded() -> None:
    spec = a_pod("a").spec
    (port,) = spec.containers[0].ports
    assert (port.host_port, port.host_ip, port.protocol) == (90, "10.0.0.1", "TCP")
    assert [(volume.name, volume.ephemeral is not None) for volume in spec.volumes] == [
        ("data", False), ("scratch", True),
    ]  # fmt: skip
    affinity = spec.affinity
    assert affinity is not None
    assert affinity.node_affinity is not None
    assert affinity.node_affinity.required is not None
    assert affinity.node_affinity.preferred[0].weight == 7
    assert affinity.pod_affinity is None
    assert affinity.pod_anti_affinity is not None
    (apart,) = affinity.pod_anti_affinity.required
    assert (apart.topology_key, apart.mismatch_label_keys) == ("host", ("v",))
    assert apart.namespace_selector is not None, "an empty selector is every namespace, an absent one none"
    (spread,) = spec.topology_spread_constraints
    assert (spread.max_skew, spread.min_domains, spread.when_unsatisfiable) == (2, 3, "ScheduleAnyway")
    assert (spread.node_affinity_policy, spread.node_taints_policy) == ("Honor", "Ignore")


def test_equal_pods_share_spec_and_status() -> None:
    """Names, nodes, token volumes and times may differ."""
    one, other = a_pod("a", node="n1", second="01"), a_pod("b", node="n2", second="59")
    assert one.spec is other.spec
    assert one.status is other.status
    assert one.metadata.annotations is other.metadata.annotations
    assert (one.node_name, other.node_name) == ("n1", "n2")
    assert one.metadata.labels == {"app": "train", "volcano.sh/task-index": "a"}
    assert other.metadata.labels == {"app": "train", "volcano.sh/task-index": "b"}


def test_different_pods_share_their_equal_parts() -> None:
    one, other = a_pod("a", claim="data-a"), a_pod("b", claim="data-b")
    assert one.spec.volumes != other.spec.volumes
    for part in ("containers", "affinity", "topology_spread_constraints"):
        assert getattr(one.spec, part) is getattr(other.spec, part), part


def test_a_pod_that_is_decoded_again_keeps_its_node() -> None:
    placed = a_pod("a", node="n1")
    assert replace(placed, status=PodStatus(phase="Failed")).node_name == "n1"
    assert replace(placed, node_name="").node_name == ""


POD_AFFINITY = {"topologyKey": "zone"}
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("path", "term"),
    [
        ("containers", {"name": "a"}),
        ("initContainers", {"name": "a"}),
        ("topologySpreadConstraints", {"topologyKey": "zone"}),
        (f"affinity.podAffinity.{REQUIRED}", POD_AFFINITY),
        (f"affinity.podAntiAffinity.{REQUIRED}", POD_AFFINITY),
        (f"affinity.podAffinity.{PREFERRED}", {"weight": 1, "podAffinityTerm": POD_AFFINITY}),
        (f"affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms", {}),
        (f"affinity.nodeAffinity.{PREFERRED}", {"weight": 1}),
    ],
)
def test_a_pod_with_thousands_of_containers_or_terms_is_not_read(path: str, term: dict[str, Any]) -> None:
    most = 4096 if path.lower().endswith("containers") else 256

    def with_terms(count: int) -> dict[str, Any]:
        value: Any = [term] * count
        for name in reversed(path.split(".")):
            value = {name: value}
        return {"metadata": {"name": "a"}, "spec": value}

    codec.convert(Pod, with_terms(most))
    with pytest.raises(
        msgspec.ValidationError, match=f"array` of length <= {most} - at `.*" + path.split(".")[-1]
    ):
        codec.convert(Pod, with_terms(most + 1))


def test_only_annotations_for_schedulers_are_kept() -> None:
    assert a_pod("a").metadata.annotations == {"scheduling.k8s.io/group-name": "gang"}


def test_equal_nodes_share_their_images() -> None:
    def node(name: str) -> Node:
        text = (
            '{"metadata": {"name": "%s"}, "status": {"images": [{"names": ["x:1", "x@s"], "sizeBytes": 9}]}}'
        )
        return codec.decode(Node, text % name)

    assert node("a").status.images[0].size_bytes == 9
    assert node("a").status.images is node("b").status.images


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


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, [90], id="the network of the pod"),
        pytest.param({"hostNetwork": False}, [90], id="hostNetwork is false"),
        pytest.param({"hostNetwork": True}, [80, 90], id="the network of the host"),
        pytest.param({"hostNetwork": "yes"}, [], id="a template that cannot be decoded"),
    ],
)
def test_ports_of_a_template_in_the_network_of_the_host_are_host_ports(
    spec: dict[str, Any], want: list[int]
) -> None:
    ports = [{"containerPort": 80}, {"containerPort": 90, "hostPort": 90}]
    content = codec.encode({"spec": {**spec, "containers": [{"name": "main", "ports": ports}]}})
    containers = template_pod("team", content).spec.containers
    assert [port.host_port for container in containers for port in container.ports] == want
