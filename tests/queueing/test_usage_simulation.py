"""Simulated ends of workloads: when their places are free, and that nothing is left of them."""

import pytest

from quorate.queueing.preemption.simulation import UsageSimulation
from tests.queueing.world import World

HOST = "kubernetes.io/hostname"


@pytest.fixture
def world() -> World:
    """Return a world with a host of 5 cpus, on which ``one`` uses 1 and ``two`` 2."""
    pods = {"requests": {"cpu": 1}, "topology": {"required": HOST}}
    world = World(
        {
            "topologies": {"dc": {"levels": [HOST]}},
            "flavors": {"tas": {"topologyName": "dc", "nodeLabels": {"pool": "tas"}}},
            "nodes": {"a": {"labels": {"pool": "tas"}, "allocatable": {"cpu": 5, "pods": 10}}},
            "clusterQueues": {"cq": {"quota": [{"tas": {"cpu": 100}}]}},
            "workloads": [
                {"name": "one", "queue": "cq", "created": 1, "podSets": [{"count": 1, **pods}]},
                {"name": "two", "queue": "cq", "created": 2, "podSets": [{"count": 2, **pods}]},
            ],
        }
    )
    world.run({"cycle": 2})
    assert free(world) == 2
    return world


def free(world: World) -> int:
    tree = world.state.ledger.topology.tree("tas")
    assert tree is not None
    return int(tree.remaining("cpu")[0]) // 1000


def test_places_are_free_at_once(world: World) -> None:
    ledger = world.state.ledger
    one, two = ledger.reservations.values()
    node = ledger.cluster_queues["cq"].node
    with UsageSimulation() as simulation:
        simulation.remove(one, node)
        simulation.remove(two, node)
        assert free(world) == 5
        simulation.restore(two)
        assert free(world) == 3
    assert free(world) == 2


def test_places_are_free_when_they_are_counted(world: World) -> None:
    ledger = world.state.ledger
    one, two = ledger.reservations.values()
    node = ledger.cluster_queues["cq"].node
    with UsageSimulation(counts_places=False) as simulation:
        simulation.remove(one, node)
        simulation.remove(two, node)
        assert free(world) == 2
        simulation.restore(one)
        simulation.count_places()
        assert free(world) == 4
        simulation.restore(two)
        simulation.remove(one, node)
        assert free(world) == 4
        simulation.count_places()
        assert free(world) == 3
        simulation.restore(one)
    assert free(world) == 2
