"""Worker clusters of a scenario: the share of each, objects of their own, and what is refused."""

from pathlib import Path

import pytest

from quorate.kube.resources import CLUSTER_QUEUES
from quorate.simulate.inputs.cluster_worlds import cluster_worlds
from quorate.simulate.inputs.world import InvalidWorld, World, read_world
from tests.simulate.worlds import FLAVOR, HEAD, queue

JOBS = "jobs: [{name: x, queue: q, requests: {cpu: 1}, runs: 1h}]\n"


def read(directory: Path, scenario: str, **files: str) -> World:
    for name, text in files.items():
        (directory / f"{name}.yaml").write_text(text)
    file = directory / "world.yaml"
    file.write_text("\n---\n".join((HEAD + JOBS + scenario, FLAVOR, queue("q", 10))))
    return read_world(file)


def cpus(world: World) -> str:
    (stored,) = world.of_kind(CLUSTER_QUEUES)
    return str(stored.spec.resource_groups[0].flavors[0].resources[0].nominal_quota)


def test_a_worker_has_its_share_of_quotas_and_nodes_and_objects_of_its_own(tmp_path: Path) -> None:
    pool = "[{name: n, count: 4, capacity: {cpu: 2}}]"
    entries = "{name: a, share: 0.25}, {name: b, manifests: b.yaml, nodes: [{name: m, capacity: {cpu: 9}}]}"
    world = read(tmp_path, f"clusters: [{entries}]\nnodes: {pool}", b=queue("q", 7))
    manager, workers = cluster_worlds(world)
    assert {name: cpus(worker) for name, worker in workers.items()} == {"a": "2500m", "b": "7"}
    names = {name: [node.metadata.name for node in worker.nodes] for name, worker in workers.items()}
    assert names == {"a": ["n-0"], "b": ["m-0"]}
    assert (cpus(manager), manager.nodes) == ("10M", ())


NODE = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n"
REFUSED = [
    ("clusters: []", "clusters: [] has 0 entries, must have 1 to 20"),
    ("clusters: [{share: 1}]", "clusters[0].name: is missing (write a short name, such as east)"),
    ("clusters: [{name: A}]", "clusters[0].name: 'A' is not a name of small letters"),
    ("clusters: [{name: a}, {name: a}]", "has a twice (give each cluster a name of its own)"),
    ("clusters: [{name: a, share: 0}]", "clusters[0].share: 0 is not above 0 and at most 1000"),
    (
        "clusters: [{name: a}]\ndispatchers: [Race]",
        "'Race' is not allowed here (write AllAtOnce or Incremental or EarliestStart)",
    ),
    ("clusters: [{name: a}]\ndispatchers: [Incremental, Incremental]", "has Incremental twice"),
    ("dispatchers: [Incremental]", "has no effect without clusters (write clusters, or drop it)"),
    ("clusters: [{name: a, manifests: absent.yaml}]", "absent.yaml: no such file or directory"),
    ("clusters: [{name: a, manifests: own.yaml}]", "own.yaml: has a Scenario, of which there is one"),
    (f"clusters: [{{name: a}}]\n---\n{NODE}", "a Node beside clusters belongs to no cluster"),
]


@pytest.mark.parametrize(("scenario", "message"), REFUSED)
def test_a_mistake_is_one_sentence(tmp_path: Path, scenario: str, message: str) -> None:
    own = HEAD + "jobs: [{name: y, queue: q, requests: {cpu: 1}, runs: 1h}]\n"
    with pytest.raises(InvalidWorld) as refused:
        cluster_worlds(read(tmp_path, scenario, own=own))
    (finding,) = refused.value.findings
    assert message in finding


def test_a_gang_of_volcano_is_not_dispatched(tmp_path: Path) -> None:
    pool = "nodes: [{name: n, capacity: {cpu: 9}}]\nclusters: [{name: a}]"
    file = tmp_path / "world.yaml"
    file.write_text(HEAD + "jobs: [{name: x, queue: default, api: volcano, runs: 1h}]\n" + pool)
    with pytest.raises(InvalidWorld, match="x has api: volcano, which clusters do not get"):
        cluster_worlds(read_world(file))
