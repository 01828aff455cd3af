"""Differences of places that the audit of the model finds, each caused by hand."""

from collections.abc import Callable

import pytest

from quorate.api import codec
from quorate.api.core import RuntimeClass
from quorate.api.meta import Key
from quorate.placement.cluster.audit import SumMismatch
from quorate.queueing.model_audit import ReservationMismatch
from quorate.queueing.nodes.audit import ConstraintMismatch, DomainMismatch, PlaceMismatch, PlacesMismatch
from quorate.queueing.nodes.model import TopologyModel
from quorate.queueing.nodes.places import NO_PLACES, Place
from tests.queueing.notation import Json
from tests.queueing.world import World, differences

HOST = "kubernetes.io/hostname"
W = Key("default", "w")


def a_world(**pod_set: object) -> World:
    """Return a world in which ``w`` has two pods of 1 cpu on ``b``, and pods of others use 1 cpu of ``a``."""
    node: Json = {"labels": {"pool": "tas"}, "allocatable": {"cpu": 2, "pods": 10}}
    world = World(
        {
            "runtimeClasses": {"small": {"cpu": "0"}},
            "topologies": {"dc": {"levels": [HOST]}},
            "flavors": {"tas": {"topologyName": "dc", "nodeLabels": {"pool": "tas"}}},
            "nodes": {"a": {**node, "nonTASUsage": {"cpu": 1}}, "b": node},
            "clusterQueues": {"cq": {"quota": [{"tas": {"cpu": 10}}]}},
            "workloads": [
                {"name": "w", "queue": "cq", "podSets": [{"count": 2, "requests": {"cpu": 1}, **pod_set}]}
            ],
        }
    )
    world.run("cycle")
    assert remaining(world) == {"a": 1000, "b": 0}
    return world


def model_of(world: World) -> TopologyModel:
    return world.state.ledger.topology


def remaining(world: World) -> dict[str, int]:
    tree = model_of(world).tree("tas")
    assert tree is not None
    amounts = tree.remaining("cpu")
    return {tree.recorded_values(leaf)[-1]: int(amounts[leaf]) for leaf in range(tree.leaf_count)}


def leak_a_place(world: World) -> None:
    model_of(world).count([Place(("tas",), ("a",), True, {"cpu": 1000})], 1)


def leak_in_the_tree(world: World) -> None:
    model_of(world).known_trees()[0].tree.add_used(("b",), {"cpu": 500})


def forget_a_pod(world: World) -> None:
    cluster = model_of(world).cluster
    (pod,) = [name for name, occupant in cluster.occupants.items() if occupant.node == "a"]
    cluster.remove_pod(pod)


def forget_a_node(world: World) -> None:
    model_of(world).known_trees()[0].tree.remove_node(model_of(world).nodes["a"])


def count_the_pods_instead(world: World) -> None:
    model_of(world).set_has_places(W, False)


def lose_the_places(world: World) -> None:
    reservation = world.state.ledger.reservations[W]
    reservation.places.count(-1)
    reservation.places = NO_PLACES


TREE, USAGE = ("tas",), ("tas",)


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        pytest.param(
            leak_a_place,
            [PlaceMismatch(("a",), USAGE, "usage", "cpu", 1000, 0)],
            id="a place counts that no workload has",
        ),
        pytest.param(
            leak_in_the_tree,
            [PlaceMismatch(("b",), TREE, "used", "cpu", 2500, 2000)],
            id="a domain has more usage than its places",
        ),
        pytest.param(
            forget_a_pod,
            [ConstraintMismatch("pods in the view", "others/a", 0, 1)],
            id="a pod of others does not count",
        ),
        pytest.param(forget_a_node, [DomainMismatch(("a",), "tas", False)], id="a domain is missing"),
        pytest.param(count_the_pods_instead, [PlacesMismatch(W, False)], id="pods count beside their places"),
        pytest.param(lose_the_places, [ReservationMismatch], id="a workload has no places"),
    ],
)
@pytest.mark.parametrize("slice_size", [1, 2_000])
def test_a_difference_is_found(
    fault: Callable[[World], None], found: list[object], slice_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorate.queueing.nodes.audit.SLICE_SIZE", slice_size)
    world = a_world()
    assert differences(world.state, world.workloads.values()) == []
    fault(world)
    differing = differences(world.state, world.workloads.values())
    assert [each if each in found else type(each) for each in differing] == found


def test_places_count_with_the_requests_that_pods_have_now() -> None:
    """As they would after a restart."""
    world = a_world(pod={"runtimeClassName": "small", "containers": [{"requests": {"cpu": 1}}]})
    larger = {"metadata": {"name": "small"}, "overhead": {"podFixed": {"cpu": "500m"}}}
    world.state.request_updates.put_runtime_class(codec.convert(RuntimeClass, larger))
    assert differences(world.state, world.workloads.values()) == [], "they are not updated yet"
    world.run("cycle")
    assert remaining(world) == {"a": 1000, "b": -1000}
    assert differences(world.state, world.workloads.values()) == []


def test_what_a_node_below_a_rack_has_left_is_compared() -> None:
    node: Json = {"labels": {"pool": "tas", "rack": "r"}, "allocatable": {"cpu": 2, "pods": 10}}
    world = World(
        {
            "topologies": {"dc": {"levels": ["rack"]}},
            "flavors": {"tas": {"topologyName": "dc", "nodeLabels": {"pool": "tas"}}},
            "nodes": {"a": {**node, "nonTASUsage": {"cpu": 1}}, "b": node},
            "clusterQueues": {"cq": {"quota": [{"tas": {"cpu": 10}}]}},
            "workloads": [{"name": "w", "queue": "cq", "requests": {"cpu": 1}}],
        }
    )
    world.run("cycle")
    assert differences(world.state, world.workloads.values()) == []
    cluster = model_of(world).cluster
    index = cluster.index("a")
    assert index is not None
    cluster.used[cluster.row("cpu"), index] -= 500
    assert SumMismatch in map(type, differences(world.state, world.workloads.values()))
