"""Pods placed in racks: what is known of their nodes decides what further pods fit."""

import pytest

from quorate.api import codec
from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.core.scheduling import Node
from quorate.api.kueue import ResourceFlavor
from quorate.api.kueue.topology import Topology
from quorate.placement.topology.leaf_hosts import HostRequest
from quorate.queueing.nodes.model import TopologyModel
from quorate.queueing.nodes.places import Place, Places
from tests.queueing.test_foreign_pods import PLACED, WORKLOAD, a_pod

LARGE = HostRequest((("cpu", 4000),))


def a_topology(*levels: str) -> Topology:
    spec = {"levels": [{"nodeLabel": level} for level in levels]}
    return codec.convert(Topology, {"metadata": {"name": "dc"}, "spec": spec})


@pytest.fixture
def model() -> TopologyModel:
    """Return a model of one rack with two nodes of 4 cpu, and a workload with two pods of 2 cpu there."""
    model = TopologyModel(TopologyGates())
    model.put_topology(a_topology("rack"))
    spec = {"topologyName": "dc", "nodeLabels": {"pool": "tas"}}
    model.flavors = {"tas": codec.convert(ResourceFlavor, {"metadata": {"name": "tas"}, "spec": spec})}
    model.flavor_changed("tas")
    for name in "ab":
        node = {
            "metadata": {"name": name, "labels": {"pool": "tas", "rack": "r"}},
            "status": {"allocatable": {"cpu": "4"}, "conditions": [{"type": "Ready", "status": "True"}]},
        }
        model.put_node(codec.convert(Node, node))
    Places(model, [Place(("tas",), ("r",), False, {"cpu": 4000}, 2)]).count(1)
    model.set_has_places(WORKLOAD, True)
    return model


def large_pods(model: TopologyModel) -> int:
    """Return how many pods of 4 cpu fit the nodes of the rack."""
    tree = model.tree("tas")
    assert tree is not None
    assert tree.below is not None
    column = tree.column_of(("r",))
    assert column is not None
    return tree.below.fitting(column, LARGE)


def test_pods_that_are_not_bound_are_packed_and_bound_ones_are_where_they_are(model: TopologyModel) -> None:
    assert large_pods(model) == 1
    version = model.version
    model.put_pod(a_pod("p", "a", cpu="2", **PLACED))
    assert model.version > version, "results of placements are void"
    assert large_pods(model) == 1
    model.put_pod(a_pod("q", "b", cpu="2", **PLACED))
    assert large_pods(model) == 0
    model.put_pod(a_pod("q", "b", cpu="2", phase="Succeeded", **PLACED))
    assert large_pods(model) == 1, "the place of the pod counts, and is assumed to be beside the other one"


def test_a_workload_that_loses_its_places_leaves_its_pods_where_they_are(model: TopologyModel) -> None:
    model.put_pod(a_pod("p", "a", cpu="2", **PLACED))
    model.put_pod(a_pod("q", "b", cpu="2", **PLACED))
    Places(model, [Place(("tas",), ("r",), False, {"cpu": 4000}, 2)]).count(-1)
    model.set_has_places(WORKLOAD, False)
    assert large_pods(model) == 0
    model.remove_pod(a_pod("p").metadata.key)
    assert large_pods(model) == 1


def test_bound_pods_are_read_once_a_topology_ends_above_hosts(model: TopologyModel) -> None:
    model.put_topology(a_topology("kubernetes.io/hostname"))
    model.put_pod(a_pod("p", "a", cpu="2", **PLACED))
    model.put_pod(a_pod("q", "b", cpu="2", **PLACED))
    model.put_topology(a_topology("rack"))
    assert large_pods(model) == 0


def test_nodes_that_come_and_go_keep_what_their_pods_use(model: TopologyModel) -> None:
    model.put_pod(a_pod("p", "a", cpu="2", **PLACED))
    model.put_pod(a_pod("foreign", "b", cpu="1"))
    assert large_pods(model) == 0
    node = model.nodes["b"]
    model.remove_node("b")
    assert large_pods(model) == 0
    model.put_node(node)
    assert large_pods(model) == 0
    model.remove_pod(a_pod("foreign").metadata.key)
    assert large_pods(model) == 1
