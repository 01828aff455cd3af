"""Nodes as a tree: what pods use of them, the largest gang, and where one would go."""

from typing import Any

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.dashboard.queries import ADMINISTRATOR, Gang
from quorate.dashboard.schema import DomainUse
from quorate.dashboard.views import node_views, overview
from quorate.queueing.nodes.places import Place
from tests.dashboard.objects import NOW, Cluster, tenant

RACK, HOST = "rack", "kubernetes.io/hostname"
TWO = Gang(pods=4, requests={"cpu": 2_000})


def racks() -> Cluster:
    """Return two racks of two nodes with 4 and 8 cpu each, and a node that is not ready."""
    cluster = Cluster()
    cluster.put_topology("tree", RACK, HOST)
    cluster.put_flavor("tas", topologyName="tree")
    for name, rack, cpu in (("a1", "a", "4"), ("a2", "a", "8"), ("b1", "b", "4"), ("b2", "b", "8")):
        cluster.put_node(name, {RACK: rack}, cpu=cpu)
    cluster.put_node("b3", {RACK: "b"}, ready=False, cpu="8")
    return cluster


def put_pod(cluster: Cluster, name: str, node: str, cpu: str) -> Pod:
    containers = [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]
    body: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "red", "uid": name},
        "spec": {"nodeName": node, "containers": containers},
        "status": {"phase": "Running"},
    }
    pod = codec.convert(Pod, body)
    cluster.data.state.nodes.put_pod(pod)
    cluster.data.count_pod(pod.metadata.key, None, pod)
    return pod


def hold(cluster: Cluster, host: str, cpu: int) -> None:
    """Let pods with places use some of a host."""
    place = Place(("tas",), (host,), True, {"cpu": cpu * 1_000, "pods": 1}, 1, None)
    cluster.data.state.ledger.topology.count([place], 1)
    cluster.data.pod_revision += 1


def cpu(domain: DomainUse) -> dict[str, float]:
    parts = ("capacity", "used", "others", "free")
    return {
        part: getattr(domain, part)["cpu"].value if "cpu" in getattr(domain, part) else 0 for part in parts
    }


def test_the_levels_of_a_topology_are_a_tree_with_sums() -> None:
    cluster = racks()
    put_pod(cluster, "daemon", "a1", "1")
    hold(cluster, "a2", 5)
    view = node_views.nodes(cluster.data, ADMINISTRATOR, "tree", TWO)
    assert view is not None
    assert (view.topologies, view.levels, view.excluded) == (("tree",), (RACK, HOST), ("b3",))
    assert cpu(view.root) == {"capacity": 24, "used": 5, "others": 1, "free": 18}
    rack_a, rack_b = view.root.domains
    assert (rack_a.name, rack_a.level, rack_a.nodes) == ("a", RACK, 2)
    assert cpu(rack_a) == {"capacity": 12, "used": 5, "others": 1, "free": 6}
    assert [(each.name, each.level, cpu(each)) for each in rack_a.domains] == [
        ("a1", HOST, {"capacity": 4, "used": 0, "others": 1, "free": 3}),
        ("a2", HOST, {"capacity": 8, "used": 5, "others": 0, "free": 3}),
    ]
    # Of 2 cpu each: 1 + 1 in rack a, 2 + 4 in rack b, of which 4 in host b2.
    assert view.largest_gangs == {RACK: 6, HOST: 4}
    assert cpu(rack_b)["free"] == 12


def test_without_a_topology_all_nodes_are_listed_also_those_that_take_no_pods() -> None:
    cluster = racks()
    put_pod(cluster, "stuck", "b3", "3")
    view = node_views.nodes(cluster.data, ADMINISTRATOR, "", None)
    assert view is not None
    assert (view.levels, view.excluded, view.largest_gangs) == (("node",), ("b3",), {})
    assert [(each.name, each.ready, cpu(each)["free"]) for each in view.root.domains] == [
        ("a1", True, 4), ("a2", True, 8), ("b1", True, 4), ("b2", True, 8), ("b3", False, 0),
    ]  # fmt: skip
    assert cpu(view.root.domains[-1]) == {"capacity": 8, "used": 0, "others": 3, "free": 0}


