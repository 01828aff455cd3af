"""What pods use of a node: the places of their workload, or their own requests if it has none."""

import msgspec
import pytest

from quorate.api import codec
from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.core.pod import Pod
from quorate.api.core.pod_resources import EncodedRequests
from quorate.api.core.scheduling import Node
from quorate.api.meta import Key
from quorate.api.quantity import Quantity
from quorate.placement.topology.tree import MAX_AMOUNT
from quorate.queueing.nodes.model import TopologyModel
from quorate.queueing.nodes.places import Place, Places

HOST = "kubernetes.io/hostname"
WORKLOAD = Key("ns", "w")
UNCONSTRAINED = "kueue.x-k8s.io/podset-unconstrained-topology"


@pytest.fixture
def model() -> TopologyModel:
    """Return a model with the node ``a`` of 8 cpu."""
    model = TopologyModel(TopologyGates())
    node = {
        "metadata": {"name": "a", "labels": {HOST: "a"}},
        "status": {"allocatable": {"cpu": "8"}, "conditions": [{"type": "Ready", "status": "True"}]},
    }
    model.put_node(codec.convert(Node, node))
    return model


def free(model: TopologyModel) -> int:
    """Return the cpus that are free on the node."""
    tree = model.host_tree(())
    assert tree is not None
    return int(tree.remaining("cpu")[0]) // 1000


def free_amounts(model: TopologyModel) -> dict[str, int]:
    tree = model.host_tree(())
    assert tree is not None
    (leaf,) = tree.leaves
    free, _ = tree.amounts_of(leaf)
    return free


def a_pod(name: str, node: str = "a", phase: str = "Running", cpu: str = "3", **annotations: str) -> Pod:
    container = {"name": "main", "resources": {"requests": {"cpu": cpu}}}
    given = {f"kueue.x-k8s.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    pod = {
        "metadata": {"name": name, "namespace": "ns", "annotations": given},
        "spec": {"nodeName": node, "containers": [container]},
        "status": {"phase": phase},
    }
    return codec.convert(Pod, pod)


PLACED = {"podset_unconstrained_topology": "true", "workload": "w"}


def test_a_pod_that_is_resized_in_place_uses_what_it_has_not_released(model: TopologyModel) -> None:
    def resized(cpu: str, actual: str) -> Pod:
        requests = {"requests": {"cpu": cpu}}
        pod = {
            "metadata": {"name": "p", "namespace": "ns"},
            "spec": {"nodeName": "a", "containers": [{"name": "main", "resources": requests}]},
            "status": {"containerStatuses": [{"name": "main", "resources": {"requests": {"cpu": actual}}}]},
        }
        return codec.convert(Pod, pod)

    for cpu, actual, want in (("3", "3", 5), ("5", "3", 3), ("1", "5", 3), ("1", "1", 7)):
        model.put_pod(resized(cpu, actual))
        assert free(model) == want, (cpu, actual)


@pytest.mark.parametrize(
    ("pod", "left"),
    [
        pytest.param(a_pod("p"), 5, id="without a place"),
        pytest.param(a_pod("p", workload="w"), 5, id="of a workload without a topology"),
        pytest.param(a_pod("p", phase="Succeeded"), 8, id="ended"),
        pytest.param(a_pod("p", node=""), 8, id="not bound"),
        pytest.param(a_pod("p", node="b"), 8, id="on another node"),
        pytest.param(a_pod("p", **PLACED), 5, id="of a workload that has no places any more"),
        pytest.param(
            a_pod("p", podset_unconstrained_topology="true"), 8, id="requests a place, of no known workload"
        ),
    ],
)
def test_a_pod_uses_its_node(model: TopologyModel, pod: Pod, left: int) -> None:
    model.put_pod(pod)
    assert free(model) == left
    model.remove_pod(pod.metadata.key)
    assert free(model) == 8


