"""A directory is read completely before a run starts; every finding has a file and a line."""

from pathlib import Path

import pytest

from quorate.api.quantity import parse_quantity
from quorate.inspect.configuration_files import InvalidFiles
from quorate.processes.local.cluster_description import ClusterDescription, simulated_pools
from quorate.processes.local.manifests import read_directory
from quorate.processes.local.node_pools import parse_node_topology

FLAVOR = "apiVersion: kueue.x-k8s.io/v1beta1\nkind: ResourceFlavor\nmetadata: {name: default-flavor}\n"
CLUSTER_QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: cluster-queue
spec:
  resourceGroups:
  - coveredResources: [memory]
    flavors:
    - name: default-flavor
      resources:
      - name: memory
        nominalQuota: 16858Mi
"""
LOCAL_QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: LocalQueue
metadata: {name: user-queue}
spec: {clusterQueue: cluster-queue}
"""
JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: job1
  labels:
    kueue.x-k8s.io/queue-name: user-queue
spec:
  template:
    spec:
      containers:
      - name: main
        resources:
          requests:
            memory: 316Mi
"""
CLUSTER = "apiVersion: local.quorate.dev/v1alpha1\nkind: Cluster\n{}\n"
SERVICE = "apiVersion: v1\nkind: Service\nmetadata: {name: svc1}\n"
QUEUES = f"{FLAVOR}---\n{CLUSTER_QUEUE}---\n{LOCAL_QUEUE}"


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)  # so that messages name short paths
    Path("d").mkdir()
    return Path("d")


def write(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (directory / name).write_text(text)


def findings(directory: Path) -> list[str]:
    with pytest.raises(InvalidFiles) as caught:
        read_directory(directory)
    return list(caught.value.findings)


def test_referenced_kinds_come_first_and_jobs_last_in_file_order(directory: Path) -> None:
    job2 = JOB.replace("job1", "job2")
    write(directory, {"b.yaml": JOB, "a.yml": f"{job2}---\n{SERVICE}", "z.yaml": QUEUES, "notes.txt": "{"})
    assert [(each.kind, each.name) for each in read_directory(directory).objects] == [
        ("ResourceFlavor", "default-flavor"),
        ("ClusterQueue", "cluster-queue"),
        ("LocalQueue", "user-queue"),
        ("Service", "svc1"),
        ("Job", "job2"),
        ("Job", "job1"),
    ]


def test_configurations_and_cluster_descriptions_are_not_applied(directory: Path) -> None:
    write(directory, {
        "config.yaml": "apiVersion: config.kueue.x-k8s.io/v1beta1\nkind: Configuration\n",
        "cluster.yaml": "apiVersion: local.quorate.dev/v1alpha1\nkind: Cluster\nnodes: 2\nmemory: 8429Mi\n",
        "flavor.yaml": FLAVOR,
    })  # fmt: skip
    manifests = read_directory(directory)
    assert [each.kind for each in manifests.objects] == ["ResourceFlavor"]
    assert manifests.cluster_description == ClusterDescription(nodes=2, memory=parse_quantity("8429Mi"))


def test_a_topology_of_the_nodes_brings_its_objects(directory: Path) -> None:
    cluster = CLUSTER.format("topology: rack=2,host=4")
    queue = CLUSTER_QUEUE.replace("default-flavor", "tas-flavor")
    write(directory, {"cluster.yaml": cluster, "queue.yaml": queue})
    manifests = read_directory(directory)
    assert [(each.kind, each.name) for each in manifests.objects] == [
        ("ResourceFlavor", "tas-flavor"),
        ("Topology", "default"),
        ("ClusterQueue", "cluster-queue"),
    ]
    assert manifests.cluster_description.topology == parse_node_topology("rack=2,host=4")
    (nodes,) = simulated_pools(manifests.cluster_description)
    assert (nodes.count, nodes.labels) == (8, {"cloud.provider.com/node-group": "tas"})

    other = FLAVOR.replace("default-flavor", "tas-flavor")
    write(directory, {"flavor.yaml": other})
    flavors = [each for each in read_directory(directory).objects if each.kind == "ResourceFlavor"]
    assert [each.file.name for each in flavors] == ["flavor.yaml"]

    options = ClusterDescription(nodes=3)
    assert [each.kind for each in read_directory(directory, options).objects] == [
        "ResourceFlavor",
        "ClusterQueue",
    ]
    (nodes,) = simulated_pools(options.override(manifests.cluster_description))
    assert nodes.levels == ()


@pytest.mark.parametrize(
    ("files", "want"),
    [
        pytest.param(
            {}, ["d: holds no manifest (looked for *.yaml, *.yml, *.json)"], id="an empty directory"
        ),
        pytest.param(
            {"a.yaml": "a: [1,\n", "b.yaml": JOB.replace("316Mi", "8 gigs") + "---\n- 1\n"},
            [
                "d/a.yaml:1: did not find expected node content",
                "d/b.yaml:14: spec.template.spec.containers[0].resources.requests.memory: '8 gigs' "
                "is not a quantity (write 4, 500m or 16Gi)",
                "d/b.yaml:16: [1] is no object (write apiVersion, kind and metadata)",
            ],
            id="all findings of all files",
        ),
        pytest.param(
            {"cluster.yaml": CLUSTER.format("nodes: 2\ntopology: host=2"), "b.yaml": FLAVOR},
            ["d/cluster.yaml:3: nodes: 2 has no effect beside topology (drop one of the two)"],
            id="nodes beside a topology",
        ),
        pytest.param(
            {"cluster.yaml": CLUSTER.format("topology: rack=2,host=no"), "b.yaml": FLAVOR},
            [
                "d/cluster.yaml:3: topology: 'rack=2,host=no' has 'no' for host, which is not a number "
                "from 1 (write block=2,rack=4,host=8)"
            ],
            id="a misspelt topology",
        ),
        pytest.param(
            {"a.yaml": "kind: [Job]\nmetadata: {namespace: 1}\n"},
            [
                "d/a.yaml:1: apiVersion: null is no version (write batch/v1)",
                'd/a.yaml:1: kind: ["Job"] is no kind (write Job)',
                "d/a.yaml:2: metadata.namespace: 1 is not text (put it in quotes)",
                "d/a.yaml:2: metadata.name: is missing (every object has a name)",
            ],
        ),
        pytest.param(
            {"a.yaml": "apiVersion: v1\nkind: List\nitems: []\n"},
            ["d/a.yaml:2: kind: 'List' is not read (separate the items by --- instead)"],
        ),
        pytest.param(
            {"a.yaml": f"{QUEUES}---\n{JOB}".replace("queue-name: user-queue", "queue-name: usr-queue")},
            [
                "d/a.yaml:28: metadata.labels[kueue.x-k8s.io/queue-name]: 'usr-queue' names no LocalQueue "
                "(did you mean user-queue?)"
            ],
            id="a misspelt queue",
        ),
        pytest.param(
            {"a.yaml": f"{QUEUES}---\n{JOB}".replace("  name: job1", "  name: job1\n  namespace: team")},
            [
                "d/a.yaml:27: metadata.namespace: 'team' names no Namespace "
                "(there is default, kube-node-lease, kube-public, kube-system; add its manifest)",
                "d/a.yaml:29: metadata.labels[kueue.x-k8s.io/queue-name]: 'user-queue' names no LocalQueue "
                "(there is none; add its manifest)",
            ],
            id="a queue of another namespace",
        ),
        pytest.param(
            {"a.yaml": f"{CLUSTER_QUEUE}---\n{LOCAL_QUEUE}".replace("16858Mi", "much")},
            [
                "d/a.yaml:12: spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: 'much' "
                "is not a quantity (write 4, 500m or 16Gi)",
                "d/a.yaml:17: spec.clusterQueue: 'cluster-queue' names no ClusterQueue "
                "(there is none; add its manifest)",
            ],
        ),
        pytest.param(
            {"a.yaml": f"{FLAVOR}---\n{CLUSTER_QUEUE}".replace("16858Mi", "-1")},
            [
                "d/a.yaml:16: spec.resourceGroups[0].flavors[0].resources[0].nominalQuota: '-1' is negative, "
                "must be at least 0"
            ],
            id="a rule that is not in the schema",
        ),
        pytest.param(
            {"a.yaml": CLUSTER_QUEUE},
            [
                "d/a.yaml:9: spec.resourceGroups[0].flavors[0].name: 'default-flavor' "
                "names no ResourceFlavor (there is none; add its manifest)"
            ],
        ),
        pytest.param(
            {"cluster.yaml": "apiVersion: local.quorate.dev/v1alpha1\nkind: Cluster\nnode: 2\nmemory: x\n"},
            [
                "d/cluster.yaml:4: memory: 'x' is not a quantity (write 4, 500m or 16Gi)",
                "d/cluster.yaml:3: node: 2 is in an unknown field (did you mean nodes?)",
            ],
        ),
    ],
)
def test_findings(directory: Path, files: dict[str, str], want: list[str]) -> None:
    write(directory, files)
    assert findings(directory) == want


@pytest.mark.parametrize(
    "manifest",
    [
        "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: a.b.c}\n"
        "spec: {schema: {properties: {limits: {type: object}, requests: {additionalProperties: {}}}}}\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {nominalQuota: none, lendingLimit: x}\n",
    ],
)
def test_schemas_and_data_have_no_quantities(directory: Path, manifest: str) -> None:
    write(directory, {"a.yaml": manifest})
    (read,) = read_directory(directory).objects
    assert read.kind in manifest


def test_unreadable_directories_and_files(directory: Path) -> None:
    assert findings(directory / "none") == ["d/none: no such file or directory"]
    (directory / "a.yaml").write_bytes(b"a: \xff\n")
    assert findings(directory) == ["d/a.yaml:1: byte 3 is not UTF-8 (save the file as UTF-8)"]
    assert findings(directory / "a.yaml") == ["d/a.yaml: not a directory"]
