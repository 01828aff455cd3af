"""What a window evicts that begins, and what it conflicts with."""

from typing import Any

import pytest

from quorate.queueing.scheduling.window_evictions import find_conflicts, workloads_to_evict
from tests.queueing.test_reserved_nodes import a_world as a_world_of_nodes
from tests.queueing.test_reserved_nodes import job as placed_job
from tests.queueing.test_reserved_windows import CLOSES, OPENS, a_reservation, a_world, job, started
from tests.queueing.world import World


def evicted(world: World, name: str = "night") -> list[str]:
    window = world.state.ledger.windows.get(name)
    assert window is not None
    return [workload.metadata.name for workload in workloads_to_evict(world.state.ledger, window)]


def conflicts(world: World, name: str = "night") -> tuple[str, ...]:
    window = world.state.ledger.windows.get(name)
    assert window is not None
    return find_conflicts(world.state.ledger, window, world.now)


@pytest.mark.parametrize(
    ("nodes", "want"),
    [
        ({"names": ["a"]}, ()),
        ({"names": ["a", "x", "y"]}, ("node x does not exist, nor 1 more",)),
        ({"count": 2}, ()),
        ({"count": 3}, ("2 of 3 nodes exist",)),
        ({"selector": {"matchLabels": {"rack": "none"}}}, ("no node has the labels",)),
    ],
)
def test_nodes_that_do_not_exist_are_a_conflict(nodes: dict[str, Any], want: tuple[str, ...]) -> None:
    world = a_world_of_nodes(names=[])
    spec: dict[str, Any] = {"purpose": "Maintenance", "owners": {}, "amounts": []}
    world.state.put_window(a_reservation(OPENS, CLOSES, **spec, nodes=nodes))
    assert conflicts(world) == want


def test_of_the_others_as_many_are_evicted_as_the_amounts_need_the_last_first() -> None:
    jobs = [job(f"job-{number}", 4, created=number) for number in range(3)]
    world = a_world(*jobs, job("own", 4, queue_name="owner"))
    assert len(started(world)) == 4
    world.now = OPENS
    for cpu, want in ((4, []), (5, ["job-2"]), (9, ["job-2", "job-1"]), (16, ["job-2", "job-1", "job-0"])):
        world.state.put_window(a_reservation(OPENS, CLOSES, cpu=cpu))
        assert evicted(world) == want


def test_what_has_places_on_the_nodes_is_evicted() -> None:
    world = a_world_of_nodes(placed_job("one", 1), placed_job("two", 1, created=1), names=[])
    assert evicted(world) == []
    spec: dict[str, Any] = {"purpose": "Maintenance", "owners": {}, "amounts": []}
    world.state.put_window(a_reservation(OPENS, CLOSES, **spec, nodes={"names": ["a"]}))
    (on_a,) = evicted(world)
    world.state.put_window(a_reservation(OPENS, CLOSES, **spec, nodes={"names": ["b"]}))
    (on_b,) = evicted(world)
    assert {on_a, on_b} == {"one", "two"}
    world.state.put_window(
        a_reservation(OPENS, CLOSES, owners={"namespaces": ["default"]}, nodes={"count": 2})
    )
    assert evicted(world) == []


@pytest.mark.parametrize(
    ("others", "want"),
    [
        pytest.param([], (), id="none"),
        pytest.param(
            [a_reservation(OPENS, CLOSES, cpu=14, name="b")],
            ("cpu in flavor default: night, b reserve 18, and the queues of their owners have 16",),
            id="more than there is, together",
        ),
        pytest.param([a_reservation(CLOSES, CLOSES + 9, cpu=14, name="b")], (), id="one after the other"),
        pytest.param(
            [a_reservation(OPENS, CLOSES, owners={"clusterQueues": ["owner", "gone"]})],
            ("cluster queue gone does not exist",),
            id="an owner that does not exist",
        ),
        pytest.param(
            [
                a_reservation(OPENS, CLOSES, nodes={"names": ["x", "y"]}),
                a_reservation(OPENS, CLOSES, cpu=1, name="b", nodes={"names": ["y"]}),
            ],
            ("b reserves 1 of its nodes, such as y",),
            id="the same nodes",
        ),
    ],
)
def test_conflicts(others: list[Any], want: tuple[str, ...]) -> None:
    world = a_world(reservations=(a_reservation(OPENS, CLOSES), *others))
    assert conflicts(world) == want
