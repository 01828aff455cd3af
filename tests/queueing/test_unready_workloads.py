"""``blockAdmission`` among those that compete for the same flavors: who waits for whom, and until when."""

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
    """Cluster queues with 4 cpu of each of their flavors, and nobody ready."""
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


def rest(world: World) -> None:
    """Decide and carry out until nothing is left to do."""
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


def test_other_flavors_are_not_held_back() -> None:
    world = a_world(
        w("a1", "a"), w("a2", "a", created=1), w("b1", "b"), w("b2", "b", created=1), a=["spot"], b=["gpu"]
    )
    rest(world)
    assert list(world.admitted()) == ["a1", "b1"]
    hold = why_pending(world.state, Key("default", "a2"))
    assert hold is not None
    assert (hold.condition_reason, hold.reasons) == (
        "Waiting",
        (AwaitingPodsReady(Key("default", "a1"), "spot"),),
    )


def test_the_same_flavor_in_another_queue_and_cohort_is() -> None:
    world = a_world(w("a1", "a"), w("b1", "b", created=1), a=["spot"], b=["spot"])
    rest(world)
    assert list(world.admitted()) == ["a1"]
    world.run({"podsReady": {"a1": True}})
    rest(world)
    assert list(world.admitted()) == ["a1", "b1"]


def test_who_is_held_back_in_one_flavor_tries_the_next_one() -> None:
    world = a_world(w("a1", "a"), w("a2", "a", created=1), w("a3", "a", created=2), a=["spot", "ondemand"])
    rest(world)
    assert flavors_of(world) == {"a1": {"spot"}, "a2": {"ondemand"}}


def test_who_leaves_holds_nobody_back() -> None:
    world = a_world(w("a1", "a"), w("b1", "b", created=1), a=["spot"], b=["spot"])
    rest(world)
    world.run({"delete": ["a1"]})
    rest(world)
    assert list(world.admitted()) == ["b1"]


def test_who_loses_a_pod_holds_back_again() -> None:
    world = a_world(w("a1", "a"), w("b1", "b", create="later"), a=["spot"], b=["spot"])
    rest(world)
    world.run({"podsReady": {"a1": True}})
    rest(world)
    world.run({"podsReady": {"a1": False}})
    rest(world)
    world.run({"create": ["b1"]})
    rest(world)
    assert list(world.admitted()) == ["a1"]


def test_equal_workloads_are_judged_by_the_first_of_them() -> None:
    crowd = [w(f"w{index}", "a", created=index) for index in range(50)]
    world = a_world(*crowd, a=["spot"])
    decisions = world.admission_cycle.run(world.now).decisions
    assert sum(isinstance(decision, Hold) for decision in decisions) == 1


@given(given_=worlds(preempting=False))
def test_no_flavor_has_two_unready_and_nobody_waits_for_the_ready(given_: Json) -> None:
    given_["config"]["waitForPodsReady"] = SAME_FLAVORS
    world = World(given_)
    for _ in range(len(world.workloads) + 1):
        rest(world)
        usages = [world.state.ledger.reservations[key].usage for key in world.state.ledger.unready]
        holders = [flavor for usage in usages for flavor in {pair.flavor for pair in usage}]
        assert len(holders) == len(set(holders))
        for name in world.workloads:
            hold = why_pending(world.state, Key("default", name))
            for cause in hold.reasons if hold is not None else ():
                if isinstance(cause, AwaitingPodsReady):
                    assert cause.flavor in holders
        world.run({"podsReady": {key.name: True for key in world.state.ledger.unready}})
    assert not world.state.ledger.unready
    rest(world)
    assert all(
        name in world.ready for name, workload in world.workloads.items() if c.has_quota_reservation(workload)
    )