def test_pods_count_once_their_workload_has_no_places(model: TopologyModel) -> None:
    places = Places(model, [Place((), ("a",), True, {"cpu": 6000})])
    places.count(1)
    model.set_has_places(WORKLOAD, True)
    for name in ("p", "q"):
        model.put_pod(a_pod(name, **PLACED))
    assert free(model) == 2

    places.count(-1)
    model.set_has_places(WORKLOAD, False)
    assert free(model) == 2  # both still run
    model.put_pod(a_pod("p", phase="Succeeded", **PLACED))
    assert free(model) == 5
    model.remove_pod(Key("ns", "q"))
    assert free(model) == 8


def test_a_new_model_takes_over_the_pods(model: TopologyModel) -> None:
    model.set_has_places(WORKLOAD, True)
    model.put_pod(a_pod("p", **PLACED))
    model.put_pod(a_pod("other"))
    fresh = TopologyModel(TopologyGates())
    fresh.take_nodes(model)
    assert free(fresh) == 2  # the workload has no places in the new model


def test_a_pod_that_grows_uses_more(model: TopologyModel) -> None:
    model.put_pod(a_pod("p"))
    model.put_pod(a_pod("p", cpu="4"))
    assert free(model) == 4


def test_a_copy_of_a_pod_keeps_its_requests(model: TopologyModel) -> None:
    model.put_pod(msgspec.structs.replace(a_pod("p")))
    assert free(model) == 5


def test_the_room_returns_when_pods_with_unknown_requests_are_gone(model: TopologyModel) -> None:
    keys = [Key("ns", name) for name in ("p", "q")]
    for key in keys:
        model.put_unreadable_pod(key, "a", {"cpu": MAX_AMOUNT})
    assert free(model) < 0
    for key in keys:
        model.remove_pod(key)
    assert free(model) == 8


def test_of_the_resources_of_pods_those_count_that_their_node_offers(model: TopologyModel) -> None:
    """A pod on a node may name thousands, and a tree has a row for each resource."""
    many = {f"a.b/{number}": "1" for number in range(5_000)}
    container = {"resources": {"requests": {**many, "cpu": "2"}}}
    pod = codec.convert(
        Pod, {"metadata": {"name": "p"}, "spec": {"nodeName": "a", "containers": [container]}}
    )
    large = Key("ns", "large")
    model.put_pod(pod)
    model.put_unreadable_pod(large, "a", EncodedRequests(codec.encode({**many, "cpu": "3"})))
    assert free_amounts(model) == {"cpu": 3000, "pods": -2}

    node = model.nodes["a"]
    allocatable = {**node.status.allocatable, "a.b/7": Quantity.of_units(8)}
    status = msgspec.structs.replace(node.status, allocatable=allocatable)
    model.put_node(msgspec.structs.replace(node, status=status))
    assert free_amounts(model) == {"cpu": 3000, "pods": -2, "a.b/7": 6}
    model.remove_pod(large)
    assert free_amounts(model) == {"cpu": 6000, "pods": -1, "a.b/7": 7}


def nominated(pod: Pod, node: str = "a") -> Pod:
    status = msgspec.structs.replace(pod.status, nominated_node_name=node)
    return msgspec.structs.replace(pod, status=status)


@pytest.mark.parametrize(
    ("pod", "left"),
    [
        pytest.param(nominated(a_pod("p", node="")), 5, id="it has no other node"),
        pytest.param(nominated(a_pod("p", node=""), node=""), 8, id="it has none"),
        pytest.param(nominated(a_pod("p", node="b")), 8, id="it is bound elsewhere"),
        pytest.param(nominated(a_pod("p", node="", **PLACED)), 8, id="its workload has a place for it"),
    ],
)
def test_a_pod_uses_the_node_for_which_it_is_nominated(model: TopologyModel, pod: Pod, left: int) -> None:
    model.put_nominated_pod(pod)
    assert free(model) == left
    model.remove_nominated_pod(pod.metadata.key)
    assert free(model) == 8


def test_a_nominated_pod_that_is_bound_counts_once_in_the_end(model: TopologyModel) -> None:
    model.put_nominated_pod(nominated(a_pod("p", node="")))
    model.put_pod(a_pod("p"))
    model.remove_nominated_pod(Key("ns", "p"))  # the two watches have no common order
    assert free(model) == 5
