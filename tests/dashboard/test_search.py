"""Search: by name, job, label and namespace, over what a caller may see."""

import pytest

from quorate.dashboard.limits import MAX_HITS
from quorate.dashboard.queries import ADMINISTRATOR
from quorate.dashboard.views.search import search
from tests.dashboard.objects import Cluster, a_workload, tenant, two_tenants


def a_cluster() -> Cluster:
    cluster = two_tenants()
    cluster.put(a_workload("train", "red", labels={"team": "Vision"}))
    cluster.put_node("gpu-1", {"zone": "north"})
    cluster.put_pod_group("gang", "blue", labels={"team": "vision"})
    return cluster


def hits(cluster: Cluster, text: str, viewer: object = ADMINISTRATOR) -> list[str]:
    found = search(cluster.data, viewer, text, 20)  # type: ignore[arg-type]
    return [f"{each.kind} {each.namespace}/{each.name}: {each.matched}" for each in found.hits]


@pytest.mark.parametrize(
    ("text", "want"),
    [
        pytest.param("train", ["Workload red/train: name red/train"], id="a name"),
        pytest.param(" TRAIN ", ["Workload red/train: name red/train"], id="whatever its case"),
        pytest.param("job-tr", ["Workload red/train: job job-train"], id="a job"),
        pytest.param(
            "vision",
            ["Workload red/train: label team=vision", "PodGroup blue/gang: label team=vision"],
            id="a label",
        ),
        pytest.param("zone=n", ["Node /gpu-1: label zone=north"], id="a label of a node"),
        pytest.param(
            "blue",
            [
                "ClusterQueue /blue-queue: name blue-queue",
                "LocalQueue blue/queue: namespace blue/queue",
                "Workload blue/borrows: namespace blue/borrows",
                "PodGroup blue/gang: namespace blue/gang",
            ],
            id="a namespace",
        ),
        pytest.param("none", [], id="nothing"),
        pytest.param("  ", [], id="no text"),
    ],
)
def test_search(text: str, want: list[str]) -> None:
    assert hits(a_cluster(), text) == want


def test_a_tenant_finds_its_own_objects_only() -> None:
    cluster, red = a_cluster(), tenant("red")
    assert hits(cluster, "vision", red) == ["Workload red/train: label team=vision"]
    for text in ("blue", "gang", "borrows", "gpu-1", "north"):
        assert hits(cluster, text, red) == [], text


def test_the_number_of_hits_is_bounded_and_names_that_begin_with_the_text_come_first() -> None:
    cluster = a_cluster()
    cluster.put(*(a_workload(f"x-{number}") for number in range(MAX_HITS + 50)), a_workload("x"))
    found = search(cluster.data, ADMINISTRATOR, "x", 1_000_000)
    assert (len(found.hits), found.more) == (MAX_HITS, True)
    cluster.put(a_workload("run-again"))
    assert hits(cluster, "run")[0] == "Workload red/runs: name red/runs"
