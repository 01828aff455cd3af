"""``blockAdmission`` with scope SameFlavors: which workloads are blocked, and until when."""

from typing import Any

from hypothesis import given

from quorate.api.meta import Key
from quorate.queueing import conditions as c
from quorate.queueing.decisions import Hold
from quorate.queueing.explain import why_pending
from quorate.queueing.inadmissible_reasons import AwaitingPodsReady
from tests.queueing.notation import Json
from tests.queueing.test_laws import worlds
from tests.queueing.world import World

SAME_FLAVORS: Json = {"timeout": "60s", "blockAdmission": True, "blockAdmissionScope": "SameFlavors"}


def a_world(*workloads: Json, **queues: list[str]) -> World:
    """Return cluster queues with 4 cpu of each of their flavors, and no ready workload."""
    return World(
        {
            "config": {"waitForPodsReady": SAME_FLAVORS},
            "flavors": sorted({flavor for flavors in queues.values() for flavor in flavors}),
            "clusterQueues": {
                name: {"quota": [{flavor: {"cpu": 4}} for flavor in flavors]}
                for name, flavors in queues.items()
            },
            "workloads": list(workloads),
        }
    )


def run_until_idle(world: World) -> None:
    """Run cycles and write decisions until there are none."""
    world.settle()
    while decisions := world.admission_cycle.run(world.now).decisions:
        world.carry_out(decisions)
        world.settle()


def flavors_of(world: World) -> dict[str, set[str]]:
    return {
        name: {flavor for pods in admission.pod_set_assignments for flavor in pods.flavors.values()}
        for name, admission in world.admitted().items()
    }


def w(name: str, queue: str, cpu: int = 1, **fields: Any) -> Json:
    return {"name": name, "queue": queue, "requests": {"cpu": cpu}, **fields}


def test_an_unready_workload_does_not_block_other_flavors() -> None:
    world = a_world(
        w("a1", "a"), w("a2", "a", created=1), w("b1", "b"), w("b2", "b", created=1), a=["spot"], b=["gpu"]
    )
    run_until_idle(world)
    assert list(world.admitted()) == ["a1", "b1"]
    hold = why_pending(world.state, Key("default", "a2"))
    assert hold is not None
    assert (hold.condition_reason, hold.reasons) == (
        "Waiting",
        (AwaitingPodsReady(Key("default", "a1"), "spot"),),
    )


def test_an_unready_workload_blocks_its_flavor_in_all_queues_and_cohorts() -> None:
    world = a_world(w("a1", "a"), w("b1", "b", created=1), a=["spot"], b=["spot"])
    run_until_idle(world)
    assert list(world.admitted()) == ["a1"]
    world.run({"podsReady": {"a1": True}})
    run_until_idle(world)
    assert list(world.admitted()) == ["a1", "b1"]


def test_a_workload_blocked_in_one_flavor_tries_the_next_one() -> None:
    world = a_world(w("a1", "a"), w("a2", "a", created=1), w("a3", "a", created=2), a=["spot", "ondemand"])
    run_until_idle(world)
    assert flavors_of(world) == {"a1": {"spot"}, "a2": {"ondemand"}}


def test_a_deleted_workload_blocks_no_other() -> None:
    world = a_world(w("a1", "a"), w("b1", "b", created=1), a=["spot"], b=["spot"])
    run_until_idle(world)
    world.run({"delete": ["a1"]})
    run_until_idle(world)
    assert list(world.admitted()) == ["b1"]


def test_a_workload_that_loses_a_pod_blocks_again() -> None:
    world = a_world(w("a1", "a"), w("b1", "b", create="later"), a=["spot"], b=["spot"])
    run_until_idle(world)
    world.run({"podsReady": {"a1": True}})
    run_until_idle(world)
    world.run({"podsReady": {"a1": False}})
    run_until_idle(world)
    world.run({"create": ["b1"]})
    run_until_idle(world)
    assert list(world.admitted()) == ["a1"]


def test_workloads_of_one_shape_are_evaluated_once() -> None:
    equal = [w(f"w{index}", "a", created=index) for index in range(50)]
    world = a_world(*equal, a=["spot"])
    decisions = world.admission_cycle.run(world.now).decisions
    assert sum(isinstance(decision, Hold) for decision in decisions) == 1


@given(given_=worlds(preempting=False))
def test_a_flavor_has_one_unready_workload_at_most_and_only_unready_ones_block(given_: Json) -> None:
    given_["config"]["waitForPodsReady"] = SAME_FLAVORS
    world = World(given_)
    for _ in range(len(world.workloads) + 1):
        run_until_idle(world)
        usages = [world.state.ledger.reservations[key].usage for key in world.state.ledger.unready]
        flavors = [flavor for usage in usages for flavor in {pair.flavor for pair in usage}]
        assert len(flavors) == len(set(flavors))
        for name in world.workloads:
            hold = why_pending(world.state, Key("default", name))
            for reason in hold.reasons if hold is not None else ():
                if isinstance(reason, AwaitingPodsReady):
                    assert reason.flavor in flavors
        world.run({"podsReady": {key.name: True for key in world.state.ledger.unready}})
    assert not world.state.ledger.unready
    run_until_idle(world)
    assert all(
        name in world.ready for name, workload in world.workloads.items() if c.has_quota_reservation(workload)
    )
