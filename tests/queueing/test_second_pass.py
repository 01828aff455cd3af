"""The queue of workloads that have quota and lack places, and what is told of them."""

import math

import pytest
from msgspec.structs import replace

from quorate.api.meta import Key, OwnerReference, Uid
from quorate.api.names.multikueue import CONTROLLER as MULTIKUEUE
from quorate.queueing.conditions import NODE_FAILURES
from quorate.queueing.decisions import AssignTopology, Decision, Reserve
from quorate.queueing.explain import pending_facts, run
from quorate.queueing.explanation.workload import explain_workload
from quorate.queueing.lifecycle.statuses import evict_status
from quorate.queueing.pending.second_pass_queue import SecondPassNeed, SecondPassQueue
from quorate.queueing.scheduling.second_pass_places import SecondPassPlaces
from tests.queueing.notation import Json
from tests.queueing.world import World

W, VICTIM = Key("default", "w"), Key("default", "victim")
DELAYED = SecondPassNeed(is_delayed=True)
GIVEN: Json = {
    "topologies": {"dc": {"levels": ["kubernetes.io/hostname"]}},
    "flavors": {"tas": {"topologyName": "dc", "nodeLabels": {"pool": "tas"}}},
    "nodes": {"a": {"labels": {"pool": "tas"}, "allocatable": {"cpu": 1, "pods": 10}}},
    "clusterQueues": {"cq": {"quota": [{"tas": {"cpu": 10}}], "admissionChecks": ["prov"]}},
    "workloads": [
        {
            "name": "w",
            "queue": "cq",
            "podSets": [{"count": 2, "requests": {"cpu": 1}, "topology": {"unconstrained": True}}],
        }
    ],
}


def a_world() -> World:
    """Return a world in which the workload w has quota and Ready checks."""
    world = World(GIVEN)
    world.run("cycle")
    world.run({"checks": {"w": {"prov": "Ready"}}})
    return world


def test_the_delays_double_up_to_30_seconds() -> None:
    queue = SecondPassQueue()
    queue.put(W, DELAYED)
    now, delays = 100.0, []
    for _ in range(7):
        assert queue.due(now) == [W]
        assert queue.fail(W, now)
        due = queue.next_at()
        assert due is not None
        delays.append(due - now)
        assert queue.due(due - 0.5) == []
        now = due
    assert delays == [1, 2, 4, 8, 16, 30, 30]


@pytest.mark.parametrize(
    ("need", "is_due"),
    [
        pytest.param(DELAYED, False, id="the same"),
        pytest.param(SecondPassNeed(("a",), True), True, id="another failed host"),
        pytest.param(None, False, id="nothing"),
    ],
)
def test_a_workload_that_lacks_something_else_begins_anew(need: SecondPassNeed | None, is_due: bool) -> None:
    queue = SecondPassQueue()
    queue.put(W, DELAYED)
    queue.fail(W, 100.0)
    queue.put(W, need)
    queue.begin_delays(99.0)
    assert bool(queue.due(100.0)) is is_due


def test_a_failed_host_may_recover_within_a_second() -> None:
    queue = SecondPassQueue()
    queue.put(W, SecondPassNeed(("a",)), may_recover=True)
    queue.begin_delays(100.0)
    assert queue.due(100.5) == []
    queue.begin_delays(100.5)
    assert queue.next_at() == 101.0
    assert queue.due(101.0) == [W]
    queue.put(W, None)
    assert queue.next_at() is None


def test_a_preemptor_is_tried_in_each_cycle_and_reported_at_its_times() -> None:
    queue = SecondPassQueue()
    queue.put(W, DELAYED)
    assert queue.fail(W, 100.0, [VICTIM])
    assert queue.due(100.0) == [W]
    assert not queue.fail(W, 100.0, [VICTIM])
    queue.released(VICTIM)
    assert queue.next_at() == -math.inf
    assert queue.fail(W, 100.0)
    assert queue.due(100.0) == []


def test_delays_survive_a_rebuilt_model() -> None:
    world = a_world()
    world.run("cycle")
    fresh = World(GIVEN).state
    fresh.put_workload(world.workloads["w"], world.now)
    due = world.state.ledger.second_pass.next_at()
    world.state.replace_with(fresh)
    assert world.state.ledger.second_pass.next_at() == due == world.now + 1


def test_pods_that_run_in_a_worker_cluster_get_no_places_here() -> None:
    world = World({**GIVEN, "nodes": {}, "admissionChecks": {"prov": {"controller": MULTIKUEUE}}})
    world.run("cycle")
    world.run({"checks": {"w": {"prov": "Ready"}}})
    admission = world.workloads["w"].status.admission
    assert admission is not None
    assert [each.delayed_topology_request for each in admission.pod_set_assignments] == ["Pending"]
    assert world.admission_cycle.run(world.now).decisions == ()


def test_a_workload_without_places_is_held_with_the_numbers() -> None:
    world = a_world()
    workload, state = world.workloads["w"], world.state
    found = explain_workload(state, workload, run(pending_facts(state, W)))
    text = 'topology "dc" allows to fit only 1 out of 2 pod(s)'
    assert found.state == "Held"
    assert found.message.startswith("it has quota, and waits for places of its pods in the topology: ")
    assert text in found.message
    assert found.enough == ("wait for room in the topology, or change the topology request of pod set main",)


def test_an_internal_error_delays_only_its_workload(monkeypatch: pytest.MonkeyPatch) -> None:
    world = a_world()

    def fail(self: SecondPassPlaces) -> None:
        raise KeyError("no such tree")

    monkeypatch.setattr(SecondPassPlaces, "find", fail)
    result = world.admission_cycle.run(world.now)
    assert [fault.key for fault in result.faults] == [W]
    assert result.wake_at == world.now + 1
    assert result.decisions == ()


