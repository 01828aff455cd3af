"""Standings as a whole: their order, what they cost, and what is heeded."""

from typing import Any

import pytest

from quorate.api.scheduler_configuration.plugins import PredicateArguments
from quorate.placement.framework import Capacity
from tests.placement.filters.world import World, node, pod

TAINTED = [{"key": "gpu", "effect": "NoSchedule"}]
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
        ]
    }
}
SPREAD = [
    {
        "topologyKey": "zone",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "web"}},
    }
]
PORT = [{"hostPort": 80, "containerPort": 80}]


def demanding() -> dict[str, Any]:
    return {
        "affinity": APART,
        "topologySpreadConstraints": SPREAD,
        "ports": PORT,
        "nodeSelector": {"pool": "x"},
    }


def test_of_several_objections_the_first_counts() -> None:
    world = World(
        node("a zone=1", unschedulable=True, taints=TAINTED),
        node("b zone=1", taints=TAINTED),
        "c zone=1",
        "d zone=1 pool=x",
        "e pool=x",
        "f zone=1 pool=x",
        "g zone=2 pool=x",
    )
    world.put(pod("x app=web", ports=PORT), "d")
    world.put(pod("y app=web"), "f")
    assert world.reasons(pod("p app=web", **demanding())) == {
        "a": "node(s) were unschedulable",
        "b": "node(s) had untolerated taint {gpu: }",
        "c": "node(s) didn't match Pod's node affinity/selector",
        "d": "node(s) didn't have free ports for the requested pod ports",
        "e": "node(s) didn't match pod topology spread constraints (missing required label)",
        "f": "node(s) didn't match pod topology spread constraints",
    }


def test_nodes_are_counted_by_what_stops_them() -> None:
    world = World("a", "b pool=x", node("c", unschedulable=True), "d")
    filter_result = world.filter_result(pod("p", nodeSelector={"pool": "x"}))
    assert [
        (str(failure), count) for failure, count in filter_result.failure_counts(Capacity.IDLE, world.known())
    ] == [
        ("node(s) didn't match Pod's node affinity/selector", 2),
        ("node(s) were unschedulable", 1),
    ]


def test_a_node_that_no_eviction_helps_is_so_whatever_is_said_first() -> None:
    """A port can be freed, but not a zone changed."""
    world = World("a zone=1", "b")
    for name in "ab":
        world.put(pod(f"on-{name}", ports=PORT), name)
    unresolvable = world.filter_result(
        pod("p app=web", topologySpreadConstraints=SPREAD, ports=PORT)
    ).unresolvable
    assert {name: bool(unresolvable[world.index(name)]) for name in "ab"} == {"a": False, "b": True}


@pytest.mark.parametrize(
    ("switch", "pool", "there"),
    [
        ("node_affinity", "", {}),
        ("node_ports", "pool=x", {"ports": PORT}),
        ("taint_toleration", "pool=x taint", {}),
        ("pod_affinity", "pool=x", {"affinity": APART}),
    ],
)
def test_a_constraint_that_is_switched_off_is_not_heeded(
    switch: str, pool: str, there: dict[str, Any]
) -> None:
    taints = TAINTED if "taint" in pool else []
    labels = pool.replace(" taint", "")

    def passing(enabled_predicates: PredicateArguments) -> str:
        world = World(node(f"n zone=1 {labels}", taints=taints), switches=enabled_predicates)
        world.put(pod("there", **there), "n")
        requirements = demanding()
        if switch == "pod_affinity":
            del requirements["ports"]
        return world.passing(pod("p app=web", **requirements))

    assert passing(PredicateArguments()) == ""
    assert passing(PredicateArguments(**{switch: False})) == "n"


def test_spreading_can_be_switched_off() -> None:
    world = World("a zone=1", "b", switches=PredicateArguments(pod_topology_spread=False))
    assert world.passing(pod("p app=web", topologySpreadConstraints=SPREAD)) == "a b"


def test_a_cordon_cannot_be_switched_off() -> None:
    world = World(node("a", unschedulable=True), switches=PredicateArguments(taint_toleration=False))
    assert world.reasons(pod("p")) == {"a": "node(s) were unschedulable"}


def test_what_is_heeded_may_change() -> None:
    world = World(node("a", taints=TAINTED))
    assert world.passing(pod("p")) == ""
    world.engine.set_enabled_predicates(PredicateArguments(taint_toleration=False))
    assert world.passing(pod("p")) == "a"


# -- what is asked again, and what is not


def test_a_plain_pod_stands_as_it_did_whoever_comes_and_goes() -> None:
    world = World("a", "b")
    before = world.filter_result(pod("p"))
    world.put(pod("q"), "a")
    assert world.filter_result(pod("p")) is before
    world.cluster.set_node(node("a", unschedulable=True))
    assert world.filter_result(pod("p")).version != before.version


def test_a_standing_changes_with_the_pods_it_is_about_only() -> None:
    world = World("a", "b")
    lonely = pod("p", affinity=APART)
    world.put(pod("x app=db"), "a")
    before = world.filter_result(lonely)
    world.put(pod("y app=db"), "a")
    assert world.filter_result(lonely) is before
    world.put(pod("z app=web"), "a")
    assert world.filter_result(lonely).version != before.version


def test_no_two_standings_have_one_version() -> None:
    world = World("a", "b")
    versions = []
    for number in range(3):
        world.put(pod(f"x{number} app=web"), "a")
        versions.append(world.filter_result(pod("p", affinity=APART)).version)
        versions.append(world.filter_result(pod("q", nodeSelector={"pool": f"{number}"})).version)
    assert len(set(versions)) == len(versions)


def test_many_shapes_come_and_go() -> None:
    """What is kept for those not asked about any more is let go, and made anew when it is."""
    world = World("a", "b")
    lonely = pod("p", affinity=APART)
    world.put(pod("x app=web"), "a")
    assert world.passing(lonely) == "b"
    kept = []
    for number in range(600):
        other = pod(f"o{number}", nodeSelector={"number": str(number)})
        kept.append(world.shapes.of(other))
        assert world.passing(other) == ""
    world.put(pod("y app=web"), "b")
    assert world.passing(lonely) == ""
    world.take("y")
    assert world.passing(lonely) == "b"
