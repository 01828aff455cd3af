"""Equal pods in a row, placed by rankings and by real constraints together."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.core.scheduling import Pod
from quorate.api.meta import Uid
from quorate.api.scheduler_configuration.plugins import NodeOrderArguments
from quorate.placement.batch_placement import ALLOCATION_STATES
from quorate.placement.cluster import AllocationState
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

SCORING = Scoring(NodeOrderArguments(), None)


def in_a_row(world: World, incoming: Pod, count: int) -> list[str]:
    """The nodes of ``count`` such pods, asked for one after the other; fewer if there are no more places."""
    return _placed(world, incoming, count, _rankings(world))


def each_alone(world: World, incoming: Pod, count: int) -> list[str]:
    """The same, each asked of somebody who knows nothing of the one before."""
    return _placed(world, incoming, count, None)


def _placed(world: World, incoming: Pod, count: int, node_finder: NodeFinder | None) -> list[str]:
    world.filter_result(incoming)  # its selectors are known
    shape = world.shapes.of(incoming)
    nodes = []
    for number in range(count):
        choice = (node_finder or _rankings(world)).best(shape)
        if not isinstance(choice, Choice):
            break
        nodes.append(choice.node)
        world.cluster.add_pod(Uid(f"placed-{number}"), shape, choice.node, ALLOCATION_STATES[choice.capacity])
    return nodes


def _rankings(world: World) -> NodeFinder:
    return NodeFinder(world.cluster, world.engine, SCORING)


@given(world=worlds(), incoming=pods("same"), count=st.integers(1, 8))
def test_many_pods_go_where_each_would_go_alone(world: World, incoming: Pod, count: int) -> None:
    together = in_a_row(world, incoming, count)
    for number in range(len(together)):
        world.cluster.remove_pod(Uid(f"placed-{number}"))
    assert together == each_alone(world, incoming, count)


@given(world=worlds(), incoming=pods("same"), count=st.integers(1, 8))
def test_each_of_many_pods_goes_where_the_rules_allow_it(world: World, incoming: Pod, count: int) -> None:
    known = [node for node in world.cluster.nodes if node is not None]
    placed = list(world.placed.values())
    for name in in_a_row(world, incoming, count):
        (node,) = (each for each in known if each.metadata.name == name)
        assert None in (Oracle(known, placed, capacity).failure(incoming, node) for capacity in Capacity)
        placed.append((incoming, name, AllocationState.USED))


@pytest.mark.parametrize(
    ("requirements", "want"),
    [
        pytest.param({}, "a=3 b=2 c=2 d=2", id="wherever there is most room"),
        pytest.param(
            required_anti_affinity(term("web", "hostname")), "a=1 b=1 c=1 d=1", id="one on each node"
        ),
        pytest.param(
            required_anti_affinity(term("web")),
            "a=1 c=1 d=7",
            id="one in each zone, the others outside of all",
        ),
        pytest.param(required_affinity(term("web")), "a=5 b=4", id="all in the zone of the first"),
        pytest.param(required_affinity(term("web", "hostname")), "a=9", id="all on the node of the first"),
        pytest.param(spreading(spread()), "a=3 b=2 c=4", id="as many in each zone, but for one"),
        pytest.param(
            {"ports": [{"hostPort": 80, "containerPort": 80}]}, "a=1 b=1 c=1 d=1", id="one port each"
        ),
        pytest.param(
            preferring("podAffinity", 100, term("web", "hostname")), "a=9", id="drawn to each other"
        ),
    ],
)
def test_where_nine_pods_go(requirements: dict[str, Any], want: str) -> None:
    nodes = in_a_row(World("a zone=1", "b zone=1", "c zone=2", "d"), pod("p app=web", **requirements), 9)
    assert " ".join(f"{name}={count}" for name, count in sorted(Counter(nodes).items())) == want
