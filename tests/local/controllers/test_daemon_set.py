"""DaemonSets on the local cluster: which nodes get a pod, and how pods are replaced."""

import asyncio
from typing import Any

import pytest

from quorate.api import codec
from quorate.api.core import Node, Pod
from quorate.api.meta import Key
from quorate.kube.client import PatchKind
from quorate.kube.resources import NODES, Json, untyped
from quorate.local.controllers.apps.daemon_set import NodeFit, daemon_pod, next_changes, node_fits
from quorate.local.controllers.apps.types import DaemonSet
from quorate.local.controllers.pod_control import REVISION_LABEL, template_hash
from quorate.local.nodes import NodePool
from tests.local.controllers.running_cluster import LocalCluster, local_cluster

DAEMON_SETS = untyped("apps", "v1", "daemonsets", "DaemonSet", True)


METADATA = {
    "name": "agent",
    "generation": 4,
    "annotations": {"deprecated.daemonset.template.generation": "1"},
}


def a_set(pod: Json | None = None, **spec: Any) -> DaemonSet:
    template = {"metadata": {"labels": {"app": "agent"}}, "spec": pod or {}}
    return codec.convert(DaemonSet, {"metadata": METADATA, "spec": {"template": template, **spec}})


def a_node(name: str = "a", taint: str = "", **labels: str) -> Node:
    """``taint``: ``key:effect``."""
    key, _, effect = taint.partition(":")
    taints = [{"key": key, "effect": effect}] if taint else []
    return codec.convert(Node, {"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}})


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
IN_EAST = {
    "nodeAffinity": {
        REQUIRED: {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["east"]}]}
            ]
        }
    }
}


@pytest.mark.parametrize(
    ("pod", "node", "want"),
    [
        pytest.param({}, a_node(), (True, True), id="any node"),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, a_node(), (False, False), id="node selector"),
        pytest.param({"nodeSelector": {"disk": "ssd"}}, a_node(disk="ssd"), (True, True), id="selected node"),
        pytest.param({"affinity": IN_EAST}, a_node(zone="west"), (False, False), id="node affinity"),
        pytest.param({"nodeName": "b"}, a_node(), (False, False), id="another node by name"),
        pytest.param({}, a_node(taint="gpu:NoSchedule"), (False, True), id="a taint keeps new pods away"),
        pytest.param({}, a_node(taint="gpu:NoExecute"), (False, False), id="a taint evicts"),
        pytest.param(
            {}, a_node(taint="gpu:PreferNoSchedule"), (True, True), id="a preference does not count"
        ),
        pytest.param(
            {"tolerations": [{"key": "gpu", "operator": "Exists"}]},
            a_node(taint="gpu:NoExecute"),
            (True, True),
            id="tolerated",
        ),
        pytest.param(
            {},
            a_node(taint="node.kubernetes.io/unschedulable:NoSchedule"),
            (True, True),
            id="a cordoned node has daemons, too",
        ),
        pytest.param(
            {},
            a_node(taint="node.kubernetes.io/not-ready:NoExecute"),
            (True, True),
            id="a node that is not ready",
        ),
        pytest.param(
            {},
            a_node(taint="node.kubernetes.io/network-unavailable:NoSchedule"),
            (False, True),
            id="no network",
        ),
        pytest.param(
            {"hostNetwork": True},
            a_node(taint="node.kubernetes.io/network-unavailable:NoSchedule"),
            (True, True),
            id="the host's network",
        ),
    ],
)
def test_which_nodes_fit(pod: Json, node: Node, want: tuple[bool, bool]) -> None:
    assert node_fits(a_set(pod), [node]) == {node.metadata.name: NodeFit(*want)}


def a_pod(text: str) -> Pod:
    """``text``: node, then new or old, then ready, waiting, failed or gone: ``a/new/ready``."""
    node, age, state = text.split("/")
    metadata: Json = {"name": text.replace("/", "-"), "creationTimestamp": "2026-01-01T00:00:00Z"}
    metadata["labels"] = {REVISION_LABEL: template_hash(a_set().spec.template) if age == "new" else "old"}
    if state == "gone":
        metadata["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    status = {
        "phase": "Failed" if state == "failed" else "Running",
        "conditions": [ready] if state == "ready" else [],
    }
    return codec.convert(Pod, {"metadata": metadata, "spec": {"nodeName": node}, "status": status})


def rolling(unavailable: int | str = 1, surge: int | str = 0) -> Json:
    return {
        "type": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": unavailable, "maxSurge": surge},
    }