def test_flavors_with_the_same_topology_are_one_tree_and_a_shared_host_counts_once() -> None:
    cluster = racks()
    cluster.put_flavor("tas", topologyName="tree", nodeLabels={RACK: "a"})
    cluster.put_flavor("also-a", topologyName="tree", nodeLabels={RACK: "a"})
    cluster.put_flavor("b-only", topologyName="tree", nodeLabels={RACK: "b"})
    view = node_views.nodes(cluster.data, ADMINISTRATOR, "tree", TWO)
    assert view is not None
    assert [(each.name, each.nodes, cpu(each)["capacity"]) for each in view.root.domains] == [
        ("a", 2, 12), ("b", 2, 12),
    ]  # fmt: skip
    assert view.largest_gangs == {RACK: 6, HOST: 4}


def test_a_gang_goes_to_the_smallest_domain_that_has_room() -> None:
    cluster = racks()

    def places(pods: int) -> list[tuple[str, int]]:
        found = node_views.gang_placement(cluster.data, ADMINISTRATOR, Gang(pods, {"cpu": 2_000}))
        assert found is not None
        assert found.fits
        return [(place.domain, place.pods) for place in found.places]

    assert places(4) == [("a/a2", 4)]
    assert places(6) == [("a/a1", 2), ("a/a2", 4)]
    hold(cluster, "a2", 8)
    assert places(6) == [("b/b1", 2), ("b/b2", 4)]


def test_a_gang_that_fits_nowhere_has_a_reason() -> None:
    found = node_views.gang_placement(racks().data, ADMINISTRATOR, Gang(13, {"cpu": 2_000}))
    assert found is not None
    assert (found.fits, found.places) == (False, ())
    assert "1 of 13 pods fits no node: cpu: need 2, have 0 on the best of 4 nodes" in found.reason
    none = node_views.gang_placement(Cluster().data, ADMINISTRATOR, TWO)
    assert none is not None
    assert (none.fits, none.reason) == (
        False,
        "4 of 4 pods fit no node: 0 of 0 nodes accept their node selector, affinity and tolerations",
    )
    many = node_views.gang_placement(racks().data, ADMINISTRATOR, Gang(10**9, {"cpu": 1}))
    assert many is not None
    assert many.reason == "pods must be 1 to 100000"


def test_a_caller_that_may_not_list_nodes_sees_none() -> None:
    cluster, red = racks(), tenant("red")
    assert node_views.nodes(cluster.data, red, "", None) is None
    assert node_views.nodes(cluster.data, red, "tree", None) is None
    assert node_views.gang_placement(cluster.data, red, TWO) is None
    assert overview.overview(cluster.data, red, NOW).nodes is None


def test_an_unknown_topology_or_one_without_levels_breaks_nothing() -> None:
    cluster = racks()
    assert node_views.nodes(cluster.data, ADMINISTRATOR, "other", None) is None
    cluster.put_topology("empty")
    cluster.put_flavor("of-empty", topologyName="empty")
    view = node_views.nodes(cluster.data, ADMINISTRATOR, "empty", TWO)
    assert view is not None
    assert (view.root.domains, view.largest_gangs) == ((), {})


def test_totals_follow_pods_and_nodes() -> None:
    cluster = racks()
    put_pod(cluster, "one", "a1", "1")
    two = put_pod(cluster, "two", "a2", "2")
    found = overview.overview(cluster.data, ADMINISTRATOR, NOW).nodes
    assert found is not None
    assert (found.nodes, found.ready, found.capacity["cpu"].value, found.used["cpu"].value) == (5, 4, 24, 3)
    cluster.data.count_pod(two.metadata.key, two, None)
    found = overview.overview(cluster.data, ADMINISTRATOR, NOW).nodes
    assert found is not None
    assert found.used["cpu"].value == 1
