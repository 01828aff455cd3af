"""Windows that keep nodes: pods of others get no places there, with node fit and in topologies."""

from typing import Any

import pytest

from quorate.api import codec
from quorate.api.quorate import ReservedNodes, reserved_nodes
from quorate.queueing.inadmissible_reasons import ReservedWindow
from tests.queueing.notation import Json
from tests.queueing.test_reserved_windows import CLOSES, EPOCH, NOW, OPENS, a_reservation, reasons, started
from tests.queueing.world import World

NODES = {"a": {"allocatable": {"cpu": 8, "pods": 10}}, "b": {"allocatable": {"cpu": 8, "pods": 10}}}


def job(name: str, pods: int, maximum_s: int | None = None, **others: Any) -> Json:
    """Return a job with pods of 6 cpus, of which a node holds one."""
    return {
        "name": name, "queue": "cq", "created": 0, "count": pods, "requests": {"cpu": 6},
        "maximumExecutionTimeSeconds": maximum_s, **others,
    }  # fmt: skip


def a_world(*jobs: Json, opens: float = OPENS, annotations: Json | None = None, **reserved: Any) -> World:
    """Return a world of two nodes at second 10, and maintenance of the nodes that are ``reserved``."""
    world = World({
        "config": {"nodeFit": {"mode": "Require"}}, "flavors": ["default"], "nodes": NODES, "now": NOW,
        "clusterQueues": {"cq": {"quota": [{"default": {"cpu": 100}}], "annotations": annotations or {}}},
        "workloads": jobs,
    })  # fmt: skip
    spec: dict[str, Any] = {"purpose": "Maintenance", "owners": {}, "amounts": [], "nodes": reserved}
    world.state.put_window(a_reservation(opens, CLOSES, **spec))
    world.run({"cycle": 12})
    return world


def planned_starts(world: World) -> dict[str, float]:
    return {key.name: announced.planned_at for key, announced in world.state.ledger.announced.items()}


def hosts(world: World, name: str) -> list[str]:
    admission = world.workloads[name].status.admission
    assert admission is not None
    places = admission.pod_set_assignments[0].topology_assignment
    assert places is not None
    return [values[-1] for values, _ in places.domains()]


@pytest.mark.parametrize(
    ("work", "starts"),
    [
        pytest.param(job("work", 2, 100), True, id="it ends when the window begins"),
        pytest.param(job("work", 2, 101), False, id="it ends a second later"),
        pytest.param(job("work", 2), False, id="it has no bound"),
        pytest.param(job("work", 1), True, id="the other node is enough"),
    ],
)
def test_pods_that_may_run_into_a_window_get_no_place_on_its_nodes(work: Json, starts: bool) -> None:
    world = a_world(work, names=["a"])
    assert started(world) == ({"work"} if starts else set())
    if work["count"] == 1:
        assert hosts(world, "work") == ["b"]
    if not starts:
        assert reasons(world, "work")[-1] == ReservedWindow("night", OPENS, CLOSES, (), 1)


def test_what_waits_for_nodes_starts_when_the_window_ends() -> None:
    world = a_world(job("work", 2), opens=EPOCH, count=1)
    assert started(world) == set()
    world.now = CLOSES
    world.run({"cycle": 12})
    assert started(world) == {"work"}


def test_an_equal_workload_that_ends_before_the_window_is_not_held_up_with_the_other() -> None:
    world = a_world(job("work", 2), job("short", 2, 50, created=1), names=["a"])
    assert started(world) == {"short"}


def test_owners_get_places_on_their_nodes() -> None:
    world = a_world(job("work", 2), names=[])
    world.state.remove_window("night")
    owners = {"namespaces": ["default"]}
    world.state.put_window(a_reservation(EPOCH, CLOSES, owners=owners, amounts=[], nodes={"count": 2}))
    world.run({"cycle": 12})
    assert started(world) == {"work"}


def test_in_a_topology_the_pods_go_to_other_nodes() -> None:
    racks = (("a", "r1"), ("b", "r1"), ("c", "r2"))
    labels = {name: {"pool": "x", "rack": rack, "kubernetes.io/hostname": name} for name, rack in racks}
    nodes = {name: {"labels": labels[name], "allocatable": {"cpu": 8, "pods": 10}} for name in labels}
    world = World({
        "topologies": {"racks": {"levels": ["rack", "kubernetes.io/hostname"]}}, "now": NOW, "nodes": nodes,
        "flavors": {"tas": {"nodeLabels": {"pool": "x"}, "topologyName": "racks"}},
        "clusterQueues": {"cq": {"quota": [{"tas": {"cpu": 100}}]}},
        "workloads": [job("work", 2), job("one", 1, created=1)],
    })  # fmt: skip
    spec: dict[str, Any] = {"purpose": "Maintenance", "owners": {}, "amounts": [], "nodes": {"names": ["a"]}}
    world.state.put_window(a_reservation(OPENS, CLOSES, **spec))
    world.run({"cycle": 12})
    assert sorted(hosts(world, "work")) == ["b", "c"]
    assert started(world) == {"work"}


@pytest.mark.parametrize(
    ("reserved", "want"),
    [
        pytest.param({"names": ["z", "a"]}, {"a", "z"}, id="by name, known or not"),
        pytest.param({"selector": {"matchLabels": {"pool": "x"}}}, {"a", "c"}, id="by label"),
        pytest.param({"count": 2}, {"a", "b"}, id="the first by name"),
        pytest.param({"selector": {"matchLabels": {"pool": "x"}}, "count": 1}, {"a"}, id="of the selected"),
        pytest.param({"count": 9}, {"a", "b", "c"}, id="no more than there are"),
        pytest.param({"count": -1}, set(), id="a number that the schema refuses"),
        pytest.param({}, set(), id="no choice, which the schema refuses"),
    ],
)
def test_the_nodes_that_are_meant(reserved: Json, want: set[str]) -> None:
    nodes = [("c", {"pool": "x"}), ("b", {}), ("a", {"pool": "x"})]
    assert reserved_nodes(codec.convert(ReservedNodes, reserved), nodes) == want


EASY = {"backfill": "EASY"}


def test_a_start_is_planned_after_a_window_that_keeps_nodes() -> None:
    for maximum_s, planned in ((101, {"work": CLOSES}), (100, {})):
        world = a_world(job("work", 2, maximum_s), annotations=EASY, names=["a"])
        assert planned_starts(world) == planned
        assert started(world) == ({"work"} - planned.keys())


def test_a_planned_start_leaves_the_nodes_of_a_window_in_time() -> None:
    """The first one ends at 60, and the window begins at 110."""
    for maximum_s, planned_at in ((50, NOW + 50), (60, CLOSES)):
        jobs = job("first", 1, 50), job("work", 2, maximum_s, created=1)
        assert planned_starts(a_world(*jobs, annotations=EASY, names=["a"])) == {"work": planned_at}
