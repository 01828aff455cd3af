"""Each mistake in the labels and levels of a topology is found."""

import pytest

from quorate.api import codec
from quorate.api.core import Node
from quorate.api.kueue import ResourceFlavor
from quorate.api.kueue.topology import Topology
from quorate.install.preflight.topology_checks import topology_findings


def findings(nodes: str, levels: str = "block rack", *, topology: str = "tree") -> list[str]:
    """Return the findings about nodes written ``block/rack`` with ``-`` for a label that is missing."""
    flavor = codec.convert(
        ResourceFlavor,
        {"metadata": {"name": "gpu"}, "spec": {"nodeLabels": {"pool": "gpu"}, "topologyName": "tree"}},
    )
    keys = levels.split()
    spec = {"levels": [{"nodeLabel": key} for key in keys]}
    tree = codec.convert(Topology, {"metadata": {"name": topology}, "spec": spec})
    members = [
        codec.convert(Node, {"metadata": {"name": f"n{at}", "labels": {"pool": "gpu", **labels}}})
        for at, word in enumerate(nodes.split())
        for labels in (
            {key: value for key, value in zip(keys, word.split("/"), strict=True) if value != "-"},
        )
    ]
    other = codec.convert(Node, {"metadata": {"name": "other", "labels": {"pool": "cpu"}}})
    plain = codec.convert(ResourceFlavor, {"metadata": {"name": "plain"}})
    found = topology_findings({"gpu": flavor, "plain": plain}, [tree], [*members, other])
    return [f"{each.severity} {each.about}: {each.says}" for each in found]


@pytest.mark.parametrize(
    ("nodes", "want"),
    [
        pytest.param("b1/r1 b1/r2 b2/r3", [], id="a tree"),
        pytest.param(
            "b1/- b2/-",
            ["error topology tree: no node of flavor gpu has label rack, so its workloads find no place"],
            id="a level without labels",
        ),
        pytest.param(
            "b1/r1 -/r2 b2/- -/-",
            [
                "warning topology tree: 2 of 4 nodes of flavor gpu lack label block, so they are not used: "
                "n1, n3",
                "warning topology tree: 2 of 4 nodes of flavor gpu lack label rack, so they are not used: "
                "n2, n3",
            ],
            id="nodes without labels",
        ),
        pytest.param(
            "b1/r1 b1/r2 b2/r1",
            [
                "info topology tree: 1 values of rack occur in several block, such as r1 in b1, b2; they "
                "count as different domains"
            ],
            id="equal names in different blocks",
        ),
        pytest.param(
            "r1/b1 r2/b1 r3/b2",
            [
                "warning topology tree: levels block and rack seem to be in the wrong order: each block is "
                "in one rack, which has several of them (b1)"
            ],
            id="levels in the wrong order",
        ),
        pytest.param("", [], id="no nodes yet"),
    ],
)
def test_nodes_of_a_topology(nodes: str, want: list[str]) -> None:
    assert findings(nodes) == want


def test_a_flavor_needs_its_topology() -> None:
    assert findings("b1/r1", topology="other") == [
        "error flavor gpu: there is no Topology tree, so the cluster queues that use the flavor admit nothing"
    ]


def test_many_names_are_cut() -> None:
    assert findings("b1/r1 b1/- b1/- b1/- b1/- b1/-")[0].endswith("n1, n2, n3 and 2 more")


def test_without_permission_nothing_is_found() -> None:
    assert list(topology_findings({}, None, None)) == []
