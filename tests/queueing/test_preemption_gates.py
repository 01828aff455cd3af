"""A workload with a closed preemption gate asks for it to be opened, and preempts nothing before."""

import pytest

from quorate.api.configuration.multikueue import MultiKueueGates
from quorate.api.kueue import PreemptionGate, PreemptionGateState
from quorate.api.meta import is_true
from quorate.queueing import conditions as c
from tests.queueing.given import replace
from tests.queueing.world import World

LOWER = {"withinClusterQueue": "LowerPriority"}


def a_world(strategy: str = "BestEffortFIFO", *, obeyed: bool = True) -> World:
    """Return a queue of 2 cpus, of which ``low`` has 1.5, and ``high``, which needs 1 and is gated."""
    world = World(
        {
            "flavors": ["default"],
            "clusterQueues": {
                "a": {"quota": [{"default": {"cpu": 2}}], "preemption": LOWER, "strategy": strategy}
            },
            "workloads": [
                {
                    "name": "low",
                    "queue": "a",
                    "requests": {"cpu": "1500m"},
                    "priority": -1,
                    "admitted": "default",
                },
                {"name": "high", "queue": "a", "requests": {"cpu": 1}, "priority": 1},
                {"name": "small", "queue": "a", "requests": {"cpu": "500m"}, "priority": -2},
            ],
        }
    )
    gates = MultiKueueGates(orchestrated_preemption=obeyed)
    world.state.configuration = replace(world.state.configuration, multikueue_gates=gates)
    world.respecify("high", preemption_gates=(PreemptionGate(name="theirs"),))
    world.settle()
    return world


def set_gate(world: World, position: str) -> None:
    gates = (PreemptionGateState(name="theirs", position=position),)  # type: ignore[arg-type]
    world.put_status("high", replace(world.workloads["high"].status, preemption_gates=gates))


def test_a_closed_gate_is_asked_for_and_blocks_no_other_workload() -> None:
    world = a_world()
    world.run({"cycle": 3})
    assert world.preempted() == {}
    assert set(world.admitted()) == {"small"}
    blocked = world.condition("high", c.BLOCKED_ON_PREEMPTION_GATES)
    assert blocked is not None
    assert (blocked.status, blocked.reason) == ("True", "PreemptionGated")
    reserved = world.condition("high", c.QUOTA_RESERVED)
    assert reserved is not None
    assert reserved.message.endswith("Workload requires preemption, but it's gated")


def test_with_strict_order_a_gated_head_blocks_the_queue() -> None:
    world = a_world("StrictFIFO")
    world.run({"cycle": 3})
    assert world.admitted() == {}


@pytest.mark.parametrize("position", ["Open", "Closed"])
def test_an_opened_gate_lets_it_preempt(position: str) -> None:
    world = a_world()
    world.run({"cycle": 3})
    set_gate(world, position)
    world.run({"cycle": 3})
    assert set(world.preempted()) == ({"low"} if position == "Open" else set())


def test_a_new_reservation_ends_the_request_for_the_gate() -> None:
    world = a_world()
    world.run({"cycle": 3})
    set_gate(world, "Open")
    world.run({"cycle": 3})
    world.run({"evictionDone": ["low"]})
    world.run({"cycle": 3})
    assert c.has_quota_reservation(world.workloads["high"])
    assert not is_true(world.workloads["high"].status.conditions, c.BLOCKED_ON_PREEMPTION_GATES)


def test_gates_are_not_obeyed_without_the_feature() -> None:
    world = a_world(obeyed=False)
    world.run({"cycle": 3})
    assert set(world.preempted()) == {"low"}
