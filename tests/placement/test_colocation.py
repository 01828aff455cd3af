"""Where pods begin that must all be in one domain."""

from typing import Any

import pytest

from quorate.api.core.scheduling import Node
from quorate.api.meta import Uid
from quorate.api.scheduler_configuration.plugins import NodeOrderArguments, PredicateArguments
from quorate.placement.cluster import AllocationState, Cluster
from quorate.placement.colocation import choose_anchor_node
from quorate.placement.filters.engine import ConstraintEngine
from quorate.placement.node_finder import NodeFinder
from quorate.placement.scoring import Scoring
from quorate.placement.shapes import Shapes
from tests.placement.builders import node, pod

NEAR: dict[str, Any] = {
    "affinity": {
        "podAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"job": "j"}}}
            ]
        }
    }
}


def zoned(text: str, zone: str) -> Node:
    return node(text, labels={"zone": zone} if zone else {})


@pytest.mark.parametrize(
    ("nodes", "company", "want"),
    [
        pytest.param(
            [("a1 cpu=8", "a"), ("b1 cpu=4", "b"), ("b2 cpu=5", "b")],
            {"cpu=1": 9},
            "b2",
            id="the best node there",
        ),
        pytest.param([("a1 cpu=8", "a"), ("b1 cpu=4", "b")], {"cpu=1": 9}, "", id="no zone has room"),
        pytest.param([("a1 cpu=3", "a"), ("a2 cpu=3", "a")], {"cpu=2": 3}, "", id="room in pieces is none"),
        pytest.param(
            [("a1 cpu=9", ""), ("b1 cpu=4", "b")], {"cpu=1": 2}, "b1", id="a node in no zone is no place"
        ),
        pytest.param(
            [("a1 cpu=8 gpu=1", "a"), ("b1 cpu=4 gpu=2", "b")],
            {"cpu=1 gpu=1": 2},
            "b1",
            id="room of each kind",
        ),
        pytest.param(
            [("a1 cpu=4", "a"), ("b1 cpu=5", "b")],
            {"cpu=1": 3, "cpu=2": 1},
            "b1",
            id="pods of several shapes",
        ),
        pytest.param([("a1 cpu=4 pods=1", "a"), ("b1 cpu=2", "b")], {"cpu=1": 2}, "b1", id="places for pods"),
        pytest.param([("a1 cpu=4", "a")], {"cpu=1": 1, "gpu=1": 1}, "", id="something that no node has"),
    ],
)
def test_where_pods_begin(nodes: list[tuple[str, str]], company: dict[str, int], want: str) -> None:
    cluster, shapes = Cluster(), Shapes()
    for text, zone in nodes:
        cluster.set_node(zoned(text, zone))
    named = {text: shapes.of(pod(f"p {text}", labels={"job": "j"}, **NEAR)) for text in company}
    named = {text: shapes.of(pod(f"p {text}", labels={"job": "j"}, **NEAR)) for text in company}
    node_finder = _rankings(cluster)
    counted = {named[text]: count for text, count in company.items()}
    first = next(iter(counted))
    assert choose_anchor_node(node_finder, first, counted) == want


def test_who_follows_others_begins_nothing() -> None:
    cluster, shapes = Cluster(), Shapes()
    for name, zone in (("a1 cpu=8", "a"), ("b1 cpu=9", "b")):
        cluster.set_node(zoned(name, zone))
    shape = shapes.of(pod("p cpu=1", labels={"job": "j"}, **NEAR))
    assert choose_anchor_node(_rankings(cluster), shape, {shape: 2}) == "b1"
    cluster.add_pod(Uid("first"), shape, "a1", AllocationState.USED)
    assert choose_anchor_node(_rankings(cluster), shape, {shape: 2}) == ""


def _rankings(cluster: Cluster) -> NodeFinder:
    return NodeFinder(
        cluster, ConstraintEngine(cluster, PredicateArguments()), Scoring(NodeOrderArguments(), None)
    )
