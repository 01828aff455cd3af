"""Differences that the audit of the model finds, each caused by hand."""

from collections.abc import Callable

import pytest

from quorate.api.meta import Key
from quorate.queueing.model_audit import (
    ReservationMismatch,
    ReservationRecord,
    UntrackedWorkload,
    audit_model,
)
from quorate.quota import tree
from quorate.quota.amount import FlavorResource
from quorate.quota.audit import Difference
from tests.queueing.world import World

CPU = FlavorResource("default", "cpu")
RUNS, WAITS = Key("default", "runs"), Key("default", "waits")
TWO_CPUS = ReservationRecord("cq", {CPU: 2000})


def a_world() -> World:
    """Return a world in which ``runs`` uses 2 of 3 cpus and ``waits`` requests as many."""
    world = World(
        {
            "flavors": ["default"],
            "clusterQueues": {"cq": {"quota": [{"default": {"cpu": 3}}]}},
            "workloads": [
                {"name": "runs", "queue": "cq", "requests": {"cpu": 2}},
                {"name": "waits", "queue": "cq", "requests": {"cpu": 2}, "created": 1},
            ],
        }
    )
    world.carry_out(world.admission_cycle.run(world.now).decisions)
    return world


def test_a_correct_model_has_no_difference() -> None:
    world = a_world()
    assert audit_model(world.state, world.workloads.values()) == ()


def test_an_assumed_reservation_is_no_difference() -> None:
    world = a_world()
    world.run({"finish": ["runs"]})
    assert world.admission_cycle.run(world.now).decisions
    assert audit_model(world.state, world.workloads.values()) == ()


def forget_the_entry(world: World) -> None:
    world.state.ledger.remove_entry(world.state.ledger.entries[WAITS])


def forget_the_reservation(world: World) -> None:
    world.state.ledger.release(world.state.ledger.reservations[RUNS])


def keep_a_finished_one(world: World) -> None:
    del world.workloads["runs"]


def count_usage_twice(world: World) -> None:
    tree.add_usage(world.node("cq"), {CPU: 500})


@pytest.mark.parametrize(
    ("fault", "found"),
    [
        pytest.param(forget_the_entry, [UntrackedWorkload(WAITS)], id="a pending workload is missing"),
        pytest.param(
            forget_the_reservation,
            [ReservationMismatch(RUNS, None, TWO_CPUS)],
            id="a reservation is missing",
        ),
        pytest.param(
            keep_a_finished_one,
            [ReservationMismatch(RUNS, TWO_CPUS, None)],
            id="a deleted workload has a reservation",
        ),
        pytest.param(
            count_usage_twice,
            [
                Difference("cq", CPU, "usage", 2500, 2000),
                Difference("cq", CPU, "available", 500, 1000),
            ],
            id="the sums are wrong",
        ),
    ],
)
def test_a_difference_is_found(fault: Callable[[World], None], found: list[object]) -> None:
    world = a_world()
    fault(world)
    assert list(audit_model(world.state, world.workloads.values())) == found
