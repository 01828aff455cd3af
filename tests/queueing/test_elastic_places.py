"""Places of the slices of an elastic job: pods that stay keep theirs, and each pod counts once."""

from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quorate.api.meta import Key
from quorate.queueing.decisions import Reserve
from quorate.queueing.explain import pending_facts, run
from quorate.queueing.explanation.workload import explain_workload
from quorate.queueing.topology.shrunk_places import shrunk_domains
from tests.queueing.world import World, differences

HOST = "kubernetes.io/hostname"
WITH_GATE = {"ElasticJobsViaWorkloadSlicesWithTAS": True}


def a_slice(name: str, count: int, replaces: str = "", **pod_set: Any) -> dict[str, Any]:
    given = {"count": count, "requests": {"cpu": 1}, **pod_set}
    later = {"replaces": replaces, "create": "later"} if replaces else {}
    return {"name": name, "queue": "cq", "podSets": [given], "elastic": True, **later}


def a_world(*workloads: dict[str, Any], **nodes: int) -> World:
    """Return a world of nodes with so many cpus each, in which the first workload has got its places."""
    world = World(
        {
            "config": {"featureGates": WITH_GATE},
            "topologies": {"dc": {"levels": [HOST]}},
            "flavors": {"tas": {"topologyName": "dc", "nodeLabels": {"pool": "tas"}}},
            "nodes": {
                name: {"labels": {"pool": "tas"}, "allocatable": {"cpu": cpus, "pods": 10}}
                for name, cpus in nodes.items()
            },
            "clusterQueues": {"cq": {"quota": [{"tas": {"cpu": 100}}]}},
            "workloads": [{"created": index, **each} for index, each in enumerate(workloads)],
        }
    )
    world.run("cycle")
    return world


def replace(world: World, name: str) -> None:
    world.run({"create": [name]})
    world.carry_out(world.admission_cycle.run(world.now).decisions)
    assert differences(world.state, world.workloads.values()) == []


def places(world: World, name: str) -> dict[str, int]:
    reservation = world.state.ledger.reservations[Key("default", name)]
    domains: dict[str, int] = {}
    for assigned in reservation.admission.pod_set_assignments:
        if assigned.topology_assignment is not None:
            domains |= {values[-1]: count for values, count in assigned.topology_assignment.domains()}
    return domains


