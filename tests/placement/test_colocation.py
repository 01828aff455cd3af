"""Placement of pods that are bound to one topology domain by required affinity."""

from typing import Any

import pytest

from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node
from quorate.api.meta import Uid
from quorate.api.scheduler_configuration.plugins import NodeOrderArguments, PredicateArguments
from quorate.placement.cluster import Cluster
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.colocation import affinity_order, choose_anchor_node
from quorate.placement.filters.engine import ConstraintEngine
from quorate.placement.node_finder import NodeFinder
from quorate.placement.scoring import Scoring
from quorate.placement.shapes import Shapes
from tests.placement.builders import node, pod
from tests.placement.filters.inter_pod.test_pod_affinity import required_affinity, term
from tests.placement.filters.world import pod as labeled_pod

AFFINITY: dict[str, Any] = {
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
    ("nodes", "group", "want"),
    [
        pytest.param(
            [("a1 cpu=8", "a"), ("b1 cpu=4", "b"), ("b2 cpu=5", "b")],
            {"cpu=1": 9},
            "b2",
            id="the best node of the domain that fits the group",
        ),
        pytest.param([("a1 cpu=8", "a"), ("b1 cpu=4", "b")], {"cpu=1": 9}, "", id="no domain fits the group"),
        pytest.param(
            [("a1 cpu=3", "a"), ("a2 cpu=3", "a")], {"cpu=2": 3}, "", id="capacity split over nodes"
        ),
        pytest.param(
            [("a1 cpu=9", ""), ("b1 cpu=4", "b")], {"cpu=1": 2}, "b1", id="a node outside all domains"
        ),
        pytest.param(
            [("a1 cpu=8 gpu=1", "a"), ("b1 cpu=4 gpu=2", "b")],
            {"cpu=1 gpu=1": 2},
            "b1",
            id="every resource must fit",
        ),
        pytest.param(
            [("a1 cpu=4", "a"), ("b1 cpu=5", "b")],
            {"cpu=1": 3, "cpu=2": 1},
            "b1",
            id="pods of several shapes",
        ),
        pytest.param(
            [("a1 cpu=4 pods=1", "a"), ("b1 cpu=2", "b")],
            {"cpu=1": 2},
            "b1",
            id="the number of pods must fit",
        ),
        pytest.param([("a1 cpu=4", "a")], {"cpu=1": 1, "gpu=1": 1}, "", id="a resource that no node has"),
    ],
)
def test_choose_anchor_node(nodes: list[tuple[str, str]], group: dict[str, int], want: str) -> None:
    cluster, shapes = Cluster(), Shapes()
    for text, zone in nodes:
        cluster.set_node(zoned(text, zone))
    for text in group:
        shapes.of(pod(f"p {text}", labels={"job": "j"}, **AFFINITY))  # so that all selectors are known
    named = {text: shapes.of(pod(f"p {text}", labels={"job": "j"}, **AFFINITY)) for text in group}
    counted = {named[text]: count for text, count in group.items()}
    first = next(iter(counted))
    assert choose_anchor_node(_finder(cluster), first, counted) == want


def test_a_pod_in_an_anchored_domain_is_no_anchor() -> None:
    cluster, shapes = Cluster(), Shapes()
    for name, zone in (("a1 cpu=8", "a"), ("b1 cpu=9", "b")):
        cluster.set_node(zoned(name, zone))
    shape = shapes.of(pod("p cpu=1", labels={"job": "j"}, **AFFINITY))
    assert choose_anchor_node(_finder(cluster), shape, {shape: 2}) == "b1"
    cluster.add_pod(Uid("first"), shape, "a1", AllocationState.USED)
    assert choose_anchor_node(_finder(cluster), shape, {shape: 2}) == ""


def _finder(cluster: Cluster) -> NodeFinder:
    return NodeFinder(
        cluster, ConstraintEngine(cluster, PredicateArguments()), Scoring(NodeOrderArguments(), None)
    )


def with_affinity_to(name: str, *targets: str) -> Pod:
    return labeled_pod(f"{name} app={name}", **required_affinity(*(term(each) for each in targets)))


@pytest.mark.parametrize(
    ("pods", "want"),
    [
        pytest.param(
            [labeled_pod("a"), labeled_pod("b", nodeSelector={"zone": "1"})], "a=0 b=0", id="no affinity"
        ),
        pytest.param(
            [with_affinity_to("worker", "master"), with_affinity_to("master")],
            "worker=1 master=0",
            id="one target",
        ),
        pytest.param(
            [with_affinity_to("a", "b"), with_affinity_to("b", "c"), with_affinity_to("c")],
            "a=2 b=1 c=0",
            id="a chain",
        ),
        pytest.param([with_affinity_to("ring", "ring")], "ring=0", id="a pod that matches its own term"),
        pytest.param(
            [with_affinity_to("a", "elsewhere"), with_affinity_to("b")], "a=1 b=0", id="a target elsewhere"
        ),
        pytest.param(
            [with_affinity_to("a", "b"), with_affinity_to("b", "a"), with_affinity_to("c")],
            "a=1 b=1 c=0",
            id="two pods that target each other",
        ),
        pytest.param(
            [with_affinity_to("a", "b", "c"), with_affinity_to("b"), with_affinity_to("c")],
            "a=1 b=0 c=0",
            id="two terms that no single pod matches",
        ),
    ],
)
def test_affinity_order(pods: list[Pod], want: str) -> None:
    shapes = Shapes()
    for each in pods:
        shapes.of(each)  # so that all selectors are known
    names = {shapes.of(each): each.metadata.name for each in pods}
    assert " ".join(f"{names[shape]}={rank}" for shape, rank in affinity_order(list(names)).items()) == want
