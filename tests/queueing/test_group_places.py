"""The places of a Volcano pod group: each is that of the workload, until a member of the group is bound."""

from collections import Counter

import pytest
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.core import RuntimeClass
from quorate.api.core.pod import Pod
from quorate.api.meta import Key, OwnerReference, Uid
from quorate.queueing.topology.shrunk_places import domains_without_members
from tests.queueing.notation import Json
from tests.queueing.world import World, differences

HOST = "kubernetes.io/hostname"
NODE: Json = {"labels": {"pool": "tas", HOST: ""}, "allocatable": {"cpu": 4, "pods": 10}}
OWNER = OwnerReference(
    api_version="scheduling.volcano.sh/v1beta1", kind="PodGroup", name="g", uid=Uid("g"), controller=True
)
FLAVORS: dict[str, Json] = {"topology": {"topologyName": "dc"}, "node fit": {"nodeFit": "Require"}}


def a_world(flavor: str) -> World:
    """Return a world with 8 cpus in which the workload of a group of six pods has places."""
    pods = {"count": 6, "requests": {"cpu": 1}}
    world = World(
        {
            "topologies": {"dc": {"levels": [HOST]}},
            "flavors": {"one": {"nodeLabels": {"pool": "tas"}, **FLAVORS[flavor]}},
            "nodes": {name: {**NODE, "labels": {**NODE["labels"], HOST: name}} for name in ("a", "b")},
            "clusterQueues": {"cq": {"quota": [{"one": {"cpu": 99}}]}},
            "workloads": [
                {"name": "w", "queue": "cq", "podSets": [pods]},
                {"name": "later", "queue": "cq", "created": 1, "create": "later", "requests": {"cpu": 2}},
            ],
        }
    )
    workload = world.workloads["w"]
    metadata = replace(workload.metadata, owner_references=(OWNER,))
    world.put("w", replace(workload, metadata=metadata))
    world.run("cycle")
    return world


def a_member(name: str, node: str, phase: str = "Running") -> Pod:
    container = {"name": "main", "resources": {"requests": {"cpu": "1"}}}
    metadata = {
        "name": name,
        "namespace": "default",
        "annotations": {"scheduling.k8s.io/group-name": "g"},
    }
    spec = {"nodeName": node, "containers": [container]}
    return codec.convert(Pod, {"metadata": metadata, "spec": spec, "status": {"phase": phase}})


def used(world: World) -> Counter[str]:
    """Return the cpus that are not free on each node."""
    tree = world.state.ledger.topology.host_tree(("one",))
    assert tree is not None
    found: Counter[str] = Counter()
    for leaf in tree.leaves:
        free, used = tree.amounts_of(leaf)
        found[leaf[-1]] = 4 - (free["cpu"] - used.get("cpu", 0)) // 1000
    return found


@pytest.mark.parametrize("flavor", FLAVORS)
def test_a_place_of_a_group_is_not_counted_beside_the_member_that_took_it(flavor: str) -> None:
    world = a_world(flavor)
    assert used(world) == {"a": 4, "b": 2}
    for at, node in enumerate("aaaabb"):
        world.state.nodes.put_pod(a_member(f"p{at}", node))
        assert used(world).total() == 6
        assert differences(world.state, world.workloads.values()) == []
    world.run({"create": ["later"]})
    world.run("cycle")
    assert set(world.admitted()) == {"w", "later"}


@pytest.mark.parametrize("flavor", FLAVORS)
def test_a_member_takes_a_place_of_another_node_if_its_own_has_none(flavor: str) -> None:
    world = a_world(flavor)
    for at, node in enumerate("bbb"):
        world.state.nodes.put_pod(a_member(f"p{at}", node))
    assert used(world) == {"a": 3, "b": 3}
    assert world.state.nodes.remove_pod(Key("default", "p2"))
    assert used(world) == {"a": 4, "b": 2}
    world.state.nodes.put_pod(a_member("p1", "b", phase="Succeeded"))
    assert used(world) == {"a": 4, "b": 2}


def test_a_member_that_is_nominated_has_its_place_only() -> None:
    world = a_world("topology")
    nominated = a_member("p0", "", phase="Pending")
    world.state.nodes.put_nominated_pod(
        replace(nominated, status=replace(nominated.status, nominated_node_name="b"))
    )
    assert used(world) == {"a": 4, "b": 2}


def test_members_beyond_the_places_of_a_group_count_themselves() -> None:
    world = a_world("topology")
    for at, node in enumerate("aaaabbb"):
        world.state.nodes.put_pod(a_member(f"p{at}", node))
    assert used(world) == {"a": 4, "b": 3}


def test_members_that_were_bound_before_the_admission_have_taken_their_places() -> None:
    world = a_world("topology")
    fresh = World(world.given)
    for at, node in enumerate("aaaabb"):
        fresh.state.nodes.put_pod(a_member(f"p{at}", node))
    fresh.state.put_workload(world.workloads["w"], world.now)
    assert used(fresh).total() == 6


def test_a_model_that_is_built_anew_knows_the_members() -> None:
    world = a_world("topology")
    for at, node in enumerate("aab"):
        world.state.nodes.put_pod(a_member(f"p{at}", node))
    fresh = World(world.given).state
    fresh.put_workload(world.workloads["w"], world.now)
    world.state.replace_with(fresh)
    assert used(world) == {"a": 4, "b": 2}


def test_feeds_go_on_with_the_model_that_replaces_theirs() -> None:
    """They keep methods of the state."""
    world = a_world("topology")
    put_pod, put_class = world.state.nodes.put_pod, world.state.request_updates.put_runtime_class
    fresh = World(world.given).state
    fresh.put_workload(world.workloads["w"], world.now)
    world.state.replace_with(fresh)
    for at, node in enumerate("aab"):
        put_pod(a_member(f"p{at}", node))
    assert used(world) == {"a": 4, "b": 2}
    assert not world.state.request_updates.are_pending
    put_class(codec.convert(RuntimeClass, {"metadata": {"name": "vm"}, "overhead": {"podFixed": {"cpu": 1}}}))
    assert world.state.request_updates.are_pending


def test_a_group_that_is_finished_leaves_only_its_members() -> None:
    world = a_world("topology")
    for at, node in enumerate("aab"):
        world.state.nodes.put_pod(a_member(f"p{at}", node))
    world.run({"finish": ["w"]})
    assert used(world) == {"a": 2, "b": 1}


def test_members_on_an_unknown_node_take_any_place() -> None:
    world = a_world("topology")
    admission = world.workloads["w"].status.admission
    assert admission is not None
    left = domains_without_members(admission, lambda levels: {("",): 2, ("b",): 1})
    assert left == {"main": ((("a",), 2), (("b",), 1))}
