"""Differences that the audit of the model finds, each caused by hand."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from quorate.api import codec
from quorate.api.kueue import ResourceQuota
from quorate.api.meta import Key
from quorate.api.quantity import Quantity
from quorate.queueing.decisions import Reserve
from quorate.queueing.model_audit import (
    ReservationMismatch,
    ReservationRecord,
    UntrackedWorkload,
)
from quorate.queueing.scheduling.cycle import AdmissionCycle
from quorate.queueing.state import State
from quorate.quota import tree
from quorate.quota.amount import FlavorResource
from quorate.quota.audit import Difference
from tests.queueing.world import World, differences

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
    assert differences(world.state, world.workloads.values()) == []


def test_an_assumed_reservation_is_no_difference() -> None:
    world = a_world()
    world.run({"finish": ["runs"]})
    assert world.admission_cycle.run(world.now).decisions
    assert differences(world.state, world.workloads.values()) == []


def test_a_job_without_pods_is_no_difference() -> None:
    world = World(
        {
            "flavors": ["default"],
            "clusterQueues": {"cq": {"quota": [{"default": {"cpu": 3}}]}},
            "workloads": [{"name": "none", "queue": "cq", "requests": {"cpu": 2}, "count": 0}],
        }
    )
    world.carry_out(world.admission_cycle.run(world.now).decisions)
    admission = world.workloads["none"].status.admission
    assert admission is not None
    # The reservation of another client, or of an earlier version, may name amounts of 0.
    (assignment,) = admission.pod_set_assignments
    named = replace(assignment, flavors={"cpu": "default"}, resource_usage={"cpu": Quantity(0)})
    stored = replace(admission, pod_set_assignments=(named,))
    world.put_status("none", replace(world.workloads["none"].status, admission=stored))
    world.state.ledger.reservations[Key("default", "none")].usage = {}
    assert differences(world.state, world.workloads.values()) == []


@pytest.mark.parametrize(
    ("nominal", "lending"),
    [pytest.param("-2", None, id="a negative quota"), pytest.param("0", "-3", id="a negative lending limit")],
)
def test_negative_quotas_are_no_difference(nominal: str, lending: str | None) -> None:
    world = a_world()
    cluster_queue = world.state.ledger.cluster_queues["cq"].object
    (group,) = cluster_queue.spec.resource_groups
    (flavor,) = group.flavors
    limits = {"name": "cpu", "nominalQuota": nominal} | ({"lendingLimit": lending} if lending else {})
    quota = codec.convert(ResourceQuota, limits)
    groups = (replace(group, flavors=(replace(flavor, resources=(quota,)),)),)
    for cohort in ("", "team", "other"):
        spec = replace(cluster_queue.spec, resource_groups=groups, cohort_name=cohort)
        world.state.put_cluster_queue(replace(cluster_queue, spec=spec))
        assert differences(world.state, world.workloads.values()) == []


def test_a_model_that_takes_over_another_keeps_what_no_object_tells() -> None:
    """A rebuilt model decides as the correct one would have, with the writes that are on their way."""
    world = World(
        {
            "flavors": ["default"],
            "clusterQueues": {"cq": {"quota": [{"default": {"cpu": 3}}]}},
            "workloads": [
                {"name": "first", "queue": "cq", "requests": {"cpu": 2}},
                {"name": "second", "queue": "cq", "requests": {"cpu": 2}, "created": 1},
            ],
        }
    )
    assert world.admission_cycle.run(world.now).decisions  # nothing is written: the first one is assumed
    fresh = State(world.configuration)
    for name in world.state.flavors.values():
        fresh.put_flavor(name)
    for queue in world.state.ledger.cluster_queues.values():
        fresh.put_cluster_queue(queue.object)
    for local_queue in world.state.ledger.local_queues.values():
        if local_queue.object is not None:
            fresh.put_local_queue(local_queue.object)
    for workload in world.workloads.values():
        fresh.put_workload(workload, world.now)
    count_usage_twice(world)
    world.state.replace_with(fresh)
    assert differences(world.state, world.workloads.values()) == []
    assert tree.used(world.node("cq"), CPU) == 2000
    reservation = world.state.ledger.reservations[Key("default", "first")]
    assert reservation.assumed is not None
    decided = AdmissionCycle(world.state).run(world.now).decisions
    assert [decision.key.name for decision in decided if isinstance(decision, Reserve)] == []
    world.state.forget(reservation.key)  # the write failed
    decided = AdmissionCycle(world.state).run(world.now).decisions
    assert [decision.key.name for decision in decided if isinstance(decision, Reserve)] == ["first"]


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
            [Difference("cq", CPU, "usage", 2500, 2000)],
            id="the sums are wrong",
        ),
    ],
)
@pytest.mark.parametrize("slice_size", [1, 2_000])
def test_a_difference_is_found(fault: Callable[[World], None], found: list[object], slice_size: int) -> None:
    world = a_world()
    fault(world)
    assert differences(world.state, world.workloads.values(), slice_size) == found
