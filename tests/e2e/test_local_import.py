"""``quorate local import``: nodes and queues of a real cluster on a local one."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from quorate.inspect.configuration_files import InvalidFiles
from quorate.processes.local.local_import import read_cluster_snapshot
from tests.e2e.commands import cluster, needs_kubectl, poll, quorate
from tests.e2e.commands import kubectl as run_kubectl

Json = dict[str, Any]
QUEUEING = "kueue.x-k8s.io/v1beta2"


def real_node(name: str, cpu: str = "63770m", **labels: str) -> Json:
    """Return a node as a managed cluster returns it."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name, "uid": "7d1", "resourceVersion": "4411",
            "annotations": {"csi.volume.kubernetes.io/nodeid": "{}", "simulate.quorate.dev/node": "pool"},
            "labels": {"kubernetes.io/hostname": name, "kubernetes.io/arch": "arm64", **labels},
            "managedFields": [{"manager": "kubelet", "operation": "Update"}],
        },
        "spec": {
            "podCIDR": "10.4.2.0/24", "providerID": f"gce://x/{name}",
            "taints": [
                {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/unreachable", "effect": "NoExecute", "timeAdded": "2026-01-06"},
            ],
        },
        "status": {
            "addresses": [{"type": "InternalIP", "address": "10.128.0.7"}],
            "capacity": {"cpu": "64", "memory": "515000000Ki", "nvidia.com/gpu": "8", "pods": "110"},
            "allocatable": {"cpu": cpu, "memory": "500000000Ki", "nvidia.com/gpu": "8", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}],
            "images": [{"names": ["registry.example/a:1"], "sizeBytes": 1}],
            "nodeInfo": {"kubeletVersion": "v1.36.3"},
        },
    }  # fmt: skip


def listed(*items: Json) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": list(items), "metadata": {"resourceVersion": ""}}


def named(kind: str, name: str, spec: Json, version: str = QUEUEING, namespace: str = "") -> Json:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    status = {"conditions": [{"type": "Active", "status": "True"}]}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec, "status": status}


CLUSTER_QUEUE = named("ClusterQueue", "research", {
    "cohortName": "all",
    "namespaceSelector": {},
    "resourceGroups": [{
        "coveredResources": ["nvidia.com/gpu"],
        "flavors": [{"name": "h100", "resources": [{"name": "nvidia.com/gpu", "nominalQuota": "16"}]}],
    }],
})  # fmt: skip
QUEUES = (
    CLUSTER_QUEUE,
    named("LocalQueue", "jobs", {"clusterQueue": "research"}, namespace="team-a"),
    named("ResourceFlavor", "h100", {"nodeLabels": {"pool": "h100"}, "topologyName": "dc"}),
    named("Topology", "dc", {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": "kubernetes.io/hostname"}]}),
    named("Cohort", "all", {}),
    {"apiVersion": QUEUEING, "kind": "WorkloadPriorityClass", "metadata": {"name": "high"}, "value": 100},
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "now"}, "value": 5},
    {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "data": {"token": "c2VjcmV0"}},
    {
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "most", "namespace": "team-a"},
        "spec": {"hard": {"pods": "100"}},
    },
)  # fmt: skip


