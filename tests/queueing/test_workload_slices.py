"""Growing jobs: what the first slice holds is carried over to the one that replaces it."""

from typing import Any

import pytest

from quorate.api.meta import Key
from quorate.queueing.model_audit import audit_model
from quorate.queueing.state import State
from quorate.quota.amount import FlavorResource
from tests.queueing.world import World

CPU = FlavorResource("default", "cpu")


def a_world(*workloads: dict[str, Any], quota: int = 3, **queue: Any) -> World:
    """``old`` holds 2 cpus of a queue."""
    old = {"name": "old", "queue": "cq", "requests": {"cpu": 2}, "admitted": "default"}
    return World(
        {
            "flavors": ["default"],
            "clusterQueues": {"cq": {"quota": [{"default": {"cpu": quota}}], **queue}},
            "workloads": [old, *workloads],
        }
    )


def new(cpu: int = 3, **fields: Any) -> dict[str, Any]:
    return {"name": "new", "queue": "cq", "requests": {"cpu": cpu}, "replaces": "old", "created": 1, **fields}


def in_use(state: State) -> int:
    return state.ledger.cluster_queues["cq"].node.usage.get(CPU, 0) // 1000


def cycle(world: World) -> None:
    world.carry_out(world.admission_cycle.run(world.now).decisions)
    assert audit_model(world.state, world.workloads.values()) == ()


def holding(world: World) -> list[str]:
    return sorted(key.name for key in world.state.ledger.reservations)


def test_growing_takes_quota_for_the_new_pods_only() -> None:
    world = a_world(new())
    cycle(world)
    assert (holding(world), in_use(world.state)) == (["new", "old"], 3)
    world.run({"finish": ["old"]})
    assert (holding(world), in_use(world.state)) == (["new"], 3)


def test_what_is_decided_counts_before_it_is_written() -> None:
    world = a_world(new())
    assert world.admission_cycle.run(world.now).decisions
    assert in_use(world.state) == 3
    assert audit_model(world.state, world.workloads.values()) == ()
    world.state.forget(Key("default", "new"))
    assert in_use(world.state) == 2, "the old slice counts again when the write failed"


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(new(cpu=4), id="more than there is"),
        pytest.param({**new(), "replaces": "unknown"}, id="nothing to carry over"),
    ],
)
def test_growing_waits_for_quota(other: dict[str, Any]) -> None:
    world = a_world(other)
    cycle(world)
    assert (holding(world), in_use(world.state)) == (["old"], 2)


def test_a_slice_never_preempts_the_one_it_replaces() -> None:
    world = a_world(new(cpu=4, priority=9), quota=3, preemption={"withinClusterQueue": "LowerPriority"})
    assert [type(each).__name__ for each in world.admission_cycle.run(world.now).decisions] == ["Hold"]


def test_the_first_slice_counts_again_when_the_second_loses_its_quota() -> None:
    world = a_world(new())
    cycle(world)
    world.state.remove_workload(Key("default", "new"))
    del world.workloads["new"]
    assert (holding(world), in_use(world.state)) == (["old"], 2)
    assert audit_model(world.state, world.workloads.values()) == ()


@pytest.mark.parametrize("order", [["old", "new"], ["new", "old"]])
def test_a_restarted_controller_counts_the_same_in_whatever_order_it_learns(order: list[str]) -> None:
    world = a_world(new())
    cycle(world)
    restarted = a_world()
    restarted.state.remove_workload(Key("default", "old"))
    for name in order:
        restarted.state.put_workload(world.workloads[name], world.now)
    assert in_use(restarted.state) == 3
    assert audit_model(restarted.state, world.workloads.values()) == ()
