"""Batches of equal pods, placed with the real filters."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.core.pod import Pod
from quorate.api.meta import Uid
from quorate.api.scheduler_configuration.plugins import NodeOrderArguments
from quorate.placement.batch_placement import ALLOCATION_STATES
from quorate.placement.cluster.occupants import AllocationState
from quorate.placement.framework import Capacity
from quorate.placement.node_finder import Choice, NodeFinder
from quorate.placement.scoring import Scoring
from tests.placement.filters.inter_pod.test_pod_affinity import (
    preferring,
    required_affinity,
    required_anti_affinity,
    term,
)
from tests.placement.filters.inter_pod.test_topology_spread import spread, spreading
from tests.placement.filters.oracle import Oracle
from tests.placement.filters.test_laws import pods, worlds
from tests.placement.filters.world import World, pod

pytestmark = pytest.mark.no_cover  # many generated examples of rules that other tests measure

SCORING = Scoring(NodeOrderArguments(), None)


def in_a_batch(world: World, incoming: Pod, count: int) -> list[str]:
    """Return the nodes of ``count`` such pods placed by one finder; fewer if no more fit."""
    return _placed(world, incoming, count, _finder(world))


def one_by_one(world: World, incoming: Pod, count: int) -> list[str]:
    """Return the nodes of such pods, each placed by a new finder."""
    return _placed(world, incoming, count, None)


def _placed(world: World, incoming: Pod, count: int, finder: NodeFinder | None) -> list[str]:
    world.filter_result(incoming)  # so that its selectors exist
    shape = world.shapes.of(incoming)
    nodes = []
    for number in range(count):
        choice = (finder or _finder(world)).best(shape)
        if not isinstance(choice, Choice):
            break
        nodes.append(choice.node)
        world.cluster.add_pod(Uid(f"placed-{number}"), shape, choice.node, ALLOCATION_STATES[choice.capacity])
    return nodes


def _finder(world: World) -> NodeFinder:
    return NodeFinder(world.cluster, world.engine, SCORING)


@given(world=worlds(), incoming=pods("same"), count=st.integers(1, 8))
def test_a_batch_is_placed_like_single_pods(world: World, incoming: Pod, count: int) -> None:
    batch = in_a_batch(world, incoming, count)
    for number in range(len(batch)):
        world.cluster.remove_pod(Uid(f"placed-{number}"))
    assert batch == one_by_one(world, incoming, count)


@given(world=worlds(), incoming=pods("same"), count=st.integers(1, 8))
def test_each_pod_of_a_batch_passes_the_filters(world: World, incoming: Pod, count: int) -> None:
    nodes = [node for node in world.cluster.nodes if node is not None]
    placed = list(world.placed.values())
    for name in in_a_batch(world, incoming, count):
        (node,) = (each for each in nodes if each.metadata.name == name)
        assert None in (Oracle(nodes, placed, capacity).failure(incoming, node) for capacity in Capacity)
        placed.append((incoming, name, AllocationState.USED))


@pytest.mark.parametrize(
    ("spec", "want"),
    [
        pytest.param({}, "a=3 b=2 c=2 d=2", id="by least requested resources"),
        pytest.param(
            required_anti_affinity(term("web", "hostname")), "a=1 b=1 c=1 d=1", id="anti-affinity by node"
        ),
        pytest.param(
            required_anti_affinity(term("web")),
            "a=1 c=1 d=7",
            id="anti-affinity by zone, with nodes outside all zones",
        ),
        pytest.param(required_affinity(term("web")), "a=5 b=4", id="affinity by zone"),
        pytest.param(required_affinity(term("web", "hostname")), "a=9", id="affinity by node"),
        pytest.param(spreading(spread()), "a=3 b=2 c=4", id="topology spread"),
        pytest.param({"ports": [{"hostPort": 80, "containerPort": 80}]}, "a=1 b=1 c=1 d=1", id="host port"),
        pytest.param(preferring("podAffinity", 100, term("web", "hostname")), "a=9", id="preferred affinity"),
    ],
)
def test_nodes_of_a_batch_of_nine(spec: dict[str, Any], want: str) -> None:
    nodes = in_a_batch(World("a zone=1", "b zone=1", "c zone=2", "d"), pod("p app=web", **spec), 9)
    assert " ".join(f"{name}={count}" for name, count in sorted(Counter(nodes).items())) == want
