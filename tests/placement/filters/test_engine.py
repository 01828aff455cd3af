"""Filter results as a whole: the order of filters, caching, and enabled predicates."""

from typing import Any
from weakref import ref

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


def spec_with_all() -> dict[str, Any]:
    return {
        "affinity": APART,
        "topologySpreadConstraints": SPREAD,
        "ports": PORT,
        "nodeSelector": {"pool": "x"},
    }


def test_the_first_failure_of_a_node_counts() -> None:
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
    assert world.reasons(pod("p app=web", **spec_with_all())) == {
        "a": "node(s) were unschedulable",
        "b": "node(s) had untolerated taint {gpu: }",
        "c": "node(s) didn't match Pod's node affinity/selector",
        "d": "node(s) didn't have free ports for the requested pod ports",
        "e": "node(s) didn't match pod topology spread constraints (missing required label)",
        "f": "node(s) didn't match pod topology spread constraints",
    }


def test_nodes_are_counted_by_failure() -> None:
    world = World("a", "b pool=x", node("c", unschedulable=True), "d")
    filter_result = world.filter_result(pod("p", nodeSelector={"pool": "x"}))
    assert [
        (str(failure), count)
        for failure, count in filter_result.failure_counts(Capacity.IDLE, world.existing())
    ] == [
        ("node(s) didn't match Pod's node affinity/selector", 2),
        ("node(s) were unschedulable", 1),
    ]


def test_an_unresolvable_failure_counts_even_if_it_is_not_the_first() -> None:
    """Preemption can release a port, but cannot add a topology key."""
    world = World("a zone=1", "b")
    for name in "ab":
        world.put(pod(f"on-{name}", ports=PORT), name)
    unresolvable = world.filter_result(
        pod("p app=web", topologySpreadConstraints=SPREAD, ports=PORT)
    ).unresolvable
    assert {name: bool(unresolvable[world.index(name)]) for name in "ab"} == {"a": False, "b": True}


@pytest.mark.parametrize(
    ("predicate", "labels", "placed"),
    [
        ("node_affinity", "", {}),
        ("node_ports", "pool=x", {"ports": PORT}),
        ("taint_toleration", "pool=x taint", {}),
        ("pod_affinity", "pool=x", {"affinity": APART}),
    ],
)
def test_a_disabled_predicate_rejects_no_node(predicate: str, labels: str, placed: dict[str, Any]) -> None:
    taints = TAINTED if "taint" in labels else []
    labels = labels.replace(" taint", "")

    def passing(enabled: PredicateArguments) -> str:
        world = World(node(f"n zone=1 {labels}", taints=taints), enabled=enabled)
        world.put(pod("placed", **placed), "n")
        spec = spec_with_all()
        if predicate == "pod_affinity":
            del spec["ports"]
        return world.passing(pod("p app=web", **spec))

    assert passing(PredicateArguments()) == ""
    assert passing(PredicateArguments(**{predicate: False})) == "n"


def test_topology_spread_can_be_disabled() -> None:
    world = World("a zone=1", "b", enabled=PredicateArguments(pod_topology_spread=False))
    assert world.passing(pod("p app=web", topologySpreadConstraints=SPREAD)) == "a b"


def test_a_cordoned_node_is_rejected_without_taint_toleration() -> None:
    world = World(node("a", unschedulable=True), enabled=PredicateArguments(taint_toleration=False))
    assert world.reasons(pod("p")) == {"a": "node(s) were unschedulable"}


def test_enabled_predicates_may_change() -> None:
    world = World(node("a", taints=TAINTED))
    assert world.passing(pod("p")) == ""
    world.engine.set_enabled_predicates(PredicateArguments(taint_toleration=False))
    assert world.passing(pod("p")) == "a"


# Caching


def test_the_result_of_a_plain_pod_does_not_change_with_other_pods() -> None:
    world = World("a", "b")
    before = world.filter_result(pod("p"))
    world.put(pod("q"), "a")
    assert world.filter_result(pod("p")) is before
    world.cluster.set_node(node("a", unschedulable=True))
    assert world.filter_result(pod("p")).version != before.version


def test_a_result_changes_only_with_pods_that_its_selectors_match() -> None:
    world = World("a", "b")
    exclusive = pod("p", affinity=APART)
    world.put(pod("x app=db"), "a")
    before = world.filter_result(exclusive)
    world.put(pod("y app=db"), "a")
    assert world.filter_result(exclusive) is before
    world.put(pod("z app=web"), "a")
    assert world.filter_result(exclusive).version != before.version


def test_no_two_results_have_the_same_version() -> None:
    world = World("a", "b")
    versions = []
    for number in range(3):
        world.put(pod(f"x{number} app=web"), "a")
        versions.append(world.filter_result(pod("p", affinity=APART)).version)
        versions.append(world.filter_result(pod("q", nodeSelector={"pool": f"{number}"})).version)
    assert len(set(versions)) == len(versions)


def test_results_of_many_shapes_are_dropped_and_computed_again() -> None:
    world = World("a", "b")
    exclusive = pod("p", affinity=APART)
    world.put(pod("x app=web"), "a")
    assert world.passing(exclusive) == "b"
    shapes = []  # kept alive
    for number in range(600):
        other = pod(f"o{number}", nodeSelector={"number": str(number)})
        shapes.append(world.shapes.of(other))
        assert world.passing(other) == ""
    world.put(pod("y app=web"), "b")
    assert world.passing(exclusive) == ""
    world.take("y")
    assert world.passing(exclusive) == "b"


def test_results_of_large_shapes_are_dropped_by_their_size() -> None:
    world = World("a disk=ssd")
    large = {f"key-{number}": "x" * 60 for number in range(5000)}
    shapes = [world.shapes.of(pod("p", nodeSelector={**large, "pod": str(number)})) for number in range(40)]
    kept = [ref(world.engine.filter(shape)) for shape in shapes]
    assert kept[-1]() is not None
    assert sum(each() is not None for each in kept) < 20