@pytest.mark.parametrize(
    ("strategy", "pods", "want"),
    [
        pytest.param(rolling(), "", "+a +b +c", id="one pod a node"),
        pytest.param(rolling(), "a/new/ready b/new/waiting c/new/ready", "", id="complete"),
        pytest.param(rolling(), "a/new/ready b/new/failed c/new/ready", "-b/new/failed", id="a failed pod"),
        pytest.param(
            rolling(), "a/new/ready a/new/waiting b/new/ready c/new/ready", "-a/new/waiting", id="two pods"
        ),
        pytest.param(
            rolling(), "a/new/ready b/new/ready c/new/gone", "", id="a terminating pod is waited for"
        ),
        pytest.param(
            rolling(), "x/new/ready a/new/ready b/new/ready c/new/ready", "", id="an unknown node's pod"
        ),
        pytest.param(
            rolling(), "n/new/ready a/new/ready b/new/ready c/new/ready", "-n/new/ready", id="a node left"
        ),
        pytest.param(rolling(), "a/old/ready b/old/ready c/old/ready", "-a/old/ready", id="one at a time"),
        pytest.param(rolling(), "a/old/ready b/old/ready", "+c", id="a node without a pod is unavailable"),
        pytest.param(
            rolling(2), "a/old/ready b/old/ready c/old/ready", "-a/old/ready -b/old/ready", id="two"
        ),
        pytest.param(
            rolling("34%"), "a/old/ready b/old/ready c/old/ready", "-a/old/ready -b/old/ready", id="34%"
        ),
        pytest.param(
            rolling(), "a/new/waiting b/old/ready c/old/ready", "", id="the new pod is not ready yet"
        ),
        pytest.param(rolling(), "a/old/gone b/old/ready c/old/ready", "", id="the old pod is not gone yet"),
        pytest.param(
            rolling(),
            "a/old/waiting b/old/waiting c/old/ready",
            "-a/old/waiting -b/old/waiting",
            id="broken pods",
        ),
        pytest.param(rolling(0, 1), "a/old/ready b/old/ready c/old/ready", "+a", id="surge"),
        pytest.param(
            rolling(0, 1), "a/old/ready a/new/waiting b/old/ready c/old/ready", "", id="surge waits"
        ),
        pytest.param(
            rolling(0, 1),
            "a/old/ready a/new/ready b/old/ready c/old/ready",
            "-a/old/ready",
            id="surge replaces",
        ),
        pytest.param({"type": "OnDelete"}, "a/old/ready b/old/ready c/old/ready", "", id="on delete"),
    ],
)
def test_the_next_changes(strategy: Json, pods: str, want: str) -> None:
    fits = {name: NodeFit(True, True) for name in "abc"} | {"n": NodeFit(False, False)}
    given = [a_pod(text) for text in pods.split()]
    changes = next_changes(a_set(updateStrategy=strategy), fits, given, now=1.8e9)
    names = [pod.metadata.name.replace("-", "/") for pod in changes.delete]
    assert " ".join([*(f"+{node}" for node in changes.create), *(f"-{name}" for name in names)]) == want


def test_the_pod_of_a_node_is_bound_to_no_other_and_tolerates_its_problems() -> None:
    """The fields are those that kube-controller-manager 1.36.3 gave the pod of such a set."""
    body = daemon_pod(a_set({"containers": []}), "node-1")
    required = body["spec"]["affinity"]["nodeAffinity"][REQUIRED]
    wanted = {"key": "metadata.name", "operator": "In", "values": ["node-1"]}
    assert required == {"nodeSelectorTerms": [{"matchFields": [wanted]}]}
    names = [
        toleration["key"].removeprefix("node.kubernetes.io/") for toleration in body["spec"]["tolerations"]
    ]
    assert names == [
        "not-ready", "unreachable", "disk-pressure", "memory-pressure", "pid-pressure", "unschedulable",
    ]  # fmt: skip
    assert body["metadata"]["labels"] == {
        "app": "agent",
        REVISION_LABEL: template_hash(a_set({"containers": []}).spec.template),
        "pod-template-generation": "1",
    }


def test_a_pod_on_every_node_that_fits() -> None:
    async def story(cluster: LocalCluster) -> None:
        template = {
            "metadata": {"labels": {"app": "agent"}},
            "spec": {"containers": [{"name": "c", "image": "one"}]},
        }
        spec = {"selector": {"matchLabels": {"app": "agent"}}, "template": template}
        await cluster.client.create(DAEMON_SETS, {"metadata": {"name": "agent"}, "spec": spec}, "default")
        key = Key("default", "agent")

        async def available(image: str, nodes: set[str]) -> bool:
            pods = await cluster.pods()
            on_nodes = {pod["spec"].get("nodeName") for pod in pods}
            images = {pod["spec"]["containers"][0]["image"] for pod in pods}
            status = (await cluster.client.get(DAEMON_SETS, key)).get("status", {})
            return (
                on_nodes == nodes
                and images == {image}
                and status.get("numberAvailable")
                == status["desiredNumberScheduled"]
                == len(nodes)
                == len(pods)
            )

        everywhere = {"node-1", "node-2", "node-3"}
        await cluster.until("each node has a pod", lambda: available("one", everywhere))
        change = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "two"}]}}}}
        await cluster.client.patch(DAEMON_SETS, key, change, kind=PatchKind.STRATEGIC)
        await cluster.until("each pod is replaced", lambda: available("two", everywhere))
        generation = "deprecated.daemonset.template.generation"
        assert (await cluster.client.get(DAEMON_SETS, key))["metadata"]["annotations"][generation] == "2"
        same = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "two"}]}}}}
        unchanged = await cluster.client.patch(DAEMON_SETS, key, same)
        assert unchanged["metadata"]["annotations"][generation] == "2", "the defaults are the same"
        taint = {"spec": {"taints": [{"key": "broken", "effect": "NoExecute"}]}}
        await cluster.client.patch(NODES, Key("", "node-2"), taint)
        await cluster.until("a tainted node is left", lambda: available("two", {"node-1", "node-3"}))

    async def run() -> None:
        async with local_cluster(NodePool(3), speed=50.0) as cluster:
            await story(cluster)

    asyncio.run(run())