WAITS: Json = {
    "state": "QuotaReserved",
    "podSets": {"main": {"count": 1, "flavors": {"cpu": "tas"}, "topology": {"a": 1}}},
}


@pytest.mark.parametrize(
    ("pods", "admitted", "want"),
    [
        pytest.param(1, {}, "a", id="a pod that has started, whether or not it is the controller"),
        pytest.param(1, {"admitted": WAITS}, "b", id="a pod that waits for a check"),
        pytest.param(2, {}, "b", id="two pods"),
    ],
)
def test_a_single_pod_that_has_started_keeps_its_failed_host(pods: int, admitted: Json, want: str) -> None:
    node = {"labels": {"pool": "tas"}, "allocatable": {"cpu": 1, "pods": 10}}
    pod_set = {"count": 1, "requests": {"cpu": 1}, "topology": {"unconstrained": True}}
    world = World(
        {
            **GIVEN,
            "nodes": {"a": node, "b": node},
            "clusterQueues": {"cq": {"quota": [{"tas": {"cpu": 10}}]}},
            "workloads": [{"name": "w", "queue": "cq", "podSets": [pod_set], **admitted}],
        }
    )
    owners = tuple(
        OwnerReference(api_version="v1", kind="Pod", name=f"p{at}", uid=Uid(f"p{at}")) for at in range(pods)
    )
    workload = world.workloads["w"]
    world.put("w", replace(workload, metadata=replace(workload.metadata, owner_references=owners)))
    world.run("cycle")
    world.run({"update": {"nodes": {"a": {"ready": False}}}})
    world.run({"unhealthy": {"w": ["a"]}})
    world.run({"advance": "2s"})
    world.run("cycle")
    admission = world.workloads["w"].status.admission
    assert admission is not None
    places = admission.pod_set_assignments[0].topology_assignment
    assert places is not None
    assert [values for values, _ in places.domains()] == [(want,)]


NODE: Json = {"labels": {"pool": "tas"}, "allocatable": {"cpu": 1, "pods": 10}}


def a_world_with_a_decided_second_pass() -> tuple[World, tuple[Decision, ...]]:
    """Return a world in which ``w`` is decided to move from a to b; ``waits`` needs one of both."""
    pod_set = {"count": 1, "requests": {"cpu": 1}, "topology": {"unconstrained": True}}
    world = World(
        {
            **GIVEN,
            "nodes": {"a": NODE},
            "clusterQueues": {"cq": {"quota": [{"tas": {"cpu": 10}}]}},
            "workloads": [
                {"name": "w", "queue": "cq", "podSets": [pod_set]},
                {"name": "waits", "queue": "cq", "podSets": [pod_set], "created": 1, "create": "later"},
            ],
        }
    )
    world.run("cycle")
    world.run({"unhealthy": {"w": ["a"]}})
    world.run({"update": {"nodes": {"b": NODE}}})
    world.run({"create": ["waits"]})
    world.state.ledger.second_pass.begin_delays(world.now)
    world.now += 2
    decisions = world.admission_cycle.run(world.now).decisions
    assert [decision.key for decision in decisions if isinstance(decision, AssignTopology)] == [W]
    return world, decisions


def hosts_of(world: World) -> dict[str, str]:
    admissions = {name: each.pod_set_assignments[0] for name, each in world.admitted().items()}
    return {
        name: values[-1]
        for name, assigned in admissions.items()
        if assigned.topology_assignment is not None
        for values, _ in assigned.topology_assignment.domains()
    }


def test_the_places_that_a_second_pass_replaces_are_free_once_it_is_written() -> None:
    """Its write may be refused, and others may be stored before it."""
    world, decisions = a_world_with_a_decided_second_pass()
    assert [decision.key.name for decision in decisions if isinstance(decision, Reserve)] == []
    world.carry_out(decisions)
    world.run("cycle")
    assert hosts_of(world) == {"w": "b", "waits": "a"}


def test_a_write_of_another_controller_keeps_the_places_of_a_second_pass_that_is_not_written() -> None:
    world, decisions = a_world_with_a_decided_second_pass()
    w = world.workloads["w"]
    world.put_status("w", replace(w.status, conditions=w.status.conditions[:1]))
    assert world.admission_cycle.run(world.now).decisions == ()
    assert world.state.ledger.second_pass.next_at() is None
    world.carry_out(decisions)
    world.run("cycle")
    assert hosts_of(world) == {"w": "b", "waits": "a"}


def test_a_model_that_is_built_anew_keeps_the_places_of_a_second_pass_that_is_not_written() -> None:
    world, _ = a_world_with_a_decided_second_pass()
    fresh = World({**GIVEN, **world.given}).state
    for workload in world.workloads.values():
        fresh.put_workload(workload, world.now)
    world.state.replace_with(fresh)
    decisions = world.admission_cycle.run(world.now).decisions
    assert [each for each in decisions if isinstance(each, AssignTopology | Reserve)] == []


def test_a_refused_second_pass_is_decided_again() -> None:
    world, _ = a_world_with_a_decided_second_pass()
    world.state.forget(W)
    assert world.state.ledger.second_pass.need(W) == SecondPassNeed(("a",), False)
    assert [place.values for place in world.state.ledger.reservations[W].places.all] == [("a",)]


def test_an_eviction_supersedes_a_second_pass_that_is_not_written() -> None:
    world, _ = a_world_with_a_decided_second_pass()
    world.put_status(
        "w", evict_status(world.workloads["w"], NODE_FAILURES, "", world.now, counted_as=("", ""))
    )
    assert [place.values for place in world.state.ledger.reservations[W].places.all] == [("a",)]
