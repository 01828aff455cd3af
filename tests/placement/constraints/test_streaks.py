"""Equal pods in a row, placed by rankings and by real constraints together."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api.meta import Uid
from quorate.api.placeable import Pod
from quorate.api.scheduler_plugins import NodeOrderArguments
from quorate.placement.cluster import Hold
from quorate.placement.rankings import Rankings
from quorate.placement.scoring import Scoring
from quorate.placement.stance import Moment
from quorate.placement.streaks import HOLDS
from quorate.placement.verdicts import Choice
from tests.placement.constraints.given import World, pod
from tests.placement.constraints.oracle import Oracle
from tests.placement.constraints.test_laws import pods, worlds
from tests.placement.constraints.test_pod_affinity import apart, near, preferring, term
from tests.placement.constraints.test_spread import spread, spreading

SCORING = Scoring(NodeOrderArguments(), None)


def in_a_row(world: World, incoming: Pod, count: int) -> list[str]:
    """The nodes of ``count`` such pods, asked for one after the other; fewer if there are no more places."""
    return _placed(world, incoming, count, _rankings(world))


def each_alone(world: World, incoming: Pod, count: int) -> list[str]:
    """The same, each asked of somebody who knows nothing of the one before."""
    return _placed(world, incoming, count, None)


def _placed(world: World, incoming: Pod, count: int, rankings: Rankings | None) -> list[str]:
    world.stance(incoming)  # its selectors are known
    shape = world.shapes.of(incoming)
    nodes = []
    for number in range(count):
        choice = (rankings or _rankings(world)).best(shape)
        if not isinstance(choice, Choice):
            break
        nodes.append(choice.node)
        world.cluster.put(Uid(f"placed-{number}"), shape, choice.node, HOLDS[choice.moment])
    return nodes


def _rankings(world: World) -> Rankings:
    return Rankings(world.cluster, world.surroundings, SCORING)


@given(world=worlds(), incoming=pods("same"), count=st.integers(1, 8))
def test_many_pods_go_where_each_would_go_alone(world: World, incoming: Pod, count: int) -> None:
    together = in_a_row(world, incoming, count)
    for number in range(len(together)):
        world.cluster.take(Uid(f"placed-{number}"))
    assert together == each_alone(world, incoming, count)


@given(world=worlds(), incoming=pods("same"), count=st.integers(1, 8))
def test_each_of_many_pods_goes_where_the_rules_allow_it(world: World, incoming: Pod, count: int) -> None:
    known = [node for node in world.cluster.nodes if node is not None]
    placed = list(world.placed.values())
    for name in in_a_row(world, incoming, count):
        (node,) = (each for each in known if each.metadata.name == name)
        assert None in (Oracle(known, placed, moment).refusal(incoming, node) for moment in Moment)
        placed.append((incoming, name, Hold.USED))


@pytest.mark.parametrize(
    ("demands", "want"),
    [
        pytest.param({}, "a=3 b=2 c=2 d=2", id="wherever there is most room"),
        pytest.param(apart(term("web", "hostname")), "a=1 b=1 c=1 d=1", id="one on each node"),
        pytest.param(apart(term("web")), "a=1 c=1 d=7", id="one in each zone, the others outside of all"),
        pytest.param(near(term("web")), "a=5 b=4", id="all in the zone of the first"),
        pytest.param(near(term("web", "hostname")), "a=9", id="all on the node of the first"),
        pytest.param(spreading(spread()), "a=3 b=2 c=4", id="as many in each zone, but for one"),
        pytest.param(
            {"ports": [{"hostPort": 80, "containerPort": 80}]}, "a=1 b=1 c=1 d=1", id="one port each"
        ),
        pytest.param(
            preferring("podAffinity", 100, term("web", "hostname")), "a=9", id="drawn to each other"
        ),
    ],
)
def test_where_nine_pods_go(demands: dict[str, Any], want: str) -> None:
    nodes = in_a_row(World("a zone=1", "b zone=1", "c zone=2", "d"), pod("p app=web", **demands), 9)
    assert " ".join(f"{name}={count}" for name, count in sorted(Counter(nodes).items())) == want
