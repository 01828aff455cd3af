"""Places of a workload of which pods have ended for good."""

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.api import codec
from quorate.api.core.pod import Pod
from quorate.api.meta import Key
from quorate.queueing.nodes.places import Domains
from quorate.queueing.topology.shrunk_places import needed_domains
from tests.queueing.world import World, differences

Domain = tuple[str, ...]
A, B, C = ("a",), ("b",), ("c",)


@pytest.mark.parametrize(
    ("count", "bound", "needed"),
    [
        pytest.param(6, {}, {A: 4, B: 2}, id="no pod has ended"),
        pytest.param(3, {}, {A: 3, B: 2}, id="it is unknown where the pods run"),
        pytest.param(3, {A: 1, B: 2}, {A: 1, B: 2}, id="all pods have a node"),
        pytest.param(3, {A: 1}, {A: 3, B: 2}, id="two pods may come to either domain"),
        pytest.param(3, {A: 2}, {A: 3, B: 1}, id="one pod may come to either domain"),
        pytest.param(1, {A: 2}, {A: 2}, id="a pod that ended still has its node"),
        pytest.param(0, {}, {}, id="all pods have ended"),
        pytest.param(2, {C: 1}, {A: 2, B: 2}, id="a pod runs outside of its places"),
    ],
)
def test_places_that_pods_still_need(count: int, bound: dict[Domain, int], needed: dict[Domain, int]) -> None:
    assert dict(needed_domains(((A, 4), (B, 2)), count, bound)) == needed


@st.composite
def _pods(draw: st.DrawFn) -> tuple[Domains, list[tuple[Domain, str]]]:
    """Return domains, and the domain and state of the pod in each place."""
    domains: Domains = tuple(((f"n{at}",), draw(st.integers(1, 4))) for at in range(draw(st.integers(1, 4))))
    states = st.sampled_from(("bound", "not bound", "ended", "ended and bound"))
    return domains, [(values, draw(states)) for values, places in domains for _ in range(places)]


@given(_pods())
def test_each_domain_keeps_a_place_for_each_of_its_pods_that_may_run(
    case: tuple[Domains, list[tuple[Domain, str]]],
) -> None:
    """A pod that has ended may be known as bound for a moment; it never takes the place of another pod."""
    domains, pods = case
    alive = Counter(values for values, state in pods if not state.startswith("ended"))
    bound = Counter(values for values, state in pods if state.endswith("bound") and state != "not bound")
    count = alive.total()
    needed = Counter(dict(needed_domains(domains, count, bound)))
    is_late = any(state == "ended and bound" for _, state in pods)
    if not is_late:
        assert all(needed[values] >= alive[values] for values, _ in domains)
    assert all(needed[values] <= places for values, places in domains)
    if not any(state == "not bound" for _, state in pods):
        assert needed == bound


def _bound(name: str, node: str) -> Pod:
    metadata = {
        "name": name,
        "namespace": "default",
        "labels": {"kueue.x-k8s.io/podset": "main"},
        "annotations": {
            "kueue.x-k8s.io/workload": "w",
            "kueue.x-k8s.io/podset-unconstrained-topology": "true",
        },
    }
    requests = {"cpu": "1"}
    spec = {"nodeName": node, "containers": [{"name": "c", "resources": {"requests": requests}}]}
    return codec.convert(Pod, {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}})


def _free(world: World) -> dict[str, int]:
    tree = world.state.ledger.topology.host_tree(["default"])
    assert tree is not None
    amounts = tree.remaining("cpu")
    return {tree.recorded_values(leaf)[-1]: int(amounts[leaf]) // 1000 for leaf in range(tree.leaf_count)}


def test_the_hosts_of_pods_that_ended_are_free_wherever_the_others_are_bound() -> None:
    """Whatever comes first: the end of the pod, the count of its job, or the node of another pod."""
    world = World(
        {
            "config": {"nodeFit": {"mode": "Require"}},
            "flavors": ["default"],
            "nodes": {name: {"allocatable": {"cpu": 2, "pods": 10}} for name in ("a", "b")},
            "clusterQueues": {"cq": {"quota": [{"default": {"cpu": 100}}]}},
            "workloads": [{"name": "w", "queue": "cq", "created": 1, "count": 4, "requests": {"cpu": 1}}],
        }
    )
    world.run("cycle")

    def check(**free: int) -> None:
        assert _free(world) == free
        assert differences(world.state, world.workloads.values()) == []

    check(a=0, b=0)
    for name, node in (("p1", "a"), ("p2", "a"), ("p3", "b")):
        world.state.nodes.put_pod(_bound(name, node))
    check(a=0, b=0)
    world.run({"reclaim": {"w": {"main": 1}}})
    check(a=0, b=1)  # the only pod without a node has ended: three pods have theirs
    world.state.nodes.remove_pod(Key("default", "p1"))
    check(a=0, b=0)  # one of three pods has no node now
    world.run({"reclaim": {"w": {"main": 2}}})
    check(a=1, b=1)
    world.run({"reclaim": {"w": {"main": 3}}})
    check(a=1, b=1)  # one of the two pods with a node has ended, it is not known yet which
    assert set(world.state.nodes.remove_pod(Key("default", "p2"))) == {"default"}
    check(a=2, b=1)
    world.state.nodes.remove_node("b")
    world.run({"update": {"nodes": {"b": {}}}})
    check(a=2, b=1)


def test_the_last_pod_gets_another_host_though_those_of_the_ended_pods_are_gone() -> None:
    host, tas = "kubernetes.io/hostname", {"pool": "tas"}
    world = World(
        {
            "topologies": {"dc": {"levels": ["rack", host]}},
            "flavors": {"tas": {"topologyName": "dc", "nodeLabels": tas}},
            "nodes": {
                name: {"labels": {**tas, "rack": "r"}, "allocatable": {"cpu": 1, "pods": 10}}
                for name in "abcd"
            },
            "clusterQueues": {"cq": {"quota": [{"tas": {"cpu": 100}}]}},
            "workloads": [
                {
                    "name": "w",
                    "queue": "cq",
                    "created": 1,
                    "podSets": [{"count": 3, "requests": {"cpu": 1}, "topology": {"required": "rack"}}],
                }
            ],
        }
    )
    world.run("cycle")
    assert _places(world) == {"a": 1, "b": 1, "c": 1}
    world.state.nodes.put_pod(_bound("p3", "c"))
    world.run({"reclaim": {"w": {"main": 2}}})
    world.run({"update": {"nodes": {"a": None, "b": None}}})
    world.state.nodes.remove_pod(Key("default", "p3"))
    world.run({"update": {"nodes": {"c": None}}})
    world.run({"unhealthy": {"w": ["c"]}})
    world.run({"advance": "2s"})
    world.run("cycle")
    assert _places(world) == {"d": 1}
    assert differences(world.state, world.workloads.values()) == []


def _places(world: World) -> dict[str, int]:
    admission = world.workloads["w"].status.admission
    assert admission is not None
    (assigned,) = admission.pod_set_assignments
    assert assigned.topology_assignment is not None
    return {values[-1]: count for values, count in assigned.topology_assignment.domains()}
