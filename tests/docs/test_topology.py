"""The tables and examples of ``docs/concepts/topology.md``."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.kueue import ResourceFlavor
from quorate.api.kueue.topology import Topology
from quorate.api.kueue.topology_annotations import topology_request
from quorate.api.names.topology import POD_SET_PREFIX
from quorate.controllers.integrations import FRAMEWORK_KINDS
from quorate.controllers.jobs.batch import COMPLETION_INDEX
from quorate.controllers.jobs.jobset import replicated_job_index
from quorate.controllers.jobs.kubeflow import TRAINING_JOBS
from quorate.controllers.pods.queued_pod import topology_source
from quorate.controllers.serving.kinds import SETS
from tests.controllers.jobs.test_kubeflow import mpi_job
from tests.controllers.pods.notation import a_pod
from tests.docs.page import Row, section
from tests.queueing.world import World

TOPOLOGIES = section("topology.md", "Topologies and flavors")
REQUESTS = section("topology.md", "Requests")
EXAMPLE = section("topology.md", "Example")
RANKS = section("topology.md", "Ranks")
LEVELS = {"block": "example.com/block", "rack": "example.com/rack"}


def test_the_manifests_can_be_read() -> None:
    tree, flavor = TOPOLOGIES.objects()
    topology = codec.convert(Topology, tree)
    assert codec.convert(ResourceFlavor, flavor).spec.topology_name == topology.metadata.name
    assert [level.node_label for level in topology.spec.levels] == [
        *LEVELS.values(),
        "kubernetes.io/hostname",
    ]


def test_each_annotation_fills_its_field() -> None:
    rows = REQUESTS.table("annotation", "example", "field of `topologyRequest`", "meaning")
    given = {f"kueue.x-k8s.io/{row['annotation'].strip('`')}": row["example"].strip("`") for row in rows}
    assert all(key.startswith(POD_SET_PREFIX) for key in given)
    constraints = f"{POD_SET_PREFIX}slice-required-topology-constraints"
    filled: set[str] = set()
    for row in rows:
        key = f"kueue.x-k8s.io/{row['annotation'].strip('`')}"
        beside = {f"{POD_SET_PREFIX}required-topology": "r"} if key.endswith("group-name") else {}
        slices = {name: value for name, value in given.items() if "slice" in name and name != constraints}
        annotations = {**beside, **(slices if key in slices else {}), key: given[key]}
        request = topology_request(annotations)
        assert request is not None
        field = row["field of `topologyRequest`"].strip("`")
        assert field in codec.to_builtins(request), row
        filled.add(field)
    assert len(filled) == len(rows)


NODES = EXAMPLE.table("host", "block", "rack", "cpu")


@pytest.mark.parametrize("row", EXAMPLE.table("annotations", "pods", "places"), ids=str)
def test_places(row: Row) -> None:
    mode, _, rest = row["annotations"].partition(" ")
    level, _, slices = rest.partition(", ")
    request: dict[str, Any] = {mode: LEVELS[level] if level else True}
    if slices:
        assert slices == "slices of 2 in a rack"
        request |= {"sliceLevel": LEVELS["rack"], "sliceSize": 2}
    pods = {"name": "main", "count": int(row["pods"]), "requests": {"cpu": 1}, "topology": request}
    world = World(
        {
            "now": 100_000,
            "topologies": {"tree": {"levels": [*LEVELS.values(), "kubernetes.io/hostname"]}},
            "flavors": {"gpu": {"topologyName": "tree", "nodeLabels": {"pool": "gpu"}}},
            "nodes": {
                node["host"]: {
                    "labels": {"pool": "gpu", **{key: node[name] for name, key in LEVELS.items()}},
                    "allocatable": {"cpu": int(node["cpu"]), "pods": 10},
                }
                for node in NODES
            },
            "clusterQueues": {"cq": {"quota": [{"gpu": {"cpu": 100}}]}},
            "workloads": [{"name": "w", "queue": "cq", "created": 1, "podSets": [pods]}],
        }
    )
    world.carry_out(world.admission_cycle.run(world.now).decisions)
    assert places(world) == row["places"]


def places(world: World) -> str:
    admission = world.admitted().get("w")
    if admission is None:
        return "–"
    (assigned,) = admission.pod_set_assignments
    assert assigned.topology_assignment is not None
    return ", ".join(f"{host} {count}" for (host,), count in assigned.topology_assignment.domains())


def test_labels_of_ranks() -> None:
    rows = RANKS.table("kind", "label of the pod index", "label of the group index")
    listed = {
        kind.strip(): (row["label of the pod index"].strip("`"), row["label of the group index"].strip("`"))
        for row in rows
        for kind in row["kind"].replace(", workers", "").split(",")
    }
    job_set = replicated_job_index(1)
    assert listed["Job"] == (COMPLETION_INDEX.label, "")
    assert listed["JobSet"] == listed["TrainJob"] == (job_set.label, job_set.sub_group_label)
    (launcher, worker) = FRAMEWORK_KINDS["kubeflow.org/mpijob"].topology_sources(mpi_job())
    for kind in [*TRAINING_JOBS.values(), FRAMEWORK_KINDS["kubeflow.org/mpijob"]]:
        assert listed[kind.resource.kind] == (worker.index.label, "") == (launcher.index.label, "")
    for framework, role in (("statefulset", "main"), ("leaderworkerset.x-k8s.io/leaderworkerset", "worker")):
        serving = SETS[framework].serving
        assert serving is not None
        assert listed[serving.resource.kind] == (serving.topology_source(role).index.label, "")
    assert listed["pods and pod groups"] == (topology_source(a_pod("a")).index.label, "")
