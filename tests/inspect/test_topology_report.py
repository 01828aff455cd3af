"""The amounts of the domains of a topology: what nodes have, what pods use, and what is free."""

import pytest

from quorate.api import codec
from quorate.api.configuration.feature_gates import TopologyGates
from quorate.api.core.pod import Pod
from quorate.api.core.scheduling import Node
from quorate.api.kueue import ResourceFlavor
from quorate.api.kueue.topology import Topology
from quorate.api.meta import ObjectMeta
from quorate.inspect.topology_report import (
    DomainReport,
    TopologyReport,
    occupancy,
    report_topology,
    walk,
)
from quorate.queueing.nodes.model import TopologyModel
from quorate.queueing.nodes.places import Place

HOST = "kubernetes.io/hostname"


def a_node(path: str, cpu: int, **spec: object) -> Node:
    rack, host = path.split("/")
    return codec.convert(
        Node,
        {
            "metadata": {"name": host, "labels": {"rack": rack, HOST: host}},
            "spec": spec,
            "status": {"allocatable": {"cpu": cpu}, "conditions": [{"type": "Ready", "status": "True"}]},
        },
    )


def a_pod(name: str, node: str, cpu: int, phase: str = "Running", **annotations: str) -> Pod:
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    return codec.convert(
        Pod,
        {
            "metadata": {"name": name, "uid": name, "annotations": annotations},
            "spec": {"nodeName": node, "containers": containers},
            "status": {"phase": phase},
        },
    )


NODES = (a_node("r1/x1", 4), a_node("r1/x2", 8), a_node("r2/x3", 8), a_node("r2/x4", 8, unschedulable=True))


def report(*pods: Pod, used: dict[str, int] | None = None) -> TopologyReport:
    """Return the report of a topology with racks and hosts; ``used``: milli-CPUs of placed pods by host."""
    levels = {"levels": [{"nodeLabel": "rack"}, {"nodeLabel": HOST}]}
    topology = codec.convert(Topology, {"metadata": {"name": "tree"}, "spec": levels})
    model = TopologyModel(TopologyGates())
    spec = {"topologyName": "tree", "nodeLabels": {}}
    model.flavors = {
        "tas": codec.convert(ResourceFlavor, {"metadata": {"name": "tas"}, "spec": spec}),
        "plain": ResourceFlavor(metadata=ObjectMeta(name="plain")),
    }
    model.put_topology(topology)
    for node in NODES:
        model.put_node(node)
    for pod in pods:
        model.put_pod(pod)
    model.count([Place(("tas",), (host,), True, {"cpu": cpu}) for host, cpu in (used or {}).items()], 1)
    return report_topology(topology, model, NODES)


def rows(found: TopologyReport) -> list[str]:
    """Return each domain as ``path: capacity used others free largest``, in CPUs."""
    (flavor,) = found.flavors
    return [
        f"{'/'.join(each.path)}: " + " ".join(str(amounts["cpu"]) for amounts in _amounts(each))
        for each in walk(flavor.domains)
    ]


def _amounts(domain: DomainReport) -> tuple[dict[str, object], ...]:
    amounts = (domain.capacity, domain.used, domain.others, domain.free, domain.largest_free)
    return tuple(dict(each) for each in amounts)


def test_amounts_add_up_over_the_levels() -> None:
    found = report(a_pod("web", "x2", 1), used={"x1": 3000, "x3": 8000})
    assert rows(found) == [
        "r1: 12 3 1 8 7",
        "r1/x1: 4 3 0 1 1",
        "r1/x2: 8 0 1 7 7",
        "r2: 8 8 0 0 0",
        "r2/x3: 8 8 0 0 0",
    ]
    assert [each.leaves for each in walk(found.flavors[0].domains)] == [2, 1, 1, 1, 1]


@pytest.mark.parametrize(
    ("pod", "others"),
    [
        pytest.param(a_pod("web", "x1", 2), "2", id="a pod of another owner"),
        pytest.param(a_pod("done", "x1", 2, "Succeeded"), "0", id="a pod that has ended"),
        pytest.param(a_pod("pending", "", 2, "Pending"), "0", id="a pod without a node"),
        pytest.param(
            a_pod("placed", "x1", 2, **{"kueue.x-k8s.io/podset-unconstrained-topology": "true"}),
            "0",
            id="a pod with a place",
        ),
    ],
)
def test_pods_of_others(pod: Pod, others: str) -> None:
    assert rows(report(pod))[1].split()[3] == others


def test_more_is_used_than_a_host_has() -> None:
    assert rows(report(a_pod("web", "x1", 3), used={"x1": 2000}))[1] == "r1/x1: 4 2 3 0 0"


def test_occupancy_in_tenths() -> None:
    found = report(a_pod("web", "x2", 1), used={"x1": 3000, "x3": 8000})
    leaves = [each for each in walk(found.flavors[0].domains) if not each.domains]
    assert [occupancy(leaf, "cpu") for leaf in leaves] == [7, 1, 10]
    assert occupancy(leaves[0], "memory") is None
    unused = [each for each in walk(report().flavors[0].domains) if not each.domains]
    assert {occupancy(leaf, "cpu") for leaf in unused} == {-1}


def test_nodes_that_do_not_count_are_named() -> None:
    (flavor,) = report().flavors
    assert flavor.excluded_nodes == ("x4",)