def test_what_a_real_cluster_owns_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "nodes.yaml").write_text(yaml.safe_dump(listed(real_node("gpu-a", rack="r1"))))
    (tmp_path / "queues.json").write_text(json.dumps(listed(*QUEUES)))
    snapshot = read_cluster_snapshot([tmp_path], with_quotas=False)
    assert [each.resource.kind for each in snapshot.objects] == [
        "PriorityClass", "WorkloadPriorityClass", "Topology", "ResourceFlavor", "Cohort", "ClusterQueue",
        "LocalQueue", "Node",
    ]  # fmt: skip
    assert snapshot.skipped == {"Secret": 1, "ResourceQuota": 1}
    assert snapshot.objects[-1].body == {
        "metadata": {
            "labels": {"kubernetes.io/hostname": "gpu-a", "kubernetes.io/arch": "arm64", "rack": "r1"}
        },
        "spec": {"taints": [{"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}]},
        "status": {name: real_node("gpu-a")["status"][name] for name in ("capacity", "allocatable")},
    }
    assert not any("status" in each.body for each in snapshot.objects if not each.is_node)
    everything = read_cluster_snapshot([tmp_path], with_quotas=True)
    assert "ResourceQuota" in {each.resource.kind for each in everything.objects}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([1], "s.yaml: [1] is no object"),
        ({"kind": "Node"}, "s.yaml: apiVersion: null is not text"),
        (
            listed({"apiVersion": "v1", "kind": "Node"}),
            "s.yaml: items[0]: Node: metadata.name: null is no name",
        ),
        (real_node("a", cpu="many"), "s.yaml: Node a: status.allocatable.cpu: 'many' is not a quantity"),
        (real_node("a") | {"status": {}}, "s.yaml: Node a: status.allocatable: is missing"),
        (
            real_node("a", rack="a b"),
            "s.yaml: Node a: metadata.labels.rack: 'a b' is not the value of a label",
        ),
        (
            real_node("a") | {"spec": {"taints": [{"key": "x"}]}},
            "s.yaml: Node a: spec.taints[0].effect: is missing (write ",
        ),
        (real_node("a") | {"spec": {"taints": "x"}}, "s.yaml: Node a: spec.taints: 'x' is not a list"),
        (listed(real_node("a"), real_node("a", cpu="1")), "items[1]: Node a: differs from "),
        (
            named("ResourceFlavor", "f", {"nodeLabels": {"a b": "c"}}),
            "ResourceFlavor f: spec.nodeLabels[a b]: 'a b'",
        ),
        (listed(), "no object to import"),
    ],
)
def test_what_cannot_be_read_is_named_with_file_and_field(
    tmp_path: Path, document: object, message: str
) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(InvalidFiles) as caught:
        read_cluster_snapshot([path], with_quotas=True)
    assert message in str(caught.value)


@pytest.mark.slow
@needs_kubectl()
def test_jobs_queue_for_the_nodes_of_the_imported_cluster(tmp_path: Path) -> None:
    data_dir, nodes, queues = (tmp_path / name for name in ("cluster", "nodes.yaml", "queues.yaml"))
    gpu_nodes = [real_node(f"gke-{number}", pool="h100", rack=f"r{number}") for number in (1, 2)]
    nodes.write_text(yaml.safe_dump(listed(*gpu_nodes)))
    queues.write_text(yaml.safe_dump_all(QUEUES))

    def import_(*arguments: object) -> Any:
        return quorate("local", "import", *map(str, arguments), "--data-dir", str(data_dir))

    def kubectl(*arguments: str) -> Any:
        return json.loads(run_kubectl(data_dir, *arguments, "-o", "json"))

    stopped = import_(nodes)
    assert stopped.returncode == 2
    assert "no cluster runs here (start one: quorate local up --detach --nodes 0)" in stopped.stderr
    with cluster(data_dir, "--nodes", "1"):
        bad = tmp_path / "bad.yaml"
        refused = [
            named("ResourceFlavor", "other", {}),
            named("ClusterQueue", "wrong", {"queueingStrategy": "x"}),
        ]
        bad.write_text(yaml.safe_dump_all([*refused, real_node("node-1")]))
        done = import_(bad)
        assert done.returncode == 2
        assert (
            f"{bad}: document 3: Node node-1: metadata.name: 'node-1' names a node in a pool" in done.stderr
        )
        bad.write_text(yaml.safe_dump_all(refused))
        done = import_(bad)
        assert f"error: {bad}: document 2: ClusterQueue wrong: " in done.stderr
        assert kubectl("get", "resourceflavors")["items"] == [], "nothing is stored"

        done = import_(nodes, queues, "--quotas")
        assert done.returncode == 0, done.stderr
        assert done.stdout == (
            "imported: 1 Namespace, 1 PriorityClass, 1 WorkloadPriorityClass, 1 Topology, 1 ResourceFlavor, "
            "1 Cohort, 1 ClusterQueue, 1 ResourceQuota, 1 LocalQueue, 2 Node\nskipped: 1 Secret\n"
        )

        def ready() -> list[Json]:
            items: list[Json] = kubectl("get", "nodes", "-l", "pool=h100")["items"]
            return [each for each in items if is_ready(each)]

        poll(ready, lambda found: len(found) == 2, 20)
        (node, _) = ready()
        assert node["metadata"]["labels"]["kubernetes.io/arch"] == "arm64"
        assert node["spec"]["taints"] == [
            {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
        ]
        assert node["status"]["allocatable"]["cpu"] == "63770m"
        assert "10.128.0.7" not in json.dumps(node)

        job = tmp_path / "job.yaml"
        job.write_text(yaml.safe_dump(gpu_job()))
        run_kubectl(data_dir, "create", "-f", str(job))
        poll(
            lambda: kubectl("get", "job", "train", "-n", "team-a")["status"].get("succeeded"),
            lambda succeeded: succeeded == 2,
            30,
        )
        pods = kubectl("get", "pods", "-n", "team-a")["items"]
        assert {pod["spec"]["nodeName"] for pod in pods} == {"gke-1", "gke-2"}

        checks = tmp_path / "checks.yaml"
        spec = {"controllerName": "kueue.x-k8s.io/multikueue"}
        checks.write_text(yaml.safe_dump(named("AdmissionCheck", "elsewhere", spec)))
        done = import_(checks)
        assert done.stdout == "imported: 1 AdmissionCheck\n"
        assert f"warning: {checks}: AdmissionCheck elsewhere: nothing answers for kueue" in done.stderr

        grown = real_node("gke-1", pool="a100")
        grown["status"]["allocatable"] = {"cpu": "2", "memory": "1Gi", "pods": "10"}
        nodes.write_text(yaml.safe_dump(listed(grown)))
        assert import_(nodes).returncode == 0
        again = kubectl("get", "node", "gke-1")
        assert again["status"]["allocatable"] == {"cpu": "2", "memory": "1Gi", "pods": "10"}
        assert again["metadata"]["labels"]["pool"] == "a100"
        assert "rack" not in again["metadata"]["labels"]


def is_ready(node: Json) -> bool:
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and len(node["spec"].get("taints", ())) == 1


def gpu_job() -> Json:
    resources = {"limits": {"nvidia.com/gpu": "8"}}
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": "train", "namespace": "team-a", "labels": {"kueue.x-k8s.io/queue-name": "jobs"},
        },
        "spec": {
            "parallelism": 2, "completions": 2,
            "template": {"spec": {
                "restartPolicy": "Never",
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                "containers": [{"name": "main", "image": "train", "resources": resources}],
            }},
        },
    }  # fmt: skip