def remaining(world: World) -> dict[str, int]:
    tree = world.state.ledger.topology.tree("tas")
    assert tree is not None
    amounts = tree.remaining("cpu")
    return {tree.recorded_values(leaf)[-1]: int(amounts[leaf]) // 1000 for leaf in range(tree.leaf_count)}


@pytest.mark.parametrize(
    ("count", "after", "left"),
    [
        pytest.param(5, {"a": 5}, {"a": 0, "b": 6}, id="the last free room of the host"),
        pytest.param(
            6, {"a": 3, "b": 3}, {"a": 2, "b": 3}, id="the new pods beside a host that is too small"
        ),
        pytest.param(3, {"a": 3}, {"a": 2, "b": 6}, id="as many pods"),
    ],
)
def test_a_replacing_slice_keeps_places_which_count_once(
    count: int, after: dict[str, int], left: dict[str, int]
) -> None:
    world = a_world(a_slice("old", 3), a_slice("new", count, replaces="old"), a=5, b=6)
    assert places(world, "old") == {"a": 3}
    replace(world, "new")
    assert (places(world, "new"), remaining(world)) == (after, left)
    world.settle()
    assert remaining(world) == left


def test_the_pods_of_another_pod_set_that_stay_count_once() -> None:
    def both(name: str, workers: int, **more: Any) -> dict[str, Any]:
        head = {"name": "head", "count": 1, "requests": {"cpu": 1}}
        workers_ = {"name": "workers", "count": workers, "requests": {"cpu": 1}}
        return {"name": name, "queue": "cq", "podSets": [head, workers_], "elastic": True, **more}

    world = a_world(both("old", 2), both("new", 3, replaces="old", create="later"), a=2, b=2)
    assert sum(remaining(world).values()) == 1
    replace(world, "new")
    assert remaining(world) == {"a": 0, "b": 0}


def test_a_place_that_is_given_up_counts_until_the_old_slice_ends() -> None:
    world = a_world(a_slice("old", 3), a_slice("new", 1, replaces="old"), a=5, b=6)
    replace(world, "new")
    assert (places(world, "new"), remaining(world)) == ({"a": 1}, {"a": 2, "b": 6})
    world.settle()
    assert remaining(world) == {"a": 4, "b": 6}


def test_pods_that_move_as_a_host_is_gone_need_room_beside_the_old_slice() -> None:
    world = a_world(a_slice("old", 7), a_slice("new", 4, replaces="old"), a=3, b=5, c=2)
    assert places(world, "old") == {"a": 3, "b": 2, "c": 2}
    world.run({"update": {"nodes": {"c": None}}})
    replace(world, "new")
    assert Key("default", "new") not in world.state.ledger.reservations
    assert remaining(world) == {"a": 0, "b": 3}


def test_a_slice_has_its_places_again_once_its_replacement_is_deleted() -> None:
    world = a_world(a_slice("old", 3), a_slice("new", 4, replaces="old"), a=5, b=6)
    replace(world, "new")
    assert remaining(world) == {"a": 1, "b": 6}
    ledger = world.state.ledger
    ledger.remove_reservation(ledger.reservations[Key("default", "new")])
    assert remaining(world) == {"a": 2, "b": 6}


def test_a_deleted_slice_leaves_no_difference() -> None:
    world = a_world(a_slice("old", 3), a_slice("new", 4, replaces="old"), a=5, b=6)
    replace(world, "new")
    world.run({"delete": ["new"]})
    assert differences(world.state, world.workloads.values()) == []


def test_the_order_in_which_slices_are_read_makes_no_difference() -> None:
    world = a_world(a_slice("old", 3), a_slice("new", 5, replaces="old"), a=5, b=6)
    replace(world, "new")
    ledger = world.state.ledger
    old, new = (ledger.reservations[Key("default", name)] for name in ("old", "new"))
    ledger.remove_reservation(old)
    ledger.remove_reservation(new)
    assert remaining(world) == {"a": 5, "b": 6}
    ledger.add_reservation(new)
    ledger.add_reservation(old)
    assert remaining(world) == {"a": 0, "b": 6}


@pytest.mark.parametrize("kind", ["required", "preferred"])
def test_an_elastic_job_cannot_ask_for_one_domain(kind: str) -> None:
    world = a_world(a_slice("w", 2, topology={kind: HOST}), a=5)
    held = world.condition("w", "QuotaReserved")
    assert held is not None
    assert f"{kind} topology is not supported with ElasticJobsViaWorkloadSlices" in held.message


def test_no_other_flavor_lets_an_elastic_job_ask_for_one_domain() -> None:
    tas = {"topologyName": "dc"}
    world = World(
        {
            "config": {"featureGates": WITH_GATE},
            "topologies": {"dc": {"levels": [HOST]}},
            "flavors": {"one": tas, "two": tas},
            "nodes": {"a": {"allocatable": {"cpu": 5, "pods": 10}}},
            "clusterQueues": {"cq": {"quota": [{"one": {"cpu": 5}, "two": {"cpu": 5}}]}},
            "workloads": [a_slice("w", 2, topology={"required": HOST})],
        }
    )
    world.run("cycle")
    workload = world.workloads["w"]
    facts = run(pending_facts(world.state, workload.metadata.key))
    assert explain_workload(world.state, workload, facts).state == "NeverFits"


@pytest.mark.parametrize(
    ("domains", "count", "pods", "expected"),
    [
        ({"x": 2, "y": 2}, 2, "xy", {"x": 1, "y": 1}),
        ({"x": 2, "y": 2}, 3, "y", {"x": 2, "y": 1}),
        ({"x": 2, "y": 2}, 2, "xxy", None),  # one of them is still leaving
        ({"x": 1, "y": 1}, 1, "yyy", {"y": 1}),  # more pods than places
        ({"x": 2}, 2, "x", None),
    ],
)
def test_a_job_that_has_shrunk_keeps_the_places_of_its_pods(
    domains: dict[str, int], count: int, pods: str, expected: dict[str, int] | None
) -> None:
    found = shrunk_domains([((name,), pods) for name, pods in domains.items()], count, [(p,) for p in pods])
    assert (None if found is None else {name: pods for (name,), pods in found}) == expected


def a_world_of_nodes(
    old: int, new: int, cpus: dict[str, int], gates: dict[str, bool], mode: str = "Require"
) -> World:
    """Return a world without a topology in which a slice of ``old`` pods is to be replaced by another."""
    return World(
        {
            "config": {"nodeFit": {"mode": mode}, "featureGates": gates},
            "flavors": {"plain": {"nodeLabels": {"pool": "plain"}}},
            "nodes": {
                name: {"labels": {"pool": "plain"}, "allocatable": {"cpu": cpu, "pods": 20}}
                for name, cpu in cpus.items()
            },
            "clusterQueues": {"cq": {"quota": [{"plain": {"cpu": 100}}]}},
            "workloads": [
                {"created": 0, **a_slice("old", old)},
                {"created": 1, **a_slice("new", new, replaces="old")},
            ],
        }
    )


@given(
    old=st.integers(1, 6),
    new=st.integers(1, 9),
    cpus=st.lists(st.integers(1, 5), min_size=1, max_size=3),
    gates=st.sampled_from(({}, WITH_GATE)),
)
def test_a_slice_needs_the_nodes_of_its_pods_and_no_more(
    old: int, new: int, cpus: list[int], gates: dict[str, bool]
) -> None:
    """Under node fit a replacement starts if its pods fit the nodes, each with one cpu, and only then."""
    assume(old <= sum(cpus))
    world = a_world_of_nodes(old, new, {f"n{at}": cpu for at, cpu in enumerate(cpus)}, gates)
    world.run("cycle")
    assert sum(places(world, "old").values()) == old
    world.run({"create": ["new"]})
    decisions = world.admission_cycle.run(world.now).decisions
    (mine,) = (each for each in decisions if each.key.name == "new")
    assert isinstance(mine, Reserve) == (new <= sum(cpus))


RACK = "rack"


def grown(old: int, new: int, racks: dict[str, int], *layers: tuple[str, int]) -> dict[str, int] | None:
    """Return the places, in rank order, of a job in slices that grows; None: it waits.

    ``racks`` are cpus by host; the first letter of a host is its rack.
    """
    constraints = [{"level": level, "size": size} for level, size in layers]
    pod_set: dict[str, Any] = {
        "requests": {"cpu": 1},
        "topology": {"unconstrained": True, "sliceConstraints": constraints},
    }
    world = World(
        {
            "config": {"featureGates": WITH_GATE},
            "topologies": {"dc": {"levels": [RACK, HOST]}},
            "flavors": {"tas": {"topologyName": "dc"}},
            "nodes": {
                host: {"labels": {RACK: host[0], HOST: host}, "allocatable": {"cpu": cpus, "pods": 99}}
                for host, cpus in racks.items()
            },
            "clusterQueues": {"cq": {"quota": [{"tas": {"cpu": 100}}]}},
            "workloads": [
                {"created": 0, **a_slice("old", old, **pod_set)},
                {"created": 1, **a_slice("new", new, replaces="old", **pod_set)},
            ],
        }
    )
    world.run("cycle")
    replace(world, "new")
    return places(world, "new") if Key("default", "new") in world.state.ledger.reservations else None


FOURS = ((RACK, 4),)


@pytest.mark.parametrize(
    ("old", "new", "racks", "layers", "want"),
    [
        pytest.param(7, 9, {"a1": 4, "b1": 5}, FOURS, {"a1": 4, "b1": 5}, id="a pod beside the slice"),
        pytest.param(
            7, 9, {"a1": 4, "b1": 4, "c1": 2}, FOURS, {"b1": 4, "a1": 4, "c1": 1}, id="a pod in another rack"
        ),
        pytest.param(7, 9, {"a1": 4, "b1": 3, "c1": 2}, FOURS, None, id="no room for the slice in its rack"),
        pytest.param(
            7, 9, {"a1": 4, "b1": 3, "b2": 1, "c1": 2}, FOURS, {"b1": 3, "b2": 1, "a1": 4, "c1": 1},
            id="on another host of the rack",
        ),
        pytest.param(6, 7, {"a1": 4, "b1": 3}, FOURS, {"a1": 4, "b1": 3}, id="a slice that stays smaller"),
        pytest.param(
            7, 9, {"a1": 4, "a2": 4, "b1": 4}, ((RACK, 8), (HOST, 4)), {"a2": 4, "a1": 4, "b1": 1},
            id="the innermost slice first",
        ),
    ],
)  # fmt: skip
def test_pods_that_are_added_complete_the_last_slice_in_its_domain(
    old: int,
    new: int,
    racks: dict[str, int],
    layers: tuple[tuple[str, int], ...],
    want: dict[str, int] | None,
) -> None:
    found = grown(old, new, racks, *layers)
    assert found == want
    assert found is None or want is None or list(found) == list(want)
