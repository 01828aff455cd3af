"""The preemption history of a new process, restored from the stored workloads."""

from quorate.queueing.conditions import has_quota_reservation
from quorate.queueing.decisions import Reserve
from quorate.queueing.restored_history import (
    restore_preemption_history,
    stored_preemption,
)
from quorate.queueing.scheduling.cycle import AdmissionCycle
from quorate.queueing.state import State
from tests.queueing.world import World


def loop_world() -> World:
    """Return the loop of decision 5: ``own`` reclaims from ``lent``, ``rival`` preempts ``own``."""
    a = {
        "cohort": "all",
        "preemption": {
            "reclaimWithinCohort": "Any",
            "borrowWithinCohort": {"policy": "LowerPriority"},
            "withinClusterQueue": "LowerPriority",
        },
        "quota": [{"default": {"cpu": 1}}],
    }
    return World(
        {
            "flavors": ["default"],
            "clusterQueues": {"a": a, "b": {"cohort": "all", "quota": [{"default": {"cpu": 1}}]}},
            "workloads": [
                {"name": "lent", "queue": "b", "priority": 2, "requests": {"cpu": 2}, "admitted": "default"},
                {"name": "own", "queue": "a", "created": 1, "requests": {"cpu": 1}},
                {"name": "rival", "queue": "a", "created": 2, "priority": 1, "requests": {"cpu": 2}},
            ],
        }
    )


def preemptions(world: World) -> list[str]:
    """Run until nothing changes; return the preempted workloads in order."""
    found: list[str] = []
    for _ in range(20):
        world.now += 10
        decisions = world.admission_cycle.run(world.now).decisions
        world.carry_out(decisions)
        world.settle()
        evicted = sorted(name for name in world.preempted() if has_quota_reservation(world.workloads[name]))
        if not evicted and not any(isinstance(decision, Reserve) for decision in decisions):
            return found
        found += evicted
        if evicted:
            world.run({"evictionDone": evicted})
    raise AssertionError(f"preemption does not end: {found}")


def new_state(world: World) -> State:
    """Return a model of the stored objects, as a new process builds it."""
    old, state = world.state, State(world.configuration)
    state.put_namespace("default", {})
    for flavor in old.flavors.values():
        state.put_flavor(flavor)
    for queue in old.ledger.cluster_queues.values():
        state.put_cluster_queue(queue.object)
    for local_queue in old.ledger.local_queues.values():
        assert local_queue.object is not None
        state.put_local_queue(local_queue.object)
    for workload in world.workloads.values():
        state.put_workload(workload, world.now)
    return state


def restart(world: World, *, restores: bool = True) -> None:
    world.state = new_state(world)
    world.admission_cycle = AdmissionCycle(world.state)
    if restores:
        restore_preemption_history(world.state.ledger, world.workloads.values())


def test_a_loop_stays_broken_in_a_rebuilt_model() -> None:
    world = loop_world()
    assert "own" in preemptions(world)
    world.state.replace_with(new_state(world))
    world.admission_cycle = AdmissionCycle(world.state)
    assert preemptions(world) == []


def test_a_loop_stays_broken_after_a_restart() -> None:
    world = loop_world()
    assert "own" in preemptions(world)
    assert preemptions(world) == []
    restart(world)
    assert preemptions(world) == []
    restart(world, restores=False)
    assert "own" in preemptions(world)


def test_a_later_external_event_ends_the_restored_history() -> None:
    world = loop_world()
    preemptions(world)
    restart(world)
    assert preemptions(world) == []
    later = world.now + 100
    world.given["workloads"].append({"name": "w", "queue": "b", "created": later, "requests": {"cpu": 9}})
    world.create("w")
    restart(world)
    assert "own" in preemptions(world)


def test_the_last_preemptor_is_read_from_the_condition() -> None:
    world = loop_world()
    preemptions(world)
    (own,) = [each for each in world.workloads.values() if each.metadata.name == "own"]
    stored = stored_preemption(own)
    assert stored is not None
    assert stored.preemptor == world.workloads["rival"].metadata.uid
    assert stored_preemption(world.workloads["rival"]) is None
